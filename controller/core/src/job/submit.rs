//! Submitting jobs and arrays of jobs.

use std::{sync::Arc, time::Duration};

use controller_state::{
    CoreError, RequestRecord,
    error::nearest::nearest,
    rows::job::Schedule,
    view::job::{
        arrays::element,
        check::{check_spec, check_times},
        plan::fresh_entry,
    },
};
use proto_model::{
    ArrayPlace, ArraySpec, JobId, JobName, JobSpec, JobUid, Quota, RequestId, ScheduledRun, TenantName,
};

use crate::{
    context::Step,
    event::{Naming, Reply, Submit},
};

/// Names that are tried for `generateName`.
const NAME_ATTEMPTS: usize = 8;
/// Letters of a generated name's end: no vowels, so that no words come out.
const NAME_LETTERS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz0123456789yy";

impl Step<'_> {
    pub(crate) fn submit(&mut self, submit: Submit) -> Result<Reply, CoreError> {
        self.submit_for(submit, None)
    }

    /// A submit, by somebody or by a schedule in its owner's place.
    pub(crate) fn submit_for(
        &mut self,
        mut submit: Submit,
        run: Option<ScheduledRun>,
    ) -> Result<Reply, CoreError> {
        if let Some(request) = &submit.request
            && let Some(reply) = self.repeated(&submit.tenant, request, &submit.digest)?
        {
            return Ok(reply);
        }
        let engine = &mut submit.spec.engine;
        engine.protection = engine.protection.max(self.state.config.rail_protection);
        let quota = self.tenant_quota(&submit.tenant)?;
        check_spec(&submit.spec, &self.state.config)?;
        self.state.check_documents(&submit.tenant, &submit.spec, self.now)?;
        self.state.check_licenses(&submit.spec)?;
        self.state.check_env(&submit.tenant, &submit.spec.work)?;
        self.state.classify(&submit.tenant, &submit.by, &mut submit.spec)?;
        check_times(&submit.spec, self.now)?;
        let indices = submit.spec.array.as_ref().map(|array| array.indices.clone());
        let new = indices.as_ref().map_or(1, Vec::len);
        self.limits(&submit.tenant, quota, new)?;
        self.state.may_wait(&submit.tenant, &submit.by, &submit.spec, new)?;
        let more = submit.spec.footprint(&submit.labels).saturating_mul(new as u64);
        self.state.has_bytes(&submit.tenant, quota, more)?;
        let id = self.name(&submit, indices.as_deref().unwrap_or_default())?;
        let elements = indices.as_deref().unwrap_or_default();
        self.state.check_after(&id.tenant, &id.name, elements, &submit.spec.after)?;
        match indices {
            None => self.submit_one(submit, id, run),
            Some(indices) => self.submit_array(submit, &id, &indices, run.as_ref()),
        }
    }

    fn submit_one(
        &mut self,
        submit: Submit,
        id: JobId,
        run: Option<ScheduledRun>,
    ) -> Result<Reply, CoreError> {
        self.state.feasible(&id, &submit.spec, self.now)?;
        let uid = self.next_uid();
        let mut entry = fresh_entry(
            self.now,
            uid,
            id.clone(),
            *submit.spec,
            submit.labels,
            (submit.trace_parent, submit.by),
        );
        self.change(&mut entry, |status| status.schedule = run);
        self.hold_on_submit(&mut entry, submit.hold);
        self.state.hold_back_new(&mut entry, self.now);
        if let Some(request) = submit.request {
            self.remember_request(submit.tenant, request, submit.digest, uid, id);
        }
        let job = Arc::clone(&entry.job);
        let held = entry.held;
        self.later = self.state.index.waiting > self.state.config.pass_at_once;
        self.state.set_job(uid, Some(entry));
        if !held {
            self.request_scheduling_pass();
        }
        Ok(Reply::Job { job, existed: false })
    }

    /// All elements or none. What can start does so in the look at the queue that follows.
    fn submit_array(
        &mut self,
        submit: Submit,
        array: &JobId,
        indices: &[u32],
        run: Option<&ScheduledRun>,
    ) -> Result<Reply, CoreError> {
        self.state.feasible(array, &submit.spec, self.now)?;
        let at_once = submit.spec.array.as_ref().map_or(0, |array| array.at_once);
        let size = u32::try_from(indices.len()).unwrap_or(u32::MAX);
        let mut first = None;
        for index in indices {
            let id = element(&array.tenant, &array.name, *index)?;
            let uid = self.next_uid();
            let spec = JobSpec {
                array: Some(ArraySpec { indices: vec![*index], at_once }),
                ..(*submit.spec).clone()
            };
            let place = ArrayPlace { array: array.name.clone(), index: *index, size };
            let (labels, trace) = (submit.labels.clone(), (submit.trace_parent.clone(), submit.by.clone()));
            let mut entry = fresh_entry(self.now, uid, id, spec, labels, trace);
            self.change(&mut entry, |status| {
                status.array = Some(place);
                status.schedule = run.cloned();
            });
            self.hold_on_submit(&mut entry, submit.hold);
            self.state.hold_back_new(&mut entry, self.now);
            first.get_or_insert_with(|| Arc::clone(&entry.job));
            self.state.set_job(uid, Some(entry));
        }
        let Some(job) = first else {
            let message = "must name at least one index".to_owned();
            return Err(CoreError::Invalid { field: "spec.array", message });
        };
        if let Some(request) = submit.request {
            self.remember_request(submit.tenant, request, submit.digest, job.uid, job.id.clone());
        }
        self.request_scheduling_pass();
        Ok(Reply::Job { job, existed: false })
    }

    /// Identities that grow with every submit, so that the queue's order of equal times is the order of arrival.
    fn next_uid(&mut self) -> JobUid {
        let (time, counter) = self.state.base.schedule.last_submit;
        let next = match counter {
            _ if self.now > time => (self.now, 0),
            0..4095 => (time, counter + 1),
            _ => (time.plus(Duration::from_millis(1)), 0),
        };
        let schedule = Schedule { last_submit: next, ..self.state.base.schedule.clone() };
        self.state.set_schedule(schedule);
        JobUid::ordered(next.0, next.1, self.random())
    }

    /// The same id and body give the same job again.
    pub(crate) fn repeated(
        &self,
        tenant: &TenantName,
        request: &RequestId,
        digest: &[u8; 32],
    ) -> Result<Option<Reply>, CoreError> {
        let key = (tenant.clone(), request.clone());
        let Some(record) = self.state.base.requests.get(&key) else { return Ok(None) };
        if record.digest != *digest {
            return Err(CoreError::RequestIdReused { request: request.to_string(), id: record.id.clone() });
        }
        let entry = self.state.base.jobs.get(&record.uid);
        let entry = entry.ok_or_else(|| CoreError::JobGone { id: record.id.clone() })?;
        Ok(Some(Reply::Job { job: Arc::clone(&entry.job), existed: true }))
    }

    pub(crate) fn remember_request(
        &mut self,
        tenant: TenantName,
        request: RequestId,
        digest: [u8; 32],
        uid: JobUid,
        id: JobId,
    ) {
        let record = RequestRecord { tenant, request, digest, uid, id, time: self.now };
        self.state.put(Arc::new(record));
    }

    pub(crate) fn tenant_quota(&self, tenant: &TenantName) -> Result<Quota, CoreError> {
        let known = self.state.base.tenants.get(tenant).map(|tenant| tenant.quota);
        known.ok_or_else(|| CoreError::TenantUnknown {
            tenant: tenant.clone(),
            nearest: nearest(tenant.as_str(), self.state.base.tenants.keys()),
        })
    }

    fn limits(&self, tenant: &TenantName, quota: Quota, new: usize) -> Result<(), CoreError> {
        let config = &self.state.config;
        let base = &self.state.base;
        let full = |what, limit, remedy| Err(CoreError::Full { what, limit, remedy });
        if self.state.index.waiting + new > config.max_queued {
            return full("waiting jobs", config.max_queued, "submit again when some have started");
        }
        if base.jobs.len() + new > config.max_jobs {
            return full("jobs", config.max_jobs, "delete jobs that have ended");
        }
        if base.requests.len() >= config.max_requests {
            return Err(self.state.full_of_requests());
        }
        let limit = if quota.jobs == 0 { config.tenant_jobs } else { quota.jobs };
        let used = self.state.index.tenants.get(tenant).map_or(0, |jobs| jobs.active);
        if u64::from(used) + new as u64 > u64::from(limit) {
            return Err(CoreError::QuotaExceeded { tenant: tenant.clone(), used, limit });
        }
        Ok(())
    }

    /// The name of the job, or of the array with these indices, which must be free with all its elements' names.
    fn name(&mut self, submit: &Submit, indices: &[u32]) -> Result<JobId, CoreError> {
        let tenant = &submit.tenant;
        match &submit.name {
            Naming::Name(name) => {
                let id = JobId { tenant: tenant.clone(), name: name.clone() };
                match self.state.taken(&id, indices)? {
                    Some(id) => Err(CoreError::NameTaken { id }),
                    None => Ok(id),
                }
            }
            Naming::Generate(prefix) => {
                let mut tried = None;
                for _ in 0..NAME_ATTEMPTS {
                    let random: [u8; 6] = self.random();
                    let end: String =
                        random.iter().map(|byte| char::from(NAME_LETTERS[usize::from(byte % 32)])).collect();
                    let name =
                        JobName::new(format!("{prefix}{end}")).map_err(|error| CoreError::Invalid {
                            field: "metadata.generateName",
                            message: format!("with 6 characters added, {error}"),
                        })?;
                    let id = JobId { tenant: tenant.clone(), name };
                    if self.state.taken(&id, indices)?.is_none() {
                        return Ok(id);
                    }
                    tried = Some(id.name);
                }
                Err(CoreError::NoFreeName { prefix: prefix.clone(), tried })
            }
        }
    }
}
