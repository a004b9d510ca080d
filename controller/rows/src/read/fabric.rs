//! Fabric documents. What the document means is checked by `controller-topology`; here only each field by itself.

use proto_model::{Fabric, Leaf, Link, Names, NodeName, Rail, Spine, Uplink};

use super::fabric_lists;
use crate::{
    fields::{FieldErrors, Fields},
    v1,
};

/// Bytes of a fabric's name at most.
const MAX_NAME: usize = 256;

/// Rails of a fabric at most.
pub(crate) const MAX_RAILS: u32 = 64;

impl TryFrom<v1::Rail> for Rail {
    type Error = FieldErrors;

    fn try_from(row: v1::Rail) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if row.index >= MAX_RAILS {
            let message =
                format!("{} is too large; rails are numbered from 0 to {}", row.index, MAX_RAILS - 1);
            fields.fail("index", message);
        }
        let name = if row.name.is_empty() { format!("rail{}", row.index) } else { row.name };
        fields.finish(Some(Self { index: row.index, name }))
    }
}

impl TryFrom<v1::Leaf> for Leaf {
    type Error = FieldErrors;

    fn try_from(row: v1::Leaf) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        label(&mut fields, "name", &row.name);
        label(&mut fields, "pod", &row.pod);
        plane(&mut fields, "plane", row.plane);
        let (rail, more_rails) = rails(&mut fields, "rails", row.rail, &row.rails);
        let v1::Leaf { name, pod, plane, down, .. } = row;
        fields.finish(Some(Self { name, rail, more_rails, pod, plane, down }))
    }
}

impl TryFrom<v1::Link> for Link {
    type Error = FieldErrors;

    fn try_from(row: v1::Link) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let node = fields.take("node", NodeName::new(&row.node));
        label(&mut fields, "nic", &row.nic);
        label(&mut fields, "leaf", &row.leaf);
        let link = node.map(|node| Self {
            node,
            nic: row.nic,
            leaf: row.leaf,
            port: row.port,
            speed_mbps: row.speed_mbps,
            down: row.down,
            rail: row.rail,
        });
        if let Some(rail) = row.rail.filter(|rail| *rail >= MAX_RAILS) {
            let message = format!("{rail} is too large; rails are numbered from 0 to {}", MAX_RAILS - 1);
            fields.fail("rail", message);
        }
        fields.finish(link)
    }
}

impl TryFrom<v1::Spine> for Spine {
    type Error = FieldErrors;

    fn try_from(row: v1::Spine) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        label(&mut fields, "name", &row.name);
        plane(&mut fields, "plane", row.plane);
        let (rail, more_rails) = rails(&mut fields, "rails", row.rail, &row.rails);
        let v1::Spine { name, plane, down, .. } = row;
        fields.finish(Some(Self { name, rail, more_rails, plane, down }))
    }
}

impl TryFrom<v1::Uplink> for Uplink {
    type Error = FieldErrors;

    fn try_from(row: v1::Uplink) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let lower = names(&mut fields, "lower", &row.lower);
        let upper = names(&mut fields, "upper", &row.upper);
        let cables = row.cables.max(1);
        if row.down > cables {
            fields.fail("down", format!("{} cables of {cables} cannot be down", row.down));
        }
        fields.finish(Some(Self { lower, upper, cables, speed_mbps: row.speed_mbps, down: row.down }))
    }
}

/// A list of names, of which there must be one.
pub(crate) fn names(fields: &mut Fields, field: &str, text: &str) -> Names {
    if text.is_empty() {
        fields.fail(field, "is required");
    }
    fields.take(field, Names::new(text)).unwrap_or_default()
}

/// The rails of a switch, ascending: the first, and the others. `rail` alone is one; beside a list it is one of it.
pub(crate) fn rails(fields: &mut Fields, field: &str, rail: u32, list: &[u32]) -> (u32, Vec<u32>) {
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

/// NICs have at most two ports.
pub(crate) fn plane(fields: &mut Fields, field: &str, plane: u32) {
    if plane > 1 {
        fields.fail(field, format!("{plane} is too large; a NIC has at most two ports, on planes 0 and 1"));
    }
}

/// Switch, port and pod names come from vendors: any printable text of up to 128 bytes will do.
pub(crate) fn label(fields: &mut Fields, field: &str, text: &str) {
    if text.is_empty() {
        fields.fail(field, "is required");
    } else if text.len() > 128 || text.chars().any(char::is_control) {
        fields.fail(field, "must be printable and at most 128 bytes long");
    }
}

impl TryFrom<v1::Fabric> for Fabric {
    type Error = FieldErrors;

    fn try_from(row: v1::Fabric) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let metadata = fields.metadata(Some(row.metadata.unwrap_or_default()));
        fields.unowned(&metadata);
        if metadata.name.len() > MAX_NAME || metadata.name.chars().any(char::is_control) {
            fields.fail("metadata.name", format!("must be printable and at most {MAX_NAME} bytes long"));
        }
        let spec = fields.present("spec", row.spec).unwrap_or_default();
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
