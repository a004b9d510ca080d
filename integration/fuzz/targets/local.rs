//! Fuzz target: `decoders::local`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::local::run(data));
