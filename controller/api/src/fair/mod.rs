//! Fairness between tenants at the door: seats for calls at work, queues for those that wait, bounds for streams.
//!
//! Agents, probes and whoever asks for the health pass by it: a tenant's storm must not hide how the cluster is.

mod gate;
mod queue;
#[cfg(test)]
mod tests;

pub use gate::{Gate, Seat, StreamPlace};
pub use queue::{FairLimits, Flow};
