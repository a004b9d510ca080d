//! The choice of rails, pods and nodes for one gang.

use std::collections::BTreeMap;

use controller_topology::{NodeIx, RailSet, Server};
use proto_model::JobSpec;

use crate::snapshot::{Capacity, NodeSet, Snapshot};

/// Sets of rails that are tried for one `allow_partial` job at most; more than all choices of 4 from 16 rails.
const RAIL_SETS_MAX: usize = 4096;

/// What every node of a gang must give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// How many nodes.
    pub nodes: usize,
    /// GPUs on each.
    pub gpus: u32,
    /// Rails on each.
    pub rails: RailNeed,
}

/// Which rails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RailNeed {
    /// These.
    Exactly(RailSet),
    /// Any so many, the same on every node.
    Any(u32),
}

impl Need {
    /// What a job needs in a fabric of so many rails.
    #[must_use]
    pub fn new(spec: &JobSpec, rails: u32) -> Self {
        let asked = if spec.rails.required == 0 { rails } else { spec.rails.required };
        let rails = if spec.rails.allow_partial && asked < rails {
            RailNeed::Any(asked)
        } else {
            RailNeed::Exactly(RailSet::first(asked))
        };
        Self { nodes: spec.gang.nodes as usize, gpus: spec.gang.gpus_per_node, rails }
    }

    /// How many rails.
    #[must_use]
    pub fn rail_count(&self) -> u32 {
        match self.rails {
            RailNeed::Exactly(set) => set.len(),
            RailNeed::Any(count) => count,
        }
    }

    /// Whether a set of rails can be enough for one node.
    #[must_use]
    pub fn rails_in(&self, set: RailSet) -> bool {
        match self.rails {
            RailNeed::Exactly(need) => set.covers(need),
            RailNeed::Any(count) => set.len() >= count,
        }
    }
}

/// A node that could be part of the gang, with the rails that it offers.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// Which.
    pub ix: NodeIx,
    /// Its pod as an index; nodes outside every pod share one beyond the last.
    pub pod: usize,
    /// The rails that it offers.
    pub rails: RailSet,
    /// Smaller is better: what would be left over.
    pub waste: (u32, u32),
}

/// A chosen gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The rails in use.
    pub rails: RailSet,
    /// The nodes in rank order: by pod, then by name.
    pub nodes: Vec<NodeIx>,
    /// How many pods.
    pub pods: usize,
}

/// Rails of a node that are up and that nobody holds.
pub(crate) fn free_rails(server: &Server, capacity: &Capacity) -> RailSet {
    server.usable.without(capacity.held.rails)
}

/// Nodes that could take a part of the gang now.
#[must_use]
pub fn free_now(snapshot: &Snapshot, need: &Need, reserved: Option<&NodeSet>) -> Vec<Candidate> {
    let outside = snapshot.topology().pods();
    let fits = |(ix, server, capacity): (NodeIx, &Server, &Capacity)| {
        let gpus = capacity.free_gpus().count_ones();
        let rails = free_rails(server, capacity);
        let fits = gpus >= need.gpus
            && need.rails_in(rails)
            && capacity.gate.is_open()
            && !reserved.is_some_and(|reserved| reserved.has(ix));
        let pod = server.pod.map_or(outside, controller_topology::PodIx::index);
        fits.then(|| Candidate { ix, pod, rails, waste: (gpus - need.gpus, rails.len() - need.rail_count()) })
    };
    snapshot.nodes().filter_map(fits).collect()
}

/// The best gang among the candidates: fewest pods, then the tightest pod, then the tightest nodes.
#[must_use]
pub fn choose(snapshot: &Snapshot, need: &Need, candidates: &[Candidate]) -> Option<Choice> {
    let rails = choose_rails(need, candidates)?;
    let mut pods: BTreeMap<usize, Vec<&Candidate>> = BTreeMap::new();
    for candidate in candidates.iter().filter(|candidate| candidate.rails.covers(rails)) {
        pods.entry(candidate.pod).or_default().push(candidate);
    }
    let sizes: Vec<(usize, usize)> = pods.iter().map(|(pod, nodes)| (*pod, nodes.len())).collect();
    let chosen = choose_pods(&sizes, need.nodes)?;
    let name = |ix: NodeIx| snapshot.topology().server(ix).map(|server| &server.name);
    let mut missing = need.nodes;
    let mut taken: Vec<&Candidate> = Vec::with_capacity(need.nodes);
    for pod in &chosen {
        let Some(nodes) = pods.get_mut(pod) else { continue };
        let take = missing.min(nodes.len());
        if take < nodes.len() {
            nodes.sort_unstable_by(|a, b| a.waste.cmp(&b.waste).then_with(|| name(a.ix).cmp(&name(b.ix))));
        }
        taken.extend(&nodes[..take]);
        missing -= take;
    }
    if missing > 0 {
        return None;
    }
    taken.sort_unstable_by(|a, b| a.pod.cmp(&b.pod).then_with(|| name(a.ix).cmp(&name(b.ix))));
    Some(Choice {
        rails,
        nodes: taken.into_iter().map(|candidate| candidate.ix).collect(),
        pods: chosen.len(),
    })
}

