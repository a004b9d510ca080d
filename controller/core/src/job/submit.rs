//! Submitting jobs and arrays of jobs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use controller_queue::{Act, Budget, QueueState};
use controller_scheduler::{Decision, GangRequest, Pass, Placer, QueueKey, Wait};
use proto_model::{
    ArrayPlace, ArraySpec, Authority, Gang, Job, JobId, JobName, JobSpec, JobStatus, JobUid, Phase, Quota,
    Reason, ReasonCode, RequestId, ScheduledRun, TenantName, Timestamp, Work,
};

use crate::{
    error::CoreError,
    event::{Naming, Reply, Submit},
    job::{arrays::element, depend::Hold, explain::PREDICTED},
    state::{JobEntry, State, Tally, config::Config, records::RequestRecord},
    step::Step,
};

/// Names that are tried for `generateName`.
const NAME_ATTEMPTS: usize = 8;
/// Letters of a generated name's end: no vowels, so that no words come out.
const NAME_LETTERS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz0123456789yy";

/// The policy's causes that say less than what is said of nodes and quota.
const NODES_AND_QUOTA: [ReasonCode; 8] = [
    ReasonCode::GangCapacity,
    ReasonCode::NodeShape,
    ReasonCode::Scattered,
    ReasonCode::QuotaExceeded,
    ReasonCode::QuotaTooSmall,
    ReasonCode::NotBefore,
    ReasonCode::PlannedAhead,
    ReasonCode::AboutToStart,
];

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
        let schedule = crate::state::Schedule { last_submit: next, ..self.state.base.schedule.clone() };
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
        let key = (tenant.clone(), request.clone());
        let record = RequestRecord { tenant, request, digest, uid, id, time: self.now };
        self.state.set_request(key, Some(Arc::new(record)));
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

