//! CPUs and memory: who finds them where, what is left beside others, and what is said where there are too few.

use std::sync::Arc;

use super::*;
use crate::{Host, Need, RailNeed, explain::Change, repair::Sources};

/// GiB.
const G: u64 = 1 << 30;

/// Nodes with 4 GPUs, 4 rails, and these CPUs and GiB of memory.
fn hosts(hosts: &[(u32, u64)]) -> Snapshot {
    let mut snapshot = cluster(&vec![0; hosts.len()]);
    for (at, host) in hosts.iter().enumerate() {
        snapshot.set_node(&node(at), &of_host(*host), Gate::default());
    }
    snapshot
}

fn of_host((cpus, memory): (u32, u64)) -> Arc<proto_model::Inventory> {
    let mut inventory = inventory(4, 0b1111, 0);
    let reported = Arc::make_mut(&mut inventory);
    (reported.cpus, reported.memory_bytes) = (cpus, memory * G);
    inventory
}

/// One rail each, so that several jobs have room on a node.
fn asks(nodes: u32, gpus: u32, cpus: u32, memory: u64) -> JobSpec {
    let mut spec = spec(nodes, gpus, 1, true);
    (spec.gang.cpus_per_node, spec.gang.memory_per_node) = (cpus, memory * G);
    spec
}

fn said(wait: &Wait) -> Vec<String> {
    wait.reasons.iter().map(ToString::to_string).collect()
}

#[test]
fn a_job_goes_where_its_cpus_and_memory_are_free() {
    let mut snapshot = hosts(&[(16, 64), (32, 64), (16, 128)]);
    assert_eq!(placed(&one(&snapshot, &asks(1, 1, 17, 0))), ["n1"]);
    assert_eq!(placed(&one(&snapshot, &asks(1, 1, 0, 65))), ["n2"]);
    assert_eq!(placed(&one(&snapshot, &asks(1, 4, 16, 64))), ["n0"]);
    let first = one(&snapshot, &asks(3, 1, 10, 32));
    assert_eq!(placed(&first), ["n0", "n1", "n2"]);
    let Decision::Place(first) = first else { panic!() };
    let held: Vec<(u32, u64)> = first.nodes.iter().map(|place| (place.cpus, place.memory_bytes)).collect();
    assert_eq!(held, [(10, 32 * G); 3]);
    let empty = snapshot.clone();
    snapshot.hold(&tenant(), &first);
    assert_eq!(snapshot.held(&node(0)).host, Host { cpus: 10, memory: 32 * G });
    // Beside it: 6, 22 and 6 CPUs; 32, 32 and 96 GiB.
    assert_eq!(placed(&one(&snapshot, &asks(1, 1, 7, 0))), ["n1"]);
    assert_eq!(placed(&one(&snapshot, &asks(1, 1, 6, 33))), ["n2"]);
    let waits = wait(one(&snapshot, &asks(1, 1, 7, 33)));
    assert!(waits.capacity && !waits.infeasible);
    // Who asks for none shares what there is, and takes nothing away.
    let Decision::Place(shares) = one(&snapshot, &asks(3, 1, 0, 0)) else { panic!() };
    let before = snapshot.clone();
    snapshot.hold(&tenant(), &shares);
    assert_eq!(placed(&one(&snapshot, &asks(1, 1, 22, 32))), ["n1"]);
    snapshot.release(&tenant(), &shares);
    assert_eq!(snapshot, before);
    snapshot.release(&tenant(), &first);
    assert_eq!(snapshot, empty);
}

#[test]
fn what_keeps_nodes_away_is_told() {
    let mut snapshot = hosts(&[(16, 64), (16, 64), (8, 32), (0, 0)]);
    let Decision::Place(first) = one(&snapshot, &asks(1, 1, 8, 40)) else { panic!() };
    assert_eq!(first.nodes[0].node, node(0));
    snapshot.hold(&tenant(), &first);
    let waits = said(&wait(one(&snapshot, &asks(2, 1, 12, 48))));
    for right in [
        "GangCapacity: 1 of 4 nodes could be had now; the job needs 2, 1 more must become free",
        "CpuShape: 1 node has fewer than 12 CPUs, even when idle; it has other causes too",
        "CpuCapacity: 1 node has fewer than 12 CPUs free; it has other causes too",
        "CpusUnknown: 1 node has an agent that tells nothing of CPUs; it has other causes too",
        "MemoryShape: 1 node has less than 48 GiB of memory, even when idle; it has other causes too",
        "MemoryCapacity: 1 node has less than 48 GiB of memory free; it has other causes too",
        "MemoryUnknown: 1 node has an agent that tells nothing of memory; it has other causes too",
    ] {
        assert!(waits.iter().any(|said| said == right), "{right}: {waits:#?}");
    }
    let need = Need::of(&tenant(), &asks(2, 1, 12, 0), &snapshot);
    let facts = crate::QueueFacts::default();
    let none: [(u8, Vec<NodeIx>); 0] = [];
    let reported = crate::explain(&snapshot, &mut crate::Placer::default(), &need, &facts, none);
    let changes: Vec<&Change> = reported.relaxations.iter().flat_map(|one| &one.changes).collect();
    assert_eq!(changes, [&Change::Nodes { from: 2, to: 1 }, &Change::NoCpus { from: 12 }]);
}

