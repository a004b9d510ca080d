//! Where a gang lies: how many nodes of which blocks, in rank order.
//!
//! Fewest pods first, then the least weighted cut, then the best fit, then the least loaded uplinks. One block that
//! holds the gang, or one pod, is found among all; of several pods the largest are taken and the rest goes where it fits
//! best, and where pods have several blocks, or groups would be split, other sets of as many pods are tried.

use std::cmp::Reverse;

use super::{
    bound::{least_cut, least_in_pod},
    cut::cut,
    groups::Groups,
    need::{Arrange, Pattern, Within},
    request::{Fit, FitRequest, Take, broken, whole},
};
use crate::{capacity_index::CapacityIndex, view::View};

/// Pods of one gang's size that are compared at most.
const CHECKS: usize = 24;

/// Pods beyond the largest that are tried in the place of one of those.
const SWAPS: usize = 12;

/// Trials for one gang at most, and for one of more than [`SMALL`] nodes.
const TRIALS: [usize; 2] = [48, 4];

/// Gangs of so many nodes are laid out with more care, because there one connection more counts.
const SMALL: u32 = 64;

/// Pipelines of so many nodes get a last touch.
const PIPELINE: u32 = 32;

/// Pods of a gang for which other sets are tried at most: of more, one does not count for much.
pub(super) const SWAPPED: usize = 8;

/// Lays out gangs; its vectors are used again.
#[derive(Debug, Default)]
pub(crate) struct Fitter {
    /// The layout that was found, in rank order.
    pub(crate) takes: Vec<Take>,
    best: Vec<Take>,
    /// Blocks with what they offer.
    pub(super) parts: Vec<(u32, u32)>,
    /// Pods with what they can take in whole units, the largest first.
    pool: Vec<(u32, u32)>,
    order: Vec<u32>,
    set: Vec<u32>,
    pub(super) counts: Vec<u32>,
    groups: Groups,
}

impl Fitter {
    /// The best layout, in `takes`; `None` if there is none.
    pub(crate) fn fit(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        ask: &FitRequest,
    ) -> Option<Fit> {
        self.takes.clear();
        self.begin(ask);
        if view.pods().total() < u64::from(ask.nodes) {
            return None;
        }
        if ask.arrange == Arrange::Spread {
            return super::spread::spread(capacity_index, view, ask, &mut self.takes);
        }
        // Where there is room for the spares too, it is taken.
        let most = [ask.nodes + ask.spares, ask.nodes];
        for wanted in &most[usize::from(ask.spares == 0)..] {
            if self.one_block(capacity_index, view, ask, *wanted) {
                return Some(Fit { pods: 1, cut: 0 });
            }
            let found = (ask.within > Within::Leaves)
                .then(|| self.one_pod(capacity_index, view, ask, *wanted))
                .flatten();
            if found.is_some() {
                return found;
            }
        }
        if ask.within == Within::Fabric && ask.beat.is_none() {
            self.several(capacity_index, view, ask)
        } else {
            None
        }
    }

    /// Another gang, or other rails: what searches may take begins anew.
    pub(super) fn begin(&mut self, ask: &FitRequest) {
        self.groups.begin(ask.nodes);
    }

    /// Exchanges the layout at hand and the best one so far.
    pub(super) fn keep(&mut self) {
        std::mem::swap(&mut self.takes, &mut self.best);
    }

    fn one_block(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        ask: &FitRequest,
        wanted: u32,
    ) -> bool {
        let layout = capacity_index.layout();
        let rank =
            |block: u32| (view.pods().count(layout.blocks[block as usize].pod), capacity_index.load(block));
        let best = if ask.sparing {
            let idle = |block: u32| ask.nodes.saturating_sub(broken(capacity_index, view, block));
            let fits = view.blocks().at_least(wanted).take(CHECKS);
            fits.min_by_key(|block| (idle(*block), view.blocks().count(*block), rank(*block), *block))
        } else {
            view.blocks().best_fit(wanted, rank)
        };
        let Some(block) = best else { return false };
        self.takes.push(Take { block, nodes: ask.nodes });
        true
    }

