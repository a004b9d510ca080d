//! Where a gang runs.

use std::net::IpAddr;

use crate::{NodeName, Reason};

/// A placement: nodes, rails and the rank map; a product of scheduling.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// In rank order: the first node holds rank 0.
    pub nodes: Vec<NodePlace>,
    /// Rank -> node -> GPU -> NIC -> rail -> leaf, by rank.
    pub ranks: Vec<RankPlace>,
    /// Indices of the rails in use, ascending.
    pub rails: Vec<u32>,
    /// Number of pods that the nodes are in.
    pub pods: u32,
    /// Why the scheduler chose these nodes.
    pub reasons: Vec<Reason>,
    /// Further nodes that the job holds idle, to replace those that fail; without ranks.
    pub spares: Vec<NodePlace>,
    /// Weight of the job's traffic that crosses pods and leaves.
    pub cut: u64,
    /// No other job is placed on its nodes.
    pub exclusive: bool,
    /// Nodes of it were replaced, or rails dropped, since the gang was placed: it may have fewer rails than the job asks for, and the nodes
    /// that stayed are proved as they stand.
    pub repaired: bool,
}

/// One node of a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlace {
    /// Name of the node.
    pub node: NodeName,
    /// Its pod; empty without a fabric document.
    pub pod: String,
    /// Indices of the GPUs that the job holds.
    pub gpus: Vec<u32>,
    /// One per rail in use, by rail.
    pub nics: Vec<NicPlace>,
    /// Its NICs are named by the rails that they were found to be cabled to, not by those that its inventory says.
    pub remapped: bool,
    /// CPUs that the job holds: how many, not which.
    pub cpus: u32,
    /// Bytes of main memory that the job holds.
    pub memory_bytes: u64,
}

/// One NIC of a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicPlace {
    /// Device name of the NIC, as in the node's inventory.
    pub device: String,
    /// Name of its network device.
    pub netdev: String,
    /// The rail that it is on, by number.
    pub rail: u32,
    /// Its leaf; empty without a fabric document.
    pub leaf: String,
    /// Its address on the rail; `None`: it has none.
    pub address: Option<IpAddr>,
}

/// One rank of a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankPlace {
    /// Number of the rank in the gang, from 0.
    pub rank: u32,
    /// The node that the rank runs on.
    pub node: NodeName,
    /// 0, 1, 2, ... on that node.
    pub local_rank: u32,
    /// Indices of its GPUs on that node; empty: none.
    pub gpus: Vec<u32>,
    /// Device name of the NIC nearest to its GPU.
    pub nic: String,
    /// The rail that this NIC is on, by number.
    pub rail: u32,
    /// That NIC's leaf; may be empty.
    pub leaf: String,
}
