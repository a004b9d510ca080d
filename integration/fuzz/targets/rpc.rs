//! Fuzz target: `decoders::rpc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::rpc::run(data));
