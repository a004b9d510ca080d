//! Gangs whose nodes are not all alike: which nodes become nodes of which component.
//!
//! A node can often be of several components. Whether some nodes make the whole gang is a question of matching: nodes are counted by the
//! set of components that each could be of, and [`Matching`] gives as many of them a component as can have one. By that nothing that fits
//! is missed: in no block, no pod, nor in the whole fabric. (The sets of nodes that can be matched are the independent sets of a
//! transversal matroid, Edmonds and Fulkerson 1965: whoever takes nodes in the order of their worth, each that can be matched beside those
//! before, takes the best set.)
//!
//! One block that holds the gang before one pod, one pod before several. Of those that do, first the one that breaks into the fewest idle
//! nodes, then the one that it fills best. How few pods of several will do is searched greedily, and where pods
//! are few exactly.

use std::{cmp::Reverse, collections::BTreeMap};

use controller_topology::RailSet;

use super::{
    Attempt, Need, Placer, RailNeed, Take, could,
    cut::cut,
    need::{Pattern, Within},
    order,
    request::{FEW, LARGE},
};
use crate::{
    bins::bits,
    capacity_index::{CapacityIndex, Pick, WORD, ones},
    choice::{Choice, Time},
    view::{Idle, Profile, View},
};

/// Pods of one gang's size that are laid out and compared at most.
const CHECKS: usize = 24;

/// Sets of pods of one size that are all tried at most, where fewer pods than were found at first might do.
const WAYS: u64 = 256;

/// Components of a gang, as a bitmap by their place in the list.
type Set = u8;

/// Nodes of one block that could be of the same components.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Supply {
    block: u32,
    /// Nobody is on them: those that others are on go first.
    idle: bool,
    set: Set,
    nodes: u32,
}

/// Gives nodes components, as many as can have one.
#[derive(Debug, Clone, Default)]
struct Matching {
    /// Nodes that components still lack.
    demand: Vec<u32>,
    /// Per set of components the nodes with that choice that each of them has.
    has: BTreeMap<Set, Vec<u32>>,
}

impl Matching {
    fn of(need: &Need) -> Self {
        Self { demand: need.components.iter().map(|one| one.nodes).collect(), has: BTreeMap::new() }
    }

    fn is_whole(&self) -> bool {
        self.demand.iter().all(|demand| *demand == 0)
    }

    /// Takes as many of some nodes as can have a component beside those that were taken before; how many.
    fn take(&mut self, set: Set, nodes: u32) -> u32 {
        let mut taken = 0;
        while taken < nodes {
            let Some(path) = self.path(set) else { break };
            taken += self.shift(set, &path, nodes - taken);
        }
        taken
    }

    /// The way from nodes of a set to a component whose demand is not met: components, each with the set of the nodes that it gets; each but the
    /// last gives nodes of the next one's set away.
    fn path(&self, set: Set) -> Option<Vec<(Set, usize)>> {
        let mut before: Vec<Option<(Set, Option<usize>)>> = vec![None; self.demand.len()];
        let mut queue: Vec<usize> = Vec::new();
        let members = |set: Set| (0..self.demand.len()).filter(move |at| set >> at & 1 == 1);
        for at in members(set) {
            before[at] = Some((set, None));
            queue.push(at);
        }
        let mut next = 0;
        while let Some(at) = queue.get(next).copied() {
            next += 1;
            if self.demand[at] > 0 {
                let (mut path, mut here) = (Vec::new(), Some(at));
                while let Some((set, from)) = here.and_then(|at| before[at]) {
                    path.extend(here.map(|at| (set, at)));
                    here = from;
                }
                path.reverse();
                return Some(path);
            }
            for (other, has) in &self.has {
                if has[at] == 0 {
                    continue;
                }
                for to in members(*other) {
                    if before[to].is_none() {
                        before[to] = Some((*other, Some(at)));
                        queue.push(to);
                    }
                }
            }
        }
        None
    }

