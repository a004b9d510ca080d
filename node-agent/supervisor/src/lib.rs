//! The supervisor: one process per attempt of a job, which outlives the agent. It starts the engine and the ranks, keeps
//! their output, records how they end, and ends them; the decisions are `node_agent_core::supervisor`'s.

pub mod control;
mod engine;
pub mod environment;
mod link;
mod nccl;
mod ports;
mod rails;
mod ranks;
mod run;
mod shell;
mod steps;

pub use run::{SupervisorError, run};
