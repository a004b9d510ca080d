//! A store whose values under some prefixes are sealed before they leave the process.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_stream::Stream;

use super::ring::{KeyRing, KeyRingError, OVERHEAD};
use crate::error::StoreError;
use crate::store::{Pages, Store, WatchStream, pages_ahead};
use crate::types::{
    Event, KeyValue, LeaseGrant, LeaseId, Limits, Op, OpResult, RangeRequest, RangeResult, StoreStatus,
    Target, Txn, TxnOutcome, WatchBatch,
};

/// Another store with sealed values. What was written before there were keys stays readable.
pub struct SealedStore {
    inner: Arc<dyn Store>,
    seals: Arc<Seals>,
}

/// What is sealed, and with which keys.
struct Seals {
    ring: KeyRing,
    prefixes: Vec<Bytes>,
}

impl SealedStore {
    /// Seals what is under the prefixes.
    pub fn new(
        inner: Arc<dyn Store>,
        ring: KeyRing,
        prefixes: impl IntoIterator<Item = impl Into<Bytes>>,
    ) -> Self {
        let prefixes = prefixes.into_iter().map(Into::into).collect();
        SealedStore { inner, seals: Arc::new(Seals { ring, prefixes }) }
    }
}

impl Seals {
    fn covers(&self, key: &[u8]) -> bool {
        self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }

    fn open(&self, mut kv: KeyValue) -> Result<KeyValue, StoreError> {
        if self.covers(&kv.key) {
            kv.value =
                self.ring.open_value(&kv.key, &kv.value).map_err(|error| unreadable(&kv.key, &error))?;
        }
        Ok(kv)
    }

    fn page(&self, mut page: RangeResult) -> Result<RangeResult, StoreError> {
        page.items = page.items.into_iter().map(|kv| self.open(kv)).collect::<Result<_, _>>()?;
        Ok(page)
    }

    fn seal(&self, op: Op) -> Result<Op, StoreError> {
        match op {
            Op::Put { key, value, lease } if self.covers(&key) => {
                let value = self
                    .ring
                    .seal(&key, &value)
                    .map_err(|error| StoreError::Io { cause: error.to_string() })?;
                Ok(Op::Put { key, value, lease })
            }
            other => Ok(other),
        }
    }

    /// No sealed value equals another one, so that comparing it would always fail.
    fn comparable(&self, txn: &Txn) -> Result<(), StoreError> {
        let by_value = txn
            .compares
            .iter()
            .find(|compare| matches!(compare.target, Target::Value(_)) && self.covers(&compare.key));
        by_value.map_or(Ok(()), |compare| {
            let key = String::from_utf8_lossy(&compare.key);
            Err(StoreError::Refused { cause: format!("{key} is sealed and cannot be compared by its value") })
        })
    }

    fn batch(&self, batch: WatchBatch) -> Result<WatchBatch, StoreError> {
        let prev = |prev: Option<KeyValue>| prev.map(|kv| self.open(kv)).transpose();
        let event = |event| {
            Ok(match event {
                Event::Put { kv, prev: before } => Event::Put { kv: self.open(kv)?, prev: prev(before)? },
                Event::Delete { key, revision, prev: before } => {
                    Event::Delete { key, revision, prev: prev(before)? }
                }
            })
        };
        let events = batch.events.into_iter().map(event).collect::<Result<_, _>>()?;
        Ok(WatchBatch { revision: batch.revision, events })
    }
}

fn unreadable(key: &[u8], error: &KeyRingError) -> StoreError {
    StoreError::Sealed { key: String::from_utf8_lossy(key).into_owned(), reason: error.to_string() }
}

/// A watch whose values are opened; the first that cannot be ends it.
struct Opened {
    stream: WatchStream,
    seals: Arc<Seals>,
    ended: bool,
}

impl Stream for Opened {
    type Item = Result<WatchBatch, StoreError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = ready!(self.stream.as_mut().poll_next(context));
        let next = next.map(|batch| batch.and_then(|batch| self.seals.batch(batch)));
        self.ended = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }
}

#[async_trait]
impl Store for SealedStore {
    async fn get(&self, key: Bytes) -> Result<Option<KeyValue>, StoreError> {
        self.inner.get(key).await?.map(|kv| self.seals.open(kv)).transpose()
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResult, StoreError> {
        self.seals.page(self.inner.range(request).await?)
    }

    /// The other store's pages, opened one by one.
    fn pages(self: Arc<Self>, prefix: Bytes) -> Pages {
        pages_ahead(async move |opened| {
            let mut sealed = Arc::clone(&self.inner).pages(prefix);
            while let Some(page) = sealed.recv().await {
                let page = page.and_then(|page| self.seals.page(page));
                let ended = page.is_err();
                if opened.send(page).await.is_err() || ended {
                    return;
                }
            }
        })
    }

    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        self.seals.comparable(&txn)?;
        let seal = |ops: Vec<Op>| ops.into_iter().map(|op| self.seals.seal(op)).collect::<Result<_, _>>();
        let txn = Txn { compares: txn.compares, success: seal(txn.success)?, failure: seal(txn.failure)? };
        let mut outcome = self.inner.txn(txn).await?;
        for result in &mut outcome.results {
            if let OpResult::Got(got) = result {
                // The transaction is done, whatever it gave.
                *got = got
                    .take()
                    .map(|kv| self.seals.open(kv))
                    .transpose()
                    .map_err(|error| StoreError::Unknown { cause: error.to_string() })?;
            }
        }
        Ok(outcome)
    }

    async fn watch(&self, prefix: Bytes, start_revision: u64) -> Result<WatchStream, StoreError> {
        let stream = self.inner.watch(prefix, start_revision).await?;
        let seals = Arc::clone(&self.seals);
        Ok(Box::pin(Opened { stream, seals, ended: false }))
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

    /// What is left for plain values.
    fn limits(&self) -> Limits {
        let mut limits = self.inner.limits();
        if self.seals.ring.newest().is_some() {
            limits.value_bytes = limits.value_bytes.saturating_sub(OVERHEAD);
            limits.txn_bytes = limits.txn_bytes.saturating_sub(OVERHEAD * limits.txn_ops);
        }
        limits
    }
}
