//! The order in which waiting jobs are looked at: priority, then fair shares, then age with the head start of size.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, btree_map},
    iter::Peekable,
    sync::Arc,
};

use proto_model::{JobUid, QueueName, Shape, TenantName, Timestamp};

use crate::{entry::Entry, tables::QueueState};

/// Use of a tenant or queue so far, in GPU-seconds, against its weight.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Share {
    used: f64,
    weight: f64,
    /// GPUs held, and guaranteed to a queue within its tenant.
    held: u64,
    guaranteed: u64,
}

impl Share {
    /// Queues below their guarantee go first.
    fn key(&self) -> (bool, f64) {
        (self.guaranteed == 0 || self.held >= self.guaranteed, self.used / self.weight.max(1.0))
    }
}

/// Jobs of one row.
struct Row<'a> {
    /// The places of its tenant and its queue among the shares.
    tenant: Option<usize>,
    queue: Option<usize>,
    /// Its jobs are in no queue.
    direct: bool,
    jobs: Peekable<btree_map::Iter<'a, (Timestamp, JobUid), Arc<Entry>>>,
}

/// Share of the tenant, whether the queue has its guarantee, share of the queue, age.
type Key = (f64, bool, f64, Timestamp, JobUid);

/// Gives waiting jobs in their order; what is taken counts as used from then on.
pub(crate) struct Order<'a> {
    queue_state: &'a QueueState,
    shares: Vec<Share>,
    of: BTreeMap<(&'a TenantName, Option<&'a QueueName>), usize>,
    /// What jobs right below a tenant, in no queue, have used; by the tenant's place.
    direct: Vec<f64>,
    /// Those with a right to run, which go first.
    first: Vec<JobUid>,
    pub(crate) entitled: BTreeSet<JobUid>,
    priorities: Vec<Vec<Row<'a>>>,
    level: usize,
}

/// GPUs of a shape in a cluster with pods of so many nodes and nodes of so many GPUs.
pub(crate) fn gpus_of(shape: Shape, pod: u64, node: u64) -> u64 {
    u64::from(shape.pods) * pod * node + u64::from(shape.nodes) * node + u64::from(shape.gpus)
}

impl<'a> Order<'a> {
    /// `size` is how many nodes a pod has and how many GPUs a node.
    pub(crate) fn new(
        queue_state: &'a QueueState,
        entitled: BTreeSet<JobUid>,
        now: Timestamp,
        size: (u64, u64),
    ) -> Self {
        let mut first: Vec<JobUid> = entitled.iter().copied().collect();
        first.sort_by_key(|uid| {
            queue_state.jobs.get(uid).map(|entry| (Reverse(entry.priority), entry.submitted, entry.uid))
        });
        first.reverse();
        let mut order = Self {
            queue_state,
            shares: Vec::new(),
            of: BTreeMap::new(),
            direct: Vec::new(),
            first,
            entitled,
            priorities: Vec::new(),
            level: 0,
        };
        if queue_state.policy.fair_share {
            order.weigh(now, size);
        }
        let mut last = None;
        for ((priority, tenant, queue), jobs) in &queue_state.waiting {
            if last != Some(priority) {
                order.priorities.push(Vec::new());
                last = Some(priority);
            }
            let at = |queue: Option<&'a QueueName>| order.of.get(&(tenant, queue)).copied();
            let row = Row {
                tenant: at(None),
                queue: queue.as_ref().and_then(|queue| at(Some(queue))),
                direct: queue.is_none(),
                jobs: jobs.iter().peekable(),
            };
            if let Some(rows) = order.priorities.last_mut() {
                rows.push(row);
            }
        }
        order
    }

    fn weigh(&mut self, now: Timestamp, (pod, node): (u64, u64)) {
        let queue_state = self.queue_state;
        for (tenant, def) in &queue_state.tenants {
            let weight = f64::from(def.weight.max(1));
            let used = queue_state.marks.ledger.used(tenant, None, now, &queue_state.policy);
            self.of.insert((tenant, None), self.shares.len());
            self.shares.push(Share { used, weight, held: 0, guaranteed: 0 });
            self.direct.push(used);
        }
        for ((tenant, queue), def) in &queue_state.queues {
            let used = queue_state.marks.ledger.used(tenant, Some(queue), now, &queue_state.policy);
            let weight = f64::from(def.weight.max(1));
            let guaranteed = gpus_of(def.guaranteed, pod, node);
            self.of.insert((tenant, Some(queue)), self.shares.len());
            self.shares.push(Share { used, weight, held: 0, guaranteed });
            if let Some(root) = self.of.get(&(tenant, None)) {
                self.shares[*root].used += used;
            }
        }
        for (tenant, running) in &queue_state.running_of {
            let root = self.of.get(&(tenant, None)).copied();
            for (entry, gpus) in running.values() {
                let Some(run) = entry.run() else { continue };
                let length = queue_state.length(entry).max(now.since(run.started)).as_secs_f64();
                let queue = entry.queue.as_ref().and_then(|queue| self.of.get(&(tenant, Some(queue))));
                self.charge(root, queue.copied(), entry.queue.is_none(), *gpus, length);
            }
        }
    }

