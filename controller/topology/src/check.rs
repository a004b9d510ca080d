//! Faults of a fabric document by itself.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Fabric, Leaf, Reason, ReasonCode};

use crate::{
    RailSet,
    flat::{Cable, Flat},
    ports,
};

/// Most nodes, leaves or ports named in one message.
const NAMED: usize = 5;
/// Characters of a list that is written as it is.
const LONG: usize = 120;

/// Every fault of the document; empty if it is right.
///
/// A NIC on two leaves of one plane, duplicate names and ports, unknown switches and rails, rail indices that are not 0, 1,
/// 2, ..., two NICs of a node on one rail, a cable to a leaf of several rails that does not say which, a node whose links
/// end in several pods, cables between switches that have no rail or another plane.
#[must_use]
pub fn check(fabric: &Fabric) -> Vec<Reason> {
    let mut findings = Vec::new();
    rails(fabric, &mut findings);
    leaves(fabric, &mut findings);
    spines(fabric, &mut findings);
    uplinks(fabric, &mut findings);
    let flat = Flat::new(fabric);
    unknown(fabric, &mut findings);
    rails_of_cables(fabric, &mut findings);
    for (_, cables) in flat.by_node() {
        node(fabric, &flat, cables, &mut findings);
    }
    ports::check(fabric, &mut findings);
    findings
}

fn rails(fabric: &Fabric, findings: &mut Vec<Reason>) {
    let mut by_index: BTreeMap<u32, usize> = BTreeMap::new();
    let mut by_name: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for rail in &fabric.rails {
        *by_index.entry(rail.index).or_default() += 1;
        if rail.name.is_empty() {
            let message = format!("rail {} has no name; give it one", rail.index);
            findings.push(Reason::new(ReasonCode::RailName, message).scope(format!("rail/{}", rail.index)));
        } else {
            by_name.entry(&rail.name).or_default().push(rail.index);
        }
    }
    for (index, times) in by_index.iter().filter(|(_, times)| **times > 1) {
        let message = format!("rail index {index} is given to {times} rails; every rail has its own");
        findings.push(
            Reason::new(ReasonCode::DuplicateRail, message).count(*times).scope(format!("rail/{index}")),
        );
    }
    for (name, indices) in by_name.iter().filter(|(_, indices)| indices.len() > 1) {
        let message =
            format!("the name '{name}' is given to rails {}; every rail has its own", list(indices));
        findings.push(
            Reason::new(ReasonCode::DuplicateRail, message)
                .count(indices.len())
                .scope(format!("rail/{}", indices[0])),
        );
    }
    if fabric.rails.len() > RailSet::MAX as usize {
        let message =
            format!("{} rails are more than the {} that a fabric may have", fabric.rails.len(), RailSet::MAX);
        findings.push(Reason::new(ReasonCode::TooManyRails, message).count(fabric.rails.len()));
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
        findings.push(Reason::new(ReasonCode::RailIndex, message).count(missing.len()));
    }
    if fabric.rails.is_empty() && !(fabric.leaves.is_empty() && fabric.links.is_empty()) {
        findings.push(Reason::new(
            ReasonCode::NoRails,
            "the document has leaves or links but no rails; list the rails first",
        ));
    }
}

