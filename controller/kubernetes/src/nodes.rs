//! What Kubernetes is told of a server's rails: a condition, a taint and labels of its Node. [pure]

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Taint};
use proto_model::{DrainTarget, Inventory, NodeName, Severity};
use proto_wire::v1::{self, node_status::Phase};
use serde_json::Value as Json;

use crate::kind::MANAGER;

/// The condition of a Node.
pub const CONDITION: &str = "RailsReady";
/// The taint of a Node to which no new pod may come for its rails.
pub const TAINT: &str = "railyard.io/rails";
/// The labels of a Node: its pod, and its leaf where all its rails have one.
pub const LABELS: [&str; 2] = ["railyard.io/pod", "railyard.io/leaf"];
/// Rails that a message names, at most.
const NAMED: usize = 16;

/// What is known of a server's rails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Server {
    /// All its rails can be used.
    pub is_ready: bool,
    /// No job may come, or no rail can be used.
    pub is_unfit: bool,
    /// As a code in UpperCamelCase.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// Its labels, of [`LABELS`].
    pub labels: BTreeMap<String, String>,
}

/// Where a server is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    pod: String,
    leaves: BTreeMap<u32, String>,
}

/// Where all servers are, by name.
#[must_use]
pub fn places(topology: &v1::Topology) -> BTreeMap<String, Location> {
    let of_pod = |pod: &v1::TopologyPod| {
        let name = pod.name.clone();
        let place = move |node: &v1::TopologyNode| {
            let cabled = node.ports.iter().filter(|port| !port.leaf.is_empty());
            let leaves = cabled.map(|port| (port.rail, port.leaf.clone())).collect();
            (node.name.clone(), Location { pod: name.clone(), leaves })
        };
        pod.nodes.iter().map(place).collect::<Vec<_>>()
    };
    topology.pods.iter().flat_map(of_pod).collect()
}

/// What is known of one server.
#[must_use]
pub fn server(node: &v1::Node, drains: &[v1::RailDrain], place: &Location) -> Server {
    let (spec, status) = (node.spec.clone().unwrap_or_default(), node.status.clone().unwrap_or_default());
    let name = node.metadata.as_ref().map(|metadata| metadata.name.as_str()).unwrap_or_default();
    let labels = labels(place);
    let closed = match (&status.quarantined, status.quarantine.first()) {
        (Some(why), _) | (None, Some(why)) => Some(("Quarantined", why.message.clone())),
        (None, None) if spec.unschedulable => Some(("Cordoned", spec.reason.clone())),
        _ if status.phase() == Phase::NotReady => {
            Some(("NotReady", "the controller hears nothing of its agent".to_owned()))
        }
        _ => None,
    };
    if let Some((reason, message)) = closed {
        let message = if message.is_empty() { format!("no job may come to {name}") } else { message };
        return Server { is_ready: false, is_unfit: true, reason: reason.to_owned(), message, labels };
    }
    let Some(Ok(inventory)) = status.inventory.clone().map(Inventory::try_from) else {
        let message = "the controller has no inventory of it yet".to_owned();
        return Server {
            is_ready: false,
            is_unfit: false,
            reason: "NoInventory".to_owned(),
            message,
            labels,
        };
    };
    let cut: BTreeSet<u32> = status.rails_cut.iter().copied().collect();
    let drained = drained(drains, place, name);
    let unfit: Vec<(u32, String)> = inventory
        .nics
        .iter()
        .filter_map(|nic| Some((nic.rail, cause(&inventory, nic, &cut, &drained)?)))
        .collect();
    let count = inventory.nics.len();
    if unfit.is_empty() {
        let message = format!("{count} of {count} rails can be used");
        return Server {
            is_ready: count > 0,
            is_unfit: false,
            reason: "RailsHealthy".to_owned(),
            message,
            labels,
        };
    }
    let mut said: Vec<String> =
        unfit.iter().take(NAMED).map(|(rail, why)| format!("rail {rail}: {why}")).collect();
    if unfit.len() > NAMED {
        said.push(format!("and {} more", unfit.len() - NAMED));
    }
    let is_unfit = unfit.len() == count;
    let reason = if is_unfit { "NoRail" } else { "RailsUnfit" }.to_owned();
    Server { is_ready: false, is_unfit, reason, message: said.join("; "), labels }
}

fn cause(
    inventory: &Inventory,
    nic: &proto_model::Nic,
    cut: &BTreeSet<u32>,
    drained: &BTreeSet<u32>,
) -> Option<String> {
    let of_nic = inventory.health.iter().filter(|health| health.device == nic.device);
    let worst = of_nic.flat_map(|health| &health.conditions).max_by_key(|condition| condition.severity);
    match worst {
        _ if !nic.up => Some("LinkDown".to_owned()),
        _ if cut.contains(&nic.rail) => Some("Cut".to_owned()),
        _ if drained.contains(&nic.rail) => Some("Drained".to_owned()),
        Some(condition) if condition.severity == Severity::Drain => Some(condition.code.as_str().to_owned()),
        _ => None,
    }
}

