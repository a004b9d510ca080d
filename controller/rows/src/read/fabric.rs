//! Fabric documents. What the document means is checked by `controller-topology`; here only each field by itself.

use proto_model::{Fabric, Leaf, Link, NodeName, Rail, Spine, Uplink};

use super::{
    fabric_lists,
    fabric_parts::{MAX_RAILS, label, names, plane, rails},
    metadata,
};
use crate::v1;
use proto_model::fields::{FieldErrors, Fields};

/// Bytes of a fabric's name at most.
const MAX_NAME: usize = 256;

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

impl TryFrom<v1::Fabric> for Fabric {
    type Error = FieldErrors;

    fn try_from(row: v1::Fabric) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let metadata = metadata::metadata(&mut fields, Some(row.metadata.unwrap_or_default()));
        metadata::unowned(&mut fields, &metadata);
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
