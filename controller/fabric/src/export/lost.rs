//! What one tree over the nodes does not say of a fabric.

use std::collections::BTreeMap;

use proto_model::{Fabric, Names, NodeName};

use super::cabled::Cabled;

/// Names of a list that are shown.
const NAMED: usize = 16;

pub(super) fn lost(fabric: &Fabric, cabled: &Cabled<'_>) -> Vec<String> {
    let mut lost = Vec::new();
    let rails = fabric.rails.len();
    if rails > 1 {
        lost.push(format!(
            "rails: {rails} rails are trees of their own over the same nodes; one tree remains, in which a pod stands for its {} leaves",
            per_pod(fabric)
        ));
    }
    let shared = fabric.leaves.iter().filter(|leaf| !leaf.more_rails.is_empty()).count();
    if shared > 0 {
        lost.push(format!("shared leaves: that {shared} leaves serve several rails each, which meet there"));
    }
    if fabric.leaves.iter().any(|leaf| leaf.plane > 0) {
        lost.push("planes: that NICs have two ports on two leaves".into());
    }
    let lacks = |own: &&NodeName| cabled.nodes.get(*own).is_some_and(|(_, own)| own.len() < rails);
    let partial: Vec<&NodeName> = cabled.nodes.keys().filter(lacks).collect();
    if !partial.is_empty() {
        lost.push(format!(
            "partial rails: {} nodes lack a rail and will be taken for whole: {}",
            partial.len(),
            named(partial.iter().map(|name| name.as_str()))
        ));
    }
    let switches = fabric.leaves.iter().filter(|leaf| leaf.down).count()
        + fabric.spines.iter().filter(|spine| spine.down).count();
    let uplinks = fabric.uplinks.iter().filter(|uplink| uplink.down > 0).count();
    let down = cabled.down;
    if down + switches + uplinks > 0 {
        lost.push(format!(
            "health: {down} cables, {switches} switches and {uplinks} bundles of uplinks that are down are taken for whole"
        ));
    }
    if cabled.speeds.len() > 1 || fabric.uplinks.iter().any(|uplink| uplink.speed_mbps > 0) {
        lost.push("capacity: speeds of cables and oversubscription; no share of a link is planned".into());
    }
    lost
}

/// Pods in which servers share some of their leaves with some servers, and others with others.
pub(super) fn crossed(pods: &[&str]) -> Option<String> {
    (!pods.is_empty()).then(|| {
        format!(
            "leaves of a pod: in {} pods servers share leaves crosswise, and any two of such a pod are taken to be equally near: {}",
            pods.len(),
            named(pods.iter().copied())
        )
    })
}

/// Servers with leaves of several groups.
pub(super) fn odd(nodes: &[&NodeName]) -> Option<String> {
    (!nodes.is_empty()).then(|| {
        format!(
            "leaves of a pod: {} nodes have leaves of several groups, and stand where most of theirs are: {}",
            nodes.len(),
            named(nodes.iter().map(|name| name.as_str()))
        )
    })
}

fn named<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = if names.len() > NAMED { " and others" } else { "" };
    format!("{}{more}", Names::of(names.take(NAMED)))
}

fn per_pod(fabric: &Fabric) -> usize {
    let mut pods: BTreeMap<&str, usize> = BTreeMap::new();
    for leaf in &fabric.leaves {
        *pods.entry(&leaf.pod).or_default() += 1;
    }
    pods.into_values().max().unwrap_or(0)
}
