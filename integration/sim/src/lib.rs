//! The simulator: controllers' cores, a model of etcd, agents' and supervisors' cores, their processes and their clients,
//! driven by one seeded queue of events in virtual time; with faults, and invariants that are checked whenever anything
//! that they speak of changes.
//!
//! What is real: `controller-core` with its election and its standby's copy, `node-agent-core` (agent and supervisor).
//! What is a model: the shells around them, etcd, streams, engines, ranks, clients. The same seed gives the same run,
//! byte for byte.
//!
//! Invariants: no acknowledged job is lost or doubled, and a cancel, a deletion or a quota that was acknowledged stays
//! (C1, C6); no GPU or NIC is held twice, as stored and as used by processes (C2); nothing outside the present epoch is
//! stored or obeyed (C3, A3); quotas hold (C4); ranks start only when Running is stored, and never for a part of a gang
//! (C5); phases follow their graph, tries only grow (C7); what a standby takes over is what is stored (C9); when the
//! faults stop, everything settles (C11); processes outlive agents and controllers, nothing is started twice, killed
//! without being asked for, or left behind (A1, A2, A6); nothing is freed while a process of the attempt lives (A4);
//! each attempt leaves one usage record, in the transaction that frees what it held.

pub mod agent;
mod audit;
pub mod calls;
pub mod check;
pub mod cli;
pub mod client;
pub mod config;
pub mod controller;
pub mod etcd;
pub mod faults;
pub mod furnish;
pub mod lead;
pub mod lie;
pub mod network;
pub mod plant;
pub mod process;
pub mod prove;
mod queue;
pub mod report;
pub mod rng;
pub mod settle;
pub mod shrink;
#[cfg(test)]
mod tests;
pub mod usage;
pub mod world;

pub use cli::main_from_args;
pub use config::Config;
pub use plant::Bug;
pub use report::{Report, Violation};
pub use usage::UsageTally;
pub use world::run;
