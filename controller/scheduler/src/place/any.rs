//! Gangs for which any so many rails will do, the same on every node.
//!
//! The view of the nodes that have enough rails of any kind gives a layout that no set of rails beats. If one set is
//! common to enough nodes of its blocks, that is the answer. Else sets and places are weighed together on the same
//! view, seen through each set ([`Sieve`]): no set needs a view of its own.

use controller_topology::RailSet;

use super::{
    bound::{least_cut, least_in_pod},
    cut::cut,
    fit::Fitter,
    need::{Arrange, Pattern, Within},
    request::{FEW, Fit, FitRequest, LARGE, NEAR, Take, broken},
    sieve::Sieve,
};
use crate::{capacity_index::CapacityIndex, view::View};

/// Blocks that are compared, once one would do.
const BLOCKS: usize = 32;

/// Pods with room on the most common rails that are compared at most.
const PODS: usize = 48;

/// Finds the rails of a gang; its vectors are used again.
#[derive(Debug, Default)]
pub(super) struct AnyRails {
    sieve: Sieve,
    /// What the layout at hand takes of each block.
    needs: Vec<(u32, u32)>,
    /// How many nodes each set of rails is short of in that layout, with its place among the sets; the least first.
    order: Vec<(u32, usize)>,
    /// Pods with what a gang cuts there at least, whatever its rails.
    spots: Vec<(u32, u64)>,
    takes: Vec<Take>,
}

/// A block: idle nodes that would be broken into, the place of its rails among the sets, what it offers on those, its rank, and its
/// number.
type InBlock = (u32, usize, u32, (u32, u32), u32);

/// What is looked for, and where.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) capacity_index: &'a CapacityIndex,
    pub(super) ask: &'a FitRequest,
    /// The sets of rails that would do, with how many nodes offer them, the most common first.
    pub(super) sets: &'a [(RailSet, usize)],
    /// What the best layout on nodes with enough rails of any kind is.
    pub(super) least: Fit,
}

impl Search<'_> {
    /// Nothing cuts so much less that it is worth a longer look.
    fn is_near(&self, fit: Fit) -> bool {
        fit.pods == self.least.pods && fit.cut <= self.least.cut + self.least.cut / NEAR
    }

    fn blocks(&self, pod: u32) -> std::ops::Range<u32> {
        let pod = self.capacity_index.layout().pods[pod as usize];
        pod.first_block..pod.first_block + pod.blocks
    }
}

impl AnyRails {
    /// The best rails and how the gang lies on them, in the fitter's layout, which is at first the one on nodes of any rails.
    /// `None` where that is not known: sets are to be tried one by one.
    pub(super) fn settle(
        &mut self,
        search: &Search<'_>,
        view: &mut View,
        fitter: &mut Fitter,
    ) -> Option<(RailSet, Fit)> {
        let Search { capacity_index, ask, sets, least } = *search;
        // Room for spares comes before the cut, islands are looked at one by one, and gangs that lie apart lie where few
        // nodes are otherwise than where many are.
        if ask.spares > 0
            || ask.arrange == Arrange::Spread
            || sets.iter().any(|(rails, _)| capacity_index.is_split(*rails))
        {
            return None;
        }
        let pipeline = matches!(ask.pattern, Pattern::Pipeline(_));
        if pipeline && !least_pipeline(ask, view.blocks().most(), least) {
            return None;
        }
        self.sieve.begin(capacity_index, sets.iter().fold(RailSet::EMPTY, |all, (rails, _)| all.or(*rails)));
        if let Some(rails) = self.common(search, view, &fitter.takes) {
            return Some((rails, least));
        }
        if let [_] = fitter.takes[..]
            && let Some((rails, block)) = self.in_block(search, view)
        {
            fitter.takes.clear();
            fitter.takes.push(Take { block, nodes: ask.nodes });
            return Some((rails, Fit { pods: 1, cut: 0 }));
        }
        if pipeline { None } else { self.elsewhere(search, view, fitter) }
    }

    /// The best rails in another pod or other pods than those that nodes of any rails would lie in.
    fn elsewhere(
        &mut self,
        search: &Search<'_>,
        view: &mut View,
        fitter: &mut Fitter,
    ) -> Option<(RailSet, Fit)> {
        let Search { capacity_index, ask, least, .. } = *search;
        let flat = capacity_index.layout().is_flat();
        if least.pods == 1
            && ask.within > Within::Leaves
            && !flat
            && let Some(found) = self.in_pod(search, view, fitter)
        {
            return Some(found);
        }
        // Where groups must not be split between leaves all pods are looked at.
        let several = ask.within == Within::Fabric && (flat || ask.leaf_unit == 1);
        several.then(|| self.in_pods(search, view, fitter)).flatten()
    }

    /// Leaves out the nodes of the layout's blocks that lack one of its rails, until [`Self::show`].
    pub(super) fn hide(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &mut View,
        takes: &[Take],
        rails: RailSet,
    ) {
        self.sieve.hide(capacity_index, view, takes.iter().map(|take| take.block), rails);
    }

