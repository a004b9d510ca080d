//! What is held, by names and by numbers: both ways lead to the same, and each is undone exactly.

use controller_topology::RailSet;

use super::{cluster, inventory, node, spec, tenant};
use crate::{Choice, Gate, Host, Need, Placer, RailNeed, Snapshot, rankmap};

/// Gangs of several sizes, as long as there is room: with what each left of the cluster.
fn fill(snapshot: &mut Snapshot) -> Vec<(Choice, proto_model::Placement)> {
    let mut placer = Placer::default();
    let mut gangs = Vec::new();
    for (nodes, gpus, spares) in [(3, 4, 0), (1, 1, 0), (2, 4, 1), (1, 2, 0), (1, 1, 0), (5, 4, 0)] {
        let rails = if gpus == 4 { RailNeed::Exactly(RailSet::first(4)) } else { RailNeed::Any(0) };
        let host = Host { cpus: gpus, memory: 0 };
        let need =
            Need { host, spares, exclusive: gpus == 4 && nodes == 2, ..Need::plain(nodes, gpus, rails) };
        let mut choice = Choice::default();
        if placer.choose(snapshot.capacity_index(), &need, None, &mut choice) {
            let placement = rankmap::placement(snapshot, &spec(nodes, gpus, 0, false), &choice);
            snapshot.hold(&tenant(), &placement);
            gangs.push((choice, placement));
        }
    }
    gangs
}

#[test]
fn a_choice_holds_what_its_placement_holds() {
    let empty = cluster(&[0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    let mut named = empty.clone();
    let gangs = fill(&mut named);
    assert_eq!(gangs.len(), 6);
    assert!(gangs.iter().any(|(choice, _)| choice.pods > 1), "one of them loads uplinks");
    let mut numbered = empty.clone();
    let mut steps = Vec::new();
    for (choice, placement) in &gangs {
        steps.push(numbered.clone());
        numbered.hold_choice(&tenant(), choice);
        let mut named = steps[steps.len() - 1].clone();
        named.hold(&tenant(), placement);
        assert_eq!(numbered, named);
    }
    assert_eq!(numbered, named);
    for ((choice, _), before) in gangs.iter().zip(steps).rev() {
        numbered.release_choice(&tenant(), choice);
        assert_eq!(numbered, before);
    }
    assert_eq!(numbered, empty);
}

#[test]
fn a_node_that_comes_back_is_held_as_before() {
    let mut snapshot = cluster(&[0, 0, 1, 1]);
    let empty = snapshot.clone();
    let gangs = fill(&mut snapshot);
    let (full, name) = (snapshot.clone(), gangs[0].1.nodes[0].node.clone());
    let held = snapshot.held(&name);
    snapshot.remove_node(&name);
    assert_eq!(snapshot.held(&name), held);
    snapshot.set_node(&name, &inventory(4, 0b1111, 0), Gate::default());
    assert_eq!(snapshot, full);
    // What ends while the node is away is not held any more when it comes back.
    snapshot.remove_node(&name);
    for (_, placement) in gangs.iter().rev() {
        snapshot.release(&tenant(), placement);
    }
    assert_eq!(snapshot.held(&node(0)), crate::Allocated::default());
    snapshot.set_node(&name, &inventory(4, 0b1111, 0), Gate::default());
    assert_eq!(snapshot, empty);
}