    /// Moves nodes between the blocks of a layout to where others are already, if that cuts nothing more; how many idle
    /// nodes are broken into then.
    fn spare(&mut self, capacity_index: &CapacityIndex, view: &View, ask: &FitRequest) -> u32 {
        if !ask.sparing {
            return 0;
        }
        self.counts.clear();
        self.counts.extend(self.takes.iter().map(|take| broken(capacity_index, view, take.block)));
        let unit = ask.leaf_unit.max(ask.pod_unit).max(ask.leaf_preferred).max(ask.pod_preferred);
        if ask.pattern == Pattern::Ring && unit == 1 {
            for to in 0..self.takes.len() {
                for from in 0..self.takes.len() {
                    let room = self.counts[to].saturating_sub(self.takes[to].nodes);
                    let over = self.takes[from].nodes.saturating_sub(self.counts[from].max(1));
                    let moved = if from == to { 0 } else { room.min(over) };
                    self.takes[to].nodes += moved;
                    self.takes[from].nodes -= moved;
                }
            }
        }
        self.takes.iter().zip(&self.counts).map(|(take, broken)| take.nodes.saturating_sub(*broken)).sum()
    }

    fn one_pod(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        ask: &FitRequest,
        wanted: u32,
    ) -> Option<Fit> {
        if capacity_index.layout().is_flat() {
            return None;
        }
        let least = least_cut(ask, view.blocks().most(), 1);
        let mut best = None;
        for pod in view.pods().at_least(wanted).take(CHECKS) {
            let bound = least_in_pod(capacity_index, view, pod, ask, &mut self.counts);
            let count = view.pods().count(pod);
            let worse =
                best.is_some_and(
                    |best: (u64, u32, u32, u32)| {
                        if ask.sparing { bound > best.0 } else { (bound, 0, count, pod) > best }
                    },
                );
            if worse
                || ask.beat.is_some_and(|beat| bound >= beat)
                || !self.lay(capacity_index, view, &[pod], ask)
            {
                continue;
            }
            let idle = self.spare(capacity_index, view, ask);
            let found = (cut(capacity_index.layout(), &self.takes, ask.pattern), idle, count, pod);
            if best.is_none_or(|best| found < best) {
                self.keep();
                best = Some(found);
            }
            if found.0 <= least && idle == 0 {
                break;
            }
        }
        let (cut, .., pod) = best?;
        self.keep();
        let cut = if cut > least { self.polish(capacity_index, view, &[pod], ask, cut) } else { cut };
        Some(Fit { pods: 1, cut })
    }

    fn several(&mut self, capacity_index: &CapacityIndex, view: &View, ask: &FitRequest) -> Option<Fit> {
        let (_, ask) = self.plan(capacity_index, view, ask)?;
        self.settle(capacity_index, view, &ask)
    }

    /// The fewest pods that will do, as a first set; and what is asked of them: whole groups, where that takes no more.
    pub(super) fn plan(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        ask: &FitRequest,
    ) -> Option<(usize, FitRequest)> {
        let flat = capacity_index.layout().is_flat();
        let unit = if flat { ask.pod_unit.max(ask.leaf_unit) } else { ask.pod_unit };
        let pods = if !flat && ask.leaf_unit > 1 {
            self.pool_of_all(capacity_index, view, ask)?
        } else {
            self.pool_of_largest(capacity_index, view, ask, unit)?
        };
        // Groups that should stay whole do if that takes no more pods.
        let preferred = match ask.pattern {
            // A pipeline weighs its groups over all pods together.
            Pattern::Pipeline(_) => 1,
            _ => ask.pod_preferred.max(if flat { ask.leaf_preferred } else { 1 }),
        };
        let fits: u32 = self.pool[..pods].iter().map(|(size, _)| whole(*size, preferred)).sum();
        let unit = if preferred > unit && preferred.is_multiple_of(unit) && fits >= ask.nodes {
            preferred
        } else {
            unit
        };
        let ask = FitRequest { pod_unit: unit, ..*ask };
        self.set.clear();
        self.set.extend(self.pool[..pods].iter().map(|(_, pod)| *pod));
        self.tighten(capacity_index, view, &ask);
        Some((pods, ask))
    }

