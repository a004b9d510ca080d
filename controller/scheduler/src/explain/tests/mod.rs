//! Explanations against brute force on small clusters. The brute force looks at its own table of nodes and shares no
//! code with what it checks.

mod brute;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_topology::{NodeIx, RailSet};
use proptest::prelude::*;
use proto_model::{
    Group, Inventory, JobId, JobName, NicPlace, NodeName, NodePlace, Placement, Taint, TenantName, Term,
    Thing, Within,
};

use brute::{brute_relaxations, fits, gang_causes, node_causes, reach, reach_without};

use super::{Cause, Change, Explanation, QueueFacts, WithheldNodes, explain};
use crate::{Choice, Filter, Gate, Hidden, Host, Need, NodeSet, Placer, RailNeed, Snapshot, world};

const RAILS: u32 = 3;

/// All that there is to know of a node.
#[derive(Debug, Clone, PartialEq)]
struct Spot {
    place: (u8, u8),
    gpus: u32,
    missing: u8,
    down: u8,
    zone: bool,
    taints: BTreeSet<&'static str>,
    gate: Gate,
    /// Who holds how many GPUs and which rails.
    held: Option<(u8, u32, u8, bool)>,
    excluded: bool,
    kept: bool,
    /// What its GPUs' driver calls them.
    model: &'static str,
    /// Its CPUs and memory, and what of them is held by who holds something.
    host: Host,
    held_host: Host,
}

#[derive(Debug, Clone)]
struct Case {
    spots: Vec<Spot>,
    need: Need,
    quota: Option<u64>,
}

fn zone() -> Term {
    Term::In("zone".into(), ["a".to_owned()].into())
}

fn flag(share: f64) -> impl Strategy<Value = bool> {
    prop::bool::weighted(share)
}

fn spot() -> impl Strategy<Value = Spot> {
    let gate = (flag(0.06), flag(0.06), flag(0.06), flag(0.06));
    let held = prop_oneof![
        5 => Just(None),
        2 => (0_u8..3, 0_u32..3, 0_u8..8, flag(0.2)).prop_map(Some),
    ];
    let spot = (
        (0_u8..2, 0_u8..2),
        prop_oneof![1 => Just(1_u32), 4 => Just(2_u32)],
        (prop_oneof![6 => Just(0_u8), 1 => 0_u8..8], prop_oneof![5 => Just(0_u8), 1 => 0_u8..8]),
        (flag(0.8), flag(0.15), flag(0.1)),
        gate,
        held,
        (
            (flag(0.1), flag(0.1), prop_oneof![6 => Just("x H100"), 1 => Just("x A100"), 1 => Just("")]),
            host(),
            host(),
        ),
    );
    spot.prop_map(|(place, gpus, (missing, down), (zone, slow, old), gate, held, rest)| {
        let ((excluded, kept, model), host, held_host) = rest;
        Spot {
            place,
            gpus,
            missing,
            down,
            zone,
            taints: [("slow", slow), ("old", old)]
                .into_iter()
                .filter(|(_, yes)| *yes)
                .map(|(key, _)| key)
                .collect(),
            gate: Gate { unschedulable: gate.0, not_ready: gate.1, away: gate.2, draining: gate.3 },
            held: held.filter(|(_, gpus, rails, _)| *gpus > 0 || *rails > 0),
            excluded,
            kept,
            model,
            host,
            held_host,
        }
    })
}

fn host() -> impl Strategy<Value = Host> {
    let one = || prop_oneof![1 => Just(0_u32), 3 => 1_u32..4];
    (one(), one()).prop_map(|(cpus, memory)| Host { cpus, memory: memory.into() })
}

fn need() -> impl Strategy<Value = Need> {
    let group = |size, within| Group { size, within, required: true };
    let groups = prop_oneof![
        3 => Just(Vec::new()),
        1 => Just(vec![group(2, Within::Pod)]),
        1 => Just(vec![group(2, Within::Leaves)]),
        1 => Just(vec![group(2, Within::Leaves), group(4, Within::Pod)]),
    ];
    let need = (
        1_u32..4,
        0_u32..3,
        prop_oneof![2 => (1_u32..4).prop_map(|n| RailNeed::Exactly(RailSet::first(n))), 1 => (1_u32..3).prop_map(RailNeed::Any)],
        flag(0.2),
        prop_oneof![3 => Just(Within::Fabric), 1 => Just(Within::Pod), 1 => Just(Within::Leaves)],
        groups,
        prop_oneof![3 => Just(0_u32), 1 => 1_u32..3],
        (flag(0.4), flag(0.2), prop_oneof![3 => Just(Host::NONE), 1 => host()]),
    );
    need.prop_map(|(size, gpus, rails, exclusive, within, groups, spares, (select, model, host))| {
        let unit = groups.iter().map(|group: &Group| group.size).max().unwrap_or(1);
        let gpu_models = (model && gpus > 0).then(|| proto_model::GpuModel::new("h100").unwrap());
        let filter = Filter {
            selector: select.then(zone).into_iter().collect(),
            gpu_models: gpu_models.into_iter().collect(),
            ..Filter::default()
        };
        let nodes = (size * 2).next_multiple_of(unit).max(unit) - u32::from(unit == 1 && size == 2);
        Need {
            exclusive,
            within,
            groups,
            spares,
            host,
            filter: Arc::new(filter),
            ..Need::plain(nodes, gpus, rails)
        }
    })
}

