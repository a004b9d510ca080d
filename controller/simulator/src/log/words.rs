//! Tenants, queues, reservations, places and acts as lines.

use std::{collections::BTreeSet, fmt, time::Duration};

use controller_queue::{Policy, QueueDef, ReservationDef, ReservedNodes, TenantDef};
use proto_model::{
    Backfill, JobUid, LongJobLimit, NicPlace, NodeName, NodePlace, Objective, Placement, QueueName,
    RankPlace, ReservationName, Shape, TenantName, Timestamp,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A line that says something impossible.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {what}")]
pub struct LineError {
    /// Name of the field in the line.
    pub field: &'static str,
    /// What is wrong with it.
    pub what: String,
}

impl LineError {
    pub(crate) fn new(field: &'static str, what: impl ToString) -> Self {
        Self { field, what: what.to_string() }
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn tenant(text: &str) -> Result<TenantName, LineError> {
    TenantName::new(text).map_err(|error| LineError::new("tenant", error))
}

pub(crate) fn node(text: &str) -> Result<NodeName, LineError> {
    NodeName::new(text).map_err(|error| LineError::new("node", error))
}

pub(crate) fn uid(text: &str) -> Result<JobUid, LineError> {
    text.parse().map_err(|error| LineError::new("uid", error))
}

pub(crate) fn queue(text: &str) -> Result<QueueName, LineError> {
    QueueName::new(text).map_err(|error| LineError::new("queue", error))
}

/// Quota by usable shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShapeLine {
    /// Pods of which every server is free.
    pub pods: u32,
    /// Whole servers beside these pods.
    pub nodes: u32,
    /// Single GPUs beside these servers.
    pub gpus: u32,
}

impl From<Shape> for ShapeLine {
    fn from(Shape { pods, nodes, gpus }: Shape) -> Self {
        Self { pods, nodes, gpus }
    }
}

impl From<ShapeLine> for Shape {
    fn from(ShapeLine { pods, nodes, gpus }: ShapeLine) -> Self {
        Self { pods, nodes, gpus }
    }
}

/// Who may start before jobs that wait ahead of it; times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BackfillLine {
    /// Who delays no planned start.
    #[default]
    Conservative,
    /// Who does not delay the first.
    Easy,
    /// Who delays nobody for longer than this after its submission.
    Slack(u64),
}

impl From<Backfill> for BackfillLine {
    fn from(of: Backfill) -> Self {
        match of {
            Backfill::Conservative => Self::Conservative,
            Backfill::Easy => Self::Easy,
            Backfill::Slack(slack) => Self::Slack(millis(slack)),
        }
    }
}

impl From<BackfillLine> for Backfill {
    fn from(of: BackfillLine) -> Self {
        match of {
            BackfillLine::Conservative => Self::Conservative,
            BackfillLine::Easy => Self::Easy,
            BackfillLine::Slack(slack) => Self::Slack(Duration::from_millis(slack)),
        }
    }
}

/// What the order of waiting jobs is for; a number is a patience in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ObjectiveLine {
    /// Short waits in the mean, with this patience.
    MeanWait(u64),
    /// Short waits of large jobs, with this patience.
    LargeFirst(u64),
    /// Short waits in the mean, by GPU-hours.
    MeanWaitByWork(ByWorkLine),
    /// Short waits of large jobs, by GPU-hours too.
    LargeFirstByWork(ByWorkLine),
    /// First come, first served.
    Fair,
}

/// A patience, and the GPU-hours that are put back by all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ByWorkLine {
    /// The most by which a job can be put back; in milliseconds.
    pub patience: u64,
    /// So many GPU-hours are put back by all of that.
    pub full_delay_gpu_hours: u32,
}

impl fmt::Display for ObjectiveLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patience = |millis: &u64| crate::span::span(*millis as f64 / 1e3);
        match self {
            Self::MeanWait(millis) => write!(f, "mean-wait, patience {}", patience(millis)),
            Self::LargeFirst(millis) => write!(f, "large-first, patience {}", patience(millis)),
            Self::MeanWaitByWork(of) => write!(f, "mean-wait, {of}"),
            Self::LargeFirstByWork(of) => write!(f, "large-first, {of}"),
            Self::Fair => f.write_str("fair"),
        }
    }
}

impl fmt::Display for ByWorkLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patience = crate::span::span(self.patience as f64 / 1e3);
        write!(f, "patience {patience} at {} GPU-hours", self.full_delay_gpu_hours)
    }
}

