//! Pipelines: groups that talk much inside stay whole in a block where that can be, then in a pod; and each node of a
//! group has its partner in the next one near it.

use std::cmp::Reverse;

use super::{
    cut::{ACROSS_LEAVES, ACROSS_PODS},
    request::{FitRequest, Take},
};
use crate::{capacity_index::CapacityIndex, view::View};

/// Blocks among which the split of groups is searched; of more, groups are cut from them in a row.
pub(super) const PARTS: usize = 6;

/// Groups of at most so many nodes are searched, and at most so many of those that are split.
pub(super) const SEARCHED: (u32, u32) = (16, 4);

/// Gangs of so many nodes may make so many searches, larger ones none: there one split group does not count for much.
const SMALL: u32 = 32;
const SEARCHES: u32 = 12;

/// Shapes of one group that are thought of at most.
const SHAPES: usize = 96;

/// Rows of split groups that are carried on.
const WIDTH: usize = 12;

/// How many nodes of one group are in each of at most [`PARTS`] blocks.
pub(super) type Shape = [u32; PARTS];

/// A block with what it offers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pod: u32,
    pub(super) block: u32,
    pub(super) count: u32,
    /// What its pod offers.
    near: u32,
}

/// A row of split groups so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    left: Shape,
    cost: u64,
    /// The shapes of its groups, into `shapes`.
    pub(super) row: [u8; SEARCHED.1 as usize],
}

/// Lays out pipelines; its vectors are used again.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(super) parts: Vec<Part>,
    /// Per part the first one of its pod.
    homes: [usize; PARTS],
    pub(super) shapes: Vec<Shape>,
    pub(super) states: Vec<State>,
    next: Vec<State>,
    /// Groups in rank order, equal ones counted.
    pub(super) row: Vec<(Shape, u32)>,
    before: Vec<usize>,
    here: Vec<Option<usize>>,
    /// Searches that the decision at hand may still make.
    searches: u32,
}

fn pairs(nodes: u32) -> u64 {
    u64::from(nodes) * u64::from(nodes.saturating_sub(1)) / 2
}

impl Groups {
    /// Another decision begins: small gangs search more, because there one connection more counts.
    pub(crate) fn begin(&mut self, nodes: u32) {
        self.searches = if nodes <= SMALL { SEARCHES } else { 0 };
    }

    /// Lays `nodes` nodes out over some pods in groups of `size`, behind what is in `takes`. False if the pods are too
    /// small.
    pub(crate) fn lay(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        set: &[u32],
        (nodes, size): (u32, u32),
        ask: &FitRequest,
        takes: &mut Vec<Take>,
    ) -> bool {
        self.gather(capacity_index, view, set, ask);
        if self.parts.iter().map(|part| u64::from(part.count)).sum::<u64>() < u64::from(nodes) {
            return false;
        }
        let start = takes.len();
        let groups = nodes / size;
        if nodes.is_multiple_of(size) && self.keep_whole(nodes, size, takes) {
            takes[start..].sort_unstable_by_key(|take| {
                (capacity_index.layout().blocks[take.block as usize].pod, take.block)
            });
            return true;
        }
        let whole: u32 = self.parts.iter().map(|part| part.count / size).sum();
        let searched = self.searches > 0
            && self.parts.len() <= PARTS
            && size <= SEARCHED.0
            && groups <= whole + SEARCHED.1
            && nodes.is_multiple_of(size);
        // The search counts down what the parts offer.
        let mut counts: Shape = [0; PARTS];
        if searched {
            self.parts.sort_unstable_by_key(|part| (part.pod, part.block));
            counts.iter_mut().zip(&self.parts).for_each(|(count, part)| *count = part.count);
            if self.search(groups - whole, size, ask.leaf_unit, takes) {
                return true;
            }
            self.parts.iter_mut().zip(&counts).for_each(|(part, count)| part.count = *count);
        }
        self.in_a_row(nodes, size, takes);
        true
    }

    /// The blocks of some pods that offer anything.
    pub(super) fn gather(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        set: &[u32],
        ask: &FitRequest,
    ) {
        self.parts.clear();
        for pod in set {
            let blocks = capacity_index.layout().pods[*pod as usize];
            let near = view.pods().count(*pod);
            for block in blocks.first_block..blocks.first_block + blocks.blocks {
                let count = view.blocks().count(block);
                let count = count - count % ask.leaf_unit;
                if count > 0 {
                    self.parts.push(Part { pod: *pod, block, count, near });
                }
            }
        }
        self.parts.sort_unstable_by_key(|part| (part.pod, part.block));
    }

