//! Fuzz target: `decoders::qos`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::qos::run(data));