    /// The pods that the plan has looked at.
    pub(super) fn planned(&self) -> impl Iterator<Item = u32> {
        self.pool.iter().map(|(_, pod)| *pod).chain(self.set.iter().copied())
    }

    /// Lays the gang out over the planned pods, or over others as many that are better.
    pub(super) fn settle(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        ask: &FitRequest,
    ) -> Option<Fit> {
        let (flat, pods) = (capacity_index.layout().is_flat(), self.set.len());
        let set = std::mem::take(&mut self.set);
        let laid = self.lay(capacity_index, view, &set, ask);
        self.set = set;
        if !laid {
            return None;
        }
        let mut least = cut(capacity_index.layout(), &self.takes, ask.pattern);
        let other = !flat || matches!(ask.pattern, Pattern::Pipeline(_));
        if other && pods <= SWAPPED && least > least_cut(ask, view.blocks().most(), pods) {
            least = self.swap(capacity_index, view, ask, least);
            let set = std::mem::take(&mut self.set);
            least = self.polish(capacity_index, view, &set, ask, least);
            self.set = set;
        }
        self.spare(capacity_index, view, ask);
        Some(Fit { pods: u32::try_from(pods).unwrap_or(u32::MAX), cut: least })
    }

    /// The largest pods, enough for the gang and some more; how many are enough.
    fn pool_of_largest(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        ask: &FitRequest,
        unit: u32,
    ) -> Option<usize> {
        let (bins, layout) = (view.pods(), capacity_index.layout());
        let (mut sum, mut enough, mut more) = (0_u64, 0, SWAPS);
        let load = |pod: u32| {
            let pod = layout.pods[pod as usize];
            (pod.first_block..pod.first_block + pod.blocks)
                .map(|block| capacity_index.load(block))
                .sum::<u32>()
        };
        let mut order = std::mem::take(&mut self.order);
        bins.largest(&mut order, load, |pod| {
            if sum >= u64::from(ask.nodes) {
                more -= 1;
                return more == 0;
            }
            sum += u64::from(whole(bins.count(pod), unit));
            enough += 1;
            false
        });
        self.pool.clear();
        self.pool.extend(order.iter().map(|pod| (whole(bins.count(*pod), unit), *pod)));
        self.order = order;
        (sum >= u64::from(ask.nodes)).then_some(enough)
    }

    /// The same where groups must not be split between leaves: what a pod can take depends on all of its blocks.
    fn pool_of_all(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        ask: &FitRequest,
    ) -> Option<usize> {
        self.pool.clear();
        for (at, pod) in (0..).zip(&capacity_index.layout().pods) {
            let blocks = pod.first_block..pod.first_block + pod.blocks;
            let size = blocks.map(|block| whole(view.blocks().count(block), ask.leaf_unit)).sum();
            let size = whole(size, ask.pod_unit);
            if size > 0 {
                self.pool.push((size, at));
            }
        }
        self.pool.sort_unstable_by_key(|(size, pod)| (Reverse(*size), *pod));
        let mut sum = 0_u64;
        let enough = self.pool.iter().position(|(size, _)| {
            sum += u64::from(*size);
            sum >= u64::from(ask.nodes)
        });
        Some(enough? + 1)
    }

    /// Puts the smallest pod that takes what the others leave in the place of the last.
    fn tighten(&mut self, capacity_index: &CapacityIndex, view: &View, ask: &FitRequest) {
        let Some((last, others)) = self.set.split_last() else { return };
        let held: u32 = others.iter().map(|pod| self.size(capacity_index, view, *pod, ask)).sum();
        let rest = ask.nodes.saturating_sub(held);
        let load = |pod: u32| {
            (
                others.contains(&pod),
                capacity_index.load(capacity_index.layout().pods[pod as usize].first_block),
            )
        };
        let best = if ask.leaf_unit > 1 && !capacity_index.layout().is_flat() {
            let fits = self.pool.iter().rev().filter(|(size, pod)| *size >= rest && !others.contains(pod));
            fits.min_by_key(|(size, pod)| (*size, *pod)).map(|(_, pod)| *pod)
        } else {
            view.pods().best_fit(rest, load).filter(|pod| !others.contains(pod))
        };
        let best = best.unwrap_or(*last);
        let at = self.set.len() - 1;
        self.set[at] = best;
    }

