//! Gangs whose nodes are not all alike: where they go, what is held of each node, what is said of those that wait, and repairs.

use std::{collections::BTreeSet, sync::Arc};

use proto_model::{Component, ComponentName, Placement, ReasonCode};

use super::*;
use crate::{
    FailureScope, Need, NodeSet, Placer, RepairRequest, Violation, place::Within, repair, repair::Sources,
};

/// Name, nodes, GPUs and CPUs of each.
fn of(components: &[(&str, u32, u32, u32)]) -> JobSpec {
    let component = |(name, nodes, gpus, cpus): &(&str, u32, u32, u32)| Component {
        name: ComponentName::new(name).unwrap(),
        nodes: *nodes,
        gpus_per_node: *gpus,
        ranks_per_node: (*gpus).max(1),
        cpus_per_node: *cpus,
        memory_per_node: 0,
        gpu_models: BTreeSet::new(),
    };
    let components: Vec<Component> = components.iter().map(component).collect();
    let gang = Component::gang(&components);
    let one = spec(1, 1, 1, true);
    JobSpec { gang, components, ..one }
}

/// Nodes by pod, with so many GPUs and CPUs, on four rails.
fn servers(servers: &[(u8, u32, u32)]) -> Snapshot {
    let pods: Vec<u8> = servers.iter().map(|(pod, ..)| *pod).collect();
    let mut snapshot = cluster(&pods);
    for (at, (_, gpus, cpus)) in servers.iter().enumerate() {
        let mut inventory = inventory(*gpus, 0b1111, 0);
        Arc::make_mut(&mut inventory).cpus = *cpus;
        snapshot.set_node(&node(at), &inventory, Gate::default());
    }
    snapshot
}

fn placement(decision: Decision) -> Placement {
    match decision {
        Decision::Place(placement) => *placement,
        Decision::Wait(wait) => panic!("waits: {:?}", wait.reasons),
    }
}

fn names(placement: &Placement) -> Vec<&str> {
    placement.nodes.iter().map(|place| place.node.as_str()).collect()
}

#[test]
fn each_component_has_its_nodes_in_rank_order() {
    // n0 and n3 have no GPU and many CPUs.
    let mut snapshot = servers(&[(0, 0, 64), (0, 4, 8), (0, 4, 8), (0, 0, 64), (0, 2, 8)]);
    let spec = of(&[("learner", 2, 4, 8), ("actor", 2, 0, 32)]);
    let placed = placement(one(&snapshot, &spec));
    assert_eq!(names(&placed), ["n1", "n2", "n0", "n3"]);
    assert_eq!((placed.pods, placed.rails.len()), (1, 1));
    let each: Vec<(usize, u32)> = placed.nodes.iter().map(|place| (place.gpus.len(), place.cpus)).collect();
    assert_eq!(each, [(4, 8), (4, 8), (0, 32), (0, 32)]);
    let ranks: Vec<(u32, &str, u32, usize)> = placed
        .ranks
        .iter()
        .map(|rank| (rank.rank, rank.node.as_str(), rank.local_rank, rank.gpus.len()))
        .collect();
    assert_eq!(ranks.len(), 10);
    assert_eq!(ranks[5], (5, "n2", 1, 1));
    assert_eq!(ranks[8..], [(8, "n0", 0, 0), (9, "n3", 0, 0)]);
    assert_eq!(check_placement(&snapshot, &tenant(), &spec, &placed), Ok(()));
    let before = snapshot.clone();
    snapshot.hold(&tenant(), &placed);
    assert_eq!(snapshot.tenant(&tenant()).held, 8);
    assert_eq!((snapshot.held(&node(0)).host.cpus, snapshot.held(&node(1)).host.cpus), (32, 8));
    snapshot.release(&tenant(), &placed);
    assert_eq!(snapshot, before);
}

#[test]
fn a_choice_holds_what_its_placement_does() {
    let mut snapshot = servers(&[(0, 4, 8), (0, 4, 8), (1, 4, 40)]);
    let spec = of(&[("a", 1, 4, 8), ("b", 1, 1, 32)]);
    let need = Need::of(&tenant(), &spec, &snapshot);
    let mut choice = crate::Choice::default();
    assert!(Placer::default().choose(snapshot.capacity_index(), &need, None, &mut choice));
    let mut other = snapshot.clone();
    snapshot.hold_choice(&tenant(), &choice);
    other.hold(&tenant(), &crate::rankmap::placement(&other, &spec, &choice));
    assert_eq!(snapshot, other);
    snapshot.release_choice(&tenant(), &choice);
    assert_eq!(snapshot.tenant(&tenant()).held, 0);
}

#[test]
fn whoever_could_be_either_leaves_the_scarce_ones() {
    // Only n1 has CPUs enough for `b`, and it could be of `a` too.
    let snapshot = servers(&[(0, 4, 8), (0, 4, 64)]);
    assert_eq!(names(&placement(one(&snapshot, &of(&[("a", 1, 4, 8), ("b", 1, 1, 32)])))), ["n0", "n1"]);
    assert_eq!(names(&placement(one(&snapshot, &of(&[("b", 1, 1, 32), ("a", 1, 4, 8)])))), ["n1", "n0"]);
}

