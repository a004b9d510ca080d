//! rail-node-agent: the link to the controller, and the supervisors of jobs.
//!
//! `agent` is the process that talks to the controller; `supervisor` is the process that holds one attempt of one job and
//! outlives the agent. They share the files below the data directory and one socket for each attempt. Decisions are made
//! in `node-agent-core`; here they are carried out.

pub mod agent;
pub mod cgroup;
pub mod cli;
pub mod files;
pub mod isolation;
pub mod kept;
pub mod layout;
pub mod logs;
pub mod process;
pub mod qos;
pub mod rank_arguments;
pub mod rank_exec;
pub mod rank_program;
pub mod rank_uids;
pub mod rank_user;
pub mod saved;
mod saved_certify;
mod saved_health;
mod saved_rails;
pub mod step_frames;
pub mod supervisor;
