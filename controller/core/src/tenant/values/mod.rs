//! Secrets and configs: named values of a tenant that its jobs can have in their environment. `apply` makes, changes and removes them,
//! `resolve` makes a job's environment of them.
//!
//! Jobs only refer to them. Values are looked up when an attempt gets its place and go to agents with the desired state to prepare it, never into the
//! job. So that all ranks of a gang see the same, an attempt whose ranks have not started begins anew where what it refers to is changed. A job
//! that refers to what is not there any more is held when its turn comes, and goes on by itself once it is there again.

mod apply;

pub use apply::{MAX_OF_TENANT, MAX_VALUES};
pub use controller_state::error::values::{EnvFlaw, ValuesError};
