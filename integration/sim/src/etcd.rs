//! A model of etcd: one revision for all, transactions with compares, a history for watches that is compacted, leases,
//! times without a leader, and the alarm that nothing more fits.

use std::{collections::BTreeMap, sync::Arc};

use controller_core::{Attempt, Key, Stored, Transition, Write};
use proto_model::{Job, JobId, JobUid, Timestamp};

/// History and rows together at most; beyond it the alarm is raised and nothing is written until it is taken back.
pub const SPACE: usize = 640;
/// A lease lives so many milliseconds without being renewed.
pub const LEASE_MS: u64 = 10_000;

/// A row with the revision of its last change.
pub type Rows = BTreeMap<Key, (Write, u64)>;

/// What a transaction replaced, by the place of the write in it.
pub type Replaced = Vec<(usize, Option<Write>)>;

/// The leader key as etcd holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderKey {
    /// Its creation revision: the epoch.
    pub created: u64,
    /// The life of a controller that wrote it.
    pub holder: usize,
}

/// What one transaction writes.
#[derive(Debug, Default)]
pub struct Body {
    /// The epoch that is compared.
    pub epoch: u64,
    /// The life of a controller that sent it.
    pub from: usize,
    /// What is written; each key once.
    pub writes: Vec<(Key, Write)>,
    /// What it means, for the checks.
    pub transitions: Vec<Transition>,
    /// When that was decided, by the clock of the controller that sent it.
    pub time: Timestamp,
}

/// Why a transaction was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// There is no room.
    NoSpace,
    /// The compare did not hold.
    Fenced,
}

/// What a revision changed; the leader key is not among the rows.
#[derive(Debug)]
struct Change {
    revision: u64,
    body: Option<Arc<Body>>,
}

/// Everything that etcd holds, all of it durable.
#[derive(Debug, Default)]
pub struct Etcd {
    /// The rows of the controllers, with the revision of the last write of each.
    pub rows: Rows,
    /// The revision of the newest transaction.
    pub revision: u64,
    /// The leader key; `None` while no controller leads.
    pub leader: Option<LeaderKey>,
    /// Until when the lease of a life of a controller lives; none once it has ended.
    pub leases: BTreeMap<usize, u64>,
    history: Vec<Change>,
    /// The history up to and including this revision is gone.
    pub compacted: u64,
    /// Nobody leads the members until this time.
    pub down_until: u64,
    /// Its disk is slow until this time.
    pub slow_until: u64,
    /// There was no room; somebody must take the alarm back.
    pub alarm: bool,
    /// Room that somebody else's history takes.
    pub foreign: usize,
}

impl Etcd {
    fn next(&mut self, body: Option<Arc<Body>>) -> u64 {
        self.revision += 1;
        self.history.push(Change { revision: self.revision, body });
        self.revision
    }

    /// Whether a transaction's compare holds.
    #[must_use]
    pub fn leads(&self, epoch: u64) -> bool {
        self.leader.is_some_and(|leader| leader.created == epoch)
    }

    /// Does a transaction. Gives its revision, and the jobs that it replaced, by their place in the transaction.
    ///
    /// # Errors
    /// It was not done, nothing changed.
    pub fn commit(&mut self, body: &Arc<Body>, fence: bool) -> Result<(u64, Replaced), Refused> {
        if fence && !self.leads(body.epoch) {
            return Err(Refused::Fenced);
        }
        if self.history.len() + self.rows.len() + self.foreign >= SPACE {
            self.alarm = true;
        }
        if self.alarm {
            return Err(Refused::NoSpace);
        }
        let revision = self.next(Some(Arc::clone(body)));
        let mut replaced = Vec::new();
        for (at, (key, write)) in body.writes.iter().enumerate() {
            let old = if write.is_delete() {
                self.rows.remove(key)
            } else {
                self.rows.insert(key.clone(), (write.clone(), revision))
            };
            if matches!(key, Key::Job(_)) {
                replaced.push((at, old.map(|(write, _)| write)));
            }
        }
        Ok((revision, replaced))
    }

    /// Deletes the leader key if it was created then.
    pub fn remove_leader(&mut self, created: u64) -> bool {
        let is = self.leads(created);
        if is {
            self.leader = None;
            self.next(None);
        }
        is
    }

