//! Class of service: E5, what the verdict and the plan of a port find, name and repair; E4 is in `heal.rs`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use node_agent_qos::trial;
use serde_json::json;

use crate::heal;
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// A row and what measures it; the flag asks for fewer.
pub type Measure = fn(&Row, bool) -> Result<(), String>;

/// All rows with what measures each.
pub const ROWS: [(&str, Measure); 2] = [("E4", heal::row), ("E5", plans)];

/// Ports of each kind that the row asks for at least.
const PORTS: u64 = 1000;
/// Seeds of the long run.
const MORE: u64 = 20_000;

/// Wrong ports named exactly and repaired, right ports with noise left alone.
fn plans(row: &Row, quick: bool) -> Result<(), String> {
    let count = if quick { PORTS } else { MORE };
    let mut drivers: BTreeMap<&str, u64> = BTreeMap::new();
    let mut mutations = BTreeSet::new();
    let (mut named, mut remediated, mut first) = (0u64, 0u64, String::new());
    let mut times = Vec::new();
    let cpu = Cpu::start();
    for seed in 0..count {
        let case = trial::wrong(seed);
        let begin = Instant::now();
        let outcome = trial::judge(&case);
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        *drivers.entry(case.vendor.name).or_default() += 1;
        named += u64::from(outcome.named);
        remediated += u64::from(outcome.remediated);
        if first.is_empty() && !(outcome.named && outcome.remediated) {
            first = format!("seed {seed}, {}, {}: {}", case.vendor.name, case.name, outcome.trouble);
        }
        mutations.insert(case.name);
    }
    let mut false_ones = 0u64;
    for seed in 0..count {
        let outcome = trial::judge(&trial::right(seed));
        false_ones += u64::from(!(outcome.named && outcome.remediated));
    }
    let cpu = cpu.cores();
    let sample = Sample::new(times);
    let peers = json!({
        "cases": count, "seeds": format!("0..{count}"), "drivers": drivers, "mutations": mutations.len(), "first": first,
        "ms_each": sample.spread(),
    });
    let share = |found: u64| found as f64 * 100.0 / count as f64;
    let line = |case, value, unit, goal| {
        let (sample, peers) = (&sample, peers.clone());
        row.line(&Line { case, value, unit, goal, sample, cpu, peers });
    };
    line("wrong ports named exactly", share(named), "%", Goal::AtLeast(100.0));
    line("wrong ports mended by the plan", share(remediated), "%", Goal::AtLeast(100.0));
    line("right ports with a deviation or an edit", false_ones as f64, "ports", Goal::AtMost(0.0));
    Ok(())
}
