//! The rollout of class of service: its NICs, what it would do, and how far it is.

pub mod plan;
pub mod ports;
pub mod show;