fn case() -> impl Strategy<Value = Case> {
    let quota = prop_oneof![3 => Just(None), 1 => (0_u64..12).prop_map(Some)];
    (prop::collection::vec(spot(), 2..8), need(), quota).prop_map(|(spots, need, quota)| Case {
        spots,
        need,
        quota,
    })
}

fn name(n: usize) -> NodeName {
    NodeName::new(format!("n{n}")).unwrap()
}

fn inventory(spot: &Spot) -> Arc<Inventory> {
    let mut inventory = world::of_model(spot.gpus, !spot.missing & 0b111, spot.down, spot.model);
    let reported = Arc::make_mut(&mut inventory);
    (reported.cpus, reported.memory_bytes) = (spot.host.cpus, spot.host.memory);
    inventory
}

/// The same cluster for the code under test; and who holds what.
fn build(spots: &[Spot]) -> (Snapshot, BTreeMap<u8, Vec<NodeIx>>) {
    let places: Vec<(u8, u8)> = spots.iter().map(|spot| spot.place).collect();
    let fabric = world::fabric(RAILS, &places, name);
    let mut snapshot = Snapshot::new(Some(&fabric));
    let mut holders: BTreeMap<u8, Vec<NodeIx>> = BTreeMap::new();
    for (at, spot) in spots.iter().enumerate() {
        let labels = [("zone".to_owned(), if spot.zone { "a" } else { "b" }.to_owned())].into();
        let taints =
            spot.taints.iter().map(|key| Taint { key: (*key).into(), value: String::new() }).collect();
        snapshot.set_labelled(&name(at), &inventory(spot), spot.gate, &labels, &taints);
        let Some((job, gpus, rails, whole)) = spot.held else { continue };
        let nic = |rail| NicPlace {
            device: String::new(),
            netdev: String::new(),
            rail,
            leaf: String::new(),
            address: None,
        };
        let place = NodePlace {
            node: name(at),
            pod: String::new(),
            gpus: (0..gpus).collect(),
            nics: (0..RAILS).filter(|rail| rails >> rail & 1 == 1).map(nic).collect(),
            remapped: false,
            cpus: spot.held_host.cpus,
            memory_bytes: spot.held_host.memory,
        };
        let placement = Placement { nodes: vec![place], exclusive: whole, ..Placement::default() };
        snapshot.hold(&TenantName::new("t").unwrap(), &placement);
        holders.entry(job).or_default().push(snapshot.topology().index(&name(at)).unwrap());
    }
    (snapshot, holders)
}

fn label(change: &Change, need: &Need) -> &'static str {
    match change {
        Change::Nodes { .. } => "nodes",
        Change::Gpus { .. } => "gpus",
        Change::Rails { .. } => "rails",
        Change::Within { .. } => "within",
        Change::Split(group) if need.groups[0] == *group => "group0",
        Change::Split(_) => "group1",
        Change::Share => "share",
        Change::Tolerate(taint) if taint.key == "slow" => "slow",
        Change::Tolerate(_) => "old",
        Change::Drop(_) => "label",
        Change::AnyModel => "model",
        Change::NoCpus { .. } => "cpus",
        Change::NoMemory { .. } => "memory",
        Change::Include { .. } => "include",
        Change::Drained => "drained",
        Change::Spares { .. } => "spares",
        Change::Quota { .. } => "quota",
    }
}

/// For whom nodes are kept.
fn ahead() -> Thing {
    Thing::Job(JobId { tenant: TenantName::new("t").unwrap(), name: JobName::new("ahead").unwrap() })
}

fn check(mut case: Case) -> Result<(), TestCaseError> {
    let (snapshot, holders) = build(&case.spots);
    let ix = |at: usize| snapshot.topology().index(&name(at)).unwrap();
    let spots = &case.spots;
    case.need.exclude = (0..spots.len()).filter(|at| spots[*at].excluded).map(ix).collect();
    let need = &case.need;
    let kept: NodeSet = (0..spots.len()).filter(|at| spots[*at].kept).map(ix).collect();
    let thing = ahead();
    let keeps = [WithheldNodes { thing: &thing, nodes: &kept }];
    let facts = QueueFacts { kept: &keeps, quota: case.quota };
    let explanation = explain(&snapshot, &mut Placer::default(), need, &facts, holders.clone());
    // Whether it starts is what placing says.
    let hidden = Hidden::of(snapshot.capacity_index(), kept.iter());
    let placed =
        Placer::default().choose(snapshot.capacity_index(), need, Some(&hidden), &mut Choice::default());
    let asked = u64::from(need.nodes + need.spares) * u64::from(need.gpus);
    let short = case.quota.map_or(0, |left| asked.saturating_sub(left));
    prop_assert_eq!(explanation.starts, placed && short == 0);
    prop_assert_eq!(explanation.reach, reach(spots, need, true));
    prop_assert_eq!(explanation.starts, reach(spots, need, true) == need.nodes && short == 0);
    check_causes(&case, &explanation)?;
    if explanation.starts {
        prop_assert!(explanation.relaxations.is_empty() && explanation.holders.is_empty());
        return Ok(());
    }
    check_ways(&case, &explanation, &holders)
}

