//! The state: what is stored, what agents have told since they connected, and indices made from both.
//!
//! `records` are the rows that only the controller reads, `write` what a step writes of all rows, `load` the state from what is stored,
//! `tables` the setters, `journal` how to undo them.

pub mod config;
pub(crate) mod journal;
pub mod load;
pub mod records;
mod tables;
pub(crate) mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_queue::QueueState;
use controller_scheduler::{Placer, QueueKey, Snapshot};
use controller_topology::RailSet;
use proto_audit::Log;
use proto_model::{
    AlgorithmChoice, DesiredQos, Drain, DrainTarget, Fabric, Job, JobId, JobUid, License, LicenseName,
    Measured, Node, NodeName, Observed, Phase, QosRollout, Queue, QueueName, RailBytes, RailEndpoint,
    RailProof, RailReport, RankExit, Reason, RequestId, Reservation, ReservationName, RunResult,
    ScheduleName, ServiceClass, ServiceClassName, Tenant, TenantName, Timestamp, Values, ValuesId,
};

use crate::{
    audit::{Chains, RowSummary},
    event::Key,
    job::{
        arrays::Elements,
        decisions::DecisionRow,
        schedules::{Runs, ScheduleEntry, ScheduleKey},
    },
    node::claims::ClaimIndex,
    rail::prove::Proving,
    rollout::Run,
    state::{
        config::Config,
        journal::Journal,
        records::{Attempt, RequestRecord, RestingName, TokenRecord},
    },
    tenant::{
        deleted::{DeletedKey, Tombstone},
        documents::ClassUses,
        figures::FigureIndex,
        webhooks::{Deliveries, Webhooks},
    },
};

/// Everything the controller decides from.
///
/// Base tables hold what is stored, and beside it what can be learned again: connections and views. Indices are a
/// function of the base tables. All changes go through the setters in `tables`, which note how to undo them.
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) config: Config,
    pub(crate) epoch: u64,
    pub(crate) base: Base,
    pub(crate) index: Index,
    pub(crate) versions: BTreeMap<Key, u64>,
    pub(crate) journal: Journal,
}

/// The tables.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Base {
    pub(crate) fabric: Option<Arc<Fabric>>,
    pub(crate) drains: BTreeMap<DrainTarget, Arc<Drain>>,
    pub(crate) qos: Option<Arc<QosRollout>>,
    pub(crate) nodes: BTreeMap<NodeName, Arc<Node>>,
    pub(crate) tenants: BTreeMap<TenantName, Arc<Tenant>>,
    pub(crate) resting: BTreeMap<TenantName, Arc<RestingName>>,
    /// What was deleted and can be brought back.
    pub(crate) tombstones: BTreeMap<DeletedKey, Arc<Tombstone>>,
    pub(crate) queues: BTreeMap<(TenantName, QueueName), Arc<Queue>>,
    pub(crate) classes: BTreeMap<ServiceClassName, Arc<ServiceClass>>,
    pub(crate) licenses: BTreeMap<LicenseName, Arc<License>>,
    pub(crate) reservations: BTreeMap<ReservationName, Arc<Reservation>>,
    pub(crate) schedules: BTreeMap<ScheduleKey, ScheduleEntry>,
    /// Secrets and configs.
    pub(crate) values: BTreeMap<ValuesId, Arc<Values>>,
    pub(crate) webhooks: Webhooks,
    /// What waits to be sent by webhooks.
    pub(crate) deliveries: Deliveries,
    pub(crate) jobs: BTreeMap<JobUid, JobEntry>,
    pub(crate) requests: BTreeMap<(TenantName, RequestId), Arc<RequestRecord>>,
    pub(crate) tokens: BTreeMap<[u8; 32], Arc<TokenRecord>>,
    pub(crate) decisions: BTreeMap<u64, Arc<DecisionRow>>,
    pub(crate) chains: Chains,
    /// Rows of the audit logs by their first record; what they say stays in the store.
    pub(crate) audit: BTreeMap<(Log, u64), RowSummary>,
    /// Not stored: connections.
    pub(crate) links: BTreeMap<NodeName, Link>,
    /// Not stored: what each node of a gang has reported, by position in the gang.
    pub(crate) views: BTreeMap<(JobUid, u32), NodeView>,
    /// Not stored: how far the queue was looked at.
    pub(crate) schedule: Schedule,
    /// Not stored: what of the rollout of a profile is under way, and when it is looked at again.
    pub(crate) qos_run: Run,
    pub(crate) qos_check: Option<Timestamp>,
    /// Not stored: which rails that are out of use are being proved, and when they are looked at again.
    pub(crate) proving: Proving,
    pub(crate) prove_check: Option<Timestamp>,
}

