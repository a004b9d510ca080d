//! The cluster that a trace is replayed on: a fabric document whose servers all stand as it cables them.

use std::{collections::BTreeMap, sync::Arc};

use controller_scheduler::{Gate, Snapshot};
use controller_topology::{NodeIx, RailSet, Topology};
use proto_model::{Fabric, GpuKind, Inventory, NodeName};
use thiserror::Error;

use crate::{
    servers::{KINDS, Kind, Listed},
    trace::Asks,
};

/// Why a fabric cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SiteError {
    /// The document is faulty.
    #[error("the fabric document is faulty: {0}")]
    Faulty(String),
    /// The fabric cables no server to a leaf.
    #[error("the fabric cables no server")]
    NoNodes,
    /// The fabric has no rail.
    #[error("the fabric has no rail")]
    NoRails,
    /// More GPUs than the scheduler tells apart, or none.
    #[error("{0} GPUs per server; 1 to 64 can be simulated")]
    Gpus(u32),
    /// A list of servers for another cluster.
    #[error(
        "the list has {listed} servers and the fabric {fabric}, and their names are not the same; give a fabric of as many, or name the servers as it does"
    )]
    Others {
        /// Servers of the list.
        listed: usize,
        /// Servers of the fabric.
        fabric: usize,
    },
    /// More kinds of servers than can be distinguished.
    #[error("the list has more than {KINDS} kinds of servers")]
    Kinds,
    /// No server is on all rails.
    #[error("no server has a working NIC on all {0} rails")]
    Nowhere(u32),
}

/// A server, as the baselines and the sums see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// Index of the server in the snapshot.
    pub node: NodeIx,
    /// Number of its pod.
    pub pod: u32,
    /// Servers on the same leaves share it.
    pub leaf: u32,
    /// It has a working NIC on all rails.
    pub full: bool,
    /// What it is: into the site's kinds.
    pub kind: usize,
}

/// The cluster that is simulated.
#[derive(Debug, Clone)]
pub struct Site {
    /// The fabric document as it was given.
    pub fabric: Fabric,
    /// The cluster with all servers free, as the scheduler sees it.
    pub snapshot: Snapshot,
    /// The servers, by their index in the snapshot.
    pub spots: Vec<Spot>,
    /// Number of pods of the fabric.
    pub pods: u32,
    /// GPUs of each server; where servers differ, of the largest.
    pub gpus_per_node: u32,
    /// The kinds of servers that there are.
    pub kinds: Vec<Kind>,
    /// A list says what the servers are; else they are alike, and nothing but their GPUs is known.
    pub listed: bool,
}

