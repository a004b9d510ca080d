//! Spines, planes, what is down, lists of cables, and what a large document costs.

use proto_model::{Fabric, Leaf, LinkGroup, Names, Neighbor, Reason, ReasonCode, Spine, Uplink};

use super::{fabric, inventory, node};
use crate::{NodeIx, RailSet, Topology, check};

fn names(text: &str) -> Names {
    Names::new(text).unwrap()
}

fn codes(findings: &[Reason]) -> Vec<&str> {
    findings.iter().map(|finding| finding.code.as_str()).collect()
}

/// Two pods of two nodes, one rail, each NIC with a port on each of two planes, a spine per plane.
fn dual() -> Fabric {
    let mut f = Fabric { rails: fabric(1, 1, 1).rails, ..Fabric::default() };
    for plane in 0..2 {
        let spine = format!("s{plane}");
        for pod in 0..2 {
            let leaf = format!("l{pod}{plane}");
            f.leaves.push(Leaf { name: leaf.clone(), pod: format!("p{pod}"), plane, ..Leaf::default() });
            f.link_groups.push(LinkGroup {
                nodes: names(&format!("n[{}-{}]", pod * 2, pod * 2 + 1)),
                nic: "mlx5_0".into(),
                leaf,
                ports: names("e[1-2]"),
                speed_mbps: 200_000,
                rail: None,
            });
        }
        f.uplinks.push(Uplink {
            lower: names(&format!("l[0-1]{plane}")),
            upper: names(&spine),
            cables: 2,
            speed_mbps: 400_000,
            down: 0,
        });
        f.spines.push(Spine { name: spine, plane, ..Spine::default() });
    }
    f
}

fn furnished(f: &Fabric) -> Topology {
    let mut t = Topology::new(Some(f));
    t.furnish(8);
    t
}

fn ix(t: &Topology, name: &str) -> NodeIx {
    t.index(&node(name)).unwrap()
}

#[test]
fn both_planes_carry_and_one_is_enough() {
    let mut f = dual();
    assert_eq!(check(&f), []);
    let t = furnished(&f);
    assert_eq!((t.len(), t.leaves(), t.findings()), (4, 4, vec![]));
    let port = t.server(ix(&t, "n0")).unwrap().ports[0].unwrap();
    assert_eq!((port.mbps, port.leaves().count(), port.up), (400_000, 2, true));
    assert_eq!(t.leaf(port.leaf.unwrap()).unwrap().uplink_mbps, 800_000);
    assert_eq!(t.distance(ix(&t, "n0"), ix(&t, "n1"), 0), Some(1));
    assert_eq!(t.distance(ix(&t, "n0"), ix(&t, "n2"), 0), Some(3));
    let pod = t.server(ix(&t, "n0")).unwrap().pod.unwrap();
    assert_eq!(t.leaves_on(pod, 0).len(), 2);

    f.leaves[0].down = true; // plane 0 of pod 0
    let t = furnished(&f);
    let port = t.server(ix(&t, "n0")).unwrap().ports[0].unwrap();
    assert_eq!((port.mbps, port.second, t.leaf_name(port.leaf.unwrap())), (200_000, None, "l01"));
    assert_eq!(t.distance(ix(&t, "n0"), ix(&t, "n2"), 0), Some(3), "over plane 1");
    assert!(t.findings().iter().any(|f| f.code == ReasonCode::SwitchDown));

    f.leaves[3].down = true; // plane 1 of pod 1: the pods have no plane in common
    let t = furnished(&f);
    let (a, b, c) = (ix(&t, "n0"), ix(&t, "n1"), ix(&t, "n2"));
    assert_eq!((t.distance(a, b, 0), t.distance(a, c, 0)), (Some(1), None));
    assert!(t.aligned(&[a, b], RailSet::first(1)) && !t.aligned(&[a, c], RailSet::first(1)));
}

