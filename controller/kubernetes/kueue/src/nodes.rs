//! Nodes of Kubernetes: which may be held, and which carry labels of workloads. [pure]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use proto_model::Names;

use crate::names::uid_of_label;

/// Taint of a node that no new pod may come to for its rails.
const UNFIT: &str = "railyard.io/rails";
/// As many names as a job may give (`rail.v1.PlacementRequest.nodes`).
const NAMED: usize = 4096;

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeNode {
    /// Its name, in Kubernetes and in Railyard.
    pub name: String,
    /// Greater after each change.
    pub version: u64,
    /// It has the label of nodes whose rails are Railyard's.
    pub is_ours: bool,
    /// Pods may start there.
    pub is_open: bool,
    /// Values of the labels of workloads, by UID.
    pub labels: BTreeMap<String, String>,
}

impl KubeNode {
    /// The node that this object is; none of an object without a name.
    #[must_use]
    pub fn of(node: &Node, label: &(String, String)) -> Option<Self> {
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let spec = node.spec.clone().unwrap_or_default();
        // What a site taints its servers with, pods put up with; what Kubernetes and rail-operator do, they do not.
        let is_closed = spec.unschedulable == Some(true)
            || spec.taints.iter().flatten().any(|taint| {
                let is_theirs = taint.key.starts_with("node.kubernetes.io/") || taint.key == UNFIT;
                is_theirs && taint.effect != "PreferNoSchedule"
            });
        let of = |(key, value): (&String, &String)| Some((uid_of_label(key)?.to_owned(), value.clone()));
        Some(Self {
            name: node.metadata.name.clone()?,
            version: version(node.metadata.resource_version.as_deref()),
            is_ours: labels.get(&label.0) == Some(&label.1),
            is_open: !is_closed,
            labels: labels.iter().filter_map(of).collect(),
        })
    }
}

/// Versions of one object are compared: etcd's revisions, which the API server hands on as decimal numbers.
#[must_use]
pub fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Servers that a workload may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Those that are open now, as a list of names.
    pub list: String,
    /// How many these are.
    pub open: usize,
    /// How many more have the label, and are closed.
    pub closed: usize,
}

impl Candidates {
    /// Of all nodes, those that are Railyard's.
    #[must_use]
    pub fn of<'a>(nodes: impl Iterator<Item = &'a KubeNode>) -> Self {
        let (open, closed): (Vec<&KubeNode>, Vec<&KubeNode>) =
            nodes.filter(|node| node.is_ours).partition(|node| node.is_open);
        let names = open.iter().map(|node| node.name.as_str());
        Self { list: Names::of(names).to_string(), open: open.len(), closed: closed.len() }
    }

    /// The list as a job says it; nothing where it would be too long, so that any server may be had.
    #[must_use]
    pub fn said(&self) -> Vec<String> {
        if self.open == 0 || self.open > NAMED { Vec::new() } else { vec![self.list.clone()] }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, labels: &serde_json::Value, spec: &serde_json::Value) -> KubeNode {
        let object =
            json!({"metadata": {"name": name, "resourceVersion": "7", "labels": labels}, "spec": spec});
        KubeNode::of(&serde_json::from_value(object).unwrap(), &("rails".into(), "true".into())).unwrap()
    }

    #[test]
    fn cordoned_nodes_and_those_that_kubernetes_taints_are_closed() {
        let rails = json!({"rails": "true"});
        let taint = |key: &str| json!({"taints": [{"key": key, "effect": "NoSchedule"}]});
        let nodes = [
            node("n0", &rails, &json!({})),
            node("n1", &rails, &taint("nvidia.com/gpu")),
            node("n2", &rails, &taint("node.kubernetes.io/not-ready")),
            node("n3", &rails, &json!({"unschedulable": true})),
            node("n4", &json!({"rails": "no"}), &json!({})),
            node("n5", &rails, &taint(UNFIT)),
        ];
        let found = Candidates::of(nodes.iter());
        assert_eq!((found.open, found.closed, found.said().join(" ").as_str()), (2, 3, "n[0-1]"));
        assert_eq!(Candidates::default().said(), Vec::<String>::new());
    }

    #[test]
    fn labels_of_workloads_are_found() {
        let found = node("n0", &json!({"hold.railyard.io/u": "main", "a": "b"}), &json!({}));
        assert_eq!((found.labels, found.version), ([("u".to_owned(), "main".to_owned())].into(), 7));
    }
}