    /// Whole groups from as few blocks as can be, if they hold them all.
    fn keep_whole(&mut self, nodes: u32, size: u32, takes: &mut Vec<Take>) -> bool {
        let whole = |part: &Part| part.count - part.count % size;
        if self.parts.iter().map(|part| u64::from(whole(part))).sum::<u64>() < u64::from(nodes) {
            return false;
        }
        self.parts.sort_unstable_by_key(|part| (Reverse(whole(part)), part.count, part.block));
        let mut rest = nodes;
        for at in 0..self.parts.len() {
            let part = self.parts[at];
            if whole(&part) >= rest {
                let mut tight = self.parts[at..].iter().filter(|part| whole(part) >= rest);
                let first = tight.next().copied().unwrap_or(part);
                let tight =
                    tight.fold(first, |best, part| if part.count < best.count { *part } else { best });
                takes.push(Take { block: tight.block, nodes: rest });
                break;
            }
            takes.push(Take { block: part.block, nodes: whole(&part) });
            rest -= whole(&part);
        }
        true
    }

    /// Blocks in a row, a few nodes left out where that lets a block end with a group.
    fn in_a_row(&mut self, nodes: u32, size: u32, takes: &mut Vec<Take>) {
        let total: u32 = self.parts.iter().map(|part| part.count).sum();
        let mut spare = total - nodes;
        self.parts
            .sort_unstable_by_key(|part| (Reverse(part.near), part.pod, Reverse(part.count), part.block));
        let mut at = 0;
        for part in &self.parts {
            let mut here = part.count.min(nodes - at);
            let over = (at + here) % size;
            if at + here < nodes && over > 0 && over <= spare && over < here {
                here -= over;
                spare -= over;
            }
            if here > 0 {
                takes.push(Take { block: part.block, nodes: here });
            }
            at += here;
        }
    }

    /// Blocks keep the whole groups that they hold; the ways to make the `split` others from what is left are searched,
    /// and each of those stands where it has most partners beside it. False if what is left is too little.
    fn search(&mut self, split: u32, size: u32, unit: u32, takes: &mut Vec<Take>) -> bool {
        self.searches -= 1;
        if !self.think_of_states(split, size, unit) {
            return false;
        }
        self.best_row(split);
        self.emit(size, takes);
        true
    }

    /// The whole groups of each block, into `row`, and ways to make the others of what is left, into `states`; the parts
    /// count only that from then on. False if what is left is too little.
    pub(super) fn think_of_states(&mut self, split: u32, size: u32, unit: u32) -> bool {
        self.row.clear();
        let mut left: Shape = [0; PARTS];
        for (at, part) in self.parts.iter_mut().enumerate() {
            let mut whole = [0; PARTS];
            whole[at] = size;
            if part.count >= size {
                self.row.push((whole, part.count / size));
            }
            part.count %= size;
            left[at] = part.count;
        }
        self.find_homes();
        self.think_of_shapes(size, unit);
        self.states.clear();
        self.states.push(State { left, cost: 0, row: [0; SEARCHED.1 as usize] });
        for group in 0..split as usize {
            self.next.clear();
            for state in &self.states {
                for (at, shape) in self.shapes.iter().enumerate() {
                    if shape.iter().zip(&state.left).any(|(taken, left)| taken > left) {
                        continue;
                    }
                    let mut next = *state;
                    next.left.iter_mut().zip(shape).for_each(|(left, taken)| *left -= taken);
                    next.cost += self.inside(shape);
                    next.row[group] = u8::try_from(at).unwrap_or(u8::MAX);
                    self.next.push(next);
                }
            }
            self.next.sort_unstable_by_key(|state| (state.cost, state.row));
            self.next.dedup_by_key(|state| (state.cost, state.left));
            self.next.truncate(WIDTH);
            std::mem::swap(&mut self.states, &mut self.next);
        }
        !self.states.is_empty()
    }

