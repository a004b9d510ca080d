//! What is to be done with a schedule now: a function of the schedule, its runs and the time.

use controller_state::view::job::schedules::Run;
use proto_model::{Concurrency, History, JobSchedule, JobUid, Reason, ReasonCode, Timestamp};

/// Elements of an array in a template at most: a run is one step, and its writes one transaction.
pub(crate) const MAX_ELEMENTS: usize = 64;

/// Jobs that one step cancels at most; one of them may be two writes.
const CANCELLED: usize = 32;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScheduleAction {
    /// Nothing until the next time.
    Wait,
    /// Jobs of earlier runs, which a later one replaces.
    Cancel(Vec<JobUid>),
    /// Records of jobs that are more than are kept.
    Forget(Vec<JobUid>),
    /// A run that is due is not submitted.
    LeaveOut(Timestamp, Reason),
    /// A run is due.
    Submit(Timestamp),
}

/// What is to be done first. `runs`: the oldest first; `open`: whether a job has not been asked to end.
pub(crate) fn decide(
    schedule: &JobSchedule,
    runs: &[Run],
    open: impl Fn(JobUid) -> bool,
    now: Timestamp,
) -> ScheduleAction {
    let replaced = replaced(schedule, runs, open);
    if !replaced.is_empty() {
        return ScheduleAction::Cancel(replaced);
    }
    let forgotten = forgotten(schedule.history, runs);
    if !forgotten.is_empty() {
        return ScheduleAction::Forget(forgotten);
    }
    if schedule.suspended {
        return ScheduleAction::Wait;
    }
    // Of several that have passed the last one; never more than one.
    let last = schedule.cron.last_within(&schedule.zone, schedule.progress.checked_until, now);
    let Some(time) = last else { return ScheduleAction::Wait };
    if let Some(deadline) = schedule.starting_deadline.filter(|deadline| now.since(time) > *deadline) {
        let (late, allowed) = (now.since(time).as_secs(), deadline.as_secs());
        let message =
            format!("no controller led for {late} s from its time on, and it may be {allowed} s late");
        return ScheduleAction::LeaveOut(time, Reason::new(ReasonCode::TooLate, message));
    }
    let active = runs.iter().rev().find(|run| run.ended.is_none());
    match (schedule.concurrency, active) {
        (Concurrency::Forbid, Some(run)) => {
            let message = format!("the run of {} has not ended", run.time.utc());
            ScheduleAction::LeaveOut(time, Reason::new(ReasonCode::StillRunning, message))
        }
        _ => ScheduleAction::Submit(time),
    }
}

/// Of a schedule whose runs replace each other: jobs of all runs but the last that nobody has asked to end.
fn replaced(schedule: &JobSchedule, runs: &[Run], open: impl Fn(JobUid) -> bool) -> Vec<JobUid> {
    if schedule.concurrency != Concurrency::Replace {
        return Vec::new();
    }
    let earlier = runs.split_last().map_or(&[][..], |(_, earlier)| earlier);
    let active = earlier.iter().filter(|run| run.ended.is_none());
    active.flat_map(|run| run.jobs.iter().copied()).filter(|uid| open(*uid)).take(CANCELLED).collect()
}

/// Records of the oldest runs beyond what is kept, whole runs; those that others wait for stay.
fn forgotten(history: History, runs: &[Run]) -> Vec<JobUid> {
    let mut jobs = Vec::new();
    for (completed, kept) in [(true, history.completed), (false, history.failed)] {
        let ended: Vec<&Run> = runs.iter().filter(|run| run.ended == Some(completed)).collect();
        let more = ended.len().saturating_sub(kept as usize);
        for run in ended.into_iter().take(more).filter(|run| !run.needed) {
            if !jobs.is_empty() && jobs.len() + run.jobs.len() > MAX_ELEMENTS {
                return jobs;
            }
            jobs.extend(run.jobs.iter().copied());
        }
    }
    jobs
}
