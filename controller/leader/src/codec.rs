//! Between the core's records and the store's bytes. What does not decode is named by its key and never overwritten.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use controller_core::{
    AttachedWrite, Attempt, AuditRow, BadAudit, DecisionRecord, DecisionRow, Ending, Outcome, RequestRecord,
    RestingName, TokenRecord, Write, webhooks::Delivery,
};
use controller_store::{KeyValue, Op};
use prost::Message;
use proto_audit::{Log, Record};
use proto_model::{
    Drain, Fabric, Job, JobId, JobKey, JobName, JobSchedule, License, Node, NodeEndpoints, NodeName, Phase,
    QosRollout, Queue, QueueName, Reason, RequestId, Reservation, ServiceClass, Tenant, TenantName,
    Timestamp, Values, ValuesKind, Webhook, WebhookEvent, WebhookName,
};
use proto_wire::v1;

use crate::{error::CorruptError, keys, packed, records, tombstones};

pub use tombstones::tombstone;

/// One durable change as an operation of a transaction.
#[must_use]
pub fn op(write: &Write) -> Op {
    let key = keys::of(&write.key());
    match write {
        Write::PutJob(job) => Op::put(key, v1::Job::from(job.as_ref()).encode_to_vec()),
        Write::PutAttempt(attempt) => Op::put(key, attempt_record(attempt).encode_to_vec()),
        Write::PutNode(node) => Op::put(key, v1::Node::from(node.as_ref()).encode_to_vec()),
        Write::PutTenant(tenant) => Op::put(key, v1::Tenant::from(tenant.as_ref()).encode_to_vec()),
        Write::PutRestingName(row) => {
            let record = records::RestingName { uid: row.uid.clone(), deleted_ms: row.deleted.0 };
            Op::put(key, record.encode_to_vec())
        }
        Write::PutTombstone(row) => Op::put(key, tombstones::encode(row)),
        Write::PutQueue(queue) => Op::put(key, v1::Queue::from(queue.as_ref()).encode_to_vec()),
        Write::PutServiceClass(row) => Op::put(key, v1::ServiceClass::from(row.as_ref()).encode_to_vec()),
        Write::PutLicense(row) => Op::put(key, v1::License::from(row.as_ref()).encode_to_vec()),
        Write::PutReservation(row) => Op::put(key, v1::Reservation::from(row.as_ref()).encode_to_vec()),
        Write::PutSchedule(row) => Op::put(key, v1::Schedule::from(row.as_ref()).encode_to_vec()),
        Write::PutValues(row) => Op::put(
            key,
            match row.id.kind {
                ValuesKind::Secret => v1::Secret::from(row.as_ref()).encode_to_vec(),
                ValuesKind::Config => v1::Config::from(row.as_ref()).encode_to_vec(),
            },
        ),
        Write::PutWebhook(row) => Op::put(key, v1::Webhook::from(row.as_ref()).encode_to_vec()),
        Write::PutDelivery(row) => Op::put(key, delivery_record(row).encode_to_vec()),
        Write::PutFabric(fabric) => Op::put(key, packed::encode(fabric)),
        Write::PutDrain(drain) => Op::put(key, v1::RailDrain::from(drain.as_ref()).encode_to_vec()),
        Write::PutQos(rollout) => Op::put(key, v1::QosRollout::from(rollout.as_ref()).encode_to_vec()),
        Write::PutRequest(record) => Op::put(key, request_record(record).encode_to_vec()),
        Write::PutToken(record) => Op::put(key, token_record(record).encode_to_vec()),
        Write::PutDecisions(row) => Op::put(key, decision_record(row).encode_to_vec()),
        Write::PutAudit(row) => {
            let records = row.records.iter().map(|record| v1::AuditRecord::from(record.as_ref())).collect();
            Op::put(key, records::Audit { records }.encode_to_vec())
        }
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
        | Write::DeleteReservation(_)
        | Write::DeleteSchedule(..)
        | Write::DeleteValues(_)
        | Write::DeleteWebhook(..)
        | Write::DeleteDelivery(..)
        | Write::DeleteFabric
        | Write::DeleteDrain(_)
        | Write::DeleteRequest(..)
        | Write::DeleteToken(_)
        | Write::DeleteDecisions(_) => Op::delete(key),
    }
}

