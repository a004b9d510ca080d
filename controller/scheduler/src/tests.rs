//! The rules of placement, by example and against brute force on small clusters.

use std::{cmp::Reverse, collections::BTreeMap};

use controller_topology::{NodeIx, RailSet};
use proptest::prelude::*;
use proto_model::{
    CommandSpec, Fabric, Gang, JobId, JobName, JobSpec, JobUid, NodeName, RailRequest, ReasonCode,
    TenantName, Timestamp, Work,
};

mod components;
mod holding;
mod host;
mod planted;
mod tenants;
mod wording;

use crate::{
    Blocked, Decision, GangRequest, Gate, Pass, QueueKey, Snapshot, Wait, check_placement, solve,
    world::{self, inventory},
};

fn node(n: usize) -> NodeName {
    NodeName::new(format!("n{n}")).unwrap()
}

fn tenant() -> TenantName {
    TenantName::new("t").unwrap()
}

/// One leaf per pod and rail; node n is in pod `pods[n]`.
fn fabric(pods: &[u8], rails: u32) -> Fabric {
    let places: Vec<(u8, u8)> = pods.iter().map(|pod| (*pod, 0)).collect();
    world::fabric(rails, &places, node)
}

/// Nodes with 4 GPUs and 4 rails, a quota of 1000.
fn cluster(pods: &[u8]) -> Snapshot {
    let mut snapshot = Snapshot::new(Some(&fabric(pods, 4)));
    for at in 0..pods.len() {
        snapshot.set_node(&node(at), &inventory(4, 0b1111, 0), Gate::default());
    }
    snapshot.set_quota(&tenant(), Some(1000));
    snapshot
}

fn spec(nodes: u32, gpus: u32, required: u32, allow_partial: bool) -> JobSpec {
    let work = Work::Command(CommandSpec {
        argv: vec!["x".into()],
        env: BTreeMap::new(),
        env_from: Vec::new(),
        working_dir: String::new(),
    });
    let rails = RailRequest { required, allow_partial, ..RailRequest::default() };
    JobSpec { rails, ..JobSpec::new(Gang::new(nodes, gpus, gpus.max(1)), work) }
}

fn key(priority: i32, at: u64) -> QueueKey {
    QueueKey {
        priority: Reverse(priority),
        submitted: Timestamp(at),
        uid: JobUid::from_random([u8::try_from(at).unwrap_or(255); 16]),
    }
}

fn id(name: &str) -> JobId {
    JobId { tenant: tenant(), name: JobName::new(name).unwrap() }
}

fn one(snapshot: &Snapshot, spec: &JobSpec) -> Decision {
    let id = id("job");
    solve(snapshot, &[GangRequest { key: key(0, 1), id: &id, spec, not_before: None }], Timestamp(1))
        .remove(0)
}

fn wait(decision: Decision) -> Wait {
    match decision {
        Decision::Wait(wait) => wait,
        Decision::Place(placement) => panic!("placed: {placement:?}"),
    }
}

fn codes(wait: &Wait) -> Vec<&str> {
    wait.reasons.iter().map(|reason| reason.code.as_str()).collect()
}

fn placed(decision: &Decision) -> Vec<String> {
    match decision {
        Decision::Place(placement) => placement.nodes.iter().map(|place| place.node.to_string()).collect(),
        Decision::Wait(wait) => panic!("waits: {wait:?}"),
    }
}

#[test]
fn the_fewest_pods_and_the_tightest_pod() {
    let snapshot = cluster(&[0, 0, 0, 1, 1, 2, 2, 2, 2]);
    assert_eq!(placed(&one(&snapshot, &spec(2, 4, 0, false))), ["n3", "n4"]);
    assert_eq!(placed(&one(&snapshot, &spec(3, 4, 0, false))), ["n0", "n1", "n2"]);
    assert_eq!(placed(&one(&snapshot, &spec(6, 4, 0, false))), ["n3", "n4", "n5", "n6", "n7", "n8"]);
    let Decision::Place(whole) = one(&snapshot, &spec(9, 4, 0, false)) else { panic!() };
    assert_eq!((whole.pods, whole.ranks.len(), whole.ranks[35].rank), (3, 36, 35));
}

