//! Schedules: made, changed and removed.

use std::sync::Arc;

use controller_state::{
    CoreError, ScheduleEntry,
    view::job::check::{check_spec, check_times},
};
use proto_model::{
    Authority, JobSchedule, JobSpec, Reason, ReasonCode, Role, ScheduleName, ScheduleProgress, TenantName,
};

use crate::{context::Step, event::Reply, job::schedules::turn::MAX_ELEMENTS};

/// Schedules at most.
pub(crate) const MAX_SCHEDULES: usize = 10_000;

/// Schedules that one step suspends at most.
const SUSPENDED: usize = 64;

/// A schedule submits by its owner's authority, so that nobody else's hands belong on it.
fn may_change(schedule: &JobSchedule, by: &Authority) -> Result<(), CoreError> {
    if by.may_change(schedule.owner.as_ref()) {
        return Ok(());
    }
    let owner = schedule.owner.as_ref().map(|owner| owner.user.clone());
    Err(CoreError::NotOwner { what: format!("schedule '{}'", schedule.name), owner })
}

impl Step<'_> {
    pub(crate) fn apply_schedule(
        &mut self,
        schedule: JobSchedule,
        by: Authority,
        dry_run: bool,
    ) -> Result<Reply, CoreError> {
        let key = (schedule.tenant.clone(), schedule.name.clone());
        let quota = self.tenant_quota(&schedule.tenant)?;
        self.check_template(&schedule, &by)?;
        let old = self.state.base.schedules.get(&key).map(|entry| Arc::clone(&entry.schedule));
        if let Some(old) = &old {
            may_change(old, &by)?;
        }
        let owner = Some(by);
        let wanted = match &old {
            Some(old) if old.asks_the_same(&schedule) && old.owner == owner => {
                return Ok(Reply::JobSchedule(Arc::clone(old)));
            }
            Some(old) => {
                let mut progress = old.progress.clone();
                if !old.is_due_as(&schedule) {
                    // What would have been due by other times, or while it was suspended, is not made up for.
                    progress.checked_until = progress.checked_until.max(self.now);
                }
                let (uid, generation, created) = (old.uid.clone(), old.generation + 1, old.created);
                JobSchedule { uid, generation, created, owner, progress, ..schedule }
            }
            None => {
                self.room_for_schedule(&key.0, quota.schedules)?;
                let progress = ScheduleProgress { checked_until: self.now, ..ScheduleProgress::default() };
                let uid = self.random_uid();
                JobSchedule { uid, generation: 1, created: self.now, owner, progress, ..schedule }
            }
        };
        let schedule = Arc::new(wanted);
        if !dry_run {
            let mut entry = ScheduleEntry::waiting(Arc::clone(&schedule));
            if old.is_some() {
                // Fewer records may be kept now.
                entry.due = Some(self.now);
            }
            self.state.set_job_schedule(key, Some(entry));
        }
        Ok(Reply::JobSchedule(schedule))
    }

    pub(crate) fn delete_schedule(
        &mut self,
        tenant: &TenantName,
        name: &ScheduleName,
        by: Option<&Authority>,
    ) -> Result<Reply, CoreError> {
        let Some(schedule) = self.state.job_schedule(tenant, name) else {
            return Err(self.state.no_schedule(tenant, name));
        };
        if let Some(by) = by {
            may_change(schedule, by)?;
        }
        self.state.set_job_schedule((tenant.clone(), name.clone()), None);
        Ok(Reply::Done)
    }

    /// Nothing more is submitted by the authority of somebody whose credentials are taken back. Whoever applies a schedule anew is its
    /// owner then.
    pub(crate) fn suspend_schedules(&mut self, tenant: Option<&TenantName>, user: &str) -> Reply {
        let of = |schedule: &JobSchedule| {
            let Some(owner) = schedule.owner.as_ref().filter(|owner| owner.user == user) else {
                return false;
            };
            !schedule.suspended
                && match tenant {
                    Some(tenant) => owner.role != Role::Admin && schedule.tenant == *tenant,
                    None => owner.role == Role::Admin,
                }
        };
        let all = self.state.base.schedules.values().map(|entry| &entry.schedule);
        let found: Vec<Arc<JobSchedule>> =
            all.filter(|schedule| of(schedule)).take(SUSPENDED).cloned().collect();
        for schedule in &found {
            let mut suspended = (**schedule).clone();
            suspended.suspended = true;
            suspended.generation += 1;
            let message = format!(
                "the credentials of its owner, '{user}', were taken back; whoever applies it owns it"
            );
            suspended.progress.last_left_out =
                Some(Reason::new(ReasonCode::OwnerRevoked, message).since(self.now));
            let key = (schedule.tenant.clone(), schedule.name.clone());
            self.state.set_job_schedule(key, Some(ScheduleEntry::waiting(Arc::new(suspended))));
        }
        Reply::Suspended(found.len())
    }

    /// A tenant's schedules end with it.
    pub(crate) fn forget_schedules(&mut self, tenant: &TenantName) {
        let names: Vec<ScheduleName> =
            self.state.job_schedules_of(tenant).map(|schedule| schedule.name.clone()).collect();
        for name in names {
            self.state.set_job_schedule((tenant.clone(), name), None);
        }
    }

    pub(crate) fn room_for_schedule(&self, tenant: &TenantName, quota: u32) -> Result<(), CoreError> {
        let limit = if quota == 0 { self.state.config.tenant_schedules } else { quota };
        if self.state.job_schedules_of(tenant).count() >= limit as usize {
            return Err(CoreError::SchedulesExceeded { tenant: tenant.clone(), limit });
        }
        if self.state.base.schedules.len() >= MAX_SCHEDULES {
            let remedy = "delete some that are not used";
            return Err(CoreError::Full { what: "schedules", limit: MAX_SCHEDULES, remedy });
        }
        Ok(())
    }

    /// A template is refused where a submit of its job would be now, whatever the tenant has under way.
    fn check_template(&self, schedule: &JobSchedule, by: &Authority) -> Result<(), CoreError> {
        let refused = |cause| CoreError::TemplateRefused { cause: Box::new(cause) };
        let (state, tenant) = (&self.state, &schedule.tenant);
        let spec: &JobSpec = &schedule.job;
        let elements = spec.array.as_ref().map_or(0, |array| array.indices.len());
        if elements > MAX_ELEMENTS {
            let message =
                format!("{elements} elements are more than the {MAX_ELEMENTS} of a schedule's array");
            return Err(refused(CoreError::Invalid { field: "spec.array", message }));
        }
        let moment = [
            ("spec.beginTime", spec.begin),
            ("spec.startBefore", spec.start_before),
            ("spec.deadline", spec.deadline),
        ];
        if let Some((field, _)) = moment.into_iter().find(|(_, time)| time.is_some()) {
            let message = "is one moment, and a schedule has many runs".to_owned();
            return Err(refused(CoreError::Invalid { field, message }));
        }
        let check = || {
            let run = schedule
                .run_name(self.now)
                .map_err(|error| CoreError::Invalid { field: "metadata.name", message: error.to_string() })?;
            check_spec(spec, &state.config)?;
            state.check_documents(tenant, spec, self.now)?;
            state.check_licenses(spec)?;
            state.check_env(tenant, &spec.work)?;
            let mut classified = spec.clone();
            state.classify(tenant, by, &mut classified)?;
            check_times(&classified, self.now)?;
            let indices = spec.array.as_ref().map(|array| array.indices.as_slice()).unwrap_or_default();
            state.check_after(tenant, &run, indices, &spec.after)?;
            let id = proto_model::JobId { tenant: tenant.clone(), name: run };
            state.feasible(&id, &classified, self.now)
        };
        check().map_err(refused)
    }
}
