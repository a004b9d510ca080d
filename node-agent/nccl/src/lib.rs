//! librail_nccl_net.so: NCCL's network plugin over the engine's rails.
//!
//! NCCL runs in the rank's process, which never touches a NIC. Its connections become messages between ranks that the engines of the job
//! carry, so that striping over rails and the failure of a rail happen beneath NCCL.
//!
//! - [`core`] is the protocol of connections as a pure state machine: no memory, no clock, no socket.
//! - [`abi`] is what NCCL loads: one table for each version of its interface, thin, over the same entries.
//! - [`tuner`] is what NCCL takes for a collective, by what the job's rails cost.
//! - [`profiler`] is what a rank waits for, and when.
//! - between them one attached rank for each process does what the core says: it notifies other ranks, and moves bytes.
//!
//! There is one device for each job. What goes through it takes all rails, by capacity; so no rail that dies is noticed by NCCL, and none
//! of NCCL's own ways to merge or replace NICs is needed.

pub mod abi;
mod attached;
pub mod core;
mod drainer;
mod error;
mod exit;
mod memory;
mod process;
pub mod profiler;
mod properties;
mod state;
pub mod tuner;

pub use error::{Code, NetError};
