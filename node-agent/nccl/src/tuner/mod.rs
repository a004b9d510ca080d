//! The tuner: which algorithm and protocol NCCL takes for a collective, by what the job's rails cost.
//!
//! All ranks of a communicator must choose alike, so what rails cost is agreed when the communicator is made ([`node_agent_client::Client::agree`])
//! and stays for its life. NCCL says what an algorithm costs on its GPUs and on a network that is as fast as its ports; what it costs on the rails is
//! added to that, by the engine's own model of collectives.

mod communicators;
mod cost;

pub(crate) use communicators::{begin, choose, end};
pub use cost::{Collective, Communicator, advise};