    /// Of the ways that were found the one that costs least in a row with the whole groups; into `row`.
    fn best_row(&mut self, split: u32) {
        let states = std::mem::take(&mut self.states);
        let whole = std::mem::take(&mut self.row);
        let mut best: Option<(u64, Vec<(Shape, u32)>)> = None;
        for state in &states {
            self.row.clear();
            self.row.extend_from_slice(&whole);
            for at in &state.row[..split as usize] {
                self.insert(self.shapes[usize::from(*at)]);
            }
            let between: u64 = self.row.windows(2).map(|pair| self.between(&pair[0].0, &pair[1].0)).sum();
            let cost = state.cost + between;
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, self.row.clone()));
            }
        }
        if let Some((_, row)) = best {
            self.row = row;
        }
        self.states = states;
    }

    /// Puts a group where it costs least.
    pub(super) fn insert(&mut self, shape: Shape) {
        let pair = |a: Option<&(Shape, u32)>, b: &Shape| a.map_or(0, |(a, _)| self.between(a, b));
        let price = |at: &usize| {
            let (before, behind) = (at.checked_sub(1).and_then(|at| self.row.get(at)), self.row.get(*at));
            let was = before.zip(behind).map_or(0, |((a, _), (b, _))| self.between(a, b));
            pair(before, &shape) + pair(behind, &shape) + ACROSS_PODS * u64::from(u8::MAX) - was
        };
        let best = (0..=self.row.len()).min_by_key(price).unwrap_or(0);
        self.row.insert(best, (shape, 1));
    }

    /// Which parts are of one pod.
    pub(super) fn find_homes(&mut self) {
        for at in 0..self.parts.len() {
            let same = |other: &Part| other.pod == self.parts[at].pod;
            self.homes[at] = self.parts.iter().position(same).unwrap_or(at);
        }
    }

    /// The ways to take a group from the parts: all, or if those are too many the ones that touch two parts at most.
    pub(super) fn think_of_shapes(&mut self, size: u32, unit: u32) {
        let parts = self.parts.len();
        for touched in [parts, 2] {
            self.shapes.clear();
            ways(&self.parts, [0; PARTS], 0, (size, unit, touched), &mut self.shapes);
            if self.shapes.len() < SHAPES {
                return;
            }
        }
    }

    fn pod_sums(&self, shape: &Shape) -> Shape {
        let mut sums = [0; PARTS];
        for (home, nodes) in self.homes.iter().zip(shape).take(self.parts.len()) {
            sums[*home] += nodes;
        }
        sums
    }

    pub(super) fn inside(&self, shape: &Shape) -> u64 {
        let all: u32 = shape.iter().sum();
        let pods: u64 = self.pod_sums(shape).iter().map(|nodes| pairs(*nodes)).sum();
        let blocks: u64 = shape.iter().map(|nodes| pairs(*nodes)).sum();
        (pairs(all) - pods) * ACROSS_PODS + (pods - blocks) * ACROSS_LEAVES
    }

    pub(super) fn between(&self, a: &Shape, b: &Shape) -> u64 {
        let common = |a: &Shape, b: &Shape| a.iter().zip(b).map(|(a, b)| u64::from(*a.min(b))).sum::<u64>();
        let all = u64::from(a.iter().sum::<u32>());
        let (same, near) = (common(a, b), common(&self.pod_sums(a), &self.pod_sums(b)));
        (all - near) * ACROSS_PODS + (near - same) * ACROSS_LEAVES
    }

    /// The rank order: within a group each node beside its partner in the group before, as far as the shapes allow.
    pub(super) fn emit(&mut self, size: u32, takes: &mut Vec<Take>) {
        let Self { parts, homes, row, before, here, .. } = self;
        let start = takes.len();
        before.clear();
        for (shape, times) in row.iter() {
            let mut left = *shape;
            here.clear();
            here.resize(size as usize, None);
            for (place, partner) in here.iter_mut().zip(before.iter()) {
                if left[*partner] > 0 {
                    left[*partner] -= 1;
                    *place = Some(*partner);
                }
            }
            for near in [true, false] {
                for (position, place) in here.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
                    let home = before.get(position).map(|partner| homes[*partner]);
                    let fits = |part: &usize| left[*part] > 0 && (!near || Some(homes[*part]) == home);
                    if let Some(part) = (0..parts.len()).find(fits) {
                        left[part] -= 1;
                        *place = Some(part);
                    }
                }
            }
            before.clear();
            before.extend(here.iter().flatten());
            for _ in 0..*times {
                for part in before.iter() {
                    let block = parts[*part].block;
                    match takes[start..].last_mut() {
                        Some(last) if last.block == block => last.nodes += 1,
                        _ => takes.push(Take { block, nodes: 1 }),
                    }
                }
            }
        }
    }
}

fn ways(
    parts: &[Part],
    shape: Shape,
    at: usize,
    (rest, unit, touched): (u32, u32, usize),
    all: &mut Vec<Shape>,
) {
    if rest == 0 {
        all.push(shape);
        return;
    }
    if at == parts.len() || touched == 0 || all.len() >= SHAPES {
        return;
    }
    let mut take = rest.min(parts[at].count);
    take -= take % unit;
    loop {
        let mut next = shape;
        next[at] = take;
        ways(parts, next, at + 1, (rest - take, unit, touched - usize::from(take > 0)), all);
        if take == 0 {
            return;
        }
        take -= unit;
    }
}
