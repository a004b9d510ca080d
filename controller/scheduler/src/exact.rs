//! The optimum by looking at everything, for comparison: small fabrics only, never used to decide.
//!
//! Nodes of one block are alike, so a gang is a number of nodes per block. For rings and all-to-all the rest is dynamic
//! programming over blocks and pods; for pipelines over groups, with what each block has left.

use std::collections::BTreeMap;

use crate::place::{ACROSS_LEAVES, ACROSS_PODS, Pattern};

/// What is to be laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Puzzle<'a> {
    /// Free nodes, per pod and block.
    pub pods: &'a [Vec<u32>],
    /// Nodes of the gang.
    pub nodes: u32,
    /// Nodes that must stay on the same leaves, and in one pod: the gang is a multiple of each.
    pub units: (u32, u32),
    /// Who talks to whom.
    pub pattern: Pattern,
}

fn pairs(nodes: u32) -> u64 {
    u64::from(nodes) * u64::from(nodes.saturating_sub(1)) / 2
}

/// The fewest pods, and the least weighted cut in so many; `None` if the gang does not fit.
#[must_use]
pub fn optimum(puzzle: &Puzzle<'_>) -> Option<(u32, u64)> {
    let pods = fewest(puzzle)?;
    let cut = match puzzle.pattern {
        Pattern::Ring => ring(puzzle, pods)?,
        Pattern::AllToAll => all_to_all(puzzle, pods)?,
        Pattern::Pipeline(size) => pipeline(puzzle, pods, size.max(1))?,
    };
    Some((pods, cut))
}

fn whole(nodes: u32, unit: u32) -> u32 {
    nodes - nodes % unit.max(1)
}

/// What a pod takes in whole units, at most.
fn size(puzzle: &Puzzle<'_>, blocks: &[u32]) -> u32 {
    whole(blocks.iter().map(|count| whole(*count, puzzle.units.0)).sum(), puzzle.units.1)
}

