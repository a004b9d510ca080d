//! Whether a gang has a place at all, and how good the best one is, by trying every way: for comparison in small clusters,
//! never used to decide. It looks only at single nodes and shares no code with the choice.

mod components;

use std::collections::BTreeMap;

use controller_topology::{NodeIx, RailSet};
use proto_model::IsolationFeature;

use crate::{
    brute::components::gives,
    capacity::Allocated,
    place::{ACROSS_LEAVES, ACROSS_PODS, Need, RailNeed, Within},
    proof::World,
};

/// The best that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Best {
    /// The fewest pods in which the gang has a place.
    pub pods: u32,
    /// In so many pods: the fewest idle nodes that are broken into, by what a ring cuts.
    pub idle: BTreeMap<u64, u32>,
}

/// Nodes on the same leaves.
#[derive(Debug, Clone, Default)]
struct Block {
    pod: Option<u32>,
    /// Nodes that the gang could have and on which somebody is.
    busy: u32,
    /// The same, on which nobody is.
    idle: u32,
}

/// The best place of a gang that talks in a ring; `None` if it has none. Leaves of a rail must all reach one another.
#[must_use]
pub fn best(world: &impl World, nodes: &[NodeIx], need: &Need) -> Option<Best> {
    if need.nodes == 0 || need.nodes > 1 && need.rail_count() == 0 {
        return None;
    }
    let sizes = || need.groups.iter().map(|group| group.size);
    let divides = |a: u32, b: u32| a > 0 && b > 0 && (a.is_multiple_of(b) || b.is_multiple_of(a));
    if sizes().any(|size| {
        size == 0 || !need.nodes.is_multiple_of(size) || sizes().any(|other| !divides(size, other))
    }) {
        return None;
    }
    let sets: Vec<RailSet> = match need.rails {
        RailNeed::Exactly(rails) => vec![rails],
        RailNeed::Any(count) => (0..1_u32 << world.rails())
            .filter(|set| set.count_ones() == count)
            .map(|set| (0..world.rails()).filter(|rail| set >> rail & 1 == 1).collect())
            .collect(),
    };
    if !need.components.is_empty() {
        let pods = sets.iter().filter_map(|rails| components::fewest_pods(world, nodes, need, *rails));
        return pods.min().map(|pods| Best { pods, idle: BTreeMap::new() });
    }
    let mut best: Option<Best> = None;
    for rails in sets {
        let blocks = blocks(world, nodes, need, rails);
        let room: u32 = blocks.iter().map(|block| block.busy + block.idle).sum();
        if room >= need.nodes + need.spares {
            shapes(&blocks, need, &mut Vec::new(), &mut best);
        }
    }
    best
}

fn blocks(world: &impl World, nodes: &[NodeIx], need: &Need, rails: RailSet) -> Vec<Block> {
    let mut blocks: BTreeMap<(Option<u32>, Vec<Option<u32>>), Block> = BTreeMap::new();
    for node in nodes {
        let Some(seen) = world.node(*node) else { continue };
        let alone = !seen.traits.isolation.has(IsolationFeature::UidPerAttempt);
        let others = need.tenant.as_ref().is_some_and(|tenant| world.has_others(*node, tenant));
        let own = (need.gpus, need.host, need.filter.as_ref());
        if need.bars(*node) || alone && others || !gives(&seen, need, own, rails) {
            continue;
        }
        let leaves = rails.iter().map(|rail| world.leaf(*node, rail)).collect();
        let block = blocks.entry((seen.pod, leaves)).or_default();
        block.pod = seen.pod;
        if seen.held == Allocated::default() {
            block.idle += 1;
        } else {
            block.busy += 1;
        }
    }
    blocks.into_values().collect()
}

/// Every number of nodes from every block.
fn shapes(blocks: &[Block], need: &Need, shape: &mut Vec<u32>, best: &mut Option<Best>) {
    let left = need.nodes - shape.iter().sum::<u32>();
    let Some(block) = blocks.get(shape.len()) else {
        if left == 0 && holds(blocks, need, shape) {
            rate(blocks, shape, best);
        }
        return;
    };
    for nodes in 0..=left.min(block.busy + block.idle) {
        shape.push(nodes);
        shapes(blocks, need, shape, best);
        shape.pop();
    }
}

/// Whether the gang and its groups stay where they must.
fn holds(blocks: &[Block], need: &Need, shape: &[u32]) -> bool {
    let pods = by_pod(blocks, shape);
    let used = shape.iter().filter(|nodes| **nodes > 0).count();
    let whole = match need.within {
        Within::Fabric => true,
        Within::Pod => pods.len() == 1,
        Within::Leaves => used == 1,
    };
    // Sizes divide one another: who keeps the largest groups whole keeps all.
    let unit = |within: Within| {
        let required = need.groups.iter().filter(|group| group.required && group.within <= within);
        required.map(|group| group.size).max().unwrap_or(1)
    };
    let (leaves, pod) = (unit(Within::Leaves), unit(Within::Pod));
    whole
        && shape.iter().all(|nodes| nodes.is_multiple_of(leaves))
        && pods.values().all(|nodes| nodes.is_multiple_of(pod))
}

fn by_pod(blocks: &[Block], shape: &[u32]) -> BTreeMap<Option<u32>, u32> {
    let mut pods = BTreeMap::new();
    for (block, nodes) in blocks.iter().zip(shape).filter(|(_, nodes)| **nodes > 0) {
        *pods.entry(block.pod).or_default() += nodes;
    }
    pods
}

fn rate(blocks: &[Block], shape: &[u32], best: &mut Option<Best>) {
    let pods = by_pod(blocks, shape).len() as u64;
    let used = shape.iter().filter(|nodes| **nodes > 0).count() as u64;
    let cut = match (pods, used) {
        (1, 1) => 0,
        (1, _) => used * ACROSS_LEAVES,
        _ => pods * ACROSS_PODS + (used - pods) * ACROSS_LEAVES,
    };
    let idle = blocks.iter().zip(shape).map(|(block, nodes)| nodes.saturating_sub(block.busy)).sum();
    let pods = u32::try_from(pods).unwrap_or(u32::MAX);
    let here = best.get_or_insert_with(|| Best { pods, idle: BTreeMap::new() });
    if pods < here.pods {
        *here = Best { pods, idle: BTreeMap::new() };
    }
    if pods == here.pods {
        let least = here.idle.entry(cut).or_insert(idle);
        *least = idle.min(*least);
    }
}
