//! What pages follow: one place that takes in the store's changes, for however many streams; each stream is a position in it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use controller_leader::keys;
use controller_store::{Event, Store, StoreError, WatchBatch, WatchStream};
use proto_rpc::RpcError;
use tokio::{
    sync::{OnceCell, watch},
    time::timeout,
};
use tokio_stream::StreamExt;

use super::{
    kind::concern,
    metrics::FeedMetrics,
    pace::{due, gap, lateness},
    ring::{Arrived, Position, Ring},
    row::Row,
};
use crate::{context::Context, fault};

/// Revisions of before its begin that are taken in, so that who comes back after another controller has taken the lead goes on.
const BEFORE: u64 = 2048;
/// Encodings are given up when they are so old; by then all who keep up have sent them.
const KEPT: Duration = Duration::from_secs(2);
/// How long it waits where the store cannot be read, before it tries again.
const AGAIN: Duration = Duration::from_secs(1);

/// The place; clones share it. It begins with its first stream.
#[derive(Clone)]
pub(crate) struct Feed {
    /// The loop and its store.
    pub context: Context,
    /// What is counted.
    pub metrics: FeedMetrics,
    shared: Arc<OnceCell<Arc<Shared>>>,
}

/// What all streams read.
pub(crate) struct Shared {
    ring: Mutex<Ring<Row>>,
    /// Up to where changes are in the ring.
    pub head: watch::Sender<Position>,
    /// The number of the next stream.
    next: AtomicU32,
    /// Held by the one stream that asks the loop of servers: all others wait for what it makes.
    pub asking: tokio::sync::Mutex<()>,
    /// How many streams there are.
    open: AtomicU32,
    /// How late their timers ring, in microseconds.
    late: AtomicU32,
    metrics: FeedMetrics,
}

/// A stream's place among all of them; given back when dropped.
pub(crate) struct Member {
    /// What it reads.
    pub shared: Arc<Shared>,
    number: u32,
}

impl Feed {
    /// Over one life of the loop.
    pub(crate) fn new(context: Context, metrics: FeedMetrics) -> Self {
        Self { context, metrics, shared: Arc::default() }
    }

    /// One stream more.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn join(&self) -> Result<Member, RpcError> {
        let shared = self.shared.get_or_try_init(|| self.begin()).await?;
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        shared.count(shared.open.fetch_add(1, Ordering::Relaxed).saturating_add(1));
        Ok(Member { shared: Arc::clone(shared), number })
    }

    async fn begin(&self) -> Result<Arc<Shared>, RpcError> {
        let store = Arc::clone(self.context.handle.store());
        let (ring, batches) = open(store.as_ref()).await.map_err(|error| fault::store(&error))?;
        let shared = Arc::new(Shared {
            head: watch::Sender::new(ring.head()),
            ring: Mutex::new(ring),
            next: AtomicU32::new(0),
            asking: tokio::sync::Mutex::default(),
            open: AtomicU32::new(0),
            late: AtomicU32::new(0),
            metrics: self.metrics.clone(),
        });
        let (taking, ending) = (Arc::clone(&shared), self.context.ending.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = ending.cancelled() => {}
                () = taking.take_in(store.as_ref(), batches) => {}
            }
        });
        Ok(shared)
    }
}

impl Shared {
    /// The latest changes; held for moments only.
    pub(crate) fn ring(&self) -> MutexGuard<'_, Ring<Row>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, open: u32) {
        self.metrics.streams.set([], open.into());
    }

    /// Takes in changes for ever; where some are lost, it begins anew, and streams that were not so far are reset.
    async fn take_in(&self, store: &dyn Store, mut batches: WatchStream) {
        loop {
            let error = self.follow(&mut batches).await;
            tracing::info!(cause = %error, "changes for pages begin anew");
            batches = loop {
                match open(store).await {
                    Ok((ring, batches)) => {
                        let head = ring.head();
                        *self.ring() = ring;
                        self.head.send_replace(head);
                        break batches;
                    }
                    Err(error) => {
                        tracing::debug!(%error, "changes for pages cannot be read");
                        tokio::time::sleep(AGAIN).await;
                    }
                }
            };
        }
    }

    /// Takes in changes until no more come.
    async fn follow(&self, batches: &mut WatchStream) -> StoreError {
        let (mut cleared, mut old, mut lately) = (Instant::now(), Position::default(), Position::default());
        loop {
            // Encodings are given up too where nothing comes any more.
            let batch = match timeout(KEPT, batches.next()).await {
                Ok(Some(Ok(batch))) => Some(batch),
                Ok(Some(Err(error))) => return error,
                Ok(None) => return StoreError::Closed,
                Err(_) => None,
            };
            let mut ring = self.ring();
            let concerned = batch.is_some_and(|batch| push(&mut ring, batch));
            if cleared.elapsed() >= KEPT {
                for row in ring.after(old).take_while(|row| row.at <= lately) {
                    row.forget();
                }
                (old, lately, cleared) = (lately, ring.head(), Instant::now());
            }
            let head = ring.head();
            drop(ring);
            if concerned {
                self.head.send_replace(head);
            }
        }
    }
}

impl Member {
    /// Waits until it is its turn to send; `last` is when it has sent.
    pub(crate) async fn turn(&self, last: Option<Instant>) {
        let shared = &self.shared;
        let late = Duration::from_micros(shared.late.load(Ordering::Relaxed).into());
        let open = shared.open.load(Ordering::Relaxed);
        let due = due(Instant::now(), last, self.number, open, gap(open, late));
        tokio::time::sleep_until(due.into()).await;
        let late = lateness(late, due.elapsed());
        shared.late.store(u32::try_from(late.as_micros()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.shared.count(self.shared.open.fetch_sub(1, Ordering::Relaxed).saturating_sub(1));
    }
}

fn push(ring: &mut Ring<Row>, batch: WatchBatch) -> bool {
    let arrived = batch.events.into_iter().map(|event| {
        let (key, value) = match event {
            Event::Put { kv, .. } => (kv.key.clone(), Some(kv)),
            Event::Delete { key, .. } => (key, None),
        };
        let weight = key.len() + value.as_ref().map_or(0, |kv| kv.value.len());
        let (concern, of) = (concern(&key), key.clone());
        let row = move |at, kind, tenant| Row::new((at, kind, tenant), of, value);
        Arrived { key, weight, concern, row: Box::new(row) }
    });
    ring.push(batch.revision, arrived)
}

/// The latest changes that the store still knows, and those to come.
async fn open(store: &dyn Store) -> Result<(Ring<Row>, WatchStream), StoreError> {
    let status = store.status().await?;
    let first = status.revision.saturating_sub(BEFORE).max(status.compact_revision) + 1;
    let mut batches = store.watch(keys::ROOT.into(), first).await?;
    let mut ring = Ring::new(first);
    // What is there already is ready at once.
    loop {
        let ready = std::future::poll_fn(|waker| Poll::Ready(batches.as_mut().poll_next(waker))).await;
        match ready {
            Poll::Ready(Some(batch)) => _ = push(&mut ring, batch?),
            Poll::Ready(None) => return Err(StoreError::Closed),
            Poll::Pending => break,
        }
    }
    ring.advance(status.revision);
    Ok((ring, batches))
}
