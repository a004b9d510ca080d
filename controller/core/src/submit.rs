//! Submitting, cancelling and removing jobs.

use std::{sync::Arc, time::Duration};

use controller_scheduler::{Ask, Decision, Pass, QueueKey};
use proto_model::{
    Job, JobId, JobName, JobSpec, JobStatus, JobUid, Phase, Quota, Reason, RequestId, TenantName, Timestamp,
    Work,
};

use crate::{
    config::Config,
    error::CoreError,
    event::{Naming, Reply, Submit},
    records::{Outcome, RequestRecord},
    state::{JobEntry, State, Tally},
    step::Step,
};

/// Names that are tried for `generateName`.
const NAME_TRIES: usize = 8;
/// Letters of a generated name's end: no vowels, so that no words come out.
const NAME_LETTERS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz0123456789yy";

impl Step<'_> {
    pub(crate) fn submit(&mut self, submit: Submit) -> Result<Reply, CoreError> {
        if let Some(reply) = self.repeated(&submit)? {
            return Ok(reply);
        }
        let quota = self.tenant_quota(&submit.tenant)?;
        check_spec(&submit.spec, &self.state.config)?;
        self.limits(&submit.tenant, quota)?;
        let id = self.name(&submit)?;
        let uid = self.next_uid();
        let entry = JobEntry {
            job: Arc::new(Job {
                id: id.clone(),
                uid,
                labels: submit.labels,
                generation: 1,
                spec: *submit.spec,
                status: fresh_status(self.now, submit.trace_parent),
            }),
            attempt: None,
            due: None,
            tally: Tally::default(),
        };
        let placer = std::mem::take(&mut self.state.index.placer);
        let mut pass = Pass::resume(self.state.base.schedule.blocked.clone()).with_placer(placer);
        let ask = Ask { key: entry.key(), id: &id, spec: &entry.job.spec, not_before: None };
        let decision = pass.decide(&self.state.index.snapshot, &ask, self.now);
        let (blocked, placer) = pass.into_parts();
        self.state.index.placer = placer;
        if let Decision::Wait(wait) = &decision
            && wait.infeasible
        {
            return Err(CoreError::Infeasible { reasons: wait.reasons[..wait.never].to_vec() });
        }
        if let Some(request) = submit.request {
            self.remember(submit.tenant, request, submit.digest, uid, id);
        }
        let job = Arc::clone(&entry.job);
        self.state.set_job(uid, Some(entry));
        self.follow(uid, decision, true);
        let schedule = crate::state::Schedule { blocked, ..self.state.base.schedule.clone() };
        self.state.set_schedule(schedule);
        Ok(Reply::Job { job, existed: false })
    }

    /// Identities that grow with every submit, so that the queue's order of equal times is the order of arrival.
    fn next_uid(&mut self) -> JobUid {
        let (time, counter) = self.state.base.schedule.last_submit;
        let next = if self.now > time { (self.now, 0) } else { (time, (counter + 1).min(4095)) };
        let schedule = crate::state::Schedule { last_submit: next, ..self.state.base.schedule.clone() };
        self.state.set_schedule(schedule);
        JobUid::ordered(next.0, next.1, self.random())
    }

    /// The same id and body give the same job again.
    fn repeated(&mut self, submit: &Submit) -> Result<Option<Reply>, CoreError> {
        let Some(request) = &submit.request else { return Ok(None) };
        let key = (submit.tenant.clone(), request.clone());
        let Some(record) = self.state.base.requests.get(&key) else { return Ok(None) };
        if record.digest != submit.digest {
            return Err(CoreError::RequestIdReused { request: request.to_string(), id: record.id.clone() });
        }
        let entry = self.state.base.jobs.get(&record.uid);
        let entry = entry.ok_or_else(|| CoreError::JobGone { id: record.id.clone() })?;
        Ok(Some(Reply::Job { job: Arc::clone(&entry.job), existed: true }))
    }

    fn remember(&mut self, tenant: TenantName, request: RequestId, digest: [u8; 32], uid: JobUid, id: JobId) {
        let key = (tenant.clone(), request.clone());
        let record = RequestRecord { tenant, request, digest, uid, id, time: self.now };
        self.state.set_request(key, Some(Arc::new(record)));
    }

    fn tenant_quota(&self, tenant: &TenantName) -> Result<Quota, CoreError> {
        let known = self.state.base.tenants.get(tenant).map(|tenant| tenant.quota);
        known.ok_or_else(|| CoreError::TenantUnknown {
            tenant: tenant.clone(),
            nearest: nearest(tenant.as_str(), self.state.base.tenants.keys()),
        })
    }

    fn limits(&self, tenant: &TenantName, quota: Quota) -> Result<(), CoreError> {
        let config = &self.state.config;
        let base = &self.state.base;
        let full = |what, limit, remedy| Err(CoreError::Full { what, limit, remedy });
        if self.state.index.queue.len() >= config.max_queued {
            return full("waiting jobs", config.max_queued, "submit again when some have started");
        }
        if base.jobs.len() >= config.max_jobs {
            return full("jobs", config.max_jobs, "delete jobs that have ended");
        }
        if base.requests.len() >= config.max_requests {
            return full("request ids", config.max_requests, "submit again when older ones have expired");
        }
        let limit = if quota.jobs == 0 { config.tenant_jobs } else { quota.jobs };
        let used = self.state.index.tenants.get(tenant).map_or(0, |jobs| jobs.active);
        if used >= limit {
            return Err(CoreError::QuotaExceeded { tenant: tenant.clone(), used, limit });
        }
        Ok(())
    }

    fn name(&mut self, submit: &Submit) -> Result<JobId, CoreError> {
        let tenant = &submit.tenant;
        match &submit.name {
            Naming::Name(name) => {
                let id = JobId { tenant: tenant.clone(), name: name.clone() };
                if self.state.index.names.contains_key(&id) {
                    return Err(CoreError::NameTaken { id });
                }
                Ok(id)
            }
            Naming::Generate(prefix) => {
                let mut tried = None;
                for _ in 0..NAME_TRIES {
                    let random: [u8; 6] = self.random();
                    let end: String =
                        random.iter().map(|byte| char::from(NAME_LETTERS[usize::from(byte % 32)])).collect();
                    let name =
                        JobName::new(format!("{prefix}{end}")).map_err(|error| CoreError::Invalid {
                            field: "metadata.generateName",
                            message: format!("with 6 characters added, {error}"),
                        })?;
                    let id = JobId { tenant: tenant.clone(), name };
                    if !self.state.index.names.contains_key(&id) {
                        return Ok(id);
                    }
                    tried = Some(id.name);
                }
                Err(CoreError::NoFreeName { prefix: prefix.clone(), tried })
            }
        }
    }

    /// Ends a job, or does nothing if it has ended already.
    pub(crate) fn cancel(&mut self, id: &JobId, grace: Option<Duration>) -> Result<Reply, CoreError> {
        let uid = self.state.index.names.get(id).copied();
        let entry = uid.and_then(|uid| self.entry(uid));
        let mut entry = entry.ok_or_else(|| CoreError::JobNotFound { id: id.clone() })?;
        let job = Arc::clone(&entry.job);
        let uid = job.uid;
        if job.status.phase.is_terminal() {
            return Ok(Reply::Job { job, existed: true });
        }
        let cause = Reason::new("CancelRequested", "the job was cancelled on request").since(self.now);
        if !job.status.cancel_requested {
            self.change(&mut entry, |status| status.cancel_requested = true);
        }
        if job.status.phase == Phase::Pending {
            self.enter(&mut entry, Phase::Cancelled);
            self.change(&mut entry, |status| status.reasons = vec![cause]);
            entry.due = None;
            self.state.set_job(uid, Some(entry));
            // It may have been the one that others waited behind.
            self.freed();
        } else {
            self.state.set_job(uid, Some(entry));
            let grace = grace.unwrap_or(job.spec.grace_period);
            self.end_attempt(uid, Outcome::Cancel, grace, vec![cause]);
        }
        Ok(Reply::Job { job, existed: true })
    }

    pub(crate) fn delete_job(&mut self, id: &JobId) -> Result<Reply, CoreError> {
        let uid = self.state.index.names.get(id).copied();
        let entry = uid.and_then(|uid| self.state.base.jobs.get(&uid));
        let entry = entry.ok_or_else(|| CoreError::JobNotFound { id: id.clone() })?;
        let (uid, phase) = (entry.job.uid, entry.job.status.phase);
        if !phase.is_terminal() {
            return Err(CoreError::JobActive { id: id.clone(), phase });
        }
        self.state.set_job(uid, None);
        Ok(Reply::Done)
    }
}

