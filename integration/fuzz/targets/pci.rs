//! Fuzz target: `decoders::pci`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::pci::run(data));
