//! Fuzz target: `decoders::steps`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::steps::run(data));