#[test]
fn each_rank_has_its_gpu_and_the_nearest_nic() {
    let Decision::Place(placement) = one(&cluster(&[0]), &spec(1, 4, 0, false)) else { panic!() };
    let map: Vec<_> = placement.ranks.iter().map(|r| (r.gpus.clone(), r.rail, r.leaf.as_str())).collect();
    let leaves = ["l0-0-0", "l0-0-1", "l0-0-2", "l0-0-3"];
    let right: Vec<_> = (0..4).map(|n: u32| (vec![n], n, leaves[n as usize])).collect();
    assert_eq!(map, right);
    // Two rails only: GPUs 2 and 3 are of the other NUMA node, the job's two GPUs are those of its rails.
    let Decision::Place(half) = one(&cluster(&[0]), &spec(1, 2, 2, false)) else { panic!() };
    assert_eq!(half.nodes[0].gpus, [0, 1]);
}

#[test]
fn what_can_never_be_says_so_and_names_the_nearest_right_thing() {
    let snapshot = cluster(&[0, 0]);
    let cases = [
        (spec(3, 1, 0, false), ReasonCode::NodeCount, "the cluster has 2"),
        (spec(1, 16, 0, false), ReasonCode::GpuShape, "the largest node has 4 (n0)"),
        (spec(1, 1, 9, false), ReasonCode::RailCount, "the fabric has 4"),
        (spec(2, 4000, 0, false), ReasonCode::QuotaTooSmall, "the quota of tenant 't' is 1000"),
    ];
    for (spec, code, text) in cases {
        let wait = wait(one(&snapshot, &spec));
        assert!(wait.infeasible && !wait.capacity, "{wait:?}");
        let reason = wait.reasons.iter().find(|reason| reason.code == code).unwrap();
        assert!(reason.message.contains(text), "{reason}");
    }
    let all = wait(one(&snapshot, &spec(3, 16, 9, false)));
    assert_eq!(codes(&all), ["NodeCount", "RailCount", "GpuShape"]);
    assert_eq!(codes(&wait(one(&Snapshot::default(), &spec(1, 0, 0, false)))), ["TenantUnknown", "NoNodes"]);
}

#[test]
fn what_cannot_be_now_says_every_cause_with_its_count() {
    let mut snapshot = cluster(&[0, 0, 0, 0, 0]);
    let Decision::Place(held) = one(&snapshot, &spec(1, 4, 0, false)) else { panic!() };
    snapshot.hold(&tenant(), &held);
    snapshot.set_gate(&node(1), Gate { unschedulable: true, ..Gate::default() });
    snapshot.set_gate(&node(2), Gate { not_ready: true, away: true, ..Gate::default() });
    snapshot.set_node(&node(3), &inventory(4, 0b1111, 0b0001), Gate::default());
    let wait = wait(one(&snapshot, &spec(2, 4, 1, false)));
    assert!(!wait.infeasible && wait.capacity);
    let right = ["GangCapacity", "GpuCapacity", "RailDown", "RailBusy", "NodeUnschedulable", "NodeNotReady"];
    assert_eq!(codes(&wait), right);
    assert!(wait.reasons.iter().all(|reason| reason.count == 1), "{:?}", wait.reasons);
}

