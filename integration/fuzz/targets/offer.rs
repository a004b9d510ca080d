//! Fuzz target: `decoders::offer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::offer::run(data));
