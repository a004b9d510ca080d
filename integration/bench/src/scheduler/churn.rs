//! C1 and C2: gangs of all sizes and constraints come and go in a cluster that is nine tenths full.

use std::time::Instant;

use controller_scheduler::{CapacityIndex, Choice, Need, Pick, Placer, Snapshot};
use serde_json::json;

use super::{Bench, site};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Share of all GPUs that is held.
const FULL: f64 = 0.9;

/// Kinds of requests, drawn before the clock starts.
const KINDS: usize = 4096;

struct Churn {
    capacity_index: CapacityIndex,
    placer: Placer,
    dice: site::Dice,
    /// What jobs ask for, in the order in which they come.
    needs: Vec<Need>,
    next: usize,
    running: Vec<Choice>,
    /// Choices whose vectors are used again.
    idle: Vec<Choice>,
    picks: Vec<Pick>,
    used: u64,
    limit: u64,
    counts: Counts,
}

#[derive(Default, Clone, Copy)]
struct Counts {
    placed: u64,
    nodes: u64,
    refused: u64,
    ended: u64,
}

impl Churn {
    /// Fills an empty cluster.
    fn new(snapshot: &Snapshot, sizes: &[u32], seed: u64) -> Self {
        let mut dice = site::Dice::new(seed);
        let needs = (0..KINDS)
            .map(|_| {
                let nodes = *dice.one(sizes);
                site::needs(&mut dice, snapshot, nodes)
            })
            .collect();
        let gpus: u64 = snapshot.nodes().map(|(_, _, capacity)| u64::from(capacity.gpus.count_ones())).sum();
        let mut churn = Self {
            capacity_index: snapshot.capacity_index().clone(),
            placer: Placer::default(),
            dice,
            needs,
            next: 0,
            running: Vec::new(),
            idle: Vec::new(),
            picks: Vec::new(),
            used: 0,
            limit: (gpus as f64 * FULL) as u64,
            counts: Counts::default(),
        };
        for _ in 0..2_000 + gpus / 8 {
            churn.turn();
        }
        churn.counts = Counts::default();
        churn
    }

    fn gpus(choice: &Choice) -> u64 {
        choice.nodes.iter().chain(&choice.spares).map(|pick| u64::from(pick.gpus.count_ones())).sum()
    }

    /// Random gangs end until the next one is within nine tenths; then it is placed, if it can be.
    fn turn(&mut self) {
        let need = &self.needs[self.next];
        self.next = (self.next + 1) % KINDS;
        let wanted = u64::from(need.nodes + need.spares) * u64::from(need.gpus);
        while self.used + wanted > self.limit && !self.running.is_empty() {
            let at = self.dice.below(self.running.len() as u32) as usize;
            let gone = self.running.swap_remove(at);
            site::taken(&gone, &mut self.picks);
            self.capacity_index.give(&self.picks, gone.rails, gone.host, gone.exclusive);
            self.used -= Self::gpus(&gone);
            self.counts.ended += 1;
            self.idle.push(gone);
        }
        let mut choice = self.idle.pop().unwrap_or_default();
        if self.placer.choose(&self.capacity_index, need, None, &mut choice) {
            site::taken(&choice, &mut self.picks);
            self.capacity_index.take(&self.picks, choice.rails, choice.host, choice.exclusive);
            self.used += Self::gpus(&choice);
            self.counts.placed += 1;
            self.counts.nodes += self.picks.len() as u64;
            self.running.push(choice);
        } else {
            self.counts.refused += 1;
            self.idle.push(choice);
        }
    }
}

