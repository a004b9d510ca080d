//! Cables that are there against those of a document.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proto_model::Fabric;

use crate::{Shape, Verdict, generate, lldp, lldp::Neighbor, verify};

fn fabric(nodes: u32, rails: u32) -> Fabric {
    generate(&Shape { nodes, rails, radix: 8, pod: Some(4), ..Shape::default() }).unwrap().fabric
}

fn right(fabric: &Fabric) -> Vec<Neighbor> {
    let heard = fabric.each_link();
    heard
        .map(|link| Neighbor { node: link.node, nic: link.nic, switch: link.leaf, port: link.port })
        .collect()
}

fn swap(heard: &mut [Neighbor], a: usize, b: usize) {
    let (p, q) = (heard[a].clone(), heard[b].clone());
    (heard[a].switch, heard[a].port) = (q.switch, q.port);
    (heard[b].switch, heard[b].port) = (p.switch, p.port);
}

fn reported(verdict: &Verdict) -> Vec<String> {
    let end = |end: &Option<crate::verify::End>| {
        end.as_ref().map_or_else(|| "-".to_owned(), |end| format!("{} {}", end.switch, end.port))
    };
    verdict
        .moves
        .iter()
        .map(|step| format!("{} {}: {} > {}", step.node, step.nic, end(&step.from), end(&step.to)))
        .collect()
}

#[test]
fn what_is_right_is_right() {
    let f = fabric(8, 2);
    let verdict = verify(&f, &right(&f), true);
    assert!(verdict.is_right() && verdict.moves.is_empty());
    assert_eq!((verdict.planned, verdict.right), (16, 16));
}

#[test]
fn a_swap_between_leaves_hangs_one_cable_and_a_free_port_saves_that() {
    let f = fabric(8, 2);
    let mut heard = right(&f);
    heard.sort();
    swap(&mut heard, 0, 1); // both NICs of gpu1
    let verdict = verify(&f, &heard, false);
    assert_eq!((verdict.wrong.len(), verdict.right), (2, 14));
    assert_eq!(
        reported(&verdict),
        [
            "gpu1 mlx5_0: r1-leaf1 Ethernet1 > -",
            "gpu1 mlx5_1: r0-leaf1 Ethernet1 > r1-leaf1 Ethernet1",
            "gpu1 mlx5_0: - > r0-leaf1 Ethernet1",
        ]
    );
    // A NIC that hears a port that the document does not name shows that there is one more port.
    heard[2].port = "Ethernet9".into();
    let verdict = verify(&f, &heard, false);
    assert_eq!((verdict.other_port.len(), verdict.moves.len()), (1, 2), "{:?}", reported(&verdict));
    assert_eq!(verify(&f, &heard, true).moves.len(), 4, "exactly: the swap and the port");
}

#[test]
fn silence_strangers_and_other_networks_are_told_apart() {
    let f = fabric(8, 2);
    let mut heard = right(&f);
    heard.sort();
    heard.retain(|one| one.node.as_str() != "gpu8" && !(one.node.as_str() == "gpu7" && one.nic == "mlx5_1"));
    let stranger = Neighbor { nic: "eth9".into(), port: "Ethernet44".into(), ..heard[0].clone() };
    heard.push(stranger.clone());
    heard.push(Neighbor { switch: "storage-1".into(), ..stranger.clone() });
    let verdict = verify(&f, &heard, false);
    assert_eq!((verdict.silent.len(), verdict.silent_nodes.len(), verdict.foreign), (1, 1, 1));
    assert_eq!(verdict.unplanned, [stranger]);
    assert!(!verdict.is_right() && verdict.moves.is_empty());
}

#[test]
fn names_of_switches_may_differ_in_case_and_domain() {
    let f = fabric(4, 1);
    let mut heard = right(&f);
    heard[0].switch = "R0-LEAF1".into();
    heard[1].switch = "r0-leaf1.dc.example".into();
    assert!(verify(&f, &heard, true).is_right());
}

