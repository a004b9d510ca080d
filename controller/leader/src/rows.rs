//! Stored rows, decoded: what a leader is built from, and what a standby keeps so that it need not decode when it is to lead.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use controller_core::{
    Attempt, DecisionRow, RequestRecord, RestingName, Stored, StoredAudit, TokenRecord, Tombstone,
    UsageRecord, webhooks::Delivery,
};
use controller_rows::{format::Format, migrate as version};
use controller_store::{KeyValue, RangeRequest, RangeResult, Store, StoreError};
use proto_model::{
    Drain, Fabric, Job, JobSchedule, License, Node, QosRollout, Queue, Reservation, ServiceClass,
    SwitchConfig, SwitchRollout, Tenant, Values, ValuesKind, Webhook,
};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::{
    codec,
    error::{CorruptError, StartError},
    keys, records, revocation,
};

/// Pages that are decoded while more are fetched.
const DECODED_AT_ONCE: usize = 4;

/// Up to so many rows are worked at where they are: another thread would cost more, and a simulation could not be repeated.
pub(crate) const FEW: usize = 512;

/// One row. Small, because there may be millions.
#[derive(Debug)]
pub(crate) enum Row {
    Job(Arc<Job>),
    Node(Arc<Node>),
    Request(Arc<RequestRecord>),
    Attempt(Arc<Attempt>),
    Usage(Arc<UsageRecord>),
    /// What there is little of.
    Other(Box<Other>),
    /// Nothing that the core knows of.
    AttachedWrite,
    /// It cannot be read.
    Bad(Box<StartError>),
}

/// A row of which there are few.
#[derive(Debug)]
pub(crate) enum Other {
    Fabric(Arc<Fabric>),
    Tenant(Arc<Tenant>),
    RestingName(Arc<RestingName>),
    Tombstone(Arc<Tombstone>),
    Queue(Arc<Queue>),
    ServiceClass(Arc<ServiceClass>),
    License(Arc<License>),
    Switch(Arc<SwitchConfig>),
    Reservation(Arc<Reservation>),
    Schedule(Arc<JobSchedule>),
    Values(Arc<Values>),
    Webhook(Arc<Webhook>),
    Delivery(Arc<Delivery>),
    Drain(Arc<Drain>),
    Qos(Arc<QosRollout>),
    SwitchRollout(Arc<SwitchRollout>),
    Token(Arc<TokenRecord>),
    Decisions(Arc<DecisionRow>),
    Audit(StoredAudit),
}

impl Row {
    /// Decodes one stored key, of whatever version `format` says that its row is.
    pub fn of(kv: &KeyValue, format: &Format) -> Self {
        let row = if format.is_current() { read(kv) } else { read_older(kv, format) };
        row.unwrap_or_else(|error| Self::Bad(Box::new(error)))
    }

    /// Puts it where a state is built from; `revision` is that of its last change.
    ///
    /// # Errors
    /// What could not be read.
    pub fn sort_in(self, revision: u64, stored: &mut Stored) -> Result<(), StartError> {
        match self {
            Self::Job(job) => stored.jobs.push((job, revision)),
            Self::Node(node) => stored.nodes.push((node, revision)),
            Self::Request(request) => stored.requests.push(request),
            Self::Attempt(attempt) => stored.attempts.push(attempt),
            Self::Usage(record) => stored.usage.push(record),
            Self::Other(other) => match *other {
                Other::Fabric(fabric) => stored.fabric = Some((fabric, revision)),
                Other::Tenant(tenant) => stored.tenants.push((tenant, revision)),
                Other::RestingName(resting) => stored.resting.push(resting),
                Other::Tombstone(one) => stored.tombstones.push(one),
                Other::Queue(queue) => stored.queues.push((queue, revision)),
                Other::ServiceClass(class) => stored.classes.push((class, revision)),
                Other::License(license) => stored.licenses.push((license, revision)),
                Other::Switch(switch) => stored.switches.push((switch, revision)),
                Other::Reservation(reservation) => stored.reservations.push((reservation, revision)),
                Other::Schedule(schedule) => stored.schedules.push((schedule, revision)),
                Other::Values(values) => stored.values.push((values, revision)),
                Other::Webhook(webhook) => stored.webhooks.push((webhook, revision)),
                Other::Delivery(delivery) => stored.deliveries.push(delivery),
                Other::Qos(rollout) => stored.qos = Some(rollout),
                Other::SwitchRollout(rollout) => stored.switch_rollout = Some(rollout),
                Other::Drain(drain) => stored.drains.push(drain),
                Other::Token(token) => stored.tokens.push(token),
                Other::Decisions(row) => stored.decisions.push(row),
                Other::Audit(row) => stored.audit.push(row),
            },
            Self::AttachedWrite => {}
            Self::Bad(error) => return Err(*error),
        }
        Ok(())
    }
}

