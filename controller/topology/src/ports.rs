//! Ports of leaves that have several cables.

use std::collections::BTreeMap;

use proto_model::{Fabric, Link, LinkGroup, Reason, ReasonCode};

use crate::check::list;

/// The cables of one leaf.
#[derive(Default)]
struct Cabled<'a> {
    links: Vec<&'a Link>,
    groups: Vec<&'a LinkGroup>,
}

/// Every port of a leaf that the document gives to more than one cable.
pub(crate) fn check(fabric: &Fabric, findings: &mut Vec<Reason>) {
    let mut leaves: BTreeMap<&str, Cabled<'_>> = BTreeMap::new();
    for link in fabric.links.iter().filter(|link| !link.port.is_empty()) {
        leaves.entry(&link.leaf).or_default().links.push(link);
    }
    for group in fabric.link_groups.iter().filter(|group| !group.ports.is_empty()) {
        leaves.entry(&group.leaf).or_default().groups.push(group);
    }
    for (leaf, cabled) in leaves {
        // A list by itself may still name a port twice, but only where it is written in several parts.
        let simple =
            cabled.links.is_empty() && cabled.groups.len() == 1 && cabled.groups[0].ports.is_one_pattern();
        if !simple {
            of_leaf(leaf, &cabled, findings);
        }
    }
}

fn of_leaf(leaf: &str, cabled: &Cabled<'_>, findings: &mut Vec<Reason>) {
    let mut ports: Vec<(String, String)> = Vec::new();
    for link in &cabled.links {
        ports.push((link.port.clone(), format!("{} of {}", link.nic, link.node)));
    }
    for group in &cabled.groups {
        let nodes = group.nodes.iter().map(|node| format!("{} of {node}", group.nic));
        ports.extend(group.ports.iter().zip(nodes));
    }
    ports.sort();
    for same in ports.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
        let nics: Vec<&str> = same.iter().map(|(_, nic)| nic.as_str()).collect();
        let message =
            format!("port {} of leaf '{leaf}' has {} cables: {}", same[0].0, nics.len(), list(&nics));
        findings.push(
            Reason::new(ReasonCode::DuplicatePort, message).count(nics.len()).scope(format!("leaf/{leaf}")),
        );
    }
}
