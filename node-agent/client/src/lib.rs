//! The rank's side: attach to the engine and call collectives.
//!
//! ```no_run
//! use node_agent_client::{Client, ReduceOp};
//!
//! # fn main() -> Result<(), node_agent_client::Error> {
//! let client = Client::from_env()?;
//! let mut gradients = vec![client.rank() as f32; 1 << 20];
//! client.all_reduce(&mut gradients, ReduceOp::Sum)?;
//! client.detach()
//! # }
//! ```
//!
//! - [`Client`]: one attached rank; thread-safe. Every collective must be called by all ranks in the same order.
//! - Ranks of a job on one server do collectives themselves in shared memory; else their engines do.
//! - Calls over ordinary slices ([`Client::all_reduce`] and its siblings) copy through a staging buffer.
//! - [`Client::begin`] does so without waiting, and takes operands in either kind of memory.
//! - [`Client::post`] works on shared [`Buffer`]s without such a copy and returns a [`Pending`] to wait for.
//! - [`Client::register`] takes memory of a GPU, for operands there; every call says which way its bytes took ([`TransferPath`]).
//! - [`Client::notify`] gives another rank a few words that need no call of it, [`Client::poll_notification`] takes what came so.
//! - Every call ends by the engine's time limit, or the one set by [`Client::set_timeout`].

mod attach;
mod board;
mod buffer;
mod client;
mod error;
mod gpu;
mod link;
mod notification;
mod notify;
mod patience;
mod pending;
mod register;
mod staged;
mod staging;
mod work;

pub use attach::Attach;
pub use buffer::{Buffer, BufferOffset};
pub use client::Client;
pub use error::Error;
pub use gpu::{GpuBuffer, GpuPlace, TransferPath};
pub use node_agent_collective::call::UnknownName;
pub use node_agent_collective::{Call, Dtype, OpKind, Operation, ReduceOp};
pub use node_agent_gpu::export::{ExportError, Gpus};
pub use node_agent_ipc::{Element, Failure, FailureCode, RailBytes, RailModel, RailSpeed, Welcome};
pub use notification::Notification;
pub use notify::Subscription;
pub use pending::Pending;
pub use staged::{Begun, Source, Target};
pub use work::{Operands, Work};