/// As it would be after a migration.
fn read_older(kv: &KeyValue, format: &Format) -> Result<Row, StartError> {
    if kv.key == keys::FORMAT.as_bytes() {
        return read(kv);
    }
    match version::current(format, &kv.key, &kv.value) {
        Ok(value) => read(&KeyValue { value, ..kv.clone() }),
        Err(version::MigrateError::Unknown { .. }) => {
            Err(StartError::ForeignKey { key: kv.key.escape_ascii().to_string() })
        }
        Err(error) => Err(CorruptError::new(&kv.key, error).into()),
    }
}

fn read(kv: &KeyValue) -> Result<Row, StartError> {
    let under = |prefix: &str| kv.key.starts_with(prefix.as_bytes());
    let is = |key: &str| kv.key == key.as_bytes();
    let other = if under(keys::JOBS) {
        return Ok(Row::Job(Arc::new(codec::job(kv)?)));
    } else if under(keys::NODES) {
        return Ok(Row::Node(Arc::new(codec::node(kv)?)));
    } else if under(keys::REQUESTS) {
        return Ok(Row::Request(Arc::new(codec::request(kv)?)));
    } else if under(keys::ATTEMPTS) {
        return Ok(Row::Attempt(Arc::new(codec::attempt(kv)?)));
    } else if under(keys::USAGE) {
        return Ok(Row::Usage(Arc::new(codec::usage(kv)?)));
    } else if under(keys::TENANTS) {
        Other::Tenant(Arc::new(codec::tenant(kv)?))
    } else if under(keys::RESTING_NAMES) {
        Other::RestingName(Arc::new(codec::resting_name(kv)?))
    } else if under(keys::TOMBSTONES) {
        Other::Tombstone(Arc::new(codec::tombstone(kv)?))
    } else if under(keys::QUEUES) {
        Other::Queue(Arc::new(codec::queue(kv)?))
    } else if under(keys::SERVICE_CLASSES) {
        Other::ServiceClass(Arc::new(codec::service_class(kv)?))
    } else if under(keys::LICENSES) {
        Other::License(Arc::new(codec::license(kv)?))
    } else if under(keys::SWITCHES) {
        Other::Switch(Arc::new(codec::switch(kv)?))
    } else if under(keys::RESERVATIONS) {
        Other::Reservation(Arc::new(codec::reservation(kv)?))
    } else if under(keys::SCHEDULES) {
        Other::Schedule(Arc::new(codec::schedule(kv)?))
    } else if under(keys::SECRETS) {
        Other::Values(Arc::new(codec::values(ValuesKind::Secret, kv)?))
    } else if under(keys::CONFIGS) {
        Other::Values(Arc::new(codec::values(ValuesKind::Config, kv)?))
    } else if under(keys::WEBHOOKS) {
        Other::Webhook(Arc::new(codec::webhook(kv)?))
    } else if under(keys::DELIVERIES) {
        Other::Delivery(Arc::new(codec::delivery(kv)?))
    } else if under(keys::JOIN_TOKENS) {
        Other::Token(Arc::new(codec::join_token(kv)?))
    } else if is(keys::FABRIC) {
        Other::Fabric(Arc::new(codec::fabric(kv)?))
    } else if is(keys::SWITCH_ROLLOUT) {
        Other::SwitchRollout(Arc::new(codec::switch_rollout(kv)?))
    } else if is(keys::QOS) {
        Other::Qos(Arc::new(codec::qos(kv)?))
    } else if under(keys::DRAINS) {
        Other::Drain(Arc::new(codec::drain(kv)?))
    } else if under(keys::DECISIONS) {
        Other::Decisions(Arc::new(codec::decisions(kv)?))
    } else if under(keys::AUDIT) || under(keys::DENIALS) {
        Other::Audit(codec::audit_or_fault(kv).map(Arc::new))
    } else {
        beside(kv)?;
        return Ok(Row::AttachedWrite);
    };
    Ok(Row::Other(Box::new(other)))
}

/// What the core does not keep must be readable all the same.
fn beside(kv: &KeyValue) -> Result<(), StartError> {
    let under = |prefix: &str| kv.key.starts_with(prefix.as_bytes());
    let is = |key: &str| kv.key == key.as_bytes();
    if under(keys::USER_TOKENS) {
        codec::decode::<records::UserToken>(kv)?;
    } else if under(keys::REVOCATIONS) {
        revocation::check(kv)?;
    } else if is(keys::PAGE_KEY) {
        codec::decode::<records::PageKey>(kv)?;
    } else if is(keys::BOOTSTRAP) {
        codec::decode::<records::Bootstrap>(kv)?;
    } else if is(keys::FORMAT) {
        Format::of(Some(&kv.value))?;
    } else if ![keys::LEADER, keys::PROBE, keys::SEAL].into_iter().any(is) {
        return Err(StartError::ForeignKey { key: kv.key.escape_ascii().to_string() });
    }
    Ok(())
}

