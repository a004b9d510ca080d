//! Transactions applied on top of the committed state without touching it: many can be staged, made durable
//! together and merged, or dropped as if they had never been.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::StoreError;
use crate::state::{Delta, LogEntry, Overlay, State, kv_bytes, merged_scan};
use crate::types::{Event, History, KeyValue, LeaseGrant, LeaseId, Limits, Op, OpResult, Txn, TxnOutcome};

/// One request to the writer.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    Txn(Txn),
    Grant { ttl_ms: u64 },
    KeepAlive(LeaseId),
    Revoke(LeaseId),
    Compact(u64),
}

/// The answer to a [`Command`].
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Txn(TxnOutcome),
    Lease(LeaseGrant),
    Done,
}

/// Refuses what no state can make valid: sizes, counts, keys written twice.
pub(crate) fn check_txn(txn: &Txn, limits: &Limits) -> Result<(), StoreError> {
    let counts = [
        ("compares", txn.compares.len()),
        ("success operations", txn.success.len()),
        ("failure operations", txn.failure.len()),
    ];
    for (what, count) in counts {
        if count > limits.txn_ops {
            return Err(StoreError::TooManyOps { what, count, limit: limits.txn_ops });
        }
    }
    for compare in &txn.compares {
        check_key(&compare.key, limits)?;
    }
    check_branch(&txn.success, limits)?;
    check_branch(&txn.failure, limits)?;
    let len = txn.bytes();
    if len > limits.txn_bytes {
        return Err(StoreError::TxnTooLarge { len, limit: limits.txn_bytes });
    }
    Ok(())
}

pub(crate) fn check_key(key: &Bytes, limits: &Limits) -> Result<(), StoreError> {
    if key.is_empty() || key.len() > limits.key_bytes {
        return Err(StoreError::KeyLength { len: key.len(), limit: limits.key_bytes });
    }
    Ok(())
}

fn check_branch(ops: &[Op], limits: &Limits) -> Result<(), StoreError> {
    let mut puts = BTreeSet::new();
    for op in ops {
        match op {
            Op::Put { key, value, .. } => {
                check_key(key, limits)?;
                if value.len() > limits.value_bytes {
                    let (key, len, limit) = (key.clone(), value.len(), limits.value_bytes);
                    return Err(StoreError::ValueTooLarge { key, len, limit });
                }
                if !puts.insert(key) {
                    return Err(StoreError::DuplicateKey { key: key.clone() });
                }
            }
            Op::Delete { key } | Op::Get { key } => check_key(key, limits)?,
            Op::DeletePrefix { prefix } if prefix.len() > limits.key_bytes => {
                return Err(StoreError::KeyLength { len: prefix.len(), limit: limits.key_bytes });
            }
            Op::DeletePrefix { .. } => {}
        }
    }
    for op in ops {
        let clash = match op {
            Op::Delete { key } => puts.get(key).copied(),
            Op::DeletePrefix { prefix } => puts.iter().find(|key| key.starts_with(prefix)).copied(),
            Op::Put { .. } | Op::Get { .. } => None,
        };
        if let Some(key) = clash {
            return Err(StoreError::DuplicateKey { key: key.clone() });
        }
    }
    Ok(())
}

/// A view of the committed state plus everything staged so far.
pub(crate) struct Staged<'a> {
    base: &'a State,
    limits: &'a Limits,
    kv: Overlay,
    log: Vec<(u64, LogEntry)>,
    leases: BTreeMap<LeaseId, Option<u64>>,
    kept_alive: Vec<LeaseId>,
    revision: u64,
    compact_revision: u64,
    next_lease: u64,
    bytes: u64,
}

impl<'a> Staged<'a> {
    pub fn new(base: &'a State, limits: &'a Limits) -> Self {
        Self {
            base,
            limits,
            kv: Overlay::new(),
            log: Vec::new(),
            leases: BTreeMap::new(),
            kept_alive: Vec::new(),
            revision: base.revision,
            compact_revision: base.compact_revision,
            next_lease: base.next_lease,
            bytes: base.bytes,
        }
    }

    /// Whether anything would have to be made durable.
    pub fn is_dirty(&self) -> bool {
        !self.log.is_empty() || !self.leases.is_empty() || self.compact_revision != self.base.compact_revision
    }

