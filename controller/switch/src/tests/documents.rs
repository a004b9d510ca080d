//! Switches of fabric documents.

use proto_model::{Fabric, Leaf, Link, Names, NodeName, Spine, Uplink};
use proto_profile::QosProfile;

use crate::{
    asic::Asic,
    check::{Facts, Verdict, check},
    fabric::{Finding, Hardware, switches},
    model::{Nos, Peer, Role},
    state::BufferModel,
};

fn hardware(role: Role) -> Hardware {
    Hardware {
        nos: Nos::Sonic,
        version: "202411".into(),
        asic: Asic::Spectrum4,
        lanes: 8,
        cable_m: if role == Role::Leaf { 5 } else { 50 },
    }
}

fn names(list: &[&str]) -> Names {
    Names::of(list.iter().copied())
}

/// Two servers with two rails, two spines above the leaves and one above these; the second rail's ports are not named.
pub(super) fn document() -> Fabric {
    let link = |node: &str, rail: u32, port: &str| Link {
        node: NodeName::new(node).unwrap(),
        nic: format!("mlx5_{rail}"),
        leaf: format!("leaf{rail}"),
        port: port.into(),
        speed_mbps: 400_000,
        down: false,
        rail: None,
    };
    let leaf = |rail: u32| Leaf { name: format!("leaf{rail}"), rail, pod: "p0".into(), ..Leaf::default() };
    let spine = |name: &str| Spine { name: name.into(), more_rails: vec![1], ..Spine::default() };
    let uplink = |lower: &[&str], upper: &[&str], cables| Uplink {
        lower: names(lower),
        upper: names(upper),
        cables,
        speed_mbps: 800_000,
        down: 0,
    };
    Fabric {
        name: "f".into(),
        leaves: vec![leaf(0), leaf(1)],
        links: vec![
            link("n0", 0, "Ethernet8"),
            link("n1", 0, "Ethernet0"),
            link("n0", 1, ""),
            link("n1", 1, ""),
        ],
        spines: vec![spine("top"), spine("s0"), spine("s1")],
        uplinks: vec![uplink(&["s0", "s1"], &["top"], 1), uplink(&["leaf0", "leaf1"], &["s0", "s1"], 2)],
        ..Fabric::default()
    }
}

#[test]
fn a_document_gives_switches_that_are_cabled_both_ways() {
    let all = switches(&document(), &hardware).unwrap();
    let text: Vec<String> = all.iter().map(|switch| format!("{} {}", switch.name, switch.role)).collect();
    assert_eq!(
        text,
        ["leaf0 leaf", "leaf1 leaf", "s0 spine of tier 1", "s1 spine of tier 1", "top spine of tier 2"]
    );
    let ports = |at: usize| -> Vec<&str> { all[at].ports.iter().map(|port| port.name.as_str()).collect() };
    assert_eq!(ports(0), ["Ethernet8", "Ethernet0", "Ethernet16", "Ethernet24", "Ethernet32", "Ethernet40"]);
    assert_eq!(ports(1), ["Ethernet0", "Ethernet8", "Ethernet16", "Ethernet24", "Ethernet32", "Ethernet40"]);
    for switch in &all {
        for port in &switch.ports {
            let Peer::Switch { switch: to, port: at } = &port.peer else {
                assert_eq!((port.speed, port.cable_m, port.lanes.len()), (Some(400), 5, 8));
                continue;
            };
            let far = all.iter().find(|other| other.name == *to).and_then(|other| other.port(at)).unwrap();
            let back = Peer::Switch { switch: switch.name.clone(), port: port.name.clone() };
            assert_eq!((&far.peer, far.speed, port.speed, port.cable_m), (&back, Some(800), Some(800), 50));
        }
    }
    let profile = QosProfile::default();
    let facts = Facts::desired(&profile, &all, BufferModel::Static).unwrap();
    let Verdict::Proof(proof) = check(&profile, &all, &facts).unwrap() else { panic!() };
    assert_eq!((proof.switches, proof.ports, proof.nics), (5, 6 + 6 + 5 + 5 + 2, 4));
}

#[test]
fn what_a_document_does_not_say_is_named_all_at_once() {
    let mut fabric = document();
    fabric.links[0].port = "Ethernet0".into();
    fabric.links[1].nic = "a\"b".into();
    fabric.links[2].speed_mbps = 0;
    fabric.links[3].leaf = "leaf9".into();
    fabric.leaves[0].pod = "p\n0".into();
    let wrong = switches(&fabric, &hardware).unwrap_err();
    let is = |what: fn(&Finding) -> bool| wrong.iter().filter(|one| what(one)).count();
    assert_eq!(is(|one| matches!(one, Finding::Name(_))), 2, "{wrong:?}");
    assert_eq!(is(|one| matches!(one, Finding::NoSpeed { .. })), 1, "{wrong:?}");
    assert_eq!(is(|one| matches!(one, Finding::Nowhere { .. })), 1, "{wrong:?}");
    let mut fabric = document();
    fabric.links[0].port = "Ethernet0".into();
    assert!(matches!(&switches(&fabric, &hardware).unwrap_err()[..], [Finding::PortTwice { .. }]));
    fabric = document();
    fabric.uplinks.push(Uplink {
        lower: names(&["top"]),
        upper: names(&["s0"]),
        cables: 1,
        speed_mbps: 1,
        down: 0,
    });
    let wrong = switches(&fabric, &hardware).unwrap_err();
    assert!(wrong.iter().any(|one| matches!(one, Finding::Circle(_))), "{wrong:?}");
}