impl Site {
    /// Lets the servers of a list stand where the document cables them: by their names if the document has all of them, else in the
    /// list's order in the order of the document's names.
    ///
    /// # Errors
    /// [`SiteError`] where nothing could run there, or the list is of another cluster.
    pub fn of(fabric: Fabric, servers: &[Listed]) -> Result<Self, SiteError> {
        let mut topology = Topology::new(Some(&fabric));
        topology.furnish(0);
        let names: Vec<&NodeName> = topology.servers().map(|(_, server)| &server.name).collect();
        let by_name: BTreeMap<&str, &Kind> =
            servers.iter().map(|server| (server.name.as_str(), &server.kind)).collect();
        let named: Option<Vec<&Kind>> =
            names.iter().map(|name| by_name.get(name.as_str()).copied()).collect();
        let each = match named {
            Some(kinds) if servers.len() == names.len() => kinds,
            _ if servers.len() == names.len() => servers.iter().map(|server| &server.kind).collect(),
            _ => return Err(SiteError::Others { listed: servers.len(), fabric: names.len() }),
        };
        let mut kinds: Vec<Kind> = each.iter().map(|kind| (*kind).clone()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.len() > KINDS {
            return Err(SiteError::Kinds);
        }
        let each = each.into_iter().filter_map(|kind| kinds.binary_search(kind).ok()).collect();
        Self::made(fabric, kinds.clone(), each, true)
    }

    /// Lets every server that the document cables stand there with so many GPUs.
    ///
    /// # Errors
    /// [`SiteError`] where nothing could run there.
    pub fn new(fabric: Fabric, gpus_per_node: u32) -> Result<Self, SiteError> {
        let kind = Kind { gpus: gpus_per_node, ..Kind::default() };
        Self::made(fabric, vec![kind], Vec::new(), false)
    }

    /// `each`: the kind of each server in the order of the document's names; the first where it does not say.
    fn made(fabric: Fabric, kinds: Vec<Kind>, each: Vec<usize>, listed: bool) -> Result<Self, SiteError> {
        if let Some(kind) = kinds.iter().find(|kind| !(1..=64).contains(&kind.gpus)) {
            return Err(SiteError::Gpus(kind.gpus));
        }
        let gpus_per_node = kinds.iter().map(|kind| kind.gpus).max().unwrap_or(0);
        if let Some(finding) = controller_topology::check(&fabric).first() {
            return Err(SiteError::Faulty(finding.to_string()));
        }
        if fabric.rails.is_empty() {
            return Err(SiteError::NoRails);
        }
        let mut topology = Topology::new(Some(&fabric));
        topology.furnish(gpus_per_node);
        let mut snapshot = Snapshot::new(Some(&fabric));
        // Servers that are alike share what they have.
        let mut made: BTreeMap<(usize, *const Inventory), Arc<Inventory>> = BTreeMap::new();
        let mut kind_of = BTreeMap::new();
        for (at, (_, server)) in topology.servers().enumerate() {
            let kind = each.get(at).copied().unwrap_or(0);
            let inventory = made
                .entry((kind, Arc::as_ptr(&server.inventory)))
                .or_insert_with(|| Arc::new(furnished(&server.inventory, &kinds[kind])));
            snapshot.set_node(&server.name, inventory, Gate::default());
            kind_of.insert(server.name.clone(), kind);
        }
        let all = RailSet::first(snapshot.topology().rails());
        let mut leaves: BTreeMap<Vec<Option<usize>>, u32> = BTreeMap::new();
        let mut spots = Vec::new();
        for (node, server, _) in snapshot.nodes() {
            let key = server.ports.iter().map(|port| Some(port.as_ref()?.leaf?.index())).collect();
            let next = u32::try_from(leaves.len()).unwrap_or(u32::MAX);
            let leaf = *leaves.entry(key).or_insert(next);
            let pod = server.pod.map_or(0, |pod| u32::try_from(pod.index()).unwrap_or(u32::MAX));
            let kind = kind_of.get(&server.name).copied().unwrap_or(0);
            spots.push(Spot { node, pod, leaf, full: server.usable.covers(all), kind });
        }
        if spots.is_empty() {
            return Err(SiteError::NoNodes);
        }
        if !spots.iter().any(|spot| spot.full) {
            return Err(SiteError::Nowhere(all.len()));
        }
        let pods = spots.iter().map(|spot| spot.pod + 1).max().unwrap_or(1);
        Ok(Self { fabric, snapshot, spots, pods, gpus_per_node, kinds, listed })
    }

    /// GPUs of a server.
    #[must_use]
    pub fn gpus_of(&self, spot: &Spot) -> u32 {
        self.kinds[spot.kind].gpus
    }

    /// The kinds of servers that have so many GPUs of these models, and so much of the rest, as a bitmap; all of a cluster of which no
    /// list says what its servers are and that has so many GPUs.
    #[must_use]
    pub fn kinds_for(&self, gpus: u32, asks: &Asks) -> u64 {
        let fits = |kind: &Kind| {
            let gpu = GpuKind::whole(&kind.model);
            let model = || asks.models.is_empty() || asks.models.iter().any(|model| model.is(&gpu));
            let host = || kind.cpus >= asks.cpus && kind.memory >= asks.memory;
            kind.gpus >= gpus && (!self.listed || model() && host())
        };
        let fitting = self.kinds.iter().enumerate().filter(|(_, kind)| fits(kind));
        fitting.fold(0, |set, (at, _)| set | 1 << at)
    }

    /// Servers of some kinds, for gangs of several only those on all rails.
    #[must_use]
    pub fn nodes_of(&self, kinds: u64, gang: bool) -> u32 {
        let right = |spot: &&Spot| kinds >> spot.kind & 1 == 1 && (spot.full || !gang);
        u32::try_from(self.spots.iter().filter(right).count()).unwrap_or(u32::MAX)
    }

    /// Of some kinds, the most servers on all rails that one pod has.
    #[must_use]
    pub fn largest_pod(&self, kinds: u64) -> u32 {
        let mut counts = vec![0; self.pods as usize];
        for spot in self.spots.iter().filter(|spot| spot.full && kinds >> spot.kind & 1 == 1) {
            counts[spot.pod as usize] += 1;
        }
        counts.into_iter().max().unwrap_or(0)
    }

    /// GPUs of all servers.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        self.spots.iter().map(|spot| u64::from(self.gpus_of(spot))).sum()
    }

    /// Servers that are on all rails.
    #[must_use]
    pub fn full_nodes(&self) -> u32 {
        u32::try_from(self.spots.iter().filter(|spot| spot.full).count()).unwrap_or(u32::MAX)
    }

    /// Servers on all rails, pod by pod.
    #[must_use]
    pub fn nodes_by_pod(&self) -> Vec<u32> {
        let mut counts = vec![0; self.pods as usize];
        for spot in self.spots.iter().filter(|spot| spot.full) {
            counts[spot.pod as usize] += 1;
        }
        counts
    }
}

/// A server as the document cables it, with what it is.
fn furnished(cabled: &Inventory, kind: &Kind) -> Inventory {
    let mut inventory = cabled.clone();
    inventory.gpus.truncate(kind.gpus as usize);
    for gpu in &mut inventory.gpus {
        gpu.model.clone_from(&kind.model);
    }
    (inventory.cpus, inventory.memory_bytes) = (kind.cpus, kind.memory);
    inventory
}

/// The fewest pods that hold so many servers, of pods that have so many; `None` if all together do not.
#[must_use]
pub fn fewest_pods(free: &[u32], nodes: u32) -> Option<u32> {
    let mut free = free.to_vec();
    free.sort_unstable_by(|a, b| b.cmp(a));
    let (mut sum, mut pods) = (0_u32, 0);
    for here in free {
        if sum >= nodes {
            break;
        }
        sum = sum.saturating_add(here);
        pods += 1;
    }
    (sum >= nodes).then_some(pods)
}
