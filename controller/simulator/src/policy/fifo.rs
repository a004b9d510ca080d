//! Strictly in order: who cannot start holds up all behind.

use std::collections::VecDeque;

use controller_scheduler::Snapshot;
use controller_topology::NodeIx;
use proto_model::Timestamp;

use super::{
    lot::{Class, Lot},
    scheduler::{Act, Scheduler},
};
use crate::{dice::Dice, site::Site, workload::SimJob};

/// First come, first served.
pub struct Fifo {
    lot: Lot,
    queue: VecDeque<usize>,
    /// Servers are drawn; else tree best fit.
    dice: Option<Dice>,
}

impl Fifo {
    /// On the servers of tree best fit.
    #[must_use]
    pub fn tree(site: &Site) -> Self {
        Self { lot: Lot::new(site), queue: VecDeque::new(), dice: None }
    }

    /// Strictly in order, on random servers of those that fit.
    #[must_use]
    pub fn random(site: &Site, seed: u64) -> Self {
        Self { dice: Some(Dice::new(seed, 3)), ..Self::tree(site) }
    }
}

impl Scheduler for Fifo {
    fn name(&self) -> &'static str {
        if self.dice.is_some() { "random" } else { "fifo" }
    }

    fn submit(&mut self, job: usize, _: &[SimJob], _: Timestamp) {
        self.queue.push_back(job);
    }

    fn end(&mut self, job: usize, _: &[SimJob], _: Timestamp, _: bool) {
        self.lot.give(job);
    }

    fn node(&mut self, node: NodeIx, open: bool, _: Timestamp) {
        self.lot.set_open(node.index(), open);
    }

    fn pass(&mut self, snapshot: &mut Snapshot, jobs: &[SimJob], _: Timestamp) -> Vec<Act> {
        let mut acts = Vec::new();
        while let Some(&job) = self.queue.front() {
            let class = Class::of(&jobs[job]);
            let servers = match &mut self.dice {
                Some(dice) => self.lot.random(class, dice),
                None => self.lot.tree(class, &[]),
            };
            let Some(servers) = servers else { break };
            self.queue.pop_front();
            self.lot.take(job, class, &servers);
            let placement = Box::new(self.lot.placement(snapshot, job, &jobs[job]));
            acts.push(Act::Start { job, placement });
        }
        acts
    }
}
