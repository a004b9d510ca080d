//! J1: random states of small clusters, and a job that comes then, against trying every way.

use std::{collections::BTreeMap, thread};

use controller_queue::riddle::{Fault, answer};
use serde_json::json;

use super::Bench;
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// States with faults that are printed at most.
const REPORTED: usize = 5;

#[derive(Default)]
struct Found {
    cases: u64,
    started: u64,
    waits: u64,
    nevers: u64,
    behind_others: u64,
    faults: BTreeMap<Fault, u64>,
    /// Of what started: as few idle nodes broken into as can be.
    tight: u64,
    /// Of how many that was asked: gangs without spares.
    compared: u64,
    examples: Vec<String>,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.cases += other.cases;
        self.started += other.started;
        self.waits += other.waits;
        self.nevers += other.nevers;
        self.behind_others += other.behind_others;
        self.tight += other.tight;
        self.compared += other.compared;
        for (fault, count) in other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        self.examples.extend(other.examples);
        self.examples.truncate(REPORTED);
    }

    fn count(&self, faults: &[Fault]) -> f64 {
        self.faults.iter().filter(|(fault, _)| faults.contains(fault)).map(|(_, count)| *count).sum::<u64>()
            as f64
    }
}

fn share(seeds: impl Iterator<Item = u64>) -> Result<Found, String> {
    let mut found = Found::default();
    for seed in seeds {
        let answer = answer(seed).map_err(|error| error.to_string())?;
        found.cases += 1;
        found.started += u64::from(answer.started);
        found.waits += u64::from(!answer.started && answer.empty);
        found.nevers += u64::from(!answer.empty);
        found.behind_others += u64::from(answer.jobs_wait);
        found.compared += u64::from(answer.broken_more().is_some());
        found.tight += u64::from(answer.broken_more() == Some(0));
        for (fault, words) in &answer.faults {
            *found.faults.entry(*fault).or_default() += 1;
            if found.examples.len() < REPORTED {
                found.examples.push(format!("{words}; {}", answer.riddle));
            }
        }
    }
    Ok(found)
}

/// Measures row J1 on random states.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn riddles(row: &Row, bench: &Bench) -> Result<(), String> {
    let cases: u64 = if bench.quick { 5_000 } else { 100_000 };
    let threads = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let cpu = Cpu::start();
    let shares = thread::scope(|scope| {
        let run = |first: u64| scope.spawn(move || share((first..cases).step_by(threads as usize)));
        let running: Vec<_> = (0..threads).map(run).collect();
        running
            .into_iter()
            .map(|share| share.join().map_err(|_| "a share has ended before its time".to_owned())?)
            .collect()
    });
    let shares: Result<Vec<Found>, String> = shares;
    let mut found = Found::default();
    shares?.into_iter().for_each(|share| found.add(share));
    let peers = json!({
        "cases": found.cases, "started": found.started, "wait": found.waits, "never": found.nevers,
        "behind_jobs_that_wait": found.behind_others, "examples": found.examples,
    });
    let cores = cpu.cores();
    let line = |case: &str, value: f64, unit: &'static str, goal: Goal| {
        let sample = Sample::new(vec![value]);
        row.line(&Line { case, value, unit, goal, sample: &sample, cpu: cores, peers: peers.clone() });
    };
    let none = Goal::AtMost(0.0);
    line("wrong waits and wrong placements", found.count(&[Fault::Wait, Fault::Placement]), "count", none);
    line("wrong nevers", found.count(&[Fault::Never]), "count", Goal::AtMost(0.0));
    line("false causes", found.count(&[Fault::Cause]), "count", Goal::AtMost(0.0));
    line("more pods than need be", found.count(&[Fault::Pods]), "count", Goal::AtMost(0.0));
    let tight = found.tight as f64 * 100.0 / found.compared.max(1) as f64;
    line("as few idle nodes broken into as can be, gangs without spares", tight, "%", Goal::AtLeast(99.9));
    Ok(())
}
