//! Fuzz target: `decoders::yaml`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::yaml::run(data));
