//! Fuzz target: `decoders::switch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::switch::run(data));
