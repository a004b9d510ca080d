//! What is right, by trying everything.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_topology::RailSet;
use proto_model::{Group, Taint, Within};

use super::{Case, RAILS, Spot, zone};
use crate::{Filter, Gate, Host, Need, RailNeed, explain::Cause};

/// Rails that are there, up and not held.
fn free_rails(spot: &Spot) -> u8 {
    let held = spot.held.map_or(0, |(_, _, rails, _)| rails);
    0b111 & !spot.missing & !spot.down & !held
}

/// CPUs and memory that nobody holds.
fn free_host(spot: &Spot) -> (u32, u64) {
    let held = if spot.held.is_some() { spot.held_host } else { Host::NONE };
    (spot.host.cpus.saturating_sub(held.cpus), spot.host.memory.saturating_sub(held.memory))
}

fn enough(rails: u8, need: RailNeed) -> bool {
    match need {
        RailNeed::Any(count) => rails.count_ones() >= count,
        RailNeed::Exactly(set) => set.iter().all(|rail| rails >> rail & 1 == 1),
    }
}

/// Whether a gang could have this node.
pub fn fits(spot: &Spot, need: &Need) -> bool {
    let held = spot.held.map_or(0, |(_, gpus, ..)| gpus);
    let filter = &need.filter;
    let tolerated = |key: &str| filter.tolerations.iter().any(|t| t.key.as_deref() == Some(key));
    spot.gate == Gate::default()
        && (!spot.excluded || need.exclude.is_empty())
        && !spot.kept
        && (spot.zone || filter.selector.is_empty())
        && (spot.model == "x H100" || filter.gpu_models.is_empty())
        && spot.taints.iter().all(|key| tolerated(key))
        && spot.gpus.saturating_sub(held) >= need.gpus
        && free_host(spot).0 >= need.host.cpus
        && free_host(spot).1 >= need.host.memory
        && !spot.held.is_some_and(|(.., whole)| whole)
        && !(need.exclusive && spot.held.is_some())
        && enough(free_rails(spot), need.rails)
}

/// The most nodes, up to `need.nodes`, by laying out ranks one by one.
pub fn reach(spots: &[Spot], need: &Need, aligned: bool) -> u32 {
    let sets: Vec<RailNeed> = match need.rails {
        RailNeed::Any(count) if aligned && need.nodes + need.spares > 1 => (0_u8..8)
            .map(|set| (0..RAILS).filter(|rail| set >> rail & 1 == 1).collect::<RailSet>())
            .filter(|set| set.len() == count)
            .map(RailNeed::Exactly)
            .collect(),
        rails => vec![rails],
    };
    let unit = need.groups.iter().map(|group| group.size).max().unwrap_or(1);
    let mut most = 0;
    for rails in sets {
        let need = Need { rails, ..need.clone() };
        let mut free: BTreeMap<(u8, u8), u32> = BTreeMap::new();
        for spot in spots.iter().filter(|spot| fits(spot, &need)) {
            *free.entry(spot.place).or_default() += 1;
        }
        let total: u32 = free.values().sum();
        for nodes in (1..=need.nodes).filter(|nodes| nodes % unit == 0 && nodes + need.spares <= total) {
            if nodes > most && lay(&mut free.clone(), &need, nodes as usize, &mut Vec::new()) {
                most = nodes;
            }
        }
    }
    most
}

fn lay(free: &mut BTreeMap<(u8, u8), u32>, need: &Need, nodes: usize, ranks: &mut Vec<(u8, u8)>) -> bool {
    if ranks.len() == nodes {
        return true;
    }
    let places: Vec<(u8, u8)> = free.iter().filter(|(_, left)| **left > 0).map(|(place, _)| *place).collect();
    places.into_iter().any(|place| {
        let near = |other: (u8, u8), within| match within {
            Within::Leaves => other == place,
            Within::Pod => other.0 == place.0,
            Within::Fabric => true,
        };
        let groups = need
            .groups
            .iter()
            .filter(|group| group.required)
            .map(|group| (group.size as usize, group.within));
        let right = groups.chain([(nodes, need.within)]).all(|(size, within)| {
            ranks.get(ranks.len() / size * size).is_none_or(|first| near(*first, within))
        });
        if !right {
            return false;
        }
        ranks.push(place);
        *free.get_mut(&place).unwrap() -= 1;
        let done = lay(free, need, nodes, ranks);
        *free.get_mut(&place).unwrap() += 1;
        ranks.pop();
        done
    })
}

