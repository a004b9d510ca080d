//! Fuzz target: `decoders::oidc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::oidc::run(data));
