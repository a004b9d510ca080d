//! Fuzz target: `decoders::topology`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::topology::run(data));
