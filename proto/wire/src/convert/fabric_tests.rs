//! Lists of a fabric mean what single things mean, and the other way round.

use proptest::prelude::*;
use proto_model::{Fabric, Leaf, Link, LinkGroup, Names, NodeName, Rail, Spine};

use super::compact_fabric;
use crate::v1;

fn names(text: &str) -> Names {
    Names::new(text).unwrap()
}

fn wire(spec: v1::FabricSpec) -> v1::Fabric {
    let (api_version, kind) = ("rail/v1".into(), "Fabric".into());
    v1::Fabric { api_version, kind, spec: Some(spec), ..Default::default() }
}

fn fields(spec: v1::FabricSpec) -> Vec<String> {
    let errors = Fabric::try_from(wire(spec)).unwrap_err();
    errors.0.into_iter().map(|error| error.field).collect()
}

#[test]
fn a_group_of_several_nics_is_a_group_for_each_nic_and_leaf() {
    let group = v1::LinkGroup {
        nodes: "n[1-3]".into(),
        nics: "mlx5_[0-1]".into(),
        leaves: "a[1-2],b[1-2]".into(),
        nodes_per_leaf: 2,
        ports: "e[1-2]".into(),
        rails: vec![4, 5],
        ..Default::default()
    };
    let read = |group: &v1::LinkGroup| {
        let spec = v1::FabricSpec { link_groups: vec![group.clone()], ..Default::default() };
        Fabric::try_from(wire(spec)).unwrap().link_groups
    };
    let reported = |groups: &[LinkGroup]| -> Vec<(String, String, String, String, Option<u32>)> {
        let reported = |one: &LinkGroup| {
            (one.nodes.to_string(), one.nic.clone(), one.leaf.clone(), one.ports.to_string(), one.rail)
        };
        groups.iter().map(reported).collect()
    };
    let row = |nodes: &str, nic: &str, leaf: &str, ports: &str, rail| {
        (nodes.to_owned(), nic.to_owned(), leaf.to_owned(), ports.to_owned(), rail)
    };
    let right = [
        row("n[1-2]", "mlx5_0", "a1", "e[1-2]", Some(4)),
        row("n3", "mlx5_0", "a2", "e1", Some(4)),
        row("n[1-2]", "mlx5_1", "b1", "e[1-2]", Some(5)),
        row("n3", "mlx5_1", "b2", "e1", Some(5)),
    ];
    assert_eq!(reported(&read(&group)), right);
    let all = v1::LinkGroup {
        leaves: String::new(),
        leaf: "tor".into(),
        nodes_per_leaf: 0,
        ports: "e[1,3,5,2,4,6]".into(),
        ..group.clone()
    };
    let right = [
        row("n[1-3]", "mlx5_0", "tor", "e[1,3,5]", Some(4)),
        row("n[1-3]", "mlx5_1", "tor", "e[2,4,6]", Some(5)),
    ];
    assert_eq!(reported(&read(&all)), right);
    let wrong = |change: fn(&mut v1::LinkGroup)| {
        let mut group = group.clone();
        change(&mut group);
        fields(v1::FabricSpec { link_groups: vec![group], ..Default::default() })
    };
    assert_eq!(wrong(|group| group.nic = "x".into()), ["spec.linkGroups[0].nic"]);
    assert_eq!(wrong(|group| group.nics = "x[1-999]".into()), ["spec.linkGroups[0].nics"]);
    assert_eq!(wrong(|group| group.rails = vec![1]), ["spec.linkGroups[0].rails"]);
    assert_eq!(wrong(|group| group.rails = vec![1, 64]), ["spec.linkGroups[0].rails"]);
    assert_eq!(wrong(|group| group.leaves = "a[1-3]".into()), ["spec.linkGroups[0].nodesPerLeaf"]);
    assert_eq!(wrong(|group| group.ports = "e[1-5]".into()), ["spec.linkGroups[0].ports"]);
}

#[test]
fn switches_of_several_rails_say_all_of_them() {
    let spec = v1::FabricSpec {
        leaf_groups: vec![v1::LeafGroup {
            names: "t[1-2]".into(),
            pods: "p".into(),
            rails: vec![1, 0],
            ..Default::default()
        }],
        leaves: vec![v1::Leaf {
            name: "u".into(),
            pod: "p".into(),
            rail: 3,
            rails: vec![2, 3],
            ..Default::default()
        }],
        spine_groups: vec![v1::SpineGroup { names: "s".into(), rails: vec![0, 1], ..Default::default() }],
        ..Default::default()
    };
    let fabric = Fabric::try_from(wire(spec)).unwrap();
    let rails: Vec<Vec<u32>> = fabric.leaves.iter().map(|leaf| leaf.rails().collect()).collect();
    assert_eq!(rails, [vec![2, 3], vec![0, 1], vec![0, 1]]);
    assert_eq!(fabric.spines[0].rails().collect::<Vec<_>>(), [0, 1]);
    for (rail, rails) in [(1, vec![1, 1]), (0, vec![0, 64]), (1, vec![0, 2])] {
        let leaf = v1::Leaf { name: "u".into(), pod: "p".into(), rail, rails, ..Default::default() };
        let spec = v1::FabricSpec { leaves: vec![leaf], ..Default::default() };
        assert_eq!(fields(spec), ["spec.leaves[0].rails"]);
    }
}