impl From<Objective> for ObjectiveLine {
    fn from(of: Objective) -> Self {
        match of {
            Objective::MeanWait { patience, full_delay_gpu_hours: None } => Self::MeanWait(millis(patience)),
            Objective::LargeFirst { patience, full_delay_gpu_hours: None } => {
                Self::LargeFirst(millis(patience))
            }
            Objective::MeanWait { patience, full_delay_gpu_hours: Some(hours) } => {
                Self::MeanWaitByWork(ByWorkLine::new(patience, hours))
            }
            Objective::LargeFirst { patience, full_delay_gpu_hours: Some(hours) } => {
                Self::LargeFirstByWork(ByWorkLine::new(patience, hours))
            }
            Objective::Fair => Self::Fair,
        }
    }
}

impl From<ObjectiveLine> for Objective {
    fn from(of: ObjectiveLine) -> Self {
        match of {
            ObjectiveLine::MeanWait(patience) => Self::mean_wait(Duration::from_millis(patience)),
            ObjectiveLine::LargeFirst(patience) => Self::large_first(Duration::from_millis(patience)),
            ObjectiveLine::MeanWaitByWork(of) => of.put_into(Self::mean_wait),
            ObjectiveLine::LargeFirstByWork(of) => of.put_into(Self::large_first),
            ObjectiveLine::Fair => Self::Fair,
        }
    }
}

impl ByWorkLine {
    fn new(patience: Duration, full_delay_gpu_hours: u32) -> Self {
        Self { patience: millis(patience), full_delay_gpu_hours }
    }

    fn put_into(self, objective: fn(Duration) -> Objective) -> Objective {
        objective(Duration::from_millis(self.patience)).with_gpu_hours(Some(self.full_delay_gpu_hours))
    }
}

/// What small jobs that may run for long hold together at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LongJobsLine {
    /// A time limit of so many milliseconds or more is long.
    pub length: u64,
    /// A job of fewer GPUs is small.
    pub below_gpus: u32,
    /// GPUs at most.
    pub gpus: u32,
}

impl From<LongJobLimit> for LongJobsLine {
    fn from(LongJobLimit { length, below_gpus, gpus }: LongJobLimit) -> Self {
        Self { length: millis(length), below_gpus, gpus }
    }
}

impl From<LongJobsLine> for LongJobLimit {
    fn from(LongJobsLine { length, below_gpus, gpus }: LongJobsLine) -> Self {
        Self { length: Duration::from_millis(length), below_gpus, gpus }
    }
}

/// The numbers of the policy; times in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyLine {
    /// Tenants that used less go first.
    pub fair_share: bool,
    /// Who may start before jobs that wait ahead.
    #[serde(default)]
    pub backfill: BackfillLine,
    /// Jobs go as if they had come so much earlier for every doubling of their GPUs.
    #[serde(default)]
    pub head_start: u64,
    /// What the order is for where no queue says it; absent: by age, with the head start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveLine>,
    /// What small jobs that may run for long hold together at most; absent: any number of GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_jobs: Option<LongJobsLine>,
    /// Use counts half after this time.
    pub half_life: u64,
    /// Width of the plan's first steps.
    pub step: u64,
    /// Length of jobs of which nothing is known.
    pub unknown: u64,
    /// Jobs may be stopped for others.
    pub preemption: bool,
    /// How often one job may be stopped for others.
    pub preemptions_max: u32,
    /// Guarantees are kept by stopping borrowers.
    pub reclaim: bool,
    /// When elastic jobs may grow; absent: never.
    pub grow_after: Option<u64>,
}

impl From<&Policy> for PolicyLine {
    fn from(of: &Policy) -> Self {
        Self {
            fair_share: of.fair_share,
            backfill: of.backfill.into(),
            head_start: millis(of.head_start),
            objective: of.objective.map(ObjectiveLine::from),
            long_jobs: of.long_jobs.map(LongJobsLine::from),
            half_life: millis(of.half_life),
            step: millis(of.step),
            unknown: millis(of.unknown),
            preemption: of.preemption,
            preemptions_max: of.preemptions_max,
            reclaim: of.reclaim,
            grow_after: of.grow_after.map(millis),
        }
    }
}

impl From<&PolicyLine> for Policy {
    fn from(of: &PolicyLine) -> Self {
        Self {
            fair_share: of.fair_share,
            backfill: of.backfill.into(),
            head_start: Duration::from_millis(of.head_start),
            objective: of.objective.map(Objective::from),
            long_jobs: of.long_jobs.map(LongJobLimit::from),
            half_life: Duration::from_millis(of.half_life),
            step: Duration::from_millis(of.step),
            unknown: Duration::from_millis(of.unknown),
            preemption: of.preemption,
            preemptions_max: of.preemptions_max,
            reclaim: of.reclaim,
            grow_after: of.grow_after.map(Duration::from_millis),
        }
    }
}

