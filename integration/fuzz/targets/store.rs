//! Fuzz target: `decoders::store`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::store::run(data));
