//! Leaves that serve several rails: single-ToR designs, and those with a leaf for a group of rails.

use proto_model::{Fabric, Leaf, LinkGroup, Names, Rail, Reason, Spine, Uplink};

use super::{inventory, node};
use crate::{RailSet, Topology, check};

fn codes(findings: &[Reason]) -> Vec<&str> {
    findings.iter().map(|finding| finding.code.as_str()).collect()
}

/// Two pods of two servers with four NICs; `each` rails share a leaf of their pod, and all leaves the spines.
fn fabric(each: u32) -> Fabric {
    let rails = (0..4).map(|index| Rail { index, name: format!("rail{index}") });
    let mut f = Fabric { rails: rails.collect(), ..Fabric::default() };
    for pod in 0..2 {
        for rail in 0..4 {
            let leaf = format!("tor{pod}-{}", rail / each);
            if rail % each == 0 {
                let more_rails = (rail + 1..rail + each).collect();
                f.leaves.push(Leaf {
                    name: leaf.clone(),
                    rail,
                    more_rails,
                    pod: format!("p{pod}"),
                    ..Leaf::default()
                });
            }
            f.link_groups.push(LinkGroup {
                nodes: Names::new(&format!("n[{}-{}]", pod * 2, pod * 2 + 1)).unwrap(),
                nic: format!("mlx5_{rail}"),
                leaf,
                ports: Names::new(&format!("e[{}-{}]", rail * 2, rail * 2 + 1)).unwrap(),
                speed_mbps: 200_000,
                rail: (each > 1).then_some(rail),
            });
        }
    }
    f
}

fn spined(mut f: Fabric) -> Fabric {
    for spine in ["s0", "s1"] {
        f.spines.push(Spine { name: spine.into(), rail: 0, more_rails: vec![1, 2, 3], ..Spine::default() });
    }
    let lower = Names::of(f.leaves.iter().map(|leaf| &leaf.name));
    let upper = Names::new("s[0-1]").unwrap();
    f.uplinks.push(Uplink { lower, upper, cables: 1, speed_mbps: 400_000, down: 0 });
    f
}

#[test]
fn rails_that_share_a_leaf_are_rails_all_the_same() {
    for (each, leaves) in [(4, 2), (2, 4), (1, 8)] {
        for f in [fabric(each), spined(fabric(each))] {
            assert_eq!(check(&f), [], "{each}");
            let mut t = Topology::new(Some(&f));
            t.furnish(8);
            assert_eq!((t.len(), t.leaves(), t.rails(), t.findings()), (4, leaves, 4, vec![]));
            let all: Vec<_> = t.servers().map(|(ix, _)| ix).collect();
            assert!(t.aligned(&all, RailSet::first(4)), "{each}");
            for rail in 0..4 {
                assert_eq!(t.distance(all[0], all[1], rail), Some(1), "over the leaf that both are on");
                assert_eq!(t.distance(all[0], all[2], rail), Some(3));
                let pod = t.server(all[0]).unwrap().pod.unwrap();
                let own = format!("tor0-{}", rail / each);
                assert_eq!(t.leaves_of(pod, rail).collect::<Vec<_>>(), [own.as_str()]);
            }
            assert!(t.servers().all(|(_, server)| server.usable == RailSet::first(4)));
        }
    }
}

#[test]
fn a_leaf_that_is_down_takes_all_its_rails_along() {
    let mut f = spined(fabric(2));
    f.leaves[1].down = true;
    let mut t = Topology::new(Some(&f));
    t.set_node(&node("n0"), &inventory((0..4).map(|rail| (rail, true))));
    let server = t.server(t.index(&node("n0")).unwrap()).unwrap();
    assert_eq!((server.present, server.usable), (RailSet::first(4), RailSet::first(2)));
}

#[test]
fn a_cable_to_such_a_leaf_says_its_rail() {
    let mut f = fabric(4);
    f.link_groups[0].rail = None;
    f.link_groups[5].rail = Some(7);
    let findings = check(&f);
    assert_eq!(codes(&findings), ["LinkRail", "LinkRail"]);
    assert!(
        findings[0].message.contains("mlx5_0 of n[0-1] does not say its rail"),
        "{}",
        findings[0].message
    );
    assert!(findings[1].message.contains("said to be on rail 7"), "{}", findings[1].message);
    // What is faulty is left out, and the rest stands.
    let mut t = Topology::new(Some(&f));
    t.furnish(8);
    let usable: Vec<u32> = t.servers().map(|(_, server)| server.usable.len()).collect();
    assert_eq!(usable, [3, 3, 3, 3]);
    let mut f = fabric(1);
    f.link_groups[2].rail = Some(1);
    assert_eq!(codes(&check(&f)), ["LinkRail"], "a leaf of one rail, too");
    let mut f = fabric(4);
    f.link_groups[1].rail = Some(0);
    assert_eq!(codes(&check(&f)), ["NicsOnOneRail", "NicsOnOneRail"]);
}

#[test]
fn switches_meet_where_they_have_a_rail_in_common() {
    let mut f = spined(fabric(2));
    f.spines[0].more_rails = vec![1];
    let findings = check(&f);
    assert_eq!(codes(&findings), ["UplinkAcrossRails"]);
    assert!(findings[0].message.contains("rail 2,3, plane 0"), "{}", findings[0].message);
    let mut f = fabric(2);
    f.leaves.push(Leaf { name: "tor0-0".into(), rail: 2, pod: "p0".into(), ..Leaf::default() });
    assert_eq!(codes(&check(&f)), ["LeafOnSeveralRails"]);
    f.leaves.push(Leaf {
        name: "odd".into(),
        rail: 0,
        more_rails: vec![9],
        pod: "p0".into(),
        ..Leaf::default()
    });
    assert!(codes(&check(&f)).contains(&"UnknownRail"));
}