/// What follows from the tables.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Index {
    pub(crate) snapshot: Snapshot,
    /// The policy's view of all jobs that have not ended.
    pub(crate) queue_state: QueueState,
    /// Remembers what it saw of the snapshot.
    pub(crate) placer: Placer,
    pub(crate) names: BTreeMap<JobId, JobUid>,
    /// Jobs that name nodes which they do not want.
    pub(crate) excluding: BTreeSet<JobUid>,
    /// Jobs that have ended, by when that was, where they are not kept for ever. One that others still wait for stands at the time when
    /// it was looked at last.
    pub(crate) ended: BTreeSet<(Timestamp, JobUid)>,
    /// Jobs for which nothing but room is missing.
    pub(crate) queue: BTreeSet<QueueKey>,
    /// Jobs that wait, held ones included.
    pub(crate) waiting: usize,
    /// Jobs in each phase, in the order of life.
    pub(crate) phases: [i64; Phase::ALL.len()],
    pub(crate) arrays: BTreeMap<JobId, Elements>,
    /// The jobs of schedules.
    pub(crate) runs: Runs,
    /// Per job or array those that wait for it.
    pub(crate) dependents: BTreeMap<JobId, BTreeSet<JobUid>>,
    /// Which nodes report what only one can have.
    pub(crate) claims: ClaimIndex,
    /// Jobs that hold something on a node, with the node's position in their gang.
    pub(crate) holds: BTreeMap<NodeName, BTreeMap<JobUid, u32>>,
    /// Jobs that hold something idle on a node.
    pub(crate) spares: BTreeMap<NodeName, BTreeSet<JobUid>>,
    pub(crate) tenants: BTreeMap<TenantName, TenantJobs>,
    /// What the jobs of queues hold and wait for.
    pub(crate) figures: FigureIndex,
    /// What jobs of service classes use.
    pub(crate) classes: ClassUses,
    pub(crate) holding: usize,
    /// Records of decisions, and the rows that have some of a job.
    pub(crate) decisions: usize,
    pub(crate) decided: BTreeMap<JobId, BTreeSet<u64>>,
    pub(crate) due: BTreeSet<(Timestamp, Due)>,
    pub(crate) request_times: BTreeSet<(Timestamp, TenantName, RequestId)>,
    /// How many request ids are kept for each tenant's name.
    pub(crate) request_counts: BTreeMap<TenantName, usize>,
    pub(crate) token_times: BTreeSet<(Timestamp, [u8; 32])>,
}

/// What waits for a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    Job(JobUid),
    /// The last time at which a waiting job may start.
    LatestStart(JobUid),
    Node(NodeName),
    /// A schedule's next run, or something else of it.
    Schedule(TenantName, ScheduleName),
}

/// Counts of a tenant's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TenantJobs {
    pub(crate) active: u32,
    pub(crate) all: u32,
    /// What they are counted with in the store.
    pub(crate) bytes: u64,
}

/// A job with what belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JobEntry {
    pub(crate) job: Arc<Job>,
    /// Present exactly while the phase holds.
    pub(crate) attempt: Option<Arc<Attempt>>,
    /// Not stored: when the core must look at the job again.
    pub(crate) due: Option<Timestamp>,
    /// Not stored: it waits for something else than room; see `depend`.
    pub(crate) held: bool,
    /// Not stored: it was stopped to make room, and starts again with so many nodes at most.
    pub(crate) cap: Option<u32>,
    /// Not stored: counts over the job's views.
    pub(crate) tally: Tally,
}

