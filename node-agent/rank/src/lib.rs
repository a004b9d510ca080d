//! How a rank is started: the user it runs as, the namespaces and the control groups that it is in, and the step between a supervisor and
//! the rank's program.
//!
//! What is to be follows by pure functions of what was found (`isolation/plan.rs`, `cgroup/plan.rs`, `cgroup/limits.rs`); the rest does it.

pub mod cgroup;
pub mod exec;
pub mod ids;
pub mod isolation;
pub mod oom;
pub mod orders;
pub mod privileges;
pub mod probe;
pub mod program;
pub mod uids;
pub mod user;
