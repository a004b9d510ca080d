//! C4: random placements, each proven by code that shares nothing with the decision.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use controller_scheduler::{CapacityIndex, Choice, Placer, prove};
use controller_topology::RailSet;
use serde_json::json;

use super::{Bench, site};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Clusters per thread; each takes its share of the placements.
const CLUSTERS: u64 = 64;

/// Violations that are printed at most.
const REPORTED: usize = 5;

/// How far it is, on standard error, so often.
const PROGRESS: Duration = Duration::from_secs(10);

/// What one thread has counted and found so far.
#[derive(Debug, Default)]
struct Found {
    placed: u64,
    /// Of these, gangs of several nodes.
    gangs: u64,
    violations: u64,
    /// The first violations with their seeds.
    examples: Vec<String>,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.placed += other.placed;
        self.gangs += other.gangs;
        self.violations += other.violations;
        self.examples.extend(other.examples);
        self.examples.truncate(REPORTED);
    }
}

/// Places random gangs in random small clusters, and proves each placement.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn proven(row: &Row, bench: &Bench) -> Result<(), String> {
    let all: u64 = bench.placements.unwrap_or(if bench.quick { 200_000 } else { 100_000_000 });
    let threads = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let (cpu, begin) = (Cpu::start(), Instant::now());
    let share = all.div_ceil(threads * CLUSTERS);
    let (placed, violations) = (AtomicU64::new(0), AtomicU64::new(0));
    let found: Vec<Found> = thread::scope(|scope| {
        let run = |thread: u64| {
            let (placed, violations) = (&placed, &violations);
            scope.spawn(move || {
                let mut found = Found::default();
                for cluster in 0..CLUSTERS {
                    let here = one(thread << 32 | cluster, share);
                    placed.fetch_add(here.placed, Ordering::Relaxed);
                    violations.fetch_add(here.violations, Ordering::Relaxed);
                    found.add(here);
                }
                found
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        let mut reported = Instant::now();
        while running.iter().any(|thread| !thread.is_finished()) {
            thread::sleep(Duration::from_millis(20));
            if reported.elapsed() >= PROGRESS {
                reported = Instant::now();
                let (placed, wrong) = (placed.load(Ordering::Relaxed), violations.load(Ordering::Relaxed));
                eprintln!("C4: {placed} of {all} placements proved, {wrong} violations");
            }
        }
        running.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    if found.len() as u64 != threads {
        return Err("a thread has ended before its time".into());
    }
    let mut sum = Found::default();
    found.into_iter().for_each(|found| sum.add(found));
    let Found { placed, gangs, violations, examples } = sum;
    let seconds = begin.elapsed().as_secs_f64();
    let peers = json!({"placements": placed, "gangs": gangs, "seconds": seconds, "examples": examples});
    let sample = Sample::new(vec![violations as f64]);
    let (goal, cpu) = (Goal::AtMost(0.0), cpu.cores());
    let case = format!("violations in {placed} random placements");
    let value = violations as f64;
    row.line(&Line { case: &case, value, unit: "count", goal, sample: &sample, cpu, peers });
    Ok(())
}

/// Equal pods on all rails; such pods on rails that are split into islands; unequal pods, the last of which lacks rails.
fn plan(dice: &mut site::Dice, seed: u64) -> site::Plan {
    let blocks = 1 + dice.below(3);
    let mut plan = site::Plan::of(&site::even(16 + dice.below(112), blocks, 4 + dice.below(28)));
    match seed % 4 {
        2 => plan.split = true,
        3 => {
            let pods = 2 + dice.below(4);
            plan.sizes =
                (0..pods).map(|_| (0..=dice.below(2)).map(|_| 1 + dice.below(24)).collect()).collect();
            plan.bare = [dice.below(site::RAILS), dice.below(site::RAILS)].into_iter().collect::<RailSet>();
            plan.split = dice.below(2) == 0;
        }
        _ => {}
    }
    plan
}

/// So many placements in one cluster.
fn one(seed: u64, share: u64) -> Found {
    let mut dice = site::Dice::new(seed);
    let plan = plan(&mut dice, seed);
    let snapshot = site::planned(&plan, seed);
    let (mut capacity_index, mut ledger) =
        (snapshot.capacity_index().clone(), site::Ledger::planned(&snapshot, &plan));
    let needs: Vec<_> = (0..512)
        .map(|_| {
            let nodes = *dice.one(&[1, 1, 1, 2, 2, 3, 4, 4, 8, 8, 16, 24]);
            site::needs(&mut dice, &snapshot, nodes)
        })
        .collect();
    let (mut placer, mut running, mut found) = (Placer::default(), Vec::<Choice>::new(), Found::default());
    let mut at = 0;
    while found.placed < share {
        let need = &needs[at % needs.len()];
        at += 1;
        let mut choice = Choice::default();
        if placer.choose(&capacity_index, need, None, &mut choice) {
            if let Err(flaws) = prove(&ledger, need, &choice) {
                found.violations += 1;
                if found.examples.len() < REPORTED {
                    found.examples.push(format!("seed {seed}, {need:?}: {flaws:?}"));
                }
            }
            found.placed += 1;
            found.gangs += u64::from(choice.nodes.len() > 1);
            hold(&mut capacity_index, &mut ledger, &choice, true);
            running.push(choice);
        }
        // It stays rather full: about as many end as begin.
        if running.len() > 12 || (!running.is_empty() && dice.below(3) == 0) {
            let gone = running.swap_remove(dice.below(running.len() as u32) as usize);
            hold(&mut capacity_index, &mut ledger, &gone, false);
        }
    }
    found
}

fn hold(capacity_index: &mut CapacityIndex, ledger: &mut site::Ledger, choice: &Choice, take: bool) {
    let mut picks = Vec::new();
    site::taken(choice, &mut picks);
    if take {
        capacity_index.take(&picks, choice.rails, choice.host, choice.exclusive);
    } else {
        capacity_index.give(&picks, choice.rails, choice.host, choice.exclusive);
    }
    ledger.hold(choice, take);
}

#[cfg(test)]
mod tests {
    use controller_scheduler::{Flaw, Need, Pick, RailNeed, World};
    use controller_topology::NodeIx;

    use super::*;

    /// The row in short, over clusters of all kinds. A failing seed is in the message.
    #[test]
    fn random_placements_are_proved() {
        for kind in 0..4 {
            let mut sum = Found::default();
            for at in 0..24 {
                sum.add(one(0xc4 << 32 | at << 2 | kind, 1_000));
            }
            assert_eq!((sum.placed, sum.violations), (24_000, 0), "{:#?}", sum.examples);
            assert!(sum.gangs > 6_000, "kind {kind}: {} gangs", sum.gangs);
        }
    }

    /// The proof of the row sees islands by itself.
    #[test]
    fn a_gang_over_islands_is_a_violation() {
        let plan = site::Plan { sizes: vec![vec![8], vec![8]], split: true, ..site::Plan::default() };
        let snapshot = site::planned(&plan, 1);
        let ledger = site::Ledger::planned(&snapshot, &plan);
        // One of each pod with nothing wrong.
        let picks = [0_u32, 1].map(|pod| {
            let well = |node: &NodeIx| {
                let seen = ledger.node(*node).unwrap();
                seen.open && seen.pod == Some(pod) && seen.usable.covers(RailSet::first(site::RAILS))
            };
            Pick { node: (0..16).map(NodeIx::at).find(well).unwrap(), gpus: 0xff }
        });
        for (rail, apart) in [(0, false), (1, true)] {
            let rails: RailSet = [rail].into_iter().collect();
            let need = Need::plain(2, 8, RailNeed::Exactly(rails));
            let choice = Choice { rails, nodes: picks.to_vec(), pods: 2, ..Choice::default() };
            let flaws = prove(&ledger, &need, &choice).err().unwrap_or_default();
            assert_eq!(flaws.contains(&Flaw::Misaligned(rails)), apart, "{flaws:?}");
        }
    }
}