/// 64 servers whose names follow no order, with the same four NICs on four leaves.
#[test]
fn a_long_list_of_servers_is_said_once_for_all_their_nics() {
    let servers: Vec<String> =
        (0..64_u64).map(|at| format!("i{:x}z", at * 0x9E37_79B9 % 0xFFFF_FFFB)).collect();
    let group = |nic: u32, ports: &str| LinkGroup {
        nodes: Names::of(&servers),
        nic: format!("mlx5_{nic}"),
        leaf: format!("leaf{nic}"),
        ports: names(ports),
        ..LinkGroup::default()
    };
    let mut fabric = Fabric { name: "f".into(), ..Fabric::default() };
    fabric.link_groups = (0..4).map(|nic| group(nic, "e[1-64]")).collect();
    let short = compact_fabric(&fabric).spec.unwrap().link_groups;
    assert_eq!(
        (short.len(), short[0].nics.as_str(), short[0].leaves.as_str()),
        (1, "mlx5_[0-3]", "leaf[0-3]")
    );
    assert_eq!(Fabric::try_from(compact_fabric(&fabric)), Ok(fabric.clone()));
    // One leaf for all of them, and each NIC on ports of its own.
    fabric.link_groups =
        (0..4).map(|nic| group(nic, &format!("e[{}-{}]", nic * 64, nic * 64 + 63))).collect();
    for (rail, group) in (0..).zip(&mut fabric.link_groups) {
        group.leaf = "tor".into();
        group.rail = Some(rail);
    }
    let short = compact_fabric(&fabric).spec.unwrap().link_groups;
    assert_eq!((short.len(), short[0].leaf.as_str(), short[0].ports.as_str()), (1, "tor", "e[0-255]"));
    assert_eq!(short[0].rails, [0, 1, 2, 3]);
    assert_eq!(Fabric::try_from(compact_fabric(&fabric)), Ok(fabric));
}

fn group() -> impl Strategy<Value = LinkGroup> {
    let nodes = prop::collection::btree_set(0_u32..40, 1..6);
    let long = prop::collection::btree_set("[a-z]{24}", 5..7);
    (nodes, long, 0_u32..3, 0_u32..3, any::<[bool; 4]>(), prop::option::of(0_u32..3)).prop_map(
        |(nodes, long, nic, leaf, [ported, fast, irregular, shifted], rail)| {
            let nodes: Vec<String> = if irregular {
                long.into_iter().collect()
            } else {
                nodes.iter().map(|at| format!("n{at}")).collect()
            };
            let first = u32::from(shifted);
            let ports = (0..nodes.len() as u32).map(|at| format!("e{}", at + first));
            LinkGroup {
                ports: if ported { Names::of(ports) } else { Names::default() },
                nodes: Names::of(&nodes),
                nic: format!("x{nic}"),
                leaf: format!("l{leaf}"),
                speed_mbps: u64::from(fast),
                rail,
            }
        },
    )
}

proptest! {
    #[test]
    fn a_compact_document_means_the_same(
        groups in prop::collection::vec((group(), 1_usize..4), 0..12),
        leaves in prop::collection::vec((0_u32..4, prop::collection::btree_set(4_u32..8, 0..3), any::<bool>()), 0..12),
    ) {
        let mut fabric = Fabric { name: "f".into(), ..Fabric::default() };
        fabric.rails.push(Rail { index: 0, name: "r".into() });
        for (at, (rail, more, down)) in leaves.into_iter().enumerate() {
            let more_rails: Vec<u32> = more.into_iter().collect();
            let name = format!("l{at}");
            fabric.spines.push(Spine { name: format!("s{at}"), rail, more_rails: more_rails.clone(), plane: 0, down });
            fabric.leaves.push(Leaf { name, rail, more_rails, pod: format!("p{}", at / 3), plane: 0, down });
        }
        let node = NodeName::new("n1").unwrap();
        let (nic, leaf, port) = ("x".into(), "l0".into(), String::new());
        fabric.links.push(Link { node, nic, leaf, port, speed_mbps: 0, down: true, rail: Some(0) });
        // The same servers with several NICs, one behind the other.
        for (group, times) in groups {
            for nic in 0..times {
                fabric.link_groups.push(LinkGroup { nic: format!("{}{nic}", group.nic), ..group.clone() });
            }
        }
        prop_assert_eq!(Fabric::try_from(compact_fabric(&fabric)), Ok(fabric.clone()));
        prop_assert_eq!(Fabric::try_from(v1::Fabric::from(&fabric)), Ok(fabric));
    }
}
