//! Small clusters for tests: nodes in pods and on leaves, with a few GPUs and NICs.

use std::{collections::BTreeSet, sync::Arc};

use proto_model::{Fabric, Gpu, GpuFacts, Inventory, Leaf, Link, MigInstance, Nic, NodeName, Rail};

/// CPUs of each node.
pub(crate) const CPUS: u32 = 8;

/// So many GPUs and the NICs of the rails of `present`, those of `down` down; two of each on a NUMA node.
pub(crate) fn inventory(gpus: u32, present: u8, down: u8) -> Arc<Inventory> {
    of_model(gpus, present, down, "")
}

/// The same with GPUs of a model.
pub(crate) fn of_model(gpus: u32, present: u8, down: u8, model: &str) -> Arc<Inventory> {
    let gpu = |index| Gpu {
        index,
        uuid: String::new(),
        model: model.to_owned(),
        pci_address: String::new(),
        numa_node: Some(index / 2),
        memory_bytes: 0,
        facts: model.contains("MIG").then(|| Box::new(instance())),
    };
    let nic = |rail: u32| Nic {
        device: format!("mlx5_{rail}"),
        netdev: format!("eth{rail}"),
        pci_address: String::new(),
        numa_node: Some(rail / 2),
        rail,
        address: None,
        mtu: 0,
        speed_mbps: 0,
        up: down >> rail & 1 == 0,
        gid_index: None,
        facts: None,
    };
    let nics = (0..8).filter(|rail| present >> rail & 1 == 1).map(nic).collect();
    Arc::new(Inventory {
        gpus: (0..gpus).map(gpu).collect(),
        nics,
        isolation: proto_model::Isolation::with(proto_model::IsolationSet::ALL),
        cpus: CPUS,
        ..Inventory::default()
    })
}

/// Node n stands in pod and block `places[n]`; a leaf `lPOD-BLOCK-RAIL` for each.
pub(crate) fn fabric(rails: u32, places: &[(u8, u8)], name: impl Fn(usize) -> NodeName) -> Fabric {
    let mut fabric = Fabric::default();
    for rail in 0..rails {
        fabric.rails.push(Rail { index: rail, name: format!("r{rail}") });
        for (pod, block) in places.iter().copied().collect::<BTreeSet<_>>() {
            let leaf = format!("l{pod}-{block}-{rail}");
            fabric.leaves.push(Leaf { name: leaf, rail, pod: format!("p{pod}"), ..Leaf::default() });
        }
        for (at, (pod, block)) in places.iter().enumerate() {
            fabric.links.push(Link {
                node: name(at),
                nic: format!("mlx5_{rail}"),
                leaf: format!("l{pod}-{block}-{rail}"),
                port: String::new(),
                speed_mbps: 0,
                down: false,
                rail: None,
            });
        }
    }
    fabric
}

/// What an agent reports of a MIG instance.
fn instance() -> GpuFacts {
    let mig = Some(MigInstance { gpu_instance: 1, compute_instance: 0 });
    GpuFacts { mig, ..GpuFacts::default() }
}