#[test]
fn what_no_node_has_is_refused_with_the_most_that_any_has() {
    let snapshot = hosts(&[(16, 64), (32, 64), (0, 96)]);
    let never = |spec: &JobSpec| {
        let wait = wait(one(&snapshot, spec));
        assert!(wait.infeasible && !wait.capacity, "{wait:?}");
        said(&wait)
    };
    assert_eq!(
        never(&asks(1, 1, 33, 0)),
        [
            "CpuShape: the job asks for 33 CPUs per node, the largest node has 32 CPUs (n1); of 1 node the agent \
          does not tell it"
        ]
    );
    assert_eq!(
        never(&asks(2, 1, 17, 0)),
        [
            "CpuShape: the job asks for 2 nodes with 17 CPUs, 1 of 3 nodes has so much; the largest has 32 CPUs \
          (n1); of 1 node the agent does not tell it"
        ]
    );
    assert_eq!(
        never(&asks(1, 1, 1, 100)),
        [
            "MemoryShape: the job asks for 100 GiB of memory per node, the largest node has 96 GiB of memory (n2)"
        ]
    );
    assert_eq!(
        never(&asks(1, 1, 1, 80)),
        ["CpuShape: too few of 1 node have its CPUs and memory beside all else that the job asks for"]
    );
    let silent = hosts(&[(0, 0), (0, 0)]);
    let wait = wait(one(&silent, &asks(1, 1, 1, 0)));
    assert_eq!(
        said(&wait),
        ["CpuShape: the job asks for 1 CPU per node, and no node's agent tells its CPUs"]
    );
}

#[test]
fn a_node_that_became_smaller_gives_nothing_more_and_loses_nobody() {
    let mut snapshot = hosts(&[(16, 64)]);
    let Decision::Place(first) = one(&snapshot, &asks(1, 1, 12, 32)) else { panic!() };
    snapshot.hold(&tenant(), &first);
    snapshot.set_node(&node(0), &of_host((8, 16)), Gate::default());
    assert_eq!(snapshot.capacity(NodeIx::at(0)).free_host(), Host::NONE);
    assert!(wait(one(&snapshot, &asks(1, 1, 1, 0))).capacity);
    assert_eq!(placed(&one(&snapshot, &asks(1, 1, 0, 0))), ["n0"]);
    snapshot.release(&tenant(), &first);
    assert_eq!(snapshot.capacity(NodeIx::at(0)).free_host(), Host { cpus: 8, memory: 16 * G });
}

#[test]
fn both_checkers_refuse_more_than_is_left() {
    let mut snapshot = hosts(&[(16, 64)]);
    let ask = asks(1, 1, 10, 40);
    let Decision::Place(first) = one(&snapshot, &ask) else { panic!() };
    assert_eq!(check_placement(&snapshot, &tenant(), &ask, &first), Ok(()));
    let mut less = *first.clone();
    (less.nodes[0].cpus, less.nodes[0].memory_bytes) = (9, 0);
    let found = check_placement(&snapshot, &tenant(), &ask, &less).unwrap_err();
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found[0], "CPUs of node 'n0': 9 placed, 10 asked for, 0 of 16 held by other jobs");
    assert!(found[1].starts_with("memory of node 'n0': 0 placed"), "{found:?}");
    // On other GPUs and rails, but of the same CPUs.
    let need = Need::of(&tenant(), &ask, &snapshot);
    let choice = crate::choice_of(snapshot.topology(), &first).unwrap();
    assert_eq!(crate::prove(&snapshot, &need, &choice), Ok(()));
    snapshot.hold(&tenant(), &first);
    let found = crate::prove(&snapshot, &need, &choice).unwrap_err();
    assert!(found.iter().any(|flaw| flaw.to_string().contains("cannot give 10 CPUs")), "{found:?}");
    let found = check_placement(&snapshot, &tenant(), &ask, &first).unwrap_err();
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found.iter().any(|one| one.contains("10 asked for, 10 of 16 held")), "{found:?}");
}

#[test]
fn what_stands_in_for_a_lost_node_has_as_much() {
    let mut snapshot = hosts(&[(16, 64), (16, 64), (8, 64), (16, 64)]);
    let Decision::Place(held) = one(&snapshot, &asks(1, 1, 4, 0)) else { panic!() };
    assert_eq!(held.nodes[0].node, node(0));
    snapshot.hold(&tenant(), &held);
    let spec = asks(2, 1, 13, 8);
    let Decision::Place(gang) = one(&snapshot, &spec) else { panic!() };
    assert_eq!(placed(&Decision::Place(gang.clone())), ["n1", "n3"]);
    snapshot.hold(&tenant(), &gang);
    snapshot.set_gate(&node(3), Gate { not_ready: true, ..Gate::default() });
    let need = Need { rails: RailNeed::Exactly(RailSet::first(1)), ..Need::of(&tenant(), &spec, &snapshot) };
    let lost = [(node(3), crate::FailureScope::Node)].into();
    let kept = crate::NodeSet::default();
    let request = |need| crate::RepairRequest {
        placement: &gang,
        need,
        lost: &lost,
        sources: Sources { spares: false, free: true },
        kept: &kept,
    };
    let mut placer = crate::Placer::default();
    assert!(crate::repair(&snapshot, &mut placer, &request(&need)).is_err());
    snapshot.release(&tenant(), &held);
    let repaired = crate::repair(&snapshot, &mut placer, &request(&need)).unwrap();
    let place = &repaired.placement.nodes[1];
    assert_eq!((place.node.as_str(), place.cpus, place.memory_bytes), ("n0", 13, 8 * G));
}
