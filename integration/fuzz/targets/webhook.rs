//! Fuzz target: `decoders::webhook`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::webhook::run(data));
