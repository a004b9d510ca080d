//! Generated from `proto/rail/agent_state/v1/switch_state.proto`.
#![allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]

include!(concat!(env!("OUT_DIR"), "/rail.agent_state.v1.rs"));
