//! The limit of long small jobs over time: one of the whole cluster, counted in GPUs. See [`proto_model::LongJobLimit`].

use std::rc::Rc;

use proto_model::Timestamp;

use super::{Limited, Plan, PlanRequest};
use crate::{entry::Entry, tables::QueueState};

#[cfg(test)]
use crate::plant::{self, Bug};

impl Plan {
    /// The limit of long small jobs, if a job is one.
    pub(crate) fn long_job_limit(
        &mut self,
        queue_state: &QueueState,
        entry: &Entry,
        now: Timestamp,
    ) -> Option<usize> {
        let limit = queue_state.long_limit(entry).map(|limit| u64::from(limit.gpus));
        #[cfg(test)]
        let limit = limit.filter(|_| !plant::is(Bug::LongJobs));
        let limit = limit.filter(|limit| *limit < self.most_gpus)?;
        Some(self.limit(queue_state, Limited::LongJobs, limit, now))
    }

    /// What a job asks for that has a right to its nodes: the limit of long small jobs is not for it. Gives that limit back, for what it
    /// takes counts against others.
    pub(crate) fn without_long_jobs(&self, desired: &mut PlanRequest) -> Option<usize> {
        let limit = *self.quota_of.get(&Limited::LongJobs)?;
        if !desired.quotas.contains(&limit) {
            return None;
        }
        let others: Rc<[usize]> = desired.quotas.iter().copied().filter(|at| *at != limit).collect();
        desired.quotas = others;
        Some(limit)
    }

    /// A job that started beyond the limit of long small jobs counts against it.
    pub(crate) fn count_long_job(&mut self, limit: usize, desired: &PlanRequest) {
        let end = self.grid.end_now(desired.length);
        self.quotas[limit].left.add(0, end, -desired.amount());
    }
}
