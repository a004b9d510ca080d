//! A model of the store: transactions that are fenced by the epoch, durable at once or not at all.

use std::collections::BTreeMap;

use controller_core::{Key, Stored, Write};
use proto_model::{Job, JobId, JobUid};

/// Why a transaction was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The disk is full.
    Full,
    /// The controller was replaced.
    Fenced,
}

/// What is durable.
#[derive(Debug, Default)]
pub struct Store {
    /// The rows, with the revision of their last change.
    pub rows: BTreeMap<Key, (Write, u64)>,
    /// The newest revision.
    pub revision: u64,
    /// The epoch of the controller that may write.
    pub epoch: u64,
    /// Transactions fail until this time.
    pub full_until: u64,
}

impl Store {
    /// Does a transaction.
    ///
    /// # Errors
    /// It was not done, nothing changed.
    pub fn commit(
        &mut self,
        epoch: u64,
        fence: bool,
        now: u64,
        writes: &BTreeMap<Key, Write>,
    ) -> Result<u64, Refused> {
        if fence && epoch != self.epoch {
            return Err(Refused::Fenced);
        }
        if now < self.full_until {
            return Err(Refused::Full);
        }
        self.revision += 1;
        for (key, write) in writes {
            if write.is_delete() {
                self.rows.remove(key);
            } else {
                self.rows.insert(key.clone(), (write.clone(), self.revision));
            }
        }
        Ok(self.revision)
    }

    /// A stored job.
    #[must_use]
    pub fn job(&self, id: &JobId) -> Option<&Job> {
        match self.rows.get(&Key::Job(id.clone())) {
            Some((Write::PutJob(job), _)) => Some(job),
            _ => None,
        }
    }

    /// All stored jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.rows.values().filter_map(|(write, _)| match write {
            Write::PutJob(job) => Some(&**job),
            _ => None,
        })
    }

    /// Whether a job's record of a try is stored.
    #[must_use]
    pub fn has_attempt(&self, uid: JobUid) -> bool {
        self.rows.contains_key(&Key::Attempt(uid))
    }

    /// Whether a job's try is being ended.
    #[must_use]
    pub fn is_ending(&self, uid: JobUid) -> bool {
        matches!(self.rows.get(&Key::Attempt(uid)), Some((Write::PutAttempt(attempt), _)) if attempt.ending.is_some())
    }

    /// Everything, as a new controller reads it.
    #[must_use]
    pub fn load(&self) -> Stored {
        let mut stored = Stored::default();
        for (write, version) in self.rows.values() {
            match write {
                Write::PutJob(job) => stored.jobs.push(((**job).clone(), *version)),
                Write::PutAttempt(attempt) => stored.attempts.push((**attempt).clone()),
                Write::PutNode(node) => stored.nodes.push(((**node).clone(), *version)),
                Write::PutTenant(tenant) => stored.tenants.push(((**tenant).clone(), *version)),
                Write::PutFabric(fabric) => stored.fabric = Some(((**fabric).clone(), *version)),
                Write::PutQueue(queue) => stored.queues.push(((**queue).clone(), *version)),
                Write::PutReservation(row) => stored.reservations.push(((**row).clone(), *version)),
                Write::PutDrain(drain) => stored.drains.push((**drain).clone()),
                Write::PutRequest(record) => stored.requests.push((**record).clone()),
                Write::PutDecisions(row) => stored.decisions.push((**row).clone()),
                Write::PutToken(record) => stored.tokens.push((**record).clone()),
                _ => {}
            }
        }
        stored
    }
}
