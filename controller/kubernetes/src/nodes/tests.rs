//! Nodes and servers in all states that matter.

use k8s_openapi::{
    api::core::v1::{NodeCondition, NodeSpec, NodeStatus},
    apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry},
};
use serde_json::json;

use super::*;

fn railyard(change: impl FnOnce(&mut v1::NodeSpec, &mut v1::NodeStatus)) -> v1::Node {
    let nic = |rail: u32| v1::Nic {
        device: format!("mlx5_{rail}"),
        netdev: format!("rail{rail}"),
        rail,
        up: true,
        ..Default::default()
    };
    let inventory = v1::Inventory { nics: vec![nic(0), nic(1)], ..Default::default() };
    let (mut spec, mut status) =
        (v1::NodeSpec::default(), v1::NodeStatus { inventory: Some(inventory), ..Default::default() });
    status.set_phase(Phase::Ready);
    change(&mut spec, &mut status);
    let metadata = v1::Metadata { name: "n0".into(), ..Default::default() };
    v1::Node { metadata: Some(metadata), spec: Some(spec), status: Some(status), ..Default::default() }
}

fn place(leaves: &[(u32, &str)]) -> Location {
    let leaves = leaves.iter().map(|(rail, leaf)| (*rail, (*leaf).to_owned())).collect();
    Location { pod: "p1".to_owned(), leaves }
}

fn seen(node: &v1::Node, drains: &[&str]) -> (bool, bool, String) {
    let drain = |target: &&str| v1::RailDrain { target: (*target).to_owned(), ..Default::default() };
    let drains: Vec<v1::RailDrain> = drains.iter().map(drain).collect();
    let server = server(node, &drains, &place(&[(0, "l0"), (1, "l1")]));
    (server.is_ready, server.is_unfit, server.reason)
}

#[test]
fn a_server_is_unfit_when_no_job_may_come_or_no_rail_is_left() {
    let is = |node: v1::Node, drains: &[&str]| seen(&node, drains);
    assert_eq!(is(railyard(|_, _| ()), &[]), (true, false, "RailsHealthy".into()));
    assert_eq!(is(railyard(|spec, _| spec.unschedulable = true), &[]), (false, true, "Cordoned".into()));
    let quarantined = railyard(|_, status| status.quarantined = Some(v1::Reason::default()));
    assert_eq!(is(quarantined, &[]), (false, true, "Quarantined".into()));
    assert_eq!(
        is(railyard(|_, status| status.set_phase(Phase::NotReady)), &[]),
        (false, true, "NotReady".into())
    );
    assert_eq!(is(railyard(|_, _| ()), &["node/n0:1", "node/n9:0"]), (false, false, "RailsUnfit".into()));
    assert_eq!(is(railyard(|_, _| ()), &["rail/0", "leaf/l1"]), (false, true, "NoRail".into()));
    assert_eq!(
        is(railyard(|_, status| status.rails_cut = vec![0]), &[]),
        (false, false, "RailsUnfit".into())
    );
    assert_eq!(is(railyard(|_, status| status.inventory = None), &[]), (false, false, "NoInventory".into()));
}

#[test]
fn a_leaf_is_a_label_where_all_rails_have_the_same() {
    let of = |leaves: &[(u32, &str)]| server(&railyard(|_, _| ()), &[], &place(leaves)).labels;
    assert_eq!(of(&[(0, "l0"), (1, "l0")])["railyard.io/leaf"], "l0");
    assert!(!of(&[(0, "l0"), (1, "l1")]).contains_key("railyard.io/leaf"));
    assert!(!of(&[(0, "no label/")]).contains_key("railyard.io/leaf"));
    assert_eq!(of(&[])["railyard.io/pod"], "p1");
}

fn kubernetes() -> Node {
    let other = Taint { key: "x".into(), effect: "NoExecute".into(), ..Taint::default() };
    let spec = NodeSpec { taints: Some(vec![other]), ..NodeSpec::default() };
    Node { spec: Some(spec), ..Node::default() }
}

/// Does as the API server would.
fn done(mut node: Node, actions: &[NodeAction]) -> Node {
    for action in actions {
        match action {
            NodeAction::Taints(all) => node.spec.get_or_insert_default().taints = Some(all.clone()),
            NodeAction::Labels(wanted) => {
                let owned = owned_labels(&node);
                let labels = node.metadata.labels.get_or_insert_default();
                labels.retain(|key, _| !owned.contains(key.as_str()));
                labels.extend(wanted.clone());
                let fields: serde_json::Map<String, Json> =
                    wanted.keys().map(|key| (format!("f:{key}"), json!({}))).collect();
                let entry = ManagedFieldsEntry {
                    manager: Some(MANAGER.to_owned()),
                    fields_v1: Some(FieldsV1(json!({"f:metadata": {"f:labels": fields}}))),
                    ..ManagedFieldsEntry::default()
                };
                node.metadata.managed_fields = Some(vec![entry]);
            }
            NodeAction::Condition { status, reason, message, .. } => {
                let condition = NodeCondition {
                    type_: CONDITION.to_owned(),
                    status: (*status).to_owned(),
                    reason: Some(reason.clone()),
                    message: Some(message.clone()),
                    ..NodeCondition::default()
                };
                node.status = Some(NodeStatus { conditions: Some(vec![condition]), ..NodeStatus::default() });
            }
        }
    }
    node
}

#[test]
fn what_is_written_is_right_at_once_and_taken_back_without_touching_others() {
    let fit = server(&railyard(|_, _| ()), &[], &place(&[(0, "l0"), (1, "l0")]));
    let unfit = server(&railyard(|spec, _| spec.unschedulable = true), &[], &place(&[(0, "l0"), (1, "l0")]));
    let mut node = kubernetes();
    for (now, taints) in [(Some(&fit), 1), (Some(&unfit), 2), (Some(&fit), 1), (Some(&unfit), 2), (None, 1)] {
        node = done(node.clone(), &decide(&node, now));
        assert_eq!(decide(&node, now), [], "{now:?}");
        let there = node.spec.clone().unwrap().taints.unwrap();
        assert!(there.len() == taints && there[0].key == "x", "{there:?}");
        let labels = node.metadata.labels.clone().unwrap();
        assert_eq!(labels.contains_key("railyard.io/leaf"), now.is_some());
    }
    assert_eq!(node.status.unwrap().conditions.unwrap()[0].status, "Unknown");
}

#[test]
fn a_node_that_railyard_never_had_is_left_alone() {
    let mut node = kubernetes();
    node.metadata.labels = Some([("railyard.io/pod".to_owned(), "mine".to_owned())].into());
    assert_eq!(decide(&node, None), []);
}
