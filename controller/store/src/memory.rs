//! The store in memory: the same semantics without durability, for tests and simulation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::clock::{Clock, SystemClock};
use crate::error::StoreError;
use crate::hub::{Hub, lock};
use crate::staged::{Command, Deadlines, Reply, Staged, check_key, check_txn};
use crate::state::State;
use crate::store::{Store, WatchStream};
use crate::types::{
    History, KeyValue, LeaseGrant, LeaseId, Limits, RangeRequest, RangeResult, StoreStatus, Txn, TxnOutcome,
};

/// A store that forgets everything when it is dropped.
#[derive(Debug)]
pub struct MemoryStore {
    hub: Arc<Hub>,
    clock: Arc<dyn Clock>,
    writer: Mutex<Writer>,
}

#[derive(Debug, Default)]
struct Writer {
    deadlines: Deadlines,
    transactions: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock::default()), Limits::default(), History::default())
    }
}

impl MemoryStore {
    /// Makes an empty store whose leases expire by `clock`.
    pub fn new(clock: Arc<dyn Clock>, limits: Limits, history: History) -> Self {
        Self { hub: Hub::new(State::default(), limits, history), clock, writer: Mutex::default() }
    }

    /// Ends the leases whose time is over. Every write does this first too; this is for a store nobody writes to.
    pub fn tick(&self) {
        self.expire(&mut lock(&self.writer));
    }

    fn expire(&self, writer: &mut Writer) {
        for lease in writer.deadlines.due(self.clock.now()) {
            // The only refusal is "no such lease", and then there is nothing to end.
            let _ = self.commit(writer, &Command::Revoke(lease));
        }
    }

    fn command(&self, command: &Command) -> Result<Reply, StoreError> {
        let mut writer = lock(&self.writer);
        self.expire(&mut writer);
        self.commit(&mut writer, command)
    }

    fn commit(&self, writer: &mut Writer, command: &Command) -> Result<Reply, StoreError> {
        let now = self.clock.now();
        let state = self.hub.state();
        let mut staged = Staged::new(&state, &self.hub.limits);
        let reply = staged.apply(command)?;
        let dirty = staged.is_dirty();
        let (delta, kept) = staged.finish(&self.hub.history);
        writer.deadlines.keep_alive(&kept, &state, now);
        drop(state);
        if dirty {
            writer.transactions += delta.log.len() as u64;
            writer.deadlines.absorb(&delta.leases, now);
            self.hub.publish(delta);
        }
        Ok(reply)
    }
}

/// A reply of the wrong kind would be a defect of this crate; it is answered as if the store were gone.
pub(crate) fn expect_txn(reply: Reply) -> Result<TxnOutcome, StoreError> {
    if let Reply::Txn(outcome) = reply { Ok(outcome) } else { Err(StoreError::Closed) }
}

/// As [`expect_txn`], for the reply to a command about a lease.
pub(crate) fn expect_lease(reply: Reply) -> Result<LeaseGrant, StoreError> {
    if let Reply::Lease(grant) = reply { Ok(grant) } else { Err(StoreError::Closed) }
}

/// A time to live in whole milliseconds; what does not fit is longer than any limit.
pub(crate) fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: Bytes) -> Result<Option<KeyValue>, StoreError> {
        check_key(&key, &self.hub.limits)?;
        Ok(self.hub.get(&key))
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResult, StoreError> {
        self.hub.range(&request)
    }

    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        check_txn(&txn, &self.hub.limits)?;
        expect_txn(self.command(&Command::Txn(txn))?)
    }

    async fn watch(&self, prefix: Bytes, start_revision: u64) -> Result<WatchStream, StoreError> {
        Ok(Box::pin(self.hub.watch(prefix, start_revision)?))
    }

    async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        self.command(&Command::Compact(revision)).map(|_| ())
    }

    async fn lease_grant(&self, ttl: Duration) -> Result<LeaseGrant, StoreError> {
        expect_lease(self.command(&Command::Grant { ttl_ms: millis(ttl) })?)
    }

    async fn lease_keep_alive(&self, lease: LeaseId) -> Result<LeaseGrant, StoreError> {
        expect_lease(self.command(&Command::KeepAlive(lease))?)
    }

    async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.command(&Command::Revoke(lease)).map(|_| ())
    }

    async fn status(&self) -> Result<StoreStatus, StoreError> {
        let transactions = lock(&self.writer).transactions;
        Ok(StoreStatus { commits: transactions, transactions, ..self.hub.status() })
    }

    fn limits(&self) -> Limits {
        self.hub.limits
    }
}
