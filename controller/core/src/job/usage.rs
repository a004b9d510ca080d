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
        self.drop_surplus(DROPPED);
    }

    /// Removes records that were kept for their time, and those that are too many; a bounded number of them.
    pub(crate) fn purge_usage(&mut self, limit: usize) {
        let kept = self.state.config.usage_retention;
        let all = self.state.index.usage.all.iter();
        let old = all.take_while(|(ended, ..)| kept.is_some_and(|kept| ended.plus(kept) <= self.now));
        let old: Vec<UsageKey> = old.take(limit).map(|(_, uid, attempt)| (*uid, *attempt)).collect();
        old.iter().for_each(|key| self.state.remove::<UsageRecord>(key));
        self.drop_surplus(limit - old.len());
    }

    /// Removes records before their time, because there are too many.
    fn drop_surplus(&mut self, limit: usize) {
        for _ in 0..limit {
            let Some(key) = self.state.usage_over() else { return };
            self.state.remove::<UsageRecord>(&key);
            self.out.usage_dropped += 1;
        }
    }
}
