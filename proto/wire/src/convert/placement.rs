//! Placements and rank maps.

use std::net::IpAddr;

use proto_model::{NicPlace, NodeName, NodePlace, Placement, RankPlace};

use super::{FieldErrors, Fields, common};
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

impl TryFrom<v1::NicPlace> for NicPlace {
    type Error = FieldErrors;

    fn try_from(wire: v1::NicPlace) -> Result<Self, FieldErrors> {
        let address: Option<IpAddr> = match wire.address.as_str() {
            "" => None,
            text => Some(
                text.parse()
                    .map_err(|_| FieldErrors::one("address", format!("'{text}' is not an IP address")))?,
            ),
        };
        Ok(Self { device: wire.device, netdev: wire.netdev, rail: wire.rail, leaf: wire.leaf, address })
    }
}

impl TryFrom<v1::NodePlace> for NodePlace {
    type Error = FieldErrors;

    fn try_from(wire: v1::NodePlace) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let node = fields.take("node", NodeName::new(&wire.node));
        let nics = fields.list("nics", wire.nics);
        fields.finish(node.map(|node| Self {
            node,
            pod: wire.pod,
            gpus: wire.gpus,
            nics,
            remapped: wire.remapped,
            cpus: wire.cpus,
            memory_bytes: wire.memory_bytes,
        }))
    }
}

/// Ranks of one server share its name: large gangs have many, and there may be a million of them.
fn rank(wire: v1::RankPlace, last: Option<&NodeName>) -> Result<RankPlace, FieldErrors> {
    let mut fields = Fields::default();
    let node = match last.filter(|last| last.as_str() == wire.node) {
        Some(last) => Some(last.clone()),
        None => fields.take("node", NodeName::new(&wire.node)),
    };
    fields.finish(node.map(|node| RankPlace {
        rank: wire.rank,
        node,
        local_rank: wire.local_rank,
        gpus: wire.gpus,
        nic: wire.nic,
        rail: wire.rail,
        leaf: wire.leaf,
    }))
}

impl TryFrom<v1::Placement> for Placement {
    type Error = FieldErrors;

    fn try_from(wire: v1::Placement) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let nodes = fields.list("nodes", wire.nodes);
        let mut ranks: Vec<RankPlace> = Vec::with_capacity(wire.ranks.len());
        for (index, wire) in wire.ranks.into_iter().enumerate() {
            match rank(wire, ranks.last().map(|last| &last.node)) {
                Ok(rank) => ranks.push(rank),
                Err(errors) => drop(fields.nest::<RankPlace>(&format!("ranks[{index}]"), Err(errors))),
            }
        }
        let placement = Self {
            nodes,
            ranks,
            rails: wire.rails,
            pods: wire.pods,
            reasons: fields.list("reasons", wire.reasons),
            spares: fields.list("spares", wire.spares),
            cut: wire.cut,
            exclusive: wire.exclusive,
            repaired: wire.repaired,
        };
        for (index, rank) in placement.ranks.iter().enumerate() {
            if rank.rank as usize != index {
                fields.fail("ranks", format!("entry {index} is for rank {}", rank.rank));
            }
        }
        fields.finish(Some(placement))
    }
}
