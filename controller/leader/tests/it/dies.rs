//! A store whose user dies at a write: it is done, or not, and from then on nothing is answered.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use controller_leader::keys;
use controller_rows::format::Format;
use controller_store::{
    KeyValue, LeaseGrant, LeaseId, Limits, Op, RangeRequest, RangeResult, Store, StoreError, StoreStatus,
    Txn, TxnOutcome, WatchStream,
};

use crate::recorded::{Rows, held};

pub struct Dies {
    inner: Arc<dyn Store>,
    /// Writes until then.
    left: AtomicUsize,
    /// The last one is done all the same.
    is_done: bool,
    /// Operations of one transaction at most, so that a small store takes several.
    ops: usize,
    /// What was stored when the rows came to be of the version of this program.
    migrated: Mutex<Option<Rows>>,
}

impl Dies {
    pub fn new(inner: Arc<dyn Store>, after: usize, is_done: bool, ops: usize) -> Arc<Self> {
        Arc::new(Self { inner, left: after.into(), is_done, ops, migrated: Mutex::default() })
    }

    /// Lives on.
    pub fn never(inner: Arc<dyn Store>, ops: usize) -> Arc<Self> {
        Self::new(inner, usize::MAX, true, ops)
    }

    pub fn migrated(&self) -> Option<Rows> {
        self.migrated.lock().unwrap().clone()
    }

    fn alive(&self) -> Result<&dyn Store, StoreError> {
        if self.left.load(Ordering::Relaxed) == 0 { Err(StoreError::Closed) } else { Ok(self.inner.as_ref()) }
    }
}

fn ends_it(txn: &Txn) -> bool {
    txn.success.iter().any(|op| match op {
        Op::Put { key, value, .. } => {
            key == keys::FORMAT.as_bytes() && Format::of(Some(value)).is_ok_and(|format| format.is_current())
        }
        _ => false,
    })
}

#[async_trait::async_trait]
impl Store for Dies {
    async fn get(&self, key: Bytes) -> Result<Option<KeyValue>, StoreError> {
        self.alive()?.get(key).await
    }
    async fn range(&self, request: RangeRequest) -> Result<RangeResult, StoreError> {
        self.alive()?.range(request).await
    }
    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        let store = self.alive()?;
        let last = self.left.fetch_sub(1, Ordering::Relaxed) == 1;
        if last && !self.is_done {
            return Err(StoreError::Closed);
        }
        let ends = ends_it(&txn);
        let outcome = store.txn(txn).await?;
        if ends && outcome.succeeded {
            *self.migrated.lock().unwrap() = Some(held(store).await);
        }
        if last { Err(StoreError::Closed) } else { Ok(outcome) }
    }
    async fn watch(&self, prefix: Bytes, start_revision: u64) -> Result<WatchStream, StoreError> {
        self.alive()?.watch(prefix, start_revision).await
    }
    async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        self.alive()?.compact(revision).await
    }
    async fn lease_grant(&self, ttl: Duration) -> Result<LeaseGrant, StoreError> {
        self.alive()?.lease_grant(ttl).await
    }
    async fn lease_keep_alive(&self, lease: LeaseId) -> Result<LeaseGrant, StoreError> {
        self.alive()?.lease_keep_alive(lease).await
    }
    async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.alive()?.lease_revoke(lease).await
    }
    async fn status(&self) -> Result<StoreStatus, StoreError> {
        self.alive()?.status().await
    }
    fn limits(&self) -> Limits {
        Limits { txn_ops: self.ops, ..self.inner.limits() }
    }
}
