//! Single cables of a fabric into groups, as the generator writes them: one for the servers whose NIC of one name goes to
//! one leaf.
//!
//! What follows no order cannot be said in few words, but is said once: servers and ports are listed in the order in which
//! both lists together are shorter, and groups stand in the order in which documents can join more of them.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Fabric, Link, LinkGroup, Names};

use crate::natural;

/// Text of a list of ports that follows an order.
const SHORT: usize = 48;

/// The same cables, those of one NIC name and leaf as a group where they are several. Cables that are known to be down, and
/// ports that no list can name, stay single.
#[must_use]
pub fn gather(mut fabric: Fabric) -> Fabric {
    let stays = |link: &Link| link.down || link.port.contains(['[', ']', ',']);
    let (mut single, links): (Vec<Link>, Vec<Link>) = fabric.links.drain(..).partition(stays);
    let mut runs: BTreeMap<_, Vec<&Link>> = BTreeMap::new();
    for link in &links {
        let key = (&link.leaf, &link.nic, link.speed_mbps, link.rail, link.port.is_empty());
        runs.entry(key).or_default().push(link);
    }
    let mut groups = Vec::new();
    for mut run in runs.into_values() {
        match &mut run[..] {
            [one] => single.push((*one).clone()),
            run => groups.push(group(run)),
        }
    }
    single.sort_by(|a, b| {
        natural::compare(a.node.as_str(), b.node.as_str()).then_with(|| natural::compare(&a.nic, &b.nic))
    });
    arrange(&fabric, &mut groups);
    fabric.links = single;
    fabric.link_groups.extend(groups);
    fabric
}

/// Of two orders of the same cables the one whose lists are shorter.
fn group(run: &mut [&Link]) -> LinkGroup {
    run.sort_by(|a, b| natural::compare(a.node.as_str(), b.node.as_str()));
    let by_node = lists(run);
    let (nodes, ports) = if by_node.1.is_empty() || text(&by_node.1) <= SHORT {
        by_node
    } else {
        run.sort_by(|a, b| natural::compare(&a.port, &b.port));
        let by_port = lists(run);
        let size = |lists: &(Names, Names)| text(&lists.0) + text(&lists.1);
        if size(&by_port) < size(&by_node) { by_port } else { by_node }
    };
    let first = &run[0];
    let (nic, leaf) = (first.nic.clone(), first.leaf.clone());
    LinkGroup { nodes, nic, leaf, ports, speed_mbps: first.speed_mbps, rail: first.rail }
}

fn lists(run: &[&Link]) -> (Names, Names) {
    (Names::of(run.iter().map(|link| link.node.as_str())), Names::of(run.iter().map(|link| &link.port)))
}

fn text(names: &Names) -> usize {
    names.to_string().len()
}

/// By NIC, then leaf, where most leaves have the same ports: then one list says many of them. Else by pod and servers: then
/// the NICs of the same servers follow each other, and their list is said once.
fn arrange(fabric: &Fabric, groups: &mut [LinkGroup]) {
    let kinds: BTreeSet<&Names> = groups.iter().map(|group| &group.ports).collect();
    let even = kinds.len() * 8 <= groups.len() + 32;
    if even {
        groups.sort_by(|a, b| {
            natural::compare(&a.nic, &b.nic)
                .then_with(|| (a.rail, a.speed_mbps).cmp(&(b.rail, b.speed_mbps)))
                .then_with(|| natural::compare(&a.leaf, &b.leaf))
        });
        return;
    }
    let pods: BTreeMap<&str, &str> =
        fabric.leaves.iter().map(|leaf| (leaf.name.as_str(), leaf.pod.as_str())).collect();
    let pod = |group: &LinkGroup| pods.get(group.leaf.as_str()).copied().unwrap_or_default();
    groups.sort_by(|a, b| {
        natural::compare(pod(a), pod(b))
            .then_with(|| a.nodes.cmp(&b.nodes))
            .then_with(|| (a.speed_mbps, a.rail).cmp(&(b.speed_mbps, b.rail)))
            .then_with(|| natural::compare(&a.nic, &b.nic))
            .then_with(|| natural::compare(&a.leaf, &b.leaf))
    });
}
