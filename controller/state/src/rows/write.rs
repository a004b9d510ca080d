//! What a step writes, and what that concerns.

use std::sync::Arc;

use proto_audit::Log;
use proto_model::{
    Drain, DrainTarget, Fabric, Job, JobId, JobSchedule, JobUid, License, LicenseName, Node, NodeName,
    QosRollout, Queue, QueueName, RequestId, Reservation, ReservationName, ScheduleName, ServiceClass,
    ServiceClassName, SwitchConfig, SwitchName, SwitchRollout, Tenant, TenantName, Values, ValuesId, Webhook,
    WebhookName,
};

use crate::rows::{
    audit::AuditRow,
    decisions::DecisionRow,
    deleted::{DeletedKey, Tombstone},
    records::{Attempt, RequestRecord, RestingName, TokenRecord},
    usage::UsageRecord,
    webhooks::Delivery,
};

/// One durable change.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A job.
    PutJob(Arc<Job>),
    /// A job is removed.
    DeleteJob(JobId),
    /// The controller's own record of a job's present attempt. Holds the job key: keep it from readers.
    PutAttempt(Arc<Attempt>),
    /// The record is removed.
    DeleteAttempt(JobUid),
    /// A node.
    PutNode(Arc<Node>),
    /// A node is removed.
    DeleteNode(NodeName),
    /// A tenant.
    PutTenant(Arc<Tenant>),
    /// A tenant is removed.
    DeleteTenant(TenantName),
    /// The name of a deleted tenant.
    PutRestingName(Arc<RestingName>),
    /// It may be given away again.
    DeleteRestingName(TenantName),
    /// What was deleted and can be brought back. Of a tenant it holds secrets.
    PutTombstone(Arc<Tombstone>),
    /// It cannot any more.
    DeleteTombstone(DeletedKey),
    /// A queue.
    PutQueue(Arc<Queue>),
    /// A queue is removed.
    DeleteQueue(TenantName, QueueName),
    /// A service class.
    PutServiceClass(Arc<ServiceClass>),
    /// A service class is removed.
    DeleteServiceClass(ServiceClassName),
    /// A license.
    PutLicense(Arc<License>),
    /// A license is removed.
    DeleteLicense(LicenseName),
    /// A switch.
    PutSwitch(Arc<SwitchConfig>),
    /// A switch is forgotten.
    DeleteSwitch(SwitchName),
    /// A schedule. Its template may hold secrets, as a job.
    PutSchedule(Arc<JobSchedule>),
    /// A schedule is removed.
    DeleteSchedule(TenantName, ScheduleName),
    /// What an attempt of a job held.
    PutUsage(Arc<UsageRecord>),
    /// It was kept for its time.
    DeleteUsage(JobUid, u32),
    /// A secret or a config.
    PutValues(Arc<Values>),
    /// One is removed.
    DeleteValues(ValuesId),
    /// A webhook. It holds a secret.
    PutWebhook(Arc<Webhook>),
    /// A webhook is removed.
    DeleteWebhook(TenantName, WebhookName),
    /// What waits to be sent by a webhook.
    PutDelivery(Arc<Delivery>),
    /// It is sent, given up or dropped.
    DeleteDelivery(TenantName, WebhookName, u64),
    /// A reservation.
    PutReservation(Arc<Reservation>),
    /// A reservation is removed.
    DeleteReservation(ReservationName),
    /// The fabric.
    PutFabric(Arc<Fabric>),
    /// The fabric is removed.
    DeleteFabric,
    /// A drain.
    PutDrain(Arc<Drain>),
    /// A drain is over.
    DeleteDrain(DrainTarget),
    /// The rollout of a profile.
    PutQos(Arc<QosRollout>),
    /// The rollout to switches.
    PutSwitchRollout(Arc<SwitchRollout>),
    /// A request id.
    PutRequest(Arc<RequestRecord>),
    /// A request id has expired.
    DeleteRequest(TenantName, RequestId),
    /// A join token.
    PutToken(Arc<TokenRecord>),
    /// A join token has expired.
    DeleteToken([u8; 32]),
    /// Decisions of a step.
    PutDecisions(Arc<DecisionRow>),
    /// They are too old.
    DeleteDecisions(u64),
    /// Records of the audit log.
    PutAudit(Arc<AuditRow>),
    /// They were dropped behind a checkpoint.
    DeleteAudit(Log, u64),
    /// What the core only carries.
    AttachedWrite(AttachedWrite),
}

/// What a [`Write`] writes; the shell makes its store key of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A job.
    Job(JobId),
    /// A job's private record.
    Attempt(JobUid),
    /// A node.
    Node(NodeName),
    /// A tenant.
    Tenant(TenantName),
    /// The name of a deleted tenant.
    RestingName(TenantName),
    /// What was deleted and can be brought back.
    Tombstone(DeletedKey),
    /// A queue.
    Queue(TenantName, QueueName),
    /// A service class.
    ServiceClass(ServiceClassName),
    /// A license.
    License(LicenseName),
    /// A switch.
    Switch(SwitchName),
    /// A schedule.
    Schedule(TenantName, ScheduleName),
    /// What an attempt of a job held.
    Usage(JobUid, u32),
    /// A secret or a config.
    Values(ValuesId),
    /// A webhook.
    Webhook(TenantName, WebhookName),
    /// What waits to be sent by a webhook, by its number there.
    Delivery(TenantName, WebhookName, u64),
    /// A reservation.
    Reservation(ReservationName),
    /// The fabric.
    Fabric,
    /// A drain.
    Drain(DrainTarget),
    /// The rollout of a profile.
    Qos,
    /// The rollout to switches.
    SwitchRollout,
    /// A request id.
    Request(TenantName, RequestId),
    /// A join token, by its hash.
    Token([u8; 32]),
    /// A row of the decision log.
    Decisions(u64),
    /// A row of an audit log, by its first record.
    Audit(Log, u64),
    /// What the core only carries, by the store's key.
    AttachedWrite(Arc<str>),
}

