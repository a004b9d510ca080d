//! EASY backfill with tree best fit, on every event: what Slurm's `sched/backfill`, `select/cons_tres` and
//! `topology/tree` come to with one reservation, at their best (Slurm itself looks every 30 s, 500 jobs deep).
//!
//! The first job that cannot start is given the earliest time at which it could if all ran as long as their limits say,
//! and the servers that it would have then. Others pass it if they end before that time, or elsewhere.

use std::{collections::BTreeSet, time::Duration};

use controller_scheduler::Snapshot;
use controller_topology::NodeIx;
use proto_model::Timestamp;

use super::{
    lot::{Class, Lot},
    queue::{Decision, Queue},
    scheduler::{Act, Rules, Scheduler},
};
use crate::{site::Site, workload::SimJob};

/// Backfill behind one reservation.
pub struct Easy {
    lot: Lot,
    queue: Queue<Class>,
    /// Running jobs by when their limits end them.
    running: BTreeSet<(Timestamp, usize)>,
    ends: Vec<Timestamp>,
    head_start: Duration,
}

/// The first job that cannot start.
struct Head {
    /// The earliest time at which it can start.
    at: Timestamp,
    /// The servers that it would have then, by index.
    kept: Vec<usize>,
}

impl Easy {
    /// The scheduler with all servers free.
    #[must_use]
    pub fn new(site: &Site, rules: &Rules) -> Self {
        Self {
            lot: Lot::new(site),
            queue: Queue::default(),
            running: BTreeSet::new(),
            ends: Vec::new(),
            head_start: rules.easy_head_start,
        }
    }

    fn reserve(lot: &Lot, running: &BTreeSet<(Timestamp, usize)>, class: Class) -> Head {
        let mut future = lot.sketch();
        let mut ends = running.iter().peekable();
        while let Some((at, job)) = ends.next() {
            if let Some(held) = lot.held(*job) {
                future.think_gone(held);
            }
            // All that end at one time do so together.
            if ends.peek().is_some_and(|(next, _)| next == at) {
                continue;
            }
            if let Some(kept) = future.tree(class, &[]) {
                return Head { at: *at, kept };
            }
        }
        // Servers that are closed may open one day.
        Head { at: Timestamp(u64::MAX), kept: Vec::new() }
    }
}

impl Scheduler for Easy {
    fn name(&self) -> &'static str {
        "easy"
    }

    fn submit(&mut self, job: usize, jobs: &[SimJob], now: Timestamp) {
        // As if it had come earlier by so much for every doubling of its GPUs; none can have a million and more.
        let doublings = 20_u32.saturating_sub(jobs[job].gpus().max(1).ilog2());
        self.queue.push(Class::of(&jobs[job]), now.plus(self.head_start.saturating_mul(doublings)), job);
    }

    fn end(&mut self, job: usize, _: &[SimJob], _: Timestamp, _: bool) {
        self.lot.give(job);
        if let Some(end) = self.ends.get(job) {
            self.running.remove(&(*end, job));
        }
    }

    fn node(&mut self, node: NodeIx, open: bool, _: Timestamp) {
        self.lot.set_open(node.index(), open);
    }

    fn pass(&mut self, snapshot: &mut Snapshot, jobs: &[SimJob], now: Timestamp) -> Vec<Act> {
        let mut acts = Vec::new();
        if self.queue.is_empty() {
            return acts;
        }
        if self.ends.len() < jobs.len() {
            self.ends.resize(jobs.len(), Timestamp(0));
        }
        let Self { lot, queue, running, ends, .. } = self;
        let mut head: Option<Head> = None;
        queue.check(|class, job| {
            let limit = jobs[job].limit;
            let servers = match &head {
                None => lot.tree(*class, &[]),
                Some(head) if now.plus(limit) <= head.at => lot.tree(*class, &[]),
                Some(head) => lot.tree(*class, &head.kept),
            };
            let Some(servers) = servers else {
                if head.is_none() {
                    head = Some(Self::reserve(lot, running, *class));
                    return Decision::Stays;
                }
                // Where none fits at all, none of the class does; else a shorter one may.
                return if lot.fits(*class, &[]) { Decision::Stays } else { Decision::ClassStays };
            };
            lot.take(job, *class, &servers);
            ends[job] = now.plus(limit);
            running.insert((ends[job], job));
            let placement = Box::new(lot.placement(snapshot, job, &jobs[job]));
            acts.push(Act::Start { job, placement });
            Decision::Taken
        });
        acts
    }
}
