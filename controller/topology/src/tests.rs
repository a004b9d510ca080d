//! Faults are all found; the join does not depend on the order of events, and undoes exactly.

mod planes;
mod shared;

use std::sync::Arc;

use proptest::prelude::*;
use proto_model::{Fabric, Inventory, Leaf, Link, Nic, NodeName, Rail, ReasonCode};

use crate::{RailSet, Topology, check};

pub(crate) fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn nic(rail: u32, up: bool) -> Nic {
    Nic {
        device: format!("mlx5_{rail}"),
        netdev: format!("eth{rail}"),
        pci_address: String::new(),
        numa_node: None,
        rail,
        address: None,
        mtu: 0,
        speed_mbps: 0,
        up,
        gid_index: None,
        facts: None,
    }
}

fn inventory(rails: impl IntoIterator<Item = (u32, bool)>) -> Arc<Inventory> {
    Arc::new(Inventory {
        nics: rails.into_iter().map(|(rail, up)| nic(rail, up)).collect(),
        isolation: proto_model::Isolation::with(proto_model::IsolationSet::ALL),
        ..Inventory::default()
    })
}

/// `pods` pods of `size` nodes, `rails` rails, one leaf per pod and rail.
fn fabric(pods: u32, size: u32, rails: u32) -> Fabric {
    let mut fabric = Fabric { name: "f".into(), ..Fabric::default() };
    for rail in 0..rails {
        fabric.rails.push(Rail { index: rail, name: format!("rail{rail}") });
        for pod in 0..pods {
            fabric.leaves.push(Leaf {
                name: format!("leaf-{pod}-{rail}"),
                rail,
                pod: format!("pod{pod}"),
                ..Leaf::default()
            });
            for at in 0..size {
                fabric.links.push(Link {
                    node: node(&format!("n{}", pod * size + at)),
                    nic: format!("mlx5_{rail}"),
                    leaf: format!("leaf-{pod}-{rail}"),
                    port: format!("Ethernet{at}"),
                    speed_mbps: 400_000,
                    down: false,
                    rail: None,
                });
            }
        }
    }
    fabric
}

#[test]
fn a_right_document_has_no_findings() {
    assert_eq!(check(&fabric(3, 4, 4)), []);
    assert_eq!(check(&Fabric::default()), []);
}

#[test]
fn every_fault_is_reported_not_only_the_first() {
    let mut f = fabric(2, 2, 2);
    f.links.push(Link { leaf: "leaf-1-0".into(), port: "x".into(), ..f.links[0].clone() }); // two leaves, two pods
    f.links.push(Link { nic: "mlx5_9".into(), port: "y".into(), ..f.links[0].clone() }); // two NICs on rail 0
    f.links.push(Link {
        node: node("n9"),
        nic: "a".into(),
        leaf: "nowhere".into(),
        port: String::new(),
        speed_mbps: 0,
        down: false,
        rail: None,
    });
    f.links.push(Link { node: node("n8"), ..f.links[0].clone() }); // a port twice
    f.links.push(f.links[1].clone()); // a link twice
    f.leaves.push(Leaf { name: "leaf-0-0".into(), rail: 1, pod: "pod0".into(), ..Leaf::default() }); // a leaf on two rails
    f.leaves.push(f.leaves[3].clone()); // a leaf twice
    f.leaves.push(Leaf { name: "odd".into(), rail: 7, pod: String::new(), ..Leaf::default() }); // unknown rail, no pod
    f.rails.push(Rail { index: 1, name: "rail0".into() }); // index and name twice
    f.rails.push(Rail { index: 5, name: "five".into() }); // a gap
    let findings = check(&f);
    for code in [
        "NicOnSeveralLeaves",
        "NicsOnOneRail",
        "UnknownLeaf",
        "DuplicatePort",
        "DuplicateLink",
        "LeafOnSeveralRails",
        "DuplicateLeaf",
        "UnknownRail",
        "LeafPod",
        "DuplicateRail",
        "RailIndex",
        "NodeInSeveralPods",
    ] {
        assert!(findings.iter().any(|f| f.code.as_str() == code), "{code} is missing: {findings:#?}");
    }
    assert_eq!(findings.iter().filter(|f| f.code == ReasonCode::DuplicateRail).count(), 2);
}

#[test]
fn a_rail_that_its_agent_calls_unfit_is_present_and_not_usable() {
    let condition = |severity| proto_model::NicCondition {
        code: proto_model::NicConditionCode::Storm,
        severity,
        message: "0.99 of the time".into(),
        since: proto_model::Timestamp(1),
        probe: false,
    };
    let sick = |device: &str, severity| proto_model::NicHealth {
        device: device.into(),
        score: 0,
        conditions: vec![condition(severity)],
        probe: None,
    };
    for document in [Some(fabric(1, 1, 3)), None] {
        let mut t = Topology::new(document.as_ref());
        let mut all = (*inventory([(0, true), (1, true), (2, true)])).clone();
        all.health = vec![
            sick("mlx5_1", proto_model::Severity::Degraded),
            sick("mlx5_2", proto_model::Severity::Drain),
        ];
        t.set_node(&node("n0"), &Arc::new(all.clone()));
        let server = |t: &Topology| t.server(t.index(&node("n0")).unwrap()).unwrap().clone();
        let one = server(&t);
        assert_eq!((one.present, one.usable), (RailSet::first(3), RailSet::first(2)));
        assert_eq!(one.unfit, RailSet::EMPTY.with(2));
        assert_eq!(t.findings().iter().map(|one| one.code.as_str()).collect::<Vec<_>>(), ["NicUnfit"]);
        all.health.pop();
        t.set_node(&node("n0"), &Arc::new(all));
        assert_eq!((server(&t).usable, server(&t).unfit), (RailSet::first(3), RailSet::EMPTY));
    }
}

