//! The order in which waiting jobs are looked at: priority, then fair shares, then age.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, btree_set},
    iter::Peekable,
    sync::Arc,
};

use proto_model::{JobUid, QueueName, Shape, TenantName, Timestamp};

use crate::{book::Book, entry::Entry};

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
    tenant: &'a TenantName,
    queue: Option<&'a QueueName>,
    jobs: Peekable<btree_set::Iter<'a, (Timestamp, JobUid)>>,
}

/// Share of the tenant, whether the queue has its guarantee, share of the queue, age.
type Key = (f64, bool, f64, Timestamp, JobUid);

/// Gives waiting jobs in their order; what is taken counts as used from then on.
pub(crate) struct Order<'a> {
    book: &'a Book,
    shares: BTreeMap<(&'a TenantName, Option<&'a QueueName>), Share>,
    /// What jobs right below a tenant, in no queue, have used.
    direct: BTreeMap<&'a TenantName, f64>,
    /// Those with a right to run, which go first.
    first: Vec<JobUid>,
    entitled: BTreeSet<JobUid>,
    priorities: Vec<Vec<Row<'a>>>,
    level: usize,
}

/// GPUs of a shape in a cluster with pods of so many nodes and nodes of so many GPUs.
pub(crate) fn gpus_of(shape: Shape, pod: u64, node: u64) -> u64 {
    u64::from(shape.pods) * pod * node + u64::from(shape.nodes) * node + u64::from(shape.gpus)
}

impl<'a> Order<'a> {
    /// `size` is how many nodes a pod has and how many GPUs a node.
    pub(crate) fn new(book: &'a Book, entitled: BTreeSet<JobUid>, now: Timestamp, size: (u64, u64)) -> Self {
        let mut first: Vec<JobUid> = entitled.iter().copied().collect();
        first.sort_by_key(|uid| {
            book.jobs.get(uid).map(|entry| (Reverse(entry.priority), entry.submitted, entry.uid))
        });
        let mut order = Self {
            book,
            shares: BTreeMap::new(),
            direct: BTreeMap::new(),
            first,
            entitled,
            priorities: Vec::new(),
            level: 0,
        };
        order.first.reverse();
        let mut last = None;
        for ((priority, tenant, queue), jobs) in &book.waiting {
            if last != Some(priority) {
                order.priorities.push(Vec::new());
                last = Some(priority);
            }
            if let Some(rows) = order.priorities.last_mut() {
                rows.push(Row { tenant, queue: queue.as_ref(), jobs: jobs.iter().peekable() });
            }
        }
        if book.policy.fair_share {
            order.weigh(now, size);
        }
        order
    }

    fn weigh(&mut self, now: Timestamp, (pod, node): (u64, u64)) {
        let book = self.book;
        for (tenant, def) in &book.tenants {
            let weight = f64::from(def.weight.max(1));
            let used = book.marks.ledger.used(tenant, None, now, &book.policy);
            self.shares.insert((tenant, None), Share { used, weight, held: 0, guaranteed: 0 });
            self.direct.insert(tenant, used);
        }
        for ((tenant, queue), def) in &book.queues {
            let used = book.marks.ledger.used(tenant, Some(queue), now, &book.policy);
            let weight = f64::from(def.weight.max(1));
            let guaranteed = gpus_of(def.guaranteed, pod, node);
            self.shares.insert((tenant, Some(queue)), Share { used, weight, held: 0, guaranteed });
            if let Some(root) = self.shares.get_mut(&(tenant, None)) {
                root.used += used;
            }
        }
        for uid in &book.running {
            if let Some(entry) = book.jobs.get(uid)
                && let Some(run) = entry.run()
            {
                let length = book.length(entry).max(now.since(run.started)).as_secs_f64();
                self.charge(entry, run.gpus(), length);
            }
        }
    }

    fn charge(&mut self, entry: &'a Entry, gpus: u64, seconds: f64) {
        let tenant = &entry.id.tenant;
        if entry.queue.is_none()
            && let Some(direct) = self.direct.get_mut(tenant)
        {
            *direct += gpus as f64 * seconds;
        }
        for queue in [None, entry.queue.as_ref()].into_iter().take(1 + usize::from(entry.queue.is_some())) {
            if let Some(share) = self.shares.get_mut(&(tenant, queue)) {
                share.used += gpus as f64 * seconds;
                share.held += gpus;
            }
        }
    }

    /// Whether the job has a right to run now.
    pub(crate) fn is_entitled(&self, uid: JobUid) -> bool {
        self.entitled.contains(&uid)
    }

    /// Whether jobs with a right are still to come.
    pub(crate) fn rights_left(&self) -> bool {
        !self.first.is_empty()
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Option<&'a Arc<Entry>> {
        let book = self.book;
        while let Some(uid) = self.first.pop() {
            if let Some(entry) = book.jobs.get(&uid) {
                self.count(entry);
                return Some(entry);
            }
        }
        loop {
            let rows = self.priorities.get_mut(self.level)?;
            let mut best: Option<(usize, Key)> = None;
            let mut tenant: Option<(&TenantName, f64)> = None;
            for (at, row) in rows.iter_mut().enumerate() {
                while row.jobs.peek().is_some_and(|(_, uid)| self.entitled.contains(uid)) {
                    row.jobs.next();
                }
                let Some((submitted, uid)) = row.jobs.peek().copied() else { continue };
                let share = match tenant {
                    Some((name, share)) if name == row.tenant => share,
                    _ => self.shares.get(&(row.tenant, None)).map_or(0.0, |share| share.key().1),
                };
                tenant = Some((row.tenant, share));
                let (behind, own) = match row.queue {
                    Some(queue) => {
                        self.shares.get(&(row.tenant, Some(queue))).map_or((true, 0.0), Share::key)
                    }
                    None => (true, self.direct.get(row.tenant).copied().unwrap_or(0.0)),
                };
                let key = (share, behind, own, *submitted, *uid);
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
            let Some((_, uid)) = rows[at].jobs.next() else { continue };
            if let Some(entry) = book.jobs.get(uid) {
                self.count(entry);
                return Some(entry);
            }
        }
    }

    fn count(&mut self, entry: &'a Entry) {
        if !self.shares.is_empty() {
            let length = self.book.length(entry).as_secs_f64();
            self.charge(entry, entry.gpus(entry.need.nodes), length);
        }
    }
}
