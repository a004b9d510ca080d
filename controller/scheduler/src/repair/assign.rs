//! Which place each lost node's part goes to: fewest free nodes, then fewest pods, then the least cut.

use std::collections::BTreeMap;

use controller_topology::RailSet;

use super::{
    gang::Gang,
    stock::{Stock, Taken},
};
use crate::{
    capacity_index::CapacityIndex,
    place::{ACROSS_LEAVES, ACROSS_PODS, Need, Pattern, Within},
};

/// Places weighed for one repair once there is a first answer; ten times as many before that.
pub const CHECKS: usize = 40_000;

/// What a choice costs: free nodes taken, pods, weighted cut.
type Cost = (u32, u32, u64);

/// The replacements that were chosen, with the pods of the repaired gang and its weighted cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assigned {
    /// For each lost node in rank order what takes its place.
    pub(crate) picks: Vec<Taken>,
    pub(crate) pods: u32,
    pub(crate) cut: u64,
}

/// Where the gang's nodes stand, and what binds them.
pub(crate) struct Seats {
    /// Block by place in rank order; `None` while it is open.
    blocks: Vec<Option<u32>>,
    open: Vec<usize>,
    pattern: Pattern,
    /// Sizes of groups with where each stays; the whole gang is one.
    ties: Vec<(usize, Within)>,
    /// Nodes per pod and per block so far.
    pods: BTreeMap<u32, u64>,
    in_block: BTreeMap<u32, u64>,
    /// Per tie and group its nodes' blocks: those that stay first.
    groups: Vec<BTreeMap<usize, Vec<u32>>>,
    /// A block of the gang whose islands the others must reach.
    anchors: Vec<u32>,
}

impl Seats {
    pub(crate) fn of(capacity_index: &CapacityIndex, need: &Need, gang: &Gang) -> Self {
        let block = |(pick, stays): &(Option<crate::Pick>, bool)| {
            let pick = pick.as_ref().filter(|_| *stays)?;
            Some(capacity_index.place(pick.node)?.1)
        };
        let blocks: Vec<Option<u32>> = gang.seats.iter().map(block).collect();
        let mut ties: Vec<(usize, Within)> = need
            .groups
            .iter()
            .filter(|group| group.required && group.size > 1)
            .map(|group| (group.size as usize, group.within))
            .collect();
        ties.push((blocks.len().max(1), need.within));
        ties.retain(|(_, within)| *within < Within::Fabric);
        let mut seats = Self {
            groups: vec![BTreeMap::new(); ties.len()],
            ties,
            open: gang.open.clone(),
            pattern: need.pattern,
            pods: BTreeMap::new(),
            in_block: BTreeMap::new(),
            anchors: Vec::new(),
            blocks: vec![None; blocks.len()],
        };
        for (at, block) in blocks.iter().enumerate() {
            if let Some(block) = block {
                seats.sit(capacity_index, at, *block);
            }
        }
        seats
    }

    fn sit(&mut self, capacity_index: &CapacityIndex, at: usize, block: u32) {
        self.blocks[at] = Some(block);
        *self.pods.entry(pod(capacity_index, block)).or_default() += 1;
        *self.in_block.entry(block).or_default() += 1;
        self.anchors.push(block);
        for (tie, (size, _)) in self.ties.iter().enumerate() {
            self.groups[tie].entry(at / size).or_default().push(block);
        }
    }

    fn rise(&mut self, capacity_index: &CapacityIndex, at: usize, block: u32) {
        self.blocks[at] = None;
        for (map, key) in [(&mut self.pods, pod(capacity_index, block)), (&mut self.in_block, block)] {
            if let Some(count) = map.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    map.remove(&key);
                }
            }
        }
        self.anchors.pop();
        for (tie, (size, _)) in self.ties.iter().enumerate() {
            if let Some(blocks) = self.groups[tie].get_mut(&(at / size)) {
                blocks.pop();
            }
        }
    }

    /// Whether a node of this block may stand here.
    fn may(&self, capacity_index: &CapacityIndex, at: usize, block: u32, rails: RailSet) -> bool {
        let here = pod(capacity_index, block);
        let ties = self.ties.iter().enumerate().all(|(tie, (size, within))| {
            let group = self.groups[tie].get(&(at / size)).and_then(|blocks| blocks.first());
            group.is_none_or(|other| match within {
                Within::Leaves => *other == block,
                Within::Pod => pod(capacity_index, *other) == here,
                Within::Fabric => true,
            })
        });
        ties && self.anchors.first().is_none_or(|other| capacity_index.reach(rails, *other, block))
    }

    /// The weighted cut between a node of this block at this place and those that sit.
    fn cut(&self, capacity_index: &CapacityIndex, at: usize, block: u32) -> u64 {
        let n = self.blocks.len();
        let edge = |other: usize| {
            self.blocks.get(other).copied().flatten().map_or(0, |other| weight(capacity_index, block, other))
        };
        match self.pattern {
            Pattern::Ring if n < 2 => 0,
            Pattern::Ring => edge((at + 1) % n) + edge((at + n - 1) % n),
            Pattern::AllToAll => {
                let all: u64 = self.pods.values().sum();
                let near = self.pods.get(&pod(capacity_index, block)).copied().unwrap_or(0);
                let same = self.in_block.get(&block).copied().unwrap_or(0);
                (all - near) * ACROSS_PODS + (near - same) * ACROSS_LEAVES
            }
            Pattern::Pipeline(size) => {
                let size = size.max(1) as usize;
                let first = at / size * size;
                let inside: u64 = (first..(first + size).min(n)).filter(|other| *other != at).map(edge).sum();
                let before = if at >= size { edge(at - size) } else { 0 };
                inside + before + if at + size < n { edge(at + size) } else { 0 }
            }
        }
    }

    /// The weighted cut of all.
    fn whole_cut(&self, capacity_index: &CapacityIndex) -> u64 {
        let mut alone = Self {
            blocks: vec![None; self.blocks.len()],
            open: Vec::new(),
            pattern: self.pattern,
            ties: Vec::new(),
            pods: BTreeMap::new(),
            in_block: BTreeMap::new(),
            groups: Vec::new(),
            anchors: Vec::new(),
        };
        let mut sum = 0;
        for (at, block) in self.blocks.iter().enumerate() {
            if let Some(block) = block {
                sum += alone.cut(capacity_index, at, *block);
                alone.sit(capacity_index, at, *block);
            }
        }
        sum
    }
}