#[test]
fn the_document_and_the_inventories_are_joined() {
    let f = fabric(2, 2, 2);
    let mut t = Topology::new(Some(&f));
    let all = inventory([(0, true), (1, true)]);
    for name in ["n0", "n1", "n2", "n3"] {
        t.set_node(&node(name), &all);
    }
    assert_eq!(t.findings(), []);
    let joined = t.clone();
    let ix = |name: &str| joined.index(&node(name)).unwrap();
    assert_eq!((t.rails(), t.pods()), (2, 2));
    assert_eq!(t.pods_of(&[ix("n0"), ix("n1")]).len(), 1);
    assert_eq!(t.pods_of(&[ix("n0"), ix("n2")]).len(), 2);
    assert!(t.aligned(&[ix("n0"), ix("n3")], RailSet::first(2)));
    assert_eq!(t.distance(ix("n0"), ix("n1"), 0), Some(1));
    assert_eq!(t.distance(ix("n0"), ix("n2"), 0), Some(3));
    assert_eq!(t.distance(ix("n0"), ix("n0"), 0), Some(0));

    t.set_node(&node("n1"), &inventory([(0, true), (1, false)]));
    t.set_node(&node("n2"), &inventory([(1, true)]));
    t.set_node(&node("n7"), &all);
    t.remove_node(&node("n3"));
    let n1 = t.index(&node("n1")).unwrap();
    assert!(!t.aligned(&[n1], RailSet::first(2)) && t.aligned(&[n1], RailSet::first(1)));
    assert_eq!(t.server(n1).unwrap().present, RailSet::first(2));
    let findings = t.findings();
    let codes: Vec<_> = findings.iter().map(|f| f.code.as_str()).collect();
    assert_eq!(codes, ["NicDown", "NicMissing", "NodeNotCabled", "NodeNotJoined"]);
    assert_eq!(t.server(t.index(&node("n7")).unwrap()).unwrap().pod, None);
}

#[test]
fn without_a_document_there_is_one_pod_and_the_inventories_rails() {
    let mut t = Topology::new(None);
    assert_eq!(t.rails(), 0);
    t.set_node(&node("a"), &inventory([(0, true), (3, true)]));
    assert_eq!((t.rails(), t.pods()), (4, 1));
    t.remove_node(&node("a"));
    assert_eq!(t, Topology::new(None));
}

#[derive(Debug, Clone)]
enum Change {
    Set(u8, u8),
    Remove(u8),
    Fabric(Option<u32>),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0u8..8, 0u8..16).prop_map(|(n, mask)| Change::Set(n, mask)),
        2 => (0u8..8).prop_map(Change::Remove),
        1 => prop::option::of(1u32..4).prop_map(Change::Fabric),
    ]
}

proptest! {
    #[test]
    fn any_order_gives_the_same_answers_and_undo_is_exact(changes in prop::collection::vec(change(), 1..40)) {
        let mut t = Topology::new(None);
        let mut nodes = std::collections::BTreeMap::new();
        let mut document: Option<Fabric> = None;
        for change in changes {
            let before = t.clone();
            match change {
                Change::Set(n, mask) => {
                    let name = node(&format!("n{n}"));
                    let inv = inventory((0..4).filter(|r| mask >> r & 1 == 1).map(|r| (r, r != 2)));
                    let old = nodes.insert(name.clone(), inv.clone());
                    t.set_node(&name, &inv);
                    let mut undone = t.clone();
                    match old {
                        Some(old) => { undone.set_node(&name, &old); }
                        None => { undone.remove_node(&name); }
                    }
                    prop_assert_eq!(&undone, &before);
                }
                Change::Remove(n) => {
                    let name = node(&format!("n{n}"));
                    let old = nodes.remove(&name);
                    t.remove_node(&name);
                    if let Some(old) = old {
                        let mut undone = t.clone();
                        undone.set_node(&name, &old);
                        prop_assert_eq!(&undone, &before);
                    }
                }
                Change::Fabric(pods) => {
                    let next = pods.map(|pods| fabric(pods, 2, 3));
                    t.set_fabric(next.as_ref());
                    let mut undone = t.clone();
                    undone.set_fabric(document.as_ref());
                    prop_assert_eq!(&undone, &before);
                    document = next;
                }
            }
            let mut fresh = Topology::new(document.as_ref());
            for (name, inventory) in &nodes {
                fresh.set_node(name, inventory);
            }
            prop_assert_eq!(fresh.rails(), t.rails());
            prop_assert_eq!(fresh.findings(), t.findings());
            let servers = |t: &Topology| t.servers().map(|(_, s)| s.clone()).collect::<Vec<_>>();
            prop_assert_eq!(servers(&fresh), servers(&t));
        }
    }
}
