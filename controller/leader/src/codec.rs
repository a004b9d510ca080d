//! Between the core's tables and the store's bytes. What does not decode is named by its key and never overwritten.
//!
//! What a row looks like is `controller_rows`'; here is which key has which kind of row, and that a row lies at its own key.

use std::sync::Arc;

use bytes::Bytes;
use controller_core::{
    AttachedWrite, Attempt, AuditRow, BadAudit, DecisionRow, DeletedKey, Key, RequestRecord, RestingName,
    TokenRecord, Tombstone, UsageRecord, Write, webhooks::Delivery,
};
use controller_rows::{FieldErrors, packed, v1 as row};
use controller_store::{KeyValue, Op};
use prost::Message;
use proto_audit::Log;
use proto_model::{
    Drain, Fabric, Job, JobSchedule, License, Node, QosRollout, Queue, Reservation, ServiceClass,
    SwitchConfig, SwitchRollout, Tenant, TenantName, Values, ValuesKind, Webhook,
};
use proto_wire::v1;

use crate::{error::CorruptError, keys};

/// One durable change as an operation of a transaction.
#[must_use]
pub fn op(write: &Write) -> Op {
    let key = keys::of(&write.key());
    match write {
        Write::PutJob(job) => put::<row::Job, _>(key, job),
        Write::PutAttempt(attempt) => put::<row::Attempt, _>(key, attempt),
        Write::PutNode(node) => put::<row::Node, _>(key, node),
        Write::PutTenant(tenant) => put::<row::Tenant, _>(key, tenant),
        Write::PutRestingName(resting) => put::<row::RestingName, _>(key, resting),
        Write::PutTombstone(tombstone) => put::<row::Tombstone, _>(key, tombstone),
        Write::PutQueue(queue) => put::<row::Queue, _>(key, queue),
        Write::PutServiceClass(class) => put::<row::ServiceClass, _>(key, class),
        Write::PutLicense(license) => put::<row::License, _>(key, license),
        Write::PutSwitch(switch) => put::<row::Switch, _>(key, switch),
        Write::PutReservation(reservation) => put::<row::Reservation, _>(key, reservation),
        Write::PutSchedule(schedule) => put::<row::Schedule, _>(key, schedule),
        Write::PutValues(values) => put::<row::Values, _>(key, values),
        Write::PutWebhook(webhook) => put::<row::Webhook, _>(key, webhook),
        Write::PutDelivery(delivery) => put::<row::Delivery, _>(key, delivery),
        Write::PutUsage(record) => put::<row::Usage, _>(key, record),
        Write::PutFabric(fabric) => Op::put(key, packed::encode(fabric)),
        Write::PutDrain(drain) => put::<row::RailDrain, _>(key, drain),
        Write::PutQos(rollout) => put::<row::QosRollout, _>(key, rollout),
        Write::PutSwitchRollout(rollout) => put::<row::SwitchRollout, _>(key, rollout),
        Write::PutRequest(record) => put::<row::Request, _>(key, record),
        Write::PutToken(record) => put::<row::JoinToken, _>(key, record),
        Write::PutDecisions(decisions) => put::<row::Decisions, _>(key, decisions),
        Write::PutAudit(audit) => put::<row::Audit, _>(key, audit),
        Write::AttachedWrite(AttachedWrite { value: Some(value), .. }) => Op::put(key, value.to_vec()),
        Write::AttachedWrite(AttachedWrite { value: None, .. })
        | Write::DeleteAudit(..)
        | Write::DeleteJob(_)
        | Write::DeleteAttempt(_)
        | Write::DeleteNode(_)
        | Write::DeleteTenant(_)
        | Write::DeleteRestingName(_)
        | Write::DeleteTombstone(_)
        | Write::DeleteQueue(..)
        | Write::DeleteServiceClass(_)
        | Write::DeleteLicense(_)
        | Write::DeleteSwitch(_)
        | Write::DeleteReservation(_)
        | Write::DeleteSchedule(..)
        | Write::DeleteValues(_)
        | Write::DeleteWebhook(..)
        | Write::DeleteDelivery(..)
        | Write::DeleteUsage(..)
        | Write::DeleteFabric
        | Write::DeleteDrain(_)
        | Write::DeleteRequest(..)
        | Write::DeleteToken(_)
        | Write::DeleteDecisions(_) => Op::delete(key),
    }
}

fn put<W: Message + for<'a> From<&'a T>, T>(key: Bytes, value: &Arc<T>) -> Op {
    Op::put(key, W::from(value.as_ref()).encode_to_vec())
}

