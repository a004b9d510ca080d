//! Fuzz target: `decoders::trace`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::trace::run(data));