fn attempt_record(attempt: &Attempt) -> records::Attempt {
    records::Attempt {
        job_uid: attempt.uid.to_string(),
        attempt: attempt.attempt,
        since_ms: attempt.since.0,
        released: attempt.released,
        again: attempt.again,
        job_key: attempt.key.expose().to_vec(),
        peers: attempt.peers.iter().map(Into::into).collect(),
        ending: attempt.ending.as_ref().map(|ending| records::Ending {
            outcome: match ending.outcome {
                Outcome::Requeue => 2,
                Outcome::Fail => 3,
                Outcome::Cancel => 4,
                Outcome::Preempt => 5,
                Outcome::Move => 6,
            },
            grace_ms: u64::try_from(ending.grace.as_millis()).unwrap_or(u64::MAX),
            since_ms: ending.since.0,
            signal: ending.signal,
            causes: ending.causes.iter().map(Into::into).collect(),
        }),
    }
}

fn request_record(record: &RequestRecord) -> records::Request {
    records::Request {
        tenant: record.tenant.to_string(),
        request: record.request.to_string(),
        digest: record.digest.to_vec(),
        job_uid: record.uid.to_string(),
        job: record.id.name.to_string(),
        time_ms: record.time.0,
    }
}

fn token_record(record: &TokenRecord) -> records::JoinToken {
    records::JoinToken {
        hash: record.hash.to_vec(),
        node: record.node.to_string(),
        expires_ms: record.expires.0,
        used_by: record.used_by.map(Vec::from).unwrap_or_default(),
    }
}

fn decision_record(row: &DecisionRow) -> records::Decisions {
    let record = |record: &DecisionRecord| records::DecisionRecord {
        tenant: record.id.tenant.to_string(),
        job: record.id.name.to_string(),
        job_uid: record.uid.to_string(),
        phase: v1::job_status::Phase::from(record.phase).into(),
        attempt: record.attempt,
        reasons: record.reasons.iter().map(Into::into).collect(),
        nodes: record.nodes,
        digest: record.digest,
    };
    records::Decisions {
        seq: row.seq,
        time_ms: row.time.0,
        records: row.records.iter().map(record).collect(),
        omitted: row.omitted,
    }
}

fn delivery_record(row: &Delivery) -> records::Delivery {
    records::Delivery {
        tenant: row.tenant.to_string(),
        webhook: row.webhook.to_string(),
        webhook_uid: row.webhook_uid.clone(),
        seq: row.seq,
        event: row.event.to_string(),
        time_ms: row.time.0,
        job: row.job.to_string(),
        job_uid: row.uid.to_string(),
        attempt: row.attempt,
        phase: v1::job_status::Phase::from(row.phase).into(),
        queue: row.queue.as_ref().map(ToString::to_string).unwrap_or_default(),
        nodes: row.nodes,
        submitted_ms: row.submitted.0,
        reason: row.reason.as_ref().map(Into::into),
    }
}

/// Decodes a stored message.
///
/// # Errors
/// [`CorruptError`] names the key.
pub fn decode<M: Message + Default>(kv: &KeyValue) -> Result<M, CorruptError> {
    M::decode(kv.value.clone()).map_err(|error| CorruptError::new(&kv.key, error))
}

fn domain<W: Message + Default, T: TryFrom<W, Error = proto_wire::FieldErrors>>(
    kv: &KeyValue,
) -> Result<T, CorruptError> {
    T::try_from(decode::<W>(kv)?).map_err(|error| CorruptError::new(&kv.key, error))
}

/// A resource must lie under the key that its own name makes; else two keys could claim one resource.
fn at_home(kv: &KeyValue, expected: &Bytes) -> Result<(), CorruptError> {
    if kv.key == *expected {
        return Ok(());
    }
    let expected = String::from_utf8_lossy(expected).into_owned();
    Err(CorruptError::new(&kv.key, format!("the value belongs under {expected}")))
}

