//! The audit logs: what is kept, when a head is to be signed and what that says.

use std::sync::Arc;

use proto_audit::{Claim, Content, Hash, Head, Log, Record, START};
use proto_model::Timestamp;

use crate::{
    rows::{
        audit::{BadAudit, RowSummary, StoredAudit},
        write::Write,
    },
    tables::{journal::Undo, state::State},
};

/// Records of one row at most.
pub const ROW: usize = 32;

/// Rows that one checkpoint drops at most.
const DROPPED: usize = 48;

impl State {
    /// Notes a row of a log, or its end; the journal can undo it.
    pub fn set_audit(&mut self, log: Log, first: u64, new: Option<RowSummary>) {
        // What is counted belongs to the row, and goes back with it.
        let old = self.swap_audit((log, first), new);
        self.journal.undo.push(Undo::Audit((log, first), old));
    }

    pub(crate) fn swap_audit(&mut self, key: (Log, u64), new: Option<RowSummary>) -> Option<RowSummary> {
        let (old, first) = (self.base.audit.remove(&key), key.1);
        let chain = &mut self.base.chains[key.0];
        if let Some(old) = &old {
            chain.records = chain.records.saturating_sub(old.last + 1 - first);
            chain.bytes = chain.bytes.saturating_sub(old.bytes);
        }
        if let Some(new) = new {
            chain.records += new.last + 1 - first;
            chain.bytes += new.bytes;
            self.base.audit.insert(key, new);
        }
        old
    }

    pub(crate) fn audit_write(&self, key: (Log, u64), was: bool) -> Option<Write> {
        let open = self.base.chains[key.0].open.as_ref().filter(|row| row.first() == key.1);
        match (self.base.audit.contains_key(&key), open) {
            (true, Some(row)) => Some(Write::PutAudit(Arc::clone(row))),
            // A step writes into one row of a log only.
            (true, None) => None,
            (false, _) => was.then_some(Write::DeleteAudit(key.0, key.1)),
        }
    }

    /// The room of a log: records and bytes.
    fn room(&self, log: Log) -> (u64, u64) {
        match log {
            Log::Changes => (self.config.max_audit, self.config.max_audit_bytes),
            Log::Denials => (self.config.max_denials, self.config.max_denials_bytes),
        }
    }

    fn is_over(&self, log: Log) -> bool {
        let (chain, (records, bytes)) = (&self.base.chains[log], self.room(log));
        chain.records > records || chain.bytes > bytes
    }

    /// When the head of a log is to be signed; `None` where it is, or nothing is recorded.
    #[must_use]
    pub fn seal_due(&self, log: Log) -> Option<Timestamp> {
        let chain = &self.base.chains[log];
        if chain.broken.is_some() {
            return Some(Timestamp::default());
        }
        let config = &self.config;
        let now = chain.unsigned >= config.seal_every || chain.signed_by != self.epoch || self.is_over(log);
        let due = if now { chain.since } else { chain.since.plus(config.seal_within) };
        (chain.unsigned > 0).then_some(due)
    }

    /// What a checkpoint would say now; `None` where the head is one.
    #[must_use]
    pub fn claim(&self, log: Log, now: Timestamp) -> Option<Claim> {
        let chain = &self.base.chains[log];
        if chain.unsigned == 0 || chain.broken.is_some() {
            return None;
        }
        let (oldest, anchor) = self.oldest(log)?;
        let other = &self.base.chains[log.other()];
        let beside = Some(Head { seq: other.last, hash: other.head });
        let (seq, time_ms, head) = (chain.last + 1, now.0, chain.head);
        Some(Claim { log, seq, time_ms, head, epoch: self.epoch, oldest, anchor, beside })
    }

