//! A bug in the code that places is found by both checks, which share no code with it.

use std::{collections::BTreeSet, sync::Arc};

use controller_topology::RailSet;
use proto_model::{Fabric, Names, Spine, Taint, Uplink};

use super::{cluster, fabric, inventory, node, spec, tenant};
use crate::{
    Choice, Gate, Host, Need, Placer, RailNeed, Snapshot, check_placement,
    plant::{Bug, with},
    prove,
    rankmap::placement,
};

/// What both checks find of a gang that the code places with a bug; `None` if it places none.
fn found(bug: Option<Bug>, nodes: u32, make: fn() -> Snapshot) -> Option<(Vec<String>, Vec<String>)> {
    let snapshot = make();
    let host = Host { cpus: 4, memory: 0 };
    let need = Need { host, ..Need::plain(nodes, 2, RailNeed::Exactly(RailSet::first(4))) };
    let mut choice = Choice::default();
    let placed = with(bug, || {
        // What nodes can give is worked out anew, by code that has the bug.
        let snapshot = make();
        Placer::default().choose(snapshot.capacity_index(), &need, None, &mut choice)
    });
    let proof = prove(&snapshot, &need, &choice).err().unwrap_or_default();
    let mut spec = spec(nodes, 2, 0, false);
    spec.gang.cpus_per_node = host.cpus;
    let check = check_placement(&snapshot, &tenant(), &spec, &placement(&snapshot, &spec, &choice));
    let reported = (
        proof.iter().map(ToString::to_string).collect(),
        check.err().unwrap_or_default().iter().map(ToString::to_string).collect(),
    );
    placed.then_some(reported)
}

/// Two pods of two nodes; a gang of two fits into the second only.
fn down() -> Snapshot {
    let mut snapshot = cluster(&[0, 0, 1, 1]);
    snapshot.set_node(&node(0), &inventory(4, 0b1111, 0b0010), Gate::default());
    snapshot
}

/// The same: a job holds so many GPUs of the first node, and its NICs or none.
fn held(gpus: u32, rails: u32) -> Snapshot {
    let mut snapshot = cluster(&[0, 0, 1, 1]);
    let rails = RailNeed::Exactly(RailSet::first(rails));
    let mut choice = Choice::default();
    assert!(Placer::default().choose(
        snapshot.capacity_index(),
        &Need::plain(1, gpus, rails),
        None,
        &mut choice
    ));
    let held = placement(&snapshot, &spec(1, gpus, 0, false), &choice);
    assert_eq!(held.nodes[0].node, node(0));
    snapshot.hold(&tenant(), &held);
    snapshot
}

/// A job holds most CPUs of the first node.
fn busy() -> Snapshot {
    let mut snapshot = cluster(&[0, 0, 1, 1]);
    let rails = RailNeed::Exactly(RailSet::EMPTY);
    let need = Need { host: Host { cpus: 5, memory: 0 }, ..Need::plain(1, 0, rails) };
    let mut choice = Choice::default();
    assert!(Placer::default().choose(snapshot.capacity_index(), &need, None, &mut choice));
    snapshot.hold_choice(&tenant(), &choice);
    snapshot
}

fn closed() -> Snapshot {
    let mut snapshot = cluster(&[0, 0, 1, 1]);
    snapshot.set_gate(&node(0), Gate { unschedulable: true, ..Gate::default() });
    snapshot
}

fn tainted() -> Snapshot {
    let mut snapshot = cluster(&[0, 0, 1, 1]);
    let taints: BTreeSet<Taint> = [Taint { key: "slow".into(), value: String::new() }].into();
    snapshot.set_labelled(
        &node(0),
        &inventory(4, 0b1111, 0),
        Gate::default(),
        &std::collections::BTreeMap::new(),
        &taints,
    );
    snapshot
}

/// The leaves of rail 0 have no spine in common; a gang of three would have to be in both pods.
fn parted() -> Snapshot {
    let mut document: Fabric = fabric(&[0, 0, 1, 1], 4);
    for pod in 0..2 {
        document.spines.push(Spine { name: format!("s{pod}"), ..Spine::default() });
        let (lower, upper) = (Names::of([format!("l{pod}-0-0")]), Names::of([format!("s{pod}")]));
        document.uplinks.push(Uplink { lower, upper, cables: 1, speed_mbps: 0, down: 0 });
    }
    let mut snapshot = Snapshot::new(Some(&document));
    let inventory: Arc<_> = inventory(4, 0b1111, 0);
    for at in 0..4 {
        snapshot.set_node(&node(at), &inventory, Gate::default());
    }
    snapshot.set_quota(&tenant(), Some(1000));
    snapshot
}

#[test]
fn a_bug_in_the_code_itself_is_found() {
    type Make = fn() -> Snapshot;
    let plants: [(Bug, u32, Make, &str, &str); 7] = [
        (Bug::Rails, 2, down, "cannot give rails 1", "cannot serve rail 1"),
        (Bug::HeldRails, 2, || held(1, 4), "cannot give rails", "is held by another job"),
        (Bug::HeldGpus, 2, || held(3, 0), "cannot give GPUs", "is held by another job"),
        (Bug::Host, 2, busy, "cannot give 4 CPUs", "CPUs of node 'n0'"),
        (Bug::Closed, 2, closed, "takes no new jobs", "takes no new jobs"),
        (Bug::Filter, 2, tainted, "has a taint", ""),
        (Bug::Islands, 3, parted, "not aligned on rails", ""),
    ];
    for (bug, nodes, make, proof, check) in plants {
        let right = found(None, nodes, make);
        let none = (Vec::new(), Vec::new());
        assert_eq!(right, (bug != Bug::Islands).then_some(none), "{bug:?}: without it");
        let (proved, checked) = found(Some(bug), nodes, make).unwrap();
        assert!(proved.iter().any(|flaw| flaw.contains(proof)), "{bug:?}: {proved:?}");
        assert!(check.is_empty() || checked.iter().any(|flaw| flaw.contains(check)), "{bug:?}: {checked:?}");
    }
}
