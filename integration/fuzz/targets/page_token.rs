//! Fuzz target: `decoders::page_token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::page_token::run(data));
