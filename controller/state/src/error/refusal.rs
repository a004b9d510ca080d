//! Why the core refuses. Each refusal leaves the state as it was.

use proto_model::{
    DrainTarget, JobId, JobName, LicenseName, NodeName, Phase, QueueName, Reason, ReservationName, Role,
    ScheduleName, ServiceClassName, SpecFlaw, SwitchName, TenantName, Timestamp, TokenHolder, WebhookName,
    many,
};
use thiserror::Error;

use crate::error::{
    impact::{FabricImpact, count},
    switches::SwitchError,
    values::ValuesError,
};

/// Why an event was refused.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CoreError {
    /// A change that nobody asks for: it could not be recorded whose it is.
    #[error("the change names nobody who asks for it; nothing was changed: a defect of the controller")]
    Unattributed,
    /// A field holds what it may not.
    #[error("{field}: {message}")]
    Invalid {
        /// Path in lowerCamelCase, for example `spec.gang.nodes`.
        field: &'static str,
        /// What is wrong and what would be right.
        message: String,
    },
    /// Nobody has begun a rollout.
    #[error("no profile of class of service is rolled out; begin with `railctl qos apply`")]
    NoRollout,
    /// There is nothing to go back to.
    #[error(
        "this is the first profile that was rolled out, so there is none to go back to; apply the profile that you want instead"
    )]
    NoProfileBefore,
    /// What is to be brought back is not kept.
    #[error("there is no deleted {what} that could be brought back{}; `railctl undelete --list` tells what there is", hint(.nearest.as_deref()))]
    NotDeleted {
        /// What was asked for.
        what: String,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// Something else has taken its place.
    #[error("{what} cannot be brought back: {by} is there since it was deleted, and is not touched")]
    TakenSince {
        /// What was asked for.
        what: String,
        /// What is there.
        by: String,
    },
    /// There is nothing left of a rollout to cancel.
    #[error(
        "the rollout is done, every NIC keeps the profile; `railctl qos rollback` brings the one before it back"
    )]
    RolloutDone,
    /// A rollout that was cancelled does not go on.
    #[error(
        "the rollout was cancelled and does not go on; `railctl qos apply` begins it anew, `railctl qos rollback` takes back what it has changed"
    )]
    RolloutCancelled,
    /// A rollout to switches, or what one needs.
    #[error(transparent)]
    Switches(#[from] SwitchError),
    /// No server has NICs.
    #[error("no server with NICs has joined, so there is none to begin with")]
    NoCanary,
    /// It is somebody else's.
    #[error("{what} belongs to {}; its owner and the tenant's administrators change it", owned(.owner.as_deref()))]
    NotOwner {
        /// What should have been changed.
        what: String,
        /// Whose it is, if that is known.
        owner: Option<String>,
    },
    /// The job's name is taken.
    #[error("a job named '{id}' exists already; choose another name, or delete that job once it has ended")]
    NameTaken {
        /// The taken name.
        id: JobId,
    },
    /// No such job.
    #[error("there is no job '{id}'")]
    JobNotFound {
        /// What was asked for.
        id: JobId,
    },
    /// The array has no such element.
    #[error("array '{array}' has no element {index}; it has {}, from {first} to {last}", many(.count, "element"))]
    ElementNotFound {
        /// The array that is meant.
        array: JobId,
        /// What was asked for.
        index: u32,
        /// The lowest index.
        first: u32,
        /// The highest index.
        last: u32,
        /// How many there are.
        count: usize,
    },
    /// The job would wait for one that there is not.
    #[error("spec.after: there is no job '{job}'{}", near_job(.nearest.as_ref()))]
    DependencyUnknown {
        /// What was asked for.
        job: JobId,
        /// The nearest existing name, when there is a near one.
        nearest: Option<JobName>,
    },
    /// The job would wait for itself.
    #[error("spec.after: the job would wait for itself: {}", chain(.path))]
    DependencyCycle {
        /// Each waits for the next.
        path: Vec<JobName>,
    },
    /// Another job waits for how this one has ended.
    #[error(
        "job '{by}' waits for job '{id}'; cancel '{by}', or delete '{id}' when that has started or ended"
    )]
    JobNeeded {
        /// Which should be removed.
        id: JobId,
        /// Who needs it.
        by: JobId,
    },
    /// The request made a job, which was deleted since.
    #[error("the job '{id}' that this request id made was deleted; submit with a new request id")]
    JobGone {
        /// The job that was.
        id: JobId,
    },
    /// The request id was used with another body.
    #[error(
        "request id '{request}' was already used for another submit (job '{id}'); make a new id for each submit"
    )]
    RequestIdReused {
        /// The id that the client gave to its request.
        request: String,
        /// The job that it made.
        id: JobId,
    },
    /// No such tenant.
    #[error("there is no tenant '{tenant}'; an administrator creates it with `railctl tenant`{}", near(.nearest.as_ref()))]
    TenantUnknown {
        /// What was asked for.
        tenant: TenantName,
        /// The nearest existing name, when there is a near one.
        nearest: Option<TenantName>,
    },
    /// Another tenant has that name now.
    #[error("tenant '{tenant}' has another uid than the one that was given; nothing is deleted")]
    TenantReplaced {
        /// The tenant that is meant.
        tenant: TenantName,
    },
    /// The tenant still has jobs.
    #[error("tenant '{tenant}' has {} that have not ended; cancel them or wait for their end", many(.jobs, "job"))]
    TenantBusy {
        /// The tenant that is meant.
        tenant: TenantName,
        /// How many have not ended.
        jobs: u32,
    },
    /// The name was that of a tenant which was deleted not long ago.
    #[error(
        "the name '{tenant}' was that of a tenant which was deleted; it rests until {}, so that nothing takes the one for the \
         other; choose another name, or take it all the same (`railctl tenant create {tenant} --reuse-name`)", .until.utc()
    )]
    NameResting {
        /// The tenant that is meant.
        tenant: TenantName,
        /// From then on anybody may have it.
        until: Timestamp,
    },
    /// The tenant's end is not stored yet, or what is kept of its requests is not gone.
    #[error("a tenant '{tenant}' is being deleted at this moment; try again")]
    TenantLeaving {
        /// The tenant that is meant.
        tenant: TenantName,
    },
    /// A spec contradicts itself.
    #[error("spec.{}: {flaw}", .flaw.field())]
    Contradiction {
        /// What, and where.
        flaw: SpecFlaw,
    },
    /// No such queue.
    #[error("tenant '{tenant}' has no queue '{queue}'{}", hint(.nearest.as_ref().map(QueueName::as_str)))]
    QueueNotFound {
        /// The tenant that it belongs to.
        tenant: TenantName,
        /// What was asked for.
        queue: QueueName,
        /// The nearest existing name, when there is a near one.
        nearest: Option<QueueName>,
    },
    /// No such schedule.
    #[error("tenant '{tenant}' has no schedule '{schedule}'{}", hint(.nearest.as_ref().map(ScheduleName::as_str)))]
    ScheduleNotFound {
        /// The tenant that it belongs to.
        tenant: TenantName,
        /// What was asked for.
        schedule: ScheduleName,
        /// The nearest existing name, when there is a near one.
        nearest: Option<ScheduleName>,
    },
    /// No such webhook.
    #[error("tenant '{tenant}' has no webhook '{webhook}'{}", hint(.nearest.as_ref().map(WebhookName::as_str)))]
    WebhookNotFound {
        /// The tenant that it belongs to.
        tenant: TenantName,
        /// The webhook that is meant.
        webhook: WebhookName,
        /// What may have been meant.
        nearest: Option<WebhookName>,
    },
    /// About secrets, configs, and what refers to them.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// Too much waits to be sent by a tenant's webhooks.
    #[error(
        "of the webhooks of tenant '{tenant}', {} not sent yet; delete its webhooks first",
        if *.waiting == 1 { "1 delivery is".to_owned() } else { format!("{} deliveries are", .waiting) }
    )]
    DeliveriesWaiting {
        /// The tenant that it belongs to.
        tenant: TenantName,
        /// How many of them wait.
        waiting: usize,
    },
    /// A job of the schedule's template would be refused.
    #[error("a job of its template would be refused: {cause}")]
    TemplateRefused {
        /// Why that was refused.
        cause: Box<CoreError>,
    },
    /// The tenant has as many schedules as it may.
    #[error(
        "tenant '{tenant}' has {}, its limit; delete some that are not used, or ask for a larger quota",
        many(.limit, "schedule")
    )]
    SchedulesExceeded {
        /// The tenant that is meant.
        tenant: TenantName,
        /// The most that there may be.
        limit: u32,
    },
    /// The queue is in use.
    #[error(
        "queue '{tenant}/{queue}' has {} within it and {} that have not ended; delete and end those first",
        many(.within, "queue"), many(.jobs, "job")
    )]
    QueueBusy {
        /// The tenant that it belongs to.
        tenant: TenantName,
        /// The queue that is meant.
        queue: QueueName,
        /// Its jobs that have not ended.
        jobs: usize,
        /// Queues within it.
        within: usize,
    },
    /// No such service class.
    #[error("there is no service class '{class}'{}", hint(.nearest.as_ref().map(ServiceClassName::as_str)))]
    ClassNotFound {
        /// What was asked for.
        class: ServiceClassName,
        /// The nearest existing name, when there is a near one.
        nearest: Option<ServiceClassName>,
    },
    /// The job may not be of the class.
    #[error("spec.serviceClass: '{class}' is not for this tenant, queue, user or role")]
    ClassNotAllowed {
        /// The class that is meant.
        class: ServiceClassName,
    },
    /// The job asks for more than its class allows.
    #[error("{field}: {asked}; service class '{class}' allows {allowed}")]
    ClassLimit {
        /// The class that is meant.
        class: ServiceClassName,
        /// What of the job.
        field: &'static str,
        /// What it asks for.
        asked: String,
        /// What would be allowed.
        allowed: String,
    },
    /// A user has as many waiting jobs of a class as they may.
    #[error(
        "'{user}' has {used} of {limit} waiting jobs of service class '{class}' (user.jobsWaiting); submit again when some have started"
    )]
    ClassWaiting {
        /// The class that is meant.
        class: ServiceClassName,
        /// The user whose jobs are counted.
        user: String,
        /// Their waiting jobs.
        used: u32,
        /// The most that there may be.
        limit: u32,
    },
    /// Jobs are of the class.
    #[error("{} that have not ended are of service class '{class}'; cancel them first", count(*.jobs as usize, "job"))]
    ClassBusy {
        /// The class that is meant.
        class: ServiceClassName,
        /// How many jobs there are of it.
        jobs: u32,
    },
    /// The class would be for everybody without the tenant.
    #[error("service class '{class}' is for tenant '{tenant}' alone; change or delete that class first")]
    ClassOfTenant {
        /// The tenant that it belongs to.
        tenant: TenantName,
        /// The class that is meant.
        class: ServiceClassName,
    },
    /// No such license.
    #[error("there is no license '{license}'{}", hint(.nearest.as_ref().map(LicenseName::as_str)))]
    LicenseNotFound {
        /// What was asked for.
        license: LicenseName,
        /// The nearest existing name, when there is a near one.
        nearest: Option<LicenseName>,
    },
    /// A job asks for more than there are.
    #[error(
        "spec.licenses.{license}: the job can never start: it asks for {asked}, there are {total} in all"
    )]
    LicenseTooFew {
        /// The license that is meant.
        license: LicenseName,
        /// How many it asks for.
        asked: u32,
        /// How many there are.
        total: u32,
    },
    /// Jobs ask for the license.
    #[error("{} that have not ended ask for license '{license}'; cancel them first", count(*.jobs as usize, "job"))]
    LicenseBusy {
        /// The license that is meant.
        license: LicenseName,
        /// How many jobs there are of it.
        jobs: u32,
    },
    /// No such switch.
    #[error("there is no switch '{switch}'{}", hint(.nearest.as_ref().map(SwitchName::as_str)))]
    SwitchNotFound {
        /// What was asked for.
        switch: SwitchName,
        /// The nearest existing name, when there is a near one.
        nearest: Option<SwitchName>,
    },
    /// No such reservation.
    #[error("there is no reservation '{reservation}'{}", hint(.nearest.as_ref().map(ReservationName::as_str)))]
    ReservationNotFound {
        /// What was asked for.
        reservation: ReservationName,
        /// The nearest existing name, when there is a near one.
        nearest: Option<ReservationName>,
    },
    /// Jobs are tied to the reservation.
    #[error("{} that have not ended run in reservation '{reservation}' only; cancel them first", count(*.jobs, "job"))]
    ReservationBusy {
        /// The reservation that is meant.
        reservation: ReservationName,
        /// How many jobs there are of it.
        jobs: usize,
    },
    /// The tenant has as many jobs as it may.
    #[error(
        "tenant '{tenant}' has {used} of {limit} jobs that have not ended; wait, cancel some, or ask for a larger quota"
    )]
    QuotaExceeded {
        /// The tenant that is meant.
        tenant: TenantName,
        /// Its jobs that have not ended.
        used: u32,
        /// The most that there may be.
        limit: u32,
    },
    /// The tenant's jobs take as much of the store as they may.
    #[error(
        "the jobs of tenant '{tenant}' take {used} of {limit} bytes of the store, and this takes {more} more; delete jobs that \
         have ended, make arguments and environment smaller, or ask for a larger quota"
    )]
    StoredBytesExceeded {
        /// The tenant that is meant.
        tenant: TenantName,
        /// What its jobs take.
        used: u64,
        /// What this one would.
        more: u64,
        /// The most that there may be.
        limit: u64,
    },
    /// A limit of the controller is reached.
    #[error("the controller holds {limit} {what}, its limit; {remedy}")]
    Full {
        /// What there is too much of.
        what: &'static str,
        /// The most that there may be.
        limit: usize,
        /// What to do.
        remedy: &'static str,
    },
    /// The job could never start on this cluster.
    #[error("the job could never start here: {}", joined(.reasons))]
    Infeasible {
        /// Every cause, with its code and in words.
        reasons: Vec<Reason>,
    },
    /// The job has not ended.
    #[error("job '{id}' is {phase}; only a job that has ended can be deleted: cancel it first")]
    JobActive {
        /// The job that is meant.
        id: JobId,
        /// Where it is.
        phase: Phase,
    },
    /// The priority is not for everybody.
    #[error(
        "spec.priority: {asked} is more than {most}, the highest that {role}s may give where no service class says otherwise"
    )]
    PriorityTooHigh {
        /// What was asked for.
        asked: i32,
        /// What this role may ask for.
        most: i32,
        /// The role by which it was asked.
        role: Role,
    },
    /// The job does not wait.
    #[error(
        "job '{id}' is {phase}; only a job that waits can be changed so: of one that runs its time limit and its labels can be"
    )]
    JobNotWaiting {
        /// The job that is meant.
        id: JobId,
        /// Where it is.
        phase: Phase,
    },
    /// None of the elements that were meant waits.
    #[error(
        "no element of array '{id}' that was meant waits; of those that run the time limit and the labels can be changed"
    )]
    NoElementWaits {
        /// The array that is meant.
        id: JobId,
    },
    /// The job has ended, and never waits again.
    #[error("job '{id}' is {phase}; only a job that has not ended can be held, suspended or queued again")]
    JobEnded {
        /// The job that is meant.
        id: JobId,
        /// The phase in which it has ended.
        phase: Phase,
    },
    /// All of the elements that were meant have ended.
    #[error(
        "all elements of array '{id}' that were meant have ended; only what has not ended can be held, suspended or queued again"
    )]
    ElementsEnded {
        /// The array that is meant.
        id: JobId,
    },
    /// Somebody who may do more holds the job.
    #[error("job '{id}' is held by {by}; only {} may release it", releasers(*.role))]
    HeldAbove {
        /// The job that is meant.
        id: JobId,
        /// Who holds it.
        by: String,
        /// The role of who holds it.
        role: Role,
    },
    /// The limit of a running job may be shortened only.
    #[error(
        "timeLimit: job '{id}' runs, and others wait for its end: its limit can be shortened; an administrator of the cluster may \
         extend it"
    )]
    LimitExtended {
        /// The job that is meant.
        id: JobId,
    },
    /// The resource was changed meanwhile.
    #[error("{what} has resource version {current}, not {asked}; read it again and repeat the change")]
    Conflict {
        /// For example `node 'n3'`.
        what: String,
        /// The version that the caller expected.
        asked: u64,
        /// The present version; 0 while a change is being written.
        current: u64,
    },
    /// The node is not the one that the caller meant.
    #[error(
        "node '{node}' is another server than the one that was meant: it has joined since; look at it again"
    )]
    NodeReplaced {
        /// The node that is meant.
        node: NodeName,
    },
    /// No such node.
    #[error("there is no node '{node}'; a server joins with a token from `railctl node token`")]
    NodeNotFound {
        /// What was asked for.
        node: NodeName,
    },
    /// Jobs hold something on the node.
    #[error("node '{node}' is held by {} ({}); drain it, or delete it by force if it is gone for good", count(.jobs.len(), "job"), names(.jobs))]
    NodeBusy {
        /// The node that is meant.
        node: NodeName,
        /// The jobs that hold something there.
        jobs: Vec<JobId>,
    },
    /// No such rail, leaf or port.
    #[error("there is no rail, leaf or port '{target}': {message}{}", hint(.nearest.as_deref()))]
    RailNotFound {
        /// As it was written.
        target: String,
        /// What there is.
        message: String,
        /// The nearest thing that exists, as it can be written.
        nearest: Option<String>,
    },
    /// A rail and a leaf have that name.
    #[error("'{target}' is a rail and a leaf; write rail/{target} or leaf/{target}")]
    RailAmbiguous {
        /// As it was written.
        target: String,
    },
    /// Jobs would be left without a rail.
    #[error("{target} carries the last rail that {} can use: {}; end them, undrain another rail, or force it: then they go on using it until they have another", count(.jobs.len(), "running job"), names(.jobs))]
    LastRail {
        /// What should have been drained.
        target: DrainTarget,
        /// The running jobs that would have no rail left.
        jobs: Vec<JobId>,
    },
    /// The fabric document is faulty.
    #[error("the fabric document has {}: {}", count(.findings.len(), "fault"), joined(.findings))]
    FabricInvalid {
        /// Every fault that was found.
        findings: Vec<Reason>,
    },
    /// The document leaves out many of the servers that the present one cables.
    #[error("{}", .impact.in_words(.fabric))]
    FabricShrinks {
        /// What the present document is called.
        fabric: String,
        /// What would be lost.
        impact: FabricImpact,
    },
    /// The fabric document has another name.
    #[error("there is no fabric '{asked}': the one that is there is '{fabric}'; nothing is deleted")]
    FabricOther {
        /// What was asked for.
        asked: String,
        /// What it is called.
        fabric: String,
    },
    /// There is no fabric document.
    #[error("there is no fabric document; rails come from the nodes' inventories")]
    FabricNotFound,
    /// The join token is not known, or it has expired.
    #[error(
        "the join token is not valid: it was never made here, or it has expired; make a new one with `railctl {}`",
        token_command(.holder)
    )]
    TokenInvalid {
        /// Who wanted to join.
        holder: TokenHolder,
    },
    /// The join token was used already.
    #[error("the join token for {holder} was used already; if that was not you, somebody else holds it")]
    TokenUsed {
        /// Who wanted to join.
        holder: TokenHolder,
    },
    /// The join token is bound to another node.
    #[error("the join token is not for {holder}")]
    TokenForOther {
        /// Who wanted to join.
        holder: TokenHolder,
    },
    /// No free name was found for `generateName`.
    #[error("no free name was found for prefix '{prefix}'; give the job a name")]
    NoFreeName {
        /// The prefix that names were made with.
        prefix: String,
        /// The last name that was tried.
        tried: Option<JobName>,
    },
    /// An agent's message arrived on a connection that another one has replaced.
    #[error("node '{node}': connection {session} was replaced")]
    StaleSession {
        /// The node whose agent speaks.
        node: NodeName,
        /// The number of the connection.
        session: u64,
    },
    /// A newer controller rules: this one must stop at once.
    #[error(
        "node '{node}' obeys epoch {seen}, this controller has {own}: a newer controller rules, this one must stop"
    )]
    Fenced {
        /// Who said so.
        node: NodeName,
        /// The newer epoch.
        seen: u64,
        /// The epoch of this controller.
        own: u64,
    },
}

