//! A fabric document's cables as one sorted table of numbers: what both the checks and the plan are made from.

use std::collections::BTreeMap;

use proto_model::{Fabric, Names, NodeName};

/// One cable from a server to a leaf. `u32::MAX` is "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cable {
    /// The server, as an index into [`Flat::nodes`].
    pub(crate) node: u32,
    /// The NIC's name, as an index into [`Flat::nics`].
    pub(crate) nic: u32,
    /// Into [`Flat::leaves`]; [`Cable::NO_LEAF`] where the document has no leaf of that name.
    pub(crate) leaf: u32,
    /// In Mbit/s; 0 if not known.
    pub(crate) mbps: u32,
    /// The cable is known not to work.
    pub(crate) down: bool,
    /// The NIC's rail; [`Cable::NO_RAIL`] where the document does not say it, or one that the leaf does not serve.
    pub(crate) rail: u8,
}

impl Cable {
    pub(crate) const NO_LEAF: u32 = u32::MAX;
    pub(crate) const NO_RAIL: u8 = u8::MAX;
}

/// The document's cables as one sorted table.
#[derive(Debug)]
pub(crate) struct Flat<'a> {
    /// Servers with a cable, in name order.
    pub(crate) nodes: Vec<NodeName>,
    /// Names of NICs, in order.
    pub(crate) nics: Vec<&'a str>,
    /// Into the document's leaves, in name order; of two with one name the first in the document.
    pub(crate) leaves: Vec<u32>,
    /// The cables, sorted by server, NIC and leaf.
    pub(crate) cables: Vec<Cable>,
}

/// Texts and their numbers in the order in which they were met.
struct Interner<K>(BTreeMap<K, u32>);

impl<K: Ord> Interner<K> {
    fn id(&mut self, key: K) -> u32 {
        let next = number(self.0.len());
        *self.0.entry(key).or_insert(next)
    }

    /// The keys in order, and each old number's place among them.
    fn sorted(self) -> (Vec<K>, Vec<u32>) {
        let mut place = vec![0; self.0.len()];
        let keys = self
            .0
            .into_iter()
            .enumerate()
            .map(|(at, (key, old))| {
                place[old as usize] = number(at);
                key
            })
            .collect();
        (keys, place)
    }
}

pub(crate) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn mbps(speed: u64) -> u32 {
    u32::try_from(speed).unwrap_or(u32::MAX)
}

impl<'a> Flat<'a> {
    pub(crate) fn new(fabric: &'a Fabric) -> Self {
        let leaves = leaves(fabric);
        let leaf = |name: &str| {
            let at = leaves.binary_search_by(|at| fabric.leaves[*at as usize].name.as_str().cmp(name));
            at.map_or(Cable::NO_LEAF, number)
        };
        let rail = |leaf: u32, said: Option<u32>| {
            let leaf = leaves.get(leaf as usize).and_then(|at| fabric.leaves.get(*at as usize));
            let rail = leaf.and_then(|leaf| leaf.rail_of(said));
            rail.and_then(|rail| u8::try_from(rail).ok()).unwrap_or(Cable::NO_RAIL)
        };
        let mut nodes: Interner<NodeName> = Interner(BTreeMap::new());
        let mut nics: Interner<&'a str> = Interner(BTreeMap::new());
        // The rails of a pod list the same servers: each list is read once.
        let mut lists: BTreeMap<&'a Names, Vec<u32>> = BTreeMap::new();
        let mut cables = Vec::with_capacity(fabric.cable_count());
        for group in &fabric.link_groups {
            let members = lists.entry(&group.nodes).or_insert_with(|| {
                group.nodes.iter().filter_map(|name| Some(nodes.id(NodeName::new(name).ok()?))).collect()
            });
            let (nic, leaf, mbps) = (nics.id(&group.nic), leaf(&group.leaf), mbps(group.speed_mbps));
            let rail = rail(leaf, group.rail);
            cables.extend(members.iter().map(|&node| Cable { node, nic, leaf, mbps, down: false, rail }));
        }
        for link in &fabric.links {
            let leaf = leaf(&link.leaf);
            cables.push(Cable {
                node: nodes.id(link.node.clone()),
                nic: nics.id(&link.nic),
                leaf,
                mbps: mbps(link.speed_mbps),
                down: link.down,
                rail: rail(leaf, link.rail),
            });
        }
        let (nodes, node_at) = nodes.sorted();
        let (nics, nic_at) = nics.sorted();
        for cable in &mut cables {
            cable.node = node_at[cable.node as usize];
            cable.nic = nic_at[cable.nic as usize];
        }
        cables.sort_unstable();
        Self { nodes, nics, leaves, cables }
    }

    /// The cables of each server that has any.
    pub(crate) fn by_node(&self) -> impl Iterator<Item = (&NodeName, &[Cable])> {
        self.cables
            .chunk_by(|a, b| a.node == b.node)
            .filter_map(|cables| Some((&self.nodes[cables.first()?.node as usize], cables)))
    }
}

/// The document's leaves in name order, each name once.
fn leaves(fabric: &Fabric) -> Vec<u32> {
    let name = |at: &u32| fabric.leaves[*at as usize].name.as_str();
    let mut order: Vec<u32> = (0..number(fabric.leaves.len())).collect();
    order.sort_by(|a, b| name(a).cmp(name(b)));
    order.dedup_by(|next, kept| name(next) == name(kept));
    order
}
