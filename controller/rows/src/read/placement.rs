//! Placements and rank maps.

use std::net::IpAddr;

use proto_model::{NicPlace, NodeName, NodePlace, Placement, RankPlace};

use crate::v1;
use proto_model::fields::{FieldErrors, Fields};

impl TryFrom<v1::NicPlace> for NicPlace {
    type Error = FieldErrors;

    fn try_from(row: v1::NicPlace) -> Result<Self, FieldErrors> {
        let address: Option<IpAddr> = match row.address.as_str() {
            "" => None,
            text => Some(
                text.parse()
                    .map_err(|_| FieldErrors::one("address", format!("'{text}' is not an IP address")))?,
            ),
        };
        Ok(Self { device: row.device, netdev: row.netdev, rail: row.rail, leaf: row.leaf, address })
    }
}

impl TryFrom<v1::NodePlace> for NodePlace {
    type Error = FieldErrors;

    fn try_from(row: v1::NodePlace) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let node = fields.take("node", NodeName::new(&row.node));
        let nics = fields.list("nics", row.nics);
        fields.finish(node.map(|node| Self {
            node,
            pod: row.pod,
            gpus: row.gpus,
            nics,
            remapped: row.remapped,
            cpus: row.cpus,
            memory_bytes: row.memory_bytes,
        }))
    }
}

/// Ranks of one server share its name: large gangs have many, and there may be a million of them.
fn rank(row: v1::RankPlace, last: Option<&NodeName>) -> Result<RankPlace, FieldErrors> {
    let mut fields = Fields::default();
    let node = match last.filter(|last| last.as_str() == row.node) {
        Some(last) => Some(last.clone()),
        None => fields.take("node", NodeName::new(&row.node)),
    };
    fields.finish(node.map(|node| RankPlace {
        rank: row.rank,
        node,
        local_rank: row.local_rank,
        gpus: row.gpus,
        nic: row.nic,
        rail: row.rail,
        leaf: row.leaf,
    }))
}

impl TryFrom<v1::Placement> for Placement {
    type Error = FieldErrors;

    fn try_from(row: v1::Placement) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let nodes = fields.list("nodes", row.nodes);
        let mut ranks: Vec<RankPlace> = Vec::with_capacity(row.ranks.len());
        for (index, row) in row.ranks.into_iter().enumerate() {
            match rank(row, ranks.last().map(|last| &last.node)) {
                Ok(rank) => ranks.push(rank),
                Err(errors) => drop(fields.nest::<RankPlace>(&format!("ranks[{index}]"), Err(errors))),
            }
        }
        let placement = Self {
            nodes,
            ranks,
            rails: row.rails,
            pods: row.pods,
            reasons: fields.list("reasons", row.reasons),
            spares: fields.list("spares", row.spares),
            cut: row.cut,
            exclusive: row.exclusive,
            repaired: row.repaired,
        };
        for (index, rank) in placement.ranks.iter().enumerate() {
            if rank.rank as usize != index {
                fields.fail("ranks", format!("entry {index} is for rank {}", rank.rank));
            }
        }
        fields.finish(Some(placement))
    }
}