impl CoreError {
    /// The stable word for programs, for `ErrorDetail.reason`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unattributed => "UNATTRIBUTED",
            Self::Invalid { .. } => "INVALID_FIELD",
            Self::NotOwner { .. } => "NOT_OWNER",
            Self::NameTaken { .. } => "NAME_TAKEN",
            Self::JobNotFound { .. } => "JOB_NOT_FOUND",
            Self::ElementNotFound { .. } => "ELEMENT_NOT_FOUND",
            Self::DependencyUnknown { .. } => "DEPENDENCY_UNKNOWN",
            Self::DependencyCycle { .. } => "DEPENDENCY_CYCLE",
            Self::JobNeeded { .. } => "JOB_NEEDED",
            Self::JobGone { .. } => "JOB_GONE",
            Self::RequestIdReused { .. } => "REQUEST_ID_REUSED",
            Self::TenantUnknown { .. } => "TENANT_UNKNOWN",
            Self::NameResting { .. } => "TENANT_NAME_RESTS",
            Self::TenantBusy { .. } | Self::TenantLeaving { .. } => "TENANT_BUSY",
            Self::Contradiction { .. } => "INVALID_FIELD",
            Self::QueueNotFound { .. } => "QUEUE_NOT_FOUND",
            Self::QueueBusy { .. } => "QUEUE_BUSY",
            Self::ClassNotFound { .. } => "SERVICE_CLASS_NOT_FOUND",
            Self::ClassNotAllowed { .. } => "SERVICE_CLASS_NOT_ALLOWED",
            Self::ClassLimit { .. } | Self::ClassWaiting { .. } => "SERVICE_CLASS_LIMIT",
            Self::ClassBusy { .. } | Self::ClassOfTenant { .. } => "SERVICE_CLASS_BUSY",
            Self::ScheduleNotFound { .. } => "SCHEDULE_NOT_FOUND",
            Self::WebhookNotFound { .. } => "WEBHOOK_NOT_FOUND",
            Self::Values(error) => error.code(),
            Self::DeliveriesWaiting { .. } => "DELIVERIES_WAITING",
            Self::TemplateRefused { cause } => cause.code(),
            Self::LicenseNotFound { .. } => "LICENSE_NOT_FOUND",
            Self::LicenseTooFew { .. } => "LICENSE_TOO_FEW",
            Self::SwitchNotFound { .. } => "SWITCH_NOT_FOUND",
            Self::LicenseBusy { .. } => "LICENSE_BUSY",
            Self::ReservationNotFound { .. } => "RESERVATION_NOT_FOUND",
            Self::ReservationBusy { .. } => "RESERVATION_BUSY",
            Self::QuotaExceeded { .. } | Self::SchedulesExceeded { .. } => "QUOTA_EXCEEDED",
            Self::StoredBytesExceeded { .. } => "STORED_BYTES_EXCEEDED",
            Self::Full { .. } => "LIMIT_REACHED",
            Self::Infeasible { .. } => "INFEASIBLE",
            Self::JobActive { .. } => "JOB_ACTIVE",
            Self::JobNotWaiting { .. } | Self::NoElementWaits { .. } => "JOB_NOT_WAITING",
            Self::JobEnded { .. } | Self::ElementsEnded { .. } => "JOB_ENDED",
            Self::PriorityTooHigh { .. } => "PRIORITY_TOO_HIGH",
            Self::HeldAbove { .. } => "HELD_ABOVE",
            Self::LimitExtended { .. } => "TIME_LIMIT_EXTENDED",
            Self::Conflict { .. } => "CONFLICT",
            Self::TenantReplaced { .. } => "TENANT_REPLACED",
            Self::NodeReplaced { .. } => "NODE_REPLACED",
            Self::NodeNotFound { .. } => "NODE_NOT_FOUND",
            Self::NodeBusy { .. } => "NODE_BUSY",
            Self::RailNotFound { .. } => "RAIL_NOT_FOUND",
            Self::RailAmbiguous { .. } => "RAIL_AMBIGUOUS",
            Self::LastRail { .. } => "LAST_RAIL",
            Self::FabricInvalid { .. } => "FABRIC_INVALID",
            Self::FabricShrinks { .. } => "FABRIC_SHRINKS",
            Self::FabricOther { .. } | Self::FabricNotFound => "FABRIC_NOT_FOUND",
            Self::NoRollout => "NO_ROLLOUT",
            Self::NoProfileBefore => "NO_PROFILE_BEFORE",
            Self::NotDeleted { .. } => "NOT_DELETED",
            Self::TakenSince { .. } => "TAKEN_SINCE",
            Self::RolloutDone => "ROLLOUT_DONE",
            Self::RolloutCancelled => "ROLLOUT_CANCELLED",
            Self::NoCanary => "NO_CANARY",
            Self::Switches(error) => error.code(),
            Self::TokenInvalid { .. } => "TOKEN_INVALID",
            Self::TokenUsed { .. } => "TOKEN_USED",
            Self::TokenForOther { .. } => "TOKEN_FOR_OTHER_NODE",
            Self::NoFreeName { .. } => "NO_FREE_NAME",
            Self::StaleSession { .. } => "STALE_SESSION",
            Self::Fenced { .. } => "FENCED",
        }
    }

    /// The causes, where there are several; for `ErrorDetail.reasons`.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Self::Infeasible { reasons } => reasons,
            Self::FabricInvalid { findings } => findings,
            Self::TemplateRefused { cause } => cause.reasons(),
            _ => &[],
        }
    }
}

fn owned(owner: Option<&str>) -> String {
    owner.map_or_else(|| "nobody who is known".to_owned(), |owner| format!("'{owner}'"))
}

fn releasers(role: Role) -> &'static str {
    match role {
        Role::Admin => "an administrator of the cluster",
        _ => "an administrator of the tenant, or of the cluster,",
    }
}

fn joined(reasons: &[Reason]) -> String {
    reasons.iter().map(|reason| reason.message.as_str()).collect::<Vec<_>>().join("; ")
}

fn names(jobs: &[JobId]) -> String {
    jobs.iter().take(5).map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn hint(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

fn near_job(name: Option<&JobName>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

fn chain(path: &[JobName]) -> String {
    path.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(" waits for ")
}

fn near(name: Option<&TenantName>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

/// The command that makes a join token.
fn token_command(holder: &TokenHolder) -> String {
    match holder {
        TokenHolder::Node(name) => format!("node token {name}"),
        TokenHolder::Switch(name) => format!("switch token {name}"),
    }
}