fn leaves(fabric: &Fabric, findings: &mut Vec<Reason>) {
    let known: BTreeSet<u32> = fabric.rails.iter().map(|rail| rail.index).collect();
    let mut by_name: BTreeMap<&str, Vec<&Leaf>> = BTreeMap::new();
    for leaf in &fabric.leaves {
        by_name.entry(&leaf.name).or_default().push(leaf);
        for rail in leaf.rails().filter(|rail| !known.contains(rail)) {
            let message = format!("leaf '{}' is on rail {rail}, which the document does not have", leaf.name);
            findings.push(Reason::new(ReasonCode::UnknownRail, message).scope(format!("leaf/{}", leaf.name)));
        }
        if leaf.pod.is_empty() {
            let message = format!("leaf '{}' has no pod; name the pod whose servers it serves", leaf.name);
            findings.push(Reason::new(ReasonCode::LeafPod, message).scope(format!("leaf/{}", leaf.name)));
        }
    }
    for (name, places) in by_name {
        if name.is_empty() {
            findings.push(
                Reason::new(ReasonCode::LeafName, "a leaf has no name; give it one").count(places.len()),
            );
            continue;
        }
        if places.len() == 1 {
            continue;
        }
        let rails: BTreeSet<u32> = places.iter().flat_map(|leaf| leaf.rails()).collect();
        let scope = format!("leaf/{name}");
        if places.iter().any(|leaf| leaf.rails().count() < rails.len()) {
            let rails: Vec<u32> = rails.into_iter().collect();
            let message = format!(
                "leaf '{name}' is listed {} times, on rails {rails}; list it once, with `rails: [{rails}]` if it serves all of them",
                places.len(),
                rails = list(&rails)
            );
            findings
                .push(Reason::new(ReasonCode::LeafOnSeveralRails, message).count(rails.len()).scope(scope));
        } else {
            let message = format!("leaf '{name}' is listed {} times; once is enough", places.len());
            findings.push(Reason::new(ReasonCode::DuplicateLeaf, message).count(places.len()).scope(scope));
        }
    }
}

fn spines(fabric: &Fabric, findings: &mut Vec<Reason>) {
    let known: BTreeSet<u32> = fabric.rails.iter().map(|rail| rail.index).collect();
    let leaves: BTreeSet<&str> = fabric.leaves.iter().map(|leaf| leaf.name.as_str()).collect();
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for spine in &fabric.spines {
        let scope = format!("spine/{}", spine.name);
        *by_name.entry(&spine.name).or_default() += 1;
        for rail in spine.rails().filter(|rail| !known.contains(rail)) {
            let message =
                format!("spine '{}' is on rail {rail}, which the document does not have", spine.name);
            findings.push(Reason::new(ReasonCode::UnknownRail, message).scope(scope.clone()));
        }
        if leaves.contains(spine.name.as_str()) {
            let message = format!("'{}' is a leaf and a spine; every switch has its own name", spine.name);
            findings.push(Reason::new(ReasonCode::DuplicateSwitch, message).scope(scope));
        }
    }
    for (name, times) in by_name.into_iter().filter(|(_, times)| *times > 1) {
        let message = format!("spine '{name}' is listed {times} times; once is enough");
        findings.push(
            Reason::new(ReasonCode::DuplicateSpine, message).count(times).scope(format!("spine/{name}")),
        );
    }
}

/// The rails and the plane of a switch.
type SwitchPosition = (RailSet, u32);

fn uplinks(fabric: &Fabric, findings: &mut Vec<Reason>) {
    let spines =
        fabric.spines.iter().map(|spine| (spine.name.as_str(), (spine.rails().collect(), spine.plane)));
    let leaves = fabric.leaves.iter().map(|leaf| (leaf.name.as_str(), (leaf.rails().collect(), leaf.plane)));
    let upper: BTreeMap<&str, SwitchPosition> = spines.collect();
    let lower: BTreeMap<&str, SwitchPosition> =
        leaves.chain(upper.iter().map(|(name, place)| (*name, *place))).collect();
    for (at, uplink) in fabric.uplinks.iter().enumerate() {
        let scope = || format!("uplink/{at}");
        let find = |names: &proto_model::Names, known: &BTreeMap<&str, SwitchPosition>| {
            let mut places: BTreeMap<SwitchPosition, String> = BTreeMap::new();
            let mut missing = Vec::new();
            for name in names.iter() {
                match known.get(name.as_str()) {
                    Some(place) => drop(places.entry(*place).or_insert(name)),
                    None => missing.push(name),
                }
            }
            (places, missing)
        };
        let (low, not_low) = find(&uplink.lower, &lower);
        let (high, not_high) = find(&uplink.upper, &upper);
        for (missing, what) in [(not_low, "leaf or spine"), (not_high, "spine")] {
            if !missing.is_empty() {
                let message =
                    format!("the document has no {what} {}, which uplink {at} names", list(&missing));
                findings.push(
                    Reason::new(ReasonCode::UnknownSwitch, message).count(missing.len()).scope(scope()),
                );
            }
        }
        let apart = |(a, b): &(SwitchPosition, SwitchPosition)| a.1 != b.1 || a.0.and(b.0).is_empty();
        let mut pairs = low.keys().flat_map(|a| high.keys().map(|b| (*a, *b)));
        if pairs.any(|pair| apart(&pair)) {
            let places: BTreeMap<SwitchPosition, String> = low.into_iter().chain(high).collect();
            let places: Vec<String> = places
                .iter()
                .map(|((rails, plane), name)| format!("{name} (rail {rails}, plane {plane})"))
                .collect();
            let message = format!(
                "uplink {at} joins {}; switches of different planes, or without a rail in common, must not meet",
                list(&places)
            );
            findings
                .push(Reason::new(ReasonCode::UplinkAcrossRails, message).count(places.len()).scope(scope()));
        }
        let own: Vec<String> = {
            let upper: BTreeSet<String> = uplink.upper.iter().collect();
            uplink.lower.iter().filter(|name| upper.contains(name)).collect()
        };
        if !own.is_empty() {
            let message = format!("uplink {at} leads from {} to itself", list(&own));
            findings.push(Reason::new(ReasonCode::UplinkToItself, message).count(own.len()).scope(scope()));
        }
    }
}

