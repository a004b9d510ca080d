//! Jobs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    ArrayPlace, ArraySpec, Authority, Certification, Component, Dependency, EnvSource, Eta, FailurePolicy,
    JobId, JobUid, LicenseName, NodeName, Phase, Placement, PlacementRequest, Preemption, QueueName, Reason,
    Requeue, ReservationName, Role, ScheduledRun, ServiceClassName, Timestamp, component::Gang,
};

/// What is kept of every job beside what its user wrote: names, times, causes, the request's id.
const JOB_BYTES: u64 = 1024;
/// A node of a placement with its GPUs, NICs and addresses.
const PLACE_BYTES: u64 = 256;
/// What a string costs beside its bytes.
const PAIR_BYTES: usize = 4;

/// A job: what was asked, and what was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Tenant and name; a later job may have the same once this one is gone.
    pub id: JobId,
    /// Identifier of this very job; never given to another one.
    pub uid: JobUid,
    /// The user's own key/value pairs.
    pub labels: BTreeMap<String, String>,
    /// Number of the version of `spec`: it grows with each change.
    pub generation: u64,
    /// Asked; whatever becomes of the job shares it.
    pub spec: Arc<JobSpec>,
    /// What was seen of the job so far.
    pub status: JobStatus,
}

impl Job {
    /// Bytes of the store that it is counted with: what its user wrote, what is kept of every job, and what its placement will
    /// take. It changes only with what is asked, so that a job that was taken never comes to be over the limit by itself.
    #[must_use]
    pub fn footprint(&self) -> u64 {
        self.spec.footprint(&self.labels)
    }
}

/// What was asked. Built by the checked conversion in `proto-wire`, with defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSpec {
    /// How many of what. Of a gang of components: all their nodes, and of everything else the most that any of them asks for.
    pub gang: Gang,
    /// The parts of a gang whose nodes are not all alike, in rank order; empty: all are as `gang` says.
    pub components: Vec<Component>,
    /// Which rails the gang needs, and whether it may run with fewer.
    pub rails: RailRequest,
    /// Which nodes will do, and how near to each other they must lie.
    pub placement: PlacementRequest,
    /// Which of the tenant's queues; `None`: the tenant itself.
    pub queue: Option<QueueName>,
    /// Its service class; of a job that was taken the one that it is of.
    pub service_class: Option<ServiceClassName>,
    /// How many of which licenses it holds while it runs; each at least 1.
    pub licenses: BTreeMap<LicenseName, u32>,
    /// Priority from -1000 to 1000; the higher one goes first.
    pub priority: i32,
    /// Longest run of one attempt; `None` is no limit.
    pub time_limit: Option<Duration>,
    /// How long it will probably run, for plans of the queue; `None`: as long as `time_limit` says.
    pub expected: Option<Duration>,
    /// The job does not start before this time; `None`: as soon as there is room.
    pub begin: Option<Timestamp>,
    /// It has failed if it has not started by then.
    pub start_before: Option<Timestamp>,
    /// It must have ended by then.
    pub deadline: Option<Timestamp>,
    /// The reservation that the job may run in; `None`: outside of all.
    pub reservation: Option<ReservationName>,
    /// Not before these jobs have come so far.
    pub after: Vec<Dependency>,
    /// Many jobs of this kind; `None`: one.
    pub array: Option<ArraySpec>,
    /// How it may be stopped for another.
    pub preemption: Preemption,
    /// Time between SIGTERM and SIGKILL when the job is ended.
    pub grace_period: Duration,
    /// What to do when an attempt fails.
    pub failure: FailurePolicy,
    /// What its gang is to pass before its ranks start, at least: the controller's own policy may ask for more.
    pub certification: Certification,
    /// How the engines carry out operations.
    pub engine: EngineOptions,
    /// What each rank runs.
    pub work: Work,
}

impl JobSpec {
    /// The grace period of a job that asks for none.
    pub const GRACE: Duration = Duration::from_secs(10);
    /// The longest duration that a job may ask for.
    pub const LONGEST: Duration = Duration::from_secs(366 * 86_400);

    /// See [`Job::footprint`]; of one element, where it asks for an array.
    #[must_use]
    pub fn footprint(&self, labels: &BTreeMap<String, String>) -> u64 {
        let places = u64::from(self.gang.nodes) + u64::from(self.placement.spares);
        JOB_BYTES + self.written_bytes(labels) + places.saturating_mul(PLACE_BYTES)
    }

