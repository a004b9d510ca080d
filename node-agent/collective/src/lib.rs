//! Sans-IO collectives over many rails: schedules, chunk state machines, reduction kernels.
//!
//! Nothing in here reads a clock, opens a socket or starts a thread. An engine feeds a [`Machine`] with events
//! (posts of local ranks, frames, rail states, time) and polls it for frames to transmit and for completions.
//! Sizes are bytes unless a name says elements. Nodes, ranks and rails are counted from 0.
//!
//! [`order`] states the reduction order and where rounding happens: the result of an operation depends on
//! (inputs, operation, dtype, ranks and their grouping on nodes) alone. [`flow`] states why no schedule of
//! posts and frames can deadlock, and what bounds every buffer.

pub mod algorithm;
pub mod call;
pub mod error;
pub mod flow;
pub mod fold;
pub mod header;
pub mod kernel;
pub mod link;
pub mod machine;
pub mod memory;
#[cfg(test)]
mod model;
pub mod order;
pub mod plan;
pub mod schedule;
pub mod shape;
pub mod stripe;
pub mod units;

pub use algorithm::Algorithm;
pub use call::{Call, Dtype, OpKind, Operation, ReduceOp};
pub use error::{CallError, ConfigError, Failure, FrameError, RailCause};
pub use header::{HEADER_BYTES, Header};
pub use machine::{
    Command, Completion, Landing, LinkView, Machine, Notification, RailState, RailView, Ticket, Transmit,
};
pub use memory::{Arena, BufferId, Memory, Region};
pub use plan::{Choice, Plan};
pub use shape::Config;
pub use units::{Node, Rail, Rank, Time};
