//! A memory store that can fail its transactions, hold them, do them late, or do them and say that it does not know; and
//! that can fall silent.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use controller_store::{
    History, KeyValue, LeaseGrant, LeaseId, Limits, MemoryStore, RangeRequest, RangeResult, Store,
    StoreError, StoreStatus, SystemClock, Txn, TxnOutcome, WatchStream,
};
use tokio::sync::Semaphore;

/// What happens to transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mood {
    Well,
    Full,
    /// Done, but said to be unknown.
    Unknown,
    /// Neither reads nor transactions are answered.
    Silent,
    /// Said to be unknown, and done by `come_late`.
    Late,
    /// Takes no value that is larger.
    Narrow(usize),
    /// Waits until `release`.
    Held,
}

pub struct Moody {
    inner: MemoryStore,
    mood: Mutex<Mood>,
    gate: Semaphore,
    late: Mutex<Vec<Txn>>,
    pub txns: AtomicUsize,
    pub gets: AtomicUsize,
    pub largest: AtomicUsize,
}

impl Moody {
    pub fn new(txn_ops: usize) -> Arc<Self> {
        Self::limited(Limits { txn_ops, ..Limits::default() })
    }

    pub fn limited(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(Arc::new(SystemClock::default()), limits, History::default()),
            mood: Mutex::new(Mood::Well),
            gate: Semaphore::new(0),
            late: Mutex::default(),
            txns: AtomicUsize::new(0),
            gets: AtomicUsize::new(0),
            largest: AtomicUsize::new(0),
        })
    }

    pub fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// The transactions that were put off come now.
    pub async fn come_late(&self) -> Vec<TxnOutcome> {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        let mut outcomes = Vec::new();
        for txn in late {
            outcomes.push(self.inner.txn(txn).await.unwrap());
        }
        outcomes
    }

    pub fn release(&self) {
        self.set(Mood::Well);
        self.gate.add_permits(1000);
    }
}

fn silent() -> StoreError {
    StoreError::Unavailable { cause: "nobody answers".to_owned() }
}

#[async_trait::async_trait]
impl Store for Moody {
    async fn get(&self, key: Bytes) -> Result<Option<KeyValue>, StoreError> {
        let mood = *self.mood.lock().unwrap();
        self.gets.fetch_add(1, Ordering::Relaxed);
        if mood == Mood::Silent { Err(silent()) } else { self.inner.get(key).await }
    }
    async fn range(&self, request: RangeRequest) -> Result<RangeResult, StoreError> {
        self.inner.range(request).await
    }
    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        let mood = *self.mood.lock().unwrap();
        self.txns.fetch_add(1, Ordering::Relaxed);
        self.largest.fetch_max(txn.success.len(), Ordering::Relaxed);
        let cause = "No space left on device".to_owned();
        match mood {
            Mood::Well => self.inner.txn(txn).await,
            Mood::Narrow(limit) => {
                let large = txn.success.iter().find_map(|op| match op {
                    controller_store::Op::Put { key, value, .. } if value.len() > limit => {
                        Some((key.clone(), value.len()))
                    }
                    _ => None,
                });
                match large {
                    Some((key, len)) => Err(StoreError::ValueTooLarge { key, len, limit }),
                    None => self.inner.txn(txn).await,
                }
            }
            Mood::Full => Err(StoreError::Full { cause }),
            Mood::Silent => Err(silent()),
            Mood::Unknown => {
                self.inner.txn(txn).await?;
                Err(StoreError::Unknown { cause })
            }
            Mood::Late => {
                self.late.lock().unwrap().push(txn);
                Err(StoreError::Unknown { cause })
            }
            Mood::Held => {
                let permit = self.gate.acquire().await.map_err(|_| StoreError::Closed)?;
                permit.forget();
                self.inner.txn(txn).await
            }
        }
    }
    async fn watch(&self, prefix: Bytes, start_revision: u64) -> Result<WatchStream, StoreError> {
        self.inner.watch(prefix, start_revision).await
    }
    async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        self.inner.compact(revision).await
    }
    async fn lease_grant(&self, ttl: Duration) -> Result<LeaseGrant, StoreError> {
        self.inner.lease_grant(ttl).await
    }
    async fn lease_keep_alive(&self, lease: LeaseId) -> Result<LeaseGrant, StoreError> {
        self.inner.lease_keep_alive(lease).await
    }
    async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.inner.lease_revoke(lease).await
    }
    async fn status(&self) -> Result<StoreStatus, StoreError> {
        self.inner.status().await
    }
    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}