#[test]
fn leaves_reach_each_other_over_working_spines_only() {
    let mut f = fabric(3, 1, 1);
    f.spines = ["s0", "s1", "core"].map(|name| Spine { name: name.into(), ..Spine::default() }).into();
    let up = |lower: &str, upper: &str| Uplink {
        lower: names(lower),
        upper: names(upper),
        cables: 1,
        speed_mbps: 0,
        down: 0,
    };
    f.uplinks = vec![up("leaf-[0-1]-0", "s0"), up("leaf-2-0", "s1"), up("s[0-1]", "core")];
    assert_eq!(check(&f), []);
    let hops = |f: &Fabric| {
        let t = furnished(f);
        (t.distance(ix(&t, "n0"), ix(&t, "n1"), 0), t.distance(ix(&t, "n0"), ix(&t, "n2"), 0))
    };
    assert_eq!(hops(&f), (Some(3), Some(5)));
    f.uplinks[2].down = 1;
    assert_eq!(hops(&f), (Some(3), None), "a cable that is down carries nothing");
    f.uplinks[2].down = 0;
    f.spines[2].down = true;
    assert_eq!(hops(&f), (Some(3), None));
    f.spines[0].down = true;
    assert_eq!(hops(&f), (None, None));
    let t = furnished(&f);
    assert!(t.aligned(&[ix(&t, "n0")], RailSet::first(1)), "alone it reaches itself");
}

#[test]
fn a_cable_or_leaf_that_is_down_takes_the_port_with_it() {
    let mut f = fabric(1, 2, 2);
    f.links[0].down = true;
    let t = furnished(&f);
    let server = t.server(ix(&t, "n0")).unwrap();
    assert_eq!((server.present, server.usable), (RailSet::first(2), [1].into_iter().collect()));
    assert_eq!(codes(&t.findings()), ["LinkDown"]);
    let mut slow = (*inventory([(0, true), (1, true)])).clone();
    slow.nics[1].speed_mbps = 100_000;
    let mut t = t;
    t.set_node(&node("n1"), &slow.into());
    assert_eq!(codes(&t.findings()), ["LinkDown", "LinkSpeed"]);
    assert_eq!(t.server(ix(&t, "n1")).unwrap().ports[1].unwrap().mbps, 100_000);
}

#[test]
fn faults_of_lists_and_spines_are_found() {
    let mut f = dual();
    f.link_groups[0].ports = names("e1,e1");
    f.link_groups[1].nodes = names("n2,n2");
    f.link_groups[2].leaf = "nowhere".into();
    f.spines.push(Spine { name: "s0".into(), ..Spine::default() });
    f.spines.push(Spine { name: "l00".into(), rail: 9, ..Spine::default() });
    let up =
        |lower: &str, upper: &str| Uplink { lower: names(lower), upper: names(upper), ..Uplink::default() };
    f.uplinks.push(up("l00", "s1"));
    f.uplinks.push(up("s0,gone", "s0,l10"));
    let found = check(&f);
    for code in [
        "DuplicatePort",
        "DuplicateLink",
        "UnknownLeaf",
        "DuplicateSpine",
        "DuplicateSwitch",
        "UnknownRail",
        "UplinkAcrossRails",
        "UnknownSwitch",
        "UplinkToItself",
    ] {
        assert!(codes(&found).contains(&code), "{code} is missing: {found:#?}");
    }
    let mut twice = dual();
    twice.leaves[2].plane = 0;
    assert!(codes(&check(&twice)).contains(&"NicOnSeveralLeaves"), "two leaves of one plane");
}

#[test]
fn single_cables_and_lists_of_them_mean_the_same() {
    let lists = dual();
    let single = Fabric { links: lists.each_link().collect(), link_groups: vec![], ..lists.clone() };
    assert_eq!((single.links.len(), lists.cable_count(), lists.node_count()), (8, 8, 4));
    assert_eq!(furnished(&single), furnished(&lists));
    assert_eq!(check(&single), []);
}

#[test]
fn a_nic_that_hears_another_leaf_is_not_used() {
    let f = fabric(2, 1, 2);
    let mut t = Topology::new(Some(&f));
    let hears = |switch: &str| {
        let mut inventory = (*inventory([(0, true), (1, true)])).clone();
        let neighbor = |rail: u32, switch: &str| Neighbor {
            netdev: format!("eth{rail}"),
            switch: switch.into(),
            port: "Ethernet0".into(),
        };
        inventory.neighbors = vec![neighbor(0, switch), neighbor(1, "leaf-0-1"), neighbor(9, "leaf-1-1")];
        std::sync::Arc::new(inventory)
    };
    for (switch, usable) in [("leaf-0-0", 2), ("leaf-1-0", 1), ("leaf-0-1", 1), ("storage-7", 2)] {
        t.set_node(&node("n0"), &hears(switch));
        let server = t.server(ix(&t, "n0")).unwrap();
        assert_eq!((server.present.len(), server.usable.len()), (2, usable), "{switch}");
        let found = t.findings();
        assert_eq!(codes(&found).contains(&"Miscabled"), usable == 1, "{found:?}");
    }
}