/// `required` is what a gang starts with, `allowPartial` which rails: when one is dead everywhere, what to write is said.
#[test]
fn a_rail_that_is_dead_everywhere_says_what_to_write() {
    let mut snapshot = cluster(&[0, 0, 0]);
    for at in 0..3 {
        snapshot.set_node(&node(at), &inventory(4, 0b1111, 0b0010), Gate::default());
    }
    for (required, partial, left) in [(0, true, 3), (4, true, 3), (0, false, 3), (2, false, 2)] {
        let wait = wait(one(&snapshot, &spec(2, 4, required, partial)));
        assert!(wait.capacity && !wait.infeasible, "{wait:?}");
        let dead = wait.reasons.iter().find(|reason| reason.code == ReasonCode::RailDead).unwrap();
        let right = format!("write rails: {{required: {left}, allowPartial: true}}");
        assert!(dead.count == 1 && dead.message.ends_with(&right), "{dead}");
        assert!(dead.message.starts_with("rail 1 works on no node"), "{dead}");
        let Decision::Place(placed) = one(&snapshot, &spec(2, 4, left, true)) else { panic!("{left}") };
        assert!(placed.rails.len() == left as usize && !placed.rails.contains(&1), "{:?}", placed.rails);
    }
    // One node has it: it is not dead, and only capacity is missing.
    snapshot.set_node(&node(0), &inventory(4, 0b1111, 0), Gate::default());
    assert!(!codes(&wait(one(&snapshot, &spec(2, 4, 0, true)))).contains(&"RailDead"));
    // No cable of that rail at all: never, and the same advice.
    for at in 0..3 {
        snapshot.set_node(&node(at), &inventory(4, 0b1101, 0), Gate::default());
    }
    let wait = wait(one(&snapshot, &spec(2, 4, 4, true)));
    assert!(wait.infeasible && codes(&wait)[..2] == ["RailShape", "RailDead"], "{wait:?}");
}

#[test]
fn the_first_blocked_job_keeps_its_nodes_and_cannot_starve() {
    let mut snapshot = cluster(&[0, 0, 0, 0]);
    let Decision::Place(first) = one(&snapshot, &spec(2, 4, 0, false)) else { panic!() };
    snapshot.hold(&tenant(), &first);
    let (big, small) = (spec(3, 4, 0, false), spec(1, 4, 0, false));
    let names = [id("big"), id("small"), id("small-2")];
    let queue = [
        GangRequest { key: key(0, 1), id: &names[0], spec: &big, not_before: None },
        GangRequest { key: key(0, 2), id: &names[1], spec: &small, not_before: None },
        GangRequest { key: key(0, 3), id: &names[2], spec: &small, not_before: None },
    ];
    let decisions = solve(&snapshot, &queue, Timestamp(1));
    // Two nodes are free; the big job needs them and one of the held ones.
    assert_eq!(codes(&wait(decisions[0].clone()))[0], "GangCapacity");
    for decision in &decisions[1..] {
        assert!(codes(&wait(decision.clone())).contains(&"ReservedAhead"), "{decision:?}");
    }
    // A job that waits for a node to come back keeps nothing: ends of others cannot help it.
    let mut away = cluster(&[0, 0, 0, 0]);
    away.set_gate(&node(0), Gate { away: true, ..Gate::default() });
    away.set_gate(&node(1), Gate { away: true, ..Gate::default() });
    assert_eq!(placed(&solve(&away, &queue, Timestamp(1))[1]), ["n2"]);
}

#[test]
fn a_tenants_quota_blocks_that_tenant_only() {
    let mut snapshot = cluster(&[0, 0, 0, 0]);
    snapshot.set_quota(&tenant(), Some(8));
    let other = TenantName::new("u").unwrap();
    snapshot.set_quota(&other, Some(8));
    let Decision::Place(first) = one(&snapshot, &spec(1, 4, 0, false)) else { panic!() };
    snapshot.hold(&tenant(), &first);
    let names = [id("big"), id("small"), JobId { tenant: other, ..id("x") }, id("none")];
    let (big, small, none) = (spec(2, 4, 0, false), spec(1, 1, 0, false), spec(1, 0, 0, false));
    let ask =
        |at: usize, spec| GangRequest { key: key(0, at as u64), id: &names[at], spec, not_before: None };
    let decisions =
        solve(&snapshot, &[ask(0, &big), ask(1, &small), ask(2, &small), ask(3, &none)], Timestamp(1));
    assert_eq!(codes(&wait(decisions[0].clone())), ["QuotaExceeded"]);
    assert_eq!(codes(&wait(decisions[1].clone())), ["QuotaAhead"]);
    assert_eq!(placed(&decisions[2]).len(), 1);
    assert_eq!(placed(&decisions[3]).len(), 1);
}

