//! CPUs and memory: jobs wait for them, know why, and start when they are given back.

use proto_model::{Phase, RailRequest};

use super::*;

/// GiB.
const G: u64 = 1 << 30;

/// Each node has 16 CPUs and 64 GiB.
fn world() -> World {
    let mut w = World::new();
    for n in 0..4 {
        connect(&mut w, n);
    }
    w
}

fn connect(w: &mut World, n: usize) {
    w.session += 1;
    let inventory = Inventory { cpus: 16, memory_bytes: 64 * G, ..inventory(4, 2) };
    let register = Register {
        node: name(n),
        session: w.session,
        agent_version: "1".into(),
        inventory: Arc::new(inventory),
        observations: Vec::new(),
        epoch: 7,
    };
    w.ok(Event::AgentConnected(Box::new(register)));
}

/// On one rail, so that two have room on a node.
fn asks(nodes: u32, cpus: u32, memory: u64) -> JobSpec {
    let mut spec = spec(nodes, 1);
    spec.rails = RailRequest { required: 1, allow_partial: true, ..RailRequest::default() };
    (spec.gang.cpus_per_node, spec.gang.memory_per_node) = (cpus, memory * G);
    spec
}

fn reasons(w: &World, text: &str) -> String {
    let reasons = &w.job(text).status.reasons;
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_job_waits_for_cpus_that_another_holds_and_starts_when_that_ends() {
    let mut w = world();
    let first = w.submit("first", asks(4, 10, 32));
    assert_eq!(first.status.phase, Phase::Reserved);
    let held = w.state.holds(&name(0));
    assert_eq!((held[0].cpus, held[0].memory_bytes), (10, 32 * G));
    w.submit("second", asks(1, 7, 0));
    w.submit("third", asks(1, 0, 33));
    w.submit("shares", asks(1, 0, 0));
    assert_eq!(["second", "third"].map(|job| w.phase(job)), [Phase::Pending; 2]);
    assert_eq!(w.phase("shares"), Phase::Reserved, "it asks for none of what is short");
    let why = reasons(&w, "second");
    assert!(why.contains("CpuCapacity: 4 nodes have fewer than 7 CPUs free"), "{why}");
    let why = reasons(&w, "third");
    assert!(why.contains("MemoryCapacity: 4 nodes have less than 33 GiB of memory free"), "{why}");
    // A controller that starts anew knows what is held.
    let anew = w.reload(8);
    for n in 0..4 {
        let host = |state: &State| state.index.snapshot.held(&name(n)).host;
        assert_eq!(
            (host(&anew), host(&anew)),
            (host(&w.state), controller_scheduler::Host { cpus: 10, memory: 32 * G })
        );
    }
    // The six CPUs that are left are somebody's all the same.
    w.submit("fourth", asks(1, 6, 8));
    assert_eq!(w.phase("fourth"), Phase::Reserved);
    w.run("first");
    for n in w.nodes("first") {
        let observation = w.exited("first", n, 0);
        w.report(n, observation);
    }
    assert_eq!(w.phase("first"), Phase::Completed);
    assert_eq!(["second", "third"].map(|job| w.phase(job)), [Phase::Reserved; 2]);
    let started = ["second", "third"].map(|job| w.nodes(job)[0]);
    let held = |n: usize| w.state.index.snapshot.held(&name(n)).host;
    assert!(started.iter().all(|n| held(*n).cpus <= 13 && held(*n).memory <= 41 * G));
}

#[test]
fn what_no_node_has_is_refused_at_submit() {
    let mut w = world();
    let error = w.refused(submit("a", asks(1, 17, 0)));
    assert!(error.to_string().contains("17 CPUs per node, the largest node has 16 CPUs (n0)"), "{error}");
    let error = w.refused(submit("a", asks(1, 1, 65)));
    assert!(error.to_string().contains("65 GiB of memory per node, the largest node has 64 GiB"), "{error}");
    // Agents that tell nothing have none to give.
    let error = World::new().refused(submit("a", asks(1, 1, 0)));
    assert!(error.to_string().contains("no node's agent tells its CPUs"), "{error}");
}
