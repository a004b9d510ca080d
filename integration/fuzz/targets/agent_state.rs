//! Fuzz target: `decoders::agent_state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| decoders::agent_state::run(data));
