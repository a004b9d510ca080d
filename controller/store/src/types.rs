//! The words of the store: keys with revisions, transactions, ranges, events, leases, limits.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

/// One key as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The whole key, as bytes.
    pub key: Bytes,
    /// The value, as it was put.
    pub value: Bytes,
    /// Revision at which the key came into being (since its last deletion).
    pub create_revision: u64,
    /// Revision of the last write.
    pub mod_revision: u64,
    /// Number of writes since the key came into being; 1 after the first.
    pub version: u64,
    /// The lease that the key dies with.
    pub lease: Option<LeaseId>,
}

/// Name of a lease; never reused within a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A lease as granted or kept alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseGrant {
    /// The id of the lease.
    pub id: LeaseId,
    /// Time until it expires, from now.
    pub ttl: Duration,
}

/// What a compare looks at. An absent key has revisions and version 0, and fails every value compare, as in etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The revision of the key's last change.
    ModRevision(u64),
    /// The revision at which the key was created.
    CreateRevision(u64),
    /// The number of changes since the key was created, from 1.
    Version(u64),
    /// The value, compared byte by byte.
    Value(Bytes),
}

/// How the stored side must stand to the given side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOp {
    /// The stored side is equal to the given one.
    Equal,
    /// The stored side differs from the given one.
    NotEqual,
    /// The stored side is greater than the given one.
    Greater,
    /// The stored side is less than the given one.
    Less,
}

/// One condition of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compare {
    /// The key looked at.
    pub key: Bytes,
    /// How the stored side must compare to the given one.
    pub op: CompareOp,
    /// What is compared, with the given side.
    pub target: Target,
}

impl Compare {
    /// The key does not exist.
    pub fn absent(key: impl Into<Bytes>) -> Self {
        Self { key: key.into(), op: CompareOp::Equal, target: Target::CreateRevision(0) }
    }

    /// Holds if the key exists.
    pub fn exists(key: impl Into<Bytes>) -> Self {
        Self { key: key.into(), op: CompareOp::Greater, target: Target::CreateRevision(0) }
    }

    /// The key was last written at `revision`.
    pub fn mod_revision(key: impl Into<Bytes>, revision: u64) -> Self {
        Self { key: key.into(), op: CompareOp::Equal, target: Target::ModRevision(revision) }
    }

    /// The key came into being at `revision`: the compare that fences a leader.
    pub fn create_revision(key: impl Into<Bytes>, revision: u64) -> Self {
        Self { key: key.into(), op: CompareOp::Equal, target: Target::CreateRevision(revision) }
    }

    /// The key was written `version` times.
    pub fn version(key: impl Into<Bytes>, version: u64) -> Self {
        Self { key: key.into(), op: CompareOp::Equal, target: Target::Version(version) }
    }

    /// The key has exactly this value.
    pub fn value(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self { key: key.into(), op: CompareOp::Equal, target: Target::Value(value.into()) }
    }

    /// Whether the condition holds for what is stored (`None`: the key is absent).
    pub fn holds(&self, stored: Option<&KeyValue>) -> bool {
        use std::cmp::Ordering;
        let number = |pick: fn(&KeyValue) -> u64| stored.map_or(0, pick);
        let ordering = match &self.target {
            Target::ModRevision(given) => number(|kv| kv.mod_revision).cmp(given),
            Target::CreateRevision(given) => number(|kv| kv.create_revision).cmp(given),
            Target::Version(given) => number(|kv| kv.version).cmp(given),
            Target::Value(given) => match stored {
                Some(kv) => kv.value.cmp(given),
                None => return false,
            },
        };
        match self.op {
            CompareOp::Equal => ordering == Ordering::Equal,
            CompareOp::NotEqual => ordering != Ordering::Equal,
            CompareOp::Greater => ordering == Ordering::Greater,
            CompareOp::Less => ordering == Ordering::Less,
        }
    }
}

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Writes a key; the lease replaces the one that the key had.
    Put {
        /// The key to write.
        key: Bytes,
        /// The value to write.
        value: Bytes,
        /// The lease that the key dies with.
        lease: Option<LeaseId>,
    },
    /// Deletes a key; an absent key is no error.
    Delete {
        /// The key to delete.
        key: Bytes,
    },
    /// Deletes every key that starts with the prefix.
    DeletePrefix {
        /// The prefix of the keys to delete.
        prefix: Bytes,
    },
    /// Reads a key as it stands at this point of the transaction.
    Get {
        /// The key to read.
        key: Bytes,
    },
}

impl Op {
    /// A put without lease.
    pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::Put { key: key.into(), value: value.into(), lease: None }
    }

    /// A put whose key dies with the lease.
    pub fn put_leased(key: impl Into<Bytes>, value: impl Into<Bytes>, lease: LeaseId) -> Self {
        Self::Put { key: key.into(), value: value.into(), lease: Some(lease) }
    }

    /// Deletes one key; an absent one is no error.
    pub fn delete(key: impl Into<Bytes>) -> Self {
        Self::Delete { key: key.into() }
    }

    /// Deletes all keys with the prefix.
    pub fn delete_prefix(prefix: impl Into<Bytes>) -> Self {
        Self::DeletePrefix { prefix: prefix.into() }
    }

    /// Reads one key at this point of the transaction.
    pub fn get(key: impl Into<Bytes>) -> Self {
        Self::Get { key: key.into() }
    }
}

/// If all compares hold then `success`, else `failure`: atomically, in one revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    /// Conditions; all must hold.
    pub compares: Vec<Compare>,
    /// Operations when they hold.
    pub success: Vec<Op>,
    /// Operations when one does not.
    pub failure: Vec<Op>,
}

impl Txn {
    /// A transaction without conditions and operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition: all of them must hold for the transaction to succeed.
    #[must_use]
    pub fn when(mut self, compare: Compare) -> Self {
        self.compares.push(compare);
        self
    }

