//! The state: what is stored, what agents have told since they connected, and indices made from both.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_queue::QueueState;
use controller_scheduler::{Placer, QueueKey, Snapshot};
use proto_audit::Log;
use proto_model::{
    Drain, DrainTarget, Fabric, JobId, JobUid, License, LicenseName, Node, NodeName, Phase, QosRollout,
    Queue, QueueName, RequestId, Reservation, ReservationName, ScheduleName, ServiceClass, ServiceClassName,
    Tenant, TenantName, Timestamp, Values, ValuesId,
};

use crate::{
    config::Config,
    index::{arrays::Elements, claims::ClaimIndex, classes::ClassUses, figures::FigureIndex, runs::Runs},
    rows::{
        audit::{Chains, RowSummary},
        decisions::DecisionRow,
        deleted::{DeletedKey, Tombstone},
        job::{JobEntry, NodeView, Schedule},
        node::Link,
        proving::Proving,
        records::{RequestRecord, RestingName, TokenRecord},
        rollout::Run,
        schedules::{ScheduleEntry, ScheduleKey},
        webhooks::{Deliveries, Webhooks},
        write::Key,
    },
    tables::journal::Journal,
};

/// Everything the controller decides from.
///
/// Base tables hold what is stored, and beside it what can be learned again: connections and views. Indices are a
/// function of the base tables. All changes go through the setters in `tables`, which note how to undo them.
#[derive(Debug, Clone)]
pub struct State {
    /// The limits.
    pub config: Config,
    /// This controller's fencing number.
    pub epoch: u64,
    /// The tables.
    pub base: Base,
    /// What follows from them.
    pub index: Index,
    /// The store's revision of the last change of each resource.
    pub versions: BTreeMap<Key, u64>,
    /// What has changed since the last commit.
    pub journal: Journal,
}

/// The tables.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Base {
    /// The fabric document.
    pub fabric: Option<Arc<Fabric>>,
    /// Rails, leaves and ports out of use.
    pub drains: BTreeMap<DrainTarget, Arc<Drain>>,
    /// The rollout of a profile.
    pub qos: Option<Arc<QosRollout>>,
    /// Servers.
    pub nodes: BTreeMap<NodeName, Arc<Node>>,
    /// Tenants.
    pub tenants: BTreeMap<TenantName, Arc<Tenant>>,
    /// Names of deleted tenants that nobody may have yet.
    pub resting: BTreeMap<TenantName, Arc<RestingName>>,
    /// What was deleted and can be brought back.
    pub tombstones: BTreeMap<DeletedKey, Arc<Tombstone>>,
    /// Queues.
    pub queues: BTreeMap<(TenantName, QueueName), Arc<Queue>>,
    /// Service classes.
    pub classes: BTreeMap<ServiceClassName, Arc<ServiceClass>>,
    /// Licenses.
    pub licenses: BTreeMap<LicenseName, Arc<License>>,
    /// Reservations.
    pub reservations: BTreeMap<ReservationName, Arc<Reservation>>,
    /// Schedules of jobs, and when each is looked at again.
    pub schedules: BTreeMap<ScheduleKey, ScheduleEntry>,
    /// Secrets and configs.
    pub values: BTreeMap<ValuesId, Arc<Values>>,
    /// Webhooks.
    pub webhooks: Webhooks,
    /// What waits to be sent by webhooks.
    pub deliveries: Deliveries,
    /// Jobs with what belongs to them.
    pub jobs: BTreeMap<JobUid, JobEntry>,
    /// Request ids that made a job.
    pub requests: BTreeMap<(TenantName, RequestId), Arc<RequestRecord>>,
    /// Join tokens by their hashes.
    pub tokens: BTreeMap<[u8; 32], Arc<TokenRecord>>,
    /// Rows of the decision log by their numbers.
    pub decisions: BTreeMap<u64, Arc<DecisionRow>>,
    /// The heads of the audit logs.
    pub chains: Chains,
    /// Rows of the audit logs by their first record; what they say stays in the store.
    pub audit: BTreeMap<(Log, u64), RowSummary>,
    /// Not stored: connections.
    pub links: BTreeMap<NodeName, Link>,
    /// Not stored: what each node of a gang has reported, by position in the gang.
    pub views: BTreeMap<(JobUid, u32), NodeView>,
    /// Not stored: how far the queue was looked at.
    pub schedule: Schedule,
    /// Not stored: what of the rollout of a profile is under way, and when it is looked at again.
    pub qos_run: Run,
    /// Not stored: when the rollout is looked at again.
    pub qos_check: Option<Timestamp>,
    /// Not stored: which rails that are out of use are being proved, and when they are looked at again.
    pub proving: Proving,
    /// Not stored: when the proofs are looked at again.
    pub prove_check: Option<Timestamp>,
}