    /// Moves nodes along a path, `most` at most; how many.
    fn shift(&mut self, set: Set, path: &[(Set, usize)], most: u32) -> u32 {
        let Some((_, last)) = path.last().copied() else { return 0 };
        // Each component but the last gives away what the next one gets.
        let gives = path.windows(2).map(|pair| self.has.get(&pair[1].0).map_or(0, |has| has[pair[0].1]));
        let moved = gives.min().unwrap_or(u32::MAX).min(self.demand[last]).min(most);
        let count = self.demand.len();
        for (at, (of, component)) in path.iter().enumerate() {
            let of = if at == 0 { set } else { *of };
            self.has.entry(of).or_insert_with(|| vec![0; count])[*component] += moved;
            if let Some((_, giver)) = at.checked_sub(1).and_then(|before| path.get(before))
                && let Some(has) = self.has.get_mut(&of)
            {
                has[*giver] -= moved;
            }
        }
        self.demand[last] -= moved;
        moved
    }
}

/// Where a gang would lie.
struct Allocation {
    /// What it takes of each supply, in the order of blocks.
    taken: Vec<Supply>,
    matching: Matching,
    /// Idle nodes that it takes.
    idle: u32,
}

/// All that is known of the nodes for one set of rails.
struct Candidates<'a> {
    capacity_index: &'a CapacityIndex,
    need: &'a Need,
    time: Time,
    /// Per component the nodes that could be of it, word by word.
    fits: Vec<Vec<u64>>,
    /// The nodes that fit, counted by block, idleness and set of components, in the order of blocks.
    supply: Vec<Supply>,
}