    /// Bytes of the store for what its user wrote beside fields of fixed size.
    #[must_use]
    pub fn written_bytes(&self, labels: &BTreeMap<String, String>) -> u64 {
        let pairs = |pairs: &BTreeMap<String, String>| -> usize {
            pairs.iter().map(|(key, value)| key.len() + value.len() + PAIR_BYTES).sum()
        };
        let sources = |sources: &[EnvSource]| -> usize {
            let words = |one: &EnvSource| one.variable.len() + one.object.as_str().len() + one.key.len();
            sources.iter().map(|one| words(one) + 2 * PAIR_BYTES).sum()
        };
        let work = match &self.work {
            Work::Command(command) => {
                let argv: usize = command.argv.iter().map(|word| word.len() + PAIR_BYTES).sum();
                argv + pairs(&command.env) + sources(&command.env_from) + command.working_dir.len()
            }
            Work::Collective(_) => 0,
            Work::Allocation(held) => pairs(&held.env) + sources(&held.env_from) + held.working_dir.len(),
        };
        let licenses: usize = self.licenses.keys().map(|name| name.as_str().len() + PAIR_BYTES).sum();
        let components: usize = self.components.iter().map(Component::footprint).sum();
        let named = self.placement.nodes.iter().chain(&self.placement.exclude);
        let named: usize = named.map(|node| node.as_str().len() + PAIR_BYTES).sum();
        (work + licenses + components + named + pairs(labels)) as u64
    }

    /// The last time at which it may start: what it takes must fit before its deadline.
    #[must_use]
    pub fn latest_start(&self) -> Option<Timestamp> {
        let takes = self.time_limit.or(self.expected).unwrap_or_default();
        let takes = u64::try_from(takes.as_millis()).unwrap_or(u64::MAX);
        let fits = self.deadline.map(|deadline| Timestamp(deadline.0.saturating_sub(takes)));
        [self.start_before, fits].into_iter().flatten().min()
    }

    /// When an attempt that has started then is ended: by its limit, or by its deadline.
    #[must_use]
    pub fn ends_at(&self, started: Timestamp) -> Option<Timestamp> {
        let limit = self.time_limit.map(|limit| started.plus(limit));
        [limit, self.deadline].into_iter().flatten().min()
    }

    /// Between the signal and SIGKILL where an attempt is stopped to begin anew: for another job, to go on elsewhere, or because it is suspended.
    #[must_use]
    pub fn stop_grace(&self) -> Duration {
        self.preemption.grace.unwrap_or(self.grace_period)
    }

    /// A job that asks for nothing beyond its gang: every other field has its default.
    #[must_use]
    pub fn new(gang: Gang, work: Work) -> Self {
        Self {
            gang,
            components: Vec::new(),
            rails: RailRequest::default(),
            placement: PlacementRequest::default(),
            queue: None,
            service_class: None,
            licenses: BTreeMap::new(),
            priority: 0,
            time_limit: None,
            expected: None,
            begin: None,
            start_before: None,
            deadline: None,
            reservation: None,
            after: Vec::new(),
            array: None,
            preemption: Preemption::of_priority(0),
            grace_period: Self::GRACE,
            failure: FailurePolicy::new(Requeue::Never, 0),
            certification: Certification::Off,
            engine: EngineOptions::default(),
            work,
        }
    }
}

/// Which rails every node of the gang must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RailRequest {
    /// How many; 0 means all rails of the fabric.
    pub required: u32,
    /// True: any `required` common rails. False: rails `0..required`.
    pub allow_partial: bool,
    /// No rail at all: a job of one node that holds no NIC.
    pub none: bool,
    /// True: rails that are drained will not do. False: they are the last choice.
    pub avoid_drained: bool,
}

/// How the job's engines carry out its operations. All engines of an attempt must be given the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineOptions {
    /// What goes over the rails carries checksums, and what fails them is sent again.
    pub checksum: bool,
    /// Floats are equal to the bit whichever algorithm is taken.
    pub reproducible: bool,
    /// Taken wherever it fits; `None`: the one that is predicted to be fastest.
    pub algorithm: Option<Algorithm>,
    /// Queue pairs of each link over RDMA, from 1 on.
    pub queue_pairs: u32,
    /// What is done to what goes over rails between servers.
    pub protection: RailProtection,
}

word! {
    /// What is done to what goes over rails between servers, after engines have proved the job's key to each other. The more, the greater.
    RailProtection {
        /// Nothing: who is on the way can read and change it.
        None = "none",
        /// What was changed on its way is known before any of it is used, and is sent again.
        Integrity = "integrity",
        /// The same, and nobody else can read it.
        Encrypted = "encrypted",
    }
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            checksum: false,
            reproducible: true,
            algorithm: None,
            queue_pairs: 1,
            protection: RailProtection::None,
        }
    }
}

/// What a job runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Any program, once per rank.
    Command(CommandSpec),
    /// A built-in benchmark of the engine.
    Collective(CollectiveSpec),
    /// Nothing by itself: its servers are held for steps.
    Allocation(AllocationSpec),
}

