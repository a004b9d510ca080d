//! The etcd store: several controllers, one truth.
//!
//! - `link` calls whichever member answers, with a deadline on every call; `calls` are these calls, by etcd-client, and `ask` is
//!   what they ask; `failure` says what etcd's refusals mean.
//! - `space` keeps everything under one prefix; `format` says what is there.
//! - `plan` makes one etcd transaction of each of ours; `slots` finds out what became of one whose answer did not come.
//! - `walk` reads all keys in questions that are cheap to answer.
//! - `mirror` follows all keys with one watch and serves all watchers; a listing from time to time corrects what the watch
//!   may have missed.
//! - `keeper` compacts, frees space, reads certificates again.

pub(crate) mod ask;
mod calls;
pub(crate) mod failure;
pub(crate) mod format;
mod inner;
mod keeper;
mod leases;
pub(crate) mod link;
mod mirror;
pub(crate) mod options;
pub(crate) mod plan;
mod rebuild;
pub(crate) mod slots;
pub(crate) mod space;
mod walk;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{GetResponse, ResponseHeader};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::{
    failure::{Failure, Kind},
    format::Format,
    link::{Link, Trying},
    options::EtcdOptions,
    slots::{Pending, Settled, Slots},
    space::{Space, after},
    walk::{Answer, Reading},
};
use crate::{
    error::StoreError,
    etcd::inner::{Inner, Mirror, PAGE},
    source::random_id,
    staged::{check_key, check_txn},
    store::{Pages, Store, WatchStream, pages_ahead},
    types::{KeyValue, LeaseGrant, LeaseId, Limits, RangeRequest, RangeResult, StoreStatus, Txn, TxnOutcome},
};

/// Room in a request for what is not the value.
const BESIDE_VALUE: usize = 16 * 1024;

/// A store in an etcd cluster, under one prefix.
#[derive(Debug)]
pub struct EtcdStore {
    inner: Arc<Inner>,
    _stop: DropGuard,
}

/// Limits of an etcd that takes requests of so many bytes. One transaction may delete any number of keys there.
fn limits(max_request_bytes: usize) -> Limits {
    Limits {
        value_bytes: max_request_bytes.saturating_sub(BESIDE_VALUE),
        txn_bytes: max_request_bytes.saturating_sub(BESIDE_VALUE / 2),
        txn_ops: plan::MOST_OPS,
        deletes: usize::MAX,
        page: PAGE,
        total_bytes: u64::MAX,
        ..Limits::default()
    }
}

impl EtcdStore {
    /// Opens the store, or makes an empty prefix one.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when no member answers in time, [`StoreError::Denied`] for certificates, users and
    /// rights, [`StoreError::Foreign`], [`StoreError::NewerFormat`], [`StoreError::Corrupt`]. Nothing is overwritten.
    pub async fn open(options: EtcdOptions) -> Result<Self, StoreError> {
        let opened = Opened::new(&options).await?;
        let format = match opened.format {
            Some(format) => format,
            None if options.create => {
                let format = Format { base: 0, filling: false };
                format::create(&opened.link, &opened.space, format).await?;
                // Another process may have been faster.
                format::read(&opened.link, &opened.space).await?.unwrap_or(format)
            }
            None => return Err(StoreError::Missing { place: format::place(&opened.link, &opened.space) }),
        };
        if format.filling {
            return Err(StoreError::HalfFilled { place: format::place(&opened.link, &opened.space) });
        }
        let store = Self::start(opened, format, options)?;
        if !store.inner.options.create {
            return Ok(store);
        }
        // The first slot; the first transaction would have to make it.
        match store.inner.slots.make(&store.inner.link, &store.inner.space).await {
            Ok(slot) => store.inner.slots.put_back(slot),
            // A full etcd can be read.
            Err(failure) => drop(store.inner.noticed(failure)),
        }
        Ok(store)
    }

    /// Opens an empty prefix, or with `force` one that is emptied, for [`Filling`](crate::Filling): revisions begin above
    /// `revision`, and no other process opens it before [`EtcdStore::filled`].
    pub(crate) async fn open_to_fill(
        options: EtcdOptions,
        revision: u64,
        force: bool,
    ) -> Result<Self, StoreError> {
        let opened = Opened::new(&options).await?;
        if opened.format.is_some() && !force {
            return Err(StoreError::Exists { place: format::place(&opened.link, &opened.space) });
        }
        // Also above what this prefix has counted before.
        let base = revision.max(opened.format.map_or(0, |format| format.base));
        let format = Format { base, filling: true };
        format::clear(&opened.link, &opened.space, format).await?;
        Self::start(opened, format, options)
    }

