//! P1: PyTorch's own distributed tests, as the installed PyTorch has them, with backend rail and with Gloo.

use std::process::{Command, Stdio};

use integration_harness::binaries;
use serde_json::{Value, json};

use super::settings::Bench;
use crate::engine::peers;
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// A part of the tests for a quick look: each kind of operation once.
const QUICK: &str =
    "test_(isend|send_recv_any_source|all_reduce_sum|all_gather_coalesced_simple|monitored_barrier_gloo)$";

/// Row P1.
///
/// # Errors
/// The tests cannot be started, or say nothing that can be read.
pub fn tests(row: &Row<'_>, bench: &Bench) -> Result<(), String> {
    let both = peers::python().and_then(|python| Ok((python, peers::torch_tests()?)));
    let (python, packages) = match both {
        Ok(both) => both,
        Err(reason) => {
            row.void("all", &reason);
            return Ok(());
        }
    };
    let cpu = Cpu::start();
    let programs = binaries::directory()?;
    let script = binaries::root().join("node-agent/capi/python/tests/upstream.py");
    let mut command = Command::new(python);
    command.env("PYTHONPATH", packages).args(["-B", "-W", "ignore"]).arg(script);
    command.arg("--engine").arg(programs.join("rail-engine"));
    command.arg("--library").arg(programs.join("librail.so"));
    if bench.quick {
        command.args(["--only", QUICK]);
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("PyTorch's tests ended with {}: {error}", output.status))?;
    if let Some(why) = report["void"].as_str() {
        return Err(format!("a run that shows nothing: {why}"));
    }
    row.line(&Line {
        case: "tests that fail or are left out here, and do not with Gloo",
        value: ours(&report) as f64,
        unit: "tests",
        goal: Goal::AtMost(0.0),
        sample: &Sample::new(vec![ours(&report) as f64]),
        cpu: cpu.cores(),
        peers: json!({"rail": report["rail"], "gloo": report["gloo"], "failures": report["failures"]}),
    });
    Ok(())
}

/// How many tests Gloo does not fail or leave out with us.
fn ours(report: &Value) -> usize {
    let failures = report["failures"].as_array().into_iter().flatten();
    let left_out = report["skipped_by_rail_alone"].as_array().map_or(0, Vec::len);
    failures.filter(|failure| failure["whose"] == "ours").count() + left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_gloo_shares_are_not_counted() {
        let report = json!({
            "failures": [{"whose": "ours"}, {"whose": "shared with Gloo"}], "skipped_by_rail_alone": ["test_a"],
        });
        assert_eq!((ours(&report), ours(&json!({}))), (2, 0));
    }
}