/// A stored job.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn job(kv: &KeyValue) -> Result<Job, CorruptError> {
    let job: Job = domain::<v1::Job, _>(kv)?;
    at_home(kv, &keys::job(&job.id))?;
    Ok(job)
}

/// Decodes a stored node, which must lie at its own key.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn node(kv: &KeyValue) -> Result<Node, CorruptError> {
    let node: Node = domain::<v1::Node, _>(kv)?;
    at_home(kv, &keys::node(&node.name))?;
    Ok(node)
}

/// Decodes a stored tenant, which must lie at its own key.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn tenant(kv: &KeyValue) -> Result<Tenant, CorruptError> {
    let tenant: Tenant = domain::<v1::Tenant, _>(kv)?;
    at_home(kv, &keys::tenant(&tenant.name))?;
    Ok(tenant)
}

/// Decodes a stored queue, which must lie at its own key.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn queue(kv: &KeyValue) -> Result<Queue, CorruptError> {
    let queue: Queue = domain::<v1::Queue, _>(kv)?;
    at_home(kv, &keys::queue(&queue.tenant, &queue.name))?;
    Ok(queue)
}

/// A stored service class.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn service_class(kv: &KeyValue) -> Result<ServiceClass, CorruptError> {
    let class: ServiceClass = domain::<v1::ServiceClass, _>(kv)?;
    at_home(kv, &keys::service_class(&class.name))?;
    Ok(class)
}

/// Decodes a stored license, which must lie at its own key.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn license(kv: &KeyValue) -> Result<License, CorruptError> {
    let license: License = domain::<v1::License, _>(kv)?;
    at_home(kv, &keys::license(&license.name))?;
    Ok(license)
}

/// Decodes a stored reservation, which must lie at its own key.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn reservation(kv: &KeyValue) -> Result<Reservation, CorruptError> {
    let reservation: Reservation = domain::<v1::Reservation, _>(kv)?;
    at_home(kv, &keys::reservation(&reservation.name))?;
    Ok(reservation)
}

/// Decodes a stored schedule, which must lie at its own key.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn schedule(kv: &KeyValue) -> Result<JobSchedule, CorruptError> {
    let schedule: JobSchedule = domain::<v1::Schedule, _>(kv)?;
    at_home(kv, &keys::schedule(&schedule.tenant, &schedule.name))?;
    Ok(schedule)
}

/// A stored secret or config.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn values(kind: ValuesKind, kv: &KeyValue) -> Result<Values, CorruptError> {
    let values: Values = match kind {
        ValuesKind::Secret => domain::<v1::Secret, _>(kv)?,
        ValuesKind::Config => domain::<v1::Config, _>(kv)?,
    };
    at_home(kv, &keys::values(&values.id))?;
    Ok(values)
}

/// Decodes a stored webhook, which must lie at its own key.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn webhook(kv: &KeyValue) -> Result<Webhook, CorruptError> {
    let webhook: Webhook = domain::<v1::Webhook, _>(kv)?;
    at_home(kv, &keys::webhook(&webhook.tenant, &webhook.name))?;
    Ok(webhook)
}

fn stored_phase(number: i32) -> Result<Phase, String> {
    let phase = v1::job_status::Phase::try_from(number).map_err(|error| error.to_string())?;
    Phase::try_from(phase).map_err(|_| format!("phase {number} is none"))
}

