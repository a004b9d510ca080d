//! What happens to the core.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_state::{AttachedWrite, DeletedKey, DeliveryKey, QosOrder};
use proto_audit::{Actor, Claim, Log};
use proto_model::{
    Authority, Fabric, Inventory, IsolationPolicy, JobId, JobName, JobSchedule, JobSpec, License,
    LicenseName, NodeName, Observation, Queue, QueueName, Quota, RequestId, Reservation, ReservationName,
    ScheduleName, ServiceClass, ServiceClassName, SwitchConfig, SwitchName, Taint, TenantName, Values,
    ValuesId, Webhook, WebhookName,
};

use crate::event::{
    orders::{JobOrder, JobUpdate, QosAction},
    switches::SwitchEvent,
};

/// One event. Client events carry what the API has authorised: a tenant here is the caller's, never the body's.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A job is submitted. Reply: [`Reply::Job`].
    Submit(Box<Submit>),
    /// A job, an array or a part of it shall end. Idempotent. Reply: [`Reply::Job`], the first one.
    Cancel {
        /// The job that is meant.
        id: JobId,
        /// Of an array only these elements.
        indices: Vec<u32>,
        /// Instead of the job's own grace period.
        grace: Option<Duration>,
        /// Who asks; `None`: the controller itself.
        by: Option<Authority>,
    },
    /// A job that has ended is removed, or an array or a part of it. Reply: [`Reply::Done`].
    DeleteJob {
        /// The job that is meant.
        id: JobId,
        /// Of an array only these elements.
        indices: Vec<u32>,
        /// Who asks; `None`: the controller itself.
        by: Option<Authority>,
    },
    /// Waiting jobs are held. Idempotent. Reply: [`Reply::Job`], the first one.
    HoldJob {
        /// Which, and who asks.
        order: Box<JobOrder>,
        /// Why, in their words; may be empty.
        reason: String,
    },
    /// Jobs are held, and what runs of them is stopped for it. Idempotent. Reply: [`Reply::Job`], the first one.
    SuspendJob {
        /// Which, and who asks.
        order: Box<JobOrder>,
        /// Why, in their words; may be empty.
        reason: String,
    },
    /// What runs of jobs is stopped, and they are queued again. Reply: [`Reply::Job`], the first one.
    RequeueJob {
        /// Which, and who asks.
        order: Box<JobOrder>,
        /// Why, in their words; may be empty.
        reason: String,
    },
    /// What holds jobs is taken back, as far as who asks may. Idempotent. Reply: [`Reply::Job`], the first one.
    ReleaseJob(Box<JobOrder>),
    /// Jobs that have not ended are changed. Reply: [`Reply::Job`], the first one.
    UpdateJob(Box<JobUpdate>),
    /// A tenant is created or its spec replaced. Reply: [`Reply::Tenant`].
    ApplyTenant {
        /// The tenant that is meant.
        name: TenantName,
        /// A text for people; may be empty.
        description: String,
        /// What it may hold.
        quota: Quota,
        /// How much isolation its jobs must have.
        isolation: IsolationPolicy,
        /// True: it is checked, and nothing changes.
        dry_run: bool,
    },
    /// A tenant without active jobs is removed, with its ended jobs. Reply: [`Reply::TenantDeleted`].
    DeleteTenant {
        /// The tenant that is meant.
        name: TenantName,
        /// If given, refused unless it is the tenant's.
        uid: Option<String>,
        /// Tell only what would go with it.
        dry_run: bool,
    },
    /// A tenant or a fabric that was deleted comes back. Reply: [`Reply::Undeleted`].
    Undelete {
        /// What is to come back.
        key: DeletedKey,
        /// True: it is checked, and nothing changes.
        dry_run: bool,
    },
    /// The name of a deleted tenant may be given away before its time. Reply: [`Reply::Done`].
    ReleaseTenantName {
        /// The tenant that is meant.
        name: TenantName,
    },
    /// A queue is created or its spec replaced. Reply: [`Reply::Queue`].
    ApplyQueue {
        /// The document; uid, generation and time are set here.
        queue: Box<Queue>,
        /// True: it is checked, and nothing changes.
        dry_run: bool,
    },
    /// A queue without queues within it and without active jobs is removed. Reply: [`Reply::Done`].
    DeleteQueue {
        /// The tenant that it belongs to.
        tenant: TenantName,
        /// The queue that is meant.
        name: QueueName,
    },
    /// A service class is created or its spec replaced. Reply: [`Reply::ServiceClass`].
    ApplyServiceClass {
        /// The document; uid, generation and time are set here.
        class: Box<ServiceClass>,
        /// True: it is checked, and nothing changes.
        dry_run: bool,
    },
    /// A service class that no job is of is removed. Reply: [`Reply::Done`].
    DeleteServiceClass {
        /// The class that is meant.
        name: ServiceClassName,
    },
    /// A license is created or its spec replaced (true: check only). Reply: [`Reply::License`].
    ApplyLicense(Box<License>, bool),
    /// A license that no job asks for is removed. Reply: [`Reply::Done`].
    DeleteLicense(LicenseName),
    /// A switch is made or its spec replaced. Reply: [`Reply::Switch`].
    ApplySwitch {
        /// The document; uid, generation and time are set here.
        switch: Box<SwitchConfig>,
        /// Only if this is the store's revision of its last change; 0: whatever that is.
        if_version: u64,
        /// True: it is checked, and nothing changes.
        dry_run: bool,
    },
    /// A switch is forgotten. Reply: [`Reply::Done`].
    DeleteSwitch(SwitchName),
    /// A schedule is created or its spec replaced. Reply: [`Reply::JobSchedule`].
    ApplySchedule {
        /// The document; uid, generation, time, owner and progress are set here.
        schedule: Box<JobSchedule>,
        /// Who asks: by their authority its jobs are submitted.
        by: Authority,
        /// True: it is checked, and nothing changes.
        dry_run: bool,
    },
    /// A schedule is removed; its jobs stay. Reply: [`Reply::Done`].
    DeleteSchedule {
        /// The tenant that it belongs to.
        tenant: TenantName,
        /// The schedule that is meant.
        name: ScheduleName,
        /// Who asks; `None`: the controller itself.
        by: Option<Authority>,
    },
    /// A secret or a config is created or its values replaced (true: check only). Reply: [`Reply::Values`].
    ApplyValues(Box<Values>, bool),
    /// One is removed. Reply: [`Reply::Done`].
    DeleteValues(ValuesId),
    /// A webhook is created or its spec replaced (true: check only). Reply: [`Reply::Webhook`].
    ApplyWebhook(Box<Webhook>, bool),
    /// A webhook is removed, with what waits to be sent by it. Reply: [`Reply::Done`].
    DeleteWebhook(TenantName, WebhookName),
    /// What became of deliveries; a bounded number of them. Reply: [`Reply::Done`].
    CountDeliveries(Vec<DeliveryReport>),
    /// Schedules of somebody whose credentials are taken back, a tenant's user or an administrator of the cluster, are suspended, a
    /// bounded number of them. Reply: [`Reply::Suspended`].
    SuspendSchedules(Option<TenantName>, String),
    /// A reservation is created or its spec replaced. Reply: [`Reply::Reservation`].
    ApplyReservation {
        /// The document; uid, generation and time are set here.
        reservation: Box<Reservation>,
        /// True: it is checked, and nothing changes.
        dry_run: bool,
    },
    /// A reservation that no job waits for is removed. Reply: [`Reply::Done`].
    DeleteReservation {
        /// The reservation that is meant.
        name: ReservationName,
    },
    /// The fabric document is created or replaced. Reply: [`Reply::Fabric`].
    ApplyFabric {
        /// The document; its generation is set here.
        fabric: Box<Fabric>,
        /// Much fewer servers than the present document cables are meant; otherwise that is refused.
        allow_shrink: bool,
        /// True: it is checked, and nothing changes.
        dry_run: bool,
    },
    /// The fabric document is removed. Reply: [`Reply::FabricDeleted`].
    DeleteFabric {
        /// What it is called: refused for another name.
        name: String,
        /// If not 0, refused unless it is the document's resource version.
        if_version: u64,
        /// Tell only what it would cost.
        dry_run: bool,
    },
    /// A node's spec is changed. Reply: [`Reply::Node`].
    UpdateNode {
        /// The node that is meant.
        name: NodeName,
        /// What of it.
        change: NodeChange,
        /// If not 0, refused unless it is the node's resource version.
        if_version: u64,
    },
    /// An administrator vouches for a node that was quarantined. Idempotent. Reply: [`Reply::Node`].
    ReturnNode {
        /// The node that is meant.
        name: NodeName,
    },
    /// A node is removed. Reply: [`Reply::Done`].
    DeleteNode {
        /// The node that is meant.
        name: NodeName,
        /// The administrator vouches that nothing runs there any more: what jobs hold there is released.
        force: bool,
        /// If given, refused unless it is the node's: a late copy must not hit a server that has joined since.
        uid: Option<String>,
    },
    /// A rail, a leaf or a server's port is taken out of use. Idempotent. Reply: [`Reply::Drained`].
    DrainRail {
        /// Which, as the administrator wrote it; see `State::target`.
        target: String,
        /// Why, in the administrator's words; empty leaves what was said before.
        reason: String,
        /// Who asks, as the audit log names them.
        by: String,
        /// Also where it is the last rail of a job.
        force: bool,
    },
    /// It is used again. Idempotent. Reply: [`Reply::Undrained`].
    UndrainRail {
        /// Which, as the administrator wrote it.
        target: String,
    },
    /// A profile of class of service is to be rolled out. Idempotent. Reply: [`Reply::Qos`].
    ApplyQos(Box<QosOrder>),
    /// A rollout is paused, goes on, goes back or is cancelled. Reply: [`Reply::Qos`].
    ControlRollout {
        /// What is to become of it.
        action: QosAction,
        /// Why, in the administrator's words; may be empty.
        reason: String,
        /// Who asks, as the audit log names them.
        by: String,
    },
    /// A join token was made. Reply: [`Reply::Token`].
    CreateToken {
        /// The node that may use it.
        node: NodeName,
        /// SHA-256 of the token; the token itself never comes here.
        hash: [u8; 32],
        /// `None` is the longest allowed.
        lifetime: Option<Duration>,
    },
    /// A node's join tokens, used or not, are good no more. Idempotent. Reply: [`Reply::Done`].
    WithdrawTokens {
        /// The node, known or not.
        node: NodeName,
    },
    /// What concerns switches' tokens, rollouts and reports.
    Switch(SwitchEvent),
    /// A server shows a join token. Reply: [`Reply::Node`]; the shell then signs its certificate.
    Join {
        /// The server that joins.
        node: NodeName,
        /// SHA-256 of the token that it showed.
        hash: [u8; 32],
        /// SHA-256 of its signing request: the same server may repeat a join whose answer was lost.
        csr: [u8; 32],
    },
    /// An agent has connected and registered. Pushes a Welcome. Reply: [`Reply::Done`], or an error: then close the stream.
    AgentConnected(Box<Register>),
    /// An agent is alive.
    AgentHeartbeat {
        /// The node whose agent speaks.
        node: NodeName,
        /// The number of the connection.
        session: u64,
    },
    /// A node's inventory has changed.
    AgentInventory {
        /// The node whose agent speaks.
        node: NodeName,
        /// The number of the connection.
        session: u64,
        /// All of it.
        inventory: Arc<Inventory>,
    },
    /// An agent sees a job.
    AgentObserved {
        /// The node whose agent speaks.
        node: NodeName,
        /// The number of the connection.
        session: u64,
        /// What it sees.
        observation: Box<Observation>,
    },
    /// An agent has refused a command: it obeys a newer controller.
    AgentRefusedEpoch {
        /// The node whose agent speaks.
        node: NodeName,
        /// The epoch that it obeys.
        current: u64,
    },
    /// An agent has spoken of an epoch, and the store says that there never was a newer one than this controller's.
    AgentEpochUntrue {
        /// The node whose agent speaks.
        node: NodeName,
        /// The epoch of which it spoke.
        seen: u64,
    },
    /// An agent's stream has ended. Its jobs go on.
    AgentDisconnected {
        /// The node whose agent speaks.
        node: NodeName,
        /// The number of the connection.
        session: u64,
    },
    /// Events one after the other, each as if those before it had happened; nothing of it happens. A bounded number. Reply:
    /// [`Reply::DryRun`].
    DryRun(Vec<Self>),
    /// Time has passed; see `State::next_tick`.
    Tick,
    /// Somebody asks for a change. Every change by authority comes so: alone, its event is refused. What changes
    /// something leaves a record in the same transaction. Reply: that of the event.
    Attributed(Box<Attributed>),
    /// Something was done beside the core, or is with the writes that go along. Leaves a record. Reply: [`Reply::Done`].
    AuditNote(AuditNote),
    /// A call was refused for want of authority. Leaves a record. Reply: [`Reply::Done`].
    DenialRecord(DenialRecord),
    /// The head of an audit log, signed; `None` changes nothing. Reply: [`Reply::Done`].
    Sealed(Log, Option<Box<(Claim, Vec<u8>)>>),
    /// The audit log that was found broken goes on. Reply: [`Reply::Done`].
    AuditResumed,
}

