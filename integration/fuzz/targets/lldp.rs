//! Fuzz target: `decoders::lldp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::lldp::run(data));