    /// Now it is a store.
    pub(crate) async fn filled(&self) -> Result<(), StoreError> {
        let format = Format { base: self.inner.space.base, filling: false };
        format::replace(&self.inner.link, &self.inner.space, format).await
    }

    /// For a test: as if etcd's watch had never reported a key. False: that cannot be missed yet.
    #[cfg(test)]
    pub(crate) fn lose_sight_of(&self, key: &Bytes) -> bool {
        self.inner.mirror.lose_sight_of(key)
    }

    /// Runs the store whatever its state.
    fn start(opened: Opened, format: Format, options: EtcdOptions) -> Result<Self, StoreError> {
        let stop = CancellationToken::new();
        let limits = limits(options.max_request_bytes);
        let writer = random_id(options.source.as_ref()).ok_or_else(no_random)?;
        let inner = Arc::new(Inner {
            link: opened.link,
            space: Space { base: format.base, ..opened.space },
            slots: Slots::new(writer.simple().to_string(), Arc::clone(&options.source)),
            mirror: Mirror::default(),
            limits,
            full: AtomicBool::new(false),
            full_cause: std::sync::Mutex::default(),
            commits: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            options,
            stop: stop.clone(),
        });
        tokio::spawn(keeper::run(Arc::clone(&inner)));
        Ok(Self { inner, _stop: stop.drop_guard() })
    }
}

/// etcd's revision of an answer.
fn revision_of(answer: &GetResponse) -> i64 {
    answer.header().map_or(0, ResponseHeader::revision)
}

pub(crate) fn no_random() -> StoreError {
    StoreError::Unavailable { cause: "the system gave no random bytes".to_owned() }
}

/// A prefix that was looked at.
struct Opened {
    link: Link,
    space: Space,
    format: Option<Format>,
}

impl Opened {
    async fn new(options: &EtcdOptions) -> Result<Self, StoreError> {
        let space = Space::new(&options.prefix, 0).map_err(|cause| StoreError::Denied { cause })?;
        let link = Link::new(options).await?;
        let format = format::read(&link, &space).await?;
        Ok(Self { link, space, format })
    }
}

impl Inner {
    /// A read, after whatever is not settled.
    async fn read<T, F, Fut>(&self, call: F) -> Result<T, Failure>
    where
        F: Fn(calls::Session) -> Fut,
        Fut: Future<Output = Result<T, tonic::Status>>,
    {
        self.slots.settle_all(&self.link).await?;
        self.link.call(call).await
    }

    /// Reads a range of etcd's keys, after earlier transactions are settled.
    ///
    /// # Errors
    /// etcd refused it, or no member answered within the patience.
    pub async fn range_of(&self, ask: ask::Range) -> Result<GetResponse, Failure> {
        let ask = &ask;
        self.read(|session| async move { session.range(ask).await }).await
    }

    /// The newest revision of etcd, as etcd counts.
    ///
    /// # Errors
    /// etcd refused to read, or no member answered within the patience.
    pub async fn newest(&self) -> Result<i64, Failure> {
        let ask = ask::Range { key: self.space.format_key(), count_only: true, ..ask::Range::default() };
        Ok(revision_of(&self.range_of(ask).await?))
    }

    async fn range(&self, request: &RangeRequest) -> Result<RangeResult, StoreError> {
        let (begin, range_end) = plan::prefix_range(&self.space, &request.prefix);
        let key = match &request.after {
            Some(last) if last.as_ref() >= request.prefix.as_ref() => after(&self.space.inside(last)),
            _ => begin,
        };
        let asked = if request.limit == 0 { PAGE } else { request.limit.min(PAGE) };
        if let Some(revision) = request.revision.filter(|revision| *revision < self.space.base) {
            tracing::debug!(revision, "a revision from before this store was filled");
            return Err(StoreError::Compacted { compact_revision: self.space.base });
        }
        let revision = request.revision.map_or(0, |revision| self.space.etcd_revision(revision));
        let mut limit = asked;
        loop {
            let count = i64::try_from(limit).unwrap_or(i64::MAX);
            let ask = ask::Range {
                key: key.clone(),
                range_end: range_end.clone(),
                limit: count,
                revision,
                ..ask::Range::default()
            };
            match self.range_of(ask).await {
                Ok(mut answer) => {
                    let newest = revision_of(&answer);
                    let revision = request.revision.unwrap_or_else(|| self.space.revision(newest));
                    let items = answer.take_kvs().into_iter().map(|kv| self.space.key_value(kv)).collect();
                    return Ok(RangeResult { revision, items, more: answer.more() });
                }
                // A page of very large values: a smaller one.
                Err(failure) if failure.kind == Kind::Oversize && limit > 1 => limit /= 4,
                Err(failure) => return Err(self.range_error(failure, request.revision).await),
            }
            limit = limit.max(1);
        }
    }

