//! What orders the queue now, as people are told.

use std::time::Duration;

use controller_queue::{Share, Standing};
use proto_model::{Job, TenantName, Timestamp};

use crate::tables::state::State;

/// Waiting jobs whose places are worked out for one answer.
const CHECKED: usize = 10_000;

/// The order of the waiting jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueOrder {
    /// Each with its place, from 1 on, and whether it may start.
    pub rows: Vec<OrderRow>,
    /// Jobs that wait in all, of all tenants.
    pub waiting: usize,
    /// Tenants that used less of late go first among jobs of equal priority.
    pub fair_share: bool,
}

/// One waiting job in the order.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderRow {
    /// 1 is the first.
    pub position: usize,
    /// The job that waits.
    pub job: std::sync::Arc<Job>,
    /// It waits for something else than room.
    pub held: bool,
    /// What puts it there.
    pub standing: Standing,
}

impl State {
    /// The first waiting jobs, of one tenant or of all, at their places among all.
    #[must_use]
    pub fn queue_order(&self, only: Option<&TenantName>, most: usize, now: Timestamp) -> QueueOrder {
        let checked = if only.is_some() { CHECKED } else { most };
        let standings = self.index.queue_state.standings(&self.index.snapshot, now, checked);
        let rows = (1..).zip(standings).filter_map(|(position, standing)| {
            let entry = self.base.jobs.get(&standing.uid)?;
            let own = only.is_none_or(|tenant| *tenant == entry.job.id.tenant);
            let (job, held) = (entry.job.clone(), entry.held);
            own.then_some(OrderRow { position, job, held, standing })
        });
        QueueOrder {
            rows: rows.take(most).collect(),
            waiting: self.index.waiting,
            fair_share: self.index.queue_state.policy().fair_share,
        }
    }

    /// What tenants and their queues have used of late, of one tenant or of all; and how fast that is forgotten.
    #[must_use]
    pub fn shares(&self, only: Option<&TenantName>, now: Timestamp) -> (Vec<Share>, Duration) {
        let mut shares = self.index.queue_state.shares(&self.index.snapshot, now);
        shares.retain(|share| only.is_none_or(|tenant| *tenant == share.tenant));
        (shares, self.index.queue_state.policy().half_life)
    }
}
