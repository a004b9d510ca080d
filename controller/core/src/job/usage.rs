//! Usage records: one for each attempt, written in the step that frees what the attempt held, so that there is exactly one; kept for a time,
//! whatever becomes of the job.

use std::sync::Arc;

use controller_state::{Attempt, JobEntry, Outcome, UsageEnd, UsageKey, UsageRecord};

use crate::context::Step;

/// Records that one step drops at most because there are too many: more than it writes, so that a lower limit is reached.
const DROPPED: usize = 4;

impl Step<'_> {
    /// An attempt ends now, and what it held is free. `entry` is the job with its placement and the causes of the end.
    pub(crate) fn account(&mut self, entry: &JobEntry, attempt: &Attempt, outcome: Option<Outcome>) {
        let (tenant, end) = (self.state.tenant_uid(&entry.job.id.tenant), UsageEnd::of(outcome));
        self.state.put(Arc::new(UsageRecord::of(&entry.job, attempt, tenant, self.now, end)));
        for _ in 0..DROPPED {
            let over = self.state.base.usage.len() > self.state.config.max_usage;
            let Some(key) = self.state.index.usage.surplus().filter(|_| over) else { return };
            self.state.remove::<UsageRecord>(&key);
        }
    }

    /// Removes records that were kept for their time; a bounded number of them.
    pub(crate) fn purge_usage(&mut self, limit: usize) {
        let Some(kept) = self.state.config.usage_retention else { return };
        let old = self.state.index.usage.all.iter().take_while(|(ended, ..)| ended.plus(kept) <= self.now);
        let old: Vec<UsageKey> = old.take(limit).map(|(_, uid, attempt)| (*uid, *attempt)).collect();
        old.iter().for_each(|key| self.state.remove::<UsageRecord>(key));
    }
}
