//! The audit log: one record of every change by authority and of every denial, in the transaction of what it tells of.
//!
//! Which events leave one is a table ([`about`]): what people, and servers with a token, ask for does, if it changes
//! something; joining and what is done beside the core does always. What agents report, time and placing leave none: that is
//! told by the decision log and the jobs themselves. Records are chained (`proto_audit`); the head goes back with
//! everything else when a batch cannot be stored. All records of a batch share few rows. Rows are kept up to a number of
//! records and of bytes; older ones go with a signed checkpoint that says so, a few with each.
//!
//! Denials have a log of their own (`proto_audit::Log`), with its own chain, rows and room: however many there are, no record
//! of a change goes for them.

pub mod denials;

use std::{
    ops::{Index, IndexMut},
    sync::Arc,
};

use proto_audit::{Actor, Change, Claim, Content, Denial, Hash, Head, Log, Object, Record, START};
use proto_model::{
    JobId, LicenseName, QueueName, ReservationName, ScheduleName, ServiceClassName, TenantName, Timestamp,
    ValuesId, WebhookName,
};

use crate::{
    error::CoreError,
    event::{AttachedWrite, Attributed, Event, Key, Naming, Reply, Write},
    state::{State, journal::Undo},
    step::Step,
    tenant::deleted::DeletedKey,
};

/// Records of one row at most.
const ROW: usize = 32;
/// Rows that one checkpoint drops at most.
const DROPPED: usize = 48;
/// Longest text of a record that a caller can choose, in bytes.
const TEXT: usize = 256;

/// Records of one log that are stored under one key, in order; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// The records.
    pub records: Vec<Arc<Record>>,
}

impl AuditRow {
    /// The log of all its records.
    #[must_use]
    pub fn log(&self) -> Log {
        self.records.first().map_or(Log::Changes, |record| record.log)
    }

    /// The first record's number.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.records.first().map_or(0, |record| record.seq)
    }
}

/// A stored row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAudit {
    /// Of which log it is.
    pub log: Log,
    /// The number of its first record.
    pub first: u64,
    /// Why.
    pub cause: String,
}

/// A row as it was found in the store.
pub type StoredAudit = Result<Arc<AuditRow>, BadAudit>;

/// Both logs' chains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Chains {
    changes: Chain,
    denials: Chain,
}

impl Index<Log> for Chains {
    type Output = Chain;

    fn index(&self, log: Log) -> &Chain {
        match log {
            Log::Changes => &self.changes,
            Log::Denials => &self.denials,
        }
    }
}

impl IndexMut<Log> for Chains {
    fn index_mut(&mut self, log: Log) -> &mut Chain {
        match log {
            Log::Changes => &mut self.changes,
            Log::Denials => &mut self.denials,
        }
    }
}

impl Chains {
    /// The batch is stored: further records go into new rows.
    pub(crate) fn close_rows(&mut self) {
        (self.changes.open, self.denials.open) = (None, None);
    }
}

/// The head of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Chain {
    /// The number and the hash of the last record; 0 and [`START`] before the first.
    pub(crate) last: u64,
    pub(crate) head: Hash,
    /// Since the last checkpoint: how many, and the time of the first.
    pub(crate) unsigned: u64,
    pub(crate) since: Timestamp,
    /// Who led at the last checkpoint.
    pub(crate) signed_by: u64,
    /// What is kept.
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    /// What was found broken at the start, until a record tells of it.
    pub(crate) broken: Option<String>,
    /// The row that further records of the same transaction go into.
    pub(crate) open: Option<Arc<AuditRow>>,
}

/// What is remembered of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowSummary {
    pub(crate) last: u64,
    /// The hash of the last record before the row.
    pub(crate) before: Hash,
    pub(crate) bytes: u64,
    /// Of the first and the last record.
    pub(crate) times: (Timestamp, Timestamp),
}

