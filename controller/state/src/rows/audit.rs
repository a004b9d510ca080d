//! Rows of the audit logs, what is remembered of each, and the heads of their chains.

use std::{
    ops::{Index, IndexMut},
    sync::Arc,
};

use proto_audit::{Hash, Log, Record};
use proto_model::Timestamp;

/// Records of one row at most.
pub const ROW: usize = 32;

/// Records of one log that are stored under one key, in order; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// The records.
    pub records: Vec<Arc<Record>>,
}

impl AuditRow {
    /// The log of all its records.
    #[must_use]
    pub fn log(&self) -> Log {
        self.records.first().map_or(Log::Changes, |record| record.log)
    }

    /// The first record's number.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.records.first().map_or(0, |record| record.seq)
    }
}

/// A stored row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAudit {
    /// Of which log it is.
    pub log: Log,
    /// The number of its first record.
    pub first: u64,
    /// Why it cannot be read.
    pub cause: String,
}

/// A row as it was found in the store.
pub type StoredAudit = Result<Arc<AuditRow>, BadAudit>;

/// Both logs' chains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chains {
    changes: Chain,
    denials: Chain,
}

impl Index<Log> for Chains {
    type Output = Chain;

    fn index(&self, log: Log) -> &Chain {
        match log {
            Log::Changes => &self.changes,
            Log::Denials => &self.denials,
        }
    }
}

impl IndexMut<Log> for Chains {
    fn index_mut(&mut self, log: Log) -> &mut Chain {
        match log {
            Log::Changes => &mut self.changes,
            Log::Denials => &mut self.denials,
        }
    }
}

impl Chains {
    /// The batch is stored: further records go into new rows.
    pub fn close_rows(&mut self) {
        (self.changes.open, self.denials.open) = (None, None);
    }
}

/// The head of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// The number and the hash of the last record; 0 and [`START`] before the first.
    pub last: u64,
    /// The hash of the last record, [`START`] before the first.
    pub head: Hash,
    /// Since the last checkpoint: how many, and the time of the first.
    pub unsigned: u64,
    /// The time of the first record since the last checkpoint.
    pub since: Timestamp,
    /// Who led at the last checkpoint.
    pub signed_by: u64,
    /// What is kept.
    pub records: u64,
    /// Bytes of records that are kept.
    pub bytes: u64,
    /// What was found broken at the start, until a record tells of it.
    pub broken: Option<String>,
    /// The row that further records of the same transaction go into.
    pub open: Option<Arc<AuditRow>>,
}

/// What is remembered of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowSummary {
    /// The number of the last record.
    pub last: u64,
    /// The hash of the last record before the row.
    pub before: Hash,
    /// Bytes of records that are kept.
    pub bytes: u64,
    /// Of the first and the last record.
    pub times: (Timestamp, Timestamp),
}

impl RowSummary {
    /// Of a row as it is stored; nothing of one without records.
    pub fn of(row: &AuditRow) -> Option<Self> {
        let (first, last) = row.records.first().zip(row.records.last())?;
        Some(Self {
            last: last.seq,
            before: first.previous,
            bytes: row.records.iter().map(|record| record.size() as u64).sum(),
            times: (Timestamp(first.time_ms), Timestamp(last.time_ms)),
        })
    }
}