    /// The oldest record that is to be kept, and the hash before it.
    fn oldest(&self, log: Log) -> Option<(u64, Hash)> {
        let (chain, (most_records, most_bytes)) = (&self.base.chains[log], self.room(log));
        // A little more than must go, so that not every record needs a checkpoint.
        let bound = |most: u64| if self.is_over(log) { most - most / 16 } else { most };
        let (mut records, mut bytes) = (chain.records, chain.bytes);
        let mut rows =
            self.base.audit.range((log, 0)..=(log, u64::MAX)).map(|((_, first), kept)| (first, kept));
        let mut oldest = rows.next()?;
        for next in rows.take(DROPPED) {
            // What this transaction has written stays.
            let open = chain.open.as_ref().is_some_and(|row| row.first() <= *next.0);
            if open || (records <= bound(most_records) && bytes <= bound(most_bytes)) {
                break;
            }
            records -= (oldest.1.last + 1 - oldest.0).min(records);
            bytes -= oldest.1.bytes.min(bytes);
            oldest = next;
        }
        Some((*oldest.0, oldest.1.before))
    }

    /// Records and bytes of a log that are kept.
    #[must_use]
    pub fn audit_kept(&self, log: Log) -> (u64, u64) {
        (self.base.chains[log].records, self.base.chains[log].bytes)
    }

    /// What was found broken in the audit log, until a record tells of it.
    #[must_use]
    pub fn audit_fault(&self) -> Option<&str> {
        Log::ALL.into_iter().find_map(|log| self.base.chains[log].broken.as_deref())
    }

    /// Rows of a log that may have records before number `before` of this time: the newest first.
    pub fn audit_rows(
        &self,
        log: Log,
        before: u64,
        since: Timestamp,
        until: Timestamp,
    ) -> impl Iterator<Item = u64> + '_ {
        let rows = self.base.audit.range((log, 0)..(log, before)).rev();
        let within = move |kept: &RowSummary| kept.times.0 <= until && kept.times.1 >= since;
        rows.filter(move |(_, kept)| within(kept)).map(|((_, first), _)| *first)
    }

    /// Takes in what is stored, links checked. What is broken does not keep a controller from leading.
    pub fn load_audit(&mut self, mut rows: Vec<StoredAudit>) {
        rows.sort_by_key(|row| match row {
            Ok(row) => (row.log(), row.first()),
            Err(bad) => (bad.log, bad.first),
        });
        let denials = rows.partition_point(|row| match row {
            Ok(row) => row.log() == Log::Changes,
            Err(bad) => bad.log == Log::Changes,
        });
        let denials = rows.split_off(denials);
        self.load_log(Log::Changes, rows);
        self.load_log(Log::Denials, denials);
    }

    fn load_log(&mut self, log: Log, rows: Vec<StoredAudit>) {
        let mut faults: Vec<String> = Vec::new();
        let mut expected: Option<(u64, Hash)> = None;
        for row in rows {
            let row = match row {
                Ok(row) => row,
                Err(BadAudit { first, cause, .. }) => {
                    faults.push(cause);
                    // It may have been full.
                    let chain = &mut self.base.chains[log];
                    chain.last = chain.last.max(first + ROW as u64);
                    (chain.head, expected) = (START, None);
                    let times = (Timestamp::default(), Timestamp::default());
                    self.swap_audit(
                        (log, first),
                        Some(RowSummary { last: first, before: START, bytes: 0, times }),
                    );
                    continue;
                }
            };
            for record in &row.records {
                if expected.is_some_and(|expected| expected != (record.seq, record.previous)) {
                    faults.push(format!("audit record {} does not follow the one before it", record.seq));
                }
                if record.computed() != record.hash {
                    faults.push(format!("audit record {} was changed", record.seq));
                }
                expected = Some((record.seq + 1, record.hash));
                self.count(record);
            }
            let kept = RowSummary::of(&row);
            self.swap_audit((log, row.first()), kept);
        }
        if let Some(cause) = faults.first() {
            self.base.chains[log].broken =
                Some(format!("{cause} ({} faults in the log of {log})", faults.len()));
        }
    }

    fn count(&mut self, record: &Record) {
        let chain = &mut self.base.chains[record.log];
        (chain.last, chain.head) = (record.seq, record.hash);
        match &record.content {
            Content::Checkpoint(checkpoint) => {
                (chain.unsigned, chain.signed_by) = (0, checkpoint.epoch);
            }
            _ if chain.unsigned == 0 => (chain.unsigned, chain.since) = (1, Timestamp(record.time_ms)),
            _ => chain.unsigned += 1,
        }
    }
}
