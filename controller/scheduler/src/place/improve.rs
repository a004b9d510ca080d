//! The last touch to a small gang over several blocks: what one change alone would still better is changed.

use super::{
    groups::{Groups, PARTS, SEARCHED, Shape},
    request::{FitRequest, Take},
};
use crate::{capacity_index::CapacityIndex, view::View};

/// Groups of a pipeline that are looked at at most.
const GROUPS: usize = 8;

/// Changes of one pipeline at most.
const CHANGES: usize = 8;

/// Gangs of so many nodes are started anew from other ways to split them.
const TINY: u32 = 16;

/// One group taken out and put in elsewhere, in another shape.
#[derive(Clone, Copy)]
struct Move {
    from: usize,
    shape: usize,
    to: usize,
}

impl Groups {
    /// Betters a pipeline that lies in `takes`: as long as it helps, a group is taken out and made of other nodes in
    /// another place of the row, a part of the row is turned round, or two groups exchange a node. False if nothing
    /// helped.
    pub(super) fn improve(
        &mut self,
        capacity_index: &CapacityIndex,
        view: &View,
        set: &[u32],
        size: u32,
        ask: &FitRequest,
        takes: &mut Vec<Take>,
    ) -> bool {
        self.gather(capacity_index, view, set, ask);
        if self.parts.len() > PARTS || self.parts.len() < 2 || !self.read(size, takes) {
            return false;
        }
        self.find_homes();
        self.think_of_shapes(size, ask.leaf_unit);
        let before = self.cost(&self.row);
        self.climb(ask.leaf_unit);
        let groups = u32::try_from(self.row.len()).unwrap_or(u32::MAX);
        if groups * size <= TINY {
            self.start_anew(groups, size, ask.leaf_unit);
        }
        let better = self.cost(&self.row) < before;
        if better {
            takes.clear();
            self.emit(size, takes);
        }
        better
    }

    /// Climbs from other ways to split what whole groups leave, too; the best of all into `row`.
    fn start_anew(&mut self, groups: u32, size: u32, unit: u32) {
        let split = groups.saturating_sub(self.parts.iter().map(|part| part.count / size).sum());
        if split == 0 || split > SEARCHED.1 {
            return;
        }
        let mut best = self.row.clone();
        let mut least = self.cost(&best);
        let mut counts: Shape = [0; PARTS];
        counts.iter_mut().zip(&self.parts).for_each(|(count, part)| *count = part.count);
        let found = self.think_of_states(split, size, unit);
        // The ways name shapes of what was left.
        let shapes = self.shapes.clone();
        self.parts.iter_mut().zip(counts).for_each(|(part, count)| part.count = count);
        self.think_of_shapes(size, unit);
        let (whole, states) = (std::mem::take(&mut self.row), std::mem::take(&mut self.states));
        for state in states.iter().filter(|_| found) {
            self.row.clear();
            for (shape, times) in &whole {
                self.row.extend(std::iter::repeat_n((*shape, 1), *times as usize));
            }
            for at in &state.row[..split as usize] {
                self.insert(shapes[usize::from(*at)]);
            }
            self.climb(unit);
            let cost = self.cost(&self.row);
            if cost < least {
                least = cost;
                best.clone_from(&self.row);
            }
        }
        (self.row, self.states) = (best, states);
    }

    /// Changes the row as long as that helps.
    fn climb(&mut self, unit: u32) {
        let mut left: Shape = [0; PARTS];
        for (at, part) in self.parts.iter().enumerate() {
            let used: u32 = self.row.iter().map(|(shape, _)| shape[at]).sum();
            left[at] = part.count.saturating_sub(used);
        }
        for _ in 0..CHANGES {
            if let Some(best) = self.best_move(&left) {
                let (old, _) = self.row.remove(best.from);
                let new = self.shapes[best.shape];
                left.iter_mut()
                    .zip(old.iter().zip(new))
                    .for_each(|(left, (old, new))| *left = *left + old - new);
                self.row.insert(best.to, (new, 1));
            } else if let Some((from, to)) = self.best_turn() {
                self.row[from..=to].reverse();
            } else if unit > 1 || !self.exchange() {
                return;
            }
        }
    }

    /// The shapes of the groups in rank order; false if there are too many.
    fn read(&mut self, size: u32, takes: &[Take]) -> bool {
        self.row.clear();
        let (mut shape, mut filled): (Shape, u32) = ([0; PARTS], 0);
        for take in takes {
            let Some(part) = self.parts.iter().position(|part| part.block == take.block) else {
                return false;
            };
            let mut rest = take.nodes;
            while rest > 0 {
                let here = rest.min(size - filled);
                shape[part] += here;
                (filled, rest) = (filled + here, rest - here);
                if filled == size {
                    self.row.push((shape, 1));
                    (shape, filled) = ([0; PARTS], 0);
                    if self.row.len() > GROUPS {
                        return false;
                    }
                }
            }
        }
        filled == 0 && self.row.len() > 1
    }