impl Candidates<'_> {
    /// Counts the nodes of each block.
    fn count(&mut self) {
        let blocks = self.capacity_index.layout().blocks.len() as u32;
        for block in 0..blocks {
            let mut sums: BTreeMap<(bool, Set), u32> = BTreeMap::new();
            for word in self.capacity_index.block_words(block) {
                self.each_set(word, |set, nodes| {
                    let idle = self.capacity_index.word(word).idle;
                    for (is_idle, nodes) in [(false, nodes & !idle), (true, nodes & idle)] {
                        if nodes != 0 {
                            *sums.entry((is_idle, set)).or_default() += nodes.count_ones();
                        }
                    }
                });
            }
            let supply = sums.into_iter().map(|((idle, set), nodes)| Supply { block, idle, set, nodes });
            self.supply.extend(supply);
        }
    }

    /// The nodes of a word by the components that they could be of.
    fn each_set(&self, word: u32, mut report: impl FnMut(Set, u64)) {
        let mut rest = self.fits.iter().fold(0, |all, fits| all | fits[word as usize]);
        while rest != 0 {
            let first = rest & rest.wrapping_neg();
            let (mut set, mut same) = (0, rest);
            for (at, fits) in self.fits.iter().enumerate() {
                let fits = fits[word as usize];
                if fits & first != 0 {
                    set |= 1 << at;
                    same &= fits;
                } else {
                    same &= !fits;
                }
            }
            report(set, same);
            rest &= !same;
        }
    }

    fn of_blocks(&self, blocks: std::ops::Range<u32>) -> &[Supply] {
        let from = self.supply.partition_point(|supply| supply.block < blocks.start);
        let to = self.supply.partition_point(|supply| supply.block < blocks.end);
        &self.supply[from..to]
    }

    fn of_pod(&self, pod: u32) -> &[Supply] {
        let pod = self.capacity_index.layout().pods[pod as usize];
        self.of_blocks(pod.first_block..pod.first_block + pod.blocks)
    }

    /// The gang on some blocks, those that come first filled first; `None` if they have no room for it.
    fn lay(&self, blocks: &[&[Supply]]) -> Option<Allocation> {
        let all: u32 = blocks.iter().flat_map(|block| *block).map(|supply| supply.nodes).sum();
        if all < self.need.nodes {
            return None;
        }
        let mut lay = Allocation { taken: Vec::new(), matching: Matching::of(self.need), idle: 0 };
        for supply in blocks.iter().flat_map(|block| *block) {
            let nodes = lay.matching.take(supply.set, supply.nodes);
            if nodes > 0 {
                lay.taken.push(Supply { nodes, ..*supply });
                lay.idle += if supply.idle { nodes } else { 0 };
            }
        }
        lay.matching.is_whole().then_some(lay)
    }

    /// The allocation in the block that is the best of those that hold the whole gang; `None` if no block
    /// does.
    fn one_block(&self) -> Option<Allocation> {
        let mut best: Option<((u32, u32, u32, u32), Allocation)> = None;
        for supply in self.supply.chunk_by(|a, b| a.block == b.block) {
            let Some(lay) = self.lay(&[supply]) else { continue };
            let (block, all) = (supply[0].block, supply.iter().map(|supply| supply.nodes).sum());
            let key = (self.price(&lay), all, self.capacity_index.load(block), block);
            if best.as_ref().is_none_or(|(least, _)| key < *least) {
                best = Some((key, lay));
            }
        }
        best.map(|(_, lay)| lay)
    }

    /// Idle nodes that are broken into, where others could be had.
    fn price(&self, lay: &Allocation) -> u32 {
        if self.time == Time::Now && !self.need.exclusive { lay.idle } else { 0 }
    }

    /// The best pod. Of those that have room only some are compared, the ones that it fills best.
    fn one_pod(&self) -> Option<Allocation> {
        let layout = self.capacity_index.layout();
        let sizes = (0..layout.pods.len() as u32)
            .map(|pod| (self.of_pod(pod).iter().map(|supply| supply.nodes).sum::<u32>(), pod));
        let mut pods: Vec<(u32, u32)> = sizes.filter(|(nodes, _)| *nodes >= self.need.nodes).collect();
        pods.sort_unstable();
        let mut best: Option<((u64, u32, u32, u32), Allocation)> = None;
        let mut checks = 0;
        for (nodes, pod) in pods {
            let Some(lay) = self.in_pods(&[pod]) else { continue };
            let key = (self.cut(&lay), self.price(&lay), nodes, pod);
            if best.as_ref().is_none_or(|(least, _)| key < *least) {
                best = Some((key, lay));
            }
            checks += 1;
            if checks == CHECKS {
                break;
            }
        }
        best.map(|(_, lay)| lay)
    }

    /// The gang in some pods, on few of their blocks: the largest, and the smallest last one that is enough.
    fn in_pods(&self, pods: &[u32]) -> Option<Allocation> {
        let mut blocks: Vec<(usize, u32, &[Supply])> = Vec::new();
        for (at, pod) in pods.iter().enumerate() {
            for supply in self.of_pod(*pod).chunk_by(|a, b| a.block == b.block) {
                blocks.push((at, supply.iter().map(|supply| supply.nodes).sum(), supply));
            }
        }
        blocks.sort_by_key(|(at, nodes, supply)| (*at, Reverse(*nodes), supply[0].block));
        let supplies: Vec<&[Supply]> = blocks.iter().map(|(.., supply)| *supply).collect();
        let whole = self.lay(&supplies)?;
        if pods.len() > 1 {
            return Some(whole);
        }
        // Whether more of them have room is not asked of each: it only becomes more with every block.
        let (mut low, mut high) = (1, supplies.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.lay(&supplies[..middle]).is_some() { high = middle } else { low = middle + 1 }
        }
        let last = |block: &&[Supply]| {
            let mut tried = supplies[..low - 1].to_vec();
            tried.push(*block);
            self.lay(&tried)
        };
        supplies[low - 1..].iter().rev().find_map(last).or(Some(whole))
    }

    /// The gang in as few pods as are found: at each step the one that gives the most nodes a component, then those that are not needed
    /// after all are left out.
    fn several_pods(&self) -> Option<Allocation> {
        let mut rest: Vec<u32> = (0..self.capacity_index.layout().pods.len() as u32).collect();
        rest.retain(|pod| !self.of_pod(*pod).is_empty());
        let all: Vec<&[Supply]> = rest.iter().map(|pod| self.of_pod(*pod)).collect();
        self.lay(&all)?;
        let all_pods = rest.clone();
        let (mut chosen, mut matching) = (Vec::new(), Matching::of(self.need));
        while !matching.is_whole() {
            let with = |pod: u32| {
                let mut more = matching.clone();
                let taken: u32 =
                    self.of_pod(pod).iter().map(|supply| more.take(supply.set, supply.nodes)).sum();
                (taken, more)
            };
            let gains = rest.iter().map(|pod| (Reverse(with(*pod).0), *pod));
            let (Reverse(gain), pod) = gains.min()?;
            if gain == 0 {
                return None;
            }
            matching = with(pod).1;
            rest.retain(|other| *other != pod);
            chosen.push(pod);
        }
        for at in (0..chosen.len()).rev() {
            let mut fewer = chosen.clone();
            fewer.remove(at);
            if self.in_pods(&fewer).is_some() {
                chosen = fewer;
            }
        }
        let fewer = (2..chosen.len()).find_map(|count| self.in_any(&all_pods, count));
        fewer.or_else(|| self.in_pods(&chosen))
    }

    /// The gang in so many of some pods, where those are few enough to try all ways.
    fn in_any(&self, pods: &[u32], count: usize) -> Option<Allocation> {
        let mut ways: u64 = 1;
        for at in 0..count as u64 {
            ways = ways.saturating_mul((pods.len() as u64).saturating_sub(at)) / (at + 1);
        }
        if ways > WAYS {
            return None;
        }
        // Each way as places in the list, which ascend.
        let mut way: Vec<usize> = (0..count).collect();
        loop {
            let set: Vec<u32> = way.iter().map(|at| pods[*at]).collect();
            if let Some(lay) = self.in_pods(&set) {
                return Some(lay);
            }
            let last = (0..count).rev().find(|at| way[*at] + count - at < pods.len())?;
            way[last] += 1;
            for at in last + 1..count {
                way[at] = way[at - 1] + 1;
            }
        }
    }

    fn best(&self) -> Option<Allocation> {
        let pod = || (self.need.within > Within::Leaves).then(|| self.one_pod()).flatten();
        let fabric = || (self.need.within == Within::Fabric).then(|| self.several_pods()).flatten();
        self.one_block().or_else(pod).or_else(fabric)
    }

    /// Per component what it takes of each supply, in the order of blocks.
    fn shares(&self, lay: &Allocation) -> Vec<Vec<Supply>> {
        let mut left = lay.taken.clone();
        let mut has = lay.matching.has.clone();
        let share = |component: usize| {
            let mut share = Vec::new();
            for supply in &mut left {
                let Some(wants) = has.get_mut(&supply.set).map(|has| &mut has[component]) else { continue };
                let nodes = supply.nodes.min(*wants);
                if nodes > 0 {
                    share.push(Supply { nodes, ..*supply });
                    supply.nodes -= nodes;
                    *wants -= nodes;
                }
            }
            share
        };
        (0..self.need.components.len()).map(share).collect()
    }

    fn cut(&self, lay: &Allocation) -> u64 {
        let shares = self.shares(lay);
        let mut takes: Vec<Take> = Vec::new();
        for supply in shares.iter().flatten() {
            match takes.last_mut() {
                Some(last) if last.block == supply.block => last.nodes += supply.nodes,
                _ => takes.push(Take { block: supply.block, nodes: supply.nodes }),
            }
        }
        if self.need.pattern == Pattern::AllToAll {
            // Whoever talks with all others does so in any order.
            let mut sums: BTreeMap<u32, u32> = BTreeMap::new();
            takes.iter().for_each(|take| *sums.entry(take.block).or_default() += take.nodes);
            takes = sums.into_iter().map(|(block, nodes)| Take { block, nodes }).collect();
        }
        cut(self.capacity_index.layout(), &takes, self.need.pattern)
    }

    /// The nodes of one block that could be of exactly these components: those that are used best first.
    fn nodes_of(&self, supply: &Supply) -> Vec<Pick> {
        let mut found = Vec::new();
        for word in self.capacity_index.block_words(supply.block) {
            let idle = self.capacity_index.word(word).idle;
            self.each_set(word, |set, nodes| {
                let nodes =
                    if set == supply.set { nodes & if supply.idle { idle } else { !idle } } else { 0 };
                let slots = bits(nodes).map(|bit| word * WORD + bit);
                let record = |slot: u32| {
                    let node = self.capacity_index.node_at(slot)?;
                    Some((Pick { node, gpus: self.capacity_index.record(node)?.free_gpus() }, slot))
                };
                found.extend(slots.filter_map(record));
            });
        }
        let now = self.time == Time::Now;
        let free = |pick: &Pick| i64::from(pick.gpus.count_ones()) * if now { 1 } else { -1 };
        found.sort_unstable_by_key(|(pick, slot)| (free(pick), *slot));
        found.into_iter().map(|(pick, _)| pick).collect()
    }

    fn choose(&self, lay: &Allocation, rails: RailSet, choice: &mut Choice) {
        let shares = self.shares(lay);
        let components = &self.need.components;
        // Whoever asks for the fewest GPUs takes the nodes with the fewest.
        let mut turns: Vec<usize> = (0..components.len()).collect();
        turns.sort_by_key(|at| components[*at].gpus);
        let mut stores: BTreeMap<(u32, bool, Set), std::vec::IntoIter<Pick>> = BTreeMap::new();
        let mut picked: Vec<Vec<Pick>> = vec![Vec::new(); components.len()];
        for at in turns {
            for supply in &shares[at] {
                let key = (supply.block, supply.idle, supply.set);
                let store = stores.entry(key).or_insert_with(|| self.nodes_of(supply).into_iter());
                let mut here: Vec<Pick> = store.by_ref().take(supply.nodes as usize).collect();
                here.sort_unstable_by_key(|pick| {
                    self.capacity_index.record(pick.node).map(|record| record.slot)
                });
                picked[at].extend(here.into_iter().map(|pick| self.with_gpus(pick, at, rails)));
            }
        }
        let blocks =
            lay.taken.iter().map(|supply| self.capacity_index.layout().blocks[supply.block as usize].pod);
        let pods: std::collections::BTreeSet<u32> = blocks.collect();
        choice.rails = rails;
        choice.nodes.clear();
        choice.nodes.extend(picked.into_iter().flatten());
        choice.spares.clear();
        (choice.host, choice.exclusive) = (self.need.host, self.need.exclusive);
        choice.hosts.clear();
        choice.hosts.extend(components.iter().map(|one| (one.nodes, one.host)));
        (choice.pods, choice.cut) = (u32::try_from(pods.len()).unwrap_or(u32::MAX), self.cut(lay));
    }

    /// A node's GPUs for one of a component's nodes, of those that are free.
    fn with_gpus(&self, pick: Pick, component: usize, rails: RailSet) -> Pick {
        let asked = self.need.components[component].gpus;
        if ones(pick.gpus) == asked {
            return pick;
        }
        let Some(record) = self.capacity_index.record(pick.node) else { return pick };
        let traits = self.capacity_index.classes().traits(record.class);
        Pick { gpus: traits.choose_gpus(pick.gpus, asked, rails), ..pick }
    }
}

