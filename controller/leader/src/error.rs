//! What can go wrong between a caller and the store.

use std::{fmt::Display, time::Duration};

use controller_core::CoreError;
use controller_rows::format::FormatError;
use controller_store::StoreError;
use thiserror::Error;

/// A stored value that this release cannot read. Nothing is overwritten.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the stored value at {key} cannot be read: {cause}; nothing was overwritten: restore it from a backup or remove the key"
)]
pub struct CorruptError {
    /// The key, in printable characters.
    pub key: String,
    /// What is wrong with the value.
    pub cause: String,
}

impl CorruptError {
    /// Names the key, whatever bytes it has.
    pub fn new(key: &[u8], cause: impl Display) -> Self {
        Self { key: key.escape_ascii().to_string(), cause: cause.to_string() }
    }
}

/// Why the loop did not do what was asked.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Refusal {
    /// The core says no.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// Too much is waiting.
    #[error("the controller has {waiting} requests waiting, its limit; try again later")]
    Busy {
        /// Requests that wait, which are as many as may.
        waiting: usize,
        /// When it may be better.
        retry_after: Duration,
    },
    /// The store takes no writes; nothing was stored. Running jobs go on.
    #[error("nothing was stored: {cause}")]
    Unwritable {
        /// What the store said.
        cause: String,
    },
    /// It is decided without a write, and the store does not say whether this controller still leads.
    #[error("nothing was stored, and it is not sure that this controller still leads: {cause}; try again")]
    Unconfirmed {
        /// What the store said.
        cause: String,
    },
    /// The store failed so late that it is not known whether the request was stored.
    #[error("it is not known whether the request was stored: {cause}; repeat it with the same request id")]
    Unknown {
        /// What the store said.
        cause: String,
    },
    /// One event's writes do not fit into one transaction of this store.
    #[error("the request needs a transaction that the store does not take: {cause}")]
    TooLarge {
        /// What the store said.
        cause: String,
    },
    /// The store cannot be read.
    #[error("the store cannot be read: {cause}")]
    Unreadable {
        /// The reason as the store states it.
        cause: String,
    },
    /// A stored value cannot be read.
    #[error(transparent)]
    Corrupt(#[from] CorruptError),
    /// Another controller leads, or this one is ending.
    #[error("this controller does not lead (any more): {cause}")]
    Stopped {
        /// Why this controller does not lead, as text for people.
        cause: &'static str,
    },
}

impl Refusal {
    /// The refusal of a call for which the store could not be read.
    #[must_use]
    pub fn read(error: &StoreError) -> Self {
        Self::Unreadable { cause: error.to_string() }
    }
}

/// Why the controller does not lead.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum StartError {
    /// A call to the store failed.
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
    /// A stored value cannot be read.
    #[error(transparent)]
    Corrupt(#[from] CorruptError),
    /// A key under our prefix is of nobody's.
    #[error(
        "the store holds {key}, which no release of Railyard wrote; move it away, nothing was overwritten"
    )]
    ForeignKey {
        /// The key, in printable characters.
        key: String,
    },
    /// The rows are of a version that this program does not read.
    #[error("{0}; nothing was overwritten")]
    Format(#[from] FormatError),
    /// Another controller has taken the lead while this one migrated the rows of the store; it goes on with that.
    #[error("another controller has taken the lead from epoch {epoch}, which migrated the rows of the store")]
    Overtaken {
        /// The epoch that is over.
        epoch: u64,
    },
    /// The stored resources contradict each other.
    #[error("the stored state is not sound: {0}; nothing was overwritten")]
    Unsound(String),
    /// Another controller was faster.
    #[error("another controller leads (epoch {epoch})")]
    Taken {
        /// The epoch of the controller that leads.
        epoch: u64,
    },
    /// No randomness for job keys.
    #[error("the system gave no random bytes")]
    NoRandom,
}