    /// Ends the staging: what to make durable and merge, and the leases that were kept alive.
    pub fn finish(self, history: &History) -> (Delta, Vec<LeaseId>) {
        let floor = self.base.history_floor(&self.log, history).max(self.compact_revision);
        let delta = Delta {
            kv: self.kv,
            log: self.log,
            leases: self.leases,
            revision: self.revision,
            compact_revision: floor,
            next_lease: self.next_lease,
        };
        (delta, self.kept_alive)
    }

    /// Runs one command. An error leaves the staging as it was.
    ///
    /// # Errors
    /// What the command breaks: a limit, or a lease or revision that it names and that does not exist.
    pub fn apply(&mut self, command: &Command) -> Result<Reply, StoreError> {
        match command {
            Command::Txn(txn) => self.txn(txn).map(Reply::Txn),
            Command::Grant { ttl_ms } => self.grant(*ttl_ms).map(Reply::Lease),
            Command::KeepAlive(id) => {
                let ttl_ms = self.lease_ttl(*id).ok_or(StoreError::LeaseNotFound { lease: *id })?;
                self.kept_alive.push(*id);
                Ok(Reply::Lease(LeaseGrant { id: *id, ttl: Duration::from_millis(ttl_ms) }))
            }
            Command::Revoke(id) => self.revoke(*id).map(|()| Reply::Done),
            Command::Compact(revision) => self.compact(*revision).map(|()| Reply::Done),
        }
    }

    fn get(&self, key: &Bytes) -> Option<&KeyValue> {
        match self.kv.get(key) {
            Some(staged) => staged.as_ref(),
            None => self.base.kv.get(key),
        }
    }

    fn lease_ttl(&self, id: LeaseId) -> Option<u64> {
        match self.leases.get(&id) {
            Some(staged) => *staged,
            None => self.base.leases.get(&id).map(|lease| lease.ttl_ms),
        }
    }

    fn txn(&mut self, txn: &Txn) -> Result<TxnOutcome, StoreError> {
        let succeeded = txn.compares.iter().all(|compare| compare.holds(self.get(&compare.key)));
        let ops = if succeeded { &txn.success } else { &txn.failure };
        self.check_ops(ops)?;
        let mut events = Vec::new();
        let mut results = Vec::with_capacity(ops.len());
        for op in ops {
            results.push(self.run(op, &mut events));
        }
        self.close_revision(events);
        Ok(TxnOutcome { revision: self.revision, succeeded, results })
    }

    /// Refuses a transaction that this state cannot take, before any of it is applied.
    fn check_ops(&self, ops: &[Op]) -> Result<(), StoreError> {
        let (mut grow, mut shrink, mut deletes) = (0u64, 0u64, 0usize);
        for op in ops {
            match op {
                Op::Put { key, value, lease } => {
                    if let Some(lease) = lease.filter(|id| self.lease_ttl(*id).is_none()) {
                        return Err(StoreError::LeaseNotFound { lease });
                    }
                    grow += (key.len() + value.len()) as u64;
                    shrink += self.get(key).map_or(0, kv_bytes);
                }
                Op::DeletePrefix { prefix } => deletes += self.scan(prefix, self.limits.deletes + 1).len(),
                Op::Delete { .. } | Op::Get { .. } => {}
            }
        }
        if deletes > self.limits.deletes {
            return Err(StoreError::TooManyDeletes { limit: self.limits.deletes });
        }
        let after = (self.bytes + grow).saturating_sub(shrink);
        if grow > shrink && after > self.limits.total_bytes {
            let cause = format!(
                "{} bytes of live keys and values of at most {}",
                self.bytes, self.limits.total_bytes
            );
            return Err(StoreError::Full { cause });
        }
        Ok(())
    }

    fn scan(&self, prefix: &[u8], limit: usize) -> Vec<KeyValue> {
        merged_scan(&self.base.kv, &self.kv, prefix, None, limit)
    }

    fn run(&mut self, op: &Op, events: &mut Vec<Event>) -> OpResult {
        match op {
            Op::Put { key, value, lease } => {
                let (revision, prev) = (self.revision + 1, self.get(key).cloned());
                let kv = KeyValue {
                    key: key.clone(),
                    value: value.clone(),
                    create_revision: prev.as_ref().map_or(revision, |prev| prev.create_revision),
                    mod_revision: revision,
                    version: prev.as_ref().map_or(1, |prev| prev.version + 1),
                    lease: *lease,
                };
                self.set(key.clone(), Some(kv.clone()));
                events.push(Event::Put { kv, prev });
                OpResult::Put
            }
            Op::Delete { key } => {
                let doomed: Vec<_> = self.get(key).cloned().into_iter().collect();
                OpResult::Deleted(self.delete_all(doomed, events))
            }
            Op::DeletePrefix { prefix } => {
                let doomed = self.scan(prefix, usize::MAX);
                OpResult::Deleted(self.delete_all(doomed, events))
            }
            Op::Get { key } => OpResult::Got(self.get(key).cloned()),
        }
    }