/// Decodes a stored message.
///
/// # Errors
/// [`CorruptError`] names the key.
pub fn decode<M: Message + Default>(kv: &KeyValue) -> Result<M, CorruptError> {
    M::decode(kv.value.clone()).map_err(|error| CorruptError::new(&kv.key, error))
}

fn domain<W: Message + Default, T: TryFrom<W, Error = FieldErrors>>(
    kv: &KeyValue,
) -> Result<T, CorruptError> {
    T::try_from(decode::<W>(kv)?).map_err(|error| CorruptError::new(&kv.key, error))
}

/// A row must lie under the key that its own content makes; else two keys could claim one thing.
fn at_home<W, T>(kv: &KeyValue, key: impl FnOnce(&T) -> Bytes) -> Result<T, CorruptError>
where
    W: Message + Default,
    T: TryFrom<W, Error = FieldErrors>,
{
    let value = domain::<W, T>(kv)?;
    let expected = key(&value);
    if kv.key == expected {
        return Ok(value);
    }
    let expected = String::from_utf8_lossy(&expected);
    Err(CorruptError::new(&kv.key, format!("the value belongs under {expected}")))
}

/// A stored job.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn job(kv: &KeyValue) -> Result<Job, CorruptError> {
    at_home::<row::Job, _>(kv, |job: &Job| keys::job(&job.id))
}

/// A stored node.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn node(kv: &KeyValue) -> Result<Node, CorruptError> {
    at_home::<row::Node, _>(kv, |node: &Node| keys::node(&node.name))
}

/// A stored tenant.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn tenant(kv: &KeyValue) -> Result<Tenant, CorruptError> {
    at_home::<row::Tenant, _>(kv, |tenant: &Tenant| keys::tenant(&tenant.name))
}

/// A stored queue.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn queue(kv: &KeyValue) -> Result<Queue, CorruptError> {
    at_home::<row::Queue, _>(kv, |queue: &Queue| keys::queue(&queue.tenant, &queue.name))
}

/// A stored service class.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn service_class(kv: &KeyValue) -> Result<ServiceClass, CorruptError> {
    at_home::<row::ServiceClass, _>(kv, |service_class: &ServiceClass| {
        keys::service_class(&service_class.name)
    })
}

/// A stored license.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn license(kv: &KeyValue) -> Result<License, CorruptError> {
    at_home::<row::License, _>(kv, |license: &License| keys::license(&license.name))
}

/// A stored switch.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn switch(kv: &KeyValue) -> Result<SwitchConfig, CorruptError> {
    at_home::<row::Switch, _>(kv, |switch: &SwitchConfig| keys::switch(&switch.name))
}

/// A stored reservation.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn reservation(kv: &KeyValue) -> Result<Reservation, CorruptError> {
    at_home::<row::Reservation, _>(kv, |reservation: &Reservation| keys::reservation(&reservation.name))
}

/// A stored schedule.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn schedule(kv: &KeyValue) -> Result<JobSchedule, CorruptError> {
    at_home::<row::Schedule, _>(kv, |schedule: &JobSchedule| keys::schedule(&schedule.tenant, &schedule.name))
}

/// A stored secret or config.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn values(kind: ValuesKind, kv: &KeyValue) -> Result<Values, CorruptError> {
    let values = controller_rows::values(kind, decode(kv)?);
    let values = values.map_err(|error| CorruptError::new(&kv.key, error))?;
    if kv.key != keys::values(&values.id) {
        return Err(CorruptError::new(&kv.key, "the value belongs under another key"));
    }
    Ok(values)
}

/// A stored webhook.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn webhook(kv: &KeyValue) -> Result<Webhook, CorruptError> {
    at_home::<row::Webhook, _>(kv, |webhook: &Webhook| keys::webhook(&webhook.tenant, &webhook.name))
}

/// What waits to be sent by a webhook.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn delivery(kv: &KeyValue) -> Result<Delivery, CorruptError> {
    at_home::<row::Delivery, _>(kv, |delivery: &Delivery| {
        let (tenant, name, seq) = delivery.key();
        keys::of(&Key::Delivery(tenant, name, seq))
    })
}

/// What an attempt of a job held.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn usage(kv: &KeyValue) -> Result<UsageRecord, CorruptError> {
    at_home::<row::Usage, _>(kv, |record: &UsageRecord| keys::of(&Key::Usage(record.uid, record.attempt)))
}

