//! Cables in groups are the same cables, and regular ones are few groups.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proto_model::{Fabric, Leaf, Link, NodeName};

use crate::gather;

fn link(node: &str, nic: &str, leaf: &str, port: &str) -> Link {
    let (node, nic, leaf) = (NodeName::new(node).unwrap(), nic.into(), leaf.into());
    Link { node, nic, leaf, port: port.into(), speed_mbps: 0, down: false, rail: None }
}

fn shown(fabric: &Fabric) -> Vec<[String; 3]> {
    let reported = |group: &proto_model::LinkGroup| {
        [format!("{} {}", group.nic, group.leaf), group.nodes.to_string(), group.ports.to_string()]
    };
    fabric.link_groups.iter().map(reported).collect()
}

#[test]
fn the_shorter_order_of_servers_and_ports_is_taken() {
    let links = vec![
        // The servers in order, the ports not.
        link("n1", "a", "l1", "e7"),
        link("n2", "a", "l1", "e3"),
        link("n3", "a", "l1", "e5"),
        // Neither list follows the other, and the servers' names no order.
        link("kilo", "a", "l2", "Ethernet1/1/3/1"),
        link("alfa", "a", "l2", "Ethernet1/2/1/1"),
        link("papa", "a", "l2", "Ethernet1/1/2/1"),
        link("lima", "a", "l2", "Ethernet1/1/1/1"),
        // One alone.
        link("n9", "a", "l3", "e1"),
        Link { down: true, ..link("n4", "a", "l1", "e4") },
        link("n5", "b", "l1", "e[1,2]"),
    ];
    let made = gather(Fabric { links, ..Fabric::default() });
    let right = [
        ["a l1", "n[1-3]", "e[7,3,5]"],
        ["a l2", "alfa,kilo,lima,papa", "Ethernet1/2/1/1,Ethernet1/1/3/1,Ethernet1/1/1/1,Ethernet1/1/2/1"],
    ];
    assert_eq!(shown(&made), right);
    assert_eq!(made.links.iter().map(|link| link.node.as_str()).collect::<Vec<_>>(), ["n4", "n5", "n9"]);
}

#[test]
fn servers_without_an_order_follow_their_ports() {
    let links = (0..40_u64)
        .map(|at| link(&format!("i{:x}z", at * 0x9E37_79B9 % 0xFFFB), "a", "l", &format!("swp{at}x")))
        .collect();
    let made = gather(Fabric { links, ..Fabric::default() });
    assert_eq!((made.link_groups.len(), made.link_groups[0].ports.to_string().as_str()), (1, "swp[0-39]x"));
}

proptest! {
    #[test]
    fn the_cables_are_the_same(
        rows in prop::collection::vec((0_u32..9, 0_u32..3, 0_u32..4, 0_u32..30, any::<bool>(), 0_u64..3), 0..60),
    ) {
        let mut fabric = Fabric::default();
        for leaf in 0..4 {
            fabric.leaves.push(Leaf { name: format!("l{leaf}"), pod: format!("p{}", leaf / 2), ..Leaf::default() });
        }
        for (node, nic, leaf, port, named, speed) in rows {
            let port = if named { format!("e{port}") } else { String::new() };
            let one = link(&format!("n{node}"), &format!("x{nic}"), &format!("l{leaf}"), &port);
            fabric.links.push(Link { speed_mbps: speed, down: speed == 2, ..one });
        }
        let all = |fabric: &Fabric| {
            let mut all: Vec<_> = fabric.each_link().map(|link| (link.node.clone(), format!("{link:?}"))).collect();
            all.sort();
            all
        };
        let made = gather(fabric.clone());
        prop_assert_eq!(all(&made), all(&fabric));
        let pairs: BTreeSet<_> = fabric.links.iter().map(|link| (&link.leaf, &link.nic, link.speed_mbps, link.port.is_empty(), link.down)).collect();
        prop_assert!(made.link_groups.len() <= pairs.len());
        fabric.links.reverse();
        prop_assert_eq!(gather(fabric).cable_count(), made.cable_count());
    }
}
