//! rail-node-agent: the link to the controller, and the supervisors of jobs.
//!
//! `agent` is the process that talks to the controller; `node-agent-supervisor` is the process that holds one attempt of one job and
//! outlives the agent. They share the files below the data directory and one socket for each attempt (`node-agent-attempt`). Decisions
//! are made in `node-agent-core`; here they are carried out.

pub mod agent;
pub mod arguments;
pub mod cli;
pub mod kept;
pub mod rank_arguments;
mod saved_health;
pub mod slurm;