impl RowSummary {
    fn of(row: &AuditRow) -> Option<Self> {
        let (first, last) = row.records.first().zip(row.records.last())?;
        Some(Self {
            last: last.seq,
            before: first.previous,
            bytes: row.records.iter().map(|record| record.size() as u64).sum(),
            times: (Timestamp(first.time_ms), Timestamp(last.time_ms)),
        })
    }
}

/// What a record is to tell of.
pub(crate) enum About {
    /// A change, where the event changes something; `always`: also where the core has nothing to change.
    Change {
        actor: Arc<Actor>,
        object: Object,
        always: bool,
    },
    Denial(Denial),
    Nothing,
}

fn short(text: &str) -> String {
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= TEXT).last().unwrap_or(0);
    if text.len() <= TEXT { text.to_owned() } else { text[..end].to_owned() }
}

fn object(kind: &str, tenant: impl ToString, name: impl ToString) -> Object {
    Object { kind: kind.to_owned(), name: name.to_string(), tenant: tenant.to_string(), version: 0 }
}

fn of_job(state: &State, id: &JobId, indices: &[u32]) -> Object {
    let mut object = object("job", &id.tenant, &id.name);
    object.version = state.version(&Key::Job(id.clone())).unwrap_or(0);
    if let Some(first) = indices.first() {
        object.name = format!("{}[{first}{}]", id.name, if indices.len() > 1 { ",..." } else { "" });
    }
    object
}

fn change_of_job(state: &State, event: &Event) -> Option<Object> {
    let (id, indices) = match event {
        Event::Cancel { id, indices, .. } | Event::DeleteJob { id, indices, .. } => (id, indices),
        Event::HoldJob { order, .. }
        | Event::SuspendJob { order, .. }
        | Event::RequeueJob { order, .. }
        | Event::ReleaseJob(order) => (&order.id, &order.indices),
        Event::UpdateJob(update) => (&update.order.id, &update.order.indices),
        _ => return None,
    };
    Some(of_job(state, id, indices))
}

/// All of one user.
fn of_schedules(tenant: Option<&TenantName>, user: &str) -> Object {
    object("schedules", tenant.map(ToString::to_string).unwrap_or_default(), short(&format!("of {user}")))
}

fn of_queue(state: &State, tenant: &TenantName, name: &QueueName) -> Object {
    let key = Key::Queue(tenant.clone(), name.clone());
    Object { version: state.version(&key).unwrap_or(0), ..object("queue", tenant, name) }
}

fn of_schedule(state: &State, tenant: &TenantName, name: &ScheduleName) -> Object {
    let key = Key::Schedule(tenant.clone(), name.clone());
    Object { version: state.version(&key).unwrap_or(0), ..object("schedule", tenant, name) }
}

fn of_webhook(state: &State, tenant: &TenantName, name: &WebhookName) -> Object {
    let key = Key::Webhook(tenant.clone(), name.clone());
    Object { version: state.version(&key).unwrap_or(0), ..object("webhook", tenant, name) }
}

fn of_values(state: &State, id: &ValuesId) -> Object {
    let version = state.version(&Key::Values(id.clone())).unwrap_or(0);
    Object { version, ..object(id.kind.noun(), &id.tenant, &id.name) }
}

fn of_reservation(state: &State, name: &ReservationName) -> Object {
    let version = state.version(&Key::Reservation(name.clone())).unwrap_or(0);
    Object { version, ..object("reservation", "", name) }
}

fn of_class(state: &State, name: &ServiceClassName) -> Object {
    let version = state.version(&Key::ServiceClass(name.clone())).unwrap_or(0);
    Object { version, ..object("service-class", "", name) }
}

fn of_deleted(state: &State, key: &DeletedKey) -> Object {
    let object = match key {
        DeletedKey::Fabric(name) => object("fabric", "", short(name)),
        DeletedKey::Tenant(name) => object("tenant", name, name),
    };
    Object { version: state.version_of_deleted(key), ..object }
}

fn of_license(state: &State, name: &LicenseName) -> Object {
    let version = state.version(&Key::License(name.clone())).unwrap_or(0);
    Object { version, ..object("license", "", name) }
}

