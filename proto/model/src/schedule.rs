//! Schedules: jobs that start by the clock.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    Authority, Cron, JobName, JobSpec, NameError, Reason, ScheduleName, TenantName, Timestamp, Zone,
};

word!(
    /// What becomes of a run whose time comes while an earlier one has not ended.
    Concurrency {
        /// It is submitted beside the earlier one.
        Allow = "allow",
        /// The run is left out.
        Forbid = "forbid",
        /// It is submitted, and the earlier one is cancelled.
        Replace = "replace",
    }
);

/// How many records of runs that have ended are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Runs that have completed.
    pub completed: u32,
    /// Runs that have ended otherwise.
    pub failed: u32,
}

impl History {
    /// Records of each kind at most.
    pub const MAX: u32 = 100;
}

impl Default for History {
    fn default() -> Self {
        Self { completed: 3, failed: 1 }
    }
}

/// A schedule of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSchedule {
    /// The tenant that the schedule belongs to.
    pub tenant: TenantName,
    /// Its name, unique within the tenant.
    pub name: ScheduleName,
    /// Identifier of this very schedule; a later one of the same name has another.
    pub uid: String,
    /// Counts changes of what was asked for.
    pub generation: u64,
    /// When it was made.
    pub created: Timestamp,
    /// The times at which runs are due.
    pub cron: Cron,
    /// The time zone of these times.
    pub zone: Zone,
    /// Labels of each run's job.
    pub labels: BTreeMap<String, String>,
    /// The job that each run submits.
    pub job: Arc<JobSpec>,
    /// What becomes of a run beside an earlier one.
    pub concurrency: Concurrency,
    /// A run that is later than this is left out; `None`: however late.
    pub starting_deadline: Option<Duration>,
    /// No run is submitted while this is set.
    pub suspended: bool,
    /// How many records of past runs are kept.
    pub history: History,
    /// By whose authority its jobs are submitted; `None` only in a document that nobody has applied yet.
    pub owner: Option<Authority>,
    /// Which runs were due, and how they ended.
    pub progress: ScheduleProgress,
}

/// How far a schedule has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScheduleProgress {
    /// What was due until then is dealt with.
    pub checked_until: Timestamp,
    /// The last run that was submitted: its time and its job.
    pub last: Option<(Timestamp, JobName)>,
    /// Runs that were submitted.
    pub submitted: u64,
    /// Runs that were left out.
    pub left_out: u64,
    /// Why the last of these was, and since when it would have been due.
    pub last_left_out: Option<Reason>,
}

impl JobSchedule {
    /// The longest starting deadline.
    pub const LONGEST_DEADLINE: Duration = Duration::from_secs(366 * 86_400);

    /// When the first run after `after` is due; `None` where none is within years, or while it is suspended.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        if self.suspended { None } else { self.cron.next_after(&self.zone, after) }
    }

    /// The name of the job of a run, the same whoever works it out: two controllers cannot make one run two jobs.
    ///
    /// # Errors
    /// The name would be too long: not with a time before the year 10000.
    pub fn run_name(&self, time: Timestamp) -> Result<JobName, NameError> {
        let digits: String = time.utc().chars().filter(char::is_ascii_digit).collect();
        let (day, clock) = digits.split_at_checked(8).unwrap_or((&digits, ""));
        JobName::new(format!("{}-{day}-{}", self.name, clock.get(..4).unwrap_or(clock)))
    }

    /// Whether runs of both are due at the same times.
    #[must_use]
    pub fn is_due_as(&self, other: &Self) -> bool {
        (&self.cron, &self.zone, self.suspended) == (&other.cron, &other.zone, other.suspended)
    }

    /// Whether both ask for the same.
    #[must_use]
    pub fn asks_the_same(&self, other: &Self) -> bool {
        let run =
            (&self.labels, &self.job, self.concurrency) == (&other.labels, &other.job, other.concurrency);
        let rest = (self.starting_deadline, self.history) == (other.starting_deadline, other.history);
        self.is_due_as(other) && run && rest
    }
}
