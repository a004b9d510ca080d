//! The fabric as the scheduler sees it: the document and the nodes' inventories, joined.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proto_model::{Fabric, Inventory, NodeName};

use crate::RailSet;

macro_rules! index {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $type(u32);

        impl $type {
            /// As an index into a vector.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            fn at(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }
        }
    };
}

index!(
    /// A server of the cluster; given back when it leaves.
    NodeIx
);
index!(
    /// A pod, in name order. Without a fabric document there is one, without a name.
    PodIx
);
index!(
    /// A leaf, in name order.
    LeafIx
);

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: NodeName,
    /// What it has.
    pub inventory: Arc<Inventory>,
    /// Its pod; `None` if the document does not cable it.
    pub pod: Option<PodIx>,
    /// Its NIC on each rail; shorter than the fabric's rails where the last ones are missing.
    pub ports: Vec<Option<Port>>,
    /// Rails on which it has a NIC that is cabled (or no document says otherwise), up or not.
    pub present: RailSet,
    /// Those of `present` whose NIC is up.
    pub usable: RailSet,
}

/// A server's NIC on one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Index into the inventory's NICs.
    pub nic: u32,
    /// Its leaf; `None` without a fabric document.
    pub leaf: Option<LeafIx>,
    /// Link up.
    pub up: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeafRecord {
    pub(crate) name: String,
    pub(crate) rail: u32,
    pod: PodIx,
}

/// A document in the shape that joins fast.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Plan {
    rails: u32,
    pub(crate) leaves: Vec<LeafRecord>,
    pods: Vec<String>,
    /// NIC name and leaf, per node.
    pub(crate) cables: BTreeMap<NodeName, Vec<(String, LeafIx)>>,
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
    /// A fabric without servers. The document must be free of faults ([`crate::check`]); a faulty link is ignored.
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

    /// A server leaves.
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

    /// The server's index.
    #[must_use]
    pub fn index(&self, name: &NodeName) -> Option<NodeIx> {
        self.by_name.get(name).copied()
    }

    /// The server at an index.
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
        self.plan.as_ref().and_then(|plan| plan.pods.get(pod.index())).map_or("", String::as_str)
    }

    /// Pods in name order.
    pub fn pod_indices(&self) -> impl Iterator<Item = PodIx> {
        (0..self.pods()).map(PodIx::at)
    }

    /// A leaf's name.
    #[must_use]
    pub fn leaf_name(&self, leaf: LeafIx) -> &str {
        self.plan.as_ref().and_then(|plan| plan.leaves.get(leaf.index())).map_or("", |leaf| &leaf.name)
    }

    /// The names of a pod's leaves on one rail.
    pub fn leaves_of(&self, pod: PodIx, rail: u32) -> impl Iterator<Item = &str> {
        let leaves = self.plan.as_ref().map_or(&[][..], |plan| &plan.leaves);
        leaves.iter().filter(move |leaf| leaf.pod == pod && leaf.rail == rail).map(|leaf| leaf.name.as_str())
    }

    /// Whether every one of the nodes reaches every other on every one of the rails without leaving that rail: each
    /// has a NIC that is up and cabled on each. (The leaves of one rail are joined by that rail's own spines.)
    #[must_use]
    pub fn aligned(&self, nodes: &[NodeIx], rails: RailSet) -> bool {
        nodes.iter().all(|ix| self.server(*ix).is_some_and(|server| server.usable.covers(rails)))
    }

    /// Switch hops between two nodes on one rail: 0 to itself, 1 over one leaf, 3 over the rail's spines; `None`
    /// where the rail does not join them. Without a document a rail is one leaf.
    #[must_use]
    pub fn distance(&self, a: NodeIx, b: NodeIx, rail: u32) -> Option<u32> {
        let port =
            |ix| self.server(ix)?.ports.get(rail as usize).copied().flatten().filter(|port: &Port| port.up);
        let (pa, pb) = (port(a)?, port(b)?);
        Some(if a == b {
            0
        } else if pa.leaf == pb.leaf {
            1
        } else {
            3
        })
    }

    /// The distinct pods of a set of nodes.
    #[must_use]
    pub fn pods_of(&self, nodes: &[NodeIx]) -> BTreeSet<PodIx> {
        nodes.iter().filter_map(|ix| self.server(*ix)?.pod).collect()
    }
}

impl Plan {
    fn new(fabric: &Fabric) -> Self {
        let pods: BTreeSet<&str> = fabric.leaves.iter().map(|leaf| leaf.pod.as_str()).collect();
        let pods: Vec<String> = pods.into_iter().map(str::to_owned).collect();
        let pod = |name: &str| PodIx::at(pods.binary_search_by(|pod| pod.as_str().cmp(name)).unwrap_or(0));
        let mut leaves: Vec<LeafRecord> = fabric
            .leaves
            .iter()
            .map(|leaf| LeafRecord { name: leaf.name.clone(), rail: leaf.rail, pod: pod(&leaf.pod) })
            .collect();
        leaves.sort_by(|a, b| a.name.cmp(&b.name));
        let mut cables: BTreeMap<NodeName, Vec<(String, LeafIx)>> = BTreeMap::new();
        for link in &fabric.links {
            if let Ok(at) = leaves.binary_search_by(|leaf| leaf.name.cmp(&link.leaf)) {
                cables.entry(link.node.clone()).or_default().push((link.nic.clone(), LeafIx::at(at)));
            }
        }
        let rails = fabric.rails.iter().map(|rail| rail.index.saturating_add(1)).max().unwrap_or(0);
        Self { rails: rails.min(RailSet::MAX), leaves, pods, cables }
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
    };
    let cables = plan.and_then(|plan| plan.cables.get(name));
    server.pod = match plan {
        None => Some(PodIx(0)),
        Some(plan) => cables.and_then(|cables| cables.first()).map(|(_, leaf)| plan.leaves[leaf.index()].pod),
    };
    for (at, nic) in inventory.nics.iter().enumerate() {
        let mut leaf = None;
        if let Some(plan) = plan {
            let cable = cables.and_then(|cables| {
                cables.iter().find(|(cabled, _)| *cabled == nic.device || *cabled == nic.netdev)
            });
            let Some((_, ix)) = cable else { continue };
            let record = &plan.leaves[ix.index()];
            if record.rail != nic.rail {
                continue;
            }
            leaf = Some(*ix);
        }
        let rail = nic.rail as usize;
        if nic.rail >= RailSet::MAX || server.usable.has(nic.rail) {
            continue;
        }
        if server.present.has(nic.rail) && !nic.up {
            continue;
        }
        if server.ports.len() <= rail {
            server.ports.resize(rail + 1, None);
        }
        server.ports[rail] = Some(Port { nic: u32::try_from(at).unwrap_or(u32::MAX), leaf, up: nic.up });
        server.present = server.present.with(nic.rail);
        if nic.up {
            server.usable = server.usable.with(nic.rail);
        }
    }
    server
}