    /// The next page of a reading of etcd's keys, at the reading's revision; `None` behind the last one.
    ///
    /// # Errors
    /// etcd refused to read, as it does when the reading's revision is compacted, or no member answered
    /// within the patience.
    pub async fn page(&self, reading: &mut Reading) -> Result<Option<Vec<etcd_client::KeyValue>>, Failure> {
        while let Some((key, range_end)) = reading.walk.next() {
            let ask = ask::Range {
                key,
                range_end,
                limit: i64::try_from(reading.limit).unwrap_or(i64::MAX),
                revision: reading.revision,
                keys_only: reading.keys_only,
                ..ask::Range::default()
            };
            let mut answer = match self.range_of(ask).await {
                // A page of very large values: a smaller one.
                Err(failure) if failure.kind == Kind::Oversize && reading.limit > 1 => {
                    reading.limit = (reading.limit / 4).max(1);
                    continue;
                }
                answer => answer?,
            };
            if reading.revision == 0 {
                reading.revision = revision_of(&answer);
            }
            let kvs = answer.take_kvs();
            let keys = kvs.first().zip(kvs.last()).map(|(first, last)| (first.key(), last.key()));
            let count = usize::try_from(answer.count()).unwrap_or(0);
            reading.walk.answered(&Answer { keys, more: answer.more(), count, limit: reading.limit });
            if !kvs.is_empty() {
                return Ok(Some(kvs));
            }
        }
        Ok(None)
    }

    /// All keys of ours under `prefix`, for whoever takes pages.
    async fn send_pages(&self, prefix: &[u8], pages: &mpsc::Sender<Result<RangeResult, StoreError>>) {
        let mut reading = Reading::new(self.space.inside(prefix), 0, false);
        loop {
            let page = match self.page(&mut reading).await {
                Ok(kvs) => {
                    let (more, revision) = (kvs.is_some(), self.space.revision(reading.revision));
                    let items = kvs.into_iter().flatten().map(|kv| self.space.key_value(kv)).collect();
                    Ok(RangeResult { revision, items, more })
                }
                Err(failure) => Err(self.range_error(failure, None).await),
            };
            let more = page.as_ref().is_ok_and(|page| page.more);
            if pages.send(page).await.is_err() || !more {
                return;
            }
        }
    }

    async fn range_error(&self, failure: Failure, requested: Option<u64>) -> StoreError {
        match (failure.kind, requested) {
            (Kind::Future, Some(requested)) => match self.newest().await {
                Ok(newest) => StoreError::FutureRevision { requested, current: self.space.revision(newest) },
                Err(failure) => failure.into_error(),
            },
            (Kind::Compacted, _) => match self.compacted().await {
                Ok(revision) => StoreError::Compacted { compact_revision: revision },
                Err(error) => error,
            },
            _ => failure.into_error(),
        }
    }

    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, StoreError> {
        check_txn(txn, &self.limits)?;
        self.slots.settle_all(&self.link).await.map_err(Failure::into_error)?;
        self.transactions.fetch_add(1, Ordering::Relaxed);
        if !plan::writes(&txn.success) && !plan::writes(&txn.failure) {
            return self.check(txn).await;
        }
        let mut trying = Trying::new(&self.link);
        loop {
            let failure = match self.attempt(txn).await? {
                Ok(outcome) => return Ok(outcome),
                Err(failure) => failure,
            };
            if let Err(failure) = trying.again(&self.link, failure).await {
                return Err(self.refused(failure, txn).await);
            }
        }
    }

    /// A transaction that only reads.
    async fn check(&self, txn: &Txn) -> Result<TxnOutcome, StoreError> {
        let request = plan::request(&self.space, txn, None, self.options.max_request_bytes)?;
        let request = &request;
        let answer = self.link.call(|session| async move { session.txn(request).await });
        let answer = answer.await.map_err(Failure::into_error)?;
        let answer = plan::answer(&self.space, txn, false, &answer).ok_or(StoreError::Closed)?;
        Ok(self.outcome(answer.revision, answer.succeeded, answer.results))
    }

    fn outcome(&self, revision: i64, succeeded: bool, results: Vec<crate::types::OpResult>) -> TxnOutcome {
        TxnOutcome { revision: self.space.revision(revision), succeeded, results }
    }