fn drained(drains: &[v1::RailDrain], place: &Location, name: &str) -> BTreeSet<u32> {
    let Ok(name) = NodeName::new(name) else { return BTreeSet::new() };
    let targets = drains.iter().filter_map(|drain| drain.target.parse::<DrainTarget>().ok());
    let rails = |target| match target {
        DrainTarget::Rail(rail) => vec![rail],
        DrainTarget::Port { node, rail } if node == name => vec![rail],
        DrainTarget::Port { .. } => Vec::new(),
        DrainTarget::Leaf(leaf) => {
            place.leaves.iter().filter(|(_, of)| **of == leaf).map(|(rail, _)| *rail).collect()
        }
    };
    targets.flat_map(rails).collect()
}

/// A server whose rails have leaves of their own has no label of a leaf: there is no one leaf.
fn labels(place: &Location) -> BTreeMap<String, String> {
    let leaves: BTreeSet<&String> = place.leaves.values().collect();
    let leaf = leaves.first().filter(|_| leaves.len() == 1).map(|leaf| leaf.as_str()).unwrap_or_default();
    let each = LABELS.into_iter().zip([place.pod.as_str(), leaf]);
    each.filter(|(_, value)| is_label(value)).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn is_label(value: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    (1..=63).contains(&value.len())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && ends(value.chars().next())
        && ends(value.chars().last())
}

/// What is to be written of a Node.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeAction {
    /// All taints as they should be: others' are as they were.
    Taints(Vec<Taint>),
    /// The operator's labels, all of them: what is left out and is the operator's goes.
    Labels(BTreeMap<String, String>),
    /// The condition.
    Condition {
        /// `True`, `False` or `Unknown`.
        status: &'static str,
        /// As a code in UpperCamelCase.
        reason: String,
        /// One sentence.
        message: String,
        /// Whether its status is another one than before.
        turns: bool,
    },
}

/// What is to be written of a Node, as it was seen; `server` is absent where Railyard does not have it.
#[must_use]
pub fn decide(node: &Node, server: Option<&Server>) -> Vec<NodeAction> {
    let mut actions = Vec::new();
    actions.extend(taints(node, server.is_some_and(|server| server.is_unfit)));
    actions.extend(label(node, server.map(|server| &server.labels)));
    actions.extend(condition(node, server));
    actions
}

fn taints(node: &Node, is_unfit: bool) -> Option<NodeAction> {
    let there = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let ours = Taint {
        key: TAINT.to_owned(),
        value: Some("unfit".to_owned()),
        effect: "NoSchedule".to_owned(),
        time_added: None,
    };
    let same = |taint: &&Taint| taint.key == TAINT;
    let found: Vec<&Taint> = there.iter().filter(same).collect();
    let right = match (is_unfit, found.as_slice()) {
        (false, []) => true,
        (true, [one]) => one.value == ours.value && one.effect == ours.effect,
        _ => false,
    };
    if right {
        return None;
    }
    let mut all: Vec<Taint> = there.iter().filter(|taint| taint.key != TAINT).cloned().collect();
    all.extend(is_unfit.then_some(ours));
    Some(NodeAction::Taints(all))
}

fn label(node: &Node, wanted: Option<&BTreeMap<String, String>>) -> Option<NodeAction> {
    let wanted = wanted.cloned().unwrap_or_default();
    let there = node.metadata.labels.clone().unwrap_or_default();
    let owned = owned_labels(node);
    let right = LABELS.iter().all(|key| match wanted.get(*key) {
        Some(value) => there.get(*key) == Some(value),
        // Somebody else's stays.
        None => !owned.contains(*key),
    });
    (!right).then_some(NodeAction::Labels(wanted))
}

/// Labels that the operator owns, by what the API server has noted.
fn owned_labels(node: &Node) -> BTreeSet<&'static str> {
    let entries = node.metadata.managed_fields.as_deref().unwrap_or_default();
    let ours = entries.iter().filter(|entry| entry.manager.as_deref() == Some(MANAGER));
    let fields: Vec<&Json> =
        ours.filter_map(|entry| entry.fields_v1.as_ref()).map(|fields| &fields.0).collect();
    let has = |key: &str| {
        fields.iter().any(|fields| fields["f:metadata"]["f:labels"].get(format!("f:{key}")).is_some())
    };
    LABELS.into_iter().filter(|key| has(key)).collect()
}

fn condition(node: &Node, server: Option<&Server>) -> Option<NodeAction> {
    let all = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let there = all.iter().find(|one| one.type_ == CONDITION);
    let (status, reason, message) = match server {
        Some(server) => {
            (if server.is_ready { "True" } else { "False" }, server.reason.clone(), server.message.clone())
        }
        // A Node that Railyard never had is left alone.
        None => {
            there?;
            ("Unknown", "NotInRailyard".to_owned(), "Railyard has no server of this name".to_owned())
        }
    };
    let same = there.is_some_and(|one| {
        one.status == status && one.reason.as_ref() == Some(&reason) && one.message.as_ref() == Some(&message)
    });
    let turns = there.is_none_or(|one| one.status != status);
    (!same).then_some(NodeAction::Condition { status, reason, message, turns })
}

#[cfg(test)]
mod tests;