    /// Puts them in again.
    pub(super) fn show(&mut self, capacity_index: &CapacityIndex, view: &mut View) {
        self.sieve.show(capacity_index, view);
    }

    /// The most common rails that enough nodes of each block of a layout share; else `order`.
    fn common(&mut self, search: &Search<'_>, view: &View, takes: &[Take]) -> Option<RailSet> {
        let Search { capacity_index, ask, sets, .. } = *search;
        self.needs.clear();
        self.needs.extend(takes.iter().map(|take| (take.block, take.nodes)));
        // Split groups may come back to a block.
        self.needs.sort_unstable();
        self.needs.dedup_by(|(block, more), (kept, nodes)| {
            let same = block == kept;
            *nodes += if same { *more } else { 0 };
            same
        });
        let sieve = &mut self.sieve;
        self.needs.retain_mut(|(block, nodes)| {
            sieve.check(capacity_index, view, *block);
            // From here on it is what the block can do without.
            *nodes = view.blocks().count(*block) - *nodes;
            sieve.odd(*block) > *nodes
        });
        self.order.clear();
        let attempts = if ask.nodes > LARGE { FEW } else { sets.len() };
        for (at, (rails, _)) in sets.iter().enumerate().take(attempts) {
            let short = |(block, spare): &(u32, u32)| self.sieve.lost(*block, *rails).saturating_sub(*spare);
            let short: u32 = self.needs.iter().map(short).sum();
            if short == 0 {
                return Some(*rails);
            }
            self.order.push((short, at));
        }
        self.order.sort_unstable();
        None
    }

    /// The most common rails that one block has on enough nodes, and of such blocks the one that fits best.
    fn in_block(&mut self, search: &Search<'_>, view: &View) -> Option<(RailSet, u32)> {
        let Search { capacity_index, ask, sets, .. } = *search;
        let layout = capacity_index.layout();
        let rank =
            |block: u32| (view.pods().count(layout.blocks[block as usize].pod), capacity_index.load(block));
        let mut best: Option<InBlock> = None;
        for (checks, block) in view.blocks().at_least(ask.nodes).enumerate() {
            if checks >= BLOCKS && best.is_some() {
                break;
            }
            self.sieve.check(capacity_index, view, block);
            let left = |rails: RailSet| view.blocks().count(block) - self.sieve.lost(block, rails);
            // Idle nodes that would be broken into.
            let broken = if ask.sparing { broken(capacity_index, view, block) } else { 0 };
            let idle = |rails: RailSet| match ask.sparing {
                true => {
                    (ask.nodes + self.sieve.lost_broken(capacity_index, block, rails)).saturating_sub(broken)
                }
                false => 0,
            };
            let attempts = best.filter(|(idle, ..)| *idle == 0).map_or(sets.len(), |(_, at, ..)| at + 1);
            let fits = (0..attempts).filter(|at| left(sets[*at].0) >= ask.nodes);
            let mut fits = fits.map(|at| (idle(sets[at].0), at));
            // The most common rails, unless others spare more.
            let found = if ask.sparing { fits.min() } else { fits.next() };
            if let Some((idle, at)) = found {
                let found = (idle, at, left(sets[at].0), rank(block), block);
                best = best.filter(|best| *best < found).or(Some(found));
            }
        }
        best.map(|(_, at, _, _, block)| (sets[at].0, block))
    }

    /// One pod: for each set of rails the pods that could still beat what was found are laid out.
    fn in_pod(
        &mut self,
        search: &Search<'_>,
        view: &mut View,
        fitter: &mut Fitter,
    ) -> Option<(RailSet, Fit)> {
        let sets = search.sets;
        self.spots(search, view, fitter);
        let mut best: Option<(u64, usize)> = None;
        for at in 0..self.order.len() {
            let at = self.order[at].1;
            let Some(found) = self.best_pod(search, view, fitter, at, best) else { continue };
            if best.is_none_or(|best| (found, at) < best) {
                best = Some((found, at));
                std::mem::swap(&mut self.takes, &mut fitter.takes);
                if search.is_near(Fit { pods: 1, cut: found }) {
                    break;
                }
            }
        }
        let (cut, at) = best?;
        std::mem::swap(&mut self.takes, &mut fitter.takes);
        Some((sets[at].0, Fit { pods: 1, cut }))
    }

    /// Pods that have room on nodes of any rails, the tightest first.
    fn spots(&mut self, search: &Search<'_>, view: &View, fitter: &mut Fitter) {
        let Search { capacity_index, ask, sets, .. } = *search;
        self.spots.clear();
        let mut room = 0;
        for pod in view.pods().at_least(ask.nodes) {
            let mut lost = 0;
            for block in search.blocks(pod) {
                self.sieve.check(capacity_index, view, block);
                lost += self.sieve.lost(block, sets[0].0);
            }
            self.spots.push((pod, least_in_pod(capacity_index, view, pod, ask, &mut fitter.counts)));
            room += usize::from(view.pods().count(pod) - lost >= ask.nodes);
            if room >= PODS {
                break;
            }
        }
    }

