//! The tables of the file: loading all of them, and writing one group of transactions as one commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::codec::{decode_events, decode_kv, encode_events, encode_kv};
use super::disk::{Backend, Disk, FORMAT, Fault};
use crate::error::StoreError;
use crate::state::{Delta, FIRST_REVISION, LeaseState, LogEntry, State, kv_bytes};
use crate::types::LeaseId;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const KEYS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("keys");
const HISTORY: TableDefinition<u64, &[u8]> = TableDefinition::new("history");
const LEASES: TableDefinition<u64, u64> = TableDefinition::new("leases");

/// An open database with a record of what its disk did.
pub(crate) struct Tables {
    db: Database,
    fault: Arc<Fault>,
    disk: Arc<dyn Disk>,
}

/// A commit that did not succeed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub error: StoreError,
    /// It is certain that nothing of it is on disk.
    pub nothing_stored: bool,
}

type Anything<T> = Result<T, redb::Error>;

impl Tables {
    /// Opens (and, after a crash, repairs) the database behind the header; on an empty disk it makes a new one.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged beyond repair.
    pub fn open(disk: Arc<dyn Disk>, cache_bytes: usize) -> Result<Self, StoreError> {
        let fault = Arc::new(Fault::default());
        let backend = Backend { disk: disk.clone(), fault: fault.clone() };
        let mut builder = Builder::new();
        builder.set_cache_size(cache_bytes);
        let db = guarded(&fault, || Ok(builder.create_with_backend(backend)?))?;
        Ok(Self { db, fault, disk })
    }

    /// Size of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.disk.len().unwrap_or(0)
    }

    /// Writes the tables of an empty store that stands at `revision`.
    ///
    /// # Errors
    /// The disk refuses the writes.
    pub fn initialise(&self, revision: u64) -> Result<(), StoreError> {
        let compact_revision = if revision == FIRST_REVISION { 0 } else { revision };
        let state = State { revision, compact_revision, ..State::default() };
        guarded(&self.fault, || {
            let txn = self.db.begin_write()?;
            txn.open_table(META)?.insert("format", u64::from(FORMAT))?;
            txn.open_table(KEYS)?;
            txn.open_table(HISTORY)?;
            txn.open_table(LEASES)?;
            write_meta(&txn, &[state.revision, state.compact_revision, state.next_lease, 0])?;
            Ok(txn.commit()?)
        })
    }

    /// Everything in the file, each item checked, and the number of its last commit.
    ///
    /// # Errors
    /// The disk refuses to read, or [`StoreError::Corrupt`] names the first damaged item.
    pub fn load(&self) -> Result<(State, u64), StoreError> {
        let mut damage = None;
        let loaded = guarded(&self.fault, || {
            let txn = self.db.begin_read()?;
            let meta = txn.open_table(META)?;
            let mut read = |name: &str| -> Anything<u64> {
                let value = meta.get(name)?.map(|guard| guard.value());
                if value.is_none() {
                    damage.get_or_insert_with(|| corrupt("meta", name, "is missing"));
                }
                Ok(value.unwrap_or_default())
            };
            let mut state = State {
                revision: read("revision")?,
                compact_revision: read("compact_revision")?,
                next_lease: read("next_lease")?,
                ..State::default()
            };
            let commits = read("commits")?;
            let loaded = load_leases(&txn, &mut state)
                .and_then(|()| Ok(load_keys(&txn, &mut state)?.or(load_history(&txn, &mut state)?)))?;
            damage = damage.take().or(loaded);
            Ok((state, commits))
        });
        match damage {
            Some(error) => Err(error),
            None => loaded,
        }
    }

    /// The number of the last commit on disk.
    ///
    /// # Errors
    /// The disk refuses to read.
    pub fn commits(&self) -> Result<u64, StoreError> {
        guarded(&self.fault, || {
            let txn = self.db.begin_read()?;
            let commits = txn.open_table(META)?.get("commits")?.map_or(0, |guard| guard.value());
            Ok(commits)
        })
    }

    /// Makes a group of transactions durable: one commit, one sync of the disk.
    ///
    /// # Errors
    /// The disk refuses; [`Failed::nothing_stored`] says whether part of the commit may be on it.
    pub fn commit(&self, delta: &Delta, commits: u64) -> Result<(), Failed> {
        self.fault.begin();
        guarded(&self.fault, || {
            let txn = self.db.begin_write()?;
            write_delta(&txn, delta)?;
            write_meta(&txn, &[delta.revision, delta.compact_revision, delta.next_lease, commits])?;
            Ok(txn.commit()?)
        })
        .map_err(|error| Failed { error, nothing_stored: self.fault.nothing_stored() })
    }

    /// Takes back a commit that reached the disk although it was reported as failed: what it touched is written
    /// again as `state` has it. Answers how far the disk's history is compacted, which is never taken back.
    ///
    /// # Errors
    /// The disk refuses, or what it holds does not decode.
    pub fn undo(&self, state: &State, commits: u64) -> Result<u64, StoreError> {
        guarded(&self.fault, || {
            let txn = self.db.begin_write()?;
            let compacted = txn.open_table(META)?.get("compact_revision")?.map_or(0, |guard| guard.value());
            {
                let mut history = txn.open_table(HISTORY)?;
                let mut keys = txn.open_table(KEYS)?;
                for item in history.range(state.revision + 1..)? {
                    let (revision, events) = item?;
                    let events = decode_events(revision.value(), events.value())
                        .map_err(|reason| redb::Error::Corrupted(reason.to_owned()))?;
                    for event in events.iter() {
                        match state.kv.get(event.key()) {
                            Some(kv) => keys.insert(kv.key.as_ref(), encode_kv(kv).as_slice())?,
                            None => keys.remove(event.key().as_ref())?,
                        };
                    }
                }
                history.retain_in(state.revision + 1.., |_, _| false)?;
                let mut leases = txn.open_table(LEASES)?;
                leases.retain(|_, _| false)?;
                for (id, lease) in &state.leases {
                    leases.insert(id.0, lease.ttl_ms)?;
                }
            }
            let compacted = compacted.min(state.revision).max(state.compact_revision);
            write_meta(&txn, &[state.revision, compacted, state.next_lease, commits])?;
            txn.commit()?;
            Ok(compacted)
        })
    }
}

