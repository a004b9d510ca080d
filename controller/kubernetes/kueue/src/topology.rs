//! Kueue's Topology and ResourceFlavor, as the fabric is. [pure]

use std::collections::BTreeSet;

use proto_wire::v1;
use serde_json::{Value, json};

use crate::{
    assignment::HOSTNAME,
    names::{GROUP, VERSION},
};

/// Label of a node with its pod of the fabric.
pub const POD: &str = "railyard.io/pod";
/// Label of a node with its leaf, where all its rails have one.
pub const LEAF: &str = "railyard.io/leaf";

/// Levels of the fabric, from the highest to the lowest; none where it has no servers, of which nothing can be said. A level is left out where a server
/// has not its label: Kueue would not use that server.
#[must_use]
pub fn levels(fabric: &v1::Topology) -> Option<Vec<&'static str>> {
    let nodes = || fabric.pods.iter().flat_map(|pod| &pod.nodes);
    nodes().next()?;
    let has_pods = fabric.pods.iter().filter(|pod| !pod.nodes.is_empty()).all(|pod| is_label(&pod.name));
    let has_leaf = |node: &v1::TopologyNode| {
        let leaves: BTreeSet<&str> =
            node.ports.iter().map(|port| port.leaf.as_str()).filter(|leaf| !leaf.is_empty()).collect();
        leaves.len() == 1 && leaves.iter().all(|leaf| is_label(leaf))
    };
    let all = [(POD, has_pods), (LEAF, nodes().all(has_leaf)), (HOSTNAME, true)];
    Some(all.into_iter().filter(|(_, is)| *is).map(|(label, _)| label).collect())
}

/// Whether this can be the value of a label of Kubernetes.
fn is_label(text: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && is_end(text.chars().next())
        && is_end(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// The Topology of this name.
#[must_use]
pub fn topology(name: &str, levels: &[&str]) -> Value {
    let levels: Vec<Value> = levels.iter().map(|label| json!({"nodeLabel": label})).collect();
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    })
}

/// The ResourceFlavor of nodes with this label, with the topology of the same name.
#[must_use]
pub fn flavor(name: &str, label: &(String, String)) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": {label.0.clone(): label.1.clone()}, "topologyName": name},
    })
}

/// Whether what is there says all that is wanted; what it says beyond that is somebody else's.
#[must_use]
pub fn is_there(found: Option<&Value>, wanted: &Value) -> bool {
    let Some(found) = found else { return false };
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| is_there(found.get(key), wanted))
        }
        (found, wanted) => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fabric(pod: &str, leaves: &[&str]) -> v1::Topology {
        let port = |leaf: &&str| v1::TopologyPort { leaf: (*leaf).into(), ..v1::TopologyPort::default() };
        let ports = leaves.iter().map(port).collect();
        let node = v1::TopologyNode { name: "n0".into(), ports, ..v1::TopologyNode::default() };
        let pod = v1::TopologyPod { name: pod.into(), nodes: vec![node], ..v1::TopologyPod::default() };
        v1::Topology { pods: vec![pod], ..v1::Topology::default() }
    }

    #[test]
    fn levels_are_those_that_nodes_have_labels_of() {
        assert_eq!(levels(&v1::Topology::default()), None);
        assert_eq!(levels(&fabric("p0", &["l0", "l0", ""])), Some(vec![POD, LEAF, HOSTNAME]));
        // A leaf for each rail: servers with the same leaves are a pod.
        assert_eq!(levels(&fabric("p0", &["r0-l0", "r1-l0"])), Some(vec![POD, HOSTNAME]));
        assert_eq!(levels(&fabric("row 7", &[])), Some(vec![HOSTNAME]));
    }

    #[test]
    fn nothing_is_written_where_nothing_differs() {
        let wanted = topology("railyard", &[POD, HOSTNAME]);
        let mut found = wanted.clone();
        found["metadata"]["uid"] = json!("u");
        assert!(is_there(Some(&found), &wanted) && !is_there(None, &wanted));
        found["spec"]["levels"] = json!([{"nodeLabel": HOSTNAME}]);
        assert!(!is_there(Some(&found), &wanted));
        let label = ("a".to_owned(), "b".to_owned());
        let mut found = flavor("railyard", &label);
        found["spec"]["nodeTaints"] = json!([]);
        assert!(is_there(Some(&found), &flavor("railyard", &label)));
        found["spec"]["nodeLabels"] = json!({"c": "d"});
        assert!(!is_there(Some(&found), &flavor("railyard", &label)));
    }
}
