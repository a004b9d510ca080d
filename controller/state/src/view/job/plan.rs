//! What would become of a job that is submitted now.

use std::{collections::BTreeMap, sync::Arc};

use controller_queue::{Act, Budget, QueueState};
use controller_scheduler::{Decision, GangRequest, Pass, Placer, QueueKey, Wait};
use proto_model::{
    Authority, Gang, Job, JobId, JobName, JobSpec, JobStatus, JobUid, Phase, Quota, Reason, ReasonCode,
    TenantName, Timestamp,
};

use crate::{
    error::refusal::CoreError,
    rows::job::{JobEntry, Tally},
    tables::state::State,
    view::job::{
        arrays::element,
        check::{check_spec, check_times},
        depend::Hold,
        explain::PREDICTED,
    },
};

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

impl State {
    /// Which name of a job, or of an array and its elements, is taken.
    ///
    /// # Errors
    /// An element of the array cannot be named.
    pub fn taken(&self, id: &JobId, indices: &[u32]) -> Result<Option<JobId>, CoreError> {
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
    ///
    /// # Errors
    /// The tenant's jobs would take more of the store than they may.
    pub fn has_bytes(&self, tenant: &TenantName, quota: Quota, more: u64) -> Result<(), CoreError> {
        let limit = if quota.stored_bytes == 0 { self.config.tenant_bytes } else { quota.stored_bytes };
        let used = self.index.tenants.get(tenant).map_or(0, |jobs| jobs.bytes);
        if more > 0 && used.saturating_add(more) > limit {
            return Err(CoreError::StoredBytesExceeded { tenant: tenant.clone(), used, more, limit });
        }
        Ok(())
    }

    /// No further request id can be remembered.
    pub fn full_of_requests(&self) -> CoreError {
        let remedy = "ask again when older ones have expired";
        CoreError::Full { what: "request ids", limit: self.config.max_requests, remedy }
    }

    /// A new job that waits for something else than room is held from the beginning.
    pub fn hold_back_new(&self, entry: &mut JobEntry, now: Timestamp) {
        let Hold { reasons, never, until } = self.hold(&entry.job, now);
        entry.held = !reasons.is_empty() || !never.is_empty();
        entry.due = if never.is_empty() { until } else { Some(now) };
        if entry.held {
            Arc::make_mut(&mut entry.job).status.reasons = reasons.into_iter().chain(never).collect();
        }
    }

    /// Refuses what could never start on this cluster as it is described now. An elastic job may be small.
    ///
    /// # Errors
    /// [`CoreError::Infeasible`] with every cause.
    pub fn feasible(&self, id: &JobId, spec: &JobSpec, now: Timestamp) -> Result<(), CoreError> {
        let reasons =
            asked_alone(id, spec, None, now, |ask| Pass::default().never(&self.index.snapshot, ask));
        if reasons.is_empty() { Ok(()) } else { Err(CoreError::Infeasible { reasons }) }
    }

    /// Why a job waits: what is amiss with nodes and quota for it alone, and what the queue's policy adds.
    pub fn waits(&self, queue_state: &QueueState, entry: &JobEntry, now: Timestamp) -> Wait {
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
    ///
    /// # Errors
    /// A submit would be refused, and why; that it could never start is no refusal here.
    pub fn decide_new(
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
pub struct Planned {
    /// A place, or why it waits.
    pub decision: Decision,
    /// When it would probably start.
    pub eta: Option<proto_model::Eta>,
    /// Jobs that would be stopped for it.
    pub victims: Vec<JobUid>,
    /// The job, if it would wait for room or quota.
    pub entry: Option<JobEntry>,
}

impl Planned {
    fn of(decision: Decision) -> Self {
        Self { decision, eta: None, victims: Vec::new(), entry: None }
    }
}

/// A job as it is before anything was decided of it.
pub fn fresh_entry(
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

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a TenantName>) -> Option<TenantName> {
    known
        .map(|other| (strsim::damerau_levenshtein(name, other.as_str()), other))
        .filter(|(distance, _)| *distance <= 2)
        .min()
        .map(|(_, other)| other.clone())
}
