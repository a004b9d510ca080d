//! Pipelines: groups that talk much inside stay whole in a block where that can be, then in a pod; and each node of a
//! group has its partner in the next one near it.

use std::cmp::Reverse;

use super::{
    cut::{ACROSS_LEAVES, ACROSS_PODS},
    fit::{Ask, Take},
};
use crate::{view::View, yard::Yard};

/// Blocks among which the split of groups is searched; of more, groups are cut from them in a row.
const PARTS: usize = 6;

/// Groups of at most so many nodes and gangs of at most so many groups are searched.
const SEARCHED: (u32, u32) = (16, 16);

/// Shapes of one group that are thought of at most.
const SHAPES: usize = 128;

/// Steps of one search.
const BUDGET: usize = 4000;

/// Nodes per part.
type Shape = [u32; PARTS];

/// A block with what it offers.
#[derive(Debug, Clone, Copy)]
struct Part {
    pod: u32,
    block: u32,
    count: u32,
}

/// A row of groups so far.
#[derive(Debug, Clone, Copy)]
struct State {
    left: Shape,
    cost: u64,
    /// What the rest will cost, about.
    guess: u64,
    /// The last group, into `history`.
    last: Option<usize>,
    /// The shape of the group behind it, into `shapes`.
    shape: usize,
}

/// Lays out pipelines; its vectors are used again.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    parts: Vec<Part>,
    shapes: Vec<Shape>,
    states: Vec<State>,
    next: Vec<State>,
    /// Shapes of groups, each with the one before it.
    history: Vec<(Shape, Option<usize>)>,
    row: Vec<usize>,
}

fn pairs(nodes: u32) -> u64 {
    u64::from(nodes) * u64::from(nodes.saturating_sub(1)) / 2
}

