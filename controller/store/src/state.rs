//! The committed state of a store in memory: live keys, history, leases; and the one way to change it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::StoreError;
use crate::types::{Event, History, KeyValue, LeaseId, Limits, RangeRequest, RangeResult};

/// As in etcd: an empty store stands at revision 1, so 0 can mean "absent" and "from now on".
pub(crate) const FIRST_REVISION: u64 = 1;

/// Keys with their state; `None` says that the key does not exist.
pub(crate) type Overlay = BTreeMap<Bytes, Option<KeyValue>>;

/// All events of one revision.
#[derive(Debug, Clone)]
pub(crate) struct LogEntry {
    pub events: Arc<[Event]>,
    pub bytes: u64,
}

impl LogEntry {
    pub fn new(events: Arc<[Event]>) -> Self {
        let kv = |kv: Option<&KeyValue>| kv.map_or(0, |kv| kv.key.len() + kv.value.len());
        let bytes = events
            .iter()
            .map(|event| {
                let now = if let Event::Put { kv: now, .. } = event { kv(Some(now)) } else { 0 };
                (event.key().len() + now + kv(event.prev()) + 64) as u64
            })
            .sum();
        Self { events, bytes }
    }
}

/// A live lease and the keys that die with it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseState {
    pub ttl_ms: u64,
    pub keys: BTreeSet<Bytes>,
}

/// What a group of transactions changes, ready to be made durable and then merged.
#[derive(Debug, Clone)]
pub(crate) struct Delta {
    pub kv: Overlay,
    pub log: Vec<(u64, LogEntry)>,
    /// Granted (time to live in milliseconds) or ended (`None`) leases.
    pub leases: BTreeMap<LeaseId, Option<u64>>,
    pub revision: u64,
    pub compact_revision: u64,
    pub next_lease: u64,
}

/// The committed state: live keys, history and leases.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub kv: BTreeMap<Bytes, KeyValue>,
    pub log: BTreeMap<u64, LogEntry>,
    pub leases: BTreeMap<LeaseId, LeaseState>,
    pub revision: u64,
    pub compact_revision: u64,
    pub next_lease: u64,
    /// Bytes of live keys and values.
    pub bytes: u64,
    pub log_bytes: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            kv: BTreeMap::new(),
            log: BTreeMap::new(),
            leases: BTreeMap::new(),
            revision: FIRST_REVISION,
            compact_revision: 0,
            next_lease: 1,
            bytes: 0,
            log_bytes: 0,
        }
    }
}

/// Bytes that a key counts for.
pub(crate) fn kv_bytes(kv: &KeyValue) -> u64 {
    (kv.key.len() + kv.value.len()) as u64
}

/// Keys under `prefix` after `after`, as `base` overlaid by `overlay`; at most `limit`.
pub(crate) fn merged_scan(
    base: &BTreeMap<Bytes, KeyValue>,
    overlay: &Overlay,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Vec<KeyValue> {
    let start = match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    let span = (start, Bound::<&[u8]>::Unbounded);
    let mut below = base.range::<[u8], _>(span).take_while(|(key, _)| key.starts_with(prefix)).peekable();
    let mut above = overlay.range::<[u8], _>(span).take_while(|(key, _)| key.starts_with(prefix)).peekable();
    let mut found = Vec::new();
    while found.len() < limit {
        let from_above = match (below.peek(), above.peek()) {
            (None, None) => break,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some((b, _)), Some((a, _))) => a <= b,
        };
        if from_above {
            let Some((key, state)) = above.next() else { break };
            // The overlay speaks for the key, so the state below it is passed over.
            below.next_if(|(b, _)| *b == key);
            found.extend(state.clone());
        } else if let Some((_, kv)) = below.next() {
            found.push(kv.clone());
        }
    }
    found
}

