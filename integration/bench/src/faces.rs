//! Row O2: usage records of simulated clusters whose controllers, agents and servers die at any moment, beside what the simulator saw itself.
//! Row P2, an upgrade under load, is in `upgrade`.
//! Row U3: what open pages cost (`streams`).

mod streams;

use std::time::Instant;

use integration_sim::{Config, Report, run};
use serde_json::json;

use crate::{
    report::{Cpu, Goal, Line, Row, Sample},
    upgrade,
};

/// What measures one row.
type Measure = fn(&Row<'_>, bool) -> Result<(), String>;

/// All rows with what measures each.
pub const ROWS: [(&str, Measure); 3] = [("O2", usage), ("P2", upgrade::measure), ("U3", streams::measure)];

/// Jobs that are submitted, and in a quick run.
const JOBS: u64 = 10_000;
const QUICK_JOBS: u64 = 500;
/// Worlds at most: each has up to 40 jobs.
const WORLDS: u64 = 20_000;

/// Sums over worlds.
#[derive(Default)]
struct Sums {
    worlds: u64,
    jobs: u64,
    faults: u64,
    take_overs: u64,
    attempts: u64,
    lost: u64,
    doubled: u64,
    wrong: u64,
    /// Milliseconds times GPUs: as the simulator saw them, as the controllers sum them up.
    gpu_ms: [u64; 2],
    /// The greatest difference of one world, in milliseconds times GPUs.
    worst_ms: u64,
}

impl Sums {
    fn add(&mut self, report: &Report) {
        let usage = &report.usage;
        self.worlds += 1;
        self.jobs += report.acknowledged;
        self.faults += report.faults;
        self.take_overs += report.take_overs;
        self.attempts += usage.attempts;
        self.lost += usage.lost;
        self.doubled += usage.doubled;
        self.wrong += usage.wrong;
        self.gpu_ms[0] += usage.gpu_ms;
        self.gpu_ms[1] += usage.gpu_ms_recorded;
        self.worst_ms = self.worst_ms.max(usage.gpu_ms.abs_diff(usage.gpu_ms_recorded));
    }
}

/// Records that are lost, doubled or not equal to what the simulator saw, to the millisecond.
fn usage(row: &Row<'_>, quick: bool) -> Result<(), String> {
    let wanted = if quick { QUICK_JOBS } else { JOBS };
    // Clocks are right: what the simulator saw is the world's own time.
    let config = Config { controllers: 5, nodes: 9, jobs: 40, faults: 40, skew: false, ..Config::default() };
    let case = format!("{wanted} jobs, crashes at any moment");
    let (cpu, begin) = (Cpu::start(), Instant::now());
    let mut sums = Sums::default();
    for seed in 0..WORLDS {
        if sums.jobs >= wanted {
            break;
        }
        let report = run(seed, &config);
        if let Some(violation) = &report.violation {
            row.failed(&case, &format!("seed {seed} at {} ms: {}", violation.at_ms, violation.what));
            return Ok(());
        }
        sums.add(&report);
    }
    if sums.jobs < wanted {
        return Err(format!("{WORLDS} worlds have only {} jobs", sums.jobs));
    }
    if sums.attempts == 0 || sums.gpu_ms.contains(&0) {
        return Err(format!("{} jobs held nothing in {} attempts", sums.jobs, sums.attempts));
    }
    let off = sums.lost + sums.doubled + sums.wrong + u64::from(sums.worst_ms > 0);
    row.line(&Line {
        case: &case,
        value: off as f64,
        unit: "records",
        goal: Goal::AtMost(0.0),
        sample: &Sample::new(vec![off as f64]),
        cpu: cpu.cores(),
        peers: json!({
            "jobs": sums.jobs, "attempts": sums.attempts, "lost": sums.lost, "doubled": sums.doubled, "wrong": sums.wrong,
            "gpu_seconds_seen": sums.gpu_ms[0] / 1000, "gpu_seconds_recorded": sums.gpu_ms[1] / 1000,
            "worst_difference_ms": sums.worst_ms, "worlds": sums.worlds, "faults": sums.faults,
            "take_overs": sums.take_overs, "seconds": begin.elapsed().as_secs_f64().round(),
        }),
    });
    Ok(())
}
