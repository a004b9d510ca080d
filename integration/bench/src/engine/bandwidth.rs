//! B1 large calls, B2 small calls, B3 unequal and changing rails.

use std::{thread, time::Duration};

use super::{
    Bench, Environment, Key, Who,
    group::{Group, Task},
    lab::Lab,
    series::{Contender, Figure, Series, line_about_rails},
};
use crate::report::{self, Goal, Line, Row, Sample};

const MIB: u64 = 1 << 20;
/// Of the rails' sum.
const UNEQUAL_SHARE: f64 = 0.92;

fn all(bytes: u64, iterations: u32) -> Vec<Contender> {
    let task = Task::of(bytes, iterations);
    let split = Task { split: 4, ..task };
    // Those that need much longer do less: one call of Gloo uses one rail.
    let once = Task { iterations: iterations.div_ceil(3), ..task };
    let contender = |label, who, task| Contender { label, who, task };
    vec![
        contender("ours", Who::Ours { rails: 4 }, task),
        contender("gloo_split", Who::Gloo, split),
        contender("gloo", Who::Gloo, once),
        contender("openmpi", Who::OpenMpi, once),
        contender("openmpi_tuned", Who::OpenMpiTuned, once),
        contender("openmpi_ucx", Who::Ucx, once),
        contender("mpich", Who::Mpich, once),
    ]
}

fn megabytes(outcome: &super::group::Outcome) -> f64 {
    outcome.bus() / 1e6
}

fn size(bytes: u64) -> String {
    if bytes >= MIB { format!("{} MiB", bytes / MIB) } else { format!("{} KiB", bytes >> 10) }
}

/// One call of 16 and of 64 MiB.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn large(row: &Row, bench: &Bench) -> Result<(), String> {
    for n in [2, 4] {
        for (bytes, iterations) in [(16 * MIB, 4), (64 * MIB, 2)] {
            let name = format!("all-reduce {} n={n}", size(bytes));
            let mut contenders = all(bytes, iterations);
            let once = Task { iterations: iterations.div_ceil(3), ..Task::of(bytes, 1) };
            contenders.push(Contender { label: "ours_one_rail", who: Who::Ours { rails: 1 }, task: once });
            let series = match Series::take(bench, (Environment::Rails, n), &contenders, Some(1.5)) {
                Ok(series) => series,
                Err(reason) => {
                    row.void(&name, &reason);
                    continue;
                }
            };
            large_lines(row, &name, &series);
        }
    }
    Ok(())
}

fn large_lines(row: &Row, name: &str, series: &Series) {
    let bus = series.peers("MB/s bus bandwidth", megabytes);
    let line = |case: &str, sample: &Sample, unit: &str, goal: Goal, peers| {
        let figure = Figure { sample, unit, goal, peers, may_be_busy: false };
        series.line(row, &format!("{name}, {case}"), figure);
    };
    line("of the roof", &series.share_of_roof("ours"), "%", Goal::AtLeast(97.0), bus.clone());
    let over = series.ratio("ours", "ours_one_rail", super::group::Outcome::bus);
    line("over own one rail", &over, "x", Goal::AtLeast(3.8), bus.clone());
    let over = series.ratio("ours", "gloo_split", super::group::Outcome::bus);
    line("over Gloo split by hand", &over, "x", Goal::AtLeast(1.03), bus);
    let cpu = super::group::Outcome::cpu_per_gb;
    let over = series.ratio("ours", "gloo_split", cpu);
    let peers = series.peers("processor s per GB reduced", cpu);
    line("processor time over Gloo's", &over, "x", Goal::AtMost(1.1), peers);
}

/// 1 MiB and 64 KiB.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn small(row: &Row, bench: &Bench) -> Result<(), String> {
    for n in [2, 4] {
        for (bytes, iterations) in [(MIB, 48), (MIB / 16, 300)] {
            let name = format!("all-reduce {} n={n}", size(bytes));
            let mut contenders = all(bytes, iterations);
            if n == 2 {
                let task = Task::of(bytes, iterations.div_ceil(3));
                contenders.push(Contender { label: "openmpi_ucx_tuned", who: Who::UcxTuned, task });
            }
            for contender in &mut contenders {
                contender.task.warmup = 3;
            }
            let series = match Series::take(bench, (Environment::Rails, n), &contenders, Some(1.0)) {
                Ok(series) => series,
                Err(reason) => {
                    row.void(&name, &reason);
                    continue;
                }
            };
            small_lines(row, &name, bytes, &series);
        }
    }
    Ok(())
}

fn small_lines(row: &Row, name: &str, bytes: u64, series: &Series) {
    let peers = series.peers("MB/s bus bandwidth", megabytes);
    let goals =
        if bytes == MIB { (Goal::AtLeast(97.0), Goal::None) } else { (Goal::None, Goal::AtLeast(1.7)) };
    let line = |case: &str, sample: &Sample, unit: &str, goal| {
        let figure = Figure { sample, unit, goal, peers: peers.clone(), may_be_busy: false };
        series.line(row, &format!("{name}, {case}"), figure);
    };
    let share = series.share_of_roof("ours");
    line("of the roof", &share, "%", goals.0);
    // The goal was set against the peers as users get them, and with what was known to serve them; the second line is
    // against whatever else a search by hand has found since.
    for (others, goal) in [(&["openmpi_ucx_tuned"][..], goals.1), (&[], Goal::None)] {
        let best = series.best(super::group::Outcome::bus, true, others).unwrap_or("nobody");
        let over = series.ratio("ours", best, super::group::Outcome::bus);
        let kind = if others.is_empty() { "any peer, tuned by hand" } else { "the best peer" };
        line(&format!("over {kind} ({best})"), &over, "x", goal);
    }
}

