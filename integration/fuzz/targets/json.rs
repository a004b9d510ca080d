//! Fuzz target: `decoders::json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::json::run(data));
