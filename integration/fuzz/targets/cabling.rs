//! Fuzz target: `decoders::cabling`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::cabling::run(data));