    fn delete_all(&mut self, doomed: Vec<KeyValue>, events: &mut Vec<Event>) -> u64 {
        let count = doomed.len() as u64;
        for kv in doomed {
            self.set(kv.key.clone(), None);
            events.push(Event::Delete { key: kv.key.clone(), revision: self.revision + 1, prev: Some(kv) });
        }
        count
    }

    fn set(&mut self, key: Bytes, kv: Option<KeyValue>) {
        let old = self.get(&key).map_or(0, kv_bytes);
        self.bytes = (self.bytes + kv.as_ref().map_or(0, kv_bytes)).saturating_sub(old);
        self.kv.insert(key, kv);
    }

    /// A transaction that changed nothing takes no revision.
    fn close_revision(&mut self, events: Vec<Event>) {
        if !events.is_empty() {
            self.revision += 1;
            self.log.push((self.revision, LogEntry::new(Arc::from(events))));
        }
    }

    fn grant(&mut self, ttl_ms: u64) -> Result<LeaseGrant, StoreError> {
        let limit_ms = self.limits.lease_ttl_ms;
        if ttl_ms == 0 || ttl_ms > limit_ms {
            return Err(StoreError::LeaseTtl { ttl_ms, limit_ms });
        }
        let id = LeaseId(self.next_lease);
        self.next_lease += 1;
        self.leases.insert(id, Some(ttl_ms));
        Ok(LeaseGrant { id, ttl: Duration::from_millis(ttl_ms) })
    }

    fn revoke(&mut self, id: LeaseId) -> Result<(), StoreError> {
        self.lease_ttl(id).ok_or(StoreError::LeaseNotFound { lease: id })?;
        let mut keys: BTreeSet<Bytes> = self.base.leases.get(&id).map(|l| l.keys.clone()).unwrap_or_default();
        keys.extend(self.kv.keys().cloned());
        let held = |kv: &&KeyValue| kv.lease == Some(id);
        let doomed = keys.iter().filter_map(|key| self.get(key).filter(held).cloned()).collect();
        let mut events = Vec::new();
        self.delete_all(doomed, &mut events);
        self.close_revision(events);
        self.leases.insert(id, None);
        Ok(())
    }

    fn compact(&mut self, revision: u64) -> Result<(), StoreError> {
        if revision > self.revision {
            return Err(StoreError::FutureRevision { requested: revision, current: self.revision });
        }
        self.compact_revision = self.compact_revision.max(revision);
        Ok(())
    }
}

/// When each live lease ends.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    ends: BTreeMap<LeaseId, Duration>,
}

impl Deadlines {
    /// Every lease of a store that was just opened starts with its full time to live.
    pub fn restart(state: &State, now: Duration) -> Self {
        let end = |ttl_ms: u64| now + Duration::from_millis(ttl_ms);
        Self { ends: state.leases.iter().map(|(id, lease)| (*id, end(lease.ttl_ms))).collect() }
    }

    /// Leases whose time is over.
    pub fn due(&self, now: Duration) -> Vec<LeaseId> {
        self.ends.iter().filter(|(_, end)| **end <= now).map(|(id, _)| *id).collect()
    }

    /// Takes over what was committed. `state` is the state after the merge.
    pub fn absorb(&mut self, changed: &BTreeMap<LeaseId, Option<u64>>, now: Duration) {
        for (id, change) in changed {
            match change {
                Some(ttl_ms) => self.ends.insert(*id, now + Duration::from_millis(*ttl_ms)),
                None => self.ends.remove(id),
            };
        }
    }

    /// Starts the time of leases anew.
    pub fn keep_alive(&mut self, kept: &[LeaseId], state: &State, now: Duration) {
        for id in kept {
            if let Some(lease) = state.leases.get(id) {
                self.ends.insert(*id, now + Duration::from_millis(lease.ttl_ms));
            }
        }
    }
}
