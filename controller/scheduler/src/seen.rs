//! The snapshot as the proof sees it.

use controller_topology::{NodeIx, RailSet};
use proto_model::TenantName;

use crate::{
    proof::{Seen, World},
    snapshot::Snapshot,
};

impl World for Snapshot {
    fn node(&self, node: NodeIx) -> Option<Seen<'_>> {
        let (server, capacity) = (self.topology.server(node)?, self.slots.get(node.index())?);
        Some(Seen {
            open: capacity.gate.is_open(),
            gpus: capacity.gpus,
            host: capacity.host,
            usable: server.usable,
            held: capacity.held,
            pod: server.pod.map(|pod| u32::try_from(pod.index()).unwrap_or(u32::MAX)),
            traits: self.traits.get(node.index())?,
        })
    }

    fn leaf(&self, node: NodeIx, rail: u32) -> Option<u32> {
        let leaf = self.topology.server(node)?.ports.get(rail as usize)?.as_ref()?.leaf?;
        Some(u32::try_from(leaf.index()).unwrap_or(u32::MAX))
    }

    fn aligned(&self, nodes: &[NodeIx], rails: RailSet) -> bool {
        self.topology.aligned(nodes, rails)
    }

    fn rails(&self) -> u32 {
        self.topology.rails()
    }

    fn has_others(&self, node: NodeIx, tenant: &TenantName) -> bool {
        self.capacity_index.tenants_on(node).keys().any(|other| *other != tenant)
    }
}
