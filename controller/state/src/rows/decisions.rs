//! Rows of the decision log.

use proto_model::{JobId, JobUid, Phase, Reason, Timestamp};

/// What was decided of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRecord {
    /// Which.
    pub id: JobId,
    /// Which.
    pub uid: JobUid,
    /// The phase that it is in since.
    pub phase: Phase,
    /// Which attempt.
    pub attempt: u32,
    /// Why.
    pub reasons: Vec<Reason>,
    /// Nodes of its placement; 0 without one.
    pub nodes: u32,
    /// The same for equal placements; 0 without one.
    pub digest: u64,
}

/// The decisions of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRow {
    /// Numbers rows; grows.
    pub seq: u64,
    /// When.
    pub time: Timestamp,
    /// What.
    pub records: Vec<DecisionRecord>,
    /// Further decisions of the step that are not recorded.
    pub omitted: u32,
}