impl State {
    /// The decision for a job that would be submitted now: the code of the real submit.
    pub(crate) fn decide_new(
        &self,
        tenant: &TenantName,
        spec: &JobSpec,
        now: Timestamp,
    ) -> Result<Decision, CoreError> {
        if !self.base.tenants.contains_key(tenant) {
            let nearest = nearest(tenant.as_str(), self.base.tenants.keys());
            return Err(CoreError::TenantUnknown { tenant: tenant.clone(), nearest });
        }
        check_spec(spec, &self.config)?;
        let name = JobName::new("plan")
            .map_err(|error| CoreError::Invalid { field: "metadata.name", message: error.to_string() })?;
        let id = JobId { tenant: tenant.clone(), name };
        let key = QueueKey {
            priority: std::cmp::Reverse(spec.priority),
            submitted: now,
            uid: JobUid::from_random([u8::MAX; 16]),
        };
        let ask = Ask { key, id: &id, spec, not_before: None };
        Ok(Pass::resume(self.base.schedule.blocked.clone()).decide(&self.index.snapshot, &ask, now))
    }
}

fn fresh_status(now: Timestamp, trace_parent: String) -> JobStatus {
    JobStatus {
        phase: Phase::Pending,
        reasons: Vec::new(),
        placement: None,
        attempt: 1,
        submitted: now,
        started: None,
        ended: None,
        exits: Vec::new(),
        result: None,
        trace_parent,
        cancel_requested: false,
        array: None,
        preempted: 0,
        restarts: 0,
        replaced: 0,
        eta: None,
    }
}

