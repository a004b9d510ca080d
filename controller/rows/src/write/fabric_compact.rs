//! Single things of a fabric into lists of like ones: what many servers need, so that a document stays a page however large
//! the fabric is, as far as its names and cables follow an order.

use proto_model::{Fabric, Leaf, LinkGroup, Names, Spine};

use super::fabric::{link_group, more};
use crate::v1;

/// Text of a list of servers that may be written again for each NIC.
const SHORT: usize = 96;

/// The same fabric with lists in place of like neighbours, wherever that is shorter. Read again it is the same value.
#[must_use]
pub fn compact(fabric: &Fabric) -> v1::Fabric {
    // Each kind of thing is converted once: in full only where lists do not say the same.
    let (leaves, spines) = (leaves(&fabric.leaves), spines(&fabric.spines));
    let rest = Fabric {
        name: fabric.name.clone(),
        generation: fabric.generation,
        rails: fabric.rails.clone(),
        leaves: if leaves.is_some() { Vec::new() } else { fabric.leaves.clone() },
        links: fabric.links.clone(),
        link_groups: Vec::new(),
        spines: if spines.is_some() { Vec::new() } else { fabric.spines.clone() },
        uplinks: fabric.uplinks.clone(),
    };
    let mut row = v1::Fabric::from(&rest);
    let spec = row.spec.get_or_insert_default();
    spec.leaf_groups = leaves.unwrap_or_default();
    spec.spine_groups = spines.unwrap_or_default();
    spec.link_groups = nics(runs(&fabric.link_groups).into_iter().flat_map(spread).collect());
    row
}

fn leaves(all: &[Leaf]) -> Option<Vec<v1::LeafGroup>> {
    let alike = |a: &Leaf, b: &Leaf| {
        (a.rail, a.plane, &a.more_rails) == (b.rail, b.plane, &b.more_rails) && !a.down && !b.down
    };
    let lists: Option<Vec<v1::LeafGroup>> = all
        .chunk_by(alike)
        .map(|run| {
            let first = run.first().filter(|leaf| !leaf.down)?;
            let (names, mut pods) = (listed(run, |leaf| &leaf.name)?, listed(run, |leaf| &leaf.pod)?);
            if run.iter().all(|leaf| leaf.pod == first.pod) {
                pods.clone_from(&first.pod);
            }
            let (rail, rails) = more(first.rail, &first.more_rails);
            Some(v1::LeafGroup { names, rail, pods, plane: first.plane, rails })
        })
        .collect();
    lists.filter(|lists| lists.len() < all.len())
}

fn spines(all: &[Spine]) -> Option<Vec<v1::SpineGroup>> {
    let alike = |a: &Spine, b: &Spine| {
        (a.rail, a.plane, &a.more_rails) == (b.rail, b.plane, &b.more_rails) && !a.down && !b.down
    };
    let lists: Option<Vec<v1::SpineGroup>> = all
        .chunk_by(alike)
        .map(|run| {
            let first = run.first().filter(|spine| !spine.down)?;
            let names = listed(run, |spine| &spine.name)?;
            let (rail, rails) = more(first.rail, &first.more_rails);
            Some(v1::SpineGroup { names, rail, plane: first.plane, rails })
        })
        .collect();
    lists.filter(|lists| lists.len() < all.len())
}

/// A list that says exactly these names again.
fn listed<T>(items: &[T], name: impl Fn(&T) -> &String) -> Option<String> {
    let list = Names::of(items.iter().map(&name));
    (list.len() == items.len()).then(|| list.to_string())
}

/// Neighbours that one list of leaves can say: of one NIC, with as many servers and the same ports, but that the last may
/// have fewer.
fn runs(groups: &[LinkGroup]) -> Vec<&[LinkGroup]> {
    let (mut found, mut start) = (Vec::new(), 0);
    for at in 1..=groups.len() {
        let goes_on = match (groups.get(start), groups.get(at - 1), groups.get(at)) {
            (Some(first), Some(last), Some(next)) => {
                last.nodes.len() == first.nodes.len() && continues(first, next)
            }
            _ => false,
        };
        if !goes_on {
            found.extend(groups.get(start..at));
            start = at;
        }
    }
    found
}

