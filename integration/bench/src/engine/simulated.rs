//! B9 and B11: what only a simulator can try often enough. It prints a line; here that becomes a row's lines.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::Bench;
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// The same bits over rails, faults and splits, and what the order that guarantees it costs.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn same_bits(row: &Row, bench: &Bench) -> Result<(), String> {
    let figures = [
        ("differences", "runs over rails, faults and splits whose bits differ", "runs", 0.0),
        ("order_cost_percent", "what the fixed order costs of the kernel's time", "%", 3.0),
    ];
    fetch(row, bench, ("b9", 2_000), &figures)
}

/// No call exceeds its timeout, and every failure says why.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn deadlines(row: &Row, bench: &Bench) -> Result<(), String> {
    let figures = [
        ("violations", "fault schedules with a call that exceeds its timeout by 100 ms", "runs", 0.0),
        ("worst_over_timeout_ms", "longest time of a call beyond its timeout", "ms", 100.0),
    ];
    fetch(row, bench, ("b11", 500), &figures)
}

/// Runs the engine's simulator for one row, with all its seeds or a few.
fn fetch(
    row: &Row,
    bench: &Bench,
    (name, few): (&str, u32),
    figures: &[(&str, &str, &str, f64)],
) -> Result<(), String> {
    let program = integration_harness::binaries::directory()?.join("rail-engine-sim");
    let mut command = Command::new(&program);
    command.args(["--row", name, "--json"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    if bench.settings.quick {
        command.args(["--seeds", &few.to_string()]);
    }
    let cpu = Cpu::start();
    let output = command.output().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let cpu = cpu.cores();
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let Some(found) = found.into_iter().find(|line| line["row"] == row.id()) else {
        return Err(format!("{command:?} printed no line of this row ({}): {text}", output.status));
    };
    for (key, what, unit, most) in figures {
        let case = format!("{what}, {} seeds", found["runs"]);
        let sample = Sample::new(vec![found[*key].as_f64().unwrap_or(f64::NAN)]);
        let (value, goal, peers) = (sample.median(), Goal::AtMost(*most), json!({"simulator": found}));
        row.line(&Line { case: &case, value, unit, goal, sample: &sample, cpu, peers });
    }
    Ok(())
}