fn fewest(puzzle: &Puzzle<'_>) -> Option<u32> {
    let mut sizes: Vec<u32> = puzzle.pods.iter().map(|blocks| size(puzzle, blocks)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    let enough = sizes.iter().position(|size| {
        sum += size;
        sum >= puzzle.nodes
    });
    u32::try_from(enough? + 1).ok()
}

/// A ring leaves each pod once and each block once: what counts is how many blocks are used.
fn ring(puzzle: &Puzzle<'_>, pods: u32) -> Option<u64> {
    let most = puzzle.pods.iter().map(Vec::len).sum::<usize>();
    // Per number of pods and of blocks the most nodes that they take.
    let mut best = vec![vec![None::<u32>; most + 1]; pods as usize + 1];
    best[0][0] = Some(0);
    for blocks in puzzle.pods {
        let mut counts: Vec<u32> = blocks.iter().map(|count| whole(*count, puzzle.units.0)).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        for used in (0..pods as usize).rev() {
            for before in 0..=most {
                let Some(nodes) = best[used][before] else { continue };
                for take in 1..=counts.len().min(most - before) {
                    let here = whole(counts[..take].iter().sum(), puzzle.units.1);
                    let cell = &mut best[used + 1][before + take];
                    *cell = Some(cell.map_or(nodes + here, |old| old.max(nodes + here)));
                }
            }
        }
    }
    let blocks =
        (1..=most).find(|blocks| best[pods as usize][*blocks].is_some_and(|nodes| nodes >= puzzle.nodes))?;
    let blocks = blocks as u64;
    Some(match (pods, blocks) {
        (1, 1) => 0,
        (1, _) => blocks * ACROSS_LEAVES,
        _ => u64::from(pods) * ACROSS_PODS + (blocks - u64::from(pods)) * ACROSS_LEAVES,
    })
}

/// All pairs, less what pairs inside pods and blocks save: sums of squares, the larger the better.
fn all_to_all(puzzle: &Puzzle<'_>, pods: u32) -> Option<u64> {
    let nodes = puzzle.nodes as usize;
    let mut best = vec![vec![None::<u64>; nodes + 1]; pods as usize + 1];
    best[0][0] = Some(0);
    for blocks in puzzle.pods {
        let mut inside = vec![None::<u64>; nodes + 1];
        inside[0] = Some(0);
        for count in blocks {
            let mut next = inside.clone();
            for take in (1..=*count).filter(|take| take.is_multiple_of(puzzle.units.0.max(1))) {
                for (before, saved) in inside.iter().enumerate() {
                    let Some(saved) = saved else { continue };
                    let Some(cell) = next.get_mut(before + take as usize) else { continue };
                    let saved = saved + pairs(take) * ACROSS_LEAVES;
                    *cell = Some(cell.map_or(saved, |old| old.max(saved)));
                }
            }
            inside = next;
        }
        for used in (0..pods as usize).rev() {
            for before in 0..=nodes {
                let Some(saved) = best[used][before] else { continue };
                for take in
                    (1..=nodes - before).filter(|take| take.is_multiple_of(puzzle.units.1.max(1) as usize))
                {
                    let Some(here) = inside[take] else { continue };
                    let saved = saved + here + pairs(take as u32) * (ACROSS_PODS - ACROSS_LEAVES);
                    let cell = &mut best[used + 1][before + take];
                    *cell = Some(cell.map_or(saved, |old| old.max(saved)));
                }
            }
        }
    }
    best[pods as usize][nodes].map(|saved| pairs(puzzle.nodes) * ACROSS_PODS - saved)
}

/// Groups in a row; a layer holds, per nodes left in each block and shape of the last group, the least cut so far.
fn pipeline(puzzle: &Puzzle<'_>, pods: u32, size: u32) -> Option<u64> {
    let free: Vec<u32> = puzzle.pods.iter().flatten().copied().collect();
    let pod_of: Vec<usize> =
        puzzle.pods.iter().enumerate().flat_map(|(pod, blocks)| blocks.iter().map(move |_| pod)).collect();
    let mut layer: BTreeMap<(Vec<u32>, Vec<u32>), u64> = BTreeMap::new();
    layer.insert((free.clone(), Vec::new()), 0);
    let mut rest = puzzle.nodes;
    while rest > 0 {
        let group = rest.min(size);
        let mut next: BTreeMap<(Vec<u32>, Vec<u32>), u64> = BTreeMap::new();
        for ((free, last), cut) in &layer {
            let mut shapes = Vec::new();
            shares(free, group, &mut Vec::new(), &mut shapes);
            for shape in shapes {
                let left: Vec<u32> = free.iter().zip(&shape).map(|(free, taken)| free - taken).collect();
                let cut = cut + inside(&shape, &pod_of) + between(last, &shape, &pod_of);
                let cell = next.entry((left, shape)).or_insert(u64::MAX);
                *cell = (*cell).min(cut);
            }
        }
        layer = next;
        rest -= group;
    }
    let used = |left: &[u32]| {
        let used: std::collections::BTreeSet<usize> =
            (0..free.len()).filter(|at| left[*at] < free[*at]).map(|at| pod_of[at]).collect();
        used.len()
    };
    let fits = |((left, _), _): &(&(Vec<u32>, Vec<u32>), &u64)| used(left) == pods as usize;
    layer.iter().filter(fits).map(|(_, cut)| *cut).min()
}

/// All ways to take `nodes` from the blocks.
fn shares(free: &[u32], nodes: u32, so_far: &mut Vec<u32>, all: &mut Vec<Vec<u32>>) {
    let Some(here) = free.get(so_far.len()) else {
        if nodes == 0 {
            all.push(so_far.clone());
        }
        return;
    };
    for take in 0..=nodes.min(*here) {
        so_far.push(take);
        shares(free, nodes - take, so_far, all);
        so_far.pop();
    }
}

fn by_pod(shape: &[u32], pod_of: &[usize]) -> BTreeMap<usize, u32> {
    let mut pods = BTreeMap::new();
    for (nodes, pod) in shape.iter().zip(pod_of) {
        *pods.entry(*pod).or_default() += nodes;
    }
    pods
}

fn inside(shape: &[u32], pod_of: &[usize]) -> u64 {
    let all: u32 = shape.iter().sum();
    let pods: u64 = by_pod(shape, pod_of).values().map(|nodes| pairs(*nodes)).sum();
    let blocks: u64 = shape.iter().map(|nodes| pairs(*nodes)).sum();
    (pairs(all) - pods) * ACROSS_PODS + (pods - blocks) * ACROSS_LEAVES
}

/// The nodes of each group may stand in any order, so as many as can be have their partner in their own block, then in
/// their own pod. Along a row of groups all such orders can be had together.
fn between(last: &[u32], shape: &[u32], pod_of: &[usize]) -> u64 {
    if last.is_empty() {
        return 0;
    }
    let edges = u64::from(shape.iter().sum::<u32>().min(last.iter().sum()));
    let same: u64 = last.iter().zip(shape).map(|(a, b)| u64::from(*a.min(b))).sum();
    let (a, b) = (by_pod(last, pod_of), by_pod(shape, pod_of));
    let near: u64 = a.iter().map(|(pod, nodes)| u64::from(*nodes.min(b.get(pod).unwrap_or(&0)))).sum();
    (edges - near) * ACROSS_PODS + (near - same) * ACROSS_LEAVES
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Puzzle, optimum};
    use crate::capacity_index::Layout;
    use crate::place::{Pattern, Take, cut};

    /// The same by every number of nodes per block, in rank order of every block order for a ring.
    fn brute(puzzle: &Puzzle<'_>) -> Option<(u32, u64)> {
        let free: Vec<u32> = puzzle.pods.iter().flatten().copied().collect();
        let layout = Layout::of(&puzzle.pods.iter().map(|pod| pod.len() as u32).collect::<Vec<_>>());
        let mut all = Vec::new();
        super::shares(&free, puzzle.nodes, &mut Vec::new(), &mut all);
        let score = |shape: &Vec<u32>| {
            let takes: Vec<Take> = (0..)
                .zip(shape)
                .filter(|(_, nodes)| **nodes > 0)
                .map(|(block, nodes)| Take { block, nodes: *nodes })
                .collect();
            let pods: Vec<u32> = takes.iter().map(|take| layout.blocks[take.block as usize].pod).collect();
            let mut sums = std::collections::BTreeMap::<u32, u32>::new();
            for (pod, take) in pods.iter().zip(&takes) {
                *sums.entry(*pod).or_default() += take.nodes;
            }
            let fits = takes.iter().all(|take| take.nodes % puzzle.units.0 == 0)
                && sums.values().all(|nodes| nodes % puzzle.units.1 == 0);
            fits.then(|| (sums.len() as u32, cut(&layout, &takes, puzzle.pattern)))
        };
        all.iter().filter_map(score).min()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_optimum_is_that_of_all_ways(
            pods in prop::collection::vec(prop::collection::vec(0_u32..5, 1..4), 1..4),
            nodes in 1_u32..10,
            units in prop_oneof![3 => Just((1, 1)), 1 => Just((1, 2)), 1 => Just((2, 1)), 1 => Just((2, 4))],
            ring in any::<bool>(),
        ) {
            let nodes = nodes.next_multiple_of(units.0.max(units.1));
            let pattern = if ring { Pattern::Ring } else { Pattern::AllToAll };
            let puzzle = Puzzle { pods: &pods, nodes, units, pattern };
            prop_assert_eq!(optimum(&puzzle), brute(&puzzle));
        }

        #[test]
        fn no_pipeline_in_rank_order_is_better(
            pods in prop::collection::vec(prop::collection::vec(0_u32..5, 1..3), 1..3),
            groups in 1_u32..4,
            size in 1_u32..4,
        ) {
            let puzzle = Puzzle { pods: &pods, nodes: groups * size, units: (1, 1), pattern: Pattern::Pipeline(size) };
            let (exact, ranks) = (optimum(&puzzle), brute(&puzzle));
            prop_assert_eq!(exact.map(|(pods, _)| pods), ranks.map(|(pods, _)| pods));
            prop_assert!(exact <= ranks);
        }
    }
}
