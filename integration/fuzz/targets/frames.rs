//! Fuzz target: `decoders::frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::frames::run(data));