/// A node without a constraint, if it does not fulfil it.
pub type Lift<'a> = Box<dyn Fn(&Spot) -> Option<Spot> + 'a>;

/// Every constraint on nodes: which nodes do not fulfil it, and the nodes without it.
pub fn node_causes(need: &Need) -> Vec<(Cause, Lift<'_>)> {
    let mut all: Vec<(Cause, Lift<'_>)> = Vec::new();
    let when = |yes: bool, spot: Spot| yes.then_some(spot);
    if !need.filter.selector.is_empty() {
        all.push((Cause::Label(zone()), Box::new(move |s| when(!s.zone, Spot { zone: true, ..s.clone() }))));
    }
    if !need.filter.gpu_models.is_empty() {
        let right = |spot: &Spot| Spot { model: "x H100", ..spot.clone() };
        all.push((Cause::GpuModel, Box::new(move |s| when(s.model == "x A100", right(s)))));
        all.push((Cause::GpuModelUnknown, Box::new(move |s| when(s.model.is_empty(), right(s)))));
    }
    for key in ["slow", "old"] {
        let without = move |s: &Spot| s.taints.iter().copied().filter(|other| *other != key).collect();
        let taint = Taint { key: key.into(), value: String::new() };
        all.push((
            Cause::Taint(taint),
            Box::new(move |s| when(s.taints.contains(key), Spot { taints: without(s), ..s.clone() })),
        ));
    }
    all.push((Cause::Excluded, Box::new(move |s| when(s.excluded, Spot { excluded: false, ..s.clone() }))));
    all.push((
        Cause::Withheld(super::ahead()),
        Box::new(move |s| when(s.kept, Spot { kept: false, ..s.clone() })),
    ));
    gate_causes(&mut all);
    all.push((Cause::GpuShape, Box::new(move |s| when(s.gpus < need.gpus, Spot { gpus: 99, ..s.clone() }))));
    all.push((
        Cause::GpusHeld,
        Box::new(move |s| {
            let (job, gpus, rails, whole) = s.held?;
            let yes = s.gpus >= need.gpus && s.gpus.saturating_sub(gpus) < need.gpus;
            when(yes, Spot { held: Some((job, 0, rails, whole)), ..s.clone() })
        }),
    ));
    host_causes(need, &mut all);
    all.push((
        Cause::HeldAlone,
        Box::new(move |s| {
            let (job, gpus, rails, whole) = s.held?;
            when(whole, Spot { held: Some((job, gpus, rails, false)), ..s.clone() })
        }),
    ));
    // The demand that is thought away here is the job's: whoever is there stays, and is in nobody's way.
    all.push((Cause::Shared, Box::new(move |s| when(need.exclusive && s.held.is_some(), s.clone()))));
    rail_causes(need, &mut all);
    all
}

fn gate_causes(all: &mut Vec<(Cause, Lift<'_>)>) {
    let when = |yes: bool, spot: Spot| yes.then_some(spot);
    let gate = move |yes: bool, s: &Spot, gate: Gate| when(yes, Spot { gate, ..s.clone() });
    all.push((
        Cause::Unschedulable,
        Box::new(move |s| gate(s.gate.unschedulable, s, Gate { unschedulable: false, ..s.gate })),
    ));
    // A node that is not heard is not connected either: that is one cause.
    all.push((
        Cause::NotReady,
        Box::new(move |s| gate(s.gate.not_ready, s, Gate { not_ready: false, away: false, ..s.gate })),
    ));
    all.push((
        Cause::Away,
        Box::new(move |s| gate(s.gate.away && !s.gate.not_ready, s, Gate { away: false, ..s.gate })),
    ));
    all.push((
        Cause::Draining,
        Box::new(move |s| gate(s.gate.draining, s, Gate { draining: false, ..s.gate })),
    ));
}

fn host_causes<'a>(need: &'a Need, all: &mut Vec<(Cause, Lift<'a>)>) {
    let asked = need.host;
    let cpus = |s: &Spot| {
        let (host, held_host) = (Host { cpus: 99, ..s.host }, Host { cpus: 0, ..s.held_host });
        Some(Spot { host, held_host, ..s.clone() })
    };
    let memory = |s: &Spot| {
        let (host, held_host) = (Host { memory: 99, ..s.host }, Host { memory: 0, ..s.held_host });
        Some(Spot { host, held_host, ..s.clone() })
    };
    // Of each that is missing: not told, too few, held.
    let kind = |has: u64, free: u64, asked: u64| match (has, free) {
        _ if free >= asked => None,
        (0, _) => Some(0),
        _ if has < asked => Some(1),
        _ => Some(2),
    };
    let of_cpus = move |s: &Spot| kind(s.host.cpus.into(), free_host(s).0.into(), asked.cpus.into());
    let of_memory = move |s: &Spot| kind(s.host.memory, free_host(s).1, asked.memory);
    for (at, cause) in [Cause::CpusUnknown, Cause::CpuShape, Cause::CpusHeld].into_iter().enumerate() {
        all.push((cause, Box::new(move |s| if of_cpus(s) == Some(at) { cpus(s) } else { None })));
    }
    for (at, cause) in [Cause::MemoryUnknown, Cause::MemoryShape, Cause::MemoryHeld].into_iter().enumerate() {
        all.push((cause, Box::new(move |s| if of_memory(s) == Some(at) { memory(s) } else { None })));
    }
}

fn rail_causes<'a>(need: &'a Need, all: &mut Vec<(Cause, Lift<'a>)>) {
    let when = |yes: bool, spot: Spot| yes.then_some(spot);
    match need.rails {
        RailNeed::Exactly(set) => {
            for rail in set.iter() {
                let bit = 1_u8 << rail;
                let held = |s: &Spot| s.held.map_or(0, |(_, _, rails, _)| rails);
                all.push((
                    Cause::RailMissing(Some(rail)),
                    Box::new(move |s| {
                        when(
                            s.missing & bit != 0,
                            Spot {
                                missing: s.missing & !bit,
                                down: s.down & !bit,
                                held: s.held.map(|(j, g, r, w)| (j, g, r & !bit, w)),
                                ..s.clone()
                            },
                        )
                    }),
                ));
                all.push((
                    Cause::RailDown(Some(rail)),
                    Box::new(move |s| {
                        when(
                            s.missing & bit == 0 && s.down & bit != 0,
                            Spot {
                                down: s.down & !bit,
                                held: s.held.map(|(j, g, r, w)| (j, g, r & !bit, w)),
                                ..s.clone()
                            },
                        )
                    }),
                ));
                all.push((
                    Cause::RailHeld(Some(rail)),
                    Box::new(move |s| {
                        when(
                            (s.missing | s.down) & bit == 0 && held(s) & bit != 0,
                            Spot { held: s.held.map(|(j, g, r, w)| (j, g, r & !bit, w)), ..s.clone() },
                        )
                    }),
                ));
            }
        }
        RailNeed::Any(count) => {
            let present = |s: &Spot| (0b111 & !s.missing).count_ones();
            let up = |s: &Spot| (0b111 & !s.missing & !s.down).count_ones();
            let free = |s: &Spot| free_rails(s).count_ones();
            let healed = |s: &Spot| Spot {
                missing: 0,
                down: 0,
                held: s.held.map(|(j, g, _, w)| (j, g, 0, w)),
                ..s.clone()
            };
            all.push((Cause::RailMissing(None), Box::new(move |s| when(present(s) < count, healed(s)))));
            all.push((
                Cause::RailDown(None),
                Box::new(move |s| when(present(s) >= count && up(s) < count, healed(s))),
            ));
            all.push((
                Cause::RailHeld(None),
                Box::new(move |s| when(up(s) >= count && free(s) < count, healed(s))),
            ));
        }
    }
}

/// Constraints on the gang: each as what it turns a need into.
pub fn gang_causes(need: &Need) -> Vec<Cause> {
    let mut all = Vec::new();
    if need.within < Within::Fabric {
        all.push(Cause::Confined(need.within));
    }
    all.extend(need.groups.iter().map(|group| Cause::Grouped(*group)));
    all.push(Cause::Aligned);
    if need.spares > 0 {
        all.push(Cause::Spares);
    }
    all
}

pub fn reach_without(spots: &[Spot], need: &Need, gone: &BTreeSet<&Cause>) -> u32 {
    let mut less = need.clone();
    for cause in gone {
        match cause {
            Cause::Confined(_) => less.within = Within::Fabric,
            Cause::Grouped(group) => {
                for other in less.groups.iter_mut().filter(|other| *other == group) {
                    other.required = false;
                }
            }
            Cause::Spares => less.spares = 0,
            _ => {}
        }
    }
    reach(spots, &less, !gone.contains(&Cause::Aligned))
}

/// One step list per constraint that can be relaxed: amount and the changed need; more quota is `None`.
type Steps = Vec<(u128, Option<Need>)>;

/// What all amounts are multiples of one over: the product of all that is counted, so that nothing is rounded.
fn whole(need: &Need) -> u128 {
    let gpus = (need.nodes + need.spares) * need.gpus;
    let counts = [1000, need.nodes, need.gpus, rail_count(need), need.spares, gpus];
    counts.into_iter().map(|count| u128::from(count.max(1))).product()
}

fn rail_count(need: &Need) -> u32 {
    match need.rails {
        RailNeed::Any(count) => count,
        RailNeed::Exactly(set) => set.len(),
    }
}

fn wider(within: Within) -> &'static [Within] {
    match within {
        Within::Leaves => &[Within::Pod, Within::Fabric],
        Within::Pod => &[Within::Fabric],
        Within::Fabric => &[],
    }
}

fn knobs(case: &Case) -> Vec<(&'static str, Steps)> {
    let (need, whole) = (&case.need, whole(&case.need));
    let unit = need.groups.iter().map(|group| group.size).max().unwrap_or(1);
    let share = |part: u32, of: u32| u128::from(part) * whole / u128::from(of.max(1));
    let with = |change: &dyn Fn(&mut Need)| {
        let mut less = need.clone();
        change(&mut less);
        Some(less)
    };
    let mut all: Vec<(&'static str, Steps)> = vec![
        (
            "nodes",
            (1..need.nodes)
                .filter(|n| n % unit == 0)
                .map(|n| (share(need.nodes - n, need.nodes), with(&|l| l.nodes = n)))
                .collect(),
        ),
        ("gpus", (1..need.gpus).map(|g| (share(need.gpus - g, need.gpus), with(&|l| l.gpus = g))).collect()),
        (
            "spares",
            (0..need.spares)
                .map(|s| (share(need.spares - s, need.spares), with(&|l| l.spares = s)))
                .collect(),
        ),
    ];
    let count = rail_count(need);
    let any = u32::from(matches!(need.rails, RailNeed::Exactly(_)));
    let least = u32::from(need.nodes > 1);
    all.push((
        "rails",
        (least..=count)
            .filter(|c| *c < count || any == 1)
            .map(|c| (share(count - c, count) + share(any, 1000), with(&|l| l.rails = RailNeed::Any(c))))
            .collect(),
    ));
    all.push((
        "within",
        (1..).zip(wider(need.within)).map(|(step, w)| (whole * step, with(&|l| l.within = *w))).collect(),
    ));
    for (at, label) in (0..need.groups.len()).zip(["group0", "group1"]) {
        all.push((label, vec![(whole, with(&|l| l.groups[at].required = false))]));
    }
    if need.exclusive {
        all.push(("share", vec![(whole, with(&|l| l.exclusive = false))]));
    }
    for key in ["slow", "old"] {
        let more = |l: &mut Need| {
            let mut filter = Filter::clone(&l.filter);
            filter.tolerations.push(crate::Toleration { key: Some(key.into()), value: None });
            l.filter = Arc::new(filter);
        };
        all.push((key, vec![(whole, with(&more))]));
    }
    if !need.filter.selector.is_empty() {
        let drop =
            |l: &mut Need| l.filter = Arc::new(Filter { selector: Vec::new(), ..Filter::clone(&l.filter) });
        all.push(("label", vec![(whole, with(&drop))]));
    }
    if !need.filter.gpu_models.is_empty() {
        let any = |l: &mut Need| {
            l.filter = Arc::new(Filter { gpu_models: BTreeSet::new(), ..Filter::clone(&l.filter) });
        };
        all.push(("model", vec![(whole, with(&any))]));
    }
    all.extend(host_knobs(need, whole));
    all.push(("include", vec![(whole, with(&|l| l.exclude.clear()))]));
    all.push(("quota", vec![(0, None)]));
    all.retain(|(_, steps)| !steps.is_empty());
    all
}

fn host_knobs(need: &Need, whole: u128) -> impl Iterator<Item = (&'static str, Steps)> {
    let (cpus, memory) = (Host { cpus: 0, ..need.host }, Host { memory: 0, ..need.host });
    let changed = [("cpus", cpus), ("memory", memory)].into_iter().filter(|(_, host)| *host != need.host);
    changed.map(move |(label, host)| (label, vec![(whole, Some(Need { host, ..need.clone() }))]))
}

/// Puts together what two changes make of a need: fields that differ from the original win.
fn merge(base: &Need, a: Need, b: &Need) -> Need {
    let pick = |x: u32, y: u32, z: u32| if y == z { x } else { y };
    let groups = a
        .groups
        .iter()
        .zip(&b.groups)
        .map(|(x, y)| Group { required: x.required && y.required, ..*x })
        .collect();
    let mut tolerations = a.filter.tolerations.clone();
    tolerations.extend(b.filter.tolerations.iter().cloned());
    let selector = if b.filter.selector.is_empty() { Vec::new() } else { a.filter.selector.clone() };
    Need {
        nodes: pick(a.nodes, b.nodes, base.nodes),
        gpus: pick(a.gpus, b.gpus, base.gpus),
        spares: pick(a.spares, b.spares, base.spares),
        rails: if b.rails == base.rails { a.rails } else { b.rails },
        within: a.within.max(b.within),
        host: Host { cpus: a.host.cpus.min(b.host.cpus), memory: a.host.memory.min(b.host.memory) },
        exclusive: a.exclusive && b.exclusive,
        exclude: if b.exclude.is_empty() { Vec::new() } else { a.exclude.clone() },
        only: if b.only.is_none() { None } else { a.only.clone() },
        groups,
        filter: Arc::new(Filter {
            selector,
            tolerations,
            gpu_models: a.filter.gpu_models.intersection(&b.filter.gpu_models).cloned().collect(),
            ..Filter::default()
        }),
        ..base.clone()
    }
}

/// All sets of the fewest knobs that help, each with its least amount.
pub fn brute_relaxations(case: &Case) -> BTreeMap<BTreeSet<&'static str>, u64> {
    let (need, knobs) = (&case.need, knobs(case));
    let gpus = |need: &Need| u64::from(need.nodes + need.spares) * u64::from(need.gpus);
    let mut memo: BTreeMap<Need, bool> = BTreeMap::new();
    let mut found: BTreeMap<BTreeSet<&'static str>, u128> = BTreeMap::new();
    let whole = whole(need);
    let thousandths = |found: BTreeMap<BTreeSet<&'static str>, u128>| {
        found.into_iter().map(|(names, amount)| (names, (amount * 1000).div_ceil(whole) as u64)).collect()
    };
    for size in 1..=4_u32 {
        for set in (1_u32..1 << knobs.len()).filter(|set| set.count_ones() == size) {
            let chosen: Vec<_> =
                (0..knobs.len()).filter(|at| set >> at & 1 == 1).map(|at| &knobs[at]).collect();
            let mut digits = vec![0; chosen.len()];
            'all: loop {
                let (mut less, mut amount, mut quota) = (need.clone(), 0, false);
                for ((_, steps), digit) in chosen.iter().zip(&digits) {
                    let (cost, change) = &steps[*digit];
                    amount += cost;
                    match change {
                        Some(change) => less = merge(need, less, change),
                        None => quota = true,
                    }
                }
                let short = case.quota.map_or(0, |left| gpus(&less).saturating_sub(left));
                if quota {
                    amount += u128::from(short) * whole / u128::from(gpus(need).max(1));
                }
                // A change that is not needed makes a set of fewer.
                if short == 0 || quota {
                    let starts = *memo
                        .entry(less.clone())
                        .or_insert_with(|| reach(&case.spots, &less, true) == less.nodes);
                    if starts {
                        let names: BTreeSet<&'static str> = chosen.iter().map(|(name, _)| *name).collect();
                        let least = found.entry(names).or_insert(amount);
                        *least = amount.min(*least);
                    }
                }
                for at in 0..=digits.len() {
                    if at == digits.len() {
                        break 'all;
                    }
                    digits[at] += 1;
                    if digits[at] < chosen[at].1.len() {
                        break;
                    }
                    digits[at] = 0;
                }
            }
        }
        if !found.is_empty() {
            return thousandths(found);
        }
    }
    thousandths(found)
}
