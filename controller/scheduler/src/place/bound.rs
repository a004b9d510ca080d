//! What a gang cuts at least: what cannot be better than what was found is not laid out.

use super::{
    cut::{ACROSS_LEAVES, ACROSS_PODS},
    need::Pattern,
    request::{FitRequest, whole},
};
use crate::{capacity_index::CapacityIndex, view::View};

fn pairs(nodes: u64) -> u64 {
    nodes * nodes.saturating_sub(1) / 2
}

/// What a gang in so many pods cuts at least, if no block takes more than `most`.
pub(crate) fn least_cut(ask: &FitRequest, most: u32, pods: usize) -> u64 {
    let (nodes, most, pods) = (u64::from(ask.nodes), u64::from(most.max(1)), pods as u64);
    let blocks = nodes.div_ceil(most).max(pods);
    match ask.pattern {
        Pattern::Ring if pods == 1 => blocks * ACROSS_LEAVES,
        Pattern::Ring => pods * ACROSS_PODS + (blocks - pods) * ACROSS_LEAVES,
        Pattern::AllToAll if pods == 1 => {
            (pairs(nodes) - nodes / most * pairs(most) - pairs(nodes % most)) * ACROSS_LEAVES
        }
        Pattern::AllToAll => 0,
        Pattern::Pipeline(size) => {
            u64::from(size) * ((pods - 1) * ACROSS_PODS + (blocks - pods) * ACROSS_LEAVES)
        }
    }
}

/// What a gang in this pod cuts at least, whichever of its blocks it takes; `counts` is used again.
pub(crate) fn least_in_pod(
    capacity_index: &CapacityIndex,
    view: &View,
    pod: u32,
    ask: &FitRequest,
    counts: &mut Vec<u32>,
) -> u64 {
    let pod = capacity_index.layout().pods[pod as usize];
    let blocks = pod.first_block..pod.first_block + pod.blocks;
    counts.clear();
    counts.extend(blocks.map(|block| whole(view.blocks().count(block), ask.leaf_unit)));
    counts.sort_unstable_by(|a, b| b.cmp(a));
    least_of(ask, counts)
}

/// The same of what its blocks offer, the most first.
fn least_of(ask: &FitRequest, counts: &[u32]) -> u64 {
    // The largest first are the fewest blocks, and the most pairs that stay inside one.
    let (mut rest, mut blocks, mut inside) = (ask.nodes, 0_u64, 0);
    for count in counts.iter().take_while(|count| **count > 0) {
        if rest == 0 {
            break;
        }
        let here = rest.min(*count);
        (rest, blocks, inside) = (rest - here, blocks + 1, inside + pairs(u64::from(here)));
    }
    if blocks < 2 || rest > 0 {
        return 0;
    }
    let all = pairs(u64::from(ask.nodes));
    let least = match ask.pattern {
        Pattern::Ring => blocks,
        Pattern::AllToAll => all - inside,
        Pattern::Pipeline(size) if size == ask.nodes => all - inside,
        // Whatever a block takes, no fewer connections leave it than a node at an end of the row has: one to each other
        // of its group, and its partner. Each is counted at both ends.
        Pattern::Pipeline(size) if size > 1 && ask.nodes.is_multiple_of(size) => {
            (blocks * u64::from(size)).div_ceil(2)
        }
        Pattern::Pipeline(_) => blocks - 1,
    };
    least * ACROSS_LEAVES
}

#[cfg(test)]
mod tests {
    use super::{FitRequest, Pattern, least_of};
    use crate::{
        capacity_index::Layout,
        place::{Arrange, Take, Within, cut},
    };

    #[test]
    fn no_order_of_nodes_cuts_less() {
        let (layout, nodes) = (Layout::of(&[3]), 6);
        for order in 0..3_u32.pow(nodes) {
            let ranks: Vec<u32> = (0..nodes).map(|at| order / 3_u32.pow(at) % 3).collect();
            let runs = ranks.chunk_by(|a, b| a == b);
            let takes: Vec<Take> = runs.map(|run| Take { block: run[0], nodes: run.len() as u32 }).collect();
            let mut counts: Vec<u32> =
                (0..3).map(|block| ranks.iter().filter(|rank| **rank == block).count() as u32).collect();
            let comes_back = takes.len() > counts.iter().filter(|count| **count > 0).count();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            for pattern in [
                Pattern::Ring,
                Pattern::AllToAll,
                Pattern::Pipeline(1),
                Pattern::Pipeline(2),
                Pattern::Pipeline(3),
                Pattern::Pipeline(6),
            ] {
                // Only pipelines come back to a block.
                if comes_back && !matches!(pattern, Pattern::Pipeline(_)) {
                    continue;
                }
                let ask = FitRequest {
                    nodes,
                    leaf_unit: 1,
                    pod_unit: 1,
                    leaf_preferred: 1,
                    pod_preferred: 1,
                    within: Within::Fabric,
                    arrange: Arrange::Pack,
                    pattern,
                    spares: 0,
                    beat: None,
                    sparing: false,
                };
                let (least, found) = (least_of(&ask, &counts), cut(&layout, &takes, pattern));
                assert!(least <= found, "{pattern:?} {ranks:?}: {least} > {found}");
                if pattern == Pattern::AllToAll {
                    assert_eq!(least, found, "{ranks:?}");
                }
            }
        }
    }
}
