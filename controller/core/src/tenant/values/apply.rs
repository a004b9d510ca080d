//! Secrets and configs made, changed and removed; and what that means for jobs that refer to them.

use std::sync::Arc;

use controller_state::{CoreError, JobEntry, error::values::ValuesError};
use proto_model::{Authority, JobUid, Phase, Reason, ReasonCode, Role, TenantName, Values, ValuesId};

use crate::{context::Step, event::Reply};

/// Secrets and configs of one tenant at most; their bytes have a limit too.
pub const MAX_OF_TENANT: usize = 1024;
/// Secrets and configs at most.
pub const MAX_VALUES: usize = 65_536;

impl Step<'_> {
    pub(crate) fn apply_values(&mut self, asked: Values, dry_run: bool) -> Result<Reply, CoreError> {
        let id = asked.id.clone();
        self.tenant_quota(&id.tenant)?;
        let old = self.state.values(&id).cloned();
        let wanted = match &old {
            Some(old) => self.changed_values(old, asked),
            None if asked.data.is_empty() => return Err(ValuesError::Empty(id).into()),
            None => {
                let uid = self.random_uid();
                let mut data = asked.data;
                data.values_mut().for_each(|value| value.revision = 1);
                Values { uid, generation: 1, created: self.now, updated: self.now, data, ..asked }
            }
        };
        self.room_for_values(&wanted, old.is_none())?;
        let values = match old.filter(|old| old.says_the_same(&wanted)) {
            Some(old) => old,
            None => {
                let wanted = Arc::new(wanted);
                if !dry_run {
                    self.state.put(Arc::clone(&wanted));
                    self.environment_changed(&id);
                }
                wanted
            }
        };
        Ok(Reply::Values(values))
    }

    /// What is left out stays.
    fn changed_values(&self, old: &Values, asked: Values) -> Values {
        let generation = old.generation + 1;
        let mut data = if asked.data.is_empty() { old.data.clone() } else { asked.data };
        for (key, value) in &mut data {
            let kept = old.data.get(key).filter(|before| before.text == value.text);
            value.revision = kept.map_or(generation, |before| before.revision);
        }
        let changed = data != old.data;
        let (updated, updated_by) = match changed {
            true => (self.now, asked.updated_by),
            false => (old.updated, old.updated_by.clone()),
        };
        let description = asked.description;
        Values { generation, updated, updated_by, description, data, ..old.clone() }
    }

    fn room_for_values(&self, wanted: &Values, new: bool) -> Result<(), CoreError> {
        let tenant = &wanted.id.tenant;
        let others = || self.state.values_of(tenant).filter(|one| one.id != wanted.id);
        let bytes = wanted.bytes() + others().map(|one| one.bytes()).sum::<usize>();
        if bytes > Values::MAX_OF_TENANT {
            return Err(ValuesError::TooMuch { tenant: tenant.clone(), bytes }.into());
        }
        let remedy = "delete some that are not used";
        if new && others().count() >= MAX_OF_TENANT {
            let what = "secrets and configs of this tenant";
            return Err(CoreError::Full { what, limit: MAX_OF_TENANT, remedy });
        }
        if new && self.state.base.values.len() >= MAX_VALUES {
            return Err(CoreError::Full { what: "secrets and configs", limit: MAX_VALUES, remedy });
        }
        Ok(())
    }

    pub(crate) fn delete_values(&mut self, id: &ValuesId) -> Result<Reply, CoreError> {
        if self.state.values(id).is_none() {
            return Err(self.state.values_missing(id));
        }
        self.state.remove::<Values>(id);
        self.environment_changed(id);
        Ok(Reply::Done)
    }

    /// A tenant's secrets and configs end with it.
    pub(crate) fn forget_values(&mut self, tenant: &TenantName) {
        let ids: Vec<ValuesId> = self.state.values_of(tenant).map(|one| one.id.clone()).collect();
        ids.into_iter().for_each(|id| self.state.remove::<Values>(&id));
    }

    /// Jobs whose ranks have not started begin anew with what there is now; those that were held for it go on.
    fn environment_changed(&mut self, id: &ValuesId) {
        for uid in self.state.referring(id) {
            let Some(entry) = self.entry(uid) else { continue };
            let starting = entry.attempt.as_ref().is_some_and(|attempt| attempt.ending.is_none());
            if starting && entry.job.status.phase != Phase::Running {
                let message = format!("{id} was changed while the job was being prepared");
                let (grace, signal) = (entry.job.spec.stop_grace(), entry.job.spec.preemption.signal);
                let cause = Reason::new(ReasonCode::EnvironmentChanged, message);
                self.preempt(uid, cause, (grace, signal), Vec::new());
            } else if self.state.check_env(&id.tenant, &entry.job.spec.work).is_ok() {
                self.release_environment_hold(uid, entry);
            }
        }
    }

    /// The environment of a job can be made again.
    fn release_environment_hold(&mut self, uid: JobUid, mut entry: JobEntry) {
        if entry.job.status.holds.iter().any(|hold| hold.is_our_own()) {
            self.change(&mut entry, |status| status.holds.retain(|hold| !hold.is_our_own()));
            self.state.set_job(uid, Some(entry));
            self.check_hold(uid);
        }
    }

    /// It was this job's turn, and its environment cannot be made: it waits until it can, in nobody's way.
    pub(crate) fn hold_for_environment(&mut self, uid: JobUid, missing: &ValuesError) {
        let nobody = Authority { role: Role::User, user: String::new() };
        self.hold_one(uid, &nobody, &missing.for_all(), false);
    }
}
