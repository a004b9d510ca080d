//! All indices together.

use std::collections::{BTreeMap, BTreeSet};

use controller_queue::QueueState;
use controller_scheduler::{Placer, QueueKey, Snapshot};
use proto_model::{JobId, JobUid, NodeName, Phase, RequestId, ScheduleName, TenantName, Timestamp};

use crate::index::{
    arrays::Elements, claims::ClaimIndex, classes::ClassUses, figures::FigureIndex, runs::Runs,
    usage::UsageIndex,
};

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
    pub holding: BTreeSet<JobUid>,
    /// Usage records by when they ended.
    pub usage: UsageIndex,
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
