//! What there is and what is held: the scheduler's whole world.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_topology::{NodeIx, RailSet, Server, Topology};
use proto_model::{Fabric, Inventory, IsolationPolicy, NodeName, Placement, TenantName};

use crate::{
    capacity::{Allocated, Capacity, GPUS_MAX, Gate},
    capacity_index::{CapacityIndex, Facts, Pick, Taint, Tenants, Traits},
    choice::Choice,
    host::Host,
};

/// A tenant's quota and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantUse {
    /// GPUs that it may hold; `None` if the tenant is not known.
    pub quota: Option<u32>,
    /// GPUs that its jobs hold.
    pub held: u64,
    /// How much isolation its jobs must have.
    pub isolation: IsolationPolicy,
}

/// A set of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeSet(Vec<NodeIx>);

impl NodeSet {
    /// Whether the node is in the set.
    #[must_use]
    pub fn has(&self, ix: NodeIx) -> bool {
        self.0.binary_search(&ix).is_ok()
    }

    /// The nodes of the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = NodeIx> {
        self.0.iter().copied()
    }

    /// The number of nodes in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<NodeIx> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeIx>>(nodes: I) -> Self {
        let mut nodes: Vec<NodeIx> = nodes.into_iter().collect();
        nodes.sort_unstable();
        nodes.dedup();
        Self(nodes)
    }
}

/// What there is and what is held. Every change can be undone exactly by its opposite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    pub(crate) topology: Topology,
    pub(crate) slots: Vec<Capacity>,
    /// Labels, taints and wiring of each node.
    pub(crate) traits: Vec<Arc<Traits>>,
    /// The same once more, in the shape that decisions are made from.
    pub(crate) capacity_index: CapacityIndex,
    /// Rails that are drained, by the names of nodes, which may be away.
    drained: BTreeMap<NodeName, RailSet>,
    /// What is held on nodes that are away, by name, so that one that comes back is still held; and by whom.
    held: BTreeMap<NodeName, (Allocated, Tenants)>,
    tenants: BTreeMap<TenantName, TenantUse>,
}

impl Snapshot {
    /// A cluster without nodes.
    #[must_use]
    pub fn new(fabric: Option<&Fabric>) -> Self {
        let mut snapshot = Self::default();
        snapshot.set_fabric(fabric);
        snapshot
    }

    /// Another fabric document, or none. What gangs load must be set anew by [`Self::share`].
    pub fn set_fabric(&mut self, fabric: Option<&Fabric>) {
        self.topology.set_fabric(fabric);
        self.capacity_index =
            CapacityIndex::new(fabric, self.topology.rails()).with_owners_of(&mut self.capacity_index);
        self.fill_capacity_index();
    }

    /// A node joins or changes.
    pub fn set_node(&mut self, name: &NodeName, inventory: &Arc<Inventory>, gate: Gate) {
        self.set_labelled(name, inventory, gate, &BTreeMap::new(), &BTreeSet::new());
    }

    /// The same for a node with labels and taints.
    pub fn set_labelled(
        &mut self,
        name: &NodeName,
        inventory: &Arc<Inventory>,
        gate: Gate,
        labels: &BTreeMap<String, String>,
        taints: &BTreeSet<Taint>,
    ) {
        let held = self.held(name);
        let back = self.held.remove(name);
        let ix = self.topology.set_node(name, inventory);
        if let Some((_, tenants)) = back {
            self.capacity_index.put_tenants(ix, &tenants);
        }
        self.slots.resize(self.topology.slots(), Capacity::default());
        let gpus =
            inventory.gpus.iter().filter(|gpu| gpu.index < GPUS_MAX).fold(0, |set, gpu| set | 1 << gpu.index);
        self.slots[ix.index()] = Capacity { gate, gpus, host: Host::of(inventory), held };
        let drained = self.drained(name);
        let traits =
            Traits { labels: labels.clone(), taints: taints.clone(), drained, ..Traits::of(inventory) };
        self.traits.resize(self.slots.len(), Arc::default());
        // A class has one set of traits that its nodes share.
        self.traits[ix.index()] = self.capacity_index.shared(Arc::new(traits));
        if self.topology.rails() != self.capacity_index.rails() {
            self.widen_capacity_index();
        } else if let Some(server) = self.topology.server(ix) {
            self.capacity_index.set_node(
                ix,
                name,
                facts(server, &self.slots[ix.index()], &self.traits[ix.index()]),
            );
        }
    }

