//! The cluster that a trace is replayed on: a fabric document whose servers all stand as it cables them.

use std::collections::BTreeMap;

use controller_scheduler::{Gate, Snapshot};
use controller_topology::{NodeIx, RailSet, Topology};
use proto_model::Fabric;
use thiserror::Error;

/// Why a fabric cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SiteError {
    /// The document is faulty.
    #[error("the fabric document is faulty: {0}")]
    Faulty(String),
    /// No server.
    #[error("the fabric cables no server")]
    NoNodes,
    /// No rail.
    #[error("the fabric has no rail")]
    NoRails,
    /// More GPUs than the scheduler tells apart, or none.
    #[error("{0} GPUs per server; 1 to 64 can be simulated")]
    Gpus(u32),
    /// No server is on all rails.
    #[error("no server has a working NIC on all {0} rails")]
    Nowhere(u32),
}

/// A server, as the baselines and the sums see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// In the snapshot.
    pub node: NodeIx,
    /// Its pod.
    pub pod: u32,
    /// Servers on the same leaves share it.
    pub leaf: u32,
    /// It has a working NIC on all rails.
    pub full: bool,
}

/// The cluster.
#[derive(Debug, Clone)]
pub struct Site {
    /// The document.
    pub fabric: Fabric,
    /// All servers free.
    pub snapshot: Snapshot,
    /// By index in the snapshot.
    pub spots: Vec<Spot>,
    /// How many pods.
    pub pods: u32,
    /// GPUs of each server.
    pub gpus_per_node: u32,
}

impl Site {
    /// Lets every server that the document cables stand there with so many GPUs.
    ///
    /// # Errors
    /// [`SiteError`] where nothing could run there.
    pub fn new(fabric: Fabric, gpus_per_node: u32) -> Result<Self, SiteError> {
        if !(1..=64).contains(&gpus_per_node) {
            return Err(SiteError::Gpus(gpus_per_node));
        }
        if let Some(finding) = controller_topology::check(&fabric).first() {
            return Err(SiteError::Faulty(finding.to_string()));
        }
        if fabric.rails.is_empty() {
            return Err(SiteError::NoRails);
        }
        let mut topology = Topology::new(Some(&fabric));
        topology.furnish(gpus_per_node);
        let mut snapshot = Snapshot::new(Some(&fabric));
        for (_, server) in topology.servers() {
            snapshot.set_node(&server.name, &server.inventory, Gate::default());
        }
        let all = RailSet::first(snapshot.topology().rails());
        let mut leaves: BTreeMap<Vec<Option<usize>>, u32> = BTreeMap::new();
        let mut spots = Vec::new();
        for (node, server, _) in snapshot.nodes() {
            let key = server.ports.iter().map(|port| Some(port.as_ref()?.leaf?.index())).collect();
            let next = u32::try_from(leaves.len()).unwrap_or(u32::MAX);
            let leaf = *leaves.entry(key).or_insert(next);
            let pod = server.pod.map_or(0, |pod| u32::try_from(pod.index()).unwrap_or(u32::MAX));
            spots.push(Spot { node, pod, leaf, full: server.usable.covers(all) });
        }
        if spots.is_empty() {
            return Err(SiteError::NoNodes);
        }
        if !spots.iter().any(|spot| spot.full) {
            return Err(SiteError::Nowhere(all.len()));
        }
        let pods = spots.iter().map(|spot| spot.pod + 1).max().unwrap_or(1);
        Ok(Self { fabric, snapshot, spots, pods, gpus_per_node })
    }

    /// GPUs of all servers.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        self.spots.len() as u64 * u64::from(self.gpus_per_node)
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
