//! Arrays: jobs that one submit made, known together by one name.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Authority, Job, JobId, JobName, JobUid, Phase, TenantName};

use crate::{
    error::CoreError,
    state::{JobEntry, State},
};

/// How far jobs are that somebody waits for: one job, or all of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    /// All of them.
    pub(crate) all: u32,
    /// Their ranks were started at some time in the present or last attempt.
    pub(crate) started: u32,
    pub(crate) completed: u32,
    pub(crate) failed: u32,
    pub(crate) cancelled: u32,
    /// Ended without having started.
    pub(crate) missed: u32,
}

impl Progress {
    pub(crate) fn of(job: &Job) -> Self {
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

    pub(crate) fn ended(&self) -> u32 {
        self.completed + self.failed + self.cancelled
    }
}

/// An array's elements.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Elements {
    pub(crate) by_index: BTreeMap<u32, JobUid>,
    /// Those that wait for their turn or for something else that is not room; not those that people hold, who let others pass.
    pub(crate) held: BTreeSet<u32>,
    /// Those that may start or have started, and have not ended.
    pub(crate) active: u32,
    pub(crate) progress: Progress,
}

impl Elements {
    pub(crate) fn change(&mut self, index: u32, entry: &JobEntry, add: bool) {
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
pub(crate) fn array_of(job: &Job) -> Option<(JobId, u32)> {
    let place = job.status.array.as_ref()?;
    Some((JobId { tenant: job.id.tenant.clone(), name: place.array.clone() }, place.index))
}

/// The name of an element.
pub(crate) fn element(tenant: &TenantName, array: &JobName, index: u32) -> Result<JobId, CoreError> {
    let name = JobName::new(format!("{array}-{index}")).map_err(|error| CoreError::Invalid {
        field: "metadata.name",
        message: format!("an element of the array cannot be named: {error}"),
    })?;
    Ok(JobId { tenant: tenant.clone(), name })
}

impl State {
    /// The jobs that a name means, if whoever asks may change all of them; `None` stands for the controller itself.
    pub(crate) fn changeable(
        &self,
        id: &JobId,
        indices: &[u32],
        by: Option<&Authority>,
    ) -> Result<Vec<JobUid>, CoreError> {
        let uids = self.selected(id, indices)?;
        let Some(by) = by else { return Ok(uids) };
        let jobs = uids.iter().filter_map(|uid| Some(&self.base.jobs.get(uid)?.job));
        match jobs.into_iter().find(|job| !by.may_change(job.status.submitter.as_ref())) {
            None => Ok(uids),
            Some(job) => Err(CoreError::NotOwner {
                what: format!("job '{}'", job.id.name),
                owner: job.status.submitter.as_ref().map(|owner| owner.user.clone()),
            }),
        }
    }

    /// The jobs that a name means: a job, or an array's elements, all of them or those of some indices.
    pub(crate) fn selected(&self, id: &JobId, indices: &[u32]) -> Result<Vec<JobUid>, CoreError> {
        if let Some(uid) = self.index.names.get(id).filter(|_| indices.is_empty()) {
            return Ok(vec![*uid]);
        }
        let missing = || CoreError::JobNotFound { id: id.clone() };
        let elements = self.index.arrays.get(id).ok_or_else(missing)?;
        if indices.is_empty() {
            return Ok(elements.by_index.values().copied().collect());
        }
        let wanted: BTreeSet<u32> = indices.iter().copied().collect();
        let found = |index: &u32| {
            elements.by_index.get(index).copied().ok_or_else(|| CoreError::ElementNotFound {
                array: id.clone(),
                index: *index,
                first: elements.by_index.keys().next().copied().unwrap_or(0),
                last: elements.by_index.keys().next_back().copied().unwrap_or(0),
                count: elements.by_index.len(),
            })
        };
        wanted.iter().map(found).collect()
    }

    /// The elements of an array by index; none if there is no such array.
    pub fn array(&self, id: &JobId) -> impl Iterator<Item = &std::sync::Arc<Job>> {
        let elements = self.index.arrays.get(id).into_iter().flat_map(|elements| elements.by_index.values());
        elements.filter_map(|uid| self.job_by_uid(uid))
    }
}