    /// One attempt. The inner error says that nothing was stored, so that another may follow.
    async fn attempt(&self, txn: &Txn) -> Result<Result<TxnOutcome, Failure>, StoreError> {
        let mut slot = match self.slots.take(&self.link, &self.space).await {
            Ok(slot) => slot,
            Err(failure) => return Ok(Err(self.noticed(failure))),
        };
        let guard = slot.guard(self.slots.now());
        let request = match plan::request(&self.space, txn, Some(&guard), self.options.max_request_bytes) {
            Ok(request) => request,
            Err(error) => {
                self.slots.put_back(slot);
                return Err(error);
            }
        };
        let request = &request;
        let answer = self.link.once(|session| async move { session.txn(request).await });
        match answer.await {
            Ok(answer) => match plan::answer(&self.space, txn, true, &answer) {
                Some(answer) => {
                    if answer.marked {
                        slot.marked(answer.revision);
                        self.commits.fetch_add(1, Ordering::Relaxed);
                    }
                    self.slots.put_back(slot);
                    self.full.store(false, Ordering::Relaxed);
                    Ok(Ok(self.outcome(answer.revision, answer.succeeded, answer.results)))
                }
                // Somebody swept the slot away; nothing ran.
                None => Ok(Err(Failure { doubt: false, ..Failure::unreachable("the slot was gone") })),
            },
            Err(failure) if failure.doubt => self.doubt(txn, slot, failure).await,
            Err(failure) => {
                self.slots.put_back(slot);
                Ok(Err(failure))
            }
        }
    }

    /// The answer did not come, or did not say enough.
    async fn doubt(
        &self,
        txn: &Txn,
        slot: slots::Slot,
        failure: Failure,
    ) -> Result<Result<TxnOutcome, Failure>, StoreError> {
        let failure = self.noticed(failure);
        let unknown = |cause: String| StoreError::Unknown { cause };
        let mut pending = Pending::new(slot);
        match self.slots.settle(&self.link, &mut pending).await {
            Ok(Settled::Not) => Ok(Err(Failure { doubt: false, ..failure })),
            Ok(Settled::Ran { slot, revision, succeeded }) => {
                self.slots.put_back(slot);
                self.commits.fetch_add(1, Ordering::Relaxed);
                let ops = if succeeded { &txn.success } else { &txn.failure };
                match rebuild::results(self, ops, revision).await {
                    Some(results) => Ok(Ok(self.outcome(revision, succeeded, results))),
                    None => {
                        Err(unknown(format!("{}; it was stored, but what it read is gone", failure.text)))
                    }
                }
            }
            Ok(Settled::Lost) => {
                Err(unknown(format!("{}; and the record of this writer is gone from etcd", failure.text)))
            }
            Err(later) => {
                self.slots.keep(pending);
                Err(unknown(later.text))
            }
        }
    }

    /// Remembers that etcd is full, for the keeper.
    fn noticed(&self, failure: Failure) -> Failure {
        if failure.kind == Kind::NoSpace {
            *crate::hub::lock(&self.full_cause) = Some(failure.text.clone());
            self.full.store(true, Ordering::Relaxed);
        }
        failure
    }

    /// The words for a transaction of which nothing was stored.
    async fn refused(&self, failure: Failure, txn: &Txn) -> StoreError {
        let limit = self.options.max_request_bytes;
        match failure.kind {
            Kind::NoLease => match self.missing_lease(txn).await {
                Ok(lease) => StoreError::LeaseNotFound { lease },
                Err(failure) => failure.into_error(),
            },
            Kind::TooLarge => StoreError::TxnTooLarge { len: txn.bytes(), limit },
            Kind::TooManyOps => {
                let (what, count) = ("success operations", txn.success.len());
                StoreError::TooManyOps { what, count, limit: self.limits.txn_ops }
            }
            _ => failure.into_error(),
        }
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn get(&self, key: Bytes) -> Result<Option<KeyValue>, StoreError> {
        check_key(&key, &self.inner.limits)?;
        let ask = ask::Range { key: self.inner.space.inside(&key), ..ask::Range::default() };
        let mut found = self.inner.range_of(ask).await.map_err(Failure::into_error)?;
        Ok(found.take_kvs().into_iter().next().map(|kv| self.inner.space.key_value(kv)))
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResult, StoreError> {
        self.inner.range(&request).await
    }

    fn pages(self: Arc<Self>, prefix: Bytes) -> Pages {
        let inner = Arc::clone(&self.inner);
        pages_ahead(async move |pages| inner.send_pages(&prefix, &pages).await)
    }

    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        // In a task of its own: a caller that goes away must not leave a transaction unsettled.
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move { inner.txn(&txn).await }).await.map_err(|_| StoreError::Closed)?
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
        self.inner.limits
    }
}
