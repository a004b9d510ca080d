//! The trait that every store implements: the embedded one, the memory one, and later etcd.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::Stream;

use crate::error::StoreError;
use crate::types::{
    KeyValue, LeaseGrant, LeaseId, Limits, Op, RangeRequest, RangeResult, StoreStatus, Txn, TxnOutcome,
    WatchBatch,
};

/// Batches of events in revision order, each exactly once. The first error ends the stream.
pub type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchBatch, StoreError>> + Send>>;

/// Pages of one revision in the order of their keys. The first error ends them; whoever gets no last page does not have everything.
pub type Pages = mpsc::Receiver<Result<RangeResult, StoreError>>;

/// Pages that are fetched before somebody asks for them.
const AHEAD: usize = 2;

/// Runs `fetch` beside whoever takes the pages that it brings.
pub(crate) fn pages_ahead<F, Fut>(fetch: F) -> Pages
where
    F: FnOnce(mpsc::Sender<Result<RangeResult, StoreError>>) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (put, pages) = mpsc::channel(AHEAD);
    tokio::spawn(fetch(put));
    pages
}

/// A strictly serializable key-value store with one global revision.
///
/// A call that was answered with success is durable. A call that was answered with [`StoreError::Unknown`], or not
/// at all, may or may not have happened. Reads see every write that was acknowledged before they began.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The newest value of a key.
    ///
    /// # Errors
    /// The store cannot be read, or is closed.
    async fn get(&self, key: Bytes) -> Result<Option<KeyValue>, StoreError>;

    /// Keys under a prefix, and the revision at which they are valid.
    ///
    /// # Errors
    /// [`StoreError::FutureRevision`] or [`StoreError::Compacted`] for a revision that is not there yet or no
    /// longer; or the store cannot be read.
    async fn range(&self, request: RangeRequest) -> Result<RangeResult, StoreError>;

    /// Runs a transaction; the answer comes when it is durable.
    ///
    /// # Errors
    /// It breaks a limit, names a lease that does not exist, or writes a key twice; or the store is full or
    /// fails. After [`StoreError::Unknown`] it may have run; after any other error it has not. A failed
    /// compare is no error.
    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError>;

    /// Events under `prefix` from `start_revision` on (0: from the next commit on). A start in the future waits.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] if the history from `start_revision` on is no longer kept; or the store is
    /// closed or does not answer.
    async fn watch(&self, prefix: Bytes, start_revision: u64) -> Result<WatchStream, StoreError>;

    /// Forgets the history up to and including `revision`. Live keys stay. Already compacted is no error.
    ///
    /// # Errors
    /// [`StoreError::FutureRevision`] if there is no such revision yet; or the store fails.
    async fn compact(&self, revision: u64) -> Result<(), StoreError>;

    /// Grants a lease. After a restart of the store every lease starts anew with its full time to live.
    ///
    /// # Errors
    /// The time to live is 0 or longer than the limit; or the store is full or fails.
    async fn lease_grant(&self, ttl: Duration) -> Result<LeaseGrant, StoreError>;

    /// Starts the lease's time to live anew.
    ///
    /// # Errors
    /// [`StoreError::LeaseNotFound`] if it does not exist or has expired; or the store fails.
    async fn lease_keep_alive(&self, lease: LeaseId) -> Result<LeaseGrant, StoreError>;

    /// Ends a lease and deletes its keys in one revision.
    ///
    /// # Errors
    /// [`StoreError::LeaseNotFound`] if it does not exist or has expired; or the store fails.
    async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError>;

    /// The store's size and health at the moment.
    ///
    /// # Errors
    /// The store does not answer.
    async fn status(&self) -> Result<StoreStatus, StoreError>;

    /// The limits that this store enforces.
    fn limits(&self) -> Limits;

    /// Writes one key unconditionally; answers the revision.
    ///
    /// # Errors
    /// As [`Store::txn`].
    async fn put(&self, key: Bytes, value: Bytes) -> Result<u64, StoreError> {
        Ok(self.txn(Txn::new().then(Op::put(key, value))).await?.revision)
    }

    /// Deletes one key unconditionally; answers the newest revision.
    ///
    /// # Errors
    /// As [`Store::txn`].
    async fn delete(&self, key: Bytes) -> Result<u64, StoreError> {
        Ok(self.txn(Txn::new().then(Op::delete(key))).await?.revision)
    }

    /// All keys under a prefix as of one revision; further pages are fetched while one is looked at.
    fn pages(self: Arc<Self>, prefix: Bytes) -> Pages {
        pages_ahead(async move |pages| {
            let mut request = RangeRequest::prefix(prefix);
            loop {
                let page = self.range(request.clone()).await;
                let next = page.as_ref().ok().filter(|page| page.more).and_then(|page| {
                    let after = page.items.last().map(|kv| kv.key.clone())?;
                    Some(RangeRequest {
                        revision: Some(page.revision),
                        after: Some(after),
                        ..request.clone()
                    })
                });
                if pages.send(page).await.is_err() {
                    return;
                }
                match next {
                    Some(next) => request = next,
                    None => return,
                }
            }
        })
    }

    /// All keys under a prefix as of one revision, page by page. The caller answers for the memory.
    ///
    /// # Errors
    /// As [`Store::range`]; also if the history is compacted between two pages.
    async fn range_all(&self, prefix: Bytes) -> Result<RangeResult, StoreError> {
        let mut request = RangeRequest::prefix(prefix);
        let mut all = self.range(request.clone()).await?;
        while all.more {
            request.revision = Some(all.revision);
            request.after = all.items.last().map(|kv| kv.key.clone());
            let page = self.range(request.clone()).await?;
            all.more = page.more;
            all.items.extend(page.items);
        }
        Ok(all)
    }
}
