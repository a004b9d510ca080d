//! Small jobs that may run for long as the queue and a pass find them: which jobs are some, what they hold, and who waits for that. See
//! [`proto_model::LongJobLimit`].

use proto_model::LongJobLimit;

use crate::{
    entry::Entry,
    pass::Pass,
    tables::QueueState,
    why::{WaitCause, WaitReasons},
};

impl QueueState {
    /// The limit of long small jobs, if a job is one.
    pub(crate) fn long_limit(&self, entry: &Entry) -> Option<LongJobLimit> {
        self.policy.long_jobs.filter(|limit| limit.counts(entry.gpus(entry.need.nodes), entry.limit))
    }

    /// GPUs that long small jobs hold.
    fn held_by_long_jobs(&self) -> u64 {
        let long = self.running_all().filter(|(entry, _)| self.long_limit(entry).is_some());
        long.map(|(_, gpus)| *gpus).sum()
    }
}

impl Pass<'_> {
    /// That long small jobs hold too much together for one to start now.
    pub(crate) fn say_long_jobs(&self, entry: &Entry, asked: u64, why: &mut WaitReasons) {
        let queue_state = self.queue_state;
        let Some(limit) = queue_state.long_limit(entry) else { return };
        let begun = self.begun.jobs.iter().filter(|other| queue_state.long_limit(other).is_some());
        let begun = begun.map(|other| other.gpus(other.min_nodes)).sum::<u64>();
        let held = queue_state.held_by_long_jobs() + begun;
        if held + asked > u64::from(limit.gpus) {
            why.causes.push(WaitCause::LongJobs { held, limit });
        }
    }
}