/// The fewest pods that hold `nodes`: the largest ones, then the smallest that takes the rest. `None` if all are too few.
fn choose_pods(sizes: &[(usize, usize)], nodes: usize) -> Option<Vec<usize>> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut chosen = Vec::new();
    let mut missing = nodes;
    for (at, (pod, size)) in sizes.iter().enumerate() {
        if *size >= missing {
            let last = sizes[at..].iter().rev().filter(|(_, size)| *size >= missing);
            // Of equally small ones the first by name: the list is reversed, so the last of them.
            let last = last.min_by_key(|(pod, size)| (*size, *pod)).map_or(*pod, |(pod, _)| *pod);
            chosen.push(last);
            return Some(chosen);
        }
        chosen.push(*pod);
        missing -= size;
    }
    None
}

/// The rails that let the gang live in the fewest pods; among those the ones that fewest nodes could offer, so that
/// what is common stays for others; then the lowest.
fn choose_rails(need: &Need, candidates: &[Candidate]) -> Option<RailSet> {
    let count = match need.rails {
        RailNeed::Exactly(set) => return Some(set),
        RailNeed::Any(count) => count,
    };
    let mut masks: BTreeMap<(usize, RailSet), usize> = BTreeMap::new();
    for candidate in candidates {
        *masks.entry((candidate.pod, candidate.rails)).or_default() += 1;
    }
    let mut best: Option<(usize, usize, RailSet)> = None;
    for set in rail_sets(masks.keys().map(|(_, mask)| *mask), count) {
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        for ((pod, _), nodes) in masks.iter().filter(|((_, mask), _)| mask.covers(set)) {
            *sizes.entry(*pod).or_default() += nodes;
        }
        let offers: usize = sizes.values().sum();
        let sizes: Vec<(usize, usize)> = sizes.into_iter().collect();
        if let Some(pods) = choose_pods(&sizes, need.nodes) {
            let score = (pods.len(), offers, set);
            if best.is_none_or(|best| score < best) {
                best = Some(score);
            }
        }
    }
    best.map(|(_, _, set)| set)
}

/// All sets of `count` rails that some mask covers, each once, bounded.
fn rail_sets(masks: impl Iterator<Item = RailSet>, count: u32) -> std::collections::BTreeSet<RailSet> {
    let mut sets = std::collections::BTreeSet::new();
    for mask in masks {
        let rails: Vec<u32> = mask.iter().collect();
        subsets(&rails, count as usize, RailSet::EMPTY, &mut sets);
    }
    sets
}

fn subsets(rails: &[u32], count: usize, so_far: RailSet, sets: &mut std::collections::BTreeSet<RailSet>) {
    if count == 0 {
        sets.insert(so_far);
        return;
    }
    for (at, rail) in rails.iter().enumerate() {
        if rails.len() - at < count || sets.len() >= RAIL_SETS_MAX {
            return;
        }
        subsets(&rails[at + 1..], count - 1, so_far.with(*rail), sets);
    }
}

#[cfg(test)]
mod tests {
    use super::choose_pods;

    #[test]
    fn fewest_pods_then_the_tightest() {
        let sizes = [(0, 4), (1, 8), (2, 5), (3, 5)];
        assert_eq!(choose_pods(&sizes, 4), Some(vec![0]));
        assert_eq!(choose_pods(&sizes, 5), Some(vec![2]));
        assert_eq!(choose_pods(&sizes, 9), Some(vec![1, 0]));
        assert_eq!(choose_pods(&sizes, 13), Some(vec![1, 2]));
        assert_eq!(choose_pods(&sizes, 22), Some(vec![1, 2, 3, 0]));
        assert_eq!(choose_pods(&sizes, 23), None);
        assert_eq!(choose_pods(&[], 1), None);
    }
}
