//! Fuzz target: `decoders::rows`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::rows::run(data));
