//! Fuzz target: `decoders::nccl`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::nccl::run(data));