/// A row with its key and the revision of its last change.
pub(crate) type Keyed = (Bytes, (Row, u64));

/// All rows of ours.
pub(crate) struct Listed {
    /// In the order of their keys.
    pub rows: Vec<Keyed>,
    /// The revision that they are of.
    pub revision: u64,
    /// What the store says of their version.
    pub stored: Option<Bytes>,
    /// The version.
    pub format: Format,
}

/// Reads all rows. Pages are decoded beside each other while more of them are fetched.
///
/// # Errors
/// The store's, and that this program must not read it; a row that cannot be read is a row.
pub(crate) async fn all(store: &Arc<dyn Store>) -> Result<Listed, StartError> {
    let mut pages = Arc::clone(store).pages(keys::ROOT.into());
    let (mut rows, mut decoding) = (Vec::new(), VecDeque::new());
    let (mut revision, mut more, mut version) = (0, true, None);
    while let Some(page) = pages.recv().await {
        let page = page?;
        (revision, more) = (page.revision, page.more);
        let format = match &version {
            Some((_, format)) => format,
            None => &version.insert(version_at(store.as_ref(), revision).await?).1,
        };
        decoding.push_back(if page.items.len() <= FEW {
            Decoding::Done(decode(page, format))
        } else {
            let format = format.clone();
            Decoding::AttachedWrite(spawn_blocking(move || decode(page, &format)))
        });
        if decoding.len() > DECODED_AT_ONCE {
            take_first(&mut decoding, &mut rows).await?;
        }
    }
    while !decoding.is_empty() {
        take_first(&mut decoding, &mut rows).await?;
    }
    match version {
        Some((stored, format)) if !more => Ok(Listed { rows, revision, stored, format }),
        // The pages end with the last one or with an error, unless the store is closed.
        _ => Err(StoreError::Closed.into()),
    }
}

/// What the store says of the version of its rows at a revision: they may be migrated meanwhile.
async fn version_at(store: &dyn Store, revision: u64) -> Result<(Option<Bytes>, Format), StartError> {
    let request = RangeRequest { revision: Some(revision), ..RangeRequest::prefix(keys::FORMAT) };
    let found = store.range(request).await?.items;
    let stored = found.into_iter().find(|kv| kv.key == keys::FORMAT.as_bytes()).map(|kv| kv.value);
    let format = Format::of(stored.as_ref())?;
    Ok((stored, format))
}

/// Whether these are no rows yet: the leader key, and what says which key a store is sealed with, come before the first one.
pub(crate) fn are_none<'a>(mut keys: impl Iterator<Item = &'a Bytes>) -> bool {
    let before = [keys::LEADER, keys::PROBE, keys::SEAL];
    keys.all(|key| before.iter().any(|one| key == one.as_bytes()))
}

/// All keys of ours with the revisions of their last changes, and the revision that they are of.
///
/// # Errors
/// The store's.
pub(crate) async fn revisions(
    store: &Arc<dyn Store>,
) -> Result<(BTreeMap<Bytes, ((), u64)>, u64), StoreError> {
    let mut pages = Arc::clone(store).pages(keys::ROOT.into());
    let (mut rows, mut revision, mut more) = (BTreeMap::new(), 0, true);
    while let Some(page) = pages.recv().await {
        let page = page?;
        (revision, more) = (page.revision, page.more);
        rows.extend(page.items.into_iter().map(|kv| (kv.key, ((), kv.mod_revision))));
    }
    if more { Err(StoreError::Closed) } else { Ok((rows, revision)) }
}

/// A page on its way.
enum Decoding {
    Done(Vec<Keyed>),
    AttachedWrite(JoinHandle<Vec<Keyed>>),
}

fn decode(page: RangeResult, format: &Format) -> Vec<Keyed> {
    page.items.into_iter().map(|kv| (kv.key.clone(), (Row::of(&kv, format), kv.mod_revision))).collect()
}

async fn take_first(decoding: &mut VecDeque<Decoding>, rows: &mut Vec<Keyed>) -> Result<(), StoreError> {
    match decoding.pop_front() {
        Some(Decoding::Done(mut first)) => rows.append(&mut first),
        Some(Decoding::AttachedWrite(first)) => {
            rows.append(&mut first.await.map_err(|_| StoreError::Closed)?)
        }
        None => {}
    }
    Ok(())
}
