//! The fabric as the scheduler sees it: the document and the nodes' inventories, joined.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proto_model::{Fabric, Gpu, Inventory, Nic, NodeName};

use crate::{
    IslandIx, LeafFacts, LeafIx, NodeIx, PodIx, RailSet,
    plan::{Plan, PlannedCable},
};

/// A server that has joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Name of the server.
    pub name: NodeName,
    /// What its agent reported of its hardware.
    pub inventory: Arc<Inventory>,
    /// Its pod; `None` if the document does not cable it.
    pub pod: Option<PodIx>,
    /// Its NIC on each rail; shorter than the fabric's rails where the last ones are missing.
    pub ports: Vec<Option<Port>>,
    /// Rails on which it has a NIC that is cabled (or no document says otherwise), up or not.
    pub present: RailSet,
    /// Those of `present` whose NIC is up, with a cable and a leaf that are not known to be down.
    pub usable: RailSet,
    /// Those of `present` that would be usable, but that the agent's health rules let no new job use.
    pub unfit: RailSet,
}

/// A server's NIC on one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Index into the inventory's NICs.
    pub nic: u32,
    /// Its leaf; of two the first that works. `None` without a fabric document.
    pub leaf: Option<LeafIx>,
    /// Its leaf on the other plane, where both work.
    pub second: Option<LeafIx>,
    /// What it carries, in Mbit/s each way: that of its working cables together, or less where the NIC says less; 0 if
    /// not known.
    pub mbps: u32,
    /// The NIC is up, and a cable and a leaf of it are not known to be down.
    pub up: bool,
}

impl Port {
    /// Its working leaves: none, one or two.
    pub fn leaves(&self) -> impl Iterator<Item = LeafIx> {
        [self.leaf, self.second].into_iter().flatten().filter(|_| self.up)
    }
}

/// The fabric as the scheduler sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    pub(crate) plan: Option<Arc<Plan>>,
    servers: Vec<Option<Server>>,
    free: Vec<NodeIx>,
    by_name: BTreeMap<NodeName, NodeIx>,
    /// How many servers have a NIC on each rail: the rails of a cluster without a document.
    rail_users: BTreeMap<u32, u32>,
}

impl Topology {
    /// A fabric without servers. The document should be free of faults ([`crate::check`]); what is faulty is ignored.
    #[must_use]
    pub fn new(fabric: Option<&Fabric>) -> Self {
        Self { plan: fabric.map(|fabric| Arc::new(Plan::new(fabric))), ..Self::default() }
    }

    /// Another document, or none; the servers stay and keep their indices.
    pub fn set_fabric(&mut self, fabric: Option<&Fabric>) {
        self.plan = fabric.map(|fabric| Arc::new(Plan::new(fabric)));
        let plan = self.plan.clone();
        for server in self.servers.iter_mut().flatten() {
            *server = join(plan.as_deref(), &server.name, &server.inventory);
        }
    }

    /// A server joins, or its inventory has changed.
    pub fn set_node(&mut self, name: &NodeName, inventory: &Arc<Inventory>) -> NodeIx {
        let server = join(self.plan.as_deref(), name, inventory);
        for rail in rails_of(inventory).iter() {
            *self.rail_users.entry(rail).or_default() += 1;
        }
        if let Some(ix) = self.by_name.get(name).copied() {
            if let Some(old) = self.servers[ix.index()].replace(server) {
                self.leave_rails(&old.inventory);
            }
            return ix;
        }
        let ix = self.free.pop().unwrap_or_else(|| NodeIx::at(self.servers.len()));
        if ix.index() == self.servers.len() {
            self.servers.push(None);
        }
        self.servers[ix.index()] = Some(server);
        self.by_name.insert(name.clone(), ix);
        ix
    }

    /// Removes a server that left; gives the index that it had, which a later server may get.
    pub fn remove_node(&mut self, name: &NodeName) -> Option<NodeIx> {
        let ix = self.by_name.remove(name)?;
        if let Some(old) = self.servers[ix.index()].take() {
            self.leave_rails(&old.inventory);
        }
        // Only so is the last change always undone exactly: a slot taken from `free` is never the last one alone.
        if ix.index() + 1 == self.servers.len() && self.free.is_empty() {
            self.servers.pop();
        } else {
            self.free.push(ix);
        }
        Some(ix)
    }