#[test]
fn a_requeued_job_backs_off_and_blocks_nobody() {
    let snapshot = cluster(&[0]);
    let (names, job) = ([id("a"), id("b")], spec(1, 4, 0, false));
    let queue = [
        GangRequest { key: key(0, 1), id: &names[0], spec: &job, not_before: Some(Timestamp(9)) },
        GangRequest { key: key(0, 2), id: &names[1], spec: &job, not_before: None },
    ];
    let decisions = solve(&snapshot, &queue, Timestamp(1));
    let first = wait(decisions[0].clone());
    assert_eq!((codes(&first), first.until), (vec!["RequeueBackoff"], Some(Timestamp(9))));
    assert_eq!(placed(&decisions[1]), ["n0"]);
}

/// The NICs of a node's first two rails are on each other's, and it is known.
fn remap(placement: &mut proto_model::Placement) {
    let place = &mut placement.nodes[0];
    let (first, second) = place.nics.split_at_mut(1);
    std::mem::swap(&mut first[0].device, &mut second[0].device);
    std::mem::swap(&mut first[0].address, &mut second[0].address);
    place.remapped = true;
    for rank in placement.ranks.iter_mut().filter(|rank| rank.node == place.node) {
        let nic = place.nics.iter().find(|nic| nic.device == rank.nic).unwrap();
        (rank.rail, rank.leaf) = (nic.rail, nic.leaf.clone());
    }
}

#[test]
fn nics_that_are_on_each_others_rails_are_taken_as_they_are_where_that_is_known() {
    let snapshot = cluster(&[0, 0, 1]);
    let spec = spec(2, 2, 0, false);
    let Decision::Place(good) = one(&snapshot, &spec) else { panic!() };
    let mut remapped = (*good).clone();
    remap(&mut remapped);
    assert_ne!(remapped, *good);
    assert_eq!(check_placement(&snapshot, &tenant(), &spec, &remapped), Ok(()));
    type Plant = fn(&mut proto_model::Placement);
    let plants: [Plant; 3] = [
        |p| p.nodes[0].remapped = false,
        |p| p.nodes[0].nics[1].device = p.nodes[0].nics[0].device.clone(),
        |p| p.nodes[0].nics[1].device = "mlx5_77".into(),
    ];
    for plant in plants {
        let mut bad = remapped.clone();
        plant(&mut bad);
        let found = check_placement(&snapshot, &tenant(), &spec, &bad).unwrap_err();
        assert!(found.iter().any(|flaw| flaw.to_string().contains("cannot serve rail")), "{found:?}");
    }
}

#[test]
fn the_checker_finds_what_is_planted() {
    let mut snapshot = cluster(&[0, 0, 1]);
    let spec = spec(2, 2, 0, false);
    let Decision::Place(good) = one(&snapshot, &spec) else { panic!() };
    assert_eq!(check_placement(&snapshot, &tenant(), &spec, &good), Ok(()));
    type Plant = fn(&mut proto_model::Placement);
    let plants: [(Plant, &str); 10] = [
        (|p| p.nodes.truncate(1), "nodes placed: 1, asked for: 2"),
        (|p| p.nodes[1] = p.nodes[0].clone(), "placed twice"),
        (|p| p.nodes[0].node = NodeName::new("zz").unwrap(), "not in the cluster"),
        (|p| p.nodes[0].gpus = vec![1, 1], "distinct GPUs"),
        (|p| p.nodes[0].gpus = vec![1, 9], "no GPU 9"),
        (|p| p.rails = vec![0, 1, 3], "not as many"),
        (|p| drop(p.nodes[0].nics.pop()), "exactly the rails"),
        (|p| p.nodes[0].nics[1].device = "mlx5_0".into(), "cannot serve rail 1"),
        (|p| p.pods = 2, "pods said: 2"),
        (|p| p.ranks.swap(0, 3), "order of the nodes"),
    ];
    for (plant, text) in plants {
        let mut bad = (*good).clone();
        plant(&mut bad);
        let found = check_placement(&snapshot, &tenant(), &spec, &bad).unwrap_err();
        assert!(found.iter().any(|v| v.to_string().contains(text)), "{text}: {found:?}");
    }
    snapshot.hold(&tenant(), &good);
    snapshot.set_quota(&tenant(), Some(5));
    snapshot.set_gate(&node(1), Gate { away: true, ..Gate::default() });
    let text = format!("{:?}", check_placement(&snapshot, &tenant(), &spec, &good).unwrap_err());
    for part in ["GpuHeld", "NicHeld", "Quota", "NodeClosed"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[derive(Debug, Clone)]
struct Small {
    pods: Vec<u8>,
    gpus: Vec<u32>,
    rails: Vec<u8>,
    down: Vec<u8>,
    gates: Vec<bool>,
    document: bool,
    quota: u32,
    jobs: Vec<JobSpec>,
}

fn small() -> impl Strategy<Value = Small> {
    let job = (1u32..5, 0u32..4, 0u32..4, any::<bool>()).prop_map(|(n, g, r, p)| spec(n, g, r, p));
    (1usize..7).prop_flat_map(move |n| {
        (
            prop::collection::vec(0u8..3, n),
            prop::collection::vec(0u32..5, n),
            prop::collection::vec(prop_oneof![3 => Just(0b111u8), 1 => 0u8..8], n),
            prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => 0u8..8], n),
            prop::collection::vec(prop::bool::weighted(0.9), n),
            any::<bool>(),
            0u32..24,
            prop::collection::vec(job.clone(), 1..6),
        )
            .prop_map(|(pods, gpus, rails, down, gates, document, quota, jobs)| Small {
                pods,
                gpus,
                rails,
                down,
                gates,
                document,
                quota,
                jobs,
            })
    })
}

