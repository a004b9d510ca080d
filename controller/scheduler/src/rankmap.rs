//! The rank map: rank -> node -> GPU -> NIC -> rail -> leaf.

use controller_topology::{RailSet, Server, Topology};
use proto_model::{Gpu, JobSpec, Nic, NicPlace, NodePlace, Placement, RankPlace};

use crate::{
    capacity_index::{Pick, Seat, apart, seat},
    choice::Choice,
    host::Host,
    snapshot::Snapshot,
};

/// The placement of a chosen gang.
#[must_use]
pub fn placement(snapshot: &Snapshot, spec: &JobSpec, choice: &Choice) -> Placement {
    let topology = snapshot.topology();
    let mut placement = Placement {
        rails: choice.rails.iter().collect(),
        pods: choice.pods,
        cut: choice.cut,
        exclusive: choice.exclusive,
        ..Placement::default()
    };
    for (picks, host) in choice.parts() {
        for pick in picks {
            let Some(place) = node(topology, *pick, choice.rails, host) else { continue };
            let position = u32::try_from(placement.nodes.len()).unwrap_or(u32::MAX);
            let (first, ranks) = spec.ranks_at(position);
            placement.ranks.extend(ranks_of(topology, *pick, choice.rails, ranks, first));
            placement.nodes.push(place);
        }
    }
    let spare = |pick: &Pick| node(topology, *pick, choice.rails, choice.host);
    placement.spares.extend(choice.spares.iter().filter_map(spare));
    placement
}

/// One node of a gang.
pub(crate) fn node(topology: &Topology, pick: Pick, rails: RailSet, host: Host) -> Option<NodePlace> {
    let server = topology.server(pick.node)?;
    let nics = nics(topology, server, rails).map(|(nic, leaf)| NicPlace {
        device: nic.device.clone(),
        netdev: nic.netdev.clone(),
        rail: nic.rail,
        leaf: leaf.to_owned(),
        address: nic.address,
    });
    Some(NodePlace {
        node: server.name.clone(),
        pod: server.pod.map_or_else(String::new, |pod| topology.pod_name(pod).to_owned()),
        gpus: gpus(server, pick.gpus).iter().map(|gpu| gpu.index).collect(),
        nics: nics.collect(),
        remapped: false,
        cpus: host.cpus,
        memory_bytes: host.memory,
    })
}

/// The ranks of one node, the first of them `first`.
pub(crate) fn ranks_of(
    topology: &Topology,
    pick: Pick,
    rails: RailSet,
    count: u32,
    first: u32,
) -> Vec<RankPlace> {
    let Some(server) = topology.server(pick.node) else { return Vec::new() };
    let nics: Vec<(&Nic, &str)> = nics(topology, server, rails).collect();
    ranks(server, count, &gpus(server, pick.gpus), &nics, first)
}

/// A server's NICs on some rails, with their leaves.
fn nics<'a>(
    topology: &'a Topology,
    server: &'a Server,
    rails: RailSet,
) -> impl Iterator<Item = (&'a Nic, &'a str)> {
    rails.iter().filter_map(|rail| {
        let port = server.ports.get(rail as usize).copied().flatten()?;
        let leaf = port.leaf.map_or("", |leaf| topology.leaf_name(leaf));
        Some((server.inventory.nics.get(port.nic as usize)?, leaf))
    })
}

/// The GPUs of a bitmap, ascending.
fn gpus(server: &Server, taken: u64) -> Vec<&Gpu> {
    let taken = |gpu: &&Gpu| gpu.index < crate::capacity::GPUS_MAX && taken >> gpu.index & 1 == 1;
    let mut gpus: Vec<&Gpu> = server.inventory.gpus.iter().filter(taken).collect();
    gpus.sort_by_key(|gpu| gpu.index);
    gpus.dedup_by_key(|gpu| gpu.index);
    gpus
}

/// The ranks of one node: GPUs in equal runs, each rank's NIC the nearest that is not busier than another as near.
fn ranks(server: &Server, count: u32, gpus: &[&Gpu], nics: &[(&Nic, &str)], first: u32) -> Vec<RankPlace> {
    let count = count.max(1) as usize;
    let mut ranks = Vec::with_capacity(count);
    let mut load = vec![0_u32; nics.len()];
    let seats: Vec<Seat> = nics.iter().map(|(nic, _)| seat(nic.numa_node, &nic.pci_address)).collect();
    for local in 0..count {
        let own: &[&Gpu] = if gpus.is_empty() {
            &[]
        } else if gpus.len() >= count {
            &gpus[local * gpus.len() / count..(local + 1) * gpus.len() / count]
        } else {
            let at = local * gpus.len() / count;
            &gpus[at..=at]
        };
        let gpu = own.first().map(|gpu| seat(gpu.numa_node, &gpu.pci_address));
        let nearest = (0..nics.len()).min_by_key(|at| {
            let (numa, bus) = gpu.map_or((0, 0), |gpu| apart(gpu, seats[*at]));
            (numa, load[*at], bus, nics[*at].0.rail)
        });
        let nic = nearest.map(|at| {
            load[at] += 1;
            nics[at]
        });
        ranks.push(RankPlace {
            rank: first.saturating_add(u32::try_from(local).unwrap_or(u32::MAX)),
            node: server.name.clone(),
            local_rank: u32::try_from(local).unwrap_or(u32::MAX),
            gpus: own.iter().map(|gpu| gpu.index).collect(),
            nic: nic.map_or_else(String::new, |(nic, _)| nic.device.clone()),
            rail: nic.map_or(0, |(nic, _)| nic.rail),
            leaf: nic.map_or_else(String::new, |(_, leaf)| leaf.to_owned()),
        });
    }
    ranks
}
