//! Arrays: jobs that one submit made, known together by one name, and how far they are.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Job, JobId, JobUid, Phase};

use crate::rows::job::JobEntry;

/// How far jobs are that somebody waits for: one job, or all of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// All of them.
    pub all: u32,
    /// Their ranks were started at some time in the present or last attempt.
    pub started: u32,
    /// They ended with success.
    pub completed: u32,
    /// They ended without.
    pub failed: u32,
    /// They were ended on request.
    pub cancelled: u32,
    /// Ended without having started.
    pub missed: u32,
}

impl Progress {
    /// Of one job alone.
    pub fn of(job: &Job) -> Self {
        let status = &job.status;
        let phase = |phase| u32::from(status.phase == phase);
        let started = status.started.is_some();
        Self {
            all: 1,
            started: u32::from(started && (status.phase == Phase::Running || status.phase.is_terminal())),
            completed: phase(Phase::Completed),
            failed: phase(Phase::Failed),
            cancelled: phase(Phase::Cancelled),
            missed: u32::from(!started && status.phase.is_terminal()),
        }
    }

    fn each(&mut self, other: &Self, change: fn(u32, u32) -> u32) {
        self.all = change(self.all, other.all);
        self.started = change(self.started, other.started);
        self.completed = change(self.completed, other.completed);
        self.failed = change(self.failed, other.failed);
        self.cancelled = change(self.cancelled, other.cancelled);
        self.missed = change(self.missed, other.missed);
    }

    /// Those that have ended, in whichever way.
    pub fn ended(&self) -> u32 {
        self.completed + self.failed + self.cancelled
    }
}

/// An array's elements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Elements {
    /// All of them that there are.
    pub by_index: BTreeMap<u32, JobUid>,
    /// Those that wait for their turn or for something else that is not room; not those that people hold, who let others pass.
    pub held: BTreeSet<u32>,
    /// Those that may start or have started, and have not ended.
    pub active: u32,
    /// How far they are together.
    pub progress: Progress,
}

impl Elements {
    /// Counts an element, or counts it no more (`add` is false).
    pub fn change(&mut self, index: u32, entry: &JobEntry, add: bool) {
        let ended = entry.job.status.phase.is_terminal();
        let active = u32::from(!ended && !entry.held);
        let progress = Progress::of(&entry.job);
        if add {
            self.by_index.insert(index, entry.job.uid);
            self.active += active;
            self.progress.each(&progress, u32::saturating_add);
            if entry.held && entry.job.status.holds.is_empty() {
                self.held.insert(index);
            }
        } else {
            self.by_index.remove(&index);
            self.active = self.active.saturating_sub(active);
            self.progress.each(&progress, u32::saturating_sub);
            self.held.remove(&index);
        }
    }
}

/// The array that a job belongs to, and its index there.
pub fn array_of(job: &Job) -> Option<(JobId, u32)> {
    let place = job.status.array.as_ref()?;
    Some((JobId { tenant: job.id.tenant.clone(), name: place.array.clone() }, place.index))
}