    fn leave_rails(&mut self, inventory: &Inventory) {
        for rail in rails_of(inventory).iter() {
            if let Some(users) = self.rail_users.get_mut(&rail) {
                *users -= 1;
                if *users == 0 {
                    self.rail_users.remove(&rail);
                }
            }
        }
    }

    /// Whether there is a fabric document.
    #[must_use]
    pub fn has_document(&self) -> bool {
        self.plan.is_some()
    }

    /// Number of rails: the document's, or one more than the largest rail of any inventory.
    #[must_use]
    pub fn rails(&self) -> u32 {
        match &self.plan {
            Some(plan) => plan.rails,
            None => self.rail_users.keys().next_back().map_or(0, |rail| rail + 1),
        }
    }

    /// The index of the server of this name; `None` if it has not joined.
    #[must_use]
    pub fn index(&self, name: &NodeName) -> Option<NodeIx> {
        self.by_name.get(name).copied()
    }

    /// The server at an index; `None` if there is none.
    #[must_use]
    pub fn server(&self, ix: NodeIx) -> Option<&Server> {
        self.servers.get(ix.index())?.as_ref()
    }

    /// All servers in name order.
    pub fn servers(&self) -> impl Iterator<Item = (NodeIx, &Server)> {
        self.by_name.values().filter_map(|ix| Some((*ix, self.server(*ix)?)))
    }

    /// All servers in the order of their indices: faster, for sums.
    pub fn servers_by_index(&self) -> impl Iterator<Item = (NodeIx, &Server)> {
        self.servers.iter().enumerate().filter_map(|(at, server)| Some((NodeIx::at(at), server.as_ref()?)))
    }