/// A tenant; without `def` it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantLine {
    /// When it came, changed or went, in milliseconds since 1970.
    pub at: u64,
    /// Name of the tenant.
    pub tenant: String,
    /// The tenant is deleted; the other fields mean nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// GPUs at most; absent: any number.
    pub limit: Option<u32>,
    /// Jobs at a time at most; absent: any number.
    pub jobs: Option<u32>,
    /// What its jobs can have at any time.
    pub guaranteed: ShapeLine,
    /// Weight of the tenant among the others: its share of what is free.
    pub weight: u32,
}

impl TenantLine {
    /// Of a tenant, or of its end.
    #[must_use]
    pub fn new(at: Timestamp, tenant: &TenantName, def: Option<&TenantDef>) -> Self {
        let gone = def.is_none();
        let def = def.cloned().unwrap_or_default();
        Self {
            at: at.0,
            tenant: tenant.to_string(),
            gone,
            limit: def.limit,
            jobs: def.jobs,
            guaranteed: def.guaranteed.into(),
            weight: def.weight,
        }
    }

    pub(crate) fn def(&self) -> Option<TenantDef> {
        let Self { limit, jobs, guaranteed, weight, .. } = *self;
        (!self.gone).then_some(TenantDef { limit, jobs, guaranteed: guaranteed.into(), weight })
    }
}

/// A queue; without `def` it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueLine {
    /// When it came, changed or went, in milliseconds since 1970.
    pub at: u64,
    /// The tenant that the queue belongs to.
    pub tenant: String,
    /// Name of the queue within its tenant.
    pub queue: String,
    /// The queue is deleted; the other fields mean nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// Absent: right below the tenant.
    pub parent: Option<String>,
    /// What its jobs can always have.
    pub guaranteed: ShapeLine,
    /// GPUs at most; absent: any number.
    pub limit: Option<u32>,
    /// Weight of the queue among its siblings: its share of what is free.
    pub weight: u32,
    /// What its order is for; absent: as the queue above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveLine>,
}

impl QueueLine {
    /// Of a queue, or of its end.
    #[must_use]
    pub fn new(at: Timestamp, tenant: &TenantName, name: &QueueName, def: Option<&QueueDef>) -> Self {
        Self {
            at: at.0,
            tenant: tenant.to_string(),
            queue: name.to_string(),
            gone: def.is_none(),
            parent: def.and_then(|def| Some(def.parent.as_ref()?.to_string())),
            guaranteed: def.map_or_else(ShapeLine::default, |def| def.guaranteed.into()),
            limit: def.and_then(|def| def.limit),
            weight: def.map_or(1, |def| def.weight),
            objective: def.and_then(|def| def.objective).map(ObjectiveLine::from),
        }
    }

    pub(crate) fn all(&self) -> Result<(TenantName, QueueName, Option<QueueDef>), LineError> {
        let parent = self.parent.as_deref().map(queue).transpose()?;
        let Self { gone, guaranteed, limit, weight, objective, .. } = *self;
        let objective = objective.map(Objective::from);
        let def =
            (!gone).then_some(QueueDef { parent, guaranteed: guaranteed.into(), limit, weight, objective });
        Ok((tenant(&self.tenant)?, queue(&self.queue)?, def))
    }
}

/// A reservation that comes, changes or goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReservationLine {
    /// When this was said, in milliseconds.
    pub at: u64,
    /// Name of the reservation.
    pub reservation: String,
    /// The reservation is deleted; the other fields mean nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// These servers; empty: so many as `count` says.
    pub nodes: Vec<String>,
    /// So many servers, in so many pods at most (0: any number).
    pub count: Option<(u32, u32)>,
    /// When it begins, in milliseconds since 1970.
    pub start: u64,
    /// How long it lasts, in milliseconds.
    pub duration: u64,
    /// The tenants whose jobs may run in it; empty for maintenance.
    pub tenants: Vec<String>,
    /// It is for maintenance: no job runs in it.
    pub maintenance: bool,
    /// A text for people; may be empty.
    pub reason: String,
}

impl ReservationLine {
    /// Of a reservation, or of its end.
    #[must_use]
    pub fn new(at: Timestamp, name: &ReservationName, def: Option<&ReservationDef>) -> Self {
        let mut line = Self {
            at: at.0,
            reservation: name.to_string(),
            gone: def.is_none(),
            nodes: Vec::new(),
            count: None,
            start: 0,
            duration: 0,
            tenants: Vec::new(),
            maintenance: false,
            reason: String::new(),
        };
        if let Some(def) = def {
            match &def.nodes {
                ReservedNodes::Names(names) => line.nodes = names.iter().map(ToString::to_string).collect(),
                ReservedNodes::Count { nodes, pods_at_most } => line.count = Some((*nodes, *pods_at_most)),
            }
            line.start = def.start.0;
            line.duration = millis(def.duration);
            line.tenants = def.tenants.iter().map(ToString::to_string).collect();
            line.maintenance = def.maintenance;
            line.reason.clone_from(&def.reason);
        }
        line
    }