impl Write {
    /// What it writes.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::PutJob(job) => Key::Job(job.id.clone()),
            Self::DeleteJob(id) => Key::Job(id.clone()),
            Self::PutAttempt(attempt) => Key::Attempt(attempt.uid),
            Self::DeleteAttempt(uid) => Key::Attempt(*uid),
            Self::PutNode(node) => Key::Node(node.name.clone()),
            Self::DeleteNode(name) => Key::Node(name.clone()),
            Self::PutTenant(tenant) => Key::Tenant(tenant.name.clone()),
            Self::DeleteTenant(name) => Key::Tenant(name.clone()),
            Self::PutRestingName(resting) => Key::RestingName(resting.name.clone()),
            Self::DeleteRestingName(name) => Key::RestingName(name.clone()),
            Self::PutTombstone(one) => Key::Tombstone(one.key.clone()),
            Self::DeleteTombstone(key) => Key::Tombstone(key.clone()),
            Self::PutQueue(queue) => Key::Queue(queue.tenant.clone(), queue.name.clone()),
            Self::DeleteQueue(tenant, name) => Key::Queue(tenant.clone(), name.clone()),
            Self::PutServiceClass(class) => Key::ServiceClass(class.name.clone()),
            Self::DeleteServiceClass(name) => Key::ServiceClass(name.clone()),
            Self::PutLicense(license) => Key::License(license.name.clone()),
            Self::DeleteLicense(name) => Key::License(name.clone()),
            Self::PutSwitch(switch) => Key::Switch(switch.name.clone()),
            Self::DeleteSwitch(name) => Key::Switch(name.clone()),
            Self::PutSchedule(schedule) => Key::Schedule(schedule.tenant.clone(), schedule.name.clone()),
            Self::DeleteSchedule(tenant, name) => Key::Schedule(tenant.clone(), name.clone()),
            Self::PutUsage(record) => Key::Usage(record.uid, record.attempt),
            Self::DeleteUsage(uid, attempt) => Key::Usage(*uid, *attempt),
            Self::PutValues(values) => Key::Values(values.id.clone()),
            Self::DeleteValues(id) => Key::Values(id.clone()),
            Self::PutWebhook(webhook) => Key::Webhook(webhook.tenant.clone(), webhook.name.clone()),
            Self::DeleteWebhook(tenant, name) => Key::Webhook(tenant.clone(), name.clone()),
            Self::PutDelivery(delivery) => {
                let (tenant, name, seq) = delivery.key();
                Key::Delivery(tenant, name, seq)
            }
            Self::DeleteDelivery(tenant, name, seq) => Key::Delivery(tenant.clone(), name.clone(), *seq),
            Self::PutReservation(reservation) => Key::Reservation(reservation.name.clone()),
            Self::DeleteReservation(name) => Key::Reservation(name.clone()),
            Self::PutFabric(_) | Self::DeleteFabric => Key::Fabric,
            Self::PutDrain(drain) => Key::Drain(drain.target.clone()),
            Self::DeleteDrain(target) => Key::Drain(target.clone()),
            Self::PutQos(_) => Key::Qos,
            Self::PutSwitchRollout(_) => Key::SwitchRollout,
            Self::PutRequest(record) => Key::Request(record.tenant.clone(), record.request.clone()),
            Self::DeleteRequest(tenant, request) => Key::Request(tenant.clone(), request.clone()),
            Self::PutToken(record) => Key::Token(record.hash),
            Self::DeleteToken(hash) => Key::Token(*hash),
            Self::PutDecisions(row) => Key::Decisions(row.seq),
            Self::DeleteDecisions(seq) => Key::Decisions(*seq),
            Self::PutAudit(row) => Key::Audit(row.log(), row.first()),
            Self::DeleteAudit(log, first) => Key::Audit(*log, *first),
            Self::AttachedWrite(beside) => Key::AttachedWrite(Arc::clone(&beside.key)),
        }
    }

    /// Whether the key is gone afterwards.
    #[must_use]
    pub fn is_delete(&self) -> bool {
        matches!(
            self,
            Self::DeleteJob(_)
                | Self::DeleteAttempt(_)
                | Self::DeleteNode(_)
                | Self::DeleteTenant(_)
                | Self::DeleteRestingName(_)
                | Self::DeleteTombstone(_)
                | Self::DeleteQueue(..)
                | Self::DeleteServiceClass(_)
                | Self::DeleteLicense(_)
                | Self::DeleteSwitch(_)
                | Self::DeleteSchedule(..)
                | Self::DeleteUsage(..)
                | Self::DeleteValues(_)
                | Self::DeleteWebhook(..)
                | Self::DeleteDelivery(..)
                | Self::DeleteReservation(_)
                | Self::DeleteFabric
                | Self::DeleteDrain(_)
                | Self::DeleteRequest(..)
                | Self::DeleteToken(_)
                | Self::DeleteDecisions(_)
                | Self::DeleteAudit(..)
                | Self::AttachedWrite(AttachedWrite { value: None, .. })
        )
    }
}

/// A write that the core carries and does not look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedWrite {
    /// The store's key.
    pub key: Arc<str>,
    /// Its value; `None` removes it.
    pub value: Option<Arc<[u8]>>,
}
