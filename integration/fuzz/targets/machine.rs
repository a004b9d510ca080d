//! Fuzz target: `decoders::machine`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::machine::run(data));