    /// Where the shares of a job's tenant and queue are.
    fn places(&self, entry: &'a Entry) -> (Option<usize>, Option<usize>) {
        let tenant = &entry.id.tenant;
        let queue = entry.queue.as_ref().and_then(|queue| self.of.get(&(tenant, Some(queue))));
        (self.of.get(&(tenant, None)).copied(), queue.copied())
    }

    fn charge(&mut self, tenant: Option<usize>, queue: Option<usize>, direct: bool, gpus: u64, seconds: f64) {
        if let Some(tenant) = tenant.filter(|_| direct) {
            self.direct[tenant] += gpus as f64 * seconds;
        }
        for at in [tenant, queue].into_iter().flatten() {
            self.shares[at].used += gpus as f64 * seconds;
            self.shares[at].held += gpus;
        }
    }

    /// The job that is looked at next; `None` when all were.
    pub(crate) fn next(&mut self) -> Option<&'a Arc<Entry>> {
        let queue_state = self.queue_state;
        while let Some(uid) = self.first.pop() {
            if let Some(entry) = queue_state.jobs.get(&uid) {
                let (tenant, queue) = self.places(entry);
                self.count(entry, tenant, queue);
                return Some(entry);
            }
        }
        loop {
            let rows = self.priorities.get_mut(self.level)?;
            let mut best: Option<(usize, Key)> = None;
            for (at, row) in rows.iter_mut().enumerate() {
                while row.jobs.next_if(|((_, uid), _)| self.entitled.contains(uid)).is_some() {}
                let Some(((turn, uid), _)) = row.jobs.peek() else { continue };
                let share = row.tenant.map_or(0.0, |at| self.shares[at].key().1);
                let (behind, own) = if row.direct {
                    (true, row.tenant.map_or(0.0, |at| self.direct[at]))
                } else {
                    row.queue.map_or((true, 0.0), |at| self.shares[at].key())
                };
                let key = (share, behind, own, *turn, *uid);
                let less = best.as_ref().is_none_or(|(_, best)| {
                    key.0
                        .total_cmp(&best.0)
                        .then(key.1.cmp(&best.1))
                        .then(key.2.total_cmp(&best.2))
                        .then((key.3, key.4).cmp(&(best.3, best.4)))
                        .is_lt()
                });
                if less {
                    best = Some((at, key));
                }
            }
            let Some((at, _)) = best else {
                self.level += 1;
                continue;
            };
            let row = &mut rows[at];
            let (tenant, queue) = (row.tenant, row.queue);
            let Some((_, entry)) = row.jobs.next() else { continue };
            self.count(entry, tenant, queue);
            return Some(entry);
        }
    }

    /// What put a job where it is that was given last: without what it is counted with itself.
    pub(crate) fn factors(&self, entry: &'a Entry) -> Factors {
        if self.shares.is_empty() {
            return Factors::default();
        }
        let (tenant, queue) = self.places(entry);
        let gpus = entry.gpus(entry.need.nodes);
        let own = gpus as f64 * self.queue_state.length(entry).as_secs_f64();
        let without = |at: usize| {
            let share = self.shares[at];
            Share { used: (share.used - own).max(0.0), held: share.held.saturating_sub(gpus), ..share }.key()
        };
        let (behind, used) = match (queue, tenant) {
            (Some(at), _) => without(at),
            (None, Some(at)) => (true, (self.direct[at] - own).max(0.0)),
            (None, None) => (true, 0.0),
        };
        let share = tenant.map_or(0.0, |at| without(at).1);
        Factors { tenant: share, below_guarantee: !behind, queue: used }
    }

    fn count(&mut self, entry: &Entry, tenant: Option<usize>, queue: Option<usize>) {
        if !self.shares.is_empty() {
            let length = self.queue_state.length(entry).as_secs_f64();
            self.charge(tenant, queue, entry.queue.is_none(), entry.gpus(entry.need.nodes), length);
        }
    }
}

/// The factors of fair shares of one job.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Factors {
    pub(crate) tenant: f64,
    pub(crate) below_guarantee: bool,
    pub(crate) queue: f64,
}
