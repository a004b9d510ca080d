//! Faults of a fabric document by itself.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Fabric, NodeName, Reason};

use crate::RailSet;

/// Most nodes, leaves or ports named in one message.
const NAMED: usize = 5;

/// Every fault of the document; empty if it is right.
///
/// A NIC on two leaves, a leaf on two rails, duplicate names and ports, unknown leaves and rails, rail indices that
/// are not 0, 1, 2, ..., two NICs of a node on one rail, a node whose links end in several pods.
#[must_use]
pub fn check(fabric: &Fabric) -> Vec<Reason> {
    let mut findings = Vec::new();
    rails(fabric, &mut findings);
    leaves(fabric, &mut findings);
    links(fabric, &mut findings);
    nodes(fabric, &mut findings);
    findings
}

fn rails(fabric: &Fabric, findings: &mut Vec<Reason>) {
    let mut by_index: BTreeMap<u32, usize> = BTreeMap::new();
    let mut by_name: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for rail in &fabric.rails {
        *by_index.entry(rail.index).or_default() += 1;
        if rail.name.is_empty() {
            let message = format!("rail {} has no name; give it one", rail.index);
            findings.push(Reason::new("RailName", message).scope(format!("rail/{}", rail.index)));
        } else {
            by_name.entry(&rail.name).or_default().push(rail.index);
        }
    }
    for (index, times) in by_index.iter().filter(|(_, times)| **times > 1) {
        let message = format!("rail index {index} is given to {times} rails; every rail has its own");
        findings.push(Reason::new("DuplicateRail", message).count(*times).scope(format!("rail/{index}")));
    }
    for (name, indices) in by_name.iter().filter(|(_, indices)| indices.len() > 1) {
        let message =
            format!("the name '{name}' is given to rails {}; every rail has its own", list(indices));
        findings.push(
            Reason::new("DuplicateRail", message).count(indices.len()).scope(format!("rail/{}", indices[0])),
        );
    }
    if fabric.rails.len() > RailSet::MAX as usize {
        let message =
            format!("{} rails are more than the {} that a fabric may have", fabric.rails.len(), RailSet::MAX);
        findings.push(Reason::new("TooManyRails", message).count(fabric.rails.len()));
    }
    let expected = u32::try_from(by_index.len()).unwrap_or(u32::MAX);
    let missing: Vec<u32> = (0..expected).filter(|index| !by_index.contains_key(index)).collect();
    if !missing.is_empty() {
        let message = format!(
            "rail indices must be 0 to {}; {} missing, the largest is {}",
            expected.saturating_sub(1),
            list(&missing),
            by_index.keys().next_back().copied().unwrap_or(0)
        );
        findings.push(Reason::new("RailIndex", message).count(missing.len()));
    }
    if fabric.rails.is_empty() && !(fabric.leaves.is_empty() && fabric.links.is_empty()) {
        findings.push(Reason::new(
            "NoRails",
            "the document has leaves or links but no rails; list the rails first",
        ));
    }
}

fn leaves(fabric: &Fabric, findings: &mut Vec<Reason>) {
    let known: BTreeSet<u32> = fabric.rails.iter().map(|rail| rail.index).collect();
    let mut by_name: BTreeMap<&str, Vec<(u32, &str)>> = BTreeMap::new();
    for leaf in &fabric.leaves {
        by_name.entry(&leaf.name).or_default().push((leaf.rail, &leaf.pod));
        if !known.contains(&leaf.rail) {
            let message =
                format!("leaf '{}' is on rail {}, which the document does not have", leaf.name, leaf.rail);
            findings.push(Reason::new("UnknownRail", message).scope(format!("leaf/{}", leaf.name)));
        }
        if leaf.pod.is_empty() {
            let message = format!("leaf '{}' has no pod; name the pod whose servers it serves", leaf.name);
            findings.push(Reason::new("LeafPod", message).scope(format!("leaf/{}", leaf.name)));
        }
    }
    for (name, places) in by_name {
        if name.is_empty() {
            findings.push(Reason::new("LeafName", "a leaf has no name; give it one").count(places.len()));
            continue;
        }
        if places.len() == 1 {
            continue;
        }
        let rails: BTreeSet<u32> = places.iter().map(|(rail, _)| *rail).collect();
        let scope = format!("leaf/{name}");
        if rails.len() > 1 {
            let rails: Vec<u32> = rails.into_iter().collect();
            let message = format!("leaf '{name}' is on rails {}; a leaf serves one rail", list(&rails));
            findings.push(Reason::new("LeafOnSeveralRails", message).count(rails.len()).scope(scope));
        } else {
            let message = format!("leaf '{name}' is listed {} times; once is enough", places.len());
            findings.push(Reason::new("DuplicateLeaf", message).count(places.len()).scope(scope));
        }
    }
}

