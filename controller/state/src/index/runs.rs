//! The jobs of schedules.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Job, JobUid, ScheduledRun, Timestamp};

use crate::rows::schedules::ScheduleKey;

/// The jobs of every schedule by when they were due; of schedules that are no more too, while there are jobs of theirs.
pub type Runs = BTreeMap<ScheduleKey, BTreeMap<Timestamp, BTreeSet<JobUid>>>;

/// Counts a job of a schedule, or counts it no more.
pub fn count_run(runs: &mut Runs, job: &Job, add: bool) {
    let Some(ScheduledRun { schedule, time }) = &job.status.schedule else { return };
    let key = (job.id.tenant.clone(), schedule.clone());
    if add {
        runs.entry(key).or_default().entry(*time).or_default().insert(job.uid);
        return;
    }
    let Some(times) = runs.get_mut(&key) else { return };
    if let Some(jobs) = times.get_mut(time) {
        jobs.remove(&job.uid);
        if jobs.is_empty() {
            times.remove(time);
        }
    }
    if times.is_empty() {
        runs.remove(&key);
    }
}