    /// Only the gate of a node changes.
    pub fn set_gate(&mut self, name: &NodeName, gate: Gate) {
        if let Some(ix) = self.topology.index(name) {
            self.slots[ix.index()].gate = gate;
            self.capacity_index.set_open(ix, gate.is_open());
        }
    }

    /// Rails of a node are drained, these and no others. They are as good as any to those that hold them, and the last choice
    /// for those that come.
    pub fn set_drained(&mut self, name: &NodeName, drained: RailSet) {
        if self.drained(name) == drained {
            return;
        }
        if drained.is_empty() {
            self.drained.remove(name);
        } else {
            self.drained.insert(name.clone(), drained);
        }
        if let Some(ix) = self.topology.index(name)
            && let Some(server) = self.topology.server(ix)
        {
            let traits = Traits { drained, ..Traits::clone(&self.traits[ix.index()]) };
            self.traits[ix.index()] = self.capacity_index.shared(Arc::new(traits));
            self.capacity_index.set_node(
                ix,
                name,
                facts(server, &self.slots[ix.index()], &self.traits[ix.index()]),
            );
        }
    }

    /// The rails of a node that are drained, whether it is there or not.
    #[must_use]
    pub fn drained(&self, name: &NodeName) -> RailSet {
        self.drained.get(name).copied().unwrap_or(RailSet::EMPTY)
    }

    /// Whether any rail is drained.
    #[must_use]
    pub fn has_drained(&self) -> bool {
        !self.drained.is_empty()
    }

    /// Removes a node from the snapshot; an unknown name changes nothing.
    pub fn remove_node(&mut self, name: &NodeName) {
        if let Some(ix) = self.topology.remove_node(name) {
            let gone = std::mem::take(&mut self.slots[ix.index()]);
            let tenants = self.capacity_index.take_tenants(ix);
            if gone.held != Allocated::default() || !tenants.is_empty() {
                self.held.insert(name.clone(), (gone.held, tenants));
            }
            self.slots.truncate(self.topology.slots());
            self.traits[ix.index()] = Arc::default();
            self.traits.truncate(self.slots.len());
            self.capacity_index.remove_node(ix);
            if self.topology.rails() != self.capacity_index.rails() {
                self.widen_capacity_index();
            }
        }
    }

    /// Without a document the nodes say how many rails there are: so many planes.
    fn widen_capacity_index(&mut self) {
        self.capacity_index =
            self.capacity_index.cleared(self.topology.rails()).with_owners_of(&mut self.capacity_index);
        self.fill_capacity_index();
    }

    fn fill_capacity_index(&mut self) {
        self.capacity_index.connect(&self.topology);
        for (ix, server) in self.topology.servers() {
            if let (Some(capacity), Some(traits)) = (self.slots.get(ix.index()), self.traits.get(ix.index()))
            {
                self.capacity_index.set_node(ix, &server.name, facts(server, capacity, traits));
            }
        }
    }

    /// A tenant's GPU quota; `None` when the tenant is gone.
    pub fn set_quota(&mut self, tenant: &TenantName, quota: Option<u32>) {
        self.tenants.entry(tenant.clone()).or_default().quota = quota;
        self.tidy(tenant);
    }