/// What the wire's checks have let through is checked again where it would break an invariant.
fn check_spec(spec: &JobSpec, config: &Config) -> Result<(), CoreError> {
    let invalid = |field, message: String| Err(CoreError::Invalid { field, message });
    let gang = spec.gang;
    if gang.nodes == 0 {
        return invalid("spec.gang.nodes", "must be at least 1".to_owned());
    }
    if gang.ranks_per_node == 0 {
        return invalid("spec.gang.ranksPerNode", "must be at least 1".to_owned());
    }
    let ranks = u64::from(gang.nodes) * u64::from(gang.ranks_per_node);
    let (max_ranks, max_nodes) = (config.max_ranks, config.max_gang_nodes);
    if ranks > u64::from(max_ranks) {
        let text = format!("{ranks} ranks are more than the {max_ranks} that a job may have (max_ranks)");
        return invalid("spec.gang", text);
    }
    if gang.nodes > max_nodes {
        let text = format!(
            "{} nodes are more than the {max_nodes} that a job may have (max_gang_nodes)",
            gang.nodes
        );
        return invalid("spec.gang.nodes", text);
    }
    if !(-1000..=1000).contains(&spec.priority) {
        return invalid("spec.priority", format!("{} is not within -1000 to 1000", spec.priority));
    }
    match &spec.work {
        Work::Command(command) if command.argv.is_empty() => {
            invalid("spec.command.argv", "must name a program".to_owned())
        }
        _ => Ok(()),
    }
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a TenantName>) -> Option<TenantName> {
    known
        .map(|other| (strsim::damerau_levenshtein(name, other.as_str()), other))
        .filter(|(distance, _)| *distance <= 2)
        .min()
        .map(|(_, other)| other.clone())
}
