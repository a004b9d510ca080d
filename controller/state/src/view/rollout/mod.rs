//! Rollouts, to NICs (class of service) and to switches: what is changed, what a rollout would do, and how far it is.

pub mod plan;
pub mod ports;
mod sessions;
pub mod show;
pub mod switch_show;
pub mod switches;