impl State {
    /// Which name of a job, or of an array and its elements, is taken.
    fn taken(&self, id: &JobId, indices: &[u32]) -> Result<Option<JobId>, CoreError> {
        let taken = |id: &JobId| self.index.names.contains_key(id) || self.index.arrays.contains_key(id);
        if taken(id) {
            return Ok(Some(id.clone()));
        }
        for index in indices {
            let id = element(&id.tenant, &id.name, *index)?;
            if taken(&id) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Whether the store has room for so many bytes more of the tenant's jobs.
    pub(crate) fn has_bytes(&self, tenant: &TenantName, quota: Quota, more: u64) -> Result<(), CoreError> {
        let limit = if quota.stored_bytes == 0 { self.config.tenant_bytes } else { quota.stored_bytes };
        let used = self.index.tenants.get(tenant).map_or(0, |jobs| jobs.bytes);
        if more > 0 && used.saturating_add(more) > limit {
            return Err(CoreError::StoredBytesExceeded { tenant: tenant.clone(), used, more, limit });
        }
        Ok(())
    }

    /// No further request id can be remembered.
    pub(crate) fn full_of_requests(&self) -> CoreError {
        let remedy = "ask again when older ones have expired";
        CoreError::Full { what: "request ids", limit: self.config.max_requests, remedy }
    }

    /// A new job that waits for something else than room is held from the beginning.
    fn hold_back_new(&self, entry: &mut JobEntry, now: Timestamp) {
        let Hold { reasons, never, until } = self.hold(&entry.job, now);
        entry.held = !reasons.is_empty() || !never.is_empty();
        entry.due = if never.is_empty() { until } else { Some(now) };
        if entry.held {
            Arc::make_mut(&mut entry.job).status.reasons = reasons.into_iter().chain(never).collect();
        }
    }

    /// Refuses what could never start on this cluster as it is described now. An elastic job may be small.
    pub(crate) fn feasible(&self, id: &JobId, spec: &JobSpec, now: Timestamp) -> Result<(), CoreError> {
        let reasons =
            asked_alone(id, spec, None, now, |ask| Pass::default().never(&self.index.snapshot, ask));
        if reasons.is_empty() { Ok(()) } else { Err(CoreError::Infeasible { reasons }) }
    }

    /// Why a job waits: what is amiss with nodes and quota for it alone, and what the queue's policy adds.
    pub(crate) fn waits(&self, queue_state: &QueueState, entry: &JobEntry, now: Timestamp) -> Wait {
        let job = &entry.job;
        let decide = |ask: &GangRequest<'_>| Pass::default().decide(&self.index.snapshot, ask, now);
        let mut wait = match asked_alone(&job.id, &job.spec, entry.due, now, decide) {
            Decision::Wait(wait) => wait,
            Decision::Place(_) => Wait::default(),
        };
        let alone = !wait.reasons.is_empty();
        let policy = queue_state.why(job.uid).into_iter().filter(|reason| {
            let known = wait.reasons.iter().any(|other| other.code == reason.code);
            let covered = alone && NODES_AND_QUOTA.contains(&reason.code);
            !(known || covered)
        });
        let policy: Vec<Reason> = policy.collect();
        wait.reasons.extend(policy);
        if wait.reasons.is_empty() {
            let message = "there is room, but jobs ahead of it are planned to start there".to_owned();
            wait.reasons.push(Reason::new(ReasonCode::PlannedAhead, message));
        }
        wait
    }

    /// What would become of a job that is submitted now: the code of the real submit, on a copy.
    pub(crate) fn decide_new(
        &self,
        tenant: &TenantName,
        by: &Authority,
        spec: &JobSpec,
        now: Timestamp,
    ) -> Result<Planned, CoreError> {
        if !self.base.tenants.contains_key(tenant) {
            let nearest = nearest(tenant.as_str(), self.base.tenants.keys());
            return Err(CoreError::TenantUnknown { tenant: tenant.clone(), nearest });
        }
        check_spec(spec, &self.config)?;
        self.check_documents(tenant, spec, now)?;
        self.check_licenses(spec)?;
        self.check_env_for(by, tenant, &spec.work)?;
        let mut classified = spec.clone();
        self.classify(tenant, by, &mut classified)?;
        check_times(&classified, now)?;
        self.may_wait(tenant, by, &classified, 1)?;
        let spec = &classified;
        let name = JobName::new("plan")
            .map_err(|error| CoreError::Invalid { field: "metadata.name", message: error.to_string() })?;
        self.check_after(tenant, &name, &[], &spec.after)?;
        let id = JobId { tenant: tenant.clone(), name };
        match self.feasible(&id, spec, now) {
            Err(CoreError::Infeasible { reasons }) => {
                let never = reasons.len();
                let wait = Wait { reasons, never, infeasible: true, ..Wait::default() };
                return Ok(Planned::of(Decision::Wait(wait)));
            }
            other => other?,
        }
        let uid = JobUid::from_random([u8::MAX; 16]);
        let trace = (String::new(), by.clone());
        let mut entry = fresh_entry(now, uid, id, spec.clone(), BTreeMap::new(), trace);
        self.hold_back_new(&mut entry, now);
        if entry.held {
            let reasons = entry.job.status.reasons.clone();
            return Ok(Planned::of(Decision::Wait(Wait { reasons, ..Wait::default() })));
        }
        let (mut queue_state, mut snapshot) = (self.index.queue_state.clone(), self.index.snapshot.clone());
        queue_state.set_job(uid, self.queue_entry(&entry));
        let budget = Budget { jobs: self.config.pass_limit, starts: usize::MAX };
        let acts = queue_state.pass(&mut snapshot, &mut Placer::default(), now, budget);
        let (mut start, mut victims) = (None, Vec::new());
        for act in acts {
            match act {
                Act::Start { uid: other, placement } if other == uid => start = Some(placement),
                Act::Preempt { victim, by, .. } | Act::Shrink { victim, by, .. } if by == uid => {
                    victims.push(victim);
                }
                _ => {}
            }
        }
        let decision = match start {
            Some(placement) => Decision::Place(Box::new(placement)),
            None => Decision::Wait(self.waits(&queue_state, &entry, now)),
        };
        let waits = matches!(decision, Decision::Wait(_)) && queue_state.waiting() <= PREDICTED;
        if waits {
            queue_state.plan(&mut snapshot, &mut Placer::default(), now, budget);
            queue_state.forecast(&mut snapshot, &mut Placer::default(), now);
        }
        Ok(Planned { decision, eta: queue_state.eta(uid), victims, entry: Some(entry) })
    }
}

/// What a job asks for if nobody else waited: an elastic one as little as it can do with.
fn asked_alone<T>(
    id: &JobId,
    spec: &JobSpec,
    not_before: Option<Timestamp>,
    now: Timestamp,
    inspect: impl FnOnce(&GangRequest<'_>) -> T,
) -> T {
    let small = (spec.gang.min_nodes < spec.gang.nodes).then(|| {
        let gang = Gang { nodes: spec.gang.min_nodes, ..spec.gang };
        JobSpec { gang, ..spec.clone() }
    });
    let key = QueueKey {
        priority: std::cmp::Reverse(spec.priority),
        submitted: now,
        uid: JobUid::from_random([u8::MAX; 16]),
    };
    inspect(&GangRequest { key, id, spec: small.as_ref().unwrap_or(spec), not_before })
}

/// What would become of a job.
pub(crate) struct Planned {
    pub(crate) decision: Decision,
    /// When it would probably start.
    pub(crate) eta: Option<proto_model::Eta>,
    /// Jobs that would be stopped for it.
    pub(crate) victims: Vec<JobUid>,
    /// The job, if it would wait for room or quota.
    pub(crate) entry: Option<JobEntry>,
}

impl Planned {
    fn of(decision: Decision) -> Self {
        Self { decision, eta: None, victims: Vec::new(), entry: None }
    }
}

fn fresh_entry(
    now: Timestamp,
    uid: JobUid,
    id: JobId,
    spec: JobSpec,
    labels: BTreeMap<String, String>,
    (trace_parent, by): (String, Authority),
) -> JobEntry {
    let job = Arc::new(Job {
        id,
        uid,
        labels,
        generation: 1,
        spec: Arc::new(spec),
        status: fresh_status(now, trace_parent, by),
    });
    JobEntry { job, attempt: None, due: None, held: false, cap: None, tally: Tally::default() }
}

fn fresh_status(now: Timestamp, trace_parent: String, by: Authority) -> JobStatus {
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
        holds: Vec::new(),
        submitter: Some(by),
        schedule: None,
        past_attempts: Vec::new(),
    }
}

/// What the wire's checks have let through is checked again where it would break an invariant.
pub(crate) fn check_spec(spec: &JobSpec, config: &Config) -> Result<(), CoreError> {
    let invalid = |field, message: String| Err(CoreError::Invalid { field, message });
    let gang = spec.gang;
    if gang.nodes == 0 {
        return invalid("spec.gang.nodes", "must be at least 1".to_owned());
    }
    if gang.ranks_per_node == 0 {
        return invalid("spec.gang.ranksPerNode", "must be at least 1".to_owned());
    }
    let ranks = spec.ranks();
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
    let spares = spec.placement.spares;
    if gang.nodes.saturating_add(spares) > max_nodes {
        let text = format!(
            "{} nodes and {spares} spares are more than the {max_nodes} that a job may have (max_gang_nodes)",
            gang.nodes
        );
        return invalid("spec.placement.spares", text);
    }
    check_array(spec, config)?;
    if !(-1000..=1000).contains(&spec.priority) {
        return invalid("spec.priority", format!("{} is not within -1000 to 1000", spec.priority));
    }
    spec.check().map_err(|flaw| CoreError::Contradiction { flaw })?;
    match &spec.work {
        Work::Command(command) if command.argv.is_empty() => {
            invalid("spec.command.argv", "must name a program".to_owned())
        }
        _ => Ok(()),
    }
}

/// What must have been by now comes too late.
pub(crate) fn check_times(spec: &JobSpec, now: Timestamp) -> Result<(), CoreError> {
    // A class may have given it a limit.
    spec.check().map_err(|flaw| CoreError::Contradiction { flaw })?;
    let Some(latest) = spec.latest_start().filter(|latest| *latest <= now) else { return Ok(()) };
    let (field, message) = match spec.start_before {
        Some(before) if before <= latest => ("spec.startBefore", format!("{} is over", before.utc())),
        _ => {
            let takes = spec.time_limit.or(spec.expected).unwrap_or_default().as_secs();
            (
                "spec.deadline",
                format!("the job takes {takes} s, and would have to have started at {}", latest.utc()),
            )
        }
    };
    Err(CoreError::Invalid { field, message })
}

fn check_array(spec: &JobSpec, config: &Config) -> Result<(), CoreError> {
    let Some(array) = &spec.array else { return Ok(()) };
    let invalid = |message| Err(CoreError::Invalid { field: "spec.array", message });
    if array.indices.is_empty() {
        return invalid("must name at least one index".to_owned());
    }
    if array.indices.len() > config.max_array {
        let (count, most) = (array.indices.len(), config.max_array);
        return invalid(format!(
            "{count} elements are more than the {most} that an array may have (max_array)"
        ));
    }
    if !array.indices.is_sorted_by(|a, b| a < b) {
        return invalid("indices must ascend, each once".to_owned());
    }
    Ok(())
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a TenantName>) -> Option<TenantName> {
    known
        .map(|other| (strsim::damerau_levenshtein(name, other.as_str()), other))
        .filter(|(distance, _)| *distance <= 2)
        .min()
        .map(|(_, other)| other.clone())
}