    pub(crate) fn all(&self) -> Result<(ReservationName, Option<ReservationDef>), LineError> {
        let name =
            ReservationName::new(&self.reservation).map_err(|error| LineError::new("reservation", error))?;
        if self.gone {
            return Ok((name, None));
        }
        let nodes = match self.count {
            Some((nodes, pods_at_most)) => ReservedNodes::Count { nodes, pods_at_most },
            None => ReservedNodes::Names(self.nodes.iter().map(|name| node(name)).collect::<Result<_, _>>()?),
        };
        let tenants: Result<BTreeSet<TenantName>, LineError> =
            self.tenants.iter().map(|name| tenant(name)).collect();
        let def = ReservationDef {
            nodes,
            start: Timestamp(self.start),
            duration: Duration::from_millis(self.duration),
            tenants: tenants?,
            maintenance: self.maintenance,
            reason: self.reason.clone(),
        };
        Ok((name, Some(def)))
    }
}

/// A server takes jobs, or no longer does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeLine {
    /// When it changed, in milliseconds since 1970.
    pub at: u64,
    /// Name of the server.
    pub node: String,
    /// The server takes jobs; else no job is placed on it.
    pub open: bool,
}

/// One decision of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "lowercase")]
pub enum ActLine {
    /// A waiting job starts.
    Start {
        /// Identifier of the job.
        uid: String,
        /// The servers and GPUs that it gets.
        placement: PlacementLine,
    },
    /// A job is stopped for another.
    Preempt {
        /// Identifier of the job that is stopped.
        victim: String,
        /// Identifier of the job that needs the room.
        by: String,
        /// Between signal and kill, in milliseconds.
        grace: u64,
    },
    /// An elastic job goes on with another number of servers.
    Resize {
        /// Identifier of the job.
        uid: String,
        /// Number of servers that it goes on with.
        nodes: u32,
    },
}

impl From<&controller_queue::Act> for ActLine {
    fn from(act: &controller_queue::Act) -> Self {
        use controller_queue::Act;
        match act {
            Act::Start { uid, placement } => {
                Self::Start { uid: uid.to_string(), placement: placement.into() }
            }
            Act::Preempt { victim, by, grace, .. } => {
                Self::Preempt { victim: victim.to_string(), by: by.to_string(), grace: millis(*grace) }
            }
            Act::Shrink { victim: uid, nodes, .. } | Act::Grow { uid, nodes, .. } => {
                Self::Resize { uid: uid.to_string(), nodes: *nodes }
            }
        }
    }
}

/// A place. Ranks follow from it and are kept as a digest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementLine {
    /// Numbers of the rails in use, ascending.
    pub rails: Vec<u32>,
    /// Servers in rank order, each with its GPUs.
    pub nodes: Vec<(String, Vec<u32>)>,
    /// Servers held idle, each with its GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spares: Vec<(String, Vec<u32>)>,
    /// Number of pods that the servers are in.
    pub pods: u32,
    /// Weight of the job's traffic that crosses pods and leaves.
    pub cut: u64,
    /// No other job is placed on its servers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// CPUs that it holds on each.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cpus: u32,
    /// Bytes of memory that it holds on each.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub memory: u64,
    /// Digest of NICs, leaves and rank map.
    pub ranks: String,
}

impl From<&Placement> for PlacementLine {
    fn from(of: &Placement) -> Self {
        let places = |places: &[NodePlace]| -> Vec<(String, Vec<u32>)> {
            places.iter().map(|place| (place.node.to_string(), place.gpus.clone())).collect()
        };
        Self {
            rails: of.rails.clone(),
            nodes: places(&of.nodes),
            spares: places(&of.spares),
            pods: of.pods,
            cut: of.cut,
            exclusive: of.exclusive,
            cpus: of.nodes.first().map_or(0, |place| place.cpus),
            memory: of.nodes.first().map_or(0, |place| place.memory_bytes),
            ranks: ranks(of),
        }
    }
}

/// FNV-1a of everything that a place says beside servers and GPUs.
fn ranks(of: &Placement) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: &str| {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for place in of.nodes.iter().chain(&of.spares) {
        add(&place.pod);
        for NicPlace { device, rail, leaf, .. } in &place.nics {
            add(device);
            add(&rail.to_string());
            add(leaf);
        }
    }
    for RankPlace { rank, node, local_rank, gpus, nic, rail, leaf } in &of.ranks {
        add(&format!("{rank} {node} {local_rank} {gpus:?} {nic} {rail} {leaf}"));
    }
    format!("{hash:016x}")
}

pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

pub(crate) fn is_nothing(bytes: &u64) -> bool {
    *bytes == 0
}
