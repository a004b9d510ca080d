//! Which run of which schedule a job is.

use crate::{ScheduleName, Timestamp};

/// Which run of which schedule a job is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScheduledRun {
    /// The schedule, in the job's tenant.
    pub schedule: ScheduleName,
    /// The time at which the run was due.
    pub time: Timestamp,
}
