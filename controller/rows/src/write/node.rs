//! Servers and their inventories.

use proto_model::{Health, Inventory, Neighbor, Node, Strike};

use super::{common, time_to_row};
use crate::v1;

fn numa_to_row(number: Option<u32>) -> i32 {
    number.and_then(|n| i32::try_from(n).ok()).unwrap_or(-1)
}

impl From<&Inventory> for v1::Inventory {
    fn from(inventory: &Inventory) -> Self {
        let gpus = inventory.gpus.iter().map(|gpu| v1::Gpu {
            index: gpu.index,
            uuid: gpu.uuid.clone(),
            model: gpu.model.clone(),
            pci_address: gpu.pci_address.clone(),
            numa_node: numa_to_row(gpu.numa_node),
            memory_bytes: gpu.memory_bytes,
            facts: gpu.facts.as_deref().map(Into::into),
        });
        let nics = inventory.nics.iter().map(|nic| v1::Nic {
            device: nic.device.clone(),
            netdev: nic.netdev.clone(),
            pci_address: nic.pci_address.clone(),
            numa_node: numa_to_row(nic.numa_node),
            rail: nic.rail,
            address: nic.address.map(|address| address.to_string()).unwrap_or_default(),
            mtu: nic.mtu,
            speed_mbps: nic.speed_mbps,
            up: nic.up,
            gid_index: numa_to_row(nic.gid_index),
            facts: nic.facts.as_deref().map(Into::into),
        });
        Self {
            gpus: gpus.collect(),
            nics: nics.collect(),
            numa_nodes: inventory.numa_nodes,
            cpus: inventory.cpus,
            memory_bytes: inventory.memory_bytes,
            neighbors: inventory.neighbors.iter().map(Into::into).collect(),
            health: inventory.health.iter().map(Into::into).collect(),
            findings: common::reasons(&inventory.findings),
            changes: common::reasons(&inventory.changes),
            qos: inventory.qos.iter().map(Into::into).collect(),
            isolation: super::isolation::to_wire(&inventory.isolation),
        }
    }
}

impl From<&Neighbor> for v1::Neighbor {
    fn from(neighbor: &Neighbor) -> Self {
        let Neighbor { netdev, switch, port } = neighbor.clone();
        Self { netdev, switch, port }
    }
}

/// The phase that a health is shown as.
#[must_use]
pub fn node_status_phase(health: Health) -> v1::node_status::Phase {
    match health {
        Health::Ready => v1::node_status::Phase::Ready,
        Health::NotReady => v1::node_status::Phase::NotReady,
    }
}

impl From<&Node> for v1::Node {
    /// Holds, and rails that the fabric cuts off, are not stored: they follow from other rows.
    fn from(node: &Node) -> Self {
        Self {
            metadata: Some(v1::Metadata {
                name: node.name.to_string(),
                uid: node.uid.clone(),
                generation: node.generation,
                create_time: Some(time_to_row(node.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::NodeSpec {
                unschedulable: node.unschedulable,
                reason: node.unschedulable_reason.clone(),
                labels: node.labels.clone(),
                taints: node.taints.iter().map(Into::into).collect(),
            }),
            status: Some(v1::NodeStatus {
                phase: node_status_phase(node.health).into(),
                last_heartbeat: Some(time_to_row(node.health_since)),
                inventory: Some(node.inventory.as_ref().into()),
                reasons: common::reasons(&node.reasons),
                agent_version: node.agent_version.clone(),
                quarantined: node.quarantined.as_ref().map(Into::into),
                strikes: node.strikes.iter().map(Into::into).collect(),
                quarantine: common::reasons(&node.quarantine),
                provisional: node.provisional.iter().map(ToString::to_string).collect(),
            }),
        }
    }
}

impl From<&Strike> for v1::Strike {
    fn from(strike: &Strike) -> Self {
        Self {
            time: Some(time_to_row(strike.time)),
            job_uid: strike.uid.to_string(),
            attempt: strike.attempt,
            code: strike.code_text().to_owned(),
        }
    }
}
