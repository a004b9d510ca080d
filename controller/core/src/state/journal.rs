//! How to undo what was not committed yet.

use std::sync::Arc;

use controller_queue::Marks;
use proto_audit::Log;
use proto_model::{
    Drain, DrainTarget, Fabric, JobUid, License, LicenseName, Node, NodeName, QosRollout, Queue, QueueName,
    RequestId, Reservation, ReservationName, ServiceClass, ServiceClassName, Tenant, TenantName, Timestamp,
    Values, ValuesId, Webhook,
};

use crate::{
    audit::{Chain, RowSummary},
    event::Key,
    job::{
        decisions::DecisionRow,
        schedules::{ScheduleEntry, ScheduleKey},
    },
    rail::prove::Proving,
    rollout::Run,
    state::{
        JobEntry, Link, NodeView, Schedule, State,
        records::{RequestRecord, RestingName, TokenRecord},
    },
    tenant::{
        deleted::{DeletedKey, Tombstone},
        webhooks::{Delivery, DeliveryKey, WebhookKey},
    },
};

/// The old value of one row.
#[derive(Debug, Clone)]
pub(crate) enum Undo {
    Fabric(Option<Arc<Fabric>>),
    Drain(DrainTarget, Option<Arc<Drain>>),
    Qos(Option<Arc<QosRollout>>),
    QosRun(Box<(Run, Option<Timestamp>)>),
    Proving(Box<(Proving, Option<Timestamp>)>),
    Node(NodeName, Option<Arc<Node>>),
    Tenant(TenantName, Option<Arc<Tenant>>),
    Resting(TenantName, Option<Arc<RestingName>>),
    Tombstone(DeletedKey, Option<Arc<Tombstone>>),
    Job(JobUid, Option<Box<JobEntry>>),
    Request((TenantName, RequestId), Option<Arc<RequestRecord>>),
    Token([u8; 32], Option<Arc<TokenRecord>>),
    Link(NodeName, Option<Link>),
    View((JobUid, u32), Option<Box<NodeView>>),
    Queue((TenantName, QueueName), Option<Arc<Queue>>),
    Reservation(ReservationName, Option<Arc<Reservation>>),
    JobSchedule(ScheduleKey, Option<Box<ScheduleEntry>>),
    Values(ValuesId, Option<Arc<Values>>),
    Webhook(WebhookKey, Option<Arc<Webhook>>),
    Delivery(DeliveryKey, Option<Arc<Delivery>>),
    Class(ServiceClassName, Option<Arc<ServiceClass>>),
    License(LicenseName, Option<Arc<License>>),
    Schedule(Box<Schedule>),
    Decisions(u64, Option<Arc<DecisionRow>>),
    /// The head of the audit log, and its rows.
    Chain(Log, Box<Chain>),
    Audit((Log, u64), Option<RowSummary>),
    /// What the policy remembers of past jobs.
    Marks(Box<Marks>),
}

/// Everything since the last commit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    pub(crate) undo: Vec<Undo>,
    /// Keys that the steps since the last commit have written, and whether they are gone.
    pub(crate) written: Vec<(Key, bool)>,
}

impl Journal {
    /// Whether a key waits for its commit, and if so whether it is gone.
    pub(crate) fn pending(&self, key: &Key) -> Option<bool> {
        self.written.iter().rev().find(|(written, _)| written == key).map(|(_, deleted)| *deleted)
    }
}

impl State {
    /// The writes of all steps since the last commit are durable, at this revision of the store.
    pub fn commit(&mut self, revision: u64) {
        self.journal.undo.clear();
        self.base.chains.close_rows();
        for (key, deleted) in self.journal.written.drain(..) {
            if matches!(key, Key::Audit(..) | Key::Delivery(..) | Key::AttachedWrite(_)) {
                continue;
            }
            if deleted {
                self.versions.remove(&key);
            } else {
                self.versions.insert(key, revision);
            }
        }
    }

    /// They are not: the state is exactly as it was at the last commit.
    pub fn rollback(&mut self) {
        self.undo_to(0);
        self.journal.written.clear();
    }

    /// Whether steps since the last commit have changed anything, stored or not.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        !self.journal.undo.is_empty()
    }

    pub(crate) fn undo_to(&mut self, mark: usize) {
        while self.journal.undo.len() > mark {
            match self.journal.undo.pop() {
                Some(Undo::Fabric(old)) => drop(self.swap_fabric(old)),
                Some(Undo::Drain(target, old)) => drop(self.swap_drain(target, old)),
                Some(Undo::Qos(old)) => self.base.qos = old,
                Some(Undo::QosRun(old)) => {
                    let (run, check) = *old;
                    self.swap_qos_run(run);
                    self.base.qos_check = check;
                }
                Some(Undo::Proving(old)) => (self.base.proving, self.base.prove_check) = *old,
                Some(Undo::Node(name, old)) => drop(self.swap_node(&name, old)),
                Some(Undo::Tenant(name, old)) => drop(self.swap_tenant(&name, old)),
                Some(Undo::Resting(name, old)) => drop(self.swap_resting(&name, old)),
                Some(Undo::Tombstone(key, old)) => drop(self.swap_tombstone(&key, old)),
                Some(Undo::Job(uid, old)) => drop(self.swap_job(uid, old.map(|entry| *entry))),
                Some(Undo::Request(key, old)) => drop(self.swap_request(key, old)),
                Some(Undo::Token(hash, old)) => drop(self.swap_token(hash, old)),
                Some(Undo::Link(name, old)) => drop(self.swap_link(&name, old)),
                Some(Undo::View(key, old)) => drop(self.swap_view(key, old.map(|view| *view))),
                Some(Undo::Marks(old)) => self.index.queue_state.restore(*old),
                Some(Undo::Queue(key, old)) => drop(self.swap_queue(key, old)),
                Some(Undo::Reservation(name, old)) => drop(self.swap_reservation(&name, old)),
                Some(Undo::JobSchedule(key, old)) => {
                    drop(self.swap_job_schedule(key, old.map(|entry| *entry)));
                }
                Some(Undo::Values(id, old)) => drop(self.swap_values(id, old)),
                Some(Undo::Webhook(key, old)) => drop(self.swap_webhook(key, old)),
                Some(Undo::Delivery(key, old)) => drop(self.swap_delivery(key, old)),
                Some(Undo::Class(name, old)) => drop(self.swap_class(&name, old)),
                Some(Undo::License(name, old)) => drop(self.swap_license(&name, old)),
                Some(Undo::Decisions(seq, old)) => drop(self.swap_decisions(seq, old)),
                Some(Undo::Chain(log, old)) => self.base.chains[log] = *old,
                Some(Undo::Audit(key, old)) => drop(self.swap_audit(key, old)),
                Some(Undo::Schedule(old)) => self.base.schedule = *old,
                None => return,
            }
        }
    }
}