impl Groups {
    /// Lays `nodes` nodes out over some pods in groups of `size`, behind what is in `takes`. False if the pods are too
    /// small.
    pub(crate) fn lay(
        &mut self,
        yard: &Yard,
        view: &View,
        set: &[u32],
        (nodes, size): (u32, u32),
        ask: &Ask,
        takes: &mut Vec<Take>,
    ) -> bool {
        self.parts.clear();
        for pod in set {
            let blocks = yard.layout().pods[*pod as usize];
            for block in blocks.first_block..blocks.first_block + blocks.blocks {
                let count = view.blocks().count(block);
                let count = count - count % ask.leaf_unit;
                if count > 0 {
                    self.parts.push(Part { pod: *pod, block, count });
                }
            }
        }
        if self.parts.iter().map(|part| u64::from(part.count)).sum::<u64>() < u64::from(nodes) {
            return false;
        }
        let start = takes.len();
        let groups = nodes / size;
        if nodes.is_multiple_of(size) && self.keep_whole(nodes, size, takes) {
            takes[start..]
                .sort_unstable_by_key(|take| (yard.layout().blocks[take.block as usize].pod, take.block));
            return true;
        }
        let searched = self.parts.len() > 2
            && self.parts.len() <= PARTS
            && size <= SEARCHED.0
            && groups <= SEARCHED.1
            && nodes.is_multiple_of(size);
        if !(searched && self.search(groups, size, ask.leaf_unit, takes)) {
            self.in_a_row(nodes, size, takes);
        }
        true
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
        if let [a, b] = &self.parts[..] {
            // One group is split; the least evenly is the cheapest.
            let (most, least) = (a.count.min(nodes), nodes - b.count.min(nodes));
            let price = |first: u32| u64::from(first % size) * u64::from(size - first % size);
            let first = if price(least) < price(most) { least } else { most };
            takes.extend(
                [(a.block, first), (b.block, nodes - first)].map(|(block, nodes)| Take { block, nodes }),
            );
            takes.retain(|take| take.nodes > 0);
            return;
        }
        let pod_total = |parts: &[Part], pod: u32| -> u32 {
            parts.iter().filter(|part| part.pod == pod).map(|part| part.count).sum()
        };
        if self.parts.len() <= 64 {
            let parts = self.parts.clone();
            self.parts.sort_unstable_by_key(|part| {
                (Reverse(pod_total(&parts, part.pod)), part.pod, Reverse(part.count), part.block)
            });
        }
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

    /// Searches how to split groups over few blocks: group by group the cheapest rows so far are carried on.
    fn search(&mut self, groups: u32, size: u32, unit: u32, takes: &mut Vec<Take>) -> bool {
        let mut left: Shape = [0; PARTS];
        for (left, part) in left.iter_mut().zip(&self.parts) {
            *left = part.count;
        }
        self.history.clear();
        self.states.clear();
        self.states.push(State { left, cost: 0, guess: 0, last: None, shape: 0 });
        self.think_of_shapes(size, unit);
        let width = (BUDGET / (self.shapes.len().max(1) * groups as usize)).clamp(4, 64);
        for group in 0..groups {
            self.next.clear();
            for state in &self.states {
                let last = state.last.map(|last| self.history[last].0);
                for (at, shape) in self.shapes.iter().enumerate() {
                    if shape.iter().zip(&state.left).any(|(taken, left)| taken > left) {
                        continue;
                    }
                    let mut left = state.left;
                    left.iter_mut().zip(shape).for_each(|(left, taken)| *left -= taken);
                    let between = last.map_or(0, |last| self.between(&last, shape));
                    let cost = state.cost + self.inside(shape) + between;
                    let guess = cost + self.guess(&left, groups - group - 1, size);
                    self.next.push(State { left, cost, guess, last: state.last, shape: at });
                }
            }
            self.keep_best(width);
            if self.states.is_empty() {
                return false;
            }
        }
        let Some(best) = self.states.iter().min_by_key(|state| state.cost).copied() else { return false };
        self.row.clear();
        let mut at = best.last;
        while let Some(group) = at {
            self.row.push(group);
            at = self.history[group].1;
        }
        self.emit(size, takes);
        true
    }

    fn keep_best(&mut self, width: usize) {
        let Self { states, next, history, shapes, .. } = self;
        next.sort_unstable_by_key(|state| (state.guess, Reverse(state.left), state.last, state.shape));
        states.clear();
        for state in next.iter() {
            let shape = shapes[state.shape];
            let known = |other: &State| {
                other.left == state.left && other.last.is_some_and(|last| history[last].0 == shape)
            };
            if states.iter().any(known) {
                continue;
            }
            history.push((shape, state.last));
            states.push(State { last: Some(history.len() - 1), ..*state });
            if states.len() == width {
                break;
            }
        }
    }

    /// The ways to take a group from the parts: all, or if those are too many the ones that touch two parts at most.
    fn think_of_shapes(&mut self, size: u32, unit: u32) {
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
        for (at, part) in self.parts.iter().enumerate() {
            let first = self.parts.iter().position(|other| other.pod == part.pod).unwrap_or(at);
            sums[first] += shape[at];
        }
        sums
    }

    fn inside(&self, shape: &Shape) -> u64 {
        let all: u32 = shape.iter().sum();
        let pods: u64 = self.pod_sums(shape).iter().map(|nodes| pairs(*nodes)).sum();
        let blocks: u64 = shape.iter().map(|nodes| pairs(*nodes)).sum();
        (pairs(all) - pods) * ACROSS_PODS + (pods - blocks) * ACROSS_LEAVES
    }

    fn between(&self, a: &Shape, b: &Shape) -> u64 {
        let common = |a: &Shape, b: &Shape| a.iter().zip(b).map(|(a, b)| u64::from(*a.min(b))).sum::<u64>();
        let all = u64::from(a.iter().sum::<u32>());
        let (same, near) = (common(a, b), common(&self.pod_sums(a), &self.pod_sums(b)));
        (all - near) * ACROSS_PODS + (near - same) * ACROSS_LEAVES
    }

    /// What groups that can no longer stay whole will cost at least, about.
    fn guess(&self, left: &Shape, groups: u32, size: u32) -> u64 {
        let whole = |shape: &Shape| shape.iter().map(|nodes| nodes / size).sum::<u32>();
        let split = u64::from(groups.saturating_sub(whole(left)));
        let apart = u64::from(groups.saturating_sub(whole(&self.pod_sums(left))));
        let price = u64::from(size.saturating_sub(1));
        split * price * ACROSS_LEAVES + apart * price * (ACROSS_PODS - ACROSS_LEAVES)
    }

    /// The rank order: within a group each node beside its partner in the group before, as far as the shapes allow.
    fn emit(&mut self, size: u32, takes: &mut Vec<Take>) {
        let start = takes.len();
        let mut before: Vec<usize> = Vec::new();
        for at in self.row.iter().rev() {
            let mut left = self.history[*at].0;
            let mut here: Vec<Option<usize>> = vec![None; size as usize];
            for (place, partner) in here.iter_mut().zip(&before) {
                if left[*partner] > 0 {
                    left[*partner] -= 1;
                    *place = Some(*partner);
                }
            }
            for near in [true, false] {
                for (position, place) in here.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
                    let pod = before.get(position).map(|partner| self.parts[*partner].pod);
                    let fits =
                        |part: &usize| left[*part] > 0 && (!near || Some(self.parts[*part].pod) == pod);
                    if let Some(part) = (0..self.parts.len()).find(fits) {
                        left[part] -= 1;
                        *place = Some(part);
                    }
                }
            }
            before.clear();
            before.extend(here.into_iter().flatten());
            for part in &before {
                let block = self.parts[*part].block;
                match takes[start..].last_mut() {
                    Some(last) if last.block == block => last.nodes += 1,
                    _ => takes.push(Take { block, nodes: 1 }),
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
