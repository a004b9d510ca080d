//! What can be read from the tables. Nothing here changes them.

pub mod audit;
pub mod cluster;
pub mod explained;
pub mod job;
pub mod map;
pub mod node;
pub mod query;
pub mod rail;
pub mod rollout;
pub mod tenant;
pub mod usage;
