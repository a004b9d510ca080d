//! The network as it should be.

use crate::NodeName;

/// One cluster's rails, leaves and cables, as the administrator wrote them. Checked by `controller-topology`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fabric {
    /// The document's name.
    pub name: String,
    /// Counts changes.
    pub generation: u64,
    /// The rails, in the document's order.
    pub rails: Vec<Rail>,
    /// The leaf switches.
    pub leaves: Vec<Leaf>,
    /// The cables from NICs to leaves.
    pub links: Vec<Link>,
}

/// One network plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rail {
    /// 0, 1, 2, ...
    pub index: u32,
    /// For people.
    pub name: String,
}

/// A leaf switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Unique in the fabric.
    pub name: String,
    /// Index of the rail that it serves.
    pub rail: u32,
    /// The pod whose servers it serves.
    pub pod: String,
}

/// One cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The server's end.
    pub node: NodeName,
    /// Device or netdev name of the NIC.
    pub nic: String,
    /// The switch's end.
    pub leaf: String,
    /// The switch's port; may be empty.
    pub port: String,
    /// Line rate in Mbit/s; 0 if not known.
    pub speed_mbps: u64,
}