fn links(fabric: &Fabric, findings: &mut Vec<Reason>) {
    let known: BTreeSet<&str> = fabric.leaves.iter().map(|leaf| leaf.name.as_str()).collect();
    let mut by_nic: BTreeMap<(&NodeName, &str), Vec<&str>> = BTreeMap::new();
    let mut by_port: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for link in &fabric.links {
        by_nic.entry((&link.node, &link.nic)).or_default().push(&link.leaf);
        if !link.port.is_empty() {
            let nic = format!("{} of {}", link.nic, link.node);
            by_port.entry((&link.leaf, &link.port)).or_default().push(nic);
        }
        if link.nic.is_empty() {
            let message = format!("a link of node '{}' names no NIC", link.node);
            findings.push(Reason::new("LinkNic", message).scope(format!("node/{}", link.node)));
        }
        if !known.contains(link.leaf.as_str()) {
            let message = format!(
                "NIC {} of node '{}' is cabled to leaf '{}', which the document does not have",
                link.nic, link.node, link.leaf
            );
            findings.push(Reason::new("UnknownLeaf", message).scope(format!("node/{}", link.node)));
        }
    }
    for ((node, nic), leaves) in
        by_nic.iter().filter(|((_, nic), leaves)| leaves.len() > 1 && !nic.is_empty())
    {
        let distinct: BTreeSet<&str> = leaves.iter().copied().collect();
        let scope = format!("node/{node}");
        if distinct.len() > 1 {
            let leaves: Vec<&str> = distinct.into_iter().collect();
            let message =
                format!("NIC {nic} of node '{node}' is cabled to {} leaves: {}", leaves.len(), list(&leaves));
            findings.push(Reason::new("NicOnSeveralLeaves", message).count(leaves.len()).scope(scope));
        } else {
            let message = format!(
                "the link from NIC {nic} of node '{node}' to leaf '{}' is listed {} times",
                leaves[0],
                leaves.len()
            );
            findings.push(Reason::new("DuplicateLink", message).count(leaves.len()).scope(scope));
        }
    }
    for ((leaf, port), nics) in by_port.iter().filter(|(_, nics)| nics.len() > 1) {
        let message = format!("port {port} of leaf '{leaf}' has {} cables: {}", nics.len(), list(nics));
        findings.push(Reason::new("DuplicatePort", message).count(nics.len()).scope(format!("leaf/{leaf}")));
    }
}

fn nodes(fabric: &Fabric, findings: &mut Vec<Reason>) {
    let leaves: BTreeMap<&str, (u32, &str)> =
        fabric.leaves.iter().map(|leaf| (leaf.name.as_str(), (leaf.rail, leaf.pod.as_str()))).collect();
    let mut nics: BTreeMap<(&NodeName, u32), BTreeSet<&str>> = BTreeMap::new();
    let mut pods: BTreeMap<&NodeName, BTreeSet<&str>> = BTreeMap::new();
    for link in &fabric.links {
        if let Some((rail, pod)) = leaves.get(link.leaf.as_str()) {
            nics.entry((&link.node, *rail)).or_default().insert(&link.nic);
            pods.entry(&link.node).or_default().insert(pod);
        }
    }
    for ((node, rail), nics) in nics.iter().filter(|(_, nics)| nics.len() > 1) {
        let nics: Vec<&str> = nics.iter().copied().collect();
        let message = format!(
            "node '{node}' has {} NICs on rail {rail}: {}; a rail takes one",
            nics.len(),
            list(&nics)
        );
        findings.push(Reason::new("NicsOnOneRail", message).count(nics.len()).scope(format!("node/{node}")));
    }
    for (node, pods) in pods.iter().filter(|(_, pods)| pods.len() > 1) {
        let pods: Vec<&str> = pods.iter().copied().collect();
        let message = format!(
            "the links of node '{node}' end in {} pods: {}; a node belongs to one",
            pods.len(),
            list(&pods)
        );
        findings
            .push(Reason::new("NodeInSeveralPods", message).count(pods.len()).scope(format!("node/{node}")));
    }
}

/// The first few, and how many more there are.
pub(crate) fn list<T: std::fmt::Display>(items: &[T]) -> String {
    let mut text = items.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if items.len() > NAMED {
        text.push_str(&format!(" and {} more", items.len() - NAMED));
    }
    text
}