fn continues(first: &LinkGroup, next: &LinkGroup) -> bool {
    let (all, fewer) = (first.nodes.len(), next.nodes.len());
    let alike = (&first.nic, first.speed_mbps, first.rail) == (&next.nic, next.speed_mbps, next.rail);
    let counts = (1..=all).contains(&fewer) && first.ports.is_empty() == next.ports.is_empty();
    let ports = || match &first.ports {
        ports if fewer == all => *ports == next.ports,
        ports => Names::of(ports.iter().take(fewer)) == next.ports,
    };
    alike && counts && ports() && is_plain(&first.nodes) && is_plain(&next.nodes)
}

/// Whether a list is written as it would be after it was cut out of a longer one.
fn is_plain(names: &Names) -> bool {
    Names::of(names.iter()) == *names
}

/// One group for all of these, if the leaves can be listed; else one for each.
fn spread(run: &[LinkGroup]) -> Vec<v1::LinkGroup> {
    let whole = || -> Option<v1::LinkGroup> {
        let (first, _) = run.split_first().filter(|(_, rest)| !rest.is_empty())?;
        let nodes = Names::of(run.iter().flat_map(|group| group.nodes.iter()));
        Some(v1::LinkGroup {
            nodes: nodes.to_string(),
            leaf: String::new(),
            leaves: listed(run, |group| &group.leaf)?,
            nodes_per_leaf: u32::try_from(first.nodes.len()).ok()?,
            ..link_group(first)
        })
    };
    whole().map_or_else(|| run.iter().map(link_group).collect(), |group| vec![group])
}

/// Neighbours that say a long list of the same servers, each of another NIC, as one group of several NICs.
fn nics(groups: Vec<v1::LinkGroup>) -> Vec<v1::LinkGroup> {
    let alike = |a: &v1::LinkGroup, b: &v1::LinkGroup| {
        a.nodes.len() > SHORT
            && (&a.nodes, a.speed_mbps, a.nodes_per_leaf) == (&b.nodes, b.speed_mbps, b.nodes_per_leaf)
            && a.rails.is_empty() == b.rails.is_empty()
            && (a.ports == b.ports || (a.nodes_per_leaf == 0 && !a.ports.is_empty() && !b.ports.is_empty()))
    };
    groups
        .chunk_by(alike)
        .flat_map(|run| together(run).map_or_else(|| run.to_vec(), |one| vec![one]))
        .collect()
}

fn together(run: &[v1::LinkGroup]) -> Option<v1::LinkGroup> {
    let (first, rest) = run.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let mut one =
        v1::LinkGroup { nic: String::new(), nics: listed(run, |group| &group.nic)?, ..first.clone() };
    one.rails = run.iter().flat_map(|group| group.rails.iter().copied()).collect();
    let servers = Names::new(&first.nodes).ok()?.len();
    if rest.iter().any(|group| group.ports != first.ports) {
        let list = |group: &v1::LinkGroup| Names::new(&group.ports).ok().filter(is_plain);
        let lists: Option<Vec<Names>> = run.iter().map(list).collect();
        let all = Names::of(lists?.iter().flat_map(Names::iter));
        one.ports = (all.len() == servers * run.len()).then(|| all.to_string())?;
    }
    let places = |group: &v1::LinkGroup| (group.leaf.clone(), group.leaves.clone());
    if rest.iter().all(|group| places(group) == places(first)) {
        return Some(one);
    }
    let leaves: Option<Vec<Names>> = run
        .iter()
        .map(|group| {
            if group.leaves.is_empty() {
                Some(Names::of([&group.leaf]))
            } else {
                Names::new(&group.leaves).ok()
            }
        })
        .collect();
    let leaves = leaves?;
    let all = Names::of(leaves.iter().flat_map(Names::iter));
    (leaves.iter().all(|list| !list.is_empty()) && all.len() == leaves.iter().map(Names::len).sum::<usize>())
        .then_some(())?;
    one.leaf = String::new();
    one.leaves = all.to_string();
    if one.nodes_per_leaf == 0 {
        one.nodes_per_leaf = u32::try_from(servers).ok()?;
    }
    Some(one)
}
