//! A validation for programs (JSON) and for a terminal.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    judge::{Limits, Verdict, bytes},
    measure::{Outcome, Run},
};
use crate::render::Table;

/// All that a validation reports.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// When the validation was made.
    pub time: String,
    /// Names of the servers that were tested.
    pub nodes: Vec<String>,
    /// Rails that all of them can use.
    pub rails: Vec<u32>,
    /// When the baseline was measured, if there was one.
    pub baseline: Option<String>,
    /// The limits that the measurements were judged by.
    pub limits: Limits,
    /// All tests that were run, in order.
    pub runs: Vec<Run>,
    /// Where the measurements fall short.
    #[serde(skip)]
    pub verdict: Verdict,
}

/// The report as a JSON document.
pub fn as_json(report: &Report) -> Value {
    let ports: Vec<Value> = report
        .verdict
        .ports
        .iter()
        .map(|(port, gbps)| json!({"node": port.node, "rail": port.rail, "gbps": gbps}))
        .collect();
    json!({
        "kind": "Validation", "apiVersion": "rail/v1", "report": report,
        "ports": ports, "medianGbps": report.verdict.median,
        "fallsShort": report.verdict.short(), "findings": report.verdict.findings,
    })
}

/// The verdict in one sentence.
pub fn sentence(report: &Report) -> String {
    let (runs, nodes, rails) = (report.runs.len(), report.nodes.len(), report.rails.len());
    let what = format!("{runs} tests on {nodes} nodes and {rails} rails");
    match report.verdict.short() {
        0 => format!("{what}: nothing falls short"),
        1 => format!("{what}: 1 thing falls short"),
        short => format!("{what}: {short} things fall short"),
    }
}

/// The report as text for a terminal.
pub fn text(report: &Report) -> String {
    let mut out = format!("{}\n", sentence(report));
    if !report.verdict.findings.is_empty() {
        let mut table = Table::new(["", "CODE", "WHERE", "TEST", "HOW MUCH"]);
        for one in &report.verdict.findings {
            let level = if one.note { "note" } else { "SHORT" };
            let cells = [
                level.to_owned(),
                one.code.to_owned(),
                one.place.clone(),
                one.what.clone(),
                one.message.clone(),
            ];
            table.row(cells);
        }
        let _ = write!(out, "\n{}", table.render("  "));
    }
    let mut table = Table::new(["PHASE", "TEST", "WHERE", "BYTES", "GBIT/S", "MEDIAN US", "MAX US"]);
    for run in &report.runs {
        let [gbps, median, max] = figures(run);
        table.row([
            run.phase.as_str().to_owned(),
            run.test.clone(),
            run.place(),
            bytes(run.bytes),
            gbps,
            median,
            max,
        ]);
    }
    let _ = write!(out, "\n{}", table.render("  "));
    out
}

/// Bandwidth, median and longest time of a run as texts.
pub fn figures(run: &Run) -> [String; 3] {
    match &run.outcome {
        Outcome::Failed(_) => ["failed".to_owned(), String::new(), String::new()],
        Outcome::Measured(done) => {
            [format!("{:.2}", done.gbps), format!("{:.0}", done.median_us), format!("{:.0}", done.max_us)]
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::validate::{judge::judge, measure::Measured, plan::Phase};

    /// A report with a pair that is well and one that failed, whose server has a name that is no name.
    pub fn report() -> Report {
        let done = Measured {
            gbps: 180.5,
            median_us: 46.4,
            max_us: 90.0,
            verified: true,
            rails: [(0, 100.0), (1, 80.5)].into(),
            ..Measured::default()
        };
        let run = |nodes: [&str; 2], outcome| Run {
            phase: Phase::Baseline,
            test: "pair".into(),
            nodes: nodes.map(str::to_owned).to_vec(),
            bytes: 1 << 20,
            lost: None,
            outcome,
        };
        let runs = vec![
            run(["n0", "n1"], Outcome::Measured(done)),
            run(["n0", "<n2>"], Outcome::Failed("it did not start & nobody knows why".into())),
        ];
        let limits = Limits { below_baseline: 10.0, below_median: 50.0 };
        let verdict = judge(&runs, None, limits);
        let nodes = vec!["n0".into(), "n1".into(), "<n2>".into()];
        let time = "2026-11-23T10:00:00Z".to_owned();
        Report { time, nodes, rails: vec![0, 1], baseline: None, limits, runs, verdict }
    }

    #[test]
    fn what_falls_short_is_first() {
        let text = text(&report());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "2 tests on 3 nodes and 2 rails: 1 thing falls short");
        assert!(
            lines[3].starts_with("  SHORT  NotRun  n0-<n2>  baseline pair of 1 MiB  it did not start"),
            "{text}"
        );
        assert!(text.contains("baseline  pair  n0-n1    1 MiB  180.50  46         90"), "{text}");
    }

    #[test]
    fn programs_find_all_of_it() {
        let value = as_json(&report());
        assert_eq!((&value["fallsShort"], &value["findings"][0]["code"]), (&json!(1), &json!("NotRun")));
        assert_eq!(value["report"]["runs"][0]["outcome"]["measured"]["rails"]["1"], 80.5);
        assert_eq!(value["ports"][3], json!({"node": "n1", "rail": 1, "gbps": 80.5}));
    }
}