    /// What the gang cuts on one set of rails in the pod that is best for it, in the fitter's layout; `None` if that is
    /// not better than what other sets do.
    fn best_pod(
        &mut self,
        search: &Search<'_>,
        view: &mut View,
        fitter: &mut Fitter,
        at: usize,
        best: Option<(u64, usize)>,
    ) -> Option<u64> {
        let Search { capacity_index, ask, sets, .. } = *search;
        let rails = sets[at].0;
        let least = least_cut(ask, view.blocks().most(), 1);
        let mut here: Option<(u64, u32, u32)> = None;
        fitter.begin(ask);
        for spot in 0..self.spots.len() {
            let (pod, bound) = self.spots[spot];
            let lost: u32 = search.blocks(pod).map(|block| self.sieve.lost(block, rails)).sum();
            let count = view.pods().count(pod) - lost;
            let worse = |bound: u64| {
                best.is_some_and(|best| (bound, at) > best)
                    || here.is_some_and(|here| (bound, count, pod) > here)
            };
            if count < ask.nodes || worse(bound) {
                continue;
            }
            self.sieve.hide(capacity_index, view, search.blocks(pod), rails);
            let bound = least_in_pod(capacity_index, view, pod, ask, &mut fitter.counts);
            if !worse(bound) && fitter.lay(capacity_index, view, &[pod], ask) {
                let found = (cut(capacity_index.layout(), &fitter.takes, ask.pattern), count, pod);
                if here.is_none_or(|here| found < here) {
                    here = Some(found);
                    fitter.keep();
                }
            }
            self.sieve.show(capacity_index, view);
            if here.is_some_and(|(cut, ..)| cut <= least) {
                break;
            }
        }
        let (cut, _, pod) = here?;
        fitter.keep();
        if cut <= least {
            return Some(cut);
        }
        self.sieve.hide(capacity_index, view, search.blocks(pod), rails);
        let cut = fitter.polish(capacity_index, view, &[pod], ask, cut);
        self.sieve.show(capacity_index, view);
        Some(cut)
    }

    /// Several pods: the sets first that are short of the fewest nodes where nodes of any rails would lie.
    fn in_pods(
        &mut self,
        search: &Search<'_>,
        view: &mut View,
        fitter: &mut Fitter,
    ) -> Option<(RailSet, Fit)> {
        let Search { capacity_index, sets, least, .. } = *search;
        let mut best: Option<(Fit, usize)> = None;
        for tried in 0..self.order.len() {
            // Fewer pods are worth any look, less cut only some.
            if tried >= FEW && best.is_some_and(|(fit, _)| fit.pods == least.pods) {
                break;
            }
            let at = self.order[tried].1;
            let found = self.best_pods(search, view, fitter, sets[at].0, |bound| {
                best.is_some_and(|best| (bound, at) > best)
            });
            self.sieve.show(capacity_index, view);
            if let Some(fit) = found
                && best.is_none_or(|best| (fit, at) < best)
            {
                best = Some((fit, at));
                std::mem::swap(&mut self.takes, &mut fitter.takes);
                if search.is_near(fit) {
                    break;
                }
            }
        }
        let (fit, at) = best?;
        std::mem::swap(&mut self.takes, &mut fitter.takes);
        Some((sets[at].0, fit))
    }

    /// The same for one set of rails; what was hidden stays so.
    fn best_pods(
        &mut self,
        search: &Search<'_>,
        view: &mut View,
        fitter: &mut Fitter,
        rails: RailSet,
        worse: impl Fn(Fit) -> bool,
    ) -> Option<Fit> {
        let Search { capacity_index, ask, .. } = *search;
        fitter.begin(ask);
        loop {
            // Pods that were not looked at seem larger than they are: it is over when none of those comes in.
            let (pods, asked) = fitter.plan(capacity_index, view, ask)?;
            let blocks = fitter.planned().flat_map(|pod| search.blocks(pod));
            if self.sieve.hide(capacity_index, view, blocks, rails) {
                continue;
            }
            let cut = least_cut(&asked, view.blocks().most(), pods);
            let bound = Fit { pods: u32::try_from(pods).unwrap_or(u32::MAX), cut };
            return if worse(bound) { None } else { fitter.settle(capacity_index, view, &asked) };
        }
    }
}

/// Whether a pipeline cuts as little as is looked for in one pod. The layouts of others depend on every node, and are
/// searched on each set of rails: where a few nodes are less, one that cuts less is found at times.
fn least_pipeline(ask: &FitRequest, most: u32, found: Fit) -> bool {
    let Pattern::Pipeline(size) = ask.pattern else { return false };
    let groups = size > 0 && size < ask.nodes && ask.nodes.is_multiple_of(size);
    found.cut == 0 || found.pods == 1 && groups && found.cut <= least_cut(ask, most, 1)
}
