//! C5: decisions on small clusters against the optimum.

use controller_scheduler::{
    CapacityIndex, Choice, Group, Host, Need, Pattern, Pick, Placer, RailNeed, Within,
    exact::{Puzzle, optimum},
};
use controller_topology::{NodeIx, RailSet};
use serde_json::json;

use super::{Bench, site};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Measures row C5: compares decisions on seeded instances with the optimum.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn against_optimum(row: &Row, bench: &Bench) -> Result<(), String> {
    let instances: u32 = if bench.quick { 500 } else { 10_000 };
    let cpu = Cpu::start();
    let (mut more_pods, mut excess, mut compared) = (0_u32, Vec::new(), [0_u32; 3]);
    let (mut worst, mut disagree) = (Vec::new(), 0_u32);
    let mut seed = 0;
    while excess.len() < instances as usize {
        seed += 1;
        let Some(found) = instance(seed) else { continue };
        match found {
            Found::Pods(text) => {
                more_pods += 1;
                worst.push((f64::INFINITY, text));
            }
            Found::Disagree(text) => {
                disagree += 1;
                worst.push((f64::INFINITY, text));
            }
            Found::Cut(pattern, percent, text) => {
                compared[pattern] += 1;
                worst.push((percent, text));
                excess.push(percent);
            }
        }
        worst.sort_by(|a, b| b.0.total_cmp(&a.0));
        worst.truncate(3);
    }
    let cpu = cpu.cores();
    let worst: Vec<&String> =
        worst.iter().filter(|(percent, _)| *percent > 0.0).map(|(_, text)| text).collect();
    let peers = json!({
        "instances": excess.len(), "ring": compared[0], "all_to_all": compared[1], "pipeline": compared[2], "worst": worst,
    });
    let mean = excess.iter().sum::<f64>() / excess.len() as f64;
    let above = excess.iter().filter(|percent| **percent > 0.0).count() as f64 * 100.0 / excess.len() as f64;
    let most = excess.iter().copied().fold(0.0, f64::max);
    let sample = Sample::new(excess);
    let count = |value: u32| (f64::from(value), Sample::new(vec![f64::from(value)]));
    let (value, one) = count(more_pods);
    let line = |case: &str, value, unit: &str, goal, sample: &Sample| {
        row.line(&Line { case, value, unit, goal, sample, cpu, peers: peers.clone() });
    };
    line("instances with more pods than the fewest", value, "count", Goal::AtMost(0.0), &one);
    let (value, one) = count(disagree);
    line("instances called feasible or not against the truth", value, "count", Goal::AtMost(0.0), &one);
    line("weighted cut above the optimum, mean", mean, "%", Goal::AtMost(1.0), &sample);
    line("weighted cut above the optimum, worst", most, "%", Goal::AtMost(5.0), &sample);
    line("instances above the optimum", above, "%", Goal::None, &sample);
    Ok(())
}

enum Found {
    /// More pods than the fewest.
    Pods(String),
    /// One finds a place, the other none.
    Disagree(String),
    /// The kind of the pattern, and how far the cut is above the optimum, in percent.
    Cut(usize, f64, String),
}

/// Some nodes are held by others.
fn busy(dice: &mut site::Dice, nodes: u32, capacity_index: &mut CapacityIndex, ledger: &mut site::Ledger) {
    for _ in 0..dice.below(nodes / 2 + 1) {
        let ix = NodeIx::at(dice.below(nodes) as usize);
        let (gpus, rails) = capacity_index.free(ix);
        if gpus != 0 {
            let pick = Pick { node: ix, gpus };
            capacity_index.take(&[pick], rails, Host::NONE, false);
            ledger.hold(&Choice { rails, nodes: vec![pick], ..Choice::default() }, true);
        }
    }
}

/// One random instance of up to 64 nodes; `None` where there is nothing to compare.
fn instance(seed: u64) -> Option<Found> {
    let mut dice = site::Dice::new(seed);
    let (kind, pattern) = match dice.below(5) {
        0 | 1 => (0, Pattern::Ring),
        2 | 3 => (1, Pattern::AllToAll),
        _ => (2, Pattern::Pipeline(*dice.one(&[2, 3, 4]))),
    };
    // Optimal pipelines are searched for: fewer nodes, in fewer places.
    let (pods, blocks, most) = if kind == 2 { (2, 2, 8) } else { (2 + dice.below(5), 4, 16) };
    let mut sizes: site::Sizes =
        (0..pods).map(|_| (0..1 + dice.below(blocks)).map(|_| 1 + dice.below(most)).collect()).collect();
    while sizes.iter().flatten().sum::<u32>() > 64 {
        sizes.pop();
    }
    let nodes: u32 = sizes.iter().flatten().sum();
    if nodes == 0 {
        return None;
    }
    let snapshot = site::cluster(&sizes, seed);
    let (mut capacity_index, mut ledger, mut placer) =
        (snapshot.capacity_index().clone(), site::Ledger::new(&snapshot), Placer::default());
    busy(&mut dice, nodes, &mut capacity_index, &mut ledger);
    let unit = match pattern {
        Pattern::Pipeline(size) => size,
        _ => *dice.one(&[1, 1, 1, 2, 4]),
    };
    let most = if kind == 2 { 16 } else { nodes };
    let size = (1 + dice.below(most)).next_multiple_of(unit);
    let rails =
        if dice.below(4) == 0 { RailNeed::Any(7) } else { RailNeed::Exactly(RailSet::first(site::RAILS)) };
    let mut need = Need { pattern, ..Need::plain(size, 8, rails) };
    let mut units = (1, 1);
    if kind != 2 && unit > 1 {
        let within = *dice.one(&[Within::Leaves, Within::Pod]);
        need.groups = vec![Group { size: unit, within, required: true }];
        units = if within == Within::Pod { (1, unit) } else { (unit, 1) };
    }
    let sets = match need.rails {
        RailNeed::Exactly(rails) => vec![rails],
        RailNeed::Any(_) => (0..site::RAILS)
            .map(|out| RailSet::first(site::RAILS).without(RailSet::EMPTY.with(out)))
            .collect(),
    };
    let best = sets
        .into_iter()
        .filter_map(|rails| {
            let free = ledger.free(&capacity_index, &sizes, &need, rails);
            optimum(&Puzzle { pods: &free, nodes: size, units, pattern }).map(|(pods, cut)| (pods, cut, free))
        })
        .min();
    let mut choice = Choice::default();
    let found = placer.choose(&capacity_index, &need, None, &mut choice);
    let text = || {
        format!(
            "seed {seed}: {pattern:?} of {size} units {units:?}, optimum {best:?}, found {} pods cut {}",
            choice.pods, choice.cut
        )
    };
    match (&best, found) {
        (None, false) => None,
        (Some((pods, cut, _)), true) => Some(if choice.pods != *pods {
            Found::Pods(text())
        } else if *cut == 0 {
            Found::Cut(kind, if choice.cut == 0 { 0.0 } else { 100.0 }, text())
        } else {
            Found::Cut(kind, (choice.cut as f64 / *cut as f64 - 1.0) * 100.0, text())
        }),
        _ => Some(Found::Disagree(text())),
    }
}