    /// What a pod can take in whole units.
    fn size(&self, capacity_index: &CapacityIndex, view: &View, pod: u32, ask: &FitRequest) -> u32 {
        if ask.leaf_unit > 1 && !capacity_index.layout().is_flat() {
            let size = self.pool.iter().find(|(_, other)| *other == pod).map_or(0, |(size, _)| *size);
            return whole(size, ask.pod_unit);
        }
        whole(view.pods().count(pod), ask.pod_unit)
    }

    /// Tries other sets of as many pods; what the best one cuts.
    fn swap(&mut self, capacity_index: &CapacityIndex, view: &View, ask: &FitRequest, mut least: u64) -> u64 {
        self.keep();
        let mut set = std::mem::take(&mut self.set);
        let most = self.pool.len().min(set.len() + SWAPS);
        let mut trials = TRIALS[usize::from(ask.nodes > SMALL)];
        while trials > 0 {
            let mut better = None;
            for at in 0..set.len().min(SWAPS) {
                let old = set[at];
                for other in 0..most {
                    let pod = self.pool[other].1;
                    if trials == 0 || set.contains(&pod) {
                        continue;
                    }
                    trials -= 1;
                    set[at] = pod;
                    if self.lay(capacity_index, view, &set, ask) {
                        let found = cut(capacity_index.layout(), &self.takes, ask.pattern);
                        if found < least {
                            least = found;
                            better = Some((at, pod));
                            self.keep();
                        }
                    }
                }
                set[at] = old;
            }
            match better {
                Some((at, pod)) => set[at] = pod,
                None => break,
            }
        }
        self.set = set;
        self.keep();
        least
    }

    /// The last touch to a small gang on its set of pods; what it cuts then.
    pub(super) fn polish(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        set: &[u32],
        ask: &FitRequest,
        least: u64,
    ) -> u64 {
        if ask.nodes > SMALL {
            return least;
        }
        match ask.pattern {
            // Groups that must not be split are not touched any more.
            Pattern::AllToAll if set.len() > 1 => self.turn(capacity_index, view, set, ask, least),
            Pattern::Pipeline(size)
                if ask.nodes <= PIPELINE && size > 1 && ask.leaf_unit.max(ask.pod_unit) == 1 =>
            {
                self.best.clone_from(&self.takes);
                if self.groups.improve(capacity_index, view, set, size, ask, &mut self.takes) {
                    let found = cut(capacity_index.layout(), &self.takes, ask.pattern);
                    if found < least {
                        return found;
                    }
                    self.keep();
                }
                least
            }
            _ => least,
        }
    }

    /// Lets each pod in turn be the one that is not filled.
    fn turn(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        set: &[u32],
        ask: &FitRequest,
        mut least: u64,
    ) -> u64 {
        self.keep();
        for last in 0..set.len() {
            self.order.clear();
            self.order.extend(set.iter().copied().filter(|pod| *pod != set[last]));
            self.order.push(set[last]);
            if self.lay_in_order(capacity_index, view, ask) {
                let found = cut(capacity_index.layout(), &self.takes, ask.pattern);
                if found < least {
                    least = found;
                    self.keep();
                }
            }
        }
        self.keep();
        least
    }

