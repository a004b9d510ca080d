//! Fuzz target: `decoders::wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::wire::run(data));