#[test]
fn one_pod_that_has_room_for_all_comes_first() {
    let snapshot = servers(&[(0, 4, 8), (0, 4, 8), (1, 4, 8), (1, 4, 64), (1, 4, 64), (0, 4, 8)]);
    let spec = of(&[("a", 1, 4, 0), ("b", 2, 1, 32)]);
    let placed = placement(one(&snapshot, &spec));
    assert_eq!((names(&placed), placed.pods), (vec!["n2", "n3", "n4"], 1));
    // In both pods it fits where it may; inside one it never does.
    let wide = of(&[("a", 3, 4, 0), ("b", 2, 1, 32)]);
    let placed = placement(one(&snapshot, &wide));
    assert_eq!(placed.pods, 2);
    assert_eq!(check_placement(&snapshot, &tenant(), &wide, &placed), Ok(()));
    let mut inside = wide;
    inside.placement.within = Within::Pod;
    let waits = wait(one(&snapshot, &inside));
    assert!(waits.infeasible && waits.reasons[0].code == ReasonCode::GangShape, "{:?}", waits.reasons);
}

#[test]
fn what_a_component_lacks_is_told_with_its_name() {
    let mut snapshot = servers(&[(0, 4, 8), (0, 4, 8), (0, 0, 64)]);
    let waits = wait(one(&snapshot, &of(&[("learner", 2, 4, 0), ("actor", 2, 0, 32)])));
    assert!(waits.infeasible);
    let reported: Vec<String> = waits.reasons.iter().map(ToString::to_string).collect();
    assert!(
        reported
            .iter()
            .any(|reported| reported.contains("component 'actor'") && reported.contains("32 CPUs")),
        "{reported:?}"
    );
    assert!(!reported.iter().any(|reported| reported.contains("learner")), "{reported:?}");
    // The same while another job is there, and not for ever.
    let held = placement(one(&snapshot, &of(&[("x", 1, 0, 64)])));
    snapshot.hold(&tenant(), &held);
    let waits = wait(one(&snapshot, &of(&[("learner", 1, 4, 0), ("actor", 1, 0, 32)])));
    assert!(!waits.infeasible && waits.capacity);
    assert!(waits.reasons[0].message.starts_with("component 'actor': "), "{:?}", waits.reasons);
}

#[test]
fn a_quota_counts_the_gpus_of_all_components() {
    let mut snapshot = servers(&[(0, 4, 8), (0, 4, 8), (0, 4, 8)]);
    let spec = of(&[("a", 1, 4, 0), ("b", 2, 1, 0)]);
    snapshot.set_quota(&tenant(), Some(6));
    assert_eq!(placement(one(&snapshot, &spec)).nodes.len(), 3);
    snapshot.set_quota(&tenant(), Some(5));
    assert_eq!(wait(one(&snapshot, &spec)).reasons[0].code, ReasonCode::QuotaTooSmall);
}

#[test]
fn the_checker_knows_whose_node_it_is() {
    let snapshot = servers(&[(0, 4, 8), (0, 4, 64)]);
    let spec = of(&[("a", 1, 4, 8), ("b", 1, 1, 32)]);
    let good = placement(one(&snapshot, &spec));
    let flaws = |spoil: &dyn Fn(&mut Placement)| {
        let mut placed = good.clone();
        spoil(&mut placed);
        check_placement(&snapshot, &tenant(), &spec, &placed).err().unwrap_or_default()
    };
    assert_eq!(flaws(&|_| ()), []);
    let swapped = flaws(&|placed| placed.nodes.swap(0, 1));
    assert!(swapped.iter().any(|flaw| matches!(flaw, Violation::GpuCount { .. })), "{swapped:?}");
    let fewer = flaws(&|placed| placed.nodes[1].cpus = 8);
    assert!(fewer.iter().any(|flaw| matches!(flaw, Violation::Cpus { asked: 32, .. })), "{fewer:?}");
    let ranks = flaws(&|placed| placed.ranks[4].local_rank = 1);
    assert!(ranks.iter().any(|flaw| matches!(flaw, Violation::Ranks { rank: 4, .. })), "{ranks:?}");
}

#[test]
fn a_lost_node_is_replaced_by_one_that_can_be_of_its_component() {
    let mut snapshot = servers(&[(0, 4, 8), (0, 4, 8), (0, 0, 64), (0, 0, 64), (0, 4, 8), (0, 0, 64)]);
    let spec = of(&[("learner", 2, 4, 0), ("actor", 2, 0, 32)]);
    let placed = placement(one(&snapshot, &spec));
    assert_eq!(names(&placed), ["n0", "n1", "n2", "n3"]);
    snapshot.hold(&tenant(), &placed);
    let need = Need::of(&tenant(), &spec, &snapshot);
    let kept = NodeSet::default();
    let sources = Sources { spares: false, free: true };
    let after = |gone: &[usize]| {
        let lost = gone.iter().map(|at| (node(*at), FailureScope::Node)).collect();
        let request = RepairRequest { need: &need, placement: &placed, lost: &lost, sources, kept: &kept };
        repair(&snapshot, &mut Placer::default(), &request)
    };
    let actor = after(&[3]).unwrap().placement;
    assert_eq!(names(&actor), ["n0", "n1", "n2", "n5"]);
    assert_eq!((actor.ranks[9].rank, actor.ranks[9].node.as_str(), actor.nodes[3].cpus), (9, "n5", 32));
    let learner = after(&[1]).unwrap().placement;
    assert_eq!(names(&learner), ["n0", "n4", "n2", "n3"]);
    assert_eq!(
        (learner.ranks[4].rank, learner.ranks[7].node.as_str(), learner.nodes[1].gpus.len()),
        (4, "n4", 4)
    );
    let both = after(&[1, 3]).unwrap_err();
    assert_eq!(both.reasons[0].code, ReasonCode::RepairComponents);
}