/// Cables to leaves that the document does not have, per leaf.
fn unknown(fabric: &Fabric, findings: &mut Vec<Reason>) {
    let known: BTreeSet<&str> = fabric.leaves.iter().map(|leaf| leaf.name.as_str()).collect();
    for link in fabric.links.iter().filter(|link| link.nic.is_empty()) {
        let message = format!("a link of node '{}' names no NIC", link.node);
        findings.push(Reason::new(ReasonCode::LinkNic, message).scope(format!("node/{}", link.node)));
    }
    for link in fabric.links.iter().filter(|link| !known.contains(link.leaf.as_str())) {
        let message = format!(
            "NIC {} of node '{}' is cabled to leaf '{}', which the document does not have",
            link.nic, link.node, link.leaf
        );
        findings.push(Reason::new(ReasonCode::UnknownLeaf, message).scope(format!("node/{}", link.node)));
    }
    for group in fabric.link_groups.iter().filter(|group| !known.contains(group.leaf.as_str())) {
        let message = format!(
            "NIC {} of {} is cabled to leaf '{}', which the document does not have",
            group.nic,
            folded(&group.nodes),
            group.leaf
        );
        let scope = format!("leaf/{}", group.leaf);
        findings.push(Reason::new(ReasonCode::UnknownLeaf, message).count(group.nodes.len()).scope(scope));
    }
}

/// Cables that say a rail that their leaf does not serve, or none where it serves several.
fn rails_of_cables(fabric: &Fabric, findings: &mut Vec<Reason>) {
    // Of two leaves with one name the first counts.
    let leaves: BTreeMap<&str, &Leaf> =
        fabric.leaves.iter().rev().map(|leaf| (leaf.name.as_str(), leaf)).collect();
    let wrong = |leaf: &str, said: Option<u32>, cable: &dyn Fn() -> String| {
        let leaf = leaves.get(leaf).filter(|leaf| leaf.rail_of(said).is_none())?;
        let rails: Vec<u32> = leaf.rails().collect();
        let (cable, name, rails) = (cable(), &leaf.name, list(&rails));
        Some(match said {
            Some(rail) => format!("{cable} is said to be on rail {rail}, its leaf '{name}' serves {rails}"),
            None => format!("{cable} does not say its rail, and its leaf '{name}' serves {rails}"),
        })
    };
    for link in &fabric.links {
        let cable = || format!("the link from NIC {} of node '{}'", link.nic, link.node);
        if let Some(message) = wrong(&link.leaf, link.rail, &cable) {
            findings.push(Reason::new(ReasonCode::LinkRail, message).scope(format!("node/{}", link.node)));
        }
    }
    for group in &fabric.link_groups {
        let cable = || format!("the group of links from NIC {} of {}", group.nic, folded(&group.nodes));
        if let Some(message) = wrong(&group.leaf, group.rail, &cable) {
            let scope = format!("leaf/{}", group.leaf);
            findings.push(Reason::new(ReasonCode::LinkRail, message).count(group.nodes.len()).scope(scope));
        }
    }
}