impl Placer {
    /// The best gang of components, in `choice`.
    pub(super) fn choose_components(
        &mut self,
        capacity_index: &CapacityIndex,
        need: &Need,
        time: Time,
        choice: &mut Choice,
    ) -> bool {
        let sets: Vec<RailSet> = match need.rails {
            RailNeed::Exactly(rails) => vec![rails],
            RailNeed::Any(count) => {
                self.find_sets(capacity_index, time, count);
                let attempts = if need.nodes > LARGE { FEW } else { usize::MAX };
                self.masks.sets().iter().take(attempts).map(|(rails, _)| *rails).collect()
            }
        };
        let mut best: Option<(u32, u64)> = None;
        let mut found = Choice::default();
        for rails in sets {
            let attempt = Attempt { capacity_index, need, rails: RailNeed::Exactly(rails), time, beat: None };
            for outside in capacity_index.islands(rails).unwrap_or_else(|| vec![Vec::new()]) {
                if !self.components_on(&attempt, rails, &outside, &mut found) {
                    continue;
                }
                let key = order(need, found.pods, found.cut);
                if best.is_none_or(|best| key < best) {
                    best = Some(key);
                    choice.clone_from(&found);
                }
            }
        }
        best.is_some()
    }

    /// The same on one set of rails, without some nodes.
    fn components_on(
        &mut self,
        attempt: &Attempt<'_>,
        rails: RailSet,
        outside: &[(u32, u64)],
        choice: &mut Choice,
    ) -> bool {
        let Attempt { capacity_index, need, time, .. } = *attempt;
        let mut fits = Vec::with_capacity(need.components.len());
        for at in 0..need.components.len() {
            let mut part = need.of_components(|other| other == at);
            part.name_avoided(rails);
            let Some(words) = self.words_of(capacity_index, &part, (rails, time), outside) else {
                return false;
            };
            fits.push(words);
        }
        let mut candidates = Candidates { capacity_index, need, time, fits, supply: Vec::new() };
        candidates.count();
        let Some(lay) = candidates.best() else { return false };
        candidates.choose(&lay, rails, choice);
        true
    }