/// What an event changes by somebody's authority, and whether that is to be told in any case; `None`: it is nobody's
/// wish. The table of what is audited.
pub(crate) fn concerned(state: &State, event: &Event) -> Option<(Object, bool)> {
    let versioned = |object: Object, key: &Key| Object { version: state.version(key).unwrap_or(0), ..object };
    let object = match event {
        Event::Submit(submit) => match &submit.name {
            Naming::Name(name) => object("job", &submit.tenant, name),
            Naming::Generate(_) => object("job", &submit.tenant, ""),
        },
        Event::Cancel { .. }
        | Event::DeleteJob { .. }
        | Event::HoldJob { .. }
        | Event::SuspendJob { .. }
        | Event::RequeueJob { .. }
        | Event::ReleaseJob(_)
        | Event::UpdateJob(_) => change_of_job(state, event)?,
        Event::ApplyTenant { name, .. } | Event::DeleteTenant { name, .. } => {
            versioned(object("tenant", name, name), &Key::Tenant(name.clone()))
        }
        Event::Undelete { key, .. } => of_deleted(state, key),
        Event::ReleaseTenantName { name } => object("tenant-name", name, name),
        Event::ApplyQueue { queue, .. } => of_queue(state, &queue.tenant, &queue.name),
        Event::DeleteQueue { tenant, name } => of_queue(state, tenant, name),
        Event::ApplyServiceClass { class, .. } => of_class(state, &class.name),
        Event::DeleteServiceClass { name } => of_class(state, name),
        Event::ApplyLicense(license, _) => of_license(state, &license.name),
        Event::DeleteLicense(name) => of_license(state, name),
        Event::ApplyValues(values, _) => of_values(state, &values.id),
        Event::DeleteValues(id) => of_values(state, id),
        Event::ApplyWebhook(webhook, _) => of_webhook(state, &webhook.tenant, &webhook.name),
        Event::DeleteWebhook(tenant, name) => of_webhook(state, tenant, name),
        Event::ApplySchedule { schedule, .. } => of_schedule(state, &schedule.tenant, &schedule.name),
        Event::DeleteSchedule { tenant, name, .. } => of_schedule(state, tenant, name),
        Event::SuspendSchedules(tenant, user) => of_schedules(tenant.as_ref(), user),
        Event::ApplyReservation { reservation, .. } => of_reservation(state, &reservation.name),
        Event::DeleteReservation { name } => of_reservation(state, name),
        Event::ApplyFabric { fabric, .. } => versioned(object("fabric", "", &fabric.name), &Key::Fabric),
        Event::DeleteFabric { name, .. } => versioned(object("fabric", "", name), &Key::Fabric),
        Event::UpdateNode { name, .. } | Event::ReturnNode { name } | Event::DeleteNode { name, .. } => {
            versioned(object("node", "", name), &Key::Node(name.clone()))
        }
        Event::DrainRail { target, .. } | Event::UndrainRail { target } => object("drain", "", short(target)),
        Event::ApplyQos(_) | Event::ControlRollout { .. } => versioned(object("qos", "", ""), &Key::Qos),
        Event::CreateToken { node, .. } => object("join-token", "", node),
        // It carries a revocation, also where there is no token.
        Event::WithdrawTokens { node } => {
            return Some((object("revocation", "", format!("node/{node}")), true));
        }
        // Each time a certificate leaves, also where the node was known.
        Event::Join { node, .. } => {
            return Some((versioned(object("node", "", node), &Key::Node(node.clone())), true));
        }
        Event::AuditNote(noted) => {
            return Some((object(noted.kind, &noted.tenant, short(&noted.name)), true));
        }
        Event::DenialRecord(_) => return Some((Object::default(), true)),
        Event::AgentConnected(_)
        | Event::AgentHeartbeat { .. }
        | Event::AgentInventory { .. }
        | Event::AgentObserved { .. }
        | Event::AgentRefusedEpoch { .. }
        | Event::AgentEpochUntrue { .. }
        | Event::AgentDisconnected { .. }
        | Event::CountDeliveries(_)
        | Event::DryRun(_)
        | Event::Tick
        | Event::Attributed(_)
        | Event::Sealed(..)
        | Event::AuditResumed => return None,
    };
    Some((object, false))
}