    /// Lays the gang out over a set of pods, in `takes`. False if they are too small.
    pub(super) fn lay(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        set: &[u32],
        ask: &FitRequest,
    ) -> bool {
        self.takes.clear();
        let apart = set.len() > 1 && (ask.pod_unit > 1 || ask.pattern == Pattern::AllToAll);
        if !apart {
            return self.pour(capacity_index, view, set, ask.nodes, ask);
        }
        let ring = ask.pattern == Pattern::Ring && set.len() <= SWAPPED && !capacity_index.layout().is_flat();
        if ring && self.lay_ring(capacity_index, view, set, ask) {
            return true;
        }
        self.takes.clear();
        // The largest first, so that what talks to all has most of all beside it.
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(set);
        let most = |pod: u32| {
            let pod = capacity_index.layout().pods[pod as usize];
            (pod.first_block..pod.first_block + pod.blocks).map(|block| view.blocks().count(block)).max()
        };
        // Of equal ones the one that has it on the fewest leaves. Where each pod is one block they are in order already.
        if !capacity_index.layout().is_flat() {
            order.sort_by_key(|pod| Reverse((self.size(capacity_index, view, *pod, ask), most(*pod))));
        }
        self.order = order;
        self.lay_in_order(capacity_index, view, ask)
    }

    /// Fills the pods of `order` one after the other, each as far as whole units go. False if something is left over.
    fn lay_in_order(&mut self, capacity_index: &CapacityIndex, view: &View, ask: &FitRequest) -> bool {
        self.takes.clear();
        let order = std::mem::take(&mut self.order);
        let mut rest = ask.nodes;
        let mut fits = true;
        for pod in &order {
            let nodes = rest.min(self.size(capacity_index, view, *pod, ask));
            fits &= nodes > 0 && self.pour(capacity_index, view, &[*pod], nodes, ask);
            rest -= nodes;
        }
        self.order = order;
        fits && rest == 0
    }

    /// Takes nodes from the blocks of some pods: from as few as can be, the last one the tightest.
    pub(super) fn pour(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        set: &[u32],
        nodes: u32,
        ask: &FitRequest,
    ) -> bool {
        if let Pattern::Pipeline(size) = ask.pattern
            && size > 1
            && size.is_multiple_of(ask.leaf_unit)
        {
            return self.groups.lay(capacity_index, view, set, (nodes, size), ask, &mut self.takes);
        }
        self.gather(capacity_index, view, set);
        let layout = capacity_index.layout();
        let start = self.takes.len();
        // What is desired must not split what must stay whole: a pipeline's groups may be of any size beside those.
        let preferred = ask.leaf_preferred;
        let sound = preferred > ask.leaf_unit && preferred.is_multiple_of(ask.leaf_unit);
        let done = sound && nodes.is_multiple_of(preferred) && self.fill(start, nodes, preferred);
        if !done && !self.fill(start, nodes, ask.leaf_unit) {
            return false;
        }
        self.takes[start..].sort_unstable_by_key(|take| (layout.blocks[take.block as usize].pod, take.block));
        true
    }

    /// The blocks of some pods that offer anything, the largest first; into `parts`.
    pub(super) fn gather(&mut self, capacity_index: &CapacityIndex, view: &View, set: &[u32]) {
        let layout = capacity_index.layout();
        self.parts.clear();
        for pod in set {
            let pod = layout.pods[*pod as usize];
            let blocks = pod.first_block..pod.first_block + pod.blocks;
            self.parts.extend(
                blocks.map(|block| (view.blocks().count(block), block)).filter(|(count, _)| *count > 0),
            );
        }
        self.parts
            .sort_unstable_by_key(|(count, block)| (Reverse(*count), capacity_index.load(*block), *block));
    }

    fn fill(&mut self, start: usize, nodes: u32, unit: u32) -> bool {
        self.takes.truncate(start);
        let mut rest = nodes;
        for at in 0..self.parts.len() {
            let (count, block) = self.parts[at];
            let size = whole(count, unit);
            if size >= rest {
                let tight = self.parts[at..].iter().rev().find(|(count, _)| whole(*count, unit) >= rest);
                self.takes.push(Take { block: tight.map_or(block, |(_, block)| *block), nodes: rest });
                return true;
            }
            if size == 0 {
                return false;
            }
            self.takes.push(Take { block, nodes: size });
            rest -= size;
        }
        false
    }
}
