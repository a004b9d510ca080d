//! Does what is to be done with a schedule whose time has come, one bounded thing in each step.

use std::{sync::Arc, time::Duration};

use controller_state::{CoreError, ScheduleEntry, ScheduleKey};
use proto_audit::{Actor, Object};
use proto_model::{Job, JobName, JobSchedule, JobUid, Reason, ReasonCode, ScheduledRun, Timestamp};

use crate::{
    context::Step,
    event::{Naming, Submit},
    job::schedules::turn::{ScheduleAction, decide},
    node::claims::evidence::SELF,
};

/// A schedule that nothing is to be done with is not looked at again before.
const REST: Duration = Duration::from_secs(1);

impl Step<'_> {
    /// One thing that is to be done with a schedule whose time has come.
    pub(crate) fn schedule_due(&mut self, key: &ScheduleKey) {
        let Some(entry) = self.state.base.schedules.get(key).cloned() else { return };
        let schedule = entry.schedule;
        let open = |uid: JobUid| {
            let job = self.state.job_by_uid(&uid);
            job.is_some_and(|job| !job.status.cancel_requested && !job.status.phase.is_terminal())
        };
        match decide(&schedule, &self.state.runs_of(key), open, self.now) {
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
