//! Schedules of jobs, and when each is looked at again.

use std::sync::Arc;

use proto_model::{JobSchedule, ScheduleName, TenantName, Timestamp};

/// Whose, and which.
pub type ScheduleKey = (TenantName, ScheduleName);

/// A schedule, and when it is looked at again.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleEntry {
    /// What is stored of it.
    pub schedule: Arc<JobSchedule>,
    /// When it is looked at again; not stored. `None`: not before something changes.
    pub due: Option<Timestamp>,
}

impl ScheduleEntry {
    /// It is looked at when its next run is due.
    pub fn waiting(schedule: Arc<JobSchedule>) -> Self {
        let due = schedule.next_after(schedule.progress.checked_until);
        Self { schedule, due }
    }
}
