//! Fuzz target: `decoders::netlink`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::netlink::run(data));
