//! Fabric documents and inventories joined: faulty ones too, in any order, and undone.

use std::{collections::BTreeMap, sync::Arc};

use controller_topology::{RailSet, Topology, check};
use prost::Message as _;
use proto_model::{Fabric, Inventory, NodeName};
use proto_wire::v1;

use super::take::Take;

/// Pieces: a fabric, then servers that come, change and go.
pub fn run(data: &[u8]) {
    let mut take = Take(data);
    let wire = v1::Fabric::decode(take.piece(16)).ok();
    let fabric = wire.and_then(|wire| Fabric::try_from(wire).ok());
    if let Some(fabric) = &fabric {
        let findings = check(fabric);
        assert!(findings.iter().all(|finding| !finding.message.is_empty()));
    }
    let mut topology = Topology::new(fabric.as_ref());
    let mut servers: BTreeMap<NodeName, Arc<Inventory>> = BTreeMap::new();
    for _ in 0..32 {
        if take.is_empty() {
            break;
        }
        let (act, which) = (take.u8(), take.below(8));
        let Ok(name) = NodeName::new(format!("n{which}")) else { return };
        match act % 4 {
            0 => {
                topology.remove_node(&name);
                servers.remove(&name);
            }
            1 => {
                topology.set_fabric(None);
                topology.set_fabric(fabric.as_ref());
            }
            _ => {
                let wire = v1::Inventory::decode(take.piece(4)).unwrap_or_default();
                let inventory = Arc::new(Inventory::try_from(wire).unwrap_or_default());
                topology.set_node(&name, &inventory);
                servers.insert(name, inventory);
            }
        }
    }
    asked(&topology);
    let mut fresh = Topology::new(fabric.as_ref());
    for (name, inventory) in &servers {
        fresh.set_node(name, inventory);
    }
    assert_eq!((fresh.rails(), fresh.len()), (topology.rails(), topology.len()));
    assert_eq!(fresh.findings(), topology.findings(), "the order of events shows");
    assert!(fresh.servers().map(|(_, server)| server).eq(topology.servers().map(|(_, server)| server)));
}

/// Everything that can be asked.
fn asked(topology: &Topology) {
    let nodes: Vec<_> = topology.servers().map(|(ix, _)| ix).collect();
    assert!(topology.rails() <= RailSet::MAX && nodes.len() == topology.len());
    let _ = (topology.aligned(&nodes, RailSet::first(topology.rails())), topology.pods_of(&nodes));
    for pod in topology.pod_indices() {
        let _ = (topology.pod_name(pod), topology.leaves_of(pod, 0).count());
    }
    for (&a, &b) in nodes.iter().zip(nodes.iter().rev()) {
        for rail in 0..topology.rails() {
            assert_eq!(topology.distance(a, b, rail), topology.distance(b, a, rail));
        }
    }
    for (_, server) in topology.servers() {
        for port in server.ports.iter().flatten() {
            let _ = port.leaf.map(|leaf| topology.leaf_name(leaf));
        }
    }
}
