//! Fuzz target: `decoders::launch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::launch::run(data));
