//! What the core answers.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use controller_state::{
    CoreError, TokenRecord, Tombstone, Transition, Write, error::impact::FabricImpact,
    view::tenant::tenants::TenantImpact,
};
use proto_model::{
    Assignment, DesiredQos, DesiredSwitch, Drain, DrainTarget, Fabric, Job, JobSchedule, JobUid, License,
    Node, NodeName, QosRollout, Queue, RailProof, Reason, ReasonCode, Reservation, ServiceClass,
    SwitchConfig, SwitchRollout, Tenant, Timestamp, Values, Webhook,
};

/// What one step brings about.
///
/// Nothing of it may leave the controller before `writes` are durable: first the transaction, then the reply and the
/// pushes. If the transaction fails, `State::rollback` and answer clients with the failure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Output {
    /// The answer to a client's or connecting agent's event. `None` for events that nobody waits for.
    pub reply: Option<Result<Reply, CoreError>>,
    /// One transaction, alone or together with other steps' writes; each key at most once per step. When steps are
    /// merged, a later write of the same [`Key`] replaces an earlier one.
    pub writes: Vec<Write>,
    /// Messages to agents, in order.
    pub pushes: Vec<Push>,
    /// Job phases passed through in this step, in order; for records, metrics and the simulator's checks.
    pub transitions: Vec<Transition>,
    /// What of an agent's report was not taken over, and why; for counting.
    pub claims: Vec<ClaimVerdict>,
    /// What the certification of gangs has come to, in order; for counting.
    pub certified: Vec<Certified>,
    /// Usage records that were removed before their time because there were too many; for counting.
    pub usage_dropped: u64,
}

/// What the certification of a gang has come to, once all is measured or the time for that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certified {
    /// Nothing is wrong: its ranks start.
    Well,
    /// Something is wrong, and its ranks start all the same.
    Warned,
    /// Something is wrong, and the attempt ends: its ranks do not start.
    Refused,
    /// Cables are swapped, and the job begins again with its NICs named as they are cabled.
    Remapped,
}

impl Certified {
    /// Its name among the labels of a metric.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Well => "certified",
            Self::Warned => "warned",
            Self::Refused => "refused",
            Self::Remapped => "remapped",
        }
    }
}

/// Why something that an agent has reported was not taken over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimVerdict {
    /// It is late, or beside the point: left out.
    Ignored(&'static str),
    /// It cannot be true: left out.
    Untrue(ReasonCode),
    /// The same, and new evidence: the node is quarantined with it.
    Quarantined(ReasonCode),
}

/// The answer to an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The job as it is now. `existed`: an earlier submit with the same request id made it.
    Job {
        /// The job as it is now.
        job: Arc<Job>,
        /// True for a repeated submit.
        existed: bool,
    },
    /// The tenant as it is now.
    Tenant(Arc<Tenant>),
    /// The queue as it is now.
    Queue(Arc<Queue>),
    /// The service class as it is now.
    ServiceClass(Arc<ServiceClass>),
    /// The license as it is now.
    License(Arc<License>),
    /// The switch as it is now.
    Switch(Arc<SwitchConfig>),
    /// The schedule as it is now.
    JobSchedule(Arc<JobSchedule>),
    /// The secret or config as it is now.
    Values(Arc<Values>),
    /// The webhook as it is now. `secret_made`: the secret is new, and to be told to who asked for the webhook.
    Webhook {
        /// The webhook as it is now.
        webhook: Arc<Webhook>,
        /// Its secret was made just now.
        secret_made: bool,
    },
    /// So many schedules were suspended; none: there is none left.
    Suspended(usize),
    /// The reservation as it is now.
    Reservation(Arc<Reservation>),
    /// The fabric as it is now.
    Fabric {
        /// The document as it is now.
        fabric: Arc<Fabric>,
        /// What differs between the document and the nodes' inventories.
        findings: Vec<Reason>,
    },
    /// What goes with the tenant.
    TenantDeleted(TenantImpact),
    /// What has come back.
    Undeleted(Restored),
    /// What the removal of the fabric document takes away.
    FabricDeleted(FabricImpact),
    /// The node as it is now.
    Node(Arc<Node>),
    /// The drain as it is now.
    Drained {
        /// What and why.
        drain: Arc<Drain>,
        /// It was not so before.
        changed: bool,
    },
    /// It is drained no more.
    Undrained {
        /// What was meant.
        target: DrainTarget,
        /// It was drained.
        changed: bool,
        /// What still drains some of its ports.
        remaining: Vec<Arc<Drain>>,
    },
    /// The rollout as it is now.
    Qos {
        /// The rollout as it is now.
        rollout: Arc<QosRollout>,
        /// It was not so before.
        changed: bool,
    },
    /// The rollout to switches as it is now.
    SwitchRollout {
        /// The rollout as it is now.
        rollout: Arc<SwitchRollout>,
        /// It was not so before.
        changed: bool,
    },
    /// What a switch should do, and how often its agent shall speak.
    SwitchDesired {
        /// None while nobody has begun a rollout.
        desired: Option<DesiredSwitch>,
        /// The time from one report to the next.
        interval: Duration,
    },
    /// What each of the events would be answered.
    DryRun(Vec<DryRunResult>),
    /// The token's record.
    Token(Arc<TokenRecord>),
    /// Done.
    Done,
}

/// A message to a node's agent, on its connection `session`.
#[derive(Debug, Clone, PartialEq)]
pub struct Push {
    /// The name of the server.
    pub node: NodeName,
    /// On which connection; drop the message if it is gone.
    pub session: u64,
    /// This controller's epoch.
    pub epoch: u64,
    /// What its agent is told.
    pub message: ToNode,
}

/// What an agent is told.
#[derive(Debug, Clone, PartialEq)]
pub enum ToNode {
    /// All that the node should run now.
    Welcome {
        /// The desired states.
        assignments: Vec<Assignment>,
        /// How often to speak.
        heartbeat_interval: Duration,
        /// Rails of this node that are drained.
        drained: BTreeSet<u32>,
        /// What its class of service should be, if anything is desired.
        qos: Option<Arc<DesiredQos>>,
        /// Probes that it takes part in.
        proofs: Vec<RailProof>,
    },
    /// Rails of this node that are drained now, all of them.
    Drained {
        /// Indices of the rails.
        rails: BTreeSet<u32>,
        /// What its class of service should be, if anything is desired.
        qos: Option<Arc<DesiredQos>>,
        /// Probes that it takes part in.
        proofs: Vec<RailProof>,
    },
    /// The desired state of one attempt.
    Assignment(Box<Assignment>),
    /// The end of this attempt is stored; its record may be dropped.
    Forget {
        /// The identity of the job.
        uid: JobUid,
        /// The attempt of the job, counted from 1.
        attempt: u32,
    },
    /// The shell closes this connection: another one has replaced it, or the node is gone.
    Close {
        /// Why it is closed, in words.
        reason: String,
    },
}

/// When something is due; `None` if nothing is.
pub type NextTick = Option<Timestamp>;

/// What has come back.
#[derive(Debug, Clone, PartialEq)]
pub struct Restored {
    /// It, as it was kept.
    pub tombstone: Arc<Tombstone>,
    /// What of it has not come back, and why.
    pub notes: Vec<String>,
}

/// What an event would bring about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// What it names was not there.
    Created,
    /// It was there, and would be another.
    Changed,
    /// Nothing that is stored.
    Unchanged,
}

/// What one event would be answered.
pub type DryRunResult = Result<(Reply, Effect), CoreError>;
