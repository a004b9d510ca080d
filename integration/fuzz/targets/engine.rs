//! Fuzz target: `decoders::engine`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::engine::run(data));