/// Takes off who asks. A change by authority that names nobody is refused: it could not be recorded.
pub(crate) fn unwrap(state: &State, event: Event) -> (Result<About, CoreError>, Vec<AttachedWrite>, Event) {
    let (actor, beside, event) = match event {
        Event::Attributed(by) => {
            let Attributed { actor, beside, event } = *by;
            (Some(actor), beside, event)
        }
        event => (None, Vec::new(), event),
    };
    let about = match (concerned(state, &event), actor) {
        (None, _) => Ok(About::Nothing),
        (Some(_), None) => Err(CoreError::Unattributed),
        (Some((object, always)), Some(actor)) => Ok(match &event {
            Event::DenialRecord(denied) => About::Denial(Denial {
                actor,
                reason: short(&denied.reason),
                detail: short(&denied.detail),
                count: denied.count.max(1),
            }),
            _ => About::Change { actor, object, always },
        }),
    };
    (about, beside, event)
}

/// Whether a step has changed something that is stored.
pub(crate) fn changed(state: &State, undo: &Undo) -> bool {
    let same = |a: Option<*const ()>, b: Option<*const ()>| a == b;
    fn at<T>(arc: Option<&Arc<T>>) -> Option<*const ()> {
        arc.map(|arc| Arc::as_ptr(arc).cast())
    }
    let base = &state.base;
    match undo {
        Undo::Fabric(old) => !same(at(old.as_ref()), at(base.fabric.as_ref())),
        Undo::Drain(target, old) => !same(at(old.as_ref()), at(base.drains.get(target))),
        Undo::Qos(old) => !same(at(old.as_ref()), at(base.qos.as_ref())),
        Undo::Node(name, old) => !same(at(old.as_ref()), at(base.nodes.get(name))),
        Undo::Tenant(name, old) => !same(at(old.as_ref()), at(base.tenants.get(name))),
        Undo::Resting(name, old) => !same(at(old.as_ref()), at(base.resting.get(name))),
        Undo::Tombstone(key, old) => !same(at(old.as_ref()), at(base.tombstones.get(key))),
        Undo::Queue(key, old) => !same(at(old.as_ref()), at(base.queues.get(key))),
        Undo::Reservation(name, old) => !same(at(old.as_ref()), at(base.reservations.get(name))),
        Undo::Class(name, old) => !same(at(old.as_ref()), at(base.classes.get(name))),
        Undo::License(name, old) => !same(at(old.as_ref()), at(base.licenses.get(name))),
        Undo::Values(id, old) => !same(at(old.as_ref()), at(base.values.get(id))),
        Undo::Webhook(key, old) => !same(at(old.as_ref()), at(base.webhooks.get(key))),
        Undo::JobSchedule(key, old) => {
            let (old, new) = (old.as_deref(), base.schedules.get(key));
            !same(at(old.map(|old| &old.schedule)), at(new.map(|new| &new.schedule)))
        }
        Undo::Request(key, old) => !same(at(old.as_ref()), at(base.requests.get(key))),
        Undo::Token(hash, old) => !same(at(old.as_ref()), at(base.tokens.get(hash))),
        Undo::Job(uid, old) => {
            let new = base.jobs.get(uid);
            let attempt = |entry: &crate::state::JobEntry| at(entry.attempt.as_ref());
            at(old.as_ref().map(|old| &old.job)) != at(new.map(|new| &new.job))
                || old.as_deref().and_then(attempt) != new.and_then(attempt)
        }
        Undo::Link(..)
        | Undo::View(..)
        | Undo::Delivery(..)
        | Undo::Schedule(_)
        | Undo::QosRun(_)
        | Undo::Proving(_)
        | Undo::Decisions(..)
        | Undo::Marks(_)
        | Undo::Chain(..)
        | Undo::Audit(..) => false,
    }
}

