//! Fuzz target: `decoders::audit`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::audit::run(data));
