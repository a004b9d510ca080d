//! The audit logs in their tables: setters, and what is stored taken in with its links checked.

use std::sync::Arc;

use proto_audit::{Content, Hash, Log, Record, START};
use proto_model::Timestamp;

use crate::{
    rows::{
        audit::{BadAudit, ROW, RowSummary, StoredAudit},
        write::Write,
    },
    tables::state::{Own, State},
};

impl State {
    /// Notes a row of a log, or its end; the journal can undo it.
    pub fn set_audit(&mut self, log: Log, first: u64, new: Option<RowSummary>) {
        // What is counted belongs to the row, and goes back with it.
        let old = self.swap_audit((log, first), new);
        self.note(Own::Audit((log, first), old));
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
