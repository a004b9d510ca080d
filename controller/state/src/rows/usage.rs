//! Usage records: what each attempt of a job held, from when to when, and why it ended. They outlive their jobs.
//!
//! What is counted is what was reserved: an attempt has its servers, GPUs and NICs for itself from the placement until every server has
//! confirmed the end, whether its ranks use them or not, and whether a rail is down meanwhile or not. Neither ever changes within an
//! attempt: a job that goes on with another size, or elsewhere, goes on in another attempt.

use proto_model::{
    Authority, Job, JobId, JobSpec, JobUid, Placement, QueueName, ReasonCode, ServiceClassName, Timestamp,
};

use crate::rows::records::{Attempt, Outcome};

/// Which attempt of which job.
pub type UsageKey = (JobUid, u32);

/// How much an attempt held the whole time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageSize {
    /// Servers with ranks.
    pub nodes: u32,
    /// Further servers that it held idle, to replace those that fail.
    pub spares: u32,
    /// GPUs on all of them.
    pub gpus: u64,
    /// NICs on all of them, one for each rail and server.
    pub nics: u64,
    /// Rails that it was given.
    pub rails: u32,
    /// CPUs that were its alone, on all servers.
    pub cpus: u64,
    /// Bytes of main memory that were its alone, on all servers.
    pub memory_bytes: u64,
}

impl UsageSize {
    /// What a placement holds.
    #[must_use]
    pub fn of(placement: &Placement) -> Self {
        let count = |places: usize| u32::try_from(places).unwrap_or(u32::MAX);
        let mut size = Self {
            nodes: count(placement.nodes.len()),
            spares: count(placement.spares.len()),
            rails: count(placement.rails.len()),
            ..Self::default()
        };
        for place in placement.nodes.iter().chain(&placement.spares) {
            size.gpus += place.gpus.len() as u64;
            size.nics += place.nics.len() as u64;
            size.cpus += u64::from(place.cpus);
            size.memory_bytes = size.memory_bytes.saturating_add(place.memory_bytes);
        }
        size
    }
}

/// How much a job had asked for; an elastic one may hold less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageRequest {
    /// Servers, spares left out.
    pub nodes: u32,
    /// GPUs, with those of its spares.
    pub gpus: u64,
}

impl UsageRequest {
    /// What a job asks for.
    #[must_use]
    pub fn of(spec: &JobSpec) -> Self {
        Self { nodes: spec.gang.nodes, gpus: spec.gpus(spec.gang.nodes) }
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageEnd {
    /// It has not: it held up to the time of the answer. Never stored.
    Running,
    /// All ranks ended with success.
    Completed,
    /// It failed, and the job with it.
    Failed,
    /// The job was cancelled.
    Cancelled,
    /// It failed, and the job was queued again.
    Requeued,
    /// It was stopped for another job, to go on with another size, or on request.
    Preempted,
    /// It was stopped to go on elsewhere.
    Moved,
}

impl UsageEnd {
    /// What an outcome is called here; none is success.
    #[must_use]
    pub fn of(outcome: Option<Outcome>) -> Self {
        match outcome {
            None => Self::Completed,
            Some(Outcome::Fail) => Self::Failed,
            Some(Outcome::Cancel) => Self::Cancelled,
            Some(Outcome::Requeue) => Self::Requeued,
            Some(Outcome::Preempt) => Self::Preempted,
            Some(Outcome::Move) => Self::Moved,
        }
    }
}

/// What one attempt of a job held.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageRecord {
    /// The identity of the job; a name alone may be another job's later.
    pub uid: JobUid,
    /// The attempt of the job, counted from 1.
    pub attempt: u32,
    /// The name of the job, with its tenant.
    pub id: JobId,
    /// The uid of the tenant: a later one with the same name has another.
    pub tenant_uid: String,
    /// The queue that the job waited in; `None`: the tenant itself.
    pub queue: Option<QueueName>,
    /// The service class of the job.
    pub class: Option<ServiceClassName>,
    /// Who submitted the job; `None` where that is not known.
    pub submitter: Option<Authority>,
    /// The priority of the job.
    pub priority: i32,
    /// What the attempt held.
    pub held: UsageSize,
    /// What the job had asked for.
    pub asked: UsageRequest,
    /// When the job was submitted.
    pub submitted: Timestamp,
    /// When the attempt got its place: from then on it held.
    pub placed: Timestamp,
    /// When all its ranks had been started, if they ever were.
    pub started: Option<Timestamp>,
    /// When it gave back what it held.
    pub ended: Timestamp,
    /// How it ended.
    pub end: UsageEnd,
    /// The first cause of its end; `None`: there was none, or it runs.
    pub reason: Option<ReasonCode>,
}

impl UsageRecord {
    /// What the present attempt of a job has held up to `until`.
    #[must_use]
    pub fn of(job: &Job, attempt: &Attempt, tenant_uid: String, until: Timestamp, end: UsageEnd) -> Self {
        let (spec, status) = (&job.spec, &job.status);
        let ends = !matches!(end, UsageEnd::Running | UsageEnd::Completed);
        let cause = status.reasons.first().filter(|_| ends);
        Self {
            uid: job.uid,
            attempt: attempt.attempt,
            id: job.id.clone(),
            tenant_uid,
            queue: spec.queue.clone(),
            class: spec.service_class.clone(),
            submitter: status.submitter.clone(),
            priority: spec.priority,
            held: status.placement.as_deref().map(UsageSize::of).unwrap_or_default(),
            asked: UsageRequest::of(spec),
            submitted: status.submitted,
            placed: attempt.since,
            started: status.started,
            // Another leader's clock may be behind that of the one that placed it.
            ended: until.max(attempt.since),
            end,
            reason: cause.map(|cause| cause.code.clone()),
        }
    }

    /// Which one it is.
    #[must_use]
    pub fn key(&self) -> UsageKey {
        (self.uid, self.attempt)
    }

    /// Milliseconds that it held within an interval; the interval's end is no part of it.
    #[must_use]
    pub fn held_ms(&self, since: Timestamp, until: Timestamp) -> u64 {
        self.ended.min(until).0.saturating_sub(self.placed.max(since).0)
    }
}