/// An event that somebody asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Attributed {
    /// Who, and by which way.
    pub actor: Arc<Actor>,
    /// What is written with it where the core knows of no such thing.
    pub beside: Vec<AttachedWrite>,
    /// The event that somebody asks for.
    pub event: Event,
}

impl Event {
    /// The event, asked for by somebody.
    #[must_use]
    pub fn by(self, actor: &Arc<Actor>) -> Self {
        Self::Attributed(Box::new(Attributed { actor: Arc::clone(actor), beside: Vec::new(), event: self }))
    }
}

/// What was done beside the core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditNote {
    /// To what kind of thing.
    pub kind: &'static str,
    /// The name, as people write it.
    pub name: String,
    /// Whose it is; empty where it is the cluster's.
    pub tenant: String,
}

/// One call that was refused for want of authority, or several alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenialRecord {
    /// The stable word for programs.
    pub reason: String,
    /// The cause, in words.
    pub detail: String,
    /// How many calls.
    pub count: u64,
}

/// What of a node's spec is changed; the rest stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeChange {
    /// Whether no new job is placed here, and why.
    pub unschedulable: Option<(bool, String)>,
    /// All its labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// All its taints.
    pub taints: Option<BTreeSet<Taint>>,
}

impl NodeChange {
    /// Only whether new jobs are placed here.
    #[must_use]
    pub fn unschedulable(unschedulable: bool, reason: impl Into<String>) -> Self {
        Self { unschedulable: Some((unschedulable, reason.into())), ..Self::default() }
    }
}