    /// Adds an operation for when all conditions hold.
    #[must_use]
    pub fn then(mut self, op: Op) -> Self {
        self.success.push(op);
        self
    }

    /// Adds an operation for when a condition does not hold.
    #[must_use]
    pub fn otherwise(mut self, op: Op) -> Self {
        self.failure.push(op);
        self
    }

    /// Bytes of all keys and values, plus a small overhead per item.
    pub fn bytes(&self) -> usize {
        let op = |op: &Op| match op {
            Op::Put { key, value, .. } => key.len() + value.len() + 32,
            Op::Delete { key } | Op::Get { key } => key.len() + 16,
            Op::DeletePrefix { prefix } => prefix.len() + 16,
        };
        let compare = |c: &Compare| {
            c.key.len() + 16 + if let Target::Value(value) = &c.target { value.len() } else { 8 }
        };
        self.success.iter().chain(&self.failure).map(op).sum::<usize>()
            + self.compares.iter().map(compare).sum::<usize>()
    }
}

/// What one operation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpResult {
    /// The key was written.
    Put,
    /// So many keys were deleted.
    Deleted(u64),
    /// What the key held.
    Got(Option<KeyValue>),
}

/// What a transaction did. A conflict is an outcome, not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxnOutcome {
    /// Revision of the transaction, or the newest revision when it changed nothing.
    pub revision: u64,
    /// Whether all compares held, so that `success` ran and not `failure`.
    pub succeeded: bool,
    /// One result per operation that ran, in order.
    pub results: Vec<OpResult>,
}

/// A read of all keys under a prefix, in key order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeRequest {
    /// Keys that start with this; empty means all.
    pub prefix: Bytes,
    /// Only keys strictly after this one: the last key of the page before.
    pub after: Option<Bytes>,
    /// Most keys to return; 0 means the store's page limit.
    pub limit: usize,
    /// Read as of this revision; `None` means the newest.
    pub revision: Option<u64>,
}

impl RangeRequest {
    /// All keys under `prefix` at the newest revision, up to the store's page limit.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }
}

/// Keys under a prefix, and the revision at which this was the truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeResult {
    /// The revision that the keys are valid at; watch from it + 1 to follow.
    pub revision: u64,
    /// The keys in order.
    pub items: Vec<KeyValue>,
    /// Whether there are more keys after the last one.
    pub more: bool,
}

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The key was written.
    Put {
        /// The key as written.
        kv: KeyValue,
        /// The key as it was before. A store may not know it (etcd after compaction).
        prev: Option<KeyValue>,
    },
    /// The key was deleted.
    Delete {
        /// The key that was deleted.
        key: Bytes,
        /// The revision of the deletion.
        revision: u64,
        /// The key as it was before.
        prev: Option<KeyValue>,
    },
}

impl Event {
    /// The key that changed.
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put { kv, .. } => &kv.key,
            Self::Delete { key, .. } => key,
        }
    }

    /// The key as it was before the change.
    pub fn prev(&self) -> Option<&KeyValue> {
        match self {
            Self::Put { prev, .. } | Self::Delete { prev, .. } => prev.as_ref(),
        }
    }
}

/// All events of one revision under the watched prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchBatch {
    /// The revision; resume a watch from it + 1.
    pub revision: u64,
    /// The events, in the order in which the transaction made them.
    pub events: Vec<Event>,
}

/// Hard limits of a store; each is a typed error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest key in bytes.
    pub key_bytes: usize,
    /// Largest value in bytes (etcd: 1.5 MiB per request).
    pub value_bytes: usize,
    /// Largest transaction in bytes.
    pub txn_bytes: usize,
    /// Most compares, success operations and failure operations, each (etcd: 128).
    pub txn_ops: usize,
    /// Most keys that one transaction may delete.
    pub deletes: usize,
    /// Most keys in one page of a range.
    pub page: usize,
    /// Longest lease in milliseconds.
    pub lease_ttl_ms: u64,
    /// Most bytes of live keys and values (etcd: 2 GiB).
    pub total_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            key_bytes: 1024,
            value_bytes: 1536 * 1024,
            txn_bytes: 2 * 1024 * 1024,
            txn_ops: 128,
            deletes: 100_000,
            page: 10_000,
            lease_ttl_ms: 24 * 3600 * 1000,
            total_bytes: 2 * 1024 * 1024 * 1024,
        }
    }
}

/// How much history is kept for watches and reads in the past; beyond it the oldest is compacted by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// The most revisions that are kept.
    pub revisions: usize,
    /// Most bytes of events kept.
    pub bytes: u64,
    /// A watcher that did not read while this many revisions passed gets `Lagged`.
    pub watch_lag: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { revisions: 100_000, bytes: 128 * 1024 * 1024, watch_lag: 20_000 }
    }
}

/// Size and health of a store, for metrics and `describe`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// The newest committed revision.
    pub revision: u64,
    /// Newest revision whose history is gone.
    pub compact_revision: u64,
    /// The number of live keys.
    pub keys: u64,
    /// Bytes of live keys and values.
    pub bytes: u64,
    /// Bytes of the file on disk; 0 when there is none.
    pub file_bytes: u64,
    /// Revisions kept for watches.
    pub history_revisions: u64,
    /// Bytes of the history.
    pub history_bytes: u64,
    /// The number of live leases.
    pub leases: u64,
    /// The number of open watches.
    pub watchers: u64,
    /// Durable commits since the store was opened; fewer than transactions, because many share one.
    pub commits: u64,
    /// Transactions that changed something since the store was opened.
    pub transactions: u64,
    /// Why writes are refused at the moment; `None` when all is well.
    pub write_failure: Option<String>,
}
