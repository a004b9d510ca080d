//! Schedules: jobs that start by the clock. `apply` makes, changes and removes them; `turn` decides what is to be done with one
//! now, a function of the schedule, its runs and the time; here is what does that, one bounded thing in each step.
//!
//! A run is submitted in the transaction that says that it was, under a name that follows from the schedule and the time: no
//! change of leaders makes it two. What a controller that comes later finds due it does once, for the last of the times that
//! have passed.

mod apply;
mod turn;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use proto_audit::{Actor, Object};
use proto_model::{
    Job, JobName, JobSchedule, JobUid, Phase, Reason, ReasonCode, ScheduleName, ScheduledRun, TenantName,
    Timestamp,
};

use crate::{
    error::CoreError,
    event::{Naming, Submit},
    node::claims::SELF,
    state::{Due, State, journal::Undo},
    step::Step,
};
use turn::{Run, ScheduleAction};

/// Schedules at most.
pub(crate) const MAX_SCHEDULES: usize = 10_000;
/// Elements of an array in a template at most: a run is one step, and its writes one transaction.
pub(crate) const MAX_ELEMENTS: usize = 64;
/// A schedule that nothing is to be done with is not looked at again before.
const REST: Duration = Duration::from_secs(1);
/// Jobs under way that are named.
const NAMED: usize = 100;

/// Whose, and which.
pub(crate) type ScheduleKey = (TenantName, ScheduleName);

/// A schedule, and when it is looked at again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScheduleEntry {
    pub(crate) schedule: Arc<JobSchedule>,
    /// Not stored.
    pub(crate) due: Option<Timestamp>,
}

impl ScheduleEntry {
    /// It is looked at when its next run is due.
    pub(crate) fn waiting(schedule: Arc<JobSchedule>) -> Self {
        let due = schedule.next_after(schedule.progress.checked_until);
        Self { schedule, due }
    }
}

/// The jobs of every schedule by when they were due; of schedules that are no more too, while there are jobs of theirs.
pub(crate) type Runs = BTreeMap<ScheduleKey, BTreeMap<Timestamp, BTreeSet<JobUid>>>;

/// Counts a job of a schedule, or counts it no more.
pub(crate) fn count_run(runs: &mut Runs, job: &Job, add: bool) {
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

/// What is told of a schedule beside what is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScheduleView {
    /// When the next run is due; `None` while it is suspended.
    pub next: Option<Timestamp>,
    /// Jobs, or arrays, of it that have not ended; at most 100.
    pub active: Vec<JobName>,
}

impl State {
    pub(crate) fn set_job_schedule(&mut self, key: ScheduleKey, new: Option<ScheduleEntry>) {
        let old = self.swap_job_schedule(key.clone(), new);
        self.journal.undo.push(Undo::JobSchedule(key, old.map(Box::new)));
    }