    /// How many servers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is no server.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// One more than the largest index in use.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.servers.len()
    }

    /// How many pods there are.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.plan.as_ref().map_or(1, |plan| plan.pods.len())
    }

    /// A pod's name; empty for the one pod of a cluster without document.
    #[must_use]
    pub fn pod_name(&self, pod: PodIx) -> &str {
        self.plan.as_ref().and_then(|plan| plan.pods.get(pod.index())).map_or("", |name| name)
    }

    /// Pods in name order.
    pub fn pod_indices(&self) -> impl Iterator<Item = PodIx> {
        (0..self.pods()).map(PodIx::at)
    }

    /// Name of a leaf; empty if there is none of that index.
    #[must_use]
    pub fn leaf_name(&self, leaf: LeafIx) -> &str {
        self.plan.as_ref().and_then(|plan| plan.leaf_names.get(leaf.index())).map_or("", |name| name)
    }

    /// The index of the leaf of this name; `None` if there is none.
    #[must_use]
    pub fn leaf_index(&self, name: &str) -> Option<LeafIx> {
        let plan = self.plan.as_ref()?;
        plan.leaf_names.binary_search_by(|leaf| (**leaf).cmp(name)).ok().map(LeafIx::at)
    }

    /// How many leaves there are; none without a document.
    #[must_use]
    pub fn leaves(&self) -> usize {
        self.plan.as_ref().map_or(0, |plan| plan.leaves.len())
    }

    /// What is known of a leaf.
    #[must_use]
    pub fn leaf(&self, leaf: LeafIx) -> Option<&LeafFacts> {
        self.plan.as_ref()?.leaves.get(leaf.index())
    }

    /// A pod's leaves on one rail, by plane, then name.
    #[must_use]
    pub fn leaves_on(&self, pod: PodIx, rail: u32) -> &[LeafIx] {
        self.plan.as_ref().map_or(&[][..], |plan| plan.leaves_on(pod, rail))
    }

    /// The names of a pod's leaves on one rail.
    pub fn leaves_of(&self, pod: PodIx, rail: u32) -> impl Iterator<Item = &str> {
        self.leaves_on(pod, rail).iter().map(|leaf| self.leaf_name(*leaf))
    }

    /// Whether every one of the nodes reaches every other on every one of the rails without leaving that rail: each
    /// has a NIC that is up and cabled on each, and their leaves reach each other on at least one plane.
    #[must_use]
    pub fn aligned(&self, nodes: &[NodeIx], rails: RailSet) -> bool {
        let servers: Option<Vec<&Server>> = nodes.iter().map(|ix| self.server(*ix)).collect();
        let Some(servers) = servers else { return false };
        if !servers.iter().all(|server| server.usable.covers(rails)) {
            return false;
        }
        rails.iter().all(|rail| {
            // Nearly always one: the servers of a whole rail are on one island.
            let kinds: BTreeSet<[Option<IslandIx>; 2]> = servers
                .iter()
                .filter_map(|server| server.ports.get(rail as usize).copied().flatten())
                .map(|port| self.islands(&port))
                .collect();
            let meet = |a: &[Option<IslandIx>; 2], b: &[Option<IslandIx>; 2]| {
                a == b || a.iter().flatten().any(|island| b.contains(&Some(*island)))
            };
            kinds.iter().enumerate().all(|(at, a)| kinds.iter().skip(at + 1).all(|b| meet(a, b)))
        })
    }

    /// The islands that a port's working leaves are on; both `None` without a document, where a rail is one island.
    #[must_use]
    pub fn islands(&self, port: &Port) -> [Option<IslandIx>; 2] {
        let island = |leaf: Option<LeafIx>| Some(self.leaf(leaf.filter(|_| port.up)?)?.island);
        [island(port.leaf), island(port.second)]
    }

    /// Switch hops between two nodes on one rail: 0 to itself, 1 over one leaf, 3 over a spine, 5 over more; `None`
    /// where the rail does not join them. Without a document a rail is one leaf.
    #[must_use]
    pub fn distance(&self, a: NodeIx, b: NodeIx, rail: u32) -> Option<u32> {
        let port =
            |ix| self.server(ix)?.ports.get(rail as usize).copied().flatten().filter(|port: &Port| port.up);
        let (pa, pb) = (port(a)?, port(b)?);
        if a == b {
            return Some(0);
        }
        let Some(plan) = &self.plan else { return Some(1) };
        let pairs = pa.leaves().flat_map(|one| pb.leaves().map(move |other| (one, other)));
        let hops = pairs.filter_map(|(one, other)| {
            let island = |leaf: LeafIx| plan.leaves[leaf.index()].island;
            if one == other {
                Some(1)
            } else if island(one) != island(other) {
                None
            } else {
                Some(if plan.share_spine(one, other) { 3 } else { 5 })
            }
        });
        hops.min()
    }

    /// The distinct pods of a set of nodes.
    #[must_use]
    pub fn pods_of(&self, nodes: &[NodeIx]) -> BTreeSet<PodIx> {
        nodes.iter().filter_map(|ix| self.server(*ix)?.pod).collect()
    }

    /// Lets every server that the document cables join as the document has it: each of its NICs up, named and fast as
    /// cabled, and `gpus` GPUs. For plans and simulations, where no server reports itself.
    pub fn furnish(&mut self, gpus: u32) {
        let Some(plan) = self.plan.clone() else { return };
        // Servers that are alike share what they have.
        let mut kinds: BTreeMap<Vec<(u32, u32, u32)>, Arc<Inventory>> = BTreeMap::new();
        for (at, name) in plan.nodes.iter().enumerate() {
            let mut nics: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
            for cable in plan.cables_at(at) {
                let (_, mbps) = nics.entry(cable.nic).or_insert((cable.rail(), 0));
                *mbps = mbps.saturating_add(cable.mbps);
            }
            let kind: Vec<_> = nics.into_iter().map(|(nic, (rail, mbps))| (nic, rail, mbps)).collect();
            let inventory =
                kinds.entry(kind).or_insert_with_key(|kind| Arc::new(furnished(&plan, kind, gpus)));
            self.set_node(name, &Arc::clone(inventory));
        }
    }
}

fn furnished(plan: &Plan, kind: &[(u32, u32, u32)], gpus: u32) -> Inventory {
    let nic = |&(nic, rail, mbps): &(u32, u32, u32)| Nic {
        device: plan.nics[nic as usize].to_string(),
        netdev: String::new(),
        pci_address: String::new(),
        numa_node: None,
        rail,
        address: None,
        mtu: 0,
        speed_mbps: u64::from(mbps),
        up: true,
        gid_index: None,
        facts: None,
    };
    let mut nics: Vec<Nic> = kind.iter().map(nic).collect();
    nics.sort_by_key(|nic| nic.rail);
    let gpu = |index| Gpu {
        index,
        uuid: String::new(),
        model: String::new(),
        pci_address: String::new(),
        numa_node: None,
        memory_bytes: 0,
        facts: None,
    };
    Inventory {
        gpus: (0..gpus).map(gpu).collect(),
        nics,
        isolation: proto_model::Isolation::with(proto_model::IsolationSet::ALL),
        ..Inventory::default()
    }
}