fn write_meta(txn: &WriteTransaction, values: &[u64; 4]) -> Anything<()> {
    let mut meta = txn.open_table(META)?;
    for (name, value) in ["revision", "compact_revision", "next_lease", "commits"].into_iter().zip(values) {
        meta.insert(name, *value)?;
    }
    Ok(())
}

fn write_delta(txn: &WriteTransaction, delta: &Delta) -> Anything<()> {
    let mut keys = txn.open_table(KEYS)?;
    for (key, kv) in &delta.kv {
        match kv {
            Some(kv) => keys.insert(key.as_ref(), encode_kv(kv).as_slice())?,
            None => keys.remove(key.as_ref())?,
        };
    }
    let mut history = txn.open_table(HISTORY)?;
    for (revision, entry) in delta.log.iter().filter(|(revision, _)| *revision > delta.compact_revision) {
        history.insert(revision, encode_events(*revision, &entry.events).as_slice())?;
    }
    history.retain_in(..=delta.compact_revision, |_, _| false)?;
    if !delta.leases.is_empty() {
        let mut leases = txn.open_table(LEASES)?;
        for (id, change) in &delta.leases {
            match change {
                Some(ttl_ms) => leases.insert(id.0, *ttl_ms)?,
                None => leases.remove(id.0)?,
            };
        }
    }
    Ok(())
}

fn load_leases(txn: &redb::ReadTransaction, state: &mut State) -> Anything<()> {
    for item in txn.open_table(LEASES)?.iter()? {
        let (id, ttl_ms) = item?;
        let lease = LeaseState { ttl_ms: ttl_ms.value(), ..LeaseState::default() };
        state.leases.insert(LeaseId(id.value()), lease);
    }
    Ok(())
}

fn load_keys(txn: &redb::ReadTransaction, state: &mut State) -> Anything<Option<StoreError>> {
    let mut all = Vec::new();
    for item in txn.open_table(KEYS)?.iter()? {
        let (key, stored) = item?;
        let bad = |reason| Ok(Some(corrupt("keys", &key.value().escape_ascii().to_string(), reason)));
        let kv = match decode_kv(key.value(), stored.value()) {
            Ok(kv) => kv,
            Err(reason) => return bad(reason),
        };
        if kv.mod_revision > state.revision || kv.create_revision > kv.mod_revision {
            return bad("its revision is newer than the store's");
        }
        if kv.lease.is_some_and(|lease| !state.leases.contains_key(&lease)) {
            return bad("its lease does not exist");
        }
        if let Some(lease) = kv.lease.and_then(|id| state.leases.get_mut(&id)) {
            lease.keys.insert(kv.key.clone());
        }
        state.bytes += kv_bytes(&kv);
        all.push((kv.key.clone(), kv));
    }
    // They come in order, so the tree is built at once.
    state.kv = all.into_iter().collect();
    Ok(None)
}

fn load_history(txn: &redb::ReadTransaction, state: &mut State) -> Anything<Option<StoreError>> {
    let mut expected = state.compact_revision.max(1) + 1;
    for item in txn.open_table(HISTORY)?.iter()? {
        let (revision, stored) = item?;
        let revision = revision.value();
        if revision != expected {
            return Ok(Some(corrupt("history", &expected.to_string(), "the revision is missing")));
        }
        match decode_events(revision, stored.value()) {
            Ok(events) => {
                let entry = LogEntry::new(events);
                state.log_bytes += entry.bytes;
                state.log.insert(revision, entry);
            }
            Err(reason) => return Ok(Some(corrupt("history", &revision.to_string(), reason))),
        }
        expected += 1;
    }
    let complete = expected == state.revision + 1;
    Ok((!complete).then(|| corrupt("history", &expected.to_string(), "the revision is missing")))
}

fn corrupt(table: &str, key: &str, reason: &str) -> StoreError {
    StoreError::Corrupt { place: format!("table {table}"), key: key.to_owned(), reason: reason.to_owned() }
}

/// Runs database code. The disk's own error is better than the database's words for it, and a database that
/// panics over a damaged page is a corrupt file, not a dead controller.
fn guarded<T>(fault: &Fault, work: impl FnOnce() -> Anything<T>) -> Result<T, StoreError> {
    let database = |reason: String| StoreError::Corrupt {
        place: "the database file".to_owned(),
        key: "a page".to_owned(),
        reason,
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(fault.first().unwrap_or_else(|| match error {
            redb::Error::Io(error) if error.kind() != std::io::ErrorKind::InvalidData => {
                super::disk::io_failure(&error)
            }
            redb::Error::PreviousIo => StoreError::Io { cause: error.to_string() },
            other => database(other.to_string()),
        })),
        Err(_) => Err(fault.first().unwrap_or_else(|| database("the database gave up on it".to_owned()))),
    }
}
