//! Pipelines: groups that talk much inside are kept whole in a block, then in a pod, and split only where nothing else
//! is left.

use super::fit::{Ask, Take};
use crate::{view::View, yard::Yard};

/// Lays `ask.nodes` nodes out over some pods, in groups of `size`, in rank order. False if the pods are too small.
pub(crate) fn lay(
    yard: &Yard,
    view: &View,
    set: &[u32],
    ask: &Ask,
    size: u32,
    takes: &mut Vec<Take>,
) -> bool {
    let layout = yard.layout();
    let size = size.max(1);
    let mut parts: Vec<(u32, u32, u32)> = Vec::new();
    for pod in set {
        let blocks = layout.pods[*pod as usize];
        let blocks = blocks.first_block..blocks.first_block + blocks.blocks;
        parts.extend(blocks.map(|block| (*pod, block, view.blocks().count(block))).filter(|part| part.2 > 0));
    }
    if parts.iter().map(|part| u64::from(part.2)).sum::<u64>() < u64::from(ask.nodes) {
        return false;
    }
    // Whole groups from the largest blocks; what is left over of the others is taken last.
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(parts[*at].2), parts[*at].1));
    let unit = ask.leaf_unit.max(1);
    let mut rest = ask.nodes;
    let mut given: Vec<u32> = vec![0; parts.len()];
    for (place, at) in order.iter().enumerate() {
        let groups = rest - rest % size;
        let fits = |at: &usize| parts[*at].2 >= groups;
        // The tightest block that takes all the groups that are left.
        let at = if fits(at) { order[place..].iter().rev().find(|at| fits(at)).unwrap_or(at) } else { at };
        if given[*at] > 0 {
            continue;
        }
        let nodes = (parts[*at].2 - parts[*at].2 % size).min(groups);
        given[*at] = nodes;
        rest -= nodes;
    }
    for (at, part) in parts.iter().enumerate().filter(|(at, _)| given[*at] > 0) {
        takes.push(Take { block: part.1, nodes: given[at] });
    }
    split(&parts, &mut given, rest, unit, takes)
}

/// The groups that no block holds, out of what is left: pod by pod, the largest remainders first.
fn split(
    parts: &[(u32, u32, u32)],
    given: &mut [u32],
    mut rest: u32,
    unit: u32,
    takes: &mut Vec<Take>,
) -> bool {
    let left = |at: usize, given: &[u32]| {
        let left = parts[at].2 - given[at];
        left - left % unit
    };
    while rest > 0 {
        // The pod with most left, and in it the block that takes all of the rest most tightly, or the largest.
        let pod_left = |pod: u32| -> u32 {
            (0..parts.len()).filter(|at| parts[*at].0 == pod).map(|at| left(at, given)).sum()
        };
        let best = (0..parts.len()).filter(|at| left(*at, given) > 0).min_by_key(|at| {
            let (here, pod) = (left(*at, given), pod_left(parts[*at].0));
            let in_block = here >= rest;
            let in_pod = pod >= rest;
            let tight = if in_block { here } else { u32::MAX - here };
            (!in_block, !in_pod, if in_pod { 0 } else { u32::MAX - pod }, tight, parts[*at].1)
        });
        let Some(at) = best else { return false };
        let nodes = left(at, given).min(rest);
        takes.push(Take { block: parts[at].1, nodes });
        given[at] += nodes;
        rest -= nodes;
    }
    true
}
