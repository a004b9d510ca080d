//! Fabric documents. What the document means is checked by `controller-topology`; here only each field by itself.

use proto_model::{Fabric, Leaf, Link, LinkGroup, Names, NodeName, Rail, Spine, Uplink};

use super::{API_VERSION, FieldErrors, Fields, fabric_lists, metadata};
use crate::v1;

/// Bytes of a fabric's name at most.
const MAX_NAME: usize = 256;
/// Rails of a fabric at most.
pub(super) const MAX_RAILS: u32 = 64;

impl TryFrom<v1::Rail> for Rail {
    type Error = FieldErrors;

    fn try_from(wire: v1::Rail) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if wire.index >= MAX_RAILS {
            let message =
                format!("{} is too large; rails are numbered from 0 to {}", wire.index, MAX_RAILS - 1);
            fields.fail("index", message);
        }
        let name = if wire.name.is_empty() { format!("rail{}", wire.index) } else { wire.name };
        fields.finish(Some(Self { index: wire.index, name }))
    }
}

impl TryFrom<v1::Leaf> for Leaf {
    type Error = FieldErrors;

    fn try_from(wire: v1::Leaf) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        label(&mut fields, "name", &wire.name);
        label(&mut fields, "pod", &wire.pod);
        plane(&mut fields, "plane", wire.plane);
        let (rail, more_rails) = rails(&mut fields, "rails", wire.rail, &wire.rails);
        let v1::Leaf { name, pod, plane, down, .. } = wire;
        fields.finish(Some(Self { name, rail, more_rails, pod, plane, down }))
    }
}

impl TryFrom<v1::Link> for Link {
    type Error = FieldErrors;

    fn try_from(wire: v1::Link) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let node = fields.take("node", NodeName::new(&wire.node));
        label(&mut fields, "nic", &wire.nic);
        label(&mut fields, "leaf", &wire.leaf);
        let link = node.map(|node| Self {
            node,
            nic: wire.nic,
            leaf: wire.leaf,
            port: wire.port,
            speed_mbps: wire.speed_mbps,
            down: wire.down,
            rail: wire.rail,
        });
        if let Some(rail) = wire.rail.filter(|rail| *rail >= MAX_RAILS) {
            let message = format!("{rail} is too large; rails are numbered from 0 to {}", MAX_RAILS - 1);
            fields.fail("rail", message);
        }
        fields.finish(link)
    }
}

impl TryFrom<v1::Spine> for Spine {
    type Error = FieldErrors;

    fn try_from(wire: v1::Spine) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        label(&mut fields, "name", &wire.name);
        plane(&mut fields, "plane", wire.plane);
        let (rail, more_rails) = rails(&mut fields, "rails", wire.rail, &wire.rails);
        let v1::Spine { name, plane, down, .. } = wire;
        fields.finish(Some(Self { name, rail, more_rails, plane, down }))
    }
}

impl TryFrom<v1::Uplink> for Uplink {
    type Error = FieldErrors;

    fn try_from(wire: v1::Uplink) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let lower = names(&mut fields, "lower", &wire.lower);
        let upper = names(&mut fields, "upper", &wire.upper);
        let cables = wire.cables.max(1);
        if wire.down > cables {
            fields.fail("down", format!("{} cables of {cables} cannot be down", wire.down));
        }
        fields.finish(Some(Self { lower, upper, cables, speed_mbps: wire.speed_mbps, down: wire.down }))
    }
}

/// A list of names, of which there must be one.
pub(super) fn names(fields: &mut Fields, field: &str, text: &str) -> Names {
    if text.is_empty() {
        fields.fail(field, "is required");
    }
    fields.take(field, Names::new(text)).unwrap_or_default()
}

/// The rails of a switch, ascending: the first, and the others. `rail` alone is one; beside a list it is one of it.
pub(super) fn rails(fields: &mut Fields, field: &str, rail: u32, list: &[u32]) -> (u32, Vec<u32>) {
    let mut all = list.to_vec();
    all.sort_unstable();
    if let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1]) {
        fields.fail(field, format!("lists rail {} twice", pair[0]));
    }
    if let Some(large) = all.iter().find(|rail| **rail >= MAX_RAILS) {
        fields.fail(field, format!("{large} is too large; rails are numbered from 0 to {}", MAX_RAILS - 1));
    }
    if rail > 0 && !all.is_empty() && !all.contains(&rail) {
        fields.fail(field, format!("does not list rail {rail}, which `rail` says; either one is enough"));
    }
    if all.is_empty() { (rail, all) } else { (all.remove(0), all) }
}

/// The same back: `rail`, or the list of several.
pub(super) fn more(rail: u32, more_rails: &[u32]) -> (u32, Vec<u32>) {
    if more_rails.is_empty() {
        return (rail, Vec::new());
    }
    (0, std::iter::once(rail).chain(more_rails.iter().copied()).collect())
}

/// NICs have at most two ports.
pub(super) fn plane(fields: &mut Fields, field: &str, plane: u32) {
    if plane > 1 {
        fields.fail(field, format!("{plane} is too large; a NIC has at most two ports, on planes 0 and 1"));
    }
}

/// Switch, port and pod names come from vendors: any printable text of up to 128 bytes will do.
pub(super) fn label(fields: &mut Fields, field: &str, text: &str) {
    if text.is_empty() {
        fields.fail(field, "is required");
    } else if text.len() > 128 || text.chars().any(char::is_control) {
        fields.fail(field, "must be printable and at most 128 bytes long");
    }
}

impl TryFrom<v1::Fabric> for Fabric {
    type Error = FieldErrors;

    fn try_from(wire: v1::Fabric) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        super::fields::header(&mut fields, &wire.api_version, &wire.kind, "Fabric");
        let metadata = metadata::metadata(&mut fields, Some(wire.metadata.unwrap_or_default()));
        metadata::unowned(&mut fields, &metadata);
        if metadata.name.len() > MAX_NAME || metadata.name.chars().any(char::is_control) {
            fields.fail("metadata.name", format!("must be printable and at most {MAX_NAME} bytes long"));
        }
        let spec = fields.present("spec", wire.spec).unwrap_or_default();
        let mut fabric = Self {
            name: if metadata.name.is_empty() { "default".to_owned() } else { metadata.name },
            generation: metadata.generation,
            rails: fields.list("spec.rails", spec.rails),
            leaves: fields.list("spec.leaves", spec.leaves),
            links: fields.list("spec.links", spec.links),
            link_groups: Vec::new(),
            spines: fields.list("spec.spines", spec.spines),
            uplinks: fields.list("spec.uplinks", spec.uplinks),
        };
        fabric_lists::switches(&mut fields, &spec.leaf_groups, &spec.spine_groups, &mut fabric);
        fabric_lists::links(&mut fields, spec.link_groups, &mut fabric);
        fabric_lists::pairs(&mut fields, &fabric);
        fields.finish(Some(fabric))
    }
}

impl From<&Fabric> for v1::Fabric {
    fn from(fabric: &Fabric) -> Self {
        let metadata = v1::Metadata {
            name: fabric.name.clone(),
            generation: fabric.generation,
            ..v1::Metadata::default()
        };
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Fabric".to_owned(),
            metadata: Some(metadata),
            spec: Some(spec(fabric)),
            status: None,
        }
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
pub(super) fn link_group(group: &LinkGroup) -> v1::LinkGroup {
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
