//! Gangs that want to lie apart: evenly over the pods, and in each over its blocks.

use super::{
    cut::cut,
    need::Within,
    request::{Fit, FitRequest, Take},
};
use crate::{capacity_index::CapacityIndex, view::View};

/// Lays a gang out evenly, in `takes`.
pub(crate) fn spread(
    capacity_index: &CapacityIndex,
    view: &View,
    ask: &FitRequest,
    takes: &mut Vec<Take>,
) -> Option<Fit> {
    let layout = capacity_index.layout();
    let blocks_of = |pod: u32| {
        let pod = layout.pods[pod as usize];
        pod.first_block..pod.first_block + pod.blocks
    };
    let room = |pod: u32| -> u32 {
        let whole = |count: u32| count - count % ask.leaf_unit;
        let room: u32 = blocks_of(pod).map(|block| whole(view.blocks().count(block))).sum();
        room - room % ask.pod_unit
    };
    let unit = ask.pod_unit.max(ask.leaf_unit);
    if ask.within == Within::Fabric && one_each(capacity_index, view, ask, takes) {
        return Some(Fit { pods: ask.nodes, cut: cut(layout, takes, ask.pattern) });
    }
    let mut pods: Vec<(u32, u32)> = (0..layout.pods.len() as u32).map(|pod| (pod, room(pod))).collect();
    match ask.within {
        Within::Fabric => {}
        Within::Pod => {
            // The pod with the most room is where the nodes lie furthest apart.
            pods.retain(|(_, room)| *room >= ask.nodes);
            let most = pods.iter().copied().min_by_key(|(pod, room)| (std::cmp::Reverse(*room), *pod))?;
            pods = vec![most];
        }
        Within::Leaves => {
            let fits = |block: &u32| view.blocks().count(*block) >= ask.nodes;
            let block = (0..layout.blocks.len() as u32)
                .filter(fits)
                .max_by_key(|block| (view.blocks().count(*block), std::cmp::Reverse(*block)))?;
            takes.push(Take { block, nodes: ask.nodes });
            return Some(Fit { pods: 1, cut: 0 });
        }
    }
    let shares = even(&pods, ask.nodes, unit)?;
    let mut used = 0;
    for (pod, nodes) in shares.into_iter().filter(|(_, nodes)| *nodes > 0) {
        used += 1;
        let whole = |count: u32| count - count % ask.leaf_unit;
        let blocks: Vec<(u32, u32)> =
            blocks_of(pod).map(|block| (block, whole(view.blocks().count(block)))).collect();
        for (block, nodes) in even(&blocks, nodes, ask.leaf_unit)?.into_iter().filter(|(_, nodes)| *nodes > 0)
        {
            takes.push(Take { block, nodes });
        }
    }
    Some(Fit { pods: used, cut: cut(layout, takes, ask.pattern) })
}

/// The usual case: single nodes, and more pods than nodes. What [`even`] would give, without looking at all pods.
fn one_each(capacity_index: &CapacityIndex, view: &View, ask: &FitRequest, takes: &mut Vec<Take>) -> bool {
    if ask.pod_unit.max(ask.leaf_unit) > 1 {
        return false;
    }
    let layout = capacity_index.layout();
    let mut rest = ask.nodes;
    for (at, pod) in (0..).zip(&layout.pods) {
        if rest == 0 {
            break;
        }
        if view.pods().count(at) > 0 {
            let mut blocks = pod.first_block..pod.first_block + pod.blocks;
            if let Some(block) = blocks.find(|block| view.blocks().count(*block) > 0) {
                takes.push(Take { block, nodes: 1 });
                rest -= 1;
            }
        }
    }
    if rest > 0 {
        takes.clear();
    }
    rest == 0
}

/// Shares that differ as little as the places allow, in whole units.
fn even(places: &[(u32, u32)], nodes: u32, unit: u32) -> Option<Vec<(u32, u32)>> {
    let wanted = u64::from(nodes / unit);
    let up_to = |most: u32| places.iter().map(|(_, room)| u64::from((room / unit).min(most))).sum::<u64>();
    let (mut low, mut high) = (0, nodes / unit);
    if up_to(high) < wanted || !nodes.is_multiple_of(unit) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if up_to(middle) >= wanted { high = middle } else { low = middle + 1 }
    }
    let mut over = up_to(high) - wanted;
    let mut shares: Vec<(u32, u32)> =
        places.iter().map(|(place, room)| (*place, (room / unit).min(high) * unit)).collect();
    // Of the places with the largest share the last ones give one back.
    for (_, share) in shares.iter_mut().rev().filter(|(_, share)| *share == high * unit) {
        if over == 0 {
            break;
        }
        *share -= unit;
        over -= 1;
    }
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::even;

    #[test]
    fn shares_differ_as_little_as_can_be() {
        let places = [(0, 10), (1, 1), (2, 10), (3, 10)];
        let shares = |nodes, unit| {
            even(&places, nodes, unit)
                .map(|shares| shares.into_iter().map(|(_, share)| share).collect::<Vec<_>>())
        };
        assert_eq!(shares(4, 1), Some(vec![1, 1, 1, 1]));
        assert_eq!(shares(5, 1), Some(vec![2, 1, 1, 1]));
        assert_eq!(shares(12, 1), Some(vec![4, 1, 4, 3]));
        assert_eq!(shares(8, 4), Some(vec![4, 0, 4, 0]));
        assert_eq!(shares(31, 1), Some(vec![10, 1, 10, 10]));
        assert_eq!((shares(32, 1), shares(6, 4)), (None, None));
    }
}
