//! C4: random placements, each proven by code that shares nothing with the decision.

use std::{thread, time::Instant};

use controller_scheduler::{Choice, Placer, prove};
use serde_json::json;

use super::{Bench, site};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Clusters per thread; each takes its share of the placements.
const CLUSTERS: u64 = 64;

/// Places random gangs in random small clusters, and proves each placement.
pub fn proven(row: &Row, bench: &Bench) -> Result<(), String> {
    let all: u64 = bench.placements.unwrap_or(if bench.quick { 200_000 } else { 100_000_000 });
    let threads = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let (cpu, begin) = (Cpu::start(), Instant::now());
    let found: Vec<(u64, u64, Vec<String>)> = thread::scope(|scope| {
        let share = all.div_ceil(threads * CLUSTERS);
        let run = |thread| scope.spawn(move || one(thread, share));
        let running: Vec<_> = (0..threads).map(run).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    if found.len() as u64 != threads {
        return Err("a thread has ended before its time".into());
    }
    let placed: u64 = found.iter().map(|(placed, ..)| placed).sum();
    let violations: u64 = found.iter().map(|(_, violations, _)| violations).sum();
    let examples: Vec<&String> = found.iter().flat_map(|(.., examples)| examples).take(5).collect();
    let peers = json!({"placements": placed, "seconds": begin.elapsed().as_secs_f64(), "examples": examples});
    let sample = Sample::new(vec![violations as f64]);
    let (goal, cpu) = (Goal::AtMost(0.0), cpu.cores());
    let case = format!("violations in {placed} random placements");
    row.line(&Line {
        case: &case,
        value: violations as f64,
        unit: "count",
        goal,
        sample: &sample,
        cpu,
        peers,
    });
    Ok(())
}

fn one(thread: u64, share: u64) -> (u64, u64, Vec<String>) {
    let (mut placed, mut violations, mut examples) = (0, 0, Vec::new());
    for cluster in 0..CLUSTERS {
        let seed = thread << 32 | cluster;
        let mut dice = site::Dice::new(seed);
        let blocks = 1 + dice.below(3);
        let sizes = site::even(16 + dice.below(112), blocks, 4 + dice.below(28));
        let snapshot = site::cluster(&sizes, seed);
        let (mut yard, mut ledger) = (snapshot.yard().clone(), site::Ledger::new(&snapshot));
        let needs: Vec<_> = (0..512)
            .map(|_| {
                let nodes = *dice.one(&[1, 1, 1, 2, 2, 3, 4, 4, 8, 8, 16, 24]);
                site::needs(&mut dice, &snapshot, nodes)
            })
            .collect();
        let (mut placer, mut running, mut picks) = (Placer::default(), Vec::<Choice>::new(), Vec::new());
        let (mut here, mut at) = (0, 0);
        while here < share {
            let need = &needs[at % needs.len()];
            at += 1;
            let mut choice = Choice::default();
            if placer.choose(&yard, need, None, &mut choice) {
                if let Err(flaws) = prove(&ledger, need, &choice) {
                    violations += 1;
                    if examples.len() < 5 {
                        examples.push(format!("seed {seed}, {need:?}: {flaws:?}"));
                    }
                }
                site::taken(&choice, &mut picks);
                yard.take(&picks, choice.rails, choice.exclusive);
                ledger.hold(&choice, true);
                running.push(choice);
                here += 1;
            }
            // It stays rather full: about as many end as begin.
            if running.len() > 12 || (!running.is_empty() && dice.below(3) == 0) {
                let gone = running.swap_remove(dice.below(running.len() as u32) as usize);
                site::taken(&gone, &mut picks);
                yard.give(&picks, gone.rails, gone.exclusive);
                ledger.hold(&gone, false);
            }
        }
        placed += here;
    }
    (placed, violations, examples)
}
