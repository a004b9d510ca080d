//! Everything that can go wrong in a store, one variant per cause. A failed compare is not an error: it is
//! [`TxnOutcome::succeeded`](crate::TxnOutcome) being false.

use std::path::PathBuf;

use bytes::Bytes;

use crate::types::LeaseId;

/// Why a store could not do what was asked. Cloneable, because one failed commit answers many transactions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The history asked for is gone. Read a snapshot with `range` and watch from its revision + 1.
    #[error(
        "history before revision {compact_revision} was compacted; read a snapshot and watch from its revision + 1"
    )]
    Compacted {
        /// The newest revision whose history is gone.
        compact_revision: u64,
    },
    /// A watcher did not read for too long. Nothing is lost yet: watch again from `resume_revision`.
    #[error("the watcher fell too far behind; watch again from revision {resume_revision}")]
    Lagged {
        /// First revision that the watcher has not seen.
        resume_revision: u64,
    },
    /// A revision that does not exist yet was asked for.
    #[error("revision {requested} does not exist yet; the newest is {current}")]
    FutureRevision {
        /// The revision asked for.
        requested: u64,
        /// The newest committed revision.
        current: u64,
    },
    /// The key is empty or longer than the limit.
    #[error("key of {len} bytes; a key has 1 to {limit} bytes")]
    KeyLength {
        /// Length of the key in bytes.
        len: usize,
        /// Longest key in bytes.
        limit: usize,
    },
    /// One value is larger than the limit.
    #[error("value of {len} bytes for key {key:?}; the limit is {limit} bytes")]
    ValueTooLarge {
        /// The key that the value was for.
        key: Bytes,
        /// Size of the value in bytes.
        len: usize,
        /// Largest value in bytes.
        limit: usize,
    },
    /// The whole transaction is larger than the limit.
    #[error("transaction of {len} bytes; the limit is {limit} bytes")]
    TxnTooLarge {
        /// Size of all keys and values of the transaction in bytes.
        len: usize,
        /// Largest transaction in bytes.
        limit: usize,
    },
    /// More compares or operations than one transaction may have.
    #[error("transaction with {count} {what}; the limit is {limit}")]
    TooManyOps {
        /// `compares`, `success operations` or `failure operations`.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A `delete-prefix` would remove more keys in one revision than allowed.
    #[error("the deletion covers more than {limit} keys; delete a longer prefix at a time")]
    TooManyDeletes {
        /// Most keys that one transaction may delete.
        limit: usize,
    },
    /// One transaction writes the same key twice (etcd refuses this too).
    #[error("key {key:?} is written twice in one transaction")]
    DuplicateKey {
        /// The key that is written twice.
        key: Bytes,
    },
    /// The lease does not exist or has expired.
    #[error("lease {lease} does not exist or has expired")]
    LeaseNotFound {
        /// The lease that was named.
        lease: LeaseId,
    },
    /// The lease's time to live is zero or longer than the limit.
    #[error("time to live of {ttl_ms} ms; a lease lives 1 ms to {limit_ms} ms")]
    LeaseTtl {
        /// Time to live asked for, in milliseconds.
        ttl_ms: u64,
        /// Longest time to live, in milliseconds.
        limit_ms: u64,
    },
    /// No space: disk, quota of the file system, or the store's own byte limit. Nothing of the transaction was
    /// stored; reads go on, and writes work again by themselves when there is space.
    #[error("the store is full, nothing was stored: {cause}; free space and try again")]
    Full {
        /// What is full, as text for people.
        cause: String,
    },
    /// The disk refused; nothing of the transaction was stored; reads go on.
    #[error("the store's disk failed, nothing was stored: {cause}")]
    Io {
        /// What the disk said.
        cause: String,
    },
    /// The disk failed so late, or the network, that it is not known whether the transaction is stored. Read before trying
    /// again: what is read then is final.
    #[error("it is not known whether the commit was stored: {cause}")]
    Unknown {
        /// What the disk or the network said.
        cause: String,
    },
    /// The store is elsewhere and does not answer. Nothing of the transaction was stored.
    #[error("the store does not answer, nothing was stored: {cause}")]
    Unavailable {
        /// What happened at the last attempt.
        cause: String,
    },
    /// The store is elsewhere and does not let us in, or we must not trust it.
    #[error("the store refuses us: {cause}")]
    Denied {
        /// What it said and what to look at.
        cause: String,
    },
    /// The store refused the call for another reason; nothing was stored.
    #[error("the store refused: {cause}")]
    Refused {
        /// The reason as the store states it.
        cause: String,
    },
    /// There is no store.
    #[error("there is no store of Railyard at {place}")]
    Missing {
        /// Where it was looked for.
        place: String,
    },
    /// There is something already where a restore, a migration or a backup was to be written.
    #[error("{place} exists and was not overwritten; look at it, then move it away or say --force")]
    Exists {
        /// The file, the folder, or the place in etcd that exists.
        place: String,
    },
    /// A restore or a migration into the store began and did not end.
    #[error(
        "{place} was being filled by a restore or a migration that did not end; run it again with --force"
    )]
    HalfFilled {
        /// Where the store is.
        place: String,
    },
    /// A stored item does not decode or its checksum is wrong. Nothing was overwritten.
    #[error("{place} is corrupt at {key}: {reason}; nothing was overwritten, restore from a backup")]
    Corrupt {
        /// The file or the table that holds the item.
        place: String,
        /// The item: a key, a revision, or a part of the file.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A secret value that cannot be opened. Nothing was overwritten.
    #[error("{key} cannot be read: {reason}")]
    Sealed {
        /// The key of the row whose value it is.
        key: String,
        /// Which key is missing, or what else is wrong.
        reason: String,
    },
    /// The store was written by a newer release. Nothing was overwritten.
    #[error("{} has format {found}, this release reads up to {supported}; run the newer release, nothing was overwritten", path.display())]
    NewerFormat {
        /// The path of the store's file.
        path: PathBuf,
        /// The format that the file has.
        found: u32,
        /// The newest format that this release reads.
        supported: u32,
    },
    /// The file is not a store of ours. Nothing was overwritten.
    #[error("{} is not a Railyard store ({found}); move it away, nothing was overwritten", path.display())]
    Foreign {
        /// The path of the file.
        path: PathBuf,
        /// What its first bytes look like.
        found: String,
    },
    /// Another process has the store open.
    #[error("{} is in use by another process{}; stop it first", path.display(), pid.map(|p| format!(" (pid {p})")).unwrap_or_default())]
    InUse {
        /// The store's lock file.
        path: PathBuf,
        /// The other process, when it could be read.
        pid: Option<u32>,
    },
    /// The queue of writes stayed full for too long.
    #[error("the store is overloaded: no room in its queue for {waited_ms} ms")]
    Overloaded {
        /// How long the transaction waited, in milliseconds.
        waited_ms: u64,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the same call may succeed later without any change by the caller.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Full { .. }
                | Self::Io { .. }
                | Self::Unknown { .. }
                | Self::Overloaded { .. }
                | Self::Unavailable { .. }
                | Self::Lagged { .. }
        )
    }
}
