//! X1: the attack suite as a whole.

use std::{process::Command, time::Instant};

use integration_harness::binaries;
use serde_json::{Value, json};

use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Attempts that there are at least.
const ATTEMPTS: f64 = 220.0;

/// Runs it once; the flag has no meaning, for less of it would say nothing.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure(row: &Row<'_>, _quick: bool) -> Result<(), String> {
    let bin = binaries::directory()?;
    let (cpu, begin) = (Cpu::start(), Instant::now());
    let output =
        Command::new(bin.join("rail-attack")).args(["run", "--json"]).env("RAIL_BIN_DIR", bin).output();
    let output = output.map_err(|error| format!("cannot start rail-attack: {error}"))?;
    let reported = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Value> = reported.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let counts = lines.last().filter(|last| last["attempts"].is_u64());
    let counts = counts
        .ok_or_else(|| format!("the suite did not end well: {}", String::from_utf8_lossy(&output.stderr)))?;
    let of = |verdict: &str| -> Vec<Value> {
        let found = lines.iter().filter(|line| line["verdict"] == verdict);
        found.map(|line| json!({"id": line["id"], "words": line["words"]})).collect()
    };
    let number = |name: &str| counts[name].as_f64().unwrap_or(f64::NAN);
    let seconds = begin.elapsed().as_secs_f64();
    let (sample, cores) = (Sample::new(vec![seconds]), cpu.cores());
    let line = |case: &str, value, unit: &str, goal, peers| {
        row.line(&Line { case, value, unit, goal, sample: &sample, cpu: cores, peers });
    };
    let root = rustix::process::geteuid().is_root();
    line(
        "attempts made",
        number("attempts"),
        "attempts",
        Goal::AtLeast(ATTEMPTS),
        json!({"seconds": seconds, "root": root}),
    );
    line("attempts that gave way", number("gaveWay"), "attempts", Goal::AtMost(0.0), json!(of("gave way")));
    line(
        "attempts that are not possible here",
        number("notPossibleHere"),
        "attempts",
        Goal::None,
        json!(of("not possible here")),
    );
    Ok(())
}
