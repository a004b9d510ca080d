//! Rows: what tables hold. Data, and what follows from one row alone.

pub mod audit;
pub mod decisions;
pub mod deleted;
pub mod job;
pub mod node;
pub mod proving;
pub mod records;
pub mod rollout;
pub mod schedules;
pub mod switch_rollout;
pub mod switches;
pub mod usage;
pub mod webhooks;
pub mod write;
