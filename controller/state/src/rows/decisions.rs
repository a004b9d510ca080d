//! Rows of the decision log.

use proto_model::{JobId, JobUid, Phase, Reason, Timestamp};

/// What was decided of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionRecord {
    /// The name of the job, with its tenant.
    pub id: JobId,
    /// The identity of the job; a name alone may have been another job's before.
    pub uid: JobUid,
    /// The phase that it is in since.
    pub phase: Phase,
    /// The attempt of the job, counted from 1.
    pub attempt: u32,
    /// Every cause, with its code and in words.
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
    /// When it happened, by the controller's clock.
    pub time: Timestamp,
    /// The decisions of one step, in order; never empty.
    pub records: Vec<DecisionRecord>,
    /// Further decisions of the step that are not recorded.
    pub omitted: u32,
}