impl Work {
    /// What of its environment secrets and configs hold.
    #[must_use]
    pub fn env_from(&self) -> &[EnvSource] {
        match self {
            Self::Command(command) => &command.env_from,
            Self::Allocation(held) => &held.env_from,
            Self::Collective(_) => &[],
        }
    }
}

/// What steps of an allocation find.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllocationSpec {
    /// Variables of the ranks; they win over those that Railyard sets.
    pub env: BTreeMap<String, String>,
    /// What of it secrets and configs hold; `env` wins over it.
    pub env_from: Vec<EnvSource>,
    /// Empty: the job's own directory.
    pub working_dir: String,
}

/// Any program, started once for each rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// Program and arguments; never empty.
    pub argv: Vec<String>,
    /// Variables of the ranks; they win over those that Railyard sets.
    pub env: BTreeMap<String, String>,
    /// What of it secrets and configs hold; `env` wins over it.
    pub env_from: Vec<EnvSource>,
    /// Empty: the job's own directory.
    pub working_dir: String,
}

/// A collective of the built-in benchmark, run and measured by the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectiveSpec {
    /// The collective to measure.
    pub op: CollectiveOp,
    /// Bytes of one rank's message.
    pub bytes: u64,
    /// Type of the elements of a message.
    pub dtype: Dtype,
    /// Reduction, where the collective has one.
    pub reduce: ReduceOp,
    /// Runs that are timed.
    pub iterations: u32,
    /// Runs before the timed ones, which are not counted.
    pub warmup: u32,
    /// Each element of every result is compared with the right one.
    pub verify: bool,
}

word!(
    /// A collective operation, as MPI and NCCL name it.
    CollectiveOp {
        /// Reduces the messages of all ranks; every rank has the result.
        AllReduce = "all-reduce",
        /// Concatenates the messages of all ranks; every rank has the result.
        AllGather = "all-gather",
        /// Reduce, each rank keeps its block.
        ReduceScatter = "reduce-scatter",
        /// Copies one rank's message to all ranks.
        Broadcast = "broadcast",
        /// Each rank's block k to rank k.
        AllToAll = "all-to-all",
        /// Nobody passes before all have come.
        Barrier = "barrier",
        /// Each rank to its right neighbour.
        SendRecv = "send-recv",
    }
);
word!(
    /// How an operation is carried out; the engine's words.
    Algorithm {
        /// Every node exchanges with every other one directly.
        Direct = "direct",
        /// All-reduce in a single step between all nodes.
        OneShot = "one-shot",
        /// Blocks go from neighbour to neighbour in a ring.
        Ring = "ring",
        /// Recursive halving, then recursive doubling.
        Halving = "halving",
        /// Broadcast by scattering the message and relaying its parts.
        Relay = "relay",
        /// All-reduce of few bytes by recursive doubling.
        Doubling = "doubling",
    }
);
word!(
    /// Type of the elements that a collective reduces or moves.
    Dtype {
        /// IEEE 754 binary32, 4 bytes.
        F32 = "f32",
        /// IEEE 754 binary64, 8 bytes.
        F64 = "f64",
        /// Two's complement, 32 bits.
        I32 = "i32",
        /// Two's complement, 64 bits.
        I64 = "i64",
        /// IEEE 754 binary16, 2 bytes.
        F16 = "f16",
        /// bfloat16: the upper half of a binary32, 2 bytes.
        Bf16 = "bf16",
    }
);
word!(
    /// How a collective combines elements of several ranks.
    ReduceOp {
        /// The sum of the elements.
        Sum = "sum",
        /// The smallest of the elements.
        Min = "min",
        /// The largest of the elements.
        Max = "max",
        /// The product of the elements.
        Prod = "prod",
    }
);

/// What was seen of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobStatus {
    /// Where it is in its life.
    pub phase: Phase,
    /// Every cause of the phase.
    pub reasons: Vec<Reason>,
    /// Where it runs; present exactly in phases that hold, and kept after the end.
    pub placement: Option<Arc<Placement>>,
    /// Number of the attempt: 1 for the first one.
    pub attempt: u32,
    /// When the job was accepted.
    pub submitted: Timestamp,
    /// When all ranks of the present attempt had been started.
    pub started: Option<Timestamp>,
    /// When the job ended; `None` while it has not.
    pub ended: Option<Timestamp>,
    /// One entry for each rank that has ended in the present attempt.
    pub exits: Vec<RankExit>,
    /// What the collective of the job measured; `None` for other jobs and before.
    pub result: Option<RunResult>,
    /// W3C trace context of the submit.
    pub trace_parent: String,
    /// Somebody asked for the job's end.
    pub cancel_requested: bool,
    /// Of which array it is an element.
    pub array: Option<ArrayPlace>,
    /// How often it was stopped for another job.
    pub preempted: u32,
    /// Attempts that failed and were repeated. `attempt` counts also those that were stopped on purpose.
    pub restarts: u32,
    /// Nodes of it that were replaced so far.
    pub replaced: u32,
    /// When it will probably start; not stored, worked out when asked for.
    pub eta: Option<Eta>,
    /// Who holds it back while it waits: one for each role at most, in the order of roles.
    pub holds: Vec<JobHold>,
    /// Who submitted it; `None` where an earlier release did not say.
    pub submitter: Option<Authority>,
    /// The run of a schedule that submitted it; `None`: no schedule did.
    pub schedule: Option<ScheduledRun>,
    /// Attempts before the present one, the oldest first; at most [`PastAttempt::MAX`].
    pub past_attempts: Vec<Arc<PastAttempt>>,
}