/// What follows from the tables.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Index {
    /// Topology and capacity as the scheduler sees them.
    pub snapshot: Snapshot,
    /// The policy's view of all jobs that have not ended.
    pub queue_state: QueueState,
    /// Remembers what it saw of the snapshot.
    pub placer: Placer,
    /// Jobs by name.
    pub names: BTreeMap<JobId, JobUid>,
    /// Jobs that name nodes which they do not want.
    pub excluding: BTreeSet<JobUid>,
    /// Jobs that have ended, by when that was, where they are not kept for ever. One that others still wait for stands at the time when
    /// it was looked at last.
    pub ended: BTreeSet<(Timestamp, JobUid)>,
    /// Jobs for which nothing but room is missing.
    pub queue: BTreeSet<QueueKey>,
    /// Jobs that wait, held ones included.
    pub waiting: usize,
    /// Jobs in each phase, in the order of life.
    pub phases: [i64; Phase::ALL.len()],
    /// Arrays by name.
    pub arrays: BTreeMap<JobId, Elements>,
    /// The jobs of schedules.
    pub runs: Runs,
    /// Per job or array those that wait for it.
    pub dependents: BTreeMap<JobId, BTreeSet<JobUid>>,
    /// Which nodes report what only one can have.
    pub claims: ClaimIndex,
    /// Jobs that hold something on a node, with the node's position in their gang.
    pub holds: BTreeMap<NodeName, BTreeMap<JobUid, u32>>,
    /// Jobs that hold something idle on a node.
    pub spares: BTreeMap<NodeName, BTreeSet<JobUid>>,
    /// What each tenant's jobs are counted with.
    pub tenants: BTreeMap<TenantName, TenantJobs>,
    /// What the jobs of queues hold and wait for.
    pub figures: FigureIndex,
    /// What jobs of service classes use.
    pub classes: ClassUses,
    /// Jobs that hold something.
    pub holding: usize,
    /// Records of decisions, and the rows that have some of a job.
    pub decisions: usize,
    /// The rows that have some record of a job.
    pub decided: BTreeMap<JobId, BTreeSet<u64>>,
    /// What waits for a time, the earliest first.
    pub due: BTreeSet<(Timestamp, Due)>,
    /// Request ids by when they were made.
    pub request_times: BTreeSet<(Timestamp, TenantName, RequestId)>,
    /// How many request ids are kept for each tenant's name.
    pub request_counts: BTreeMap<TenantName, usize>,
    /// Join tokens by when they expire.
    pub token_times: BTreeSet<(Timestamp, [u8; 32])>,
}

/// What waits for a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A deadline of a job.
    Job(JobUid),
    /// The last time at which a waiting job may start.
    LatestStart(JobUid),
    /// The silence of a node.
    Node(NodeName),
    /// A schedule's next run, or something else of it.
    Schedule(TenantName, ScheduleName),
}

/// Counts of a tenant's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantJobs {
    /// Those that have not ended.
    pub active: u32,
    /// All of them.
    pub all: u32,
    /// What they are counted with in the store.
    pub bytes: u64,
}