impl Step<'_> {
    /// Records what the event has done, as far as the step has come; called before anything follows from it.
    pub(crate) fn audit(&mut self, mark: usize, about: &mut About, reply: &Reply) {
        match std::mem::replace(about, About::Nothing) {
            About::Change { actor, mut object, always } => {
                let done = always || self.state.journal.undo[mark..].iter().any(|u| changed(self.state, u));
                if let (true, Reply::Job { job, .. }) = (object.name.is_empty(), reply) {
                    let array = job.status.array.as_ref();
                    object.name =
                        array.map_or_else(|| job.id.name.to_string(), |place| place.array.to_string());
                }
                if done {
                    self.record(Log::Changes, Content::Change(Change { actor, object }));
                }
            }
            About::Denial(denial) => self.record(Log::Denials, Content::Denial(denial)),
            About::Nothing => {}
        }
    }

    fn record(&mut self, log: Log, content: Content) {
        self.resume(log);
        let chain = &self.state.base.chains[log];
        self.append(Record::new(log, chain.last + 1, self.now.0, chain.head, content), false);
    }

    /// What the controller does by itself, and an administrator must be able to look up.
    pub(crate) fn record_own(&mut self, actor: Arc<Actor>, object: Object) {
        self.record(Log::Changes, Content::Change(Change { actor, object }));
    }

    /// `more`: the step appends another one, which must fit into the same row.
    fn append(&mut self, record: Record, more: bool) {
        let log = record.log;
        let old = self.state.base.chains[log].clone();
        let mut chain = old.clone();
        let signed = match &record.content {
            Content::Checkpoint(checkpoint) => Some(checkpoint.epoch),
            _ => None,
        };
        match signed {
            Some(epoch) => (chain.unsigned, chain.signed_by) = (0, epoch),
            None => {
                if chain.unsigned == 0 {
                    chain.since = Timestamp(record.time_ms);
                }
                chain.unsigned += 1;
            }
        }
        (chain.last, chain.head) = (record.seq, record.hash);
        let mut row = match chain.open.take() {
            Some(row) if row.records.len() + usize::from(more) < ROW => row,
            _ => Arc::new(AuditRow { records: Vec::new() }),
        };
        Arc::make_mut(&mut row).records.push(Arc::new(record));
        let (first, kept) = (row.first(), RowSummary::of(&row));
        chain.open = Some(row);
        self.state.journal.undo.push(Undo::Chain(log, Box::new(old)));
        self.state.base.chains[log] = chain;
        self.state.set_audit(log, first, kept);
    }

    /// The head is signed: the checkpoint is recorded, and what it says was dropped goes.
    pub(crate) fn sealed(&mut self, sealed: Option<Box<(Claim, Vec<u8>)>>) -> Reply {
        let Some((claim, signature)) = sealed.map(|sealed| *sealed) else { return Reply::Done };
        let (log, chain) = (claim.log, &self.state.base.chains[claim.log]);
        // Signed for another head: it says nothing of this one.
        if (claim.seq, claim.head) != (chain.last + 1, chain.head) {
            return Reply::Done;
        }
        let oldest = claim.oldest;
        self.append(claim.record(signature), false);
        let doomed = self.state.base.audit.range((log, 0)..(log, oldest)).map(|((_, first), _)| *first);
        let doomed: Vec<u64> = doomed.collect();
        doomed.into_iter().for_each(|first| self.state.set_audit(log, first, None));
        Reply::Done
    }

    /// What was found broken is told, and the chains go on from what is there.
    pub(crate) fn audit_resumed(&mut self) -> Reply {
        Log::ALL.into_iter().for_each(|log| self.resume(log));
        Reply::Done
    }

    fn resume(&mut self, log: Log) {
        let Some(cause) = self.state.base.chains[log].broken.clone() else { return };
        let chain = &mut self.state.base.chains[log];
        self.state.journal.undo.push(Undo::Chain(log, Box::new(chain.clone())));
        chain.broken = None;
        let (seq, head) = (chain.last + 1, chain.head);
        let content = Content::Resumed { cause: short(&cause) };
        self.append(Record::new(log, seq, self.now.0, head, content), true);
    }
}