/// What waits to be sent by a webhook.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn delivery(kv: &KeyValue) -> Result<Delivery, CorruptError> {
    let wrong = |what: String| CorruptError::new(&kv.key, what);
    let record: records::Delivery = decode(kv)?;
    let event = WebhookEvent::ALL.iter().find(|event| event.as_str() == record.event);
    let queue = match record.queue.as_str() {
        "" => None,
        name => Some(QueueName::new(name).map_err(|error| wrong(error.to_string()))?),
    };
    let delivery = Delivery {
        tenant: TenantName::new(&record.tenant).map_err(|error| wrong(error.to_string()))?,
        webhook: WebhookName::new(&record.webhook).map_err(|error| wrong(error.to_string()))?,
        webhook_uid: record.webhook_uid,
        seq: record.seq,
        event: *event
            .ok_or_else(|| wrong(format!("event '{}' is not known to this release", record.event)))?,
        time: Timestamp(record.time_ms),
        job: JobName::new(&record.job).map_err(|error| wrong(error.to_string()))?,
        uid: record.job_uid.parse().map_err(|error| wrong(format!("job_uid: {error}")))?,
        attempt: record.attempt,
        phase: stored_phase(record.phase).map_err(wrong)?,
        queue,
        nodes: record.nodes,
        submitted: Timestamp(record.submitted_ms),
        reason: record.reason.map(Reason::try_from).transpose().map_err(|error| wrong(error.to_string()))?,
    };
    let (tenant, name, seq) = delivery.key();
    at_home(kv, &keys::of(&controller_core::Key::Delivery(tenant, name, seq)))?;
    Ok(delivery)
}

/// Decodes the stored fabric document, packed or as older releases wrote it.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode.
pub fn fabric(kv: &KeyValue) -> Result<Fabric, CorruptError> {
    match packed::decode(&kv.value).map_err(|error| CorruptError::new(&kv.key, error))? {
        None => domain::<v1::Fabric, _>(kv),
        Some(plain) => domain::<v1::Fabric, _>(&KeyValue { value: plain.into(), ..kv.clone() }),
    }
}

/// The stored rollout of a profile.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode.
pub fn qos(kv: &KeyValue) -> Result<QosRollout, CorruptError> {
    domain::<v1::QosRollout, _>(kv)
}

/// The stored name of a deleted tenant.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode.
pub fn resting_name(kv: &KeyValue) -> Result<RestingName, CorruptError> {
    let record: records::RestingName = decode(kv)?;
    let name = String::from_utf8_lossy(&kv.key);
    let name = TenantName::new(name.strip_prefix(keys::RESTING_NAMES).unwrap_or_default());
    let name = name.map_err(|error| CorruptError::new(&kv.key, error))?;
    Ok(RestingName { name, uid: record.uid, deleted: Timestamp(record.deleted_ms) })
}

/// Decodes a stored drain, which must lie at its own key.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn drain(kv: &KeyValue) -> Result<Drain, CorruptError> {
    let drain: Drain = domain::<v1::RailDrain, _>(kv)?;
    at_home(kv, &keys::of(&controller_core::Key::Drain(drain.target.clone())))?;
    Ok(drain)
}

/// Decodes the stored record of a running attempt, which must lie at its own key.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn attempt(kv: &KeyValue) -> Result<Attempt, CorruptError> {
    let wrong = |what: String| CorruptError::new(&kv.key, what);
    let record: records::Attempt = decode(kv)?;
    let uid = record.job_uid.parse().map_err(|error| wrong(format!("job_uid: {error}")))?;
    let peers = record.peers.into_iter().map(NodeEndpoints::try_from).collect::<Result<_, _>>();
    let attempt = Attempt {
        uid,
        attempt: record.attempt,
        key: JobKey::new(array(record.job_key).ok_or_else(|| wrong("job_key is not 32 bytes".to_owned()))?),
        peers: peers.map_err(|error| wrong(error.to_string()))?,
        since: Timestamp(record.since_ms),
        released: record.released,
        again: record.again,
        ending: record.ending.map(ending).transpose().map_err(wrong)?,
    };
    at_home(kv, &keys::of(&controller_core::Key::Attempt(uid)))?;
    Ok(attempt)
}

fn ending(record: records::Ending) -> Result<Ending, String> {
    let outcome = match record.outcome {
        2 => Outcome::Requeue,
        3 => Outcome::Fail,
        4 => Outcome::Cancel,
        5 => Outcome::Preempt,
        6 => Outcome::Move,
        other => return Err(format!("ending.outcome {other} is not known to this release")),
    };
    let causes = record.causes.into_iter().map(Reason::try_from).collect::<Result<_, _>>();
    Ok(Ending {
        outcome,
        grace: Duration::from_millis(record.grace_ms),
        since: Timestamp(record.since_ms),
        signal: record.signal,
        causes: causes.map_err(|error| error.to_string())?,
    })
}

