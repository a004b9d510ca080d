//! Placements and rank maps.

use proto_model::{NicPlace, NodePlace, Placement};

use super::common;
use crate::v1;

impl From<&Placement> for v1::Placement {
    fn from(placement: &Placement) -> Self {
        let ranks = placement.ranks.iter().map(|rank| v1::RankPlace {
            rank: rank.rank,
            node: rank.node.to_string(),
            local_rank: rank.local_rank,
            gpus: rank.gpus.clone(),
            nic: rank.nic.clone(),
            rail: rank.rail,
            leaf: rank.leaf.clone(),
        });
        Self {
            nodes: placement.nodes.iter().map(node).collect(),
            ranks: ranks.collect(),
            rails: placement.rails.clone(),
            pods: placement.pods,
            reasons: common::reasons(&placement.reasons),
            spares: placement.spares.iter().map(node).collect(),
            cut: placement.cut,
            exclusive: placement.exclusive,
            repaired: placement.repaired,
        }
    }
}

fn node(place: &NodePlace) -> v1::NodePlace {
    v1::NodePlace {
        node: place.node.to_string(),
        pod: place.pod.clone(),
        gpus: place.gpus.clone(),
        nics: place.nics.iter().map(nic).collect(),
        remapped: place.remapped,
        cpus: place.cpus,
        memory_bytes: place.memory_bytes,
    }
}

fn nic(nic: &NicPlace) -> v1::NicPlace {
    v1::NicPlace {
        device: nic.device.clone(),
        netdev: nic.netdev.clone(),
        rail: nic.rail,
        leaf: nic.leaf.clone(),
        address: nic.address.map(|address| address.to_string()).unwrap_or_default(),
    }
}