/// How many nodes of a gang are how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) prepared: u32,
    pub(crate) started: u32,
    pub(crate) finished: u32,
    pub(crate) ended: u32,
}

/// What one node has reported of the present attempt of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeView {
    pub(crate) state: Observed,
    /// All local ranks were started at some time.
    pub(crate) started: bool,
    /// All local ranks ended with success.
    pub(crate) finished: bool,
    pub(crate) endpoints: Vec<RailEndpoint>,
    pub(crate) exits: Vec<RankExit>,
    pub(crate) cause: Option<Reason>,
    pub(crate) result: Option<RunResult>,
    pub(crate) rails: Vec<RailBytes>,
    /// What its engine sees of its rails.
    pub(crate) reports: Vec<RailReport>,
    /// When it said so.
    pub(crate) reported: Option<Timestamp>,
    pub(crate) choices: Vec<AlgorithmChoice>,
    /// What it has measured, until the gang is judged.
    pub(crate) measured: Option<Measured>,
    /// The job has no rails here, and its engine no endpoint.
    pub(crate) railless: bool,
}

impl NodeView {
    pub(crate) fn tally(&self) -> Tally {
        let listens = self.railless || !self.endpoints.is_empty();
        Tally {
            prepared: u32::from(self.state >= Observed::Prepared && listens),
            started: u32::from(self.started),
            finished: u32::from(self.finished),
            ended: u32::from(self.state == Observed::Ended),
        }
    }
}

/// A node's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// `None` while its agent is not connected.
    pub(crate) session: Option<u64>,
    /// When it was last heard; the controller's start if never.
    pub(crate) heard: Timestamp,
    /// When its silence must be looked at; `None` once it is NotReady.
    pub(crate) due: Option<Timestamp>,
    /// Attempts that run there although no desired state has them.
    pub(crate) foreign: BTreeSet<(JobUid, u32)>,
    /// Rails that its agent was told are drained.
    pub(crate) drained: RailSet,
    /// What its agent was told of its class of service.
    pub(crate) qos: Option<Arc<DesiredQos>>,
    /// The highest number of what it was told of it, in this session and before.
    pub(crate) qos_number: u64,
    /// Probes that its agent was told of.
    pub(crate) proofs: Vec<RailProof>,
}

impl Link {
    /// That of a node whose agent is not connected.
    pub(crate) fn absent(heard: Timestamp, due: Option<Timestamp>) -> Self {
        let (foreign, drained) = (BTreeSet::new(), RailSet::EMPTY);
        Self { session: None, heard, due, foreign, drained, qos: None, qos_number: 0, proofs: Vec::new() }
    }
}

/// How far the queue was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Schedule {
    /// Something has changed that may let jobs start: a pass follows.
    pub(crate) wanted: bool,
    /// When time alone may let one start.
    pub(crate) check: Option<Timestamp>,
    /// When more than the first jobs of the queue were looked at last.
    pub(crate) deep: Option<Timestamp>,
    /// Time and counter of the last submit: jobs of one millisecond keep their order too.
    pub(crate) last_submit: (Timestamp, u16),
}

impl JobEntry {
    pub(crate) fn key(&self) -> QueueKey {
        QueueKey {
            priority: std::cmp::Reverse(self.job.spec.priority),
            submitted: self.job.status.submitted,
            uid: self.job.uid,
        }
    }
}

impl State {
    /// This controller's fencing number.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The limits.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The store's revision of a resource's last change; `Some(0)` while a change waits for its commit.
    #[must_use]
    pub fn version(&self, key: &Key) -> Option<u64> {
        if let Some(deleted) = self.journal.pending(key) {
            return (!deleted).then_some(0);
        }
        self.versions.get(key).copied()
    }

