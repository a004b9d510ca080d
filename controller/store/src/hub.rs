//! The committed state shared by readers, and the watches on it. A watch is a position in the history, not a
//! buffer: a slow watcher costs no memory beyond the bounded history itself.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio_stream::Stream;

use crate::error::StoreError;
use crate::state::{Delta, LogEntry, State};
use crate::types::{Event, History, KeyValue, Limits, RangeRequest, RangeResult, StoreStatus, WatchBatch};

/// Revisions looked through in one poll, so that a far watcher does not hold the state for long.
const SCAN_PER_POLL: usize = 4096;

/// Locks of this crate guard plain data that is valid after every statement, so a poisoned one is still good.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State, watches, limits. Locks are taken in the order state, watches, slot.
#[derive(Debug)]
pub(crate) struct Hub {
    state: RwLock<State>,
    watches: Mutex<Watches>,
    /// How often the state was replaced by a snapshot; watches of before cannot go on.
    generation: AtomicU64,
    closed: AtomicBool,
    pub limits: Limits,
    pub history: History,
}

#[derive(Debug, Default)]
struct Watches {
    next_id: u64,
    open: BTreeMap<u64, (Bytes, Arc<Mutex<Slot>>)>,
}

/// Position of one watch.
#[derive(Debug)]
struct Slot {
    /// All matching events up to and including this revision were delivered.
    seen: u64,
    /// The newest revision when the watcher last read.
    head_at_poll: u64,
    waker: Option<Waker>,
}

impl Hub {
    pub fn new(state: State, limits: Limits, history: History) -> Arc<Self> {
        Arc::new(Self {
            state: RwLock::new(state),
            watches: Mutex::default(),
            generation: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            limits,
            history,
        })
    }

    pub fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Merges what is durable and wakes the watches that it concerns.
    pub fn publish(&self, delta: Delta) {
        let changed: Vec<Bytes> = delta.kv.keys().cloned().collect();
        let mut woken = Vec::new();
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let before = state.revision;
            state.apply(delta);
            let head = state.revision;
            for (prefix, slot) in lock(&self.watches).open.values() {
                let mut slot = lock(slot);
                if slot.seen >= head {
                    continue;
                }
                let first = changed.partition_point(|key| key < prefix);
                if changed.get(first).is_some_and(|key| key.starts_with(prefix)) {
                    woken.extend(slot.waker.take());
                } else if slot.seen >= before {
                    // Nothing for this watch: it moves along without being woken, and is never cut off by a
                    // compaction of history that did not concern it.
                    slot.seen = head;
                }
            }
        }
        woken.into_iter().for_each(Waker::wake);
    }

    /// Ends all watches and refuses new ones.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    fn wake_all(&self) {
        let open = |watches: &Watches| {
            watches.open.values().filter_map(|(_, slot)| lock(slot).waker.take()).collect()
        };
        let wakers: Vec<Waker> = open(&lock(&self.watches));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// For a test: another state, without an event to any watch.
    #[cfg(test)]
    pub fn swap(&self, state: State) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// A state from elsewhere takes the place of this one: what happened in between is not known, so every open watch
    /// ends with `Compacted`.
    pub fn replace(&self, state: State) {
        {
            let mut now = self.state.write().unwrap_or_else(PoisonError::into_inner);
            *now = state;
            self.generation.fetch_add(1, Ordering::SeqCst);
        }
        self.wake_all();
    }

    /// Takes keys that were listed at a revision of before, as far as they have not changed since. False: what has changed
    /// since is not known any more.
    pub fn underlay(&self, mut listed: State) -> bool {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.compact_revision > listed.revision {
            return false;
        }
        for event in state.log.range(listed.revision + 1..).flat_map(|(_, entry)| entry.events.iter()) {
            let now = match event {
                Event::Put { kv, .. } => state.kv.get(&kv.key).cloned(),
                Event::Delete { .. } => None,
            };
            listed.set(event.key().clone(), now);
        }
        (state.kv, state.bytes) = (listed.kv, listed.bytes);
        true
    }

    /// Adds history from before the state was read: everything after `floor` and up to the state's revision.
    pub fn remember(&self, floor: u64, log: Vec<(u64, LogEntry)>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.compact_revision = floor.min(state.compact_revision);
        for (revision, entry) in log {
            state.log_bytes += entry.bytes;
            state.log.insert(revision, entry);
        }
        let floor = state.history_floor(&[], &self.history);
        state.forget_history(floor);
    }

    pub fn get(&self, key: &Bytes) -> Option<KeyValue> {
        self.state().kv.get(key).cloned()
    }

    /// Reads a page of the committed state.
    ///
    /// # Errors
    /// As [`State::range`].
    pub fn range(&self, request: &RangeRequest) -> Result<RangeResult, StoreError> {
        self.state().range(request, &self.limits)
    }

    /// Opens a watch of the keys under `prefix` from `start_revision` on (0: from the next commit on).
    ///
    /// # Errors
    /// [`StoreError::Compacted`] if the history from `start_revision` on is no longer kept.
    pub fn watch(self: &Arc<Self>, prefix: Bytes, start_revision: u64) -> Result<Watch, StoreError> {
        let state = self.state();
        let seen = if start_revision == 0 { state.revision } else { start_revision - 1 };
        if seen < state.compact_revision {
            return Err(StoreError::Compacted { compact_revision: state.compact_revision });
        }
        let slot = Arc::new(Mutex::new(Slot { seen, head_at_poll: state.revision, waker: None }));
        let mut watches = lock(&self.watches);
        let id = watches.next_id;
        watches.next_id += 1;
        watches.open.insert(id, (prefix.clone(), slot.clone()));
        let generation = self.generation.load(Ordering::SeqCst);
        Ok(Watch { hub: self.clone(), id, prefix, slot, generation, ended: false })
    }

    /// What the state itself knows about its size.
    pub fn status(&self) -> StoreStatus {
        let state = self.state();
        StoreStatus {
            revision: state.revision,
            compact_revision: state.compact_revision,
            keys: state.kv.len() as u64,
            bytes: state.bytes,
            history_revisions: state.log.len() as u64,
            history_bytes: state.log_bytes,
            leases: state.leases.len() as u64,
            watchers: lock(&self.watches).open.len() as u64,
            ..StoreStatus::default()
        }
    }
}

