//! Fuzz target: `decoders::servers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::servers::run(data));
