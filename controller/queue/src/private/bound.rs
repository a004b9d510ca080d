//! Which real nodes stand for the nodes of private clusters.

use std::{collections::BTreeMap, sync::Arc};

use controller_scheduler::{Host, Snapshot};
use controller_topology::NodeIx;
use proto_model::{Inventory, Shape, TenantName};

use super::site::Site;

/// Which real node stands for which private one.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Bound {
    pub(super) nodes: BTreeMap<TenantName, Vec<NodeIx>>,
    pub(super) owners: BTreeMap<NodeIx, (TenantName, usize)>,
}

impl Bound {
    /// A private node changes places with whatever is bound to a real one.
    pub(super) fn swap(&mut self, tenant: &TenantName, at: usize, node: NodeIx) {
        let Some(old) = self.nodes.get(tenant).and_then(|nodes| nodes.get(at)).copied() else { return };
        match self.owners.insert(node, (tenant.clone(), at)) {
            Some((owner, other)) => {
                if let Some(nodes) = self.nodes.get_mut(&owner) {
                    nodes[other] = old;
                }
                self.owners.insert(old, (owner, other));
            }
            None => {
                self.owners.remove(&old);
            }
        }
        if let Some(nodes) = self.nodes.get_mut(tenant) {
            nodes[at] = node;
        }
    }
}

/// Binds all guarantees to real nodes: whole pods first, the largest ones, then nodes, from pods that are broken into.
pub(super) fn bind_all(
    shapes: &BTreeMap<TenantName, Shape>,
    snapshot: &Snapshot,
) -> (Vec<(TenantName, Site)>, Bound) {
    let topology = snapshot.topology();
    let mut pods: BTreeMap<u32, Vec<NodeIx>> = BTreeMap::new();
    let mut largest: Option<(usize, Arc<Inventory>)> = None;
    for (ix, server) in topology.servers() {
        if let Some((pod, _)) = snapshot.capacity_index().place(ix) {
            pods.entry(pod).or_default().push(ix);
        }
        if largest.as_ref().is_none_or(|(gpus, _)| server.inventory.gpus.len() > *gpus) {
            largest = Some((server.inventory.gpus.len(), Arc::clone(&server.inventory)));
        }
    }
    let Some((node_gpus, mut inventory)) = largest else { return Default::default() };
    // Whichever node stands for a private one has these CPUs and this memory.
    let hosts = || topology.servers().map(|(_, server)| Host::of(&server.inventory));
    let (cpus, memory) = (hosts().map(|host| host.cpus).min(), hosts().map(|host| host.memory).min());
    if (Some(inventory.cpus), Some(inventory.memory_bytes)) != (cpus, memory) {
        let least = Arc::make_mut(&mut inventory);
        (least.cpus, least.memory_bytes) = (cpus.unwrap_or(0), memory.unwrap_or(0));
    }
    let mut pods: Vec<Vec<NodeIx>> = pods.into_values().collect();
    pods.sort_by_key(|pod| std::cmp::Reverse(pod.len()));
    let mut pods = pods.into_iter();
    let mut sites = Vec::new();
    let mut bound: BTreeMap<TenantName, Vec<NodeIx>> = BTreeMap::new();
    for (tenant, shape) in shapes {
        let own: Vec<Vec<NodeIx>> = pods.by_ref().take(shape.pods as usize).collect();
        let extra = shape.gpus as usize / node_gpus.max(1);
        let site = Site {
            pods: own.iter().map(|pod| u32::try_from(pod.len()).unwrap_or(u32::MAX)).collect(),
            nodes: shape.nodes + u32::try_from(extra).unwrap_or(0),
            gpus: shape.gpus % u32::try_from(node_gpus.max(1)).unwrap_or(1),
            inventory: Arc::clone(&inventory),
            rails: topology.rails(),
        };
        bound.insert(tenant.clone(), own.into_iter().flatten().collect());
        sites.push((tenant.clone(), site));
    }
    let mut rest = pods.flatten();
    for (tenant, site) in &mut sites {
        let nodes = bound.entry(tenant.clone()).or_default();
        let wanted = site.len() - nodes.len();
        nodes.extend(rest.by_ref().take(wanted));
        // A guarantee that is larger than the cluster is cut.
        let missing = site.len() - nodes.len();
        if missing > 0 {
            let small = usize::from(site.gpus > 0).min(missing);
            if small > 0 {
                site.gpus = 0;
            }
            site.nodes = site.nodes.saturating_sub(u32::try_from(missing - small).unwrap_or(u32::MAX));
        }
    }
    let owners = bound.iter().flat_map(|(tenant, nodes)| {
        nodes.iter().enumerate().map(move |(at, node)| (*node, (tenant.clone(), at)))
    });
    let owners = owners.collect();
    sites.retain(|(_, site)| !site.is_empty());
    (sites, Bound { owners, nodes: bound })
}