#[test]
fn two_ports_of_one_nic_are_two_cables() {
    let shape = Shape { nodes: 2, rails: 1, radix: 8, planes: 2, ..Shape::default() };
    let f = generate(&shape).unwrap().fabric;
    let mut heard = right(&f);
    assert!(verify(&f, &heard, true).is_right());
    heard.reverse();
    assert!(verify(&f, &heard, true).is_right(), "in any order");
    heard.pop();
    assert_eq!(verify(&f, &heard, true).silent.len(), 1);
}

#[test]
fn lldp_is_read_as_lines_and_as_a_table() {
    let lines = "gpu1: lldp.ens11np0.via=LLDP\ngpu1: lldp.ens11np0.chassis.name=leaf-1\n\
        gpu1: lldp.ens11np0.port.ifname=Ethernet1/1\ngpu1: lldp.ens11np0.port.descr=to gpu1\n\
        GPU2: lldp.ens11np0.100.chassis.name=leaf-1\nGPU2: lldp.ens11np0.100.port.descr=Ethernet1/2\n\
        gpu3: lldp.a.chassis.name=x\ngpu3: lldp.a.chassis.name=y\ngpu3: lldp.a.port.ifname=1\ngpu3: lldp.b.chassis.name=x\nnoise\n";
    let heard = lldp::read(lines.as_bytes()).unwrap();
    assert_eq!((heard.facts, heard.left_out, heard.other_lines), (4, 2, 1));
    let short = |heard: &lldp::Heard| -> Vec<String> {
        heard
            .neighbors
            .iter()
            .map(|one| format!("{} {} {} {}", one.node, one.nic, one.switch, one.port))
            .collect()
    };
    assert_eq!(short(&heard), ["gpu1 ens11np0 leaf-1 Ethernet1/1", "gpu2 ens11np0.100 leaf-1 Ethernet1/2"]);
    let codes: Vec<_> = heard.faults.iter().map(|fault| (fault.line, fault.code.as_str())).collect();
    assert_eq!(codes, [(7, "SeveralNeighbors"), (10, "Missing")]);
    assert_eq!(lldp::read(b"lldp.a.chassis.name=x"), Err(lldp::LldpError::NoServer { line: 1 }));
    let table =
        lldp::read(b"node,netdev,switch,port\ngpu1,ens11np0,leaf-1,Ethernet1/1\ngpu2,,x,1\n").unwrap();
    assert_eq!((short(&table).len(), table.left_out, table.faults[0].line), (1, 1, 3));
    assert!(lldp::read(b"nonsense").is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn after_the_moves_all_is_right(
        swaps in prop::collection::vec((0usize..32, 0usize..32), 0..12),
        lost in prop::collection::vec(0usize..32, 0..4),
        exact in any::<bool>(),
    ) {
        let f = fabric(16, 2);
        let mut heard = right(&f);
        for (a, b) in swaps {
            swap(&mut heard, a, b);
        }
        for at in lost {
            heard.remove(at % heard.len());
        }
        let verdict = verify(&f, &heard, exact);
        let mut at: BTreeMap<_, _> = heard.iter().map(|one| ((one.node.clone(), one.nic.clone()), one.clone())).collect();
        let mut hanging = BTreeMap::new();
        for step in &verdict.moves {
            let key = (step.node.clone(), step.nic.clone());
            let mut cable = match &step.from {
                Some(from) => {
                    let cable = at.remove(&key).unwrap();
                    prop_assert_eq!((&cable.switch, &cable.port), (&from.switch, &from.port));
                    cable
                }
                None => hanging.remove(&key).unwrap(),
            };
            match &step.to {
                Some(to) => {
                    prop_assert!(!at.values().any(|other| other.switch == to.switch && other.port == to.port), "taken: {:?}", step);
                    (cable.switch, cable.port) = (to.switch.clone(), to.port.clone());
                    at.insert(key, cable);
                }
                None => drop(hanging.insert(key, cable)),
            }
        }
        prop_assert!(hanging.is_empty());
        let after: Vec<Neighbor> = at.into_values().collect();
        let then = verify(&f, &after, exact);
        prop_assert!(then.wrong.is_empty() && then.moves.is_empty(), "{:?}", then.wrong);
        prop_assert_eq!(then.planned, verdict.planned);
        prop_assert!(verdict.moves.len() >= verdict.wrong.len());
    }
}
