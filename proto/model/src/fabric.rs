//! The network as it should be.

use std::collections::BTreeSet;

use crate::{Names, NodeName};

/// One cluster's rails, leaves, spines and cables, as the administrator wrote them. Checked by `controller-topology`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fabric {
    /// Name of the fabric document.
    pub name: String,
    /// Number of the version: it grows with each change of the document.
    pub generation: u64,
    /// The rails, in the document's order.
    pub rails: Vec<Rail>,
    /// The leaf switches, in the document's order.
    pub leaves: Vec<Leaf>,
    /// The cables from NICs to leaves, one by one.
    pub links: Vec<Link>,
    /// More such cables, many at once.
    pub link_groups: Vec<LinkGroup>,
    /// The switches above the leaves.
    pub spines: Vec<Spine>,
    /// The cables between switches.
    pub uplinks: Vec<Uplink>,
}

impl Fabric {
    /// How many cables from servers to leaves the document has, those of the groups too.
    #[must_use]
    pub fn cable_count(&self) -> usize {
        self.link_groups.iter().fold(self.links.len(), |sum, group| sum.saturating_add(group.nodes.len()))
    }

    /// How many servers have a cable.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.node_names().len()
    }

    /// The servers that have a cable, each once, in the order of their names.
    #[must_use]
    pub fn node_names(&self) -> Vec<String> {
        // The rails of a pod list the same servers: each list is looked at once.
        let lists: BTreeSet<&Names> = self.link_groups.iter().map(|group| &group.nodes).collect();
        let grouped = lists.into_iter().flat_map(Names::iter);
        let mut names: Vec<String> =
            self.links.iter().map(|link| link.node.to_string()).chain(grouped).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Every cable from a server to a leaf by itself, those of the groups too.
    pub fn each_link(&self) -> impl Iterator<Item = Link> {
        self.links.iter().cloned().chain(self.link_groups.iter().flat_map(LinkGroup::each))
    }
}

/// One network plane: NIC k of every server is on rail k.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rail {
    /// Number of the rail, from 0 without gaps.
    pub index: u32,
    /// The name that commands and messages show.
    pub name: String,
}

/// A leaf switch: it connects servers on one rail, or on several that share it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leaf {
    /// Unique among the switches of the fabric.
    pub name: String,
    /// Index of the rail that it serves; the first of them where they are several.
    pub rail: u32,
    /// Further rails that it serves: single-ToR designs, and those with a leaf for a group of rails.
    pub more_rails: Vec<u32>,
    /// The pod whose servers it serves.
    pub pod: String,
    /// 0, or 1 for the second leaf of NICs with two ports. Planes of one rail do not meet.
    pub plane: u32,
    /// Known not to work, or taken out.
    pub down: bool,
}

impl Leaf {
    /// All rails that it serves.
    pub fn rails(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.rail).chain(self.more_rails.iter().copied())
    }

    /// Whether it serves a rail.
    #[must_use]
    pub fn serves(&self, rail: u32) -> bool {
        self.rails().any(|own| own == rail)
    }

    /// The rail of a cable to this leaf that says `said`; `None` where it says one that the leaf does not serve, or
    /// nothing though the leaf serves several.
    #[must_use]
    pub fn rail_of(&self, said: Option<u32>) -> Option<u32> {
        match said {
            Some(rail) => self.serves(rail).then_some(rail),
            None => self.more_rails.is_empty().then_some(self.rail),
        }
    }
}

/// One cable between a NIC and a port of a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The server at one end.
    pub node: NodeName,
    /// Device or netdev name of the NIC.
    pub nic: String,
    /// Name of the leaf at the other end.
    pub leaf: String,
    /// The switch's port; may be empty.
    pub port: String,
    /// Line rate in Mbit/s; 0 if not known.
    pub speed_mbps: u64,
    /// The cable is known not to work.
    pub down: bool,
    /// The NIC's rail, where the leaf serves several; `None`: that of the leaf.
    pub rail: Option<u32>,
}

/// The cables of many servers whose NIC of one name goes to one leaf.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkGroup {
    /// The servers; each is a [`NodeName`].
    pub nodes: Names,
    /// Device or netdev name of the NIC on each of them.
    pub nic: String,
    /// Name of the leaf that all of these cables lead to.
    pub leaf: String,
    /// The switch's ports, in the order of the servers; none if not known.
    pub ports: Names,
    /// Line rate of each in Mbit/s; 0 if not known.
    pub speed_mbps: u64,
    /// The NIC's rail, where the leaf serves several; `None`: that of the leaf.
    pub rail: Option<u32>,
}

impl LinkGroup {
    /// Every cable of it by itself. A name that cannot be a server's is left out; the checked conversions let none pass.
    pub fn each(&self) -> impl Iterator<Item = Link> {
        let mut ports = self.ports.iter();
        self.nodes.iter().filter_map(move |node| {
            let port = ports.next().unwrap_or_default();
            Some(Link {
                node: NodeName::new(node).ok()?,
                nic: self.nic.clone(),
                leaf: self.leaf.clone(),
                port,
                speed_mbps: self.speed_mbps,
                down: false,
                rail: self.rail,
            })
        })
    }
}

/// A switch above the leaves of one rail and plane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spine {
    /// Unique among the switches of the fabric.
    pub name: String,
    /// Index of its rail; the first of them where they are several.
    pub rail: u32,
    /// Further rails that it serves.
    pub more_rails: Vec<u32>,
    /// Its plane of that rail.
    pub plane: u32,
    /// Known not to work, or taken out.
    pub down: bool,
}

impl Spine {
    /// All rails that it serves.
    pub fn rails(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.rail).chain(self.more_rails.iter().copied())
    }
}

/// Cables between two layers of switches: each of `lower` has `cables` of them to each of `upper`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Uplink {
    /// Leaves, or spines below others.
    pub lower: Names,
    /// The spines that each of the lower switches is cabled to.
    pub upper: Names,
    /// Cables of each pair, at least 1.
    pub cables: u32,
    /// Line rate of each cable in Mbit/s; 0 if not known.
    pub speed_mbps: u64,
    /// How many cables of each pair are known not to work.
    pub down: u32,
}
