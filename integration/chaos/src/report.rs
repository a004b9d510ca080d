//! What is printed: one JSON object a line as benches do, or a table; and where to look when something was wrong.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Value, json};

use crate::{
    check::{Promise, Verdict},
    history::{Entry, What},
    plan::{KINDS, Shape},
};

/// Faults that a run of 30 minutes has at least.
const GOALS: [(&str, &[&str], u64); 4] = [
    ("SIGKILLs", &["kill"], 200),
    ("SIGSTOPs", &["stop"], 50),
    ("partitions, full and one-way", &["partition", "one-way"], 50),
    ("disk faults", &["disk-full", "disk-slow"], 20),
];

/// How often each kind was brought about, and how often it could not be.
pub fn counts(entries: &[Entry]) -> BTreeMap<&'static str, (u64, u64)> {
    let mut counts: BTreeMap<_, _> = KINDS.iter().map(|kind| (*kind, (0, 0))).collect();
    for entry in entries {
        if let What::Fault { kind, done, .. } = &entry.what
            && let Some((done_so_far, not)) = counts.get_mut(kind.as_str())
        {
            if *done { *done_so_far += 1 } else { *not += 1 }
        }
    }
    counts
}

/// One case of the row.
struct Line {
    case: String,
    value: Option<f64>,
    unit: &'static str,
    goal: Option<f64>,
    holds: Option<bool>,
    peers: Value,
}

fn at_least(case: &str, value: u64, goal: u64) -> Line {
    Line {
        case: case.to_owned(),
        value: Some(value as f64),
        unit: "faults",
        goal: Some(goal as f64),
        holds: Some(value >= goal),
        peers: json!({}),
    }
}

fn none(case: &str, value: usize, unit: &'static str, peers: Value) -> Line {
    Line {
        case: case.to_owned(),
        value: Some(value as f64),
        unit,
        goal: Some(0.0),
        holds: Some(value == 0),
        peers,
    }
}

fn lines(shape: &Shape, entries: &[Entry], verdict: &Verdict) -> Vec<Line> {
    let counts = counts(entries);
    let mut lines = Vec::new();
    for (case, kinds, goal) in GOALS {
        let done = kinds.iter().filter_map(|kind| counts.get(kind)).map(|(done, _)| done).sum();
        // A shorter run has its part of them.
        lines.push(at_least(case, done, (goal * shape.seconds).div_ceil(30 * 60)));
    }
    let others = KINDS.iter().filter(|kind| GOALS.iter().all(|(_, kinds, _)| !kinds.contains(*kind)));
    for kind in others {
        let (done, not) = counts[kind];
        lines.push(Line {
            case: format!("{kind} faults"),
            value: Some(done as f64),
            unit: "faults",
            goal: None,
            holds: None,
            peers: json!({"not_brought_about": not}),
        });
    }
    let acknowledged = json!({
        "submitted": verdict.submitted, "acknowledged": verdict.acknowledged, "answered_again": verdict.repeated,
        "unknown": verdict.unknown.0, "unknown_stored": verdict.unknown.1, "cancelled": verdict.cancelled,
        "read_too_early": verdict.stale,
    });
    let seen = json!({"states_of_jobs": verdict.reported});
    lines.push(none("acknowledged submits lost", verdict.broken(Promise::Lost), "jobs", acknowledged));
    lines.push(none("submits doubled", verdict.broken(Promise::Doubled), "jobs", json!({})));
    lines.push(none("GPUs or NICs held twice, as stored", verdict.broken(Promise::HeldTwice), "times", seen));
    let ran = json!({"ranks": verdict.ranks});
    lines.push(none(
        "GPUs or NICs used twice, on the nodes",
        verdict.broken(Promise::RanTwice),
        "times",
        ran,
    ));
    lines.push(none("audit gaps", verdict.broken(Promise::AuditGap), "gaps", json!({})));
    let order = verdict.broken(Promise::Revived) + verdict.broken(Promise::Backwards);
    lines.push(none("jobs that lived again, watches that went back", order, "times", json!({})));
    lines.push(Line {
        case: "all well after the last fault".to_owned(),
        value: verdict.converged_ms.map(|ms| ms as f64 / 1000.0),
        unit: "s",
        goal: Some(30.0),
        holds: Some(verdict.broken(Promise::NotConverged) == 0),
        peers: json!({}),
    });
    lines
}

/// Prints everything; true if all holds.
pub fn print(shape: &Shape, entries: &[Entry], verdict: &Verdict, json: bool) -> bool {
    let lines = lines(shape, entries, verdict);
    for line in &lines {
        let (value, goal, holds) = (json!(line.value), json!(line.goal), json!(line.holds));
        if json {
            let object = json!({
                "bench": "chaos", "row": "D3", "case": line.case, "value": value, "unit": line.unit, "goal": goal,
                "holds": holds, "min": value, "max": value, "runs": 1, "cpu": null,
                "peers": line.peers, "seed": shape.seed, "seconds": shape.seconds, "agents": shape.agents,
            });
            println!("{object}");
        } else {
            let holds = match line.holds {
                Some(true) => "holds",
                Some(false) => "FALLS SHORT",
                None => "",
            };
            println!(
                "D3   {:<46} {value:>8} {:<7} goal {goal:<6} {holds:<12} {}",
                line.case, line.unit, line.peers
            );
        }
    }
    lines.iter().all(|line| line.holds != Some(false))
}

/// Says on standard error what was wrong, and where everything is kept.
pub fn story(shape: &Shape, verdict: &Verdict, dir: &Path) {
    for violation in verdict.violations.iter().take(20) {
        eprintln!("{:?}: {}", violation.promise, violation.detail);
    }
    if verdict.violations.len() > 20 {
        eprintln!("... and {} more", verdict.violations.len() - 20);
    }
    let Shape { seed, seconds, agents, .. } = shape;
    eprintln!("the plan again: rail-chaos run --plan --seed {seed} --seconds {seconds} --agents {agents}");
    eprintln!("history.jsonl, ranks and the logs of all processes are in {}", dir.display());
}
