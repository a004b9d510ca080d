//! Jobs: what they wait for, what stands in their way, what their nodes are to do, and what a gang has lost.

pub mod arrays;
pub mod attempt;
pub mod blame;
pub mod certify;
pub mod check;
pub mod decisions;
pub mod depend;
pub mod explain;
pub mod holds;
pub mod plan;
pub mod remap;
pub mod repair;
pub mod schedule;
pub mod schedules;
pub mod standing;
