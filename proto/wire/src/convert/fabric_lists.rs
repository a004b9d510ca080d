//! Many like things of a fabric at once: lists into single things, and single things into lists.

use std::collections::BTreeMap;

use proto_model::{Fabric, Leaf, LinkGroup, Names, NodeName, Spine};

use super::{Fields, fabric::label, fabric::names, fabric::plane};
use crate::v1;

/// Cables from servers to leaves of one fabric at most: 500,000 servers with 8 NICs.
pub(super) const MAX_CABLES: usize = 4_000_000;
/// Leaves and spines of one fabric at most.
const MAX_SWITCHES: usize = 1 << 20;
/// Pairs of switches with cables between them at most.
const MAX_PAIRS: usize = 1 << 24;

/// Adds the leaves and spines of lists.
pub(super) fn switches(
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
                rail: group.rail,
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
        if too_many(fields, &field("names"), fabric, list.len()) {
            return;
        }
        let spine = |name| Spine { name, rail: group.rail, plane: group.plane, down: false };
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

/// Adds the cables of lists, a group per leaf.
pub(super) fn links(fields: &mut Fields, groups: Vec<v1::LinkGroup>, fabric: &mut Fabric) {
    let mut cables = fabric.links.len();
    let mut lists: BTreeMap<(String, u32), Vec<Names>> = BTreeMap::new();
    for (at, group) in groups.into_iter().enumerate() {
        let field = |name: &str| format!("spec.linkGroups[{at}].{name}");
        let nodes = names(fields, &field("nodes"), &group.nodes);
        let ports = if group.ports.is_empty() {
            Names::default()
        } else {
            names(fields, &field("ports"), &group.ports)
        };
        label(fields, &field("nic"), &group.nic);
        cables = cables.saturating_add(nodes.len());
        if cables > MAX_CABLES {
            let message = format!("{cables} cables are more than the {MAX_CABLES} of a fabric");
            return fields.fail(&field("nodes"), message);
        }
        if let Some(error) = nodes.iter().find_map(|name| NodeName::new(name).err()) {
            fields.fail(&field("nodes"), error.to_string());
        }
        let each = group.nodes_per_leaf as usize;
        let wanted = if each == 0 { nodes.len() } else { each };
        let fits = ports.len() == wanted || (each > 0 && ports.len() >= nodes.len());
        if !ports.is_empty() && !nodes.is_empty() && !fits {
            let message =
                format!("lists {} ports for {wanted} nodes of a leaf; every node has its own", ports.len());
            fields.fail(&field("ports"), message);
        }
        let v1::LinkGroup { nic, leaf, speed_mbps, .. } = group;
        if group.leaves.is_empty() {
            label(fields, &field("leaf"), &leaf);
            if each > 0 {
                fields.fail(&field("nodesPerLeaf"), "is for `leaves`, a list; with one leaf leave it out");
            }
            fabric.link_groups.push(LinkGroup { nodes, nic, leaf, ports, speed_mbps });
            continue;
        }
        let leaves = names(fields, &field("leaves"), &group.leaves);
        if !leaf.is_empty() {
            fields.fail(&field("leaf"), "either one `leaf` or a list of `leaves`");
        }
        if each == 0 || leaves.len() != nodes.len().div_ceil(each) {
            let message = format!(
                "{} nodes on {} leaves need a number that divides them so",
                nodes.len(),
                leaves.len()
            );
            fields.fail(&field("nodesPerLeaf"), message);
            continue;
        }
        // The rails of a fabric list the same servers: each list is cut once.
        let key = (group.nodes, group.nodes_per_leaf);
        let cut = lists.entry(key).or_insert_with(|| chunks(&nodes, each));
        for (leaf, nodes) in leaves.iter().zip(cut.iter()) {
            let ports = if ports.len() == nodes.len() || ports.is_empty() {
                ports.clone()
            } else {
                Names::of(ports.iter().take(nodes.len()))
            };
            fabric.link_groups.push(LinkGroup {
                nodes: nodes.clone(),
                nic: nic.clone(),
                leaf,
                ports,
                speed_mbps,
            });
        }
    }
}

fn chunks(nodes: &Names, each: usize) -> Vec<Names> {
    let all: Vec<String> = nodes.iter().collect();
    all.chunks(each).map(Names::of).collect()
}

/// No more pairs of switches than can be looked at in a moment.
pub(super) fn pairs(fields: &mut Fields, fabric: &Fabric) {
    let pairs = fabric.uplinks.iter().fold(0_usize, |sum, uplink| {
        sum.saturating_add(uplink.lower.len().saturating_mul(uplink.upper.len()))
    });
    if pairs > MAX_PAIRS {
        fields.fail("spec.uplinks", format!("{pairs} pairs of switches are more than {MAX_PAIRS}"));
    }
}

/// The same fabric with lists in place of like neighbours, wherever that is shorter: what many servers need, so that a
/// document is a page however large the fabric is.
#[must_use]
pub fn compact(fabric: &Fabric) -> v1::Fabric {
    let mut wire = v1::Fabric::from(fabric);
    let spec = wire.spec.get_or_insert_default();
    let alike = |a: &Leaf, b: &Leaf| (a.rail, a.plane) == (b.rail, b.plane) && !a.down && !b.down;
    let runs: Vec<&[Leaf]> = fabric.leaves.chunk_by(alike).collect();
    let lists: Option<Vec<v1::LeafGroup>> = runs
        .iter()
        .map(|run| {
            let first = run.first().filter(|leaf| !leaf.down)?;
            let (names, mut pods) = (listed(run, |leaf| &leaf.name)?, listed(run, |leaf| &leaf.pod)?);
            if run.iter().all(|leaf| leaf.pod == first.pod) {
                pods.clone_from(&first.pod);
            }
            Some(v1::LeafGroup { names, rail: first.rail, pods, plane: first.plane })
        })
        .collect();
    if let Some(lists) = lists.filter(|lists| lists.len() < fabric.leaves.len()) {
        (spec.leaf_groups, spec.leaves) = (lists, Vec::new());
    }
    let alike = |a: &Spine, b: &Spine| (a.rail, a.plane) == (b.rail, b.plane) && !a.down && !b.down;
    let lists: Option<Vec<v1::SpineGroup>> = fabric
        .spines
        .chunk_by(alike)
        .map(|run| {
            let first = run.first().filter(|spine| !spine.down)?;
            let names = listed(run, |spine| &spine.name)?;
            Some(v1::SpineGroup { names, rail: first.rail, plane: first.plane })
        })
        .collect();
    if let Some(lists) = lists.filter(|lists| lists.len() < fabric.spines.len()) {
        (spec.spine_groups, spec.spines) = (lists, Vec::new());
    }
    spec.link_groups = fabric.link_groups.chunk_by(follows).map(spread).collect::<Vec<_>>().concat();
    wire
}

/// A list that says exactly these names again.
fn listed<T>(items: &[T], name: impl Fn(&T) -> &String) -> Option<String> {
    let list = Names::of(items.iter().map(&name));
    (list.len() == items.len() && list.iter().eq(items.iter().map(|item| name(item).clone())))
        .then(|| list.to_string())
}

/// Whether a group may stand behind another in one list: as many servers, or fewer at the end.
fn follows(a: &LinkGroup, b: &LinkGroup) -> bool {
    (&a.nic, a.speed_mbps) == (&b.nic, b.speed_mbps) && a.nodes.len() >= b.nodes.len()
}

/// One group for all of these, if it means the same; else one for each.
fn spread(run: &[LinkGroup]) -> Vec<v1::LinkGroup> {
    let single = |group: &LinkGroup| v1::LinkGroup {
        nodes: group.nodes.to_string(),
        nic: group.nic.clone(),
        leaf: group.leaf.clone(),
        ports: group.ports.to_string(),
        speed_mbps: group.speed_mbps,
        ..v1::LinkGroup::default()
    };
    let whole = || -> Option<v1::LinkGroup> {
        let (first, rest) = run.split_first().filter(|(_, rest)| !rest.is_empty())?;
        let group = v1::LinkGroup {
            nodes: Names::of(run.iter().flat_map(|group| group.nodes.iter())).to_string(),
            nic: first.nic.clone(),
            ports: first.ports.to_string(),
            speed_mbps: first.speed_mbps,
            leaves: listed(run, |group| &group.leaf)?,
            nodes_per_leaf: u32::try_from(first.nodes.len()).ok()?,
            ..v1::LinkGroup::default()
        };
        let (mut fields, mut again) = (Fields::default(), Fabric::default());
        links(&mut fields, vec![group.clone()], &mut again);
        let same = |a: &LinkGroup, b: &LinkGroup| {
            let rest = (&a.nic, &a.leaf, a.speed_mbps) == (&b.nic, &b.leaf, b.speed_mbps);
            rest && a.nodes.iter().eq(b.nodes.iter()) && a.ports.iter().eq(b.ports.iter())
        };
        let all = again.link_groups.len() == rest.len() + 1;
        (all && fields.is_empty() && again.link_groups.iter().zip(run).all(|(a, b)| same(a, b)))
            .then_some(group)
    };
    whole().map_or_else(|| run.iter().map(single).collect(), |group| vec![group])
}