    /// The part of the row that is better the other way round, if one is: the one that saves most.
    fn best_turn(&self) -> Option<(usize, usize)> {
        let row = &self.row[..];
        let pair = |a: Option<usize>, b: Option<usize>| {
            a.zip(b).map_or(0, |(a, b)| self.between(&row[a].0, &row[b].0))
        };
        let mut best: Option<(u64, (usize, usize))> = None;
        for from in 0..row.len() {
            for to in from + 1..row.len() {
                let (before, behind) = (from.checked_sub(1), (to + 1 < row.len()).then_some(to + 1));
                let was = pair(before, Some(from)) + pair(Some(to), behind);
                let saved = was.saturating_sub(pair(before, Some(to)) + pair(Some(from), behind));
                if saved > best.map_or(0, |(most, _)| most) {
                    best = Some((saved, (from, to)));
                }
            }
        }
        best.map(|(_, part)| part)
    }

    /// Lets two groups exchange a node, both then put where they cost least. False if no such exchange helps.
    fn exchange(&mut self) -> bool {
        let old = std::mem::take(&mut self.row);
        let least = self.cost(&old);
        for (from, (one, _)) in old.iter().enumerate() {
            for (to, (other, _)) in old.iter().enumerate().skip(from + 1) {
                for (a, b) in (0..PARTS * PARTS).map(|pair| (pair / PARTS, pair % PARTS)) {
                    if a == b || one[a] == 0 || other[b] == 0 {
                        continue;
                    }
                    let (mut one, mut other) = (*one, *other);
                    (one[a], one[b]) = (one[a] - 1, one[b] + 1);
                    (other[a], other[b]) = (other[a] + 1, other[b] - 1);
                    let rest = old.iter().enumerate().filter(|(at, _)| *at != from && *at != to);
                    self.row.clear();
                    self.row.extend(rest.map(|(_, group)| *group));
                    self.insert(one);
                    self.insert(other);
                    if self.cost(&self.row) < least {
                        return true;
                    }
                }
            }
        }
        self.row = old;
        false
    }

    fn cost(&self, row: &[(Shape, u32)]) -> u64 {
        let inside: u64 = row.iter().map(|(shape, _)| self.inside(shape)).sum();
        inside + row.windows(2).map(|pair| self.between(&pair[0].0, &pair[1].0)).sum::<u64>()
    }

    /// The change that saves most, if any does.
    fn best_move(&self, left: &Shape) -> Option<Move> {
        let row = &self.row[..];
        let last = row.len() - 1;
        // Between neighbours as they are, and between those that become neighbours when one is taken out.
        let pair = |a: usize, b: usize| self.between(&row[a].0, &row[b].0);
        let mut best: Option<(u64, Move)> = None;
        let mut beside = [0_u64; GROUPS];
        for (at, shape) in self.shapes.iter().enumerate() {
            let inside = self.inside(shape);
            beside.iter_mut().zip(row).for_each(|(beside, (other, _))| *beside = self.between(shape, other));
            for (from, (old, _)) in row.iter().enumerate() {
                let fits = (0..PARTS).all(|part| shape[part] <= left[part] + old[part]);
                if !fits {
                    continue;
                }
                let neighbours = (from.checked_sub(1), (from < last).then_some(from + 1));
                let was = self.inside(old)
                    + neighbours.0.map_or(0, |a| pair(a, from))
                    + neighbours.1.map_or(0, |b| pair(from, b));
                let joined = neighbours.0.zip(neighbours.1).map_or(0, |(a, b)| pair(a, b));
                if was <= joined + inside {
                    continue;
                }
                // In the row without it: between `to - 1` and `to`.
                let place = |at: usize| if at < from { at } else { at + 1 };
                for to in 0..=last {
                    let (a, b) = (to.checked_sub(1).map(place), (to < last).then(|| place(to)));
                    let parted = a.zip(b).map_or(0, |(a, b)| pair(a, b));
                    let now = inside + a.map_or(0, |a| beside[a]) + b.map_or(0, |b| beside[b]);
                    let saved = (was + parted).saturating_sub(joined + now);
                    if saved > best.map_or(0, |(most, _)| most) {
                        best = Some((saved, Move { from, shape: at, to }));
                    }
                }
            }
        }
        best.map(|(_, best)| best)
    }
}
