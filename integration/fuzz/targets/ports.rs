//! Fuzz target: `decoders::ports`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::ports::run(data));
