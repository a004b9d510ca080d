//! Schedules and their runs.

use std::{collections::BTreeSet, sync::Arc};

use proto_model::{JobName, JobSchedule, JobUid, Phase, ScheduleName, TenantName, Timestamp};

use crate::{
    error::{nearest::nearest, refusal::CoreError},
    rows::schedules::ScheduleKey,
    tables::state::State,
};

/// Jobs under way that are named.
const NAMED: usize = 100;

/// What is told of a schedule beside what is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScheduleView {
    /// When the next run is due; `None` while it is suspended.
    pub next: Option<Timestamp>,
    /// Jobs, or arrays, of it that have not ended; at most 100.
    pub active: Vec<JobName>,
}

impl State {
    /// A schedule.
    #[must_use]
    pub fn job_schedule(&self, tenant: &TenantName, name: &ScheduleName) -> Option<&Arc<JobSchedule>> {
        self.base.schedules.get(&(tenant.clone(), name.clone())).map(|entry| &entry.schedule)
    }

    /// The schedules of a tenant, in name order.
    pub fn job_schedules_of<'a>(
        &'a self,
        tenant: &'a TenantName,
    ) -> impl Iterator<Item = &'a Arc<JobSchedule>> {
        let own = self.base.schedules.iter().filter(move |((owner, _), _)| owner == tenant);
        own.map(|(_, entry)| &entry.schedule)
    }

    /// What is told of a schedule beside what is stored; nothing of one that there is not.
    #[must_use]
    pub fn schedule_view(&self, tenant: &TenantName, name: &ScheduleName, now: Timestamp) -> ScheduleView {
        let key = (tenant.clone(), name.clone());
        let Some(schedule) = self.base.schedules.get(&key).map(|entry| &entry.schedule) else {
            return ScheduleView::default();
        };
        let active = self.runs_of(&key).into_iter().filter(|run| run.ended.is_none());
        let name = |run: Run| {
            let job = run.jobs.first().and_then(|uid| self.job_by_uid(uid))?;
            Some(job.status.array.as_ref().map_or_else(|| job.id.name.clone(), |place| place.array.clone()))
        };
        ScheduleView {
            next: schedule.next_after(schedule.progress.checked_until.max(now)),
            active: active.filter_map(name).take(NAMED).collect(),
        }
    }

    /// The runs of a schedule, the oldest first.
    pub fn runs_of(&self, key: &ScheduleKey) -> Vec<Run> {
        let times = self.index.runs.get(key).into_iter().flatten();
        let run = |(time, jobs): (&Timestamp, &BTreeSet<JobUid>)| {
            let found = || jobs.iter().filter_map(|uid| self.job_by_uid(uid));
            let over = found().all(|job| job.status.phase.is_terminal());
            Run {
                time: *time,
                jobs: jobs.iter().copied().collect(),
                ended: over.then(|| found().all(|job| job.status.phase == Phase::Completed)),
                needed: found().any(|job| self.needed_by(job).is_some()),
            }
        };
        times.map(run).collect()
    }
}

/// A run that was submitted: a job, or an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// When it was due.
    pub time: Timestamp,
    /// The jobs of the run: one, or the elements of an array.
    pub jobs: Vec<JobUid>,
    /// All of them have ended; true: each has completed.
    pub ended: Option<bool>,
    /// Another job waits for one of them.
    pub needed: bool,
}

impl State {
    /// The refusal for a schedule that is not there, with the name that may have been meant.
    pub fn no_schedule(&self, tenant: &TenantName, name: &ScheduleName) -> CoreError {
        let names: Vec<&ScheduleName> =
            self.job_schedules_of(tenant).map(|schedule| &schedule.name).collect();
        let nearest = nearest(name.as_str(), names.into_iter());
        CoreError::ScheduleNotFound { tenant: tenant.clone(), schedule: name.clone(), nearest }
    }
}