/// A stored request id.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode.
pub fn request(kv: &KeyValue) -> Result<RequestRecord, CorruptError> {
    let wrong = |what: String| CorruptError::new(&kv.key, what);
    let record: records::Request = decode(kv)?;
    let tenant = TenantName::new(&record.tenant).map_err(|error| wrong(error.to_string()))?;
    let name = JobName::new(&record.job).map_err(|error| wrong(error.to_string()))?;
    let request = RequestId::new(&record.request).ok_or_else(|| wrong("request is not an id".to_owned()))?;
    Ok(RequestRecord {
        tenant: tenant.clone(),
        request,
        digest: array(record.digest).ok_or_else(|| wrong("digest is not 32 bytes".to_owned()))?,
        uid: record.job_uid.parse().map_err(|error| wrong(format!("job_uid: {error}")))?,
        id: JobId { tenant, name },
        time: Timestamp(record.time_ms),
    })
}

/// A stored join token.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode.
pub fn join_token(kv: &KeyValue) -> Result<TokenRecord, CorruptError> {
    let wrong = |what: String| CorruptError::new(&kv.key, what);
    let record: records::JoinToken = decode(kv)?;
    let used_by = match record.used_by.is_empty() {
        true => None,
        false => Some(array(record.used_by).ok_or_else(|| wrong("used_by is not 32 bytes".to_owned()))?),
    };
    Ok(TokenRecord {
        hash: array(record.hash).ok_or_else(|| wrong("hash is not 32 bytes".to_owned()))?,
        node: NodeName::new(&record.node).map_err(|error| wrong(error.to_string()))?,
        expires: Timestamp(record.expires_ms),
        used_by,
    })
}

/// A stored row of the decision log.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn decisions(kv: &KeyValue) -> Result<DecisionRow, CorruptError> {
    let wrong = |what: String| CorruptError::new(&kv.key, what);
    let row: records::Decisions = decode(kv)?;
    at_home(kv, &keys::of(&controller_core::Key::Decisions(row.seq)))?;
    let record = |record: records::DecisionRecord| {
        let tenant = TenantName::new(&record.tenant).map_err(|error| wrong(error.to_string()))?;
        let name = JobName::new(&record.job).map_err(|error| wrong(error.to_string()))?;
        let phase = stored_phase(record.phase).map_err(wrong)?;
        let reasons = record.reasons.into_iter().map(Reason::try_from).collect::<Result<_, _>>();
        Ok(DecisionRecord {
            id: JobId { tenant, name },
            uid: record.job_uid.parse().map_err(|error| wrong(format!("job_uid: {error}")))?,
            phase,
            attempt: record.attempt,
            reasons: reasons.map_err(|error| wrong(error.to_string()))?,
            nodes: record.nodes,
            digest: record.digest,
        })
    };
    let records = row.records.into_iter().map(record).collect::<Result<_, CorruptError>>()?;
    Ok(DecisionRow { seq: row.seq, time: Timestamp(row.time_ms), records, omitted: row.omitted })
}

/// A stored row of the audit log. Whether the hashes are right is another question.
///
/// # Errors
/// [`CorruptError`] names the key, if the value does not decode or belongs under another key.
pub fn audit(kv: &KeyValue) -> Result<AuditRow, CorruptError> {
    let row: records::Audit = decode(kv)?;
    let records = row.records.into_iter().map(|record| Record::try_from(record).map(Arc::new));
    let records = records.collect::<Result<Vec<_>, _>>();
    let row = AuditRow { records: records.map_err(|error| CorruptError::new(&kv.key, error))? };
    let log = row.log();
    at_home(kv, &keys::audit(log, row.first()))?;
    if row.records.iter().any(|record| record.log != log) {
        return Err(CorruptError::new(&kv.key, "records of two logs share a row"));
    }
    Ok(row)
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

fn array(bytes: Vec<u8>) -> Option<[u8; 32]> {
    bytes.try_into().ok()
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