    /// The nodes that could be of a component, word by word; `None` if they are too few for it alone.
    fn words_of(
        &mut self,
        capacity_index: &CapacityIndex,
        part: &Need,
        (rails, time): (RailSet, Time),
        outside: &[(u32, u64)],
    ) -> Option<Vec<u64>> {
        let idle = if part.exclusive { Idle::Only } else { Idle::Either };
        let profile = Profile::of(part, RailNeed::Exactly(rails), idle);
        let assumed;
        let view = if time == Time::Now {
            &*self.views.of(capacity_index, &profile)
        } else {
            assumed =
                View::assumed(capacity_index, &profile, |record| could(record, part, profile.rails, time));
            &assumed
        };
        if view.pods().total() < u64::from(part.nodes) {
            return None;
        }
        let mut words: Vec<u64> = (0..capacity_index.words()).map(|word| view.bits(word)).collect();
        for (word, mask) in self.hidden.0.iter().chain(outside) {
            words[*word as usize] &= !mask;
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::{Matching, Set};

    /// By trying every way.
    fn brute(demand: &[u32], nodes: &[Set]) -> u32 {
        let Some((first, rest)) = nodes.split_first() else { return 0 };
        let mut best = brute(demand, rest);
        for at in (0..demand.len()).filter(|at| first >> at & 1 == 1 && demand[*at] > 0) {
            let mut less = demand.to_vec();
            less[at] -= 1;
            best = best.max(1 + brute(&less, rest));
        }
        best
    }

    #[test]
    fn as_many_nodes_as_can_have_a_component() {
        let mut state = 7_u64;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        for case in 0..3000 {
            let components = 1 + below(4) as usize;
            let demand: Vec<u32> = (0..components).map(|_| 1 + below(3) as u32).collect();
            let nodes: Vec<Set> = (0..below(8)).map(|_| below(1 << components) as Set).collect();
            let mut matching = Matching { demand: demand.clone(), ..Matching::default() };
            // Each node that can be matched beside those before it, and no other: in any order as many.
            let taken: u32 = nodes.iter().map(|set| matching.take(*set, 1)).sum();
            assert_eq!(taken, brute(&demand, &nodes), "case {case}: {demand:?} {nodes:?}");
            let left: u32 = matching.demand.iter().sum();
            assert_eq!(left + taken, demand.iter().sum::<u32>());
            for (set, has) in &matching.has {
                assert!(has.iter().enumerate().all(|(at, has)| *has == 0 || set >> at & 1 == 1));
                let all = nodes.iter().filter(|node| *node == set).count();
                assert!(has.iter().sum::<u32>() as usize <= all);
            }
        }
    }
}