/// What is wrong with one server's cables.
fn node(fabric: &Fabric, flat: &Flat<'_>, cables: &[Cable], findings: &mut Vec<Reason>) {
    let Some(name) = cables.first().map(|cable| &flat.nodes[cable.node as usize]) else { return };
    let scope = || format!("node/{name}");
    let leaf = |cable: &Cable| flat.leaves.get(cable.leaf as usize).map(|at| &fabric.leaves[*at as usize]);
    let nic_name = |cable: &Cable| flat.nics[cable.nic as usize];
    for cables in cables.chunk_by(|a, b| a.nic == b.nic).filter(|cables| cables.len() > 1) {
        let nic = nic_name(&cables[0]);
        let leaves: Vec<&Leaf> = cables.iter().filter_map(leaf).collect();
        let mut distinct: Vec<&str> = leaves.iter().map(|leaf| leaf.name.as_str()).collect();
        distinct.dedup();
        let planes: BTreeSet<u32> = leaves.iter().map(|leaf| leaf.plane).collect();
        let one_rail = cables.windows(2).all(|pair| pair[0].rail == pair[1].rail);
        if leaves.len() == cables.len() && planes.len() == cables.len() && one_rail {
            continue;
        }
        if distinct.len() > 1 {
            let message = format!(
                "NIC {nic} of node '{name}' is cabled to {} leaves: {}; only the ports of one NIC on different planes of one rail may be",
                distinct.len(),
                list(&distinct)
            );
            findings.push(
                Reason::new(ReasonCode::NicOnSeveralLeaves, message).count(distinct.len()).scope(scope()),
            );
        } else if let Some(leaf) = distinct.first() {
            let message = format!(
                "the link from NIC {nic} of node '{name}' to leaf '{leaf}' is listed {} times",
                cables.len()
            );
            findings.push(Reason::new(ReasonCode::DuplicateLink, message).count(cables.len()).scope(scope()));
        }
    }
    let known = |cable: &&Cable| cable.rail != Cable::NO_RAIL;
    let mut on_rail: Vec<(u8, &str)> =
        cables.iter().filter(known).map(|cable| (cable.rail, nic_name(cable))).collect();
    on_rail.sort_unstable();
    on_rail.dedup();
    for nics in on_rail.chunk_by(|a, b| a.0 == b.0).filter(|nics| nics.len() > 1) {
        let (rail, names): (u8, Vec<&str>) = (nics[0].0, nics.iter().map(|(_, nic)| *nic).collect());
        let message = format!(
            "node '{name}' has {} NICs on rail {rail}: {}; a rail takes one",
            nics.len(),
            list(&names)
        );
        findings.push(Reason::new(ReasonCode::NicsOnOneRail, message).count(nics.len()).scope(scope()));
    }
    let mut pods: Vec<&str> = cables.iter().filter_map(|cable| Some(leaf(cable)?.pod.as_str())).collect();
    pods.sort_unstable();
    pods.dedup();
    if pods.len() > 1 {
        let message = format!(
            "the links of node '{name}' end in {} pods: {}; a node belongs to one",
            pods.len(),
            list(&pods)
        );
        findings.push(Reason::new(ReasonCode::NodeInSeveralPods, message).count(pods.len()).scope(scope()));
    }
}

/// A list as it is written, or the first few of its names where that is long.
fn folded(names: &proto_model::Names) -> String {
    let text = names.to_string();
    if text.len() <= LONG { text } else { list(&names.iter().collect::<Vec<_>>()) }
}

/// The first few, and how many more there are.
pub(crate) fn list<T: std::fmt::Display>(items: &[T]) -> String {
    let mut text = items.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if items.len() > NAMED {
        text.push_str(&format!(" and {} more", items.len() - NAMED));
    }
    text
}