/// How rails differ in one case of B3.
struct Unequal {
    name: &'static str,
    /// The rails' sum at the host that has least, in rails.
    sum: f64,
    shape: fn(&Lab, usize) -> Result<(), String>,
}

const UNEQUAL: [Unequal; 2] = [
    Unequal { name: "rails 4:4:4:1", sum: 3.25, shape: last_rail_quarter },
    Unequal { name: "one rail of one host at a tenth", sum: 3.1, shape: one_rail_tenth },
];

fn last_rail_quarter(lab: &Lab, n: usize) -> Result<(), String> {
    (0..n).try_for_each(|host| lab.shape(host, lab.rails - 1, f64::from(lab.rate) / 4.0))
}

fn one_rail_tenth(lab: &Lab, _: usize) -> Result<(), String> {
    lab.shape(1, 2, f64::from(lab.rate) / 10.0)
}

/// Rails of unequal rates, and rates that change while an operation runs.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn unequal(row: &Row, bench: &Bench) -> Result<(), String> {
    let lab = match bench.lab() {
        Ok(lab) => lab,
        Err(reason) => {
            row.void("all-reduce on unequal rails", &reason);
            return Ok(());
        }
    };
    for case in &UNEQUAL {
        for n in [2, 4] {
            (case.shape)(lab, n)?;
            let standing = standing(row, bench, case, n);
            let equal = lab.shape_all();
            standing.and(equal)?;
            let settling = settling(row, bench, lab, (case, n));
            let equal = lab.shape_all();
            settling.and(equal)?;
        }
    }
    Ok(())
}

fn standing(row: &Row, bench: &Bench, case: &Unequal, n: usize) -> Result<(), String> {
    let name = format!("all-reduce 16 MiB n={n}, {}, of the rails' sum", case.name);
    let mut contenders = all(16 * MIB, 4);
    for contender in contenders.iter_mut().filter(|contender| contender.label != "ours") {
        contender.task = Task { iterations: 1, warmup: 0, ..contender.task };
    }
    let series = Series::take(bench, (Environment::Rails, n), &contenders, Some(1.5))?;
    let sum = f64::from(bench.settings.rate) * 1e6 / 8.0 * case.sum;
    let share = move |outcome: &super::group::Outcome| 100.0 * outcome.bus() / sum;
    let (sample, peers) = (series.sample("ours", share), series.peers("% of the rails' sum", share));
    let goal = Goal::AtLeast(100.0 * UNEQUAL_SHARE);
    series.line(row, &name, Figure { sample: &sample, unit: "%", goal, peers, may_be_busy: false });
    Ok(())
}

/// The rates change in the middle of a run, and change back in the middle of the next.
fn settling(row: &Row, bench: &Bench, lab: &Lab, (case, n): (&Unequal, usize)) -> Result<(), String> {
    let key = Key { who: Who::Ours { rails: 4 }, place: Environment::Rails, n };
    let (mut slower, mut faster, mut busy) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.repetitions() {
        for (becomes, times) in [(case.sum, &mut slower), (4.0, &mut faster)] {
            let change = || if becomes < 4.0 { (case.shape)(lab, n) } else { lab.shape_all() };
            let (operations, cores) =
                bench.with(key, |group| until_settled(group, lab, n, becomes, change))?;
            times.push(operations);
            busy.push(cores);
        }
    }
    let busy = Sample::new(busy).median();
    for (what, times) in [("rates fall", slower), ("rates rise again", faster)] {
        let sample = Sample::new(times);
        let case = format!("all-reduce 16 MiB n={n}, {}: {what}, operations until settled", case.name);
        // Not the median: every change must settle.
        let value = sample.quantile(1.0);
        let (goal, peers) = (Goal::AtMost(3.0), serde_json::json!({}));
        line_about_rails(
            row,
            &Line { case: &case, value, unit: "ops", goal, sample: &sample, cpu: busy, peers },
        );
    }
    Ok(())
}

/// How many operations that end after the change are slower than the rails' new sum allows, before the first that is
/// not.
fn until_settled(
    group: &mut Group,
    lab: &Lab,
    n: usize,
    rails: f64,
    change: impl FnOnce() -> Result<(), String>,
) -> Result<(f64, f64), String> {
    const BYTES: u64 = 16 * MIB;
    let sum = f64::from(lab.rate) * 1e6 / 8.0 * rails;
    let share = 2.0 * (n as f64 - 1.0) / n as f64;
    let fair_ms = BYTES as f64 * share / (sum * UNEQUAL_SHARE) * 1e3;
    let running = group.begin(&Task::of(BYTES, 20))?;
    thread::sleep(Duration::from_millis(1800));
    change()?;
    let changed = report::monotonic_ns();
    let outcome = group.end(running)?;
    if let Some(error) = outcome.errors().first() {
        return Err(error.clone());
    }
    let after: Vec<f64> =
        outcome.spans().into_iter().filter(|span| span.end > changed).map(super::group::Span::ms).collect();
    let settled = after.iter().position(|ms| *ms <= fair_ms).unwrap_or(after.len());
    Ok((settled as f64, outcome.busy))
}