/// A submit.
#[derive(Debug, Clone, PartialEq)]
pub struct Submit {
    /// The caller's tenant.
    pub tenant: TenantName,
    /// Who submits it.
    pub by: Authority,
    /// The job's name.
    pub name: Naming,
    /// The user's own key/value pairs.
    pub labels: BTreeMap<String, String>,
    /// What to run.
    pub spec: Box<JobSpec>,
    /// The client's id for this submit; without one a repeated submit is a new submit.
    pub request: Option<RequestId>,
    /// Digest of the request's canonical body, to tell a repeat from a reuse.
    pub digest: [u8; 32],
    /// W3C trace context; may be empty.
    pub trace_parent: String,
    /// Its submitter holds it from the beginning.
    pub hold: bool,
}

/// How a job gets its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Naming {
    /// The user's name.
    Name(JobName),
    /// A prefix and a short random suffix.
    Generate(String),
}

/// The first message of an agent's connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Register {
    /// Which node; from its certificate.
    pub node: NodeName,
    /// Numbers connections; strictly growing within one life of the controller.
    pub session: u64,
    /// The agent's version.
    pub agent_version: String,
    /// What the node has.
    pub inventory: Arc<Inventory>,
    /// Everything that the agent knows of jobs there.
    pub observations: Vec<Observation>,
    /// The highest epoch that it has obeyed.
    pub epoch: u64,
}

/// What became of a delivery, for the core to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The delivery that was tried.
    pub key: DeliveryKey,
    /// The uid of its webhook: another one of that name is not meant.
    pub webhook_uid: String,
    /// What became of it.
    pub what: DeliveryResult,
}

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryResult {
    /// The receiver has it.
    Delivered,
    /// An attempt has failed, and another one follows.
    Failed(String),
    /// It is given up.
    GivenUp(String),
    /// The receiver is gone: nothing more goes there.
    Gone(String),
}
