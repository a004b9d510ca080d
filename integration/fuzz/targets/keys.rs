//! Fuzz target: `decoders::keys`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::keys::run(data));
