//! One case: a network of nodes, some links of which have failed. A node is a switch, or many that are alike.

use std::collections::BTreeMap;

use super::fabric::{Fabric, Failure, Switch};

/// A node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub tier: u8,
    pub serves: bool,
    /// It stands for several switches.
    pub is_many: bool,
    /// It has failed.
    pub is_down: bool,
}

/// The network of a case.
#[derive(Debug, Clone)]
pub(super) struct Network {
    pub nodes: Vec<Node>,
    /// By node: neighbours in order, and whether the link to them works; each is its neighbour's neighbour.
    pub neighbours: Vec<Vec<(usize, bool)>>,
    /// By node and destination: neighbours that a static route takes.
    pub routes: BTreeMap<(usize, usize), Vec<usize>>,
    /// Destinations that are looked at; those that are alike are looked at once.
    pub destinations: Vec<usize>,
    /// By node: the node as which its buffers are noted. Alike switches are noted as one, whichever of them is looked at.
    pub noted_as: Vec<usize>,
}

impl Network {
    /// The fabric as it is.
    pub fn of(fabric: &Fabric, failures: &[Failure]) -> Self {
        let down = |failure| failures.contains(&failure);
        let node = |(index, switch): (usize, &Switch)| Node {
            tier: switch.tier,
            serves: switch.serves,
            is_many: false,
            is_down: down(Failure::Switch(index)),
        };
        let nodes: Vec<Node> = fabric.switches().iter().enumerate().map(node).collect();
        let links = |at: usize| {
            let near = fabric.neighbours(at).iter();
            let works = |to: usize, link: usize| {
                !(down(Failure::Link(link)) || nodes[at].is_down || nodes[to].is_down)
            };
            let mut near: Vec<(usize, bool)> = near.map(|&(to, link)| (to, works(to, link))).collect();
            near.sort_unstable();
            near
        };
        let neighbours = (0..nodes.len()).map(links).collect();
        let destinations = (0..nodes.len()).filter(|at| nodes[*at].serves).collect();
        let noted_as = (0..nodes.len()).collect();
        Network { noted_as, nodes, neighbours, routes: fabric.static_routes(), destinations }
    }
}
