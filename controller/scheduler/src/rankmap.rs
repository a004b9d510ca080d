//! The rank map: rank -> node -> GPU -> NIC -> rail -> leaf.

use controller_topology::{RailSet, Server};
use proto_model::{Gpu, JobSpec, Nic, NicPlace, NodePlace, Placement, RankPlace};

use crate::{choose::Choice, snapshot::Snapshot};

/// The placement of a chosen gang.
#[must_use]
pub fn placement(snapshot: &Snapshot, spec: &JobSpec, choice: &Choice) -> Placement {
    let topology = snapshot.topology();
    let mut placement = Placement {
        rails: choice.rails.iter().collect(),
        pods: u32::try_from(choice.pods).unwrap_or(u32::MAX),
        ..Placement::default()
    };
    for ix in &choice.nodes {
        let Some(server) = topology.server(*ix) else { continue };
        let gpus =
            choose_gpus(server, snapshot.capacity(*ix).free_gpus(), spec.gang.gpus_per_node, choice.rails);
        let nics: Vec<(&Nic, &str)> = choice
            .rails
            .iter()
            .filter_map(|rail| {
                let port = server.ports.get(rail as usize).copied().flatten()?;
                let leaf = port.leaf.map_or("", |leaf| topology.leaf_name(leaf));
                Some((server.inventory.nics.get(port.nic as usize)?, leaf))
            })
            .collect();
        ranks(server, spec.gang.ranks_per_node, &gpus, &nics, &mut placement.ranks);
        placement.nodes.push(NodePlace {
            node: server.name.clone(),
            pod: server.pod.map_or_else(String::new, |pod| topology.pod_name(pod).to_owned()),
            gpus: gpus.iter().map(|gpu| gpu.index).collect(),
            nics: nics
                .iter()
                .map(|(nic, leaf)| NicPlace {
                    device: nic.device.clone(),
                    netdev: nic.netdev.clone(),
                    rail: nic.rail,
                    leaf: (*leaf).to_owned(),
                    address: nic.address,
                })
                .collect(),
        });
    }
    placement
}

/// The GPUs of one node, ascending: those nearest to a NIC of the chosen rails first, then the lowest.
fn choose_gpus(server: &Server, free: u64, count: u32, rails: RailSet) -> Vec<&Gpu> {
    let nics = &server.inventory.nics;
    let mut gpus: Vec<(bool, &Gpu)> = server
        .inventory
        .gpus
        .iter()
        .filter(|gpu| gpu.index < crate::snapshot::GPUS_MAX && free >> gpu.index & 1 == 1)
        .map(|gpu| {
            let nearest = nics.iter().map(|nic| distance(gpu, nic)).min();
            let near = nics.iter().any(|nic| rails.has(nic.rail) && Some(distance(gpu, nic)) == nearest);
            (!near, gpu)
        })
        .collect();
    gpus.sort_by_key(|(far, gpu)| (*far, gpu.index));
    gpus.dedup_by_key(|(_, gpu)| gpu.index);
    gpus.truncate(count as usize);
    let mut gpus: Vec<&Gpu> = gpus.into_iter().map(|(_, gpu)| gpu).collect();
    gpus.sort_by_key(|gpu| gpu.index);
    gpus
}

/// The ranks of one node: GPUs in equal runs, each rank's NIC the nearest that is not busier than another as near.
fn ranks(server: &Server, count: u32, gpus: &[&Gpu], nics: &[(&Nic, &str)], ranks: &mut Vec<RankPlace>) {
    let mut load = vec![0_u32; nics.len()];
    let count = count.max(1) as usize;
    for local in 0..count {
        let own: &[&Gpu] = if gpus.is_empty() {
            &[]
        } else if gpus.len() >= count {
            &gpus[local * gpus.len() / count..(local + 1) * gpus.len() / count]
        } else {
            let at = local * gpus.len() / count;
            &gpus[at..=at]
        };
        let nearest = (0..nics.len()).min_by_key(|at| {
            let (nic, _) = nics[*at];
            let (numa, bus) = own.first().map_or((0, 0), |gpu| distance(gpu, nic));
            (numa, load[*at], bus, nic.rail)
        });
        let nic = nearest.map(|at| {
            load[at] += 1;
            nics[at]
        });
        ranks.push(RankPlace {
            rank: u32::try_from(ranks.len()).unwrap_or(u32::MAX),
            node: server.name.clone(),
            local_rank: u32::try_from(local).unwrap_or(u32::MAX),
            gpus: own.iter().map(|gpu| gpu.index).collect(),
            nic: nic.map_or_else(String::new, |(nic, _)| nic.device.clone()),
            rail: nic.map_or(0, |(nic, _)| nic.rail),
            leaf: nic.map_or_else(String::new, |(_, leaf)| leaf.to_owned()),
        });
    }
}

/// How far a GPU is from a NIC: another NUMA node first, then the distance of their PCI buses.
fn distance(gpu: &Gpu, nic: &Nic) -> (u32, u32) {
    let numa = match (gpu.numa_node, nic.numa_node) {
        (Some(a), Some(b)) => u32::from(a != b),
        _ => 0,
    };
    let bus = match (pci(&gpu.pci_address), pci(&nic.pci_address)) {
        (Some(a), Some(b)) => a.abs_diff(b),
        _ => 0,
    };
    (numa, bus)
}

/// Domain and bus of `0000:1b:00.0` as one number.
fn pci(address: &str) -> Option<u32> {
    let mut parts = address.split(':');
    let domain = u32::from_str_radix(parts.next()?, 16).ok()?;
    let bus = u32::from_str_radix(parts.next()?, 16).ok()?;
    parts.next()?;
    (bus < 256).then_some(domain.checked_mul(256)? + bus)
}