fn pod(capacity_index: &CapacityIndex, block: u32) -> u32 {
    capacity_index.layout().blocks[block as usize].pod
}

fn weight(capacity_index: &CapacityIndex, a: u32, b: u32) -> u64 {
    match (a == b, pod(capacity_index, a) == pod(capacity_index, b)) {
        (true, _) => 0,
        (_, true) => ACROSS_LEAVES,
        _ => ACROSS_PODS,
    }
}

/// The best way to fill all open places; `None` if there is none.
pub(crate) fn assign(
    capacity_index: &CapacityIndex,
    seats: Seats,
    stock: &Stock,
    rails: RailSet,
) -> Option<Assigned> {
    let blocks: Vec<u32> = stock.shelves.keys().copied().collect();
    let mut floor = vec![0; seats.open.len() + 1];
    for (depth, at) in seats.open.iter().enumerate().rev() {
        let may = blocks.iter().filter(|block| seats.may(capacity_index, *at, **block, rails));
        floor[depth] = floor[depth + 1] + may.map(|block| seats.cut(capacity_index, *at, *block)).min()?;
    }
    let spares = stock.shelves.values().map(|shelf| shelf.spares.len()).sum();
    let (used, taken) = (BTreeMap::new(), Vec::new());
    let mut search = Search {
        capacity_index,
        stock,
        rails,
        seats,
        blocks,
        floor,
        spares,
        used,
        checks: 0,
        taken,
        best: None,
    };
    search.go(0, (0, 0, 0));
    let Search { best, mut seats, .. } = search;
    let (_, picks) = best?;
    for (at, taken) in seats.open.clone().into_iter().zip(&picks) {
        seats.sit(capacity_index, at, taken.block);
    }
    let pods = u32::try_from(seats.pods.len()).unwrap_or(u32::MAX);
    Some(Assigned { picks, pods, cut: seats.whole_cut(capacity_index) })
}

/// Depth first, the cheapest first, what cannot be better than the best left out.
struct Search<'a> {
    capacity_index: &'a CapacityIndex,
    stock: &'a Stock,
    rails: RailSet,
    seats: Seats,
    blocks: Vec<u32>,
    /// What the places from each on cut at least, with those that stay.
    floor: Vec<u64>,
    /// Spares that are not taken.
    spares: usize,
    /// What was taken of each block and kind.
    used: BTreeMap<(u32, bool), u32>,
    checks: usize,
    taken: Vec<Taken>,
    best: Option<(Cost, Vec<Taken>)>,
}

impl Search<'_> {
    fn go(&mut self, depth: usize, cost: Cost) {
        let Some(at) = self.seats.open.get(depth).copied() else {
            self.best = Some((cost, self.taken.clone()));
            return;
        };
        let mut ways: Vec<(Cost, Taken)> = Vec::new();
        for block in &self.blocks {
            let kinds = [true, false].into_iter().filter_map(|spare| {
                let nth = self.used.get(&(*block, spare)).copied().unwrap_or(0);
                (nth < self.stock.count(*block, spare)).then_some(Taken { block: *block, spare, nth })
            });
            let mut kinds = kinds.peekable();
            if kinds.peek().is_none() || !self.seats.may(self.capacity_index, at, *block, self.rails) {
                continue;
            }
            let pods = u32::from(!self.seats.pods.contains_key(&pod(self.capacity_index, *block)));
            let cut = self.seats.cut(self.capacity_index, at, *block);
            ways.extend(kinds.map(|taken| ((u32::from(!taken.spare), pods, cut), taken)));
        }
        self.checks += self.blocks.len();
        ways.sort_unstable();
        for (more, taken) in ways {
            let next = (cost.0 + more.0, cost.1 + more.1, cost.2 + more.2);
            if self.best.as_ref().is_some_and(|(best, _)| self.least(depth + 1, next, taken.spare) >= *best) {
                continue;
            }
            if self.checks > if self.best.is_some() { CHECKS } else { 10 * CHECKS } {
                return;
            }
            self.seats.sit(self.capacity_index, at, taken.block);
            *self.used.entry((taken.block, taken.spare)).or_default() += 1;
            self.spares -= usize::from(taken.spare);
            self.taken.push(taken);
            self.go(depth + 1, next);
            self.taken.pop();
            self.spares += usize::from(taken.spare);
            if let Some(used) = self.used.get_mut(&(taken.block, taken.spare)) {
                *used -= 1;
            }
            self.seats.rise(self.capacity_index, at, taken.block);
        }
    }

    /// What a choice costs at least once it is whole.
    fn least(&self, depth: usize, cost: Cost, spare: bool) -> Cost {
        let spares = self.spares - usize::from(spare);
        let free = (self.seats.open.len() - depth).saturating_sub(spares);
        (cost.0 + u32::try_from(free).unwrap_or(u32::MAX), cost.1, cost.2 + self.floor[depth])
    }
}