    pub(crate) fn swap_job_schedule(
        &mut self,
        key: ScheduleKey,
        new: Option<ScheduleEntry>,
    ) -> Option<ScheduleEntry> {
        let due = new.as_ref().and_then(|entry| entry.due);
        let what = Due::Schedule(key.0.clone(), key.1.clone());
        let old = match new {
            Some(new) => self.base.schedules.insert(key, new),
            None => self.base.schedules.remove(&key),
        };
        self.swap_due(&what, old.as_ref().and_then(|entry| entry.due), due);
        old
    }

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
    fn runs_of(&self, key: &ScheduleKey) -> Vec<Run> {
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

impl Step<'_> {
    /// One thing that is to be done with a schedule whose time has come.
    pub(crate) fn schedule_due(&mut self, key: &ScheduleKey) {
        let Some(entry) = self.state.base.schedules.get(key).cloned() else { return };
        let schedule = entry.schedule;
        let open = |uid: JobUid| {
            let job = self.state.job_by_uid(&uid);
            job.is_some_and(|job| !job.status.cancel_requested && !job.status.phase.is_terminal())
        };
        match turn::decide(&schedule, &self.state.runs_of(key), open, self.now) {
            ScheduleAction::Wait => {
                let next = schedule.next_after(schedule.progress.checked_until);
                // Whatever clocks do, it is not looked at over and over.
                let due = next.map(|next| next.max(self.now.plus(REST)));
                self.state.set_job_schedule(key.clone(), Some(ScheduleEntry { schedule, due }));
            }
            // Whether there is more to do is seen in the next look.
            ScheduleAction::Cancel(jobs) => jobs.into_iter().for_each(|uid| drop(self.cancel_one(uid, None))),
            ScheduleAction::Forget(jobs) => jobs.into_iter().for_each(|uid| self.state.set_job(uid, None)),
            ScheduleAction::LeaveOut(time, reason) => self.left_out(key, &schedule, time, reason),
            ScheduleAction::Submit(time) => match self.submit_run(&schedule, time) {
                Ok(job) => self.submitted_run(key, &schedule, time, job),
                Err(error) => {
                    let reason = Reason::new(ReasonCode::Refused, format!("its job was refused: {error}"));
                    self.left_out(key, &schedule, time, reason);
                }
            },
        }
    }

    /// A job of a schedule has come to its end: records of earlier ones may be too many now.
    pub(crate) fn wake_schedule(&mut self, job: &Job) {
        let Some(run) = job.status.schedule.as_ref().filter(|_| job.status.phase.is_terminal()) else {
            return;
        };
        let key = (job.id.tenant.clone(), run.schedule.clone());
        let now = self.now;
        let Some(entry) = self.state.base.schedules.get(&key) else { return };
        if entry.due.is_none_or(|due| due > now) {
            let entry = ScheduleEntry { due: Some(now), ..entry.clone() };
            self.state.set_job_schedule(key, Some(entry));
        }
    }

    /// Submits a run as its owner would; what is refused changes nothing.
    fn submit_run(&mut self, schedule: &JobSchedule, time: Timestamp) -> Result<JobName, CoreError> {
        let name = schedule
            .run_name(time)
            .map_err(|error| CoreError::Invalid { field: "metadata.name", message: error.to_string() })?;
        let by = schedule.owner.clone().ok_or(CoreError::Unattributed)?;
        let submit = Submit {
            tenant: schedule.tenant.clone(),
            by,
            name: Naming::Name(name.clone()),
            labels: schedule.labels.clone(),
            spec: Box::new((*schedule.job).clone()),
            request: None,
            digest: [0; 32],
            trace_parent: String::new(),
            hold: false,
        };
        let mark = self.state.journal.undo.len();
        let run = ScheduledRun { schedule: schedule.name.clone(), time };
        let submitted = self.submit_for(submit, Some(run));
        submitted.inspect_err(|_| self.state.undo_to(mark)).map(|_| name)
    }

    fn submitted_run(&mut self, key: &ScheduleKey, old: &JobSchedule, time: Timestamp, job: JobName) {
        let mut schedule = old.clone();
        let progress = &mut schedule.progress;
        progress.checked_until = time;
        progress.submitted += 1;
        progress.last = Some((time, job.clone()));
        // It is looked at once more: an earlier run may have to go, and records.
        let entry = ScheduleEntry { schedule: Arc::new(schedule), due: Some(self.now) };
        self.state.set_job_schedule(key.clone(), Some(entry));
        let owner = old.owner.as_ref();
        let actor = Actor {
            who: SELF.to_owned(),
            roles: owner.map(|owner| owner.role.to_string()).unwrap_or_default(),
            tenant: key.0.to_string(),
            rpc: "Schedule".to_owned(),
            request: owner
                .map(|owner| format!("schedule {}, by the authority of {}", key.1, owner.user))
                .unwrap_or_default(),
            ..Actor::default()
        };
        let (kind, tenant) = ("job".to_owned(), key.0.to_string());
        self.record_own(Arc::new(actor), Object { kind, name: job.to_string(), tenant, version: 0 });
    }

    fn left_out(&mut self, key: &ScheduleKey, old: &JobSchedule, time: Timestamp, reason: Reason) {
        let mut schedule = old.clone();
        let progress = &mut schedule.progress;
        progress.checked_until = time;
        progress.left_out += 1;
        progress.last_left_out = Some(Reason { since: Some(time), ..reason });
        self.state.set_job_schedule(key.clone(), Some(ScheduleEntry::waiting(Arc::new(schedule))));
    }
}