/// The stored fabric document, compressed or not.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode.
pub fn fabric(kv: &KeyValue) -> Result<Fabric, CorruptError> {
    packed::decode(kv.value.clone()).map_err(|error| CorruptError::new(&kv.key, error))
}

/// The stored rollout to switches.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode.
pub fn switch_rollout(kv: &KeyValue) -> Result<SwitchRollout, CorruptError> {
    domain::<row::SwitchRollout, _>(kv)
}

/// The stored rollout of a profile.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode.
pub fn qos(kv: &KeyValue) -> Result<QosRollout, CorruptError> {
    domain::<row::QosRollout, _>(kv)
}

/// The stored name of a deleted tenant.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode.
pub fn resting_name(kv: &KeyValue) -> Result<RestingName, CorruptError> {
    let name = String::from_utf8_lossy(&kv.key);
    let name = TenantName::new(name.strip_prefix(keys::RESTING_NAMES).unwrap_or_default());
    let name = name.map_err(|error| CorruptError::new(&kv.key, error))?;
    Ok(controller_rows::resting_name(name, decode(kv)?))
}

/// What was deleted; the key says what that was.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode, or the key names nothing that can be brought back.
pub fn tombstone(kv: &KeyValue) -> Result<Tombstone, CorruptError> {
    let text = String::from_utf8_lossy(&kv.key);
    let rest = text.strip_prefix(keys::TOMBSTONES).unwrap_or_default();
    let key = match rest.split_once('/') {
        Some(("fabric", name)) => DeletedKey::Fabric(name.to_owned()),
        Some(("tenant", name)) => {
            DeletedKey::Tenant(TenantName::new(name).map_err(|error| CorruptError::new(&kv.key, error))?)
        }
        _ => return Err(CorruptError::new(&kv.key, "it is neither a tenant's nor a fabric's")),
    };
    controller_rows::tombstone(key, decode(kv)?).map_err(|error| CorruptError::new(&kv.key, error))
}

/// A stored drain.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn drain(kv: &KeyValue) -> Result<Drain, CorruptError> {
    at_home::<row::RailDrain, _>(kv, |drain: &Drain| keys::of(&Key::Drain(drain.target.clone())))
}

/// The stored record of a running attempt.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn attempt(kv: &KeyValue) -> Result<Attempt, CorruptError> {
    at_home::<row::Attempt, _>(kv, |attempt: &Attempt| keys::of(&Key::Attempt(attempt.uid)))
}

/// A stored request id.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode.
pub fn request(kv: &KeyValue) -> Result<RequestRecord, CorruptError> {
    domain::<row::Request, _>(kv)
}

/// A stored join token.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode.
pub fn join_token(kv: &KeyValue) -> Result<TokenRecord, CorruptError> {
    domain::<row::JoinToken, _>(kv)
}

/// A stored row of the decision log.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn decisions(kv: &KeyValue) -> Result<DecisionRow, CorruptError> {
    at_home::<row::Decisions, _>(kv, |decisions: &DecisionRow| keys::of(&Key::Decisions(decisions.seq)))
}

/// A stored row of the audit log. Whether the hashes are right is another question.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn audit(kv: &KeyValue) -> Result<AuditRow, CorruptError> {
    let audit = at_home::<row::Audit, AuditRow>(kv, |audit| keys::audit(audit.log(), audit.first()))?;
    let log = audit.log();
    if audit.records.iter().any(|record| record.log != log) {
        return Err(CorruptError::new(&kv.key, "records of two logs share a row"));
    }
    Ok(audit)
}

/// As `audit`, for a controller that starts: what cannot be read is reported, and does not keep it from leading.
pub(crate) fn audit_or_fault(kv: &KeyValue) -> Result<AuditRow, BadAudit> {
    audit(kv).map_err(|error| {
        let under = |log: Log| kv.key.strip_prefix(keys::audit_of(log).as_bytes());
        let log = if under(Log::Denials).is_some() { Log::Denials } else { Log::Changes };
        let number = under(log).map(String::from_utf8_lossy);
        let first = number.and_then(|number| u64::from_str_radix(&number, 16).ok());
        BadAudit { log, first: first.unwrap_or(0), cause: error.to_string() }
    })
}

/// A job as the API shows it.
#[must_use]
pub fn job_to_wire(job: &Arc<Job>, version: u64) -> v1::Job {
    let mut wire = v1::Job::from(job.as_ref());
    if let Some(metadata) = wire.metadata.as_mut() {
        metadata.resource_version = version;
    }
    wire
}