    /// When the core wants a [`crate::Event::Tick`]; a time that has passed means at once.
    #[must_use]
    pub fn next_tick(&self) -> Option<Timestamp> {
        let index = &self.index;
        let mut owners = index.tenants.keys().chain(index.request_counts.keys());
        let orphans = owners.any(|tenant| !self.base.tenants.contains_key(tenant));
        let schedule = &self.base.schedule;
        let now = (schedule.wanted || orphans).then_some(Timestamp::default());
        let requests = index.request_times.first().map(|(time, ..)| time.plus(self.config.request_retention));
        let tokens = index.token_times.first().map(|(time, _)| *time);
        let kept = self.config.ended_retention;
        let ended = kept.and_then(|kept| index.ended.first().map(|(time, _)| time.plus(kept)));
        let checks = [schedule.check, self.base.qos_check, self.base.prove_check, self.tombstone_due()];
        let rest = [now, index.due.first().map(|(time, _)| *time), requests, tokens, ended];
        checks.into_iter().chain(rest).flatten().min()
    }

    /// How much one step does from now on, in place of what the configuration says: deadlines of one Tick, placements of
    /// one look at the queue. For a loop whose store does not take the writes of a whole step at once.
    pub fn set_pace(&mut self, due_limit: usize, pass_places: usize) {
        (self.config.due_limit, self.config.pass_places) = (due_limit, pass_places);
    }

    /// The queue shall be looked at again, because the last look was cut short.
    pub fn want_pass(&mut self) {
        self.base.schedule.wanted = true;
    }

    /// What is due first, if anything is, is looked at again at `until`, so that what cannot be stored does not keep up the rest. Only
    /// between commits: it changes nothing that is stored, and is not undone. True if there was
    /// something.
    pub fn postpone_first(&mut self, now: Timestamp, until: Timestamp) -> bool {
        match self.index.due.first().filter(|(time, _)| *time <= now).cloned() {
            Some((_, Due::Job(uid))) => {
                if let Some(entry) = self.base.jobs.get(&uid).cloned() {
                    self.swap_job(uid, Some(JobEntry { due: Some(until), ..entry }));
                }
            }
            Some((time, due @ Due::LatestStart(_))) => {
                self.index.due.remove(&(time, due.clone()));
                self.index.due.insert((until, due));
            }
            Some((_, Due::Node(name))) => {
                if let Some(link) = self.base.links.get(&name).cloned() {
                    self.swap_link(&name, Some(Link { due: Some(until), ..link }));
                }
            }
            Some((_, Due::Schedule(tenant, name))) => {
                let key = (tenant, name);
                if let Some(entry) = self.base.schedules.get(&key).cloned() {
                    self.swap_job_schedule(key, Some(ScheduleEntry { due: Some(until), ..entry }));
                }
            }
            None => return false,
        }
        true
    }

    /// Whether two states would decide alike from here on; for tests of undo and of reloading.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.epoch == other.epoch
            && self.base == other.base
            && self.index == other.index
            && self.versions == other.versions
    }
}

/// The nodes of a placed job with their positions.
pub(crate) fn gang(entry: &JobEntry) -> impl Iterator<Item = (u32, &NodeName)> {
    let nodes = entry.job.status.placement.as_ref().map_or(&[][..], |placement| &placement.nodes);
    nodes.iter().enumerate().map(|(at, place)| (u32::try_from(at).unwrap_or(u32::MAX), &place.node))
}

pub(crate) fn gang_size(entry: &JobEntry) -> u32 {
    let nodes = entry.job.status.placement.as_ref().map_or(0, |placement| placement.nodes.len());
    u32::try_from(nodes).unwrap_or(u32::MAX)
}

/// What is known of a node of a gang before it has reported more than its state.
pub(crate) fn fresh_view(state: Observed) -> NodeView {
    NodeView {
        state,
        started: false,
        finished: false,
        railless: false,
        endpoints: Vec::new(),
        exits: Vec::new(),
        cause: None,
        result: None,
        rails: Vec::new(),
        reports: Vec::new(),
        reported: None,
        choices: Vec::new(),
        measured: None,
    }
}