/// Every constraint is named with its counts, and no other.
fn check_causes(case: &Case, explanation: &Explanation<u8>) -> Result<(), TestCaseError> {
    let (spots, need) = (&case.spots, &case.need);
    let free = spots.iter().filter(|spot| fits(spot, need)).count() as u32;
    prop_assert_eq!((explanation.nodes, explanation.free), (spots.len() as u32, free));
    let mut right: BTreeMap<Cause, (u32, u32)> = BTreeMap::new();
    for (cause, lift) in node_causes(need) {
        let lost = spots.iter().filter(|spot| lift(spot).is_some()).count() as u32;
        let loose =
            if cause == Cause::Shared { Need { exclusive: false, ..need.clone() } } else { need.clone() };
        let alone = spots
            .iter()
            .filter(|spot| {
                !fits(spot, need)
                    && lift(spot).is_some_and(|spot| {
                        // Without its holds it is nobody's; what else it fails stays.
                        let exclusive = need.exclusive && cause != Cause::Shared;
                        fits(&spot, &Need { exclusive, ..loose.clone() })
                    })
            })
            .count() as u32;
        if lost > 0 {
            right.insert(cause, (lost, alone));
        }
    }
    // The gang.
    let causes = gang_causes(need);
    for cause in &causes {
        let others: Vec<&Cause> = causes.iter().filter(|other| *other != cause).collect();
        let (mut lost, mut alone) = (0, 0);
        for set in 0_u32..1 << others.len() {
            let mut gone: BTreeSet<&Cause> =
                others.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1).map(|(_, c)| *c).collect();
            let before = reach_without(spots, need, &gone);
            gone.insert(cause);
            let gain = reach_without(spots, need, &gone) - before;
            lost = lost.max(gain);
            if set == 0 {
                alone = gain;
            }
        }
        if lost > 0 {
            right.insert(cause.clone(), (lost, alone));
        }
    }
    let asked = u64::from(need.nodes + need.spares) * u64::from(need.gpus);
    let short = case.quota.map_or(0, |left| asked.saturating_sub(left));
    if short > 0 {
        right.insert(Cause::Quota, (short as u32, 0));
    }
    let named: BTreeMap<Cause, (u32, u32)> =
        explanation.blockers.iter().map(|b| (b.cause.clone(), (b.lost, b.alone))).collect();
    prop_assert_eq!(named, right);
    Ok(())
}

/// Who holds, and what would help.
fn check_ways(
    case: &Case,
    explanation: &Explanation<u8>,
    holders: &BTreeMap<u8, Vec<NodeIx>>,
) -> Result<(), TestCaseError> {
    let (spots, need) = (&case.spots, &case.need);
    let held = |spot: &Spot| !fits(spot, need) && fits(&Spot { held: None, ..spot.clone() }, need);
    let counts = holders
        .iter()
        .map(|(job, nodes)| (*job, nodes.iter().filter(|node| held(&spots[node.index()])).count() as u32));
    let right: BTreeMap<u8, u32> = counts.filter(|(_, nodes)| *nodes > 0).collect();
    let named: BTreeMap<u8, u32> =
        explanation.holders.iter().map(|holder| (holder.job, holder.nodes)).collect();
    prop_assert_eq!(named, right);
    let named: BTreeMap<BTreeSet<&str>, u64> = explanation
        .relaxations
        .iter()
        .map(|r| (r.changes.iter().map(|change| label(change, need)).collect(), r.amount))
        .collect();
    let right = brute_relaxations(case);
    if right.len() <= 16 {
        prop_assert_eq!(named, right);
    }
    Ok(())
}

/// Two nodes less and quota for four weigh as much as three less and quota for three; each rounded up they did not.
#[test]
fn amounts_that_are_equal_look_equal() {
    let spot = |pod| Spot {
        place: (pod, 0),
        gpus: 2,
        missing: 0,
        down: 0,
        zone: false,
        taints: BTreeSet::new(),
        gate: Gate::default(),
        held: None,
        excluded: false,
        kept: false,
        model: "x H100",
        host: Host::NONE,
        held_host: Host::NONE,
    };
    let need = Need::plain(6, 2, RailNeed::Exactly(RailSet::first(1)));
    check(Case { spots: [0, 1, 1, 0].map(spot).into(), need, quota: Some(0) }).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn complete_against_brute_force(case in case()) {
        check(case)?;
    }
}
