//! `cargo xtask bench verbs`: rows that need verbs, run in the lab; what a guest measured becomes lines as every bench prints them.

use std::{process::ExitCode, time::Duration};

use serde_json::{Value, json};

use super::{Trouble, guest, suite};
use crate::process::Result;

/// What a suite prints a measurement with.
const RESULT: &str = "result ";
/// A guest may be busy with so many of its two processors: beyond that, shaped rails are not what limits it.
const IDLE_ENOUGH: f64 = 1.9;
const LIMIT: Duration = Duration::from_secs(900);

/// A row.
struct Row {
    id: &'static str,
    suite: &'static str,
    lines: fn(&[Value]) -> Vec<Value>,
}

const ROWS: [Row; 2] =
    [Row { id: "E1", suite: "e1", lines: bandwidth }, Row { id: "E2", suite: "e2", lines: cuts }];

/// Runs one row, or all.
pub fn run(row: Option<&str>, json: bool) -> Result<ExitCode> {
    let rows: Vec<&Row> = ROWS.iter().filter(|each| row.is_none_or(|row| row == each.id)).collect();
    if rows.is_empty() {
        return Err(format!("no row {}; verbs has E1 and E2", row.unwrap_or_default()).into());
    }
    for row in rows {
        let suites = suite::named(row.suite)?;
        let lines = match suites
            .iter()
            .map(|suite| guest(suite, LIMIT, false))
            .collect::<std::result::Result<Vec<_>, _>>()
        {
            Ok(said) => (row.lines)(&results(&said.concat())),
            Err(Trouble::Absent(why)) => {
                vec![line("verbs", None, "", None, json!("void"), json!({"reason": why}), 0)]
            }
            Err(Trouble::Failed(why)) => {
                vec![line("verbs", None, "", None, json!(false), json!({"reason": why}), 0)]
            }
        };
        for mut line in lines {
            line["row"] = json!(row.id);
            if json { println!("{line}") } else { println!("{:<4} {}", row.id, table(&line)) }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The measurements among what a guest said.
fn results(said: &[String]) -> Vec<Value> {
    let texts = said.iter().filter_map(|line| line.strip_prefix(RESULT));
    texts.filter_map(|text| serde_json::from_str(text).ok()).collect()
}

fn numbers(results: &[Value], name: &str) -> Vec<f64> {
    let mut numbers: Vec<f64> = results.iter().filter_map(|result| result[name].as_f64()).collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

fn median(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// E1: the median share, with what it is a share of.
fn bandwidth(results: &[Value]) -> Vec<Value> {
    const GOAL: f64 = 90.0;
    let shares = numbers(results, "share");
    let (share, busy) = (median(&shares), median(&numbers(results, "busy")));
    let rate = |name| median(&numbers(results, name));
    let mut peers = json!({
        "ours Mbit/s": rate("ours"), "ib_write_bw Mbit/s": rate("ib_write_bw"), "shaped Mbit/s": rate("shaped"),
        "busy of 2 processors": busy, "least": shares.first(), "greatest": shares.last(),
    });
    let holds = match (share, busy) {
        (Some(share), _) if share >= GOAL => json!(true),
        (Some(_), Some(busy)) if busy > IDLE_ENOUGH => {
            peers["void"] = json!("the emulated processors, not the rails, were the limit");
            json!("void")
        }
        _ => json!(false),
    };
    let case = "all-reduce 16 MiB n=2 over verbs, 4 shaped rails, of the sum of ib_write_bw";
    vec![line(case, share, "%", Some(GOAL), holds, peers, shares.len())]
}

/// E2: cuts survived, and wrong elements.
fn cuts(results: &[Value]) -> Vec<Value> {
    const CUTS: f64 = 50.0;
    let one = |name| results.first().and_then(|result| result[name].as_f64());
    let peers = json!({
        "operations": one("operations"), "median ms": one("median_ms"), "p99 ms": one("p99_ms"),
        "longest ms": one("longest_ms"),
    });
    let (cuts, wrong) = (one("cuts"), one("wrong"));
    vec![
        line("cuts survived", cuts, "cuts", Some(CUTS), json!(cuts >= Some(CUTS)), peers, results.len()),
        line("wrong elements", wrong, "", Some(0.0), json!(wrong == Some(0.0)), json!({}), results.len()),
    ]
}

fn line(
    case: &str,
    value: Option<f64>,
    unit: &str,
    goal: Option<f64>,
    holds: Value,
    peers: Value,
    runs: usize,
) -> Value {
    json!({
        "bench": "verbs", "case": case, "value": value, "unit": unit, "goal": goal, "holds": holds, "runs": runs,
        "peers": peers,
    })
}

fn table(line: &Value) -> String {
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let (case, unit, peers) = (text("case"), text("unit"), &line["peers"]);
    format!(
        "{case:<44} {:>12} {unit:<6} goal {:<6} holds {:<6} {peers}",
        line["value"], line["goal"], line["holds"]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> Vec<Value> {
        results(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_a_guest_measured_becomes_lines() {
        let good = "result {\"share\":93.1,\"ours\":150,\"ib_write_bw\":161,\"shaped\":160,\"busy\":1.2}";
        let slow = "result {\"share\":50,\"ours\":80,\"ib_write_bw\":160,\"shaped\":160,\"busy\":1.2}";
        let busy = "result {\"share\":50,\"ours\":80,\"ib_write_bw\":160,\"shaped\":160,\"busy\":1.99}";
        let holds = |lines: &[&str]| bandwidth(&said(lines))[0]["holds"].clone();
        assert_eq!(holds(&["up 3 s", good, "result {", good, slow]), json!(true));
        assert_eq!(holds(&[slow]), json!(false));
        assert_eq!(holds(&[busy]), json!("void"));
        assert_eq!(holds(&[]), json!(false), "nothing was measured");
        let lines = cuts(&said(&["result {\"cuts\":49,\"wrong\":0}"]));
        assert_eq!((&lines[0]["holds"], &lines[1]["holds"]), (&json!(false), &json!(true)));
        assert_eq!(cuts(&[])[1]["holds"], json!(false));
    }
}
