//! The simulator: the controller's core, a model of its store, the agents' and supervisors' cores, their processes
//! and their clients, driven by one seeded queue of events in virtual time; with faults, and invariants that are
//! checked whenever anything that they speak of changes.
//!
//! What is real: `controller-core`, `node-agent-core` (agent and supervisor). What is a model: the shells around
//! them, the store's transactions, streams, engines, ranks, clients. The same seed gives the same run, byte for byte.
//!
//! Invariants (reference: reliability, 2.3): no acknowledged job is lost or doubled; no GPU or NIC is held twice, as
//! stored and as used by processes; nothing is freed while a process of the try lives; ranks start only when Running
//! is stored, and never for a part of a gang; phases follow their graph, tries only grow; quotas hold; nothing
//! outside the present epoch is stored or obeyed; when the faults stop, everything settles.

pub mod agent;
pub mod check;
pub mod cli;
pub mod client;
pub mod config;
pub mod controller;
pub mod faults;
pub mod network;
pub mod process;
pub mod report;
pub mod rng;
pub mod store;
#[cfg(test)]
mod tests;
pub mod world;

pub use cli::main_from_args;
pub use config::{Bug, Config};
pub use report::{Report, Violation};
pub use world::run;
