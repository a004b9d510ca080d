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

use std::sync::Arc;

use controller_state::{
    AttachedWrite, AuditRow, CoreError, DeletedKey, Key, Own, RowSummary, State, Undo, rows::audit::ROW,
};
use proto_audit::{Actor, Change, Claim, Content, Denial, Log, Object, Record};
use proto_model::{
    JobId, LicenseName, QueueName, ReservationName, ScheduleName, ServiceClassName, SwitchName, TenantName,
    Timestamp, ValuesId, WebhookName,
};

use crate::{
    context::Step,
    event::{Attributed, Event, Naming, Reply, SwitchEvent},
};

pub mod denials;

/// Longest text of a record that a caller can choose, in bytes.
const TEXT: usize = 256;

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

fn of_switch(state: &State, name: &SwitchName) -> Object {
    let version = state.version(&Key::Switch(name.clone())).unwrap_or(0);
    Object { version, ..object("switch", "", name) }
}

/// What concerns switches.
fn of_switch_event(state: &State, event: &SwitchEvent) -> Option<(Object, bool)> {
    match event {
        SwitchEvent::RollOut(_) | SwitchEvent::Control { .. } => {
            let version = state.version(&Key::SwitchRollout).unwrap_or(0);
            Some((Object { version, ..object("switch-rollout", "", "") }, false))
        }
        SwitchEvent::CreateToken { switch, .. } => Some((object("join-token", "", switch), false)),
        // It carries a revocation, also where there is no token.
        SwitchEvent::WithdrawTokens { switch } => {
            Some((object("revocation", "", format!("switch/{switch}")), true))
        }
        // Each time a certificate leaves.
        SwitchEvent::Join { switch, .. } => Some((object("switch", "", switch), true)),
        SwitchEvent::Reported { .. } => None,
    }
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
        Event::ApplySwitch { switch, .. } => of_switch(state, &switch.name),
        Event::DeleteSwitch(name) => of_switch(state, name),
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
        Event::Switch(event) => return of_switch_event(state, event),
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

impl Step<'_> {
    /// Records what the event has done, as far as the step has come; called before anything follows from it.
    pub(crate) fn audit(&mut self, mark: usize, about: &mut About, reply: &Reply) {
        match std::mem::replace(about, About::Nothing) {
            About::Change { actor, mut object, always } => {
                let done = always
                    || self.state.journal.undo[mark..].iter().any(|undo| undo.is_change(&self.state.base));
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
        self.state.journal.undo.push(Undo::Own(Own::Chain(log, Box::new(old))));
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
        self.state.journal.undo.push(Undo::Own(Own::Chain(log, Box::new(chain.clone()))));
        chain.broken = None;
        let (seq, head) = (chain.last + 1, chain.head);
        let content = Content::Resumed { cause: short(&cause) };
        self.append(Record::new(log, seq, self.now.0, head, content), true);
    }
}
