//! Fabric documents. What the document means is checked by `controller-topology`; here only each field by itself.

use proto_model::{Fabric, LinkGroup};

use crate::v1;

/// The same back: `rail`, or the list of several.
pub(crate) fn more(rail: u32, more_rails: &[u32]) -> (u32, Vec<u32>) {
    if more_rails.is_empty() {
        return (rail, Vec::new());
    }
    (0, std::iter::once(rail).chain(more_rails.iter().copied()).collect())
}

impl From<&Fabric> for v1::Fabric {
    fn from(fabric: &Fabric) -> Self {
        let metadata = v1::Metadata {
            name: fabric.name.clone(),
            generation: fabric.generation,
            ..v1::Metadata::default()
        };
        Self { metadata: Some(metadata), spec: Some(spec(fabric)) }
    }
}

fn spec(fabric: &Fabric) -> v1::FabricSpec {
    let rails = fabric.rails.iter().map(|rail| v1::Rail { index: rail.index, name: rail.name.clone() });
    let leaves = fabric.leaves.iter().map(|leaf| {
        let (rail, rails) = more(leaf.rail, &leaf.more_rails);
        let (name, pod) = (leaf.name.clone(), leaf.pod.clone());
        v1::Leaf { name, rail, pod, plane: leaf.plane, down: leaf.down, rails }
    });
    let links = fabric.links.iter().map(|link| v1::Link {
        node: link.node.to_string(),
        nic: link.nic.clone(),
        leaf: link.leaf.clone(),
        port: link.port.clone(),
        speed_mbps: link.speed_mbps,
        down: link.down,
        rail: link.rail,
    });
    let spines = fabric.spines.iter().map(|spine| {
        let (rail, rails) = more(spine.rail, &spine.more_rails);
        v1::Spine { name: spine.name.clone(), rail, plane: spine.plane, down: spine.down, rails }
    });
    let uplinks = fabric.uplinks.iter().map(|uplink| v1::Uplink {
        lower: uplink.lower.to_string(),
        upper: uplink.upper.to_string(),
        cables: uplink.cables,
        speed_mbps: uplink.speed_mbps,
        down: uplink.down,
    });
    v1::FabricSpec {
        rails: rails.collect(),
        leaves: leaves.collect(),
        links: links.collect(),
        link_groups: fabric.link_groups.iter().map(link_group).collect(),
        spines: spines.collect(),
        uplinks: uplinks.collect(),
        ..v1::FabricSpec::default()
    }
}

/// One group of cables of one NIC to one leaf.
pub(crate) fn link_group(group: &LinkGroup) -> v1::LinkGroup {
    v1::LinkGroup {
        nodes: group.nodes.to_string(),
        nic: group.nic.clone(),
        leaf: group.leaf.clone(),
        ports: group.ports.to_string(),
        speed_mbps: group.speed_mbps,
        rails: group.rail.into_iter().collect(),
        ..v1::LinkGroup::default()
    }
}
