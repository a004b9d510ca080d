//! Fuzz target: `decoders::inventory`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::inventory::run(data));
