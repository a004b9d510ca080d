//! Fuzz target: `decoders::handshake`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::handshake::run(data));
