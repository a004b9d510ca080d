//! What orders the queue now, factor by factor, for people: the code of the order itself says it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use controller_scheduler::Snapshot;
use proto_model::{JobUid, QueueName, TenantName, Timestamp};

use crate::{
    entry::{Entry, Run},
    ground::Ground,
    order::{Factors, Order, gpus_of},
    tables::QueueState,
};

/// Why a waiting job stands where it does: compared from the first factor to the last.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The job that waits.
    pub uid: JobUid,
    /// It has a right to run, by its tenant's guarantee: such jobs go first.
    pub entitled: bool,
    /// The job's priority: a higher one goes first.
    pub priority: i32,
    /// GPU-seconds that its tenant has used of late against its weight, with those of jobs that run and that are ahead; less goes first.
    pub tenant_share: f64,
    /// Its queue holds less than its guarantee: such queues of a tenant go first.
    pub below_guarantee: bool,
    /// As `tenant_share`, of its queue, or of the tenant's jobs that are in none.
    pub queue_share: f64,
    /// When it was submitted; older goes first.
    pub submitted: Timestamp,
    /// What the size of its gang is worth beside that.
    pub head_start: Duration,
}

/// What a tenant, or one of its queues, has used of late.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// The tenant whose use this is.
    pub tenant: TenantName,
    /// Which queue; `None`: the tenant as a whole.
    pub queue: Option<QueueName>,
    /// Share of what is free, against its siblings'.
    pub weight: u32,
    /// GPU-seconds of jobs that have ended; what is long ago counts less.
    pub used: f64,
    /// GPUs that its jobs hold, those of queues within it too.
    pub held: u64,
    /// GPUs that it can always have.
    pub guaranteed: u64,
    /// The number of its jobs that wait.
    pub waiting: u32,
    /// Jobs that hold a place.
    pub running: u32,
}

impl QueueState {
    /// The first waiting jobs in their order, with what puts them there.
    #[must_use]
    pub fn standings(&self, snapshot: &Snapshot, now: Timestamp, most: usize) -> Vec<Standing> {
        let privates = &self.marks.privates;
        let entitled = if self.policy.reclaim { privates.entitled(self) } else { Default::default() };
        let mut order = Order::new(self, entitled, now, self.sizes(snapshot));
        let mut standings = Vec::new();
        while standings.len() < most
            && let Some(entry) = order.next()
        {
            let Factors { tenant, below_guarantee, queue } = order.factors(entry);
            standings.push(Standing {
                uid: entry.uid,
                entitled: order.entitled.contains(&entry.uid),
                priority: entry.priority,
                tenant_share: tenant,
                below_guarantee,
                queue_share: queue,
                submitted: entry.submitted,
                head_start: self.head_start_of(entry),
            });
        }
        standings
    }

    /// What the size of a gang is worth in time.
    fn head_start_of(&self, entry: &Entry) -> Duration {
        let doublings = entry.gpus(entry.need.nodes).max(1).ilog2();
        self.policy.head_start.saturating_mul(doublings)
    }

    /// How many nodes a pod has, and how many GPUs a node.
    fn sizes(&self, snapshot: &Snapshot) -> (u64, u64) {
        let mut ground = Arc::clone(&self.cache.ground);
        Ground::update(&mut ground, snapshot);
        (u64::from(ground.largest_pod()), u64::from(ground.node_gpus))
    }

    /// What every tenant, and each of its queues, has used of late.
    #[must_use]
    pub fn shares(&self, snapshot: &Snapshot, now: Timestamp) -> Vec<Share> {
        let (pod, node) = self.sizes(snapshot);
        let used = |tenant: &TenantName, queue: Option<&QueueName>| {
            self.marks.ledger.used(tenant, queue, now, &self.policy)
        };
        let mut rows: BTreeMap<(TenantName, Option<QueueName>), Share> = BTreeMap::new();
        for (tenant, def) in &self.tenants {
            let queues = self.queues.keys().filter(|(owner, _)| owner == tenant);
            let within: f64 = queues.map(|(_, queue)| used(tenant, Some(queue))).sum();
            let share = Share {
                tenant: tenant.clone(),
                queue: None,
                weight: def.weight,
                used: used(tenant, None) + within,
                held: 0,
                guaranteed: gpus_of(def.guaranteed, pod, node),
                waiting: 0,
                running: 0,
            };
            rows.insert((tenant.clone(), None), share);
        }
        for ((tenant, queue), def) in &self.queues {
            let share = Share {
                tenant: tenant.clone(),
                queue: Some(queue.clone()),
                weight: def.weight,
                used: used(tenant, Some(queue)),
                held: 0,
                guaranteed: gpus_of(def.guaranteed, pod, node),
                waiting: 0,
                running: 0,
            };
            rows.insert((tenant.clone(), Some(queue.clone())), share);
        }
        for entry in self.jobs.values() {
            for queue in self.path(entry).into_iter().flatten() {
                let Some(row) = rows.get_mut(&(entry.id.tenant.clone(), queue)) else { continue };
                match entry.run() {
                    Some(run) => (row.held, row.running) = (row.held + Run::gpus(run), row.running + 1),
                    None => row.waiting += 1,
                }
            }
        }
        rows.into_values().collect()
    }
}