fn build(small: &Small) -> Snapshot {
    let document = small.document.then(|| fabric(&small.pods, 3));
    let mut snapshot = Snapshot::new(document.as_ref());
    for at in 0..small.pods.len() {
        let gate = Gate { unschedulable: !small.gates[at], ..Gate::default() };
        snapshot.set_node(&node(at), &inventory(small.gpus[at], small.rails[at], small.down[at]), gate);
    }
    snapshot.set_quota(&tenant(), Some(small.quota));
    snapshot
}

/// The fewest pods of any right gang, by trying every set of nodes and of rails; `None` if there is none.
fn brute(snapshot: &Snapshot, spec: &JobSpec) -> Option<usize> {
    let all = snapshot.topology().rails();
    let required = if spec.rails.required == 0 { all } else { spec.rails.required };
    if required > all || (required == 0 && spec.gang.nodes > 1) {
        return None;
    }
    let nodes: Vec<NodeIx> = snapshot.topology().servers().map(|(ix, _)| ix).collect();
    let mut best = None;
    for rails in 0u32..1 << all {
        let set: RailSet = (0..all).filter(|rail| rails >> rail & 1 == 1).collect();
        if set.len() != required || (!spec.rails.allow_partial && set != RailSet::first(required)) {
            continue;
        }
        for chosen in 0u32..1 << nodes.len() {
            let gang: Vec<NodeIx> =
                nodes.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1).map(|(_, ix)| *ix).collect();
            let fits = |ix: &NodeIx| {
                let capacity = snapshot.capacity(*ix);
                capacity.gate.is_open()
                    && capacity.free_gpus().count_ones() >= spec.gang.gpus_per_node
                    && capacity.held.rails.and(set).is_empty()
            };
            if gang.len() != spec.gang.nodes as usize
                || !gang.iter().all(fits)
                || !snapshot.topology().aligned(&gang, set)
            {
                continue;
            }
            let outside = gang.iter().any(|ix| snapshot.topology().server(*ix).unwrap().pod.is_none());
            let pods = snapshot.topology().pods_of(&gang).len() + usize::from(outside);
            best = Some(best.map_or(pods, |best: usize| best.min(pods)));
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn against_brute_force(small in small()) {
        let mut snapshot = build(&small);
        let name = id("job");
        for (at, spec) in small.jobs.iter().enumerate() {
            let ask = GangRequest { key: key(0, at as u64), id: &name, spec, not_before: None };
            let decision = Pass::default().decide(&snapshot, &ask, Timestamp(1));
            let gpus = u64::from(spec.gang.nodes * spec.gang.gpus_per_node);
            let quota = gpus == 0 || snapshot.tenant(&tenant()).held + gpus <= u64::from(small.quota);
            match (&decision, brute(&snapshot, spec)) {
                (Decision::Place(placement), Some(pods)) => {
                    prop_assert!(quota, "over quota");
                    prop_assert_eq!(placement.pods as usize, pods, "not the fewest pods");
                    prop_assert_eq!(check_placement(&snapshot, &tenant(), spec, placement), Ok(()));
                    let before = snapshot.clone();
                    snapshot.hold(&tenant(), placement);
                    let mut undone = snapshot.clone();
                    undone.release(&tenant(), placement);
                    prop_assert_eq!(undone, before);
                }
                (Decision::Wait(wait), possible) => {
                    prop_assert!(possible.is_none() || !quota, "could be placed: {wait:?}");
                    prop_assert!(!wait.reasons.is_empty());
                    prop_assert!(wait.infeasible || wait.capacity || wait.quota);
                    prop_assert!(!wait.infeasible || never(&small, spec), "infeasible, but an idle cluster takes it: {wait:?}");
                    prop_assert!(wait.infeasible || !never(&small, spec), "never possible, not said: {wait:?}");
                }
                (Decision::Place(_), None) => prop_assert!(false, "brute force finds nothing: {decision:?}"),
            }
        }
    }

    #[test]
    fn a_queue_is_safe_and_a_dry_run_says_what_happens(small in small()) {
        let snapshot = build(&small);
        let names: Vec<JobId> = (0..small.jobs.len()).map(|at| id(&format!("j{at}"))).collect();
        let queue: Vec<GangRequest<'_>> = small.jobs.iter().enumerate()
            .map(|(at, spec)| GangRequest { key: key(0, at as u64), id: &names[at], spec, not_before: None }).collect();
        let decisions = solve(&snapshot, &queue, Timestamp(1));
        prop_assert_eq!(&decisions, &solve(&snapshot, &queue, Timestamp(1)));
        // Without the reasons the decisions are the same.
        let (mut pass, mut summary) = (Pass::default(), snapshot.clone());
        pass.be_summary();
        for (ask, decision) in queue.iter().zip(&decisions) {
            match (pass.decide(&summary, ask, Timestamp(1)), decision) {
                (Decision::Place(mine), Decision::Place(theirs)) => {
                    prop_assert_eq!(&mine, theirs);
                    summary.hold(&tenant(), &mine);
                }
                (Decision::Wait(mine), Decision::Wait(theirs)) => {
                    prop_assert_eq!((mine.quota, mine.until), (theirs.quota, theirs.until));
                }
                (mine, _) => prop_assert!(false, "brief: {mine:?}, in full: {decision:?}"),
            }
        }
        // Step by step with a check after each, every one asked for as a dry run first.
        let mut state = snapshot;
        let mut blocked = Blocked::default();
        for (ask, decision) in queue.iter().zip(&decisions) {
            let dry = Pass::resume(blocked.clone()).decide(&state, ask, Timestamp(1));
            let mut pass = Pass::resume(blocked);
            let real = pass.decide(&state, ask, Timestamp(1));
            blocked = pass.into_blocked();
            prop_assert_eq!(&dry, &real);
            let kind = |d: &Decision| matches!(d, Decision::Place(_));
            prop_assert_eq!(kind(&real), kind(decision));
            if let Decision::Place(placement) = &real {
                prop_assert_eq!(&real, decision);
                prop_assert_eq!(check_placement(&state, &tenant(), ask.spec, placement), Ok(()));
                state.hold(&tenant(), placement);
            }
        }
    }
}

/// Never possible: not even on the cluster when it is idle, all nodes open and every NIC up.
fn never(small: &Small, spec: &JobSpec) -> bool {
    let mut idle = small.clone();
    idle.down = vec![0; idle.down.len()];
    idle.gates = vec![true; idle.gates.len()];
    let gpus = spec.gang.nodes * spec.gang.gpus_per_node;
    brute(&build(&idle), spec).is_none() || (gpus > 0 && gpus > small.quota)
}
