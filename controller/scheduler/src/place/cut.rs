//! What a gang's traffic costs where it leaves the leaves and the pods.

use super::{need::Pattern, request::Take};
use crate::capacity_index::Layout;

/// Cost of a connection between nodes of one pod that are not on the same leaves: through the pod's spines.
pub const ACROSS_LEAVES: u64 = 1;

/// Cost of a connection between pods: longer, and the part of a fabric with the least bandwidth per node.
pub const ACROSS_PODS: u64 = 4;

fn weight(layout: &Layout, a: u32, b: u32) -> u64 {
    if a == b {
        0
    } else if layout.blocks[a as usize].pod == layout.blocks[b as usize].pod {
        ACROSS_LEAVES
    } else {
        ACROSS_PODS
    }
}

/// The weighted cut of nodes in rank order: so many of one block, then so many of the next.
pub(crate) fn cut(layout: &Layout, takes: &[Take], pattern: Pattern) -> u64 {
    if takes.len() < 2 {
        return 0;
    }
    match pattern {
        Pattern::Ring => {
            let next = takes.iter().cycle().skip(1);
            takes.iter().zip(next).map(|(a, b)| weight(layout, a.block, b.block)).sum()
        }
        Pattern::AllToAll => all_to_all(layout, takes),
        Pattern::Pipeline(size) => pipeline(layout, takes, size.max(1)),
    }
}

/// Pairs of nodes, each with its weight: all pairs, less those that stay inside a pod, less those on the same leaves.
fn all_to_all(layout: &Layout, takes: &[Take]) -> u64 {
    let pairs = |nodes: u64| nodes * nodes.saturating_sub(1) / 2;
    let all: u64 = takes.iter().map(|take| u64::from(take.nodes)).sum();
    // Takes of a pod are in a row, and those of a block are one.
    let inside: u64 = takes
        .chunk_by(|a, b| layout.blocks[a.block as usize].pod == layout.blocks[b.block as usize].pod)
        .map(|pod| pairs(pod.iter().map(|take| u64::from(take.nodes)).sum()))
        .sum();
    let same: u64 = takes.iter().map(|take| pairs(u64::from(take.nodes))).sum();
    (pairs(all) - inside) * ACROSS_PODS + (inside - same) * ACROSS_LEAVES
}

fn pipeline(layout: &Layout, takes: &[Take], size: u32) -> u64 {
    let total: u32 = takes.iter().map(|take| take.nodes).sum();
    let mut sum = 0;
    // Between groups: rank r with rank r + size. Both ends move through the takes together.
    let (mut low, mut high) = (Walk::new(takes), Walk::new(takes));
    high.skip(size);
    while let (Some(a), Some(b)) = (low.here(), high.here()) {
        let run = low.left().min(high.left());
        sum += u64::from(run) * weight(layout, a, b);
        low.skip(run);
        high.skip(run);
    }
    // Inside a group: all pairs of its parts.
    let (mut walk, mut at, mut parts) = (Walk::new(takes), 0, Vec::new());
    while at < total {
        parts.clear();
        let end = (at + size).min(total);
        while at < end {
            let Some(block) = walk.here() else { return sum };
            let nodes = walk.left().min(end - at);
            match parts.iter_mut().find(|part: &&mut Take| part.block == block) {
                Some(part) => part.nodes += nodes,
                None => parts.push(Take { block, nodes }),
            }
            walk.skip(nodes);
            at += nodes;
        }
        if parts.len() > 1 {
            parts.sort_unstable();
            sum += all_to_all(layout, &parts);
        }
    }
    sum
}

/// A place in the rank order.
struct Walk<'a> {
    takes: &'a [Take],
    passed: u32,
}

impl<'a> Walk<'a> {
    fn new(takes: &'a [Take]) -> Self {
        Self { takes, passed: 0 }
    }

    fn here(&self) -> Option<u32> {
        self.takes.first().map(|take| take.block)
    }

    fn left(&self) -> u32 {
        self.takes.first().map_or(0, |take| take.nodes - self.passed)
    }

    fn skip(&mut self, mut nodes: u32) {
        while let Some(take) = self.takes.first() {
            let left = take.nodes - self.passed;
            if nodes < left {
                self.passed += nodes;
                return;
            }
            nodes -= left;
            self.takes = &self.takes[1..];
            self.passed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pattern, Take, cut};
    use crate::capacity_index::Layout;

    #[test]
    fn against_counting_every_connection() {
        // Two pods of two blocks each.
        let layout = Layout::of(&[2, 2]);
        let gangs: [&[(u32, u32)]; 6] = [
            &[(0, 4)],
            &[(0, 3), (1, 3)],
            &[(0, 2), (2, 5), (3, 1)],
            &[(1, 6), (3, 6)],
            &[(0, 1), (2, 1), (0, 2), (1, 1), (2, 2)],
            &[(0, 1), (1, 1), (2, 1), (3, 9)],
        ];
        for gang in gangs {
            let takes: Vec<Take> =
                gang.iter().map(|(block, nodes)| Take { block: *block, nodes: *nodes }).collect();
            let ranks: Vec<u32> =
                gang.iter().flat_map(|(block, nodes)| std::iter::repeat_n(*block, *nodes as usize)).collect();
            let weight = |a: usize, b: usize| match (ranks[a] == ranks[b], ranks[a] / 2 == ranks[b] / 2) {
                (true, _) => 0,
                (false, true) => super::ACROSS_LEAVES,
                (false, false) => super::ACROSS_PODS,
            };
            let n = ranks.len();
            let ring = (0..n).map(|at| weight(at, (at + 1) % n)).sum();
            assert_eq!(cut(&layout, &takes, Pattern::Ring), ring, "{gang:?}");
            let all = (0..n).flat_map(|a| (0..a).map(move |b| (a, b)));
            // Only pipelines come back to a block.
            if !(0..takes.len()).any(|at| takes[..at].iter().any(|take| take.block == takes[at].block)) {
                let pairs = all.clone().map(|(a, b)| weight(a, b)).sum();
                assert_eq!(cut(&layout, &takes, Pattern::AllToAll), pairs, "{gang:?}");
            }
            for size in 1..6 {
                let inside =
                    all.clone().filter(|(a, b)| a / size == b / size).map(|(a, b)| weight(a, b)).sum::<u64>();
                let next = (size..n).map(|at| weight(at, at - size)).sum::<u64>();
                assert_eq!(
                    cut(&layout, &takes, Pattern::Pipeline(size as u32)),
                    inside + next,
                    "{gang:?} {size}"
                );
            }
        }
    }
}
