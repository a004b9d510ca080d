//! Lists of like things of a fabric, into single things. `fabric_compact` goes the other way.

use std::collections::BTreeMap;

use proto_model::{Fabric, Leaf, LinkGroup, Names, NodeName, Spine};

use super::fabric_parts::{MAX_RAILS, label, names, plane, rails};
use crate::v1;
use proto_model::fields::Fields;

/// Cables from servers to leaves of one fabric at most: 500,000 servers with 8 NICs.
pub(crate) const MAX_CABLES: usize = 4_000_000;

/// Leaves and spines of one fabric at most.
const MAX_SWITCHES: usize = 1 << 20;

/// NICs of one group of cables at most.
const MAX_NICS: usize = 256;

/// Pairs of switches with cables between them at most.
const MAX_PAIRS: usize = 1 << 24;

/// Adds the leaves and spines of lists.
pub(crate) fn switches(
    fields: &mut Fields,
    leaves: &[v1::LeafGroup],
    spines: &[v1::SpineGroup],
    fabric: &mut Fabric,
) {
    for (at, group) in leaves.iter().enumerate() {
        let field = |name: &str| format!("spec.leafGroups[{at}].{name}");
        let list = names(fields, &field("names"), &group.names);
        let pods = names(fields, &field("pods"), &group.pods);
        plane(fields, &field("plane"), group.plane);
        let (rail, more_rails) = rails(fields, &field("rails"), group.rail, &group.rails);
        if pods.len() > 1 && pods.len() != list.len() {
            let message =
                format!("lists {} pods for {} leaves; one for each, or one for all", pods.len(), list.len());
            fields.fail(&field("pods"), message);
            continue;
        }
        if too_many(fields, &field("names"), fabric, list.len()) {
            return;
        }
        let mut pods = pods.iter();
        let mut pod = String::new();
        for name in list.iter() {
            pod = pods.next().unwrap_or(pod);
            fabric.leaves.push(Leaf {
                name,
                rail,
                more_rails: more_rails.clone(),
                pod: pod.clone(),
                plane: group.plane,
                down: false,
            });
        }
    }
    for (at, group) in spines.iter().enumerate() {
        let field = |name: &str| format!("spec.spineGroups[{at}].{name}");
        let list = names(fields, &field("names"), &group.names);
        plane(fields, &field("plane"), group.plane);
        let (rail, more_rails) = rails(fields, &field("rails"), group.rail, &group.rails);
        if too_many(fields, &field("names"), fabric, list.len()) {
            return;
        }
        let spine =
            |name| Spine { name, rail, more_rails: more_rails.clone(), plane: group.plane, down: false };
        fabric.spines.extend(list.iter().map(spine));
    }
}

fn too_many(fields: &mut Fields, field: &str, fabric: &Fabric, more: usize) -> bool {
    let count = fabric.leaves.len() + fabric.spines.len() + more;
    if count > MAX_SWITCHES {
        fields.fail(field, format!("{count} switches are more than the {MAX_SWITCHES} of a fabric"));
    }
    count > MAX_SWITCHES
}

/// Lists of servers that were cut already, by their text and the servers of a leaf: the rails of a fabric list the same.
type Cut = BTreeMap<(String, usize), Vec<Names>>;

/// Adds the cables of lists, a group per NIC and leaf.
pub(crate) fn links(fields: &mut Fields, groups: Vec<v1::LinkGroup>, fabric: &mut Fabric) {
    let mut cables = fabric.links.len();
    let mut cut = Cut::new();
    for (at, group) in groups.into_iter().enumerate() {
        let field = |name: &str| format!("spec.linkGroups[{at}].{name}");
        let nodes = names(fields, &field("nodes"), &group.nodes);
        let Some(nics) = nics(fields, &field, &group) else { continue };
        cables = cables.saturating_add(nodes.len().saturating_mul(nics.len()));
        if cables > MAX_CABLES {
            let message = format!("{cables} cables are more than the {MAX_CABLES} of a fabric");
            return fields.fail(&field("nodes"), message);
        }
        if let Some(error) = nodes.iter().find_map(|name| NodeName::new(name).err()) {
            fields.fail(&field("nodes"), error.to_string());
        }
        let ports = ports(fields, &field, &group, nodes.len(), nics.len());
        let Some(leaves) = leaves(fields, &field, &group, nodes.len(), nics.len()) else { continue };
        let rails = cable_rails(fields, &field("rails"), &group.rails, nics.len());
        let each = if group.leaves.is_empty() { nodes.len() } else { group.nodes_per_leaf as usize };
        let key = (group.nodes, each);
        let cut = cut.entry(key).or_insert_with(|| chunks(&nodes, each));
        let mut ports = ports.into_iter().cycle();
        let places =
            nics.iter().zip(rails).flat_map(|(nic, rail)| cut.iter().map(move |nodes| (nic, rail, nodes)));
        for ((nic, rail, nodes), leaf) in places.zip(leaves.iter().cycle()) {
            let own = ports.next().unwrap_or_default();
            let ports = if own.len() > nodes.len() { Names::of(own.iter().take(nodes.len())) } else { own };
            let (nodes, nic, leaf) = (nodes.clone(), nic.clone(), leaf.clone());
            fabric.link_groups.push(LinkGroup {
                nodes,
                nic,
                leaf,
                ports,
                speed_mbps: group.speed_mbps,
                rail,
            });
        }
    }
}