impl State {
    fn set_audit(&mut self, log: Log, first: u64, new: Option<RowSummary>) {
        // What is counted belongs to the row, and goes back with it.
        let old = self.swap_audit((log, first), new);
        self.journal.undo.push(Undo::Audit((log, first), old));
    }

    pub(crate) fn swap_audit(&mut self, key: (Log, u64), new: Option<RowSummary>) -> Option<RowSummary> {
        let (old, first) = (self.base.audit.remove(&key), key.1);
        let chain = &mut self.base.chains[key.0];
        if let Some(old) = &old {
            chain.records = chain.records.saturating_sub(old.last + 1 - first);
            chain.bytes = chain.bytes.saturating_sub(old.bytes);
        }
        if let Some(new) = new {
            chain.records += new.last + 1 - first;
            chain.bytes += new.bytes;
            self.base.audit.insert(key, new);
        }
        old
    }

    pub(crate) fn audit_write(&self, key: (Log, u64), was: bool) -> Option<Write> {
        let open = self.base.chains[key.0].open.as_ref().filter(|row| row.first() == key.1);
        match (self.base.audit.contains_key(&key), open) {
            (true, Some(row)) => Some(Write::PutAudit(Arc::clone(row))),
            // A step writes into one row of a log only.
            (true, None) => None,
            (false, _) => was.then_some(Write::DeleteAudit(key.0, key.1)),
        }
    }

    /// The room of a log: records and bytes.
    fn room(&self, log: Log) -> (u64, u64) {
        match log {
            Log::Changes => (self.config.max_audit, self.config.max_audit_bytes),
            Log::Denials => (self.config.max_denials, self.config.max_denials_bytes),
        }
    }

    fn is_over(&self, log: Log) -> bool {
        let (chain, (records, bytes)) = (&self.base.chains[log], self.room(log));
        chain.records > records || chain.bytes > bytes
    }

    /// When the head of a log is to be signed; `None` where it is, or nothing is recorded.
    #[must_use]
    pub fn seal_due(&self, log: Log) -> Option<Timestamp> {
        let chain = &self.base.chains[log];
        if chain.broken.is_some() {
            return Some(Timestamp::default());
        }
        let config = &self.config;
        let now = chain.unsigned >= config.seal_every || chain.signed_by != self.epoch || self.is_over(log);
        let due = if now { chain.since } else { chain.since.plus(config.seal_within) };
        (chain.unsigned > 0).then_some(due)
    }

    /// What a checkpoint would say now; `None` where the head is one.
    #[must_use]
    pub fn claim(&self, log: Log, now: Timestamp) -> Option<Claim> {
        let chain = &self.base.chains[log];
        if chain.unsigned == 0 || chain.broken.is_some() {
            return None;
        }
        let (oldest, anchor) = self.oldest(log)?;
        let other = &self.base.chains[log.other()];
        let beside = Some(Head { seq: other.last, hash: other.head });
        let (seq, time_ms, head) = (chain.last + 1, now.0, chain.head);
        Some(Claim { log, seq, time_ms, head, epoch: self.epoch, oldest, anchor, beside })
    }

    /// The oldest record that is to be kept, and the hash before it.
    fn oldest(&self, log: Log) -> Option<(u64, Hash)> {
        let (chain, (most_records, most_bytes)) = (&self.base.chains[log], self.room(log));
        // A little more than must go, so that not every record needs a checkpoint.
        let bound = |most: u64| if self.is_over(log) { most - most / 16 } else { most };
        let (mut records, mut bytes) = (chain.records, chain.bytes);
        let mut rows =
            self.base.audit.range((log, 0)..=(log, u64::MAX)).map(|((_, first), kept)| (first, kept));
        let mut oldest = rows.next()?;
        for next in rows.take(DROPPED) {
            // What this transaction has written stays.
            let open = chain.open.as_ref().is_some_and(|row| row.first() <= *next.0);
            if open || (records <= bound(most_records) && bytes <= bound(most_bytes)) {
                break;
            }
            records -= (oldest.1.last + 1 - oldest.0).min(records);
            bytes -= oldest.1.bytes.min(bytes);
            oldest = next;
        }
        Some((*oldest.0, oldest.1.before))
    }

