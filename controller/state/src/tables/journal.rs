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
    rows::{
        audit::{Chain, RowSummary},
        decisions::DecisionRow,
        deleted::{DeletedKey, Tombstone},
        job::{JobEntry, NodeView, Schedule},
        node::Link,
        proving::Proving,
        records::{RequestRecord, RestingName, TokenRecord},
        rollout::Run,
        schedules::{ScheduleEntry, ScheduleKey},
        webhooks::{Delivery, DeliveryKey, WebhookKey},
        write::Key,
    },
    tables::state::State,
};

/// The old value of one row.
#[derive(Debug, Clone)]
pub enum Undo {
    /// The fabric document.
    Fabric(Option<Arc<Fabric>>),
    /// A drain.
    Drain(DrainTarget, Option<Arc<Drain>>),
    /// The rollout.
    Qos(Option<Arc<QosRollout>>),
    /// What of the rollout is under way, and when it is looked at again.
    QosRun(Box<(Run, Option<Timestamp>)>),
    /// Probes, and when they are looked at again.
    Proving(Box<(Proving, Option<Timestamp>)>),
    /// A node.
    Node(NodeName, Option<Arc<Node>>),
    /// A tenant.
    Tenant(TenantName, Option<Arc<Tenant>>),
    /// The name of a deleted tenant.
    Resting(TenantName, Option<Arc<RestingName>>),
    /// What was deleted.
    Tombstone(DeletedKey, Option<Arc<Tombstone>>),
    /// A job with what belongs to it.
    Job(JobUid, Option<Box<JobEntry>>),
    /// A request id.
    Request((TenantName, RequestId), Option<Arc<RequestRecord>>),
    /// A join token.
    Token([u8; 32], Option<Arc<TokenRecord>>),
    /// A connection.
    Link(NodeName, Option<Link>),
    /// What a node of a gang has reported.
    View((JobUid, u32), Option<Box<NodeView>>),
    /// A queue.
    Queue((TenantName, QueueName), Option<Arc<Queue>>),
    /// A reservation.
    Reservation(ReservationName, Option<Arc<Reservation>>),
    /// A schedule of jobs.
    JobSchedule(ScheduleKey, Option<Box<ScheduleEntry>>),
    /// A secret or config.
    Values(ValuesId, Option<Arc<Values>>),
    /// A webhook.
    Webhook(WebhookKey, Option<Arc<Webhook>>),
    /// What waits to be sent.
    Delivery(DeliveryKey, Option<Arc<Delivery>>),
    /// A service class.
    Class(ServiceClassName, Option<Arc<ServiceClass>>),
    /// A license.
    License(LicenseName, Option<Arc<License>>),
    /// How far the queue was looked at.
    Schedule(Box<Schedule>),
    /// A row of the decision log.
    Decisions(u64, Option<Arc<DecisionRow>>),
    /// The head of the audit log, and its rows.
    Chain(Log, Box<Chain>),
    /// What is remembered of a row of an audit log.
    Audit((Log, u64), Option<RowSummary>),
    /// What the policy remembers of past jobs.
    Marks(Box<Marks>),
}

/// Everything since the last commit.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// The old values of rows, in the order of the changes.
    pub undo: Vec<Undo>,
    /// Keys that the steps since the last commit have written, and whether they are gone.
    pub written: Vec<(Key, bool)>,
}

impl Journal {
    /// Whether a key waits for its commit, and if so whether it is gone.
    pub fn pending(&self, key: &Key) -> Option<bool> {
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

    /// Takes back all changes behind a mark: the length of the log at that time. Marks nest.
    pub fn undo_to(&mut self, mark: usize) {
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