/// The names of a group's NICs.
fn nics(fields: &mut Fields, field: &dyn Fn(&str) -> String, group: &v1::LinkGroup) -> Option<Vec<String>> {
    if group.nics.is_empty() {
        label(fields, &field("nic"), &group.nic);
        return Some(vec![group.nic.clone()]);
    }
    if !group.nic.is_empty() {
        fields.fail(&field("nic"), "either one `nic` or a list of `nics`");
    }
    let nics = names(fields, &field("nics"), &group.nics);
    if nics.len() > MAX_NICS {
        fields.fail(&field("nics"), format!("lists {} NICs; a server has at most {MAX_NICS}", nics.len()));
        return None;
    }
    Some(nics.iter().collect())
}

/// The leaves of a group: of one NIC, or of all of them one after the other.
fn leaves(
    fields: &mut Fields,
    field: &dyn Fn(&str) -> String,
    group: &v1::LinkGroup,
    nodes: usize,
    nics: usize,
) -> Option<Vec<String>> {
    let each = group.nodes_per_leaf as usize;
    if group.leaves.is_empty() {
        label(fields, &field("leaf"), &group.leaf);
        if each > 0 {
            fields.fail(&field("nodesPerLeaf"), "is for `leaves`, a list; with one leaf leave it out");
        }
        return Some(vec![group.leaf.clone()]);
    }
    let leaves = names(fields, &field("leaves"), &group.leaves);
    if !group.leaf.is_empty() {
        fields.fail(&field("leaf"), "either one `leaf` or a list of `leaves`");
    }
    let of_nic = if each == 0 { 0 } else { nodes.div_ceil(each) };
    if of_nic == 0 || (leaves.len() != of_nic && leaves.len() != of_nic.saturating_mul(nics)) {
        let message = format!("{nodes} nodes on {} leaves need a number that divides them so", leaves.len());
        fields.fail(&field("nodesPerLeaf"), message);
        return None;
    }
    Some(leaves.iter().collect())
}

/// The ports of each leaf in the order of NICs and leaves, or one list for all of them; none if they are not known.
fn ports(
    fields: &mut Fields,
    field: &dyn Fn(&str) -> String,
    group: &v1::LinkGroup,
    nodes: usize,
    nics: usize,
) -> Vec<Names> {
    if group.ports.is_empty() {
        return Vec::new();
    }
    let ports = names(fields, &field("ports"), &group.ports);
    let each = if group.leaves.is_empty() { nodes } else { group.nodes_per_leaf as usize };
    if ports.len() == each || (each > nodes && ports.len() >= nodes) {
        return vec![ports];
    }
    if each == 0 || ports.len() != nodes.saturating_mul(nics) {
        if !ports.is_empty() && nodes > 0 {
            let message =
                format!("lists {} ports for {each} nodes of a leaf; every node has its own", ports.len());
            fields.fail(&field("ports"), message);
        }
        return Vec::new();
    }
    let all: Vec<String> = ports.iter().collect();
    all.chunks(nodes).flat_map(|of_nic| of_nic.chunks(each).map(Names::of)).collect()
}

/// The rail of each NIC of a group.
fn cable_rails(fields: &mut Fields, field: &str, row: &[u32], nics: usize) -> Vec<Option<u32>> {
    if row.is_empty() {
        return vec![None; nics];
    }
    if row.len() != nics {
        fields.fail(field, format!("lists {} rails for {nics} NICs; each has its own", row.len()));
    }
    if let Some(rail) = row.iter().find(|rail| **rail >= MAX_RAILS) {
        fields.fail(field, format!("{rail} is too large; rails are numbered from 0 to {}", MAX_RAILS - 1));
    }
    row.iter().copied().map(Some).collect()
}

fn chunks(nodes: &Names, each: usize) -> Vec<Names> {
    let all: Vec<String> = nodes.iter().collect();
    if all.len() <= each {
        return vec![nodes.clone()];
    }
    all.chunks(each).map(Names::of).collect()
}

/// No more pairs of switches than can be looked at in a moment.
pub(crate) fn pairs(fields: &mut Fields, fabric: &Fabric) {
    let pairs = fabric.uplinks.iter().fold(0_usize, |sum, uplink| {
        sum.saturating_add(uplink.lower.len().saturating_mul(uplink.upper.len()))
    });
    if pairs > MAX_PAIRS {
        fields.fail("spec.uplinks", format!("{pairs} pairs of switches are more than {MAX_PAIRS}"));
    }
}