impl State {
    /// Merges what has been committed.
    pub fn apply(&mut self, delta: Delta) {
        for (id, change) in delta.leases {
            match change {
                Some(ttl_ms) => {
                    self.leases.insert(id, LeaseState { ttl_ms, keys: BTreeSet::new() });
                }
                None => {
                    self.leases.remove(&id);
                }
            }
        }
        for (key, kv) in delta.kv {
            self.set(key, kv);
        }
        for (revision, entry) in delta.log {
            self.log_bytes += entry.bytes;
            self.log.insert(revision, entry);
        }
        self.revision = delta.revision;
        self.next_lease = delta.next_lease;
        self.forget_history(delta.compact_revision);
    }

    /// Sets or removes one live key, with its size and its place in its lease.
    pub fn set(&mut self, key: Bytes, kv: Option<KeyValue>) {
        let lease = kv.as_ref().and_then(|kv| kv.lease);
        let old = match kv {
            Some(kv) => {
                self.bytes += kv_bytes(&kv);
                self.kv.insert(key.clone(), kv)
            }
            None => self.kv.remove(&key),
        };
        if let Some(old) = old {
            self.bytes = self.bytes.saturating_sub(kv_bytes(&old));
            if old.lease != lease
                && let Some(held) = old.lease.and_then(|id| self.leases.get_mut(&id))
            {
                held.keys.remove(&key);
            }
        }
        if let Some(holder) = lease.and_then(|id| self.leases.get_mut(&id)) {
            holder.keys.insert(key);
        }
    }

    /// Drops the history up to and including `revision`.
    pub fn forget_history(&mut self, revision: u64) {
        if revision <= self.compact_revision {
            return;
        }
        self.compact_revision = revision;
        while let Some(first) = self.log.first_entry() {
            if *first.key() > revision {
                break;
            }
            self.log_bytes = self.log_bytes.saturating_sub(first.remove().bytes);
        }
    }

    /// Where the history must begin so that it stays within its bounds with `added` appended. It is cut a tenth
    /// deeper than needed, so that not every commit has to cut.
    pub fn history_floor(&self, added: &[(u64, LogEntry)], history: &History) -> u64 {
        let count = self.log.len() + added.len();
        let bytes = self.log_bytes + added.iter().map(|(_, entry)| entry.bytes).sum::<u64>();
        if count <= history.revisions && bytes <= history.bytes {
            return self.compact_revision;
        }
        let keep_count = history.revisions - history.revisions / 10;
        let keep_bytes = history.bytes - history.bytes / 10;
        let (mut count, mut bytes, mut floor) = (count, bytes, self.compact_revision);
        for (revision, entry) in self.log.iter().chain(added.iter().map(|(r, e)| (r, e))) {
            if count <= keep_count && bytes <= keep_bytes {
                break;
            }
            count -= 1;
            bytes = bytes.saturating_sub(entry.bytes);
            floor = *revision;
        }
        floor
    }

    /// Reads a page at the newest or an older revision.
    ///
    /// # Errors
    /// [`StoreError::FutureRevision`] or [`StoreError::Compacted`] if the revision that is asked for is not
    /// there yet, or no longer.
    pub fn range(&self, request: &RangeRequest, limits: &Limits) -> Result<RangeResult, StoreError> {
        let revision = request.revision.unwrap_or(self.revision);
        if revision > self.revision {
            return Err(StoreError::FutureRevision { requested: revision, current: self.revision });
        }
        if revision < self.compact_revision {
            return Err(StoreError::Compacted { compact_revision: self.compact_revision });
        }
        let limit = if request.limit == 0 { limits.page } else { request.limit.min(limits.page) };
        let undo = self.undo_since(revision, &request.prefix);
        let after = request.after.as_deref();
        let mut items = merged_scan(&self.kv, &undo, &request.prefix, after, limit.saturating_add(1));
        let more = items.len() > limit;
        items.truncate(limit);
        Ok(RangeResult { revision, items, more })
    }

    /// What the keys under `prefix` that changed after `revision` were at `revision`.
    fn undo_since(&self, revision: u64, prefix: &[u8]) -> Overlay {
        let mut undo = Overlay::new();
        for entry in self.log.range(revision.saturating_add(1)..).rev().map(|(_, entry)| entry) {
            for event in entry.events.iter().filter(|event| event.key().starts_with(prefix)) {
                undo.insert(event.key().clone(), event.prev().cloned());
            }
        }
        undo
    }
}