    /// Writes the leader key if it is absent.
    pub fn claim(&mut self, holder: usize) -> Option<u64> {
        self.leader.is_none().then(|| {
            let created = self.next(None);
            self.leader = Some(LeaderKey { created, holder });
            created
        })
    }

    /// The changes after a revision; `None` if they are gone.
    pub fn since(&self, after: u64) -> Option<impl Iterator<Item = (u64, &[(Key, Write)])>> {
        (after >= self.compacted).then(|| {
            let from = self.history.partition_point(|change| change.revision <= after);
            self.history[from..].iter().map(|change| {
                (change.revision, change.body.as_ref().map_or(&[][..], |body| &body.writes[..]))
            })
        })
    }

    /// Forgets the history up to a revision.
    pub fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
        let keep = self.history.partition_point(|change| change.revision <= self.compacted);
        self.history.drain(..keep);
        self.foreign = 0;
    }

    /// Changes that are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.history.len()
    }

    /// A job as it is stored; `None` if there is no such record.
    #[must_use]
    pub fn job(&self, id: &JobId) -> Option<&Job> {
        match self.rows.get(&Key::Job(id.clone())) {
            Some((Write::PutJob(job), _)) => Some(job),
            _ => None,
        }
    }

    /// All jobs as they are stored, in the order of their keys.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.rows.values().filter_map(|(write, _)| match write {
            Write::PutJob(job) => Some(&**job),
            _ => None,
        })
    }

    /// The stored record of a job's attempt.
    #[must_use]
    pub fn attempt(&self, uid: JobUid) -> Option<&Attempt> {
        match self.rows.get(&Key::Attempt(uid)) {
            Some((Write::PutAttempt(attempt), _)) => Some(attempt),
            _ => None,
        }
    }
}

/// Rows as a new leader takes them over.
#[must_use]
pub fn stored(rows: &Rows) -> Stored {
    let mut stored = Stored::default();
    for (write, version) in rows.values() {
        match write {
            Write::PutJob(job) => stored.jobs.push((Arc::clone(job), *version)),
            Write::PutAttempt(attempt) => stored.attempts.push(Arc::clone(attempt)),
            Write::PutNode(node) => stored.nodes.push((Arc::clone(node), *version)),
            Write::PutTenant(tenant) => stored.tenants.push((Arc::clone(tenant), *version)),
            Write::PutFabric(fabric) => stored.fabric = Some((Arc::clone(fabric), *version)),
            Write::PutRestingName(row) => stored.resting.push(Arc::clone(row)),
            Write::PutTombstone(row) => stored.tombstones.push(Arc::clone(row)),
            Write::PutQueue(queue) => stored.queues.push((Arc::clone(queue), *version)),
            Write::PutServiceClass(row) => stored.classes.push((Arc::clone(row), *version)),
            Write::PutLicense(row) => stored.licenses.push((Arc::clone(row), *version)),
            Write::PutSwitch(row) => stored.switches.push((Arc::clone(row), *version)),
            Write::PutSchedule(row) => stored.schedules.push((Arc::clone(row), *version)),
            Write::PutValues(row) => stored.values.push((Arc::clone(row), *version)),
            Write::PutWebhook(row) => stored.webhooks.push((Arc::clone(row), *version)),
            Write::PutDelivery(row) => stored.deliveries.push(Arc::clone(row)),
            Write::PutReservation(row) => stored.reservations.push((Arc::clone(row), *version)),
            Write::PutQos(rollout) => stored.qos = Some(Arc::clone(rollout)),
            Write::PutSwitchRollout(rollout) => stored.switch_rollout = Some(Arc::clone(rollout)),
            Write::PutDrain(drain) => stored.drains.push(Arc::clone(drain)),
            Write::PutRequest(record) => stored.requests.push(Arc::clone(record)),
            Write::PutDecisions(row) => stored.decisions.push(Arc::clone(row)),
            Write::PutUsage(record) => stored.usage.push(Arc::clone(record)),
            Write::PutToken(record) => stored.tokens.push(Arc::clone(record)),
            Write::PutAudit(row) => stored.audit.push(Ok(Arc::clone(row))),
            _ => {}
        }
    }
    stored
}