/// 1, 2, 4, ... 512: as many gangs of each size.
const MIXED: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// C1: placements a second, each a decision and the change of the capacity index, with the ends that make room for it and the
/// decisions that find none in the same time.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn placements(row: &Row, bench: &Bench) -> Result<(), String> {
    let cases = [
        ("10,000 nodes, pods of 64", site::even(10_000, 1, 64), Some(200_000.0)),
        ("125,000 nodes, pods of 64", site::even(125_000, 1, 64), Some(100_000.0)),
        ("10,000 nodes, pods of 8 x 32", site::even(10_000, 8, 32), None),
        ("125,000 nodes, pods of 8 x 32", site::even(125_000, 8, 32), None),
    ];
    for (name, sizes, goal) in cases {
        let snapshot = site::cluster(&sizes, 1);
        let mut churn = Churn::new(&snapshot, &MIXED, 2);
        let (runs, turns) = if bench.quick { (3, 50_000) } else { (7, 150_000) };
        let (mut rates, mut cpu) = (Vec::new(), 0.0);
        for _ in 0..runs {
            churn.counts = Counts::default();
            let (busy, begin) = (Cpu::start(), Instant::now());
            for _ in 0..turns {
                churn.turn();
            }
            let seconds = begin.elapsed().as_secs_f64();
            cpu = busy.cores();
            rates.push(churn.counts.placed as f64 / seconds);
        }
        let counts = churn.counts;
        let peers = json!({
            "nodes_per_gang": counts.nodes as f64 / counts.placed as f64, "refused_share": counts.refused as f64 / turns as f64,
            "ends_per_placement": counts.ended as f64 / counts.placed as f64, "running": churn.running.len(),
            "gpus_held_share": churn.used as f64 * FULL / churn.limit as f64,
        });
        let sample = Sample::new(rates);
        let goal = goal.map_or(Goal::None, Goal::AtLeast);
        let case = format!("placements and ends, gangs of 1 to 512, {name}");
        row.line(&Line {
            case: &case,
            value: sample.median(),
            unit: "1/s",
            goal,
            sample: &sample,
            cpu,
            peers,
        });
    }
    Ok(())
}

/// C2: the time of one decision at 125,000 nodes, what has changed since the last one of its kind included.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn decisions(row: &Row, bench: &Bench) -> Result<(), String> {
    for (name, sizes) in
        [("pods of 64", site::even(125_000, 1, 64)), ("pods of 8 x 32", site::even(125_000, 8, 32))]
    {
        let snapshot = site::cluster(&sizes, 3);
        let mut churn = Churn::new(&snapshot, &MIXED, 4);
        let small = [1, 2, 4, 8, 16, 32, 64];
        for (case, sizes, goal) in [
            ("1 to 64 nodes", &small[..], 50.0),
            ("1,024 nodes", &[1024], 1e3),
            ("8,192 nodes", &[8192], 1e4),
        ] {
            let count = match (bench.quick, sizes[0]) {
                (true, 1) => 5_000,
                (true, _) => 200,
                (false, 1) => 100_000,
                (false, _) => 3_000,
            };
            let (mut times, mut found) = (Vec::new(), 0);
            let mut choice = Choice::default();
            let cpu = Cpu::start();
            for _ in 0..count {
                // Between two decisions the cluster moves on.
                churn.turn();
                let nodes = *churn.dice.one(sizes);
                let need = site::needs(&mut churn.dice, &snapshot, nodes);
                let begin = Instant::now();
                let placed = churn.placer.choose(&churn.capacity_index, &need, None, &mut choice);
                times.push(begin.elapsed().as_secs_f64() * 1e6);
                found += u32::from(placed);
            }
            let sample = Sample::new(times);
            let peers = json!({
                "p50": sample.quantile(0.5), "p999": sample.quantile(0.999), "found_share": f64::from(found) / f64::from(count),
            });
            let case = format!("p99 of a decision, gangs of {case}, {name}");
            let value = sample.quantile(0.99);
            row.line(&Line {
                case: &case,
                value,
                unit: "us",
                goal: Goal::AtMost(goal),
                sample: &sample,
                cpu: cpu.cores(),
                peers,
            });
        }
    }
    Ok(())
}