/// An attempt that has ended, and was followed by another.
#[derive(Debug, Clone, PartialEq)]
pub struct PastAttempt {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// When all its ranks had been started, if they ever were.
    pub started: Option<Timestamp>,
    /// When the attempt ended.
    pub ended: Timestamp,
    /// Every cause of its end.
    pub reasons: Vec<Reason>,
    /// Ranks that ended badly, the first of them; at most [`PastAttempt::MAX_EXITS`].
    pub exits: Vec<RankExit>,
    /// The servers that it had.
    pub nodes: Vec<NodeName>,
}

impl PastAttempt {
    /// The most past attempts that a job remembers.
    pub const MAX: usize = 8;
    /// Exits that are kept of one.
    pub const MAX_EXITS: usize = 16;
    /// Causes that are kept of one.
    pub const MAX_REASONS: usize = 8;

    /// Ranks that ended badly, in the order in which they did, as far as they are kept.
    #[must_use]
    pub fn failed(exits: &[RankExit]) -> Vec<RankExit> {
        let mut failed: Vec<RankExit> = exits.iter().copied().filter(|exit| !exit.is_success()).collect();
        failed.sort_by_key(|exit| (exit.time, exit.rank));
        failed.truncate(Self::MAX_EXITS);
        failed
    }
}

/// A waiting job is held: it keeps its place in the queue, and does not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobHold {
    /// Who has this role, or more, may release it.
    pub role: Role,
    /// Who held it: an administrator's name, or a user of the job's tenant. Empty: the controller, because its environment cannot be made.
    pub by: String,
    /// In their words; may be empty.
    pub reason: String,
    /// Since when it is held.
    pub since: Timestamp,
    /// It is a suspension: what ran was stopped for it.
    pub suspended: bool,
}

impl JobHold {
    /// Bytes of a reason at most.
    pub const MAX_REASON: usize = 1024;

    /// Whether the controller holds it, and nobody else: it lets it go by itself.
    #[must_use]
    pub fn is_our_own(&self) -> bool {
        self.by.is_empty()
    }
}

/// What a rank has used from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RankUsage {
    /// CPU time, of what it has started and waited for too; `None`: not reported.
    pub cpu: Option<Duration>,
    /// The most resident memory that was seen, in bytes; 0: it ended before a look.
    pub memory_peak: u64,
}

/// How one rank ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankExit {
    /// The rank's number in the gang, from 0.
    pub rank: u32,
    /// Exit status; meaningful where `signal` is 0.
    pub code: i32,
    /// The signal that ended it, or 0.
    pub signal: i32,
    /// When the rank ended.
    pub time: Timestamp,
    /// CPU time and memory that the rank has used.
    pub usage: RankUsage,
}

impl RankExit {
    /// Ended by itself with status 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self.code == 0 && self.signal == 0
    }
}

/// What rank 0 of a collective measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunResult {
    /// Ranks of the gang.
    pub ranks: u32,
    /// Bytes of one rank's message.
    pub bytes: u64,
    /// Runs that were timed.
    pub iterations: u32,
    /// Fastest run in microseconds.
    pub time_us_min: f64,
    /// Median run in microseconds.
    pub time_us_median: f64,
    /// Slowest run in microseconds.
    pub time_us_max: f64,
    /// Algorithm bandwidth: bytes / time, in Gbit/s.
    pub alg_bw_gbps: f64,
    /// As nccl-tests defines it, in Gbit/s.
    pub bus_bw_gbps: f64,
    /// Every element was checked and right.
    pub verified: bool,
    /// Elements that were wrong.
    pub mismatches: u64,
    /// Bytes per rail, over all engines.
    pub rails: Vec<RailBytes>,
}

/// Bytes that moved on one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RailBytes {
    /// Number of the rail.
    pub rail: u32,
    /// Bytes that the server's engine sent on it.
    pub tx_bytes: u64,
    /// Bytes that the server's engine received on it.
    pub rx_bytes: u64,
}
