//! The audit logs: what is kept, when a head is to be signed and what that says.

use proto_audit::{Claim, Hash, Head, Log};
use proto_model::Timestamp;

use crate::{rows::audit::RowSummary, tables::state::State};

/// Rows that one checkpoint drops at most.
const DROPPED: usize = 48;

impl State {
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
}
