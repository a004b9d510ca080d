//! Fuzz target: `decoders::gnmi`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::gnmi::run(data));
