//! B9 and B11: what only a simulator can try often enough. It prints its own lines; here they are fetched.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::Bench;
use crate::report::Row;

/// The same bits over rails, faults and splits.
pub fn same_bits(row: &Row, bench: &Bench) -> Result<(), String> {
    fetch(row, bench, "same bits over rails, faults and splits")
}

/// No call exceeds its timeout.
pub fn deadlines(row: &Row, bench: &Bench) -> Result<(), String> {
    fetch(row, bench, "no call exceeds its timeout")
}

/// Runs the engine's simulator for this row; every JSON line of this row that it prints is one of ours.
fn fetch(row: &Row, bench: &Bench, case: &str) -> Result<(), String> {
    let program = integration::binaries::directory()?.join("rail-sim");
    let mut command = Command::new(&program);
    command.args(["engine", "--row", row.id(), "--json"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    if bench.settings.quick {
        command.arg("--quick");
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            row.void(case, &format!("{}: {error}; `cargo xtask sim engine` measures it", program.display()));
            return Ok(());
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines: Vec<Value> = lines.filter(|line| line["row"] == row.id()).collect();
    if lines.is_empty() {
        row.void(case, &format!("the simulator printed no line of this row ({})", output.status));
    }
    lines.into_iter().for_each(|line| row.pass_on(line));
    Ok(())
}
