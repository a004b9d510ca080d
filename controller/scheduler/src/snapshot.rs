//! What there is and what is held: the scheduler's whole world.

use std::{collections::BTreeMap, sync::Arc};

use controller_topology::{NodeIx, RailSet, Server, Topology};
use proto_model::{Fabric, Inventory, NodeName, Placement, TenantName};

/// GPUs of one server that can be scheduled; further ones are ignored.
pub const GPUS_MAX: u32 = 64;

/// Why a node takes no new job at the moment; all false is "it does".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gate {
    /// The administrator said so.
    pub unschedulable: bool,
    /// Not heard for longer than the limit.
    pub not_ready: bool,
    /// Its agent is not connected.
    pub away: bool,
    /// Something runs there that nobody wished; it is being stopped.
    pub draining: bool,
}

impl Gate {
    /// Whether new jobs may be placed.
    #[must_use]
    pub fn is_open(self) -> bool {
        self == Self::default()
    }
}

/// What jobs hold on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// GPUs by index, as a bitmap.
    pub gpus: u64,
    /// Rails whose NIC is held.
    pub rails: RailSet,
}

/// What one node can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capacity {
    /// Whether it takes new jobs.
    pub gate: Gate,
    /// Its GPUs by index, as a bitmap.
    pub gpus: u64,
    /// What jobs hold.
    pub held: Held,
}

impl Capacity {
    /// GPUs that nobody holds, as a bitmap.
    #[must_use]
    pub fn free_gpus(&self) -> u64 {
        self.gpus & !self.held.gpus
    }
}

/// A tenant's quota and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantUse {
    /// GPUs that it may hold; `None` if the tenant is not known.
    pub quota: Option<u32>,
    /// GPUs that its jobs hold.
    pub held: u64,
}

/// A set of nodes as a bitmap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSet(Vec<u64>);

impl NodeSet {
    /// Whether the node is in the set.
    #[must_use]
    pub fn has(&self, ix: NodeIx) -> bool {
        self.0.get(ix.index() / 64).is_some_and(|word| word >> (ix.index() % 64) & 1 == 1)
    }

    /// Adds a node.
    pub fn insert(&mut self, ix: NodeIx) {
        let word = ix.index() / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (ix.index() % 64);
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What there is and what is held. Every change can be undone exactly by its opposite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    topology: Topology,
    slots: Vec<Capacity>,
    /// By name, so that a node that leaves and comes back is still held.
    held: BTreeMap<NodeName, Held>,
    tenants: BTreeMap<TenantName, TenantUse>,
}

impl Snapshot {
    /// A cluster without nodes.
    #[must_use]
    pub fn new(fabric: Option<&Fabric>) -> Self {
        Self { topology: Topology::new(fabric), ..Self::default() }
    }

    /// Another fabric document, or none.
    pub fn set_fabric(&mut self, fabric: Option<&Fabric>) {
        self.topology.set_fabric(fabric);
    }

    /// A node joins or changes.
    pub fn set_node(&mut self, name: &NodeName, inventory: &Arc<Inventory>, gate: Gate) {
        let ix = self.topology.set_node(name, inventory);
        self.slots.resize(self.topology.slots(), Capacity::default());
        let gpus =
            inventory.gpus.iter().filter(|gpu| gpu.index < GPUS_MAX).fold(0, |set, gpu| set | 1 << gpu.index);
        let held = self.held.get(name).copied().unwrap_or_default();
        self.slots[ix.index()] = Capacity { gate, gpus, held };
    }

    /// Only the gate of a node changes.
    pub fn set_gate(&mut self, name: &NodeName, gate: Gate) {
        if let Some(ix) = self.topology.index(name) {
            self.slots[ix.index()].gate = gate;
        }
    }

    /// A node leaves.
    pub fn remove_node(&mut self, name: &NodeName) {
        if let Some(ix) = self.topology.remove_node(name) {
            self.slots[ix.index()] = Capacity::default();
            self.slots.truncate(self.topology.slots());
        }
    }

    /// A tenant's GPU quota; `None` when the tenant is gone.
    pub fn set_quota(&mut self, tenant: &TenantName, quota: Option<u32>) {
        self.tenants.entry(tenant.clone()).or_default().quota = quota;
        self.tidy(tenant);
    }

    /// A job takes what its placement names.
    pub fn hold(&mut self, tenant: &TenantName, placement: &Placement) {
        self.change(tenant, placement, true);
    }

    /// A job gives it back.
    pub fn release(&mut self, tenant: &TenantName, placement: &Placement) {
        self.change(tenant, placement, false);
    }

    fn change(&mut self, tenant: &TenantName, placement: &Placement, take: bool) {
        let mut count = 0;
        for place in &placement.nodes {
            let gpus = place.gpus.iter().filter(|gpu| **gpu < GPUS_MAX).fold(0, |set, gpu| set | 1 << gpu);
            let rails: RailSet = place.nics.iter().map(|nic| nic.rail).collect();
            count += place.gpus.len() as u64;
            let held = self.held.entry(place.node.clone()).or_default();
            if take {
                *held = Held { gpus: held.gpus | gpus, rails: held.rails.or(rails) };
            } else {
                *held = Held { gpus: held.gpus & !gpus, rails: held.rails.without(rails) };
            }
            let held = *held;
            if held == Held::default() {
                self.held.remove(&place.node);
            }
            if let Some(ix) = self.topology.index(&place.node) {
                self.slots[ix.index()].held = held;
            }
        }
        let used = self.tenants.entry(tenant.clone()).or_default();
        used.held = if take { used.held + count } else { used.held.saturating_sub(count) };
        self.tidy(tenant);
    }

    fn tidy(&mut self, tenant: &TenantName) {
        if self.tenants.get(tenant) == Some(&TenantUse::default()) {
            self.tenants.remove(tenant);
        }
    }

    /// The fabric and its nodes.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What a node can give.
    #[must_use]
    pub fn capacity(&self, ix: NodeIx) -> Capacity {
        self.slots.get(ix.index()).copied().unwrap_or_default()
    }

    /// All nodes with what they can give, in the order of their indices.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIx, &Server, &Capacity)> {
        self.topology
            .servers_by_index()
            .filter_map(|(ix, server)| Some((ix, server, self.slots.get(ix.index())?)))
    }

    /// A tenant's quota and use.
    #[must_use]
    pub fn tenant(&self, tenant: &TenantName) -> TenantUse {
        self.tenants.get(tenant).copied().unwrap_or_default()
    }

    /// What jobs hold on a node, present or not.
    #[must_use]
    pub fn held(&self, node: &NodeName) -> Held {
        self.held.get(node).copied().unwrap_or_default()
    }
}
