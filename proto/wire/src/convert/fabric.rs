//! Fabric documents. What the document means is checked by `controller-topology`; here only each field by itself.

use proto_model::{Fabric, Leaf, Link, NodeName, Rail};

use super::{API_VERSION, FieldErrors, Fields};
use crate::v1;

impl TryFrom<v1::Rail> for Rail {
    type Error = FieldErrors;

    fn try_from(wire: v1::Rail) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if wire.index >= 64 {
            fields.fail("index", format!("{} is too large; rails are numbered from 0 to 63", wire.index));
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
        fields.finish(Some(Self { name: wire.name, rail: wire.rail, pod: wire.pod }))
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
        });
        fields.finish(link)
    }
}

/// Switch, port and pod names come from vendors: any printable text of up to 128 bytes will do.
fn label(fields: &mut Fields, field: &str, text: &str) {
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
        super::job::header(&mut fields, &wire.api_version, &wire.kind, "Fabric");
        let metadata = wire.metadata.unwrap_or_default();
        let spec = fields.present("spec", wire.spec).unwrap_or_default();
        let fabric = Self {
            name: if metadata.name.is_empty() { "default".to_owned() } else { metadata.name },
            generation: metadata.generation,
            rails: fields.list("spec.rails", spec.rails),
            leaves: fields.list("spec.leaves", spec.leaves),
            links: fields.list("spec.links", spec.links),
        };
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
        let rails = fabric.rails.iter().map(|rail| v1::Rail { index: rail.index, name: rail.name.clone() });
        let leaves = fabric.leaves.iter().map(|leaf| v1::Leaf {
            name: leaf.name.clone(),
            rail: leaf.rail,
            pod: leaf.pod.clone(),
        });
        let links = fabric.links.iter().map(|link| v1::Link {
            node: link.node.to_string(),
            nic: link.nic.clone(),
            leaf: link.leaf.clone(),
            port: link.port.clone(),
            speed_mbps: link.speed_mbps,
        });
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Fabric".to_owned(),
            metadata: Some(metadata),
            spec: Some(v1::FabricSpec {
                rails: rails.collect(),
                leaves: leaves.collect(),
                links: links.collect(),
            }),
            status: None,
        }
    }
}