    /// How much isolation a tenant's jobs must have.
    pub fn set_isolation(&mut self, tenant: &TenantName, isolation: IsolationPolicy) {
        self.tenants.entry(tenant.clone()).or_default().isolation = isolation;
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

    /// A chosen gang takes its nodes: as holding its placement, without a look at names.
    pub fn hold_choice(&mut self, tenant: &TenantName, choice: &Choice) {
        self.change_choice(tenant, choice, true);
    }

    /// It gives them back.
    pub fn release_choice(&mut self, tenant: &TenantName, choice: &Choice) {
        self.change_choice(tenant, choice, false);
    }

    fn change(&mut self, tenant: &TenantName, placement: &Placement, take: bool) {
        let mut count = 0;
        let number = self.capacity_index.tenant(tenant);
        for place in placement.nodes.iter().chain(&placement.spares) {
            let own = Allocated::of(place, placement.exclusive);
            count += place.gpus.len() as u64;
            if let Some(ix) = self.topology.index(&place.node) {
                let slot = &mut self.slots[ix.index()];
                slot.held = slot.held.changed(own, take);
                self.capacity_index.set_held(ix, slot.held);
                self.capacity_index.own(ix, number, take);
                continue;
            }
            let (held, tenants) = self.held.entry(place.node.clone()).or_default();
            *held = held.changed(own, take);
            count_job(tenants, tenant, take);
            if *held == Allocated::default() && tenants.is_empty() {
                self.held.remove(&place.node);
            }
        }
        self.share(placement, take);
        self.charge(tenant, count, take);
    }

    fn change_choice(&mut self, tenant: &TenantName, choice: &Choice, take: bool) {
        let Choice { rails, exclusive, .. } = *choice;
        let own = |gpus: u64, host: Host| Allocated { gpus, rails, whole: exclusive, host };
        let mut count = 0;
        let number = self.capacity_index.tenant(tenant);
        let parts = || choice.parts().chain(std::iter::once((&choice.spares[..], choice.host)));
        for (picks, host) in parts() {
            for pick in picks {
                if let Some(slot) = self.slots.get_mut(pick.node.index()) {
                    slot.held = slot.held.changed(own(pick.gpus, host), take);
                    count += u64::from(pick.gpus.count_ones());
                    self.capacity_index.own(pick.node, number, take);
                }
            }
        }
        for (picks, host) in parts() {
            self.capacity_index.hold(picks, |held, gpus| held.changed(own(gpus, host), take));
        }
        let outside = self.capacity_index.outside_block();
        let block = |pick: &Pick| self.capacity_index.place(pick.node).map_or(outside, |(_, block)| block);
        let blocks: Vec<u32> = choice.nodes.iter().map(block).collect();
        self.capacity_index.share_blocks(blocks.iter().copied(), rails.len(), take);
        self.charge(tenant, count, take);
    }

    fn charge(&mut self, tenant: &TenantName, gpus: u64, more: bool) {
        let used = self.tenants.entry(tenant.clone()).or_default();
        used.held = if more { used.held + gpus } else { used.held.saturating_sub(gpus) };
        self.tidy(tenant);
    }

    /// A gang that lies on several groups of leaves loads their uplinks, or no longer does. Holding does this too; by
    /// itself it is for the gangs that hold while the document changes.
    pub fn share(&mut self, placement: &Placement, more: bool) {
        let block = |name: &NodeName| {
            let here = self.topology.index(name).and_then(|ix| self.capacity_index.place(ix));
            here.map_or_else(|| self.capacity_index.block_named(name), |(_, block)| block)
        };
        let blocks: Vec<u32> = placement.nodes.iter().map(|place| block(&place.node)).collect();
        let rails = u32::try_from(placement.rails.len()).unwrap_or(u32::MAX);
        self.capacity_index.share_blocks(blocks.iter().copied(), rails, more);
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

    /// What decisions are made from.
    #[must_use]
    pub fn capacity_index(&self) -> &CapacityIndex {
        &self.capacity_index
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
    pub fn held(&self, node: &NodeName) -> Allocated {
        match self.topology.index(node) {
            Some(ix) => self.capacity(ix).held,
            None => self.held.get(node).map(|(held, _)| *held).unwrap_or_default(),
        }
    }
}

/// A job of a tenant on a node more, or one less.
fn count_job(tenants: &mut Tenants, tenant: &TenantName, more: bool) {
    let jobs = tenants.entry(tenant.clone()).or_default();
    *jobs = if more { *jobs + 1 } else { jobs.saturating_sub(1) };
    if *jobs == 0 {
        tenants.remove(tenant);
    }
}

fn facts(server: &Server, capacity: &Capacity, traits: &Arc<Traits>) -> Facts {
    Facts {
        open: capacity.gate.is_open(),
        gpus: capacity.gpus,
        host: capacity.host,
        present: server.present,
        usable: server.usable,
        held: capacity.held,
        traits: Arc::clone(traits),
    }
}