    /// Records and bytes of a log that are kept.
    #[must_use]
    pub fn audit_kept(&self, log: Log) -> (u64, u64) {
        (self.base.chains[log].records, self.base.chains[log].bytes)
    }

    /// What was found broken in the audit log, until a record tells of it.
    #[must_use]
    pub fn audit_fault(&self) -> Option<&str> {
        Log::ALL.into_iter().find_map(|log| self.base.chains[log].broken.as_deref())
    }

    /// Rows of a log that may have records before number `before` of this time: the newest first.
    pub fn audit_rows(
        &self,
        log: Log,
        before: u64,
        since: Timestamp,
        until: Timestamp,
    ) -> impl Iterator<Item = u64> + '_ {
        let rows = self.base.audit.range((log, 0)..(log, before)).rev();
        let within = move |kept: &RowSummary| kept.times.0 <= until && kept.times.1 >= since;
        rows.filter(move |(_, kept)| within(kept)).map(|((_, first), _)| *first)
    }

    /// Takes in what is stored, links checked. What is broken does not keep a controller from leading.
    pub(crate) fn load_audit(&mut self, mut rows: Vec<StoredAudit>) {
        rows.sort_by_key(|row| match row {
            Ok(row) => (row.log(), row.first()),
            Err(bad) => (bad.log, bad.first),
        });
        let denials = rows.partition_point(|row| match row {
            Ok(row) => row.log() == Log::Changes,
            Err(bad) => bad.log == Log::Changes,
        });
        let denials = rows.split_off(denials);
        self.load_log(Log::Changes, rows);
        self.load_log(Log::Denials, denials);
    }

    fn load_log(&mut self, log: Log, rows: Vec<StoredAudit>) {
        let mut faults: Vec<String> = Vec::new();
        let mut expected: Option<(u64, Hash)> = None;
        for row in rows {
            let row = match row {
                Ok(row) => row,
                Err(BadAudit { first, cause, .. }) => {
                    faults.push(cause);
                    // It may have been full.
                    let chain = &mut self.base.chains[log];
                    chain.last = chain.last.max(first + ROW as u64);
                    (chain.head, expected) = (START, None);
                    let times = (Timestamp::default(), Timestamp::default());
                    self.swap_audit(
                        (log, first),
                        Some(RowSummary { last: first, before: START, bytes: 0, times }),
                    );
                    continue;
                }
            };
            for record in &row.records {
                if expected.is_some_and(|expected| expected != (record.seq, record.previous)) {
                    faults.push(format!("audit record {} does not follow the one before it", record.seq));
                }
                if record.computed() != record.hash {
                    faults.push(format!("audit record {} was changed", record.seq));
                }
                expected = Some((record.seq + 1, record.hash));
                self.count(record);
            }
            let kept = RowSummary::of(&row);
            self.swap_audit((log, row.first()), kept);
        }
        if let Some(cause) = faults.first() {
            self.base.chains[log].broken =
                Some(format!("{cause} ({} faults in the log of {log})", faults.len()));
        }
    }

    fn count(&mut self, record: &Record) {
        let chain = &mut self.base.chains[record.log];
        (chain.last, chain.head) = (record.seq, record.hash);
        match &record.content {
            Content::Checkpoint(checkpoint) => {
                (chain.unsigned, chain.signed_by) = (0, checkpoint.epoch);
            }
            _ if chain.unsigned == 0 => (chain.unsigned, chain.since) = (1, Timestamp(record.time_ms)),
            _ => chain.unsigned += 1,
        }
    }
}