fn rails_of(inventory: &Inventory) -> RailSet {
    inventory.nics.iter().map(|nic| nic.rail).collect()
}

/// One server's part of the join. A NIC counts where the inventory and the document agree on its rail; of two NICs
/// on one rail the one that is up counts, else the first.
fn join(plan: Option<&Plan>, name: &NodeName, inventory: &Arc<Inventory>) -> Server {
    let mut server = Server {
        name: name.clone(),
        inventory: Arc::clone(inventory),
        pod: None,
        ports: Vec::new(),
        present: RailSet::EMPTY,
        usable: RailSet::EMPTY,
        unfit: RailSet::EMPTY,
    };
    let cables = plan.and_then(|plan| plan.cables_of(name)).unwrap_or_default();
    server.pod = match plan {
        None => Some(PodIx::at(0)),
        Some(plan) => cables.first().map(|cable| plan.leaves[cable.leaf.index()].pod),
    };
    for (at, nic) in inventory.nics.iter().enumerate() {
        let port = match plan {
            None => Some(Port { leaf: None, second: None, mbps: speed(nic), up: nic.up, nic: 0 }),
            Some(plan) => port(plan, cables, nic).map(|port| Port {
                // A NIC that hears another leaf than its own is on no leaf that can be relied on.
                up: port.up && plan.heard_elsewhere(cables, inventory, nic).is_none(),
                ..port
            }),
        };
        let (Some(port), rail) = (port, nic.rail as usize) else { continue };
        let fit = inventory.is_fit(&nic.device);
        let (is_up, port) = (port.up, Port { up: port.up && fit, ..port });
        if nic.rail >= RailSet::MAX || server.usable.has(nic.rail) {
            continue;
        }
        if server.present.has(nic.rail) && !port.up {
            continue;
        }
        if server.ports.len() <= rail {
            server.ports.resize(rail + 1, None);
        }
        server.ports[rail] = Some(Port { nic: u32::try_from(at).unwrap_or(u32::MAX), ..port });
        server.present = server.present.with(nic.rail);
        if port.up {
            server.usable = server.usable.with(nic.rail);
        } else if is_up {
            server.unfit = server.unfit.with(nic.rail);
        }
    }
    // Another NIC on the same rail may do.
    server.unfit = server.unfit.without(server.usable);
    server
}

fn speed(nic: &Nic) -> u32 {
    u32::try_from(nic.speed_mbps).unwrap_or(u32::MAX)
}

/// A NIC's cables by plane; `None` if the document has none on the rail that the NIC says.
fn port(plan: &Plan, cables: &[PlannedCable], nic: &Nic) -> Option<Port> {
    let mut own: [Option<&PlannedCable>; 2] = [None; 2];
    for cable in cables {
        let named = plan.nic_name(cable);
        let leaf = &plan.leaves[cable.leaf.index()];
        if (named == nic.device || named == nic.netdev) && cable.rail() == nic.rail {
            own[usize::from(leaf.plane > 0)].get_or_insert(cable);
        }
    }
    let first = own.iter().flatten().find(|cable| cable.works).or_else(|| own.iter().flatten().next())?;
    let second = own[1].filter(|cable| cable.works && cable.leaf != first.leaf);
    let planned = second.map_or(first.mbps, |second| first.mbps.saturating_add(second.mbps));
    // A NIC with two ports reports one of them.
    let mbps = match (planned, speed(nic)) {
        (0, reported) => reported,
        (planned, reported) if reported == 0 || second.is_some() => planned,
        (planned, reported) => planned.min(reported),
    };
    Some(Port {
        nic: 0,
        leaf: Some(first.leaf),
        second: second.map(|cable| cable.leaf),
        mbps,
        up: nic.up && first.works,
    })
}
