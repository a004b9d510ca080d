//! `cargo xtask bench verbs`: rows of verbs. What needs devices runs in the lab; what was measured becomes lines as every bench
//! prints them.

mod bandwidth;
mod cuts;
mod line;
mod registrations;

use std::{process::ExitCode, time::Duration};

use serde_json::{Value, json};

use super::{Trouble, guest, suite};
use crate::process::{self, Result};
use line::Line;

/// What a suite prints a measurement with.
const RESULT: &str = "result ";
const LIMIT: Duration = Duration::from_secs(900);

/// A row: its name, what measures it, and what judges that.
struct Row {
    id: &'static str,
    by: MeasuredBy,
    lines: fn(&[Value]) -> Vec<Line>,
}

/// What measures a row.
#[derive(Clone, Copy)]
enum MeasuredBy {
    /// A suite, in the lab.
    Suite(&'static str),
    /// An example of node-agent-engine-verbs, here.
    Example(&'static str),
}

const ROWS: [Row; 3] = [
    Row { id: "E1", by: MeasuredBy::Suite("e1"), lines: bandwidth::lines },
    Row { id: "E2", by: MeasuredBy::Suite("e2"), lines: cuts::lines },
    Row { id: "E7", by: MeasuredBy::Example("cache_cost"), lines: registrations::lines },
];

/// Runs one row, or all.
///
/// # Errors
/// There is no such row, or its programs cannot be built. A guest that fails is a line.
pub fn run(row: Option<&str>, json: bool) -> Result<ExitCode> {
    let rows: Vec<&Row> = ROWS.iter().filter(|each| row.is_none_or(|row| row == each.id)).collect();
    if rows.is_empty() {
        return Err(format!("no row {}; verbs has E1, E2 and E7", row.unwrap_or_default()).into());
    }
    for row in rows {
        for line in measure(row)? {
            if json { println!("{line}") } else { println!("{:<4} {}", row.id, table(&line)) }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Boots a guest for a row; a guest that cannot be had, or fails, is a line too.
fn measure(row: &Row) -> Result<Vec<Value>> {
    let said = match row.by {
        MeasuredBy::Suite(name) => in_guests(name)?,
        MeasuredBy::Example(name) => example(name),
    };
    Ok(match said {
        Ok(said) => (row.lines)(&results(&said)).iter().map(|line| line.json(row.id)).collect(),
        Err(Trouble::Absent(why)) => vec![nothing(row.id, &json!("void"), &why)],
        Err(Trouble::Failed(why)) => vec![nothing(row.id, &json!(false), &why)],
    })
}

type Said = std::result::Result<Vec<String>, Trouble>;

/// With what users run, optimised.
fn in_guests(name: &str) -> Result<Said> {
    let suites = suite::named(name)?;
    let bin = process::build_release()?;
    let said: std::result::Result<Vec<_>, _> =
        suites.iter().map(|suite| guest(suite, Some(&bin), LIMIT, false)).collect();
    Ok(said.map(|said| said.concat()))
}

fn example(name: &str) -> Said {
    let run = ["run", "--release", "--quiet", "--package", "node-agent-engine-verbs", "--example", name];
    let output = process::capture(process::cargo(run)).map_err(Trouble::failed)?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

fn nothing(row: &str, holds: &Value, why: &str) -> Value {
    json!({
        "bench": "verbs", "row": row, "case": "", "value": null, "unit": null, "goal": null, "holds": holds, "min": null,
        "max": null, "runs": 0, "cpu": null, "peers": {"reason": why},
    })
}

/// The measurements among what a guest said.
fn results(said: &[String]) -> Vec<Value> {
    let texts = said.iter().filter_map(|line| line.strip_prefix(RESULT));
    texts.filter_map(|text| serde_json::from_str(text).ok()).collect()
}

fn table(line: &Value) -> String {
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let (case, unit, peers) = (text("case"), text("unit"), &line["peers"]);
    format!(
        "{case:<60} {:>9} {unit:<6} goal {:<6} holds {:<6} {peers}",
        line["value"], line["goal"], line["holds"]
    )
}

#[cfg(test)]
fn said(lines: &[&str]) -> Vec<Value> {
    results(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::line::{Goal, quantile};
    use super::*;

    #[test]
    fn a_figure_that_reaches_its_goal_holds_whatever_limited_it() {
        let line = |value, void: Option<&str>| Line {
            case: "case".into(),
            value,
            unit: "%",
            goal: Goal::AtLeast(90.0),
            sample: vec![80.0, 95.0],
            busy: Some(1.0),
            void: void.map(str::to_owned),
            peers: json!({}),
        };
        let holds = |value, void| line(value, void).json("E1")["holds"].clone();
        assert_eq!(holds(Some(90.0), Some("busy")), json!(true));
        assert_eq!(holds(Some(89.9), Some("busy")), json!("void"));
        assert_eq!(holds(Some(89.9), None), json!(false));
        assert_eq!(holds(None, None), json!(false), "nothing was measured");
        assert_eq!(line(None, Some("busy")).json("E1")["peers"]["void"], json!("busy"));
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let sorted: Vec<f64> = (1..=25).map(f64::from).collect();
        assert_eq!(quantile(&sorted, 0.5), Some(13.0));
        assert_eq!(quantile(&sorted, 0.99), Some(25.0), "of so few the greatest");
        assert_eq!(quantile(&[], 0.5), None);
    }
}
