//! Fuzz target: `decoders::probe`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::probe::run(data));
