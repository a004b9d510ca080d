//! What a run prints.

use std::time::Duration;

use serde_json::json;

use crate::{model::Attempt, verdict::Verdict};

/// One attempt and its verdict.
#[derive(Debug)]
pub struct Line {
    /// The attempt that was made.
    pub attempt: Attempt,
    /// The judgement of its outcome.
    pub verdict: Verdict,
    /// How long it took.
    pub taken: Duration,
}

/// Prints a table, or one JSON object a line; what held only if it is asked for, and in the end the counts.
pub fn print(lines: &[Line], as_json: bool, all: bool) {
    for line in lines {
        if as_json {
            println!("{}", object(line));
        } else if all || line.verdict != Verdict::Held {
            let words = line.verdict.words().replace('\n', " ");
            let id = &line.attempt.id;
            println!(
                "{:<18} {id:<36} {:<14} {}",
                line.verdict.name(),
                line.attempt.from.name(),
                line.attempt.title
            );
            if !words.is_empty() {
                println!("{:<18} {words}", "");
            }
        }
    }
    let count = |name: &str| lines.iter().filter(|line| line.verdict.name() == name).count();
    let (gave_way, absent, not_made) = (count("gave way"), count("not possible here"), count("not made"));
    if as_json {
        let counts = json!({
            "attempts": lines.len(), "held": count("held"), "gaveWay": gave_way, "notPossibleHere": absent, "notMade": not_made,
        });
        println!("{counts}");
    } else {
        let broken = if not_made > 0 { format!(", {not_made} not made") } else { String::new() };
        println!("{} attempts, {gave_way} gave way, {absent} not possible here{broken}", lines.len());
    }
}

fn object(line: &Line) -> serde_json::Value {
    let attempt = &line.attempt;
    json!({
        "id": attempt.id, "title": attempt.title, "finding": attempt.finding.name(), "from": attempt.from.name(),
        "expected": attempt.expect.name(), "verdict": line.verdict.name(), "words": line.verdict.words(),
        "ms": u64::try_from(line.taken.as_millis()).unwrap_or(u64::MAX),
    })
}
