//! What the cables of a fabric say of each server, for the formats of others.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Fabric, Leaf, NodeName};

/// What the fabric's cables say of each server.
pub(crate) struct Cabled<'a> {
    /// The leaves of the document, in name order.
    pub(crate) leaves: Vec<&'a Leaf>,
    /// Server -> places of its leaves in `leaves`, each once, ascending; and its rails.
    pub(crate) nodes: BTreeMap<NodeName, (Vec<usize>, BTreeSet<u32>)>,
    /// Speeds of cables, in Mbit/s.
    pub(crate) speeds: BTreeSet<u64>,
    /// Cables that are known to be down.
    pub(crate) down: usize,
}

impl<'a> Cabled<'a> {
    pub(crate) fn of(fabric: &'a Fabric) -> Self {
        let mut leaves: Vec<&Leaf> = fabric.leaves.iter().collect();
        leaves.sort_by(|a, b| a.name.cmp(&b.name));
        let mut cabled = Self { leaves, nodes: BTreeMap::new(), speeds: BTreeSet::new(), down: 0 };
        for link in fabric.each_link() {
            cabled.speeds.insert(link.speed_mbps);
            cabled.down += usize::from(link.down);
            let (leaves, rails) = cabled.nodes.entry(link.node).or_default();
            if let Ok(at) = cabled.leaves.binary_search_by(|leaf| leaf.name.cmp(&link.leaf)) {
                leaves.push(at);
                rails.extend(cabled.leaves[at].rail_of(link.rail));
            }
        }
        for (leaves, _) in cabled.nodes.values_mut() {
            leaves.sort_unstable();
            leaves.dedup();
        }
        cabled
    }

    /// The servers of each pod by their leaves; a server belongs where its first leaf is.
    pub(crate) fn pods(&self) -> BTreeMap<&'a str, BTreeMap<&[usize], Vec<&NodeName>>> {
        let mut pods: BTreeMap<&str, BTreeMap<&[usize], Vec<&NodeName>>> = BTreeMap::new();
        for (node, (leaves, _)) in &self.nodes {
            if let Some(pod) =
                leaves.first().and_then(|at| self.leaves.get(*at)).map(|leaf| leaf.pod.as_str())
            {
                pods.entry(pod).or_default().entry(&leaves[..]).or_default().push(node);
            }
        }
        pods
    }

    /// What a group of these leaves is called: its leaf on the first rail and plane.
    pub(crate) fn name(&self, leaves: &[usize]) -> &'a str {
        let all = leaves.iter().filter_map(|at| self.leaves.get(*at));
        let first = all.min_by_key(|leaf| (leaf.rail, leaf.plane));
        first.map_or("", |leaf| leaf.name.as_str())
    }
}