/// The stream of one watch.
pub(crate) struct Watch {
    hub: Arc<Hub>,
    id: u64,
    prefix: Bytes,
    slot: Arc<Mutex<Slot>>,
    generation: u64,
    ended: bool,
}

impl Watch {
    fn step(&self, cx: &Context<'_>) -> Poll<Result<WatchBatch, StoreError>> {
        let state = self.hub.state();
        let mut slot = lock(&self.slot);
        let replaced = self.generation != self.hub.generation.load(Ordering::SeqCst);
        if replaced || slot.seen < state.compact_revision {
            return Poll::Ready(Err(StoreError::Compacted { compact_revision: state.compact_revision }));
        }
        let behind = state.revision.saturating_sub(slot.seen.max(slot.head_at_poll));
        if behind > self.hub.history.watch_lag {
            return Poll::Ready(Err(StoreError::Lagged { resume_revision: slot.seen + 1 }));
        }
        slot.head_at_poll = state.revision;
        let mut scanned = 0;
        for (revision, entry) in state.log.range(slot.seen + 1..).take(SCAN_PER_POLL) {
            slot.seen = *revision;
            scanned += 1;
            let ours = |event: &&Event| event.key().starts_with(&self.prefix);
            let events: Vec<Event> = entry.events.iter().filter(ours).cloned().collect();
            if !events.is_empty() {
                return Poll::Ready(Ok(WatchBatch { revision: *revision, events }));
            }
        }
        if scanned == SCAN_PER_POLL {
            // The scan stopped half way: let others run, then go on.
            cx.waker().wake_by_ref();
        } else {
            // Not every revision is in the log: etcd counts changes of keys that are nobody's here too.
            slot.seen = slot.seen.max(state.revision);
            slot.waker = Some(cx.waker().clone());
        }
        // Looked at with the slot held: either `close` finds the waker, or it was here first and this sees it.
        if self.hub.closed.load(Ordering::SeqCst) {
            Poll::Ready(Err(StoreError::Closed))
        } else {
            Poll::Pending
        }
    }
}

impl Stream for Watch {
    type Item = Result<WatchBatch, StoreError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match self.step(cx) {
            Poll::Ready(item) => {
                self.ended = item.is_err();
                Poll::Ready(Some(item))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&self.hub.watches).open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::state::Overlay;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_watch_that_has_seen_all_rests_though_newer_revisions_are_not_in_the_log() {
        let state = State { revision: 10, compact_revision: 5, ..State::default() };
        let hub = Hub::new(state, Limits::default(), History::default());
        let mut watch = hub.watch(Bytes::new(), 8).unwrap();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        for _ in 0..3 {
            assert!(Pin::new(&mut watch).poll_next(&mut context).is_pending());
        }
        assert_eq!(woken.0.load(Ordering::SeqCst), 0, "it asks to be looked at again and again");
        let entry = LogEntry::new([Event::Delete { key: "k".into(), revision: 11, prev: None }].into());
        let kv = Overlay::from([(Bytes::from("k"), None)]);
        let log = vec![(11, entry)];
        hub.publish(Delta {
            kv,
            log,
            leases: BTreeMap::new(),
            revision: 11,
            compact_revision: 5,
            next_lease: 0,
        });
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        let Poll::Ready(Some(Ok(batch))) = Pin::new(&mut watch).poll_next(&mut context) else {
            panic!("nothing")
        };
        assert_eq!(batch.revision, 11);
    }
}
