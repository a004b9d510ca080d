//! Where measurements fall short: of being right, of their neighbours, of what was measured before. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::measure::{Baseline, Measured, Outcome, Port, Run};

/// The limits below which a measurement falls short.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Percent below the baseline that are borne.
    pub below_baseline: f64,
    /// Percent below the median of its like that are borne.
    pub below_median: f64,
}

/// One thing that falls short.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Code of the finding in UpperCamelCase; stable, for programs.
    pub code: &'static str,
    /// The phase and the test in which it was found.
    pub what: String,
    /// Where it was found: servers, NODE:RAIL, or both.
    pub place: String,
    /// How far it falls short, in words.
    pub message: String,
    /// It does not count against the fabric.
    pub note: bool,
}

/// What is thought of all runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdict {
    /// What falls short first, then notes.
    pub findings: Vec<Finding>,
    /// The best rate of each port among its pairs, in Gbit/s.
    pub ports: BTreeMap<Port, f64>,
    /// The median of the rates of all pairs on all rails.
    pub median: f64,
}

impl Verdict {
    /// Things that fall short.
    pub fn short(&self) -> usize {
        self.findings.iter().filter(|finding| !finding.note).count()
    }
}

/// Compares the runs with what is right, with each other and with the baseline, and gives all that falls short.
pub fn judge(runs: &[Run], baseline: Option<&Baseline>, limits: Limits) -> Verdict {
    let mut verdict = Verdict::default();
    for run in runs {
        ended_well(run, &mut verdict.findings);
    }
    compare_rails(runs, limits, &mut verdict);
    compare_losses(runs, limits, &mut verdict.findings);
    if let Some(baseline) = baseline {
        compare_baseline(runs, baseline, limits, &mut verdict.findings);
    }
    verdict.findings.sort_by_key(|finding| finding.note);
    verdict
}

fn finding(run: &Run, code: &'static str, place: String, message: String) -> Finding {
    let what = format!("{} {} of {}", run.phase.as_str(), run.test, bytes(run.bytes));
    Finding { code, what, place, message, note: false }
}

/// Bytes as people write them.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// It ran to its end, and every element was right.
fn ended_well(run: &Run, findings: &mut Vec<Finding>) {
    match &run.outcome {
        Outcome::Failed(why) => findings.push(finding(run, "NotRun", run.place(), why.clone())),
        Outcome::Measured(measured) if measured.mismatches > 0 => {
            let text = format!("{} elements were wrong", measured.mismatches);
            findings.push(finding(run, "WrongResult", run.place(), text));
        }
        Outcome::Measured(measured) if !measured.verified => {
            findings.push(finding(run, "NotVerified", run.place(), "its result was not checked".to_owned()));
        }
        Outcome::Measured(_) => {}
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn percent_below(value: f64, wanted: f64) -> f64 {
    if wanted > 0.0 { 100.0 * (1.0 - value / wanted) } else { 0.0 }
}

/// Rates of pairs on their rails against the median of all. A port that is slow with every partner is to blame; where both ports are well
/// with others, it is the way between them.
fn compare_rails(runs: &[Run], limits: Limits, verdict: &mut Verdict) {
    let pairs =
        || runs.iter().filter(|run| run.test == "pair").filter_map(|run| Some((run, run.measured()?)));
    let rates: Vec<(&Run, u32, f64)> = pairs()
        .flat_map(|(run, done)| done.rails.iter().map(move |(rail, rate)| (run, *rail, *rate)))
        .collect();
    verdict.median = median(rates.iter().map(|(_, _, rate)| *rate).collect());
    for (run, rail, rate) in &rates {
        for node in &run.nodes {
            let best = verdict.ports.entry(Port { node: node.clone(), rail: *rail }).or_default();
            *best = best.max(*rate);
        }
    }
    let wanted = verdict.median;
    let slow = |rate: f64| percent_below(rate, wanted) > limits.below_median;
    let text = |rate: f64| {
        let below = percent_below(rate, wanted);
        format!("{rate:.2} Gbit/s, {below:.0} % below the median of all pairs and rails ({wanted:.2} Gbit/s)")
    };
    let blamed: BTreeSet<Port> =
        verdict.ports.iter().filter(|(_, best)| slow(**best)).map(|(port, _)| port.clone()).collect();
    let what = "baseline pair".to_owned();
    for port in &blamed {
        let best = verdict.ports.get(port).copied().unwrap_or(0.0);
        let message = format!("at best {}, with whatever partner", text(best));
        let finding =
            Finding { code: "SlowPort", what: what.clone(), place: port.to_string(), message, note: false };
        verdict.findings.push(finding);
    }
    for (run, rail, rate) in rates.iter().filter(|(_, _, rate)| slow(*rate)) {
        let explained =
            run.nodes.iter().any(|node| blamed.contains(&Port { node: node.clone(), rail: *rail }));
        if !explained {
            let place = format!("{} on rail {rail}", run.place());
            verdict.findings.push(finding(run, "SlowWay", place, text(*rate)));
        }
    }
}

/// Who loses one of n rails keeps the rest: (n - 1) / n of what it had, on the same attempt, and the port is empty before it is brought back.
fn compare_losses(runs: &[Run], limits: Limits, findings: &mut Vec<Finding>) {
    let reference = runs.iter().find(|run| run.test == "all-rails").and_then(Run::measured);
    for (run, done) in
        runs.iter().filter(|run| run.lost.is_some()).filter_map(|run| Some((run, run.measured()?)))
    {
        if done.restarts > 0 {
            let text =
                format!("the job was started {} times: a lost rail must not end it", done.restarts + 1);
            findings.push(finding(run, "LossEndedJob", run.place(), text));
        }
        if done.drained_s.is_none() {
            let text = "data stayed on the port until the job ended".to_owned();
            findings.push(finding(run, "NotDrained", run.place(), text));
        }
        if let Some(all) = reference {
            costs(run, done, all, limits, findings);
        }
    }
}

fn costs(run: &Run, done: &Measured, all: &Measured, limits: Limits, findings: &mut Vec<Finding>) {
    let rails = all.rails.len().max(1) as f64;
    let wanted = all.gbps * (rails - 1.0) / rails;
    let below = percent_below(done.gbps, wanted);
    if below > limits.below_median {
        let text = format!(
            "{:.2} Gbit/s, {below:.0} % below what the other rails carry ({wanted:.2} of {:.2} Gbit/s)",
            done.gbps, all.gbps
        );
        findings.push(finding(run, "LossTooCostly", run.place(), text));
    }
}

/// Adds what falls short of the baseline.
fn compare_baseline(runs: &[Run], baseline: &Baseline, limits: Limits, findings: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    for (run, done) in runs.iter().filter_map(|run| Some((run, run.measured()?))) {
        seen.insert(run.name());
        let Some(&wanted) = baseline.gbps.get(&run.name()) else {
            let text = "the baseline has no such test".to_owned();
            findings.push(Finding { note: true, ..finding(run, "NotInBaseline", run.place(), text) });
            continue;
        };
        let below = percent_below(done.gbps, wanted);
        if below > limits.below_baseline {
            let text =
                format!("{:.2} Gbit/s, {below:.0} % below the baseline ({wanted:.2} Gbit/s)", done.gbps);
            findings.push(finding(run, "BelowBaseline", run.place(), text));
        }
    }
    for name in baseline.gbps.keys().filter(|name| !seen.contains(*name)) {
        let (what, message) = (name.clone(), "the baseline has it, and it was not measured now".to_owned());
        findings.push(Finding { code: "NotMeasured", what, place: String::new(), message, note: true });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::plan::Phase;

    const LIMITS: Limits = Limits { below_baseline: 10.0, below_median: 20.0 };

    fn run(phase: Phase, test: &str, nodes: &[&str], rails: &[f64]) -> Run {
        let rails: BTreeMap<u32, f64> = (0..).zip(rails.iter().copied()).collect();
        let gbps = rails.values().sum();
        let done = Measured { gbps, verified: true, rails, drained_s: Some(0.1), ..Measured::default() };
        Run {
            phase,
            test: test.into(),
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            bytes: 1 << 20,
            lost: None,
            outcome: Outcome::Measured(done),
        }
    }

    fn pair(a: &str, b: &str, rails: &[f64]) -> Run {
        run(Phase::Baseline, "pair", &[a, b], rails)
    }

    fn change(run: &mut Run, change: impl FnOnce(&mut Measured)) {
        let Outcome::Measured(done) = &mut run.outcome else { panic!() };
        change(done);
    }

    fn codes(verdict: &Verdict) -> Vec<(&'static str, String)> {
        verdict.findings.iter().map(|finding| (finding.code, finding.place.clone())).collect()
    }

    /// Four servers, two rails, each with each.
    fn all(rate: impl Fn(&str, &str, u32) -> f64) -> Vec<Run> {
        let names = ["a", "b", "c", "d"];
        let mut runs = Vec::new();
        for (at, one) in names.iter().enumerate() {
            for other in &names[at + 1..] {
                runs.push(pair(one, other, &[rate(one, other, 0), rate(one, other, 1)]));
            }
        }
        runs
    }

    #[test]
    fn a_slow_port_is_named_and_its_partners_are_not() {
        let runs = all(|a, b, rail| if (a == "c" || b == "c") && rail == 1 { 50.0 } else { 100.0 });
        let verdict = judge(&runs, None, LIMITS);
        assert_eq!(codes(&verdict), [("SlowPort", "c:1".to_owned())]);
        assert!(verdict.findings[0].message.contains("50.00 Gbit/s, 50 % below the median"), "{verdict:?}");
        assert_eq!((verdict.short(), verdict.ports.len(), verdict.median), (1, 8, 100.0));
    }

    #[test]
    fn a_slow_way_between_two_good_ports_is_named() {
        let runs = all(|a, b, rail| if (a, b, rail) == ("a", "d", 0) { 70.0 } else { 100.0 });
        assert_eq!(codes(&judge(&runs, None, LIMITS)), [("SlowWay", "a-d on rail 0".to_owned())]);
        let borne = all(|a, b, rail| if (a, b, rail) == ("a", "d", 0) { 81.0 } else { 100.0 });
        assert_eq!(judge(&borne, None, LIMITS).findings, []);
    }

    #[test]
    fn what_did_not_run_or_was_wrong_falls_short() {
        let mut runs = all(|_, _, _| 100.0);
        change(&mut runs[0], |done| done.mismatches = 3);
        change(&mut runs[1], |done| done.verified = false);
        runs[2].outcome = Outcome::Failed("Pending: NodeBusy: n3".into());
        let verdict = judge(&runs, None, LIMITS);
        let reported: Vec<&str> = verdict.findings.iter().map(|finding| finding.code).collect();
        assert_eq!(reported, ["WrongResult", "NotVerified", "NotRun"]);
        assert_eq!(judge(&[], None, LIMITS), Verdict::default());
    }

    #[test]
    fn a_baseline_is_compared_by_name() {
        let before =
            [pair("a", "b", &[100.0, 100.0]), pair("a", "c", &[100.0, 100.0]), pair("x", "y", &[1.0])];
        let baseline = Baseline::of(&before, "then".into());
        assert_eq!(baseline.gbps["baseline/pair/a-b/1048576"], 200.0);
        let now =
            [pair("a", "b", &[89.0, 90.0]), pair("a", "c", &[90.0, 91.0]), pair("b", "c", &[90.0, 90.0])];
        let verdict = judge(&now, Some(&baseline), LIMITS);
        let reported = ["BelowBaseline", "NotInBaseline", "NotMeasured"];
        assert_eq!(verdict.findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), reported);
        assert_eq!(verdict.findings[0].message, "179.00 Gbit/s, 10 % below the baseline (200.00 Gbit/s)");
        assert_eq!(verdict.short(), 1);
    }

    #[test]
    fn a_lost_rail_costs_its_share_and_no_more() {
        let all = run(Phase::Failure, "all-rails", &["a", "b", "c"], &[100.0, 100.0, 100.0, 100.0]);
        let lost = |gbps: f64| {
            let port = Some(Port { node: "a".into(), rail: 2 });
            let mut run = Run { lost: port, ..run(Phase::Failure, "rail-loss", &["a", "b", "c"], &[]) };
            change(&mut run, |done| done.gbps = gbps);
            run
        };
        assert_eq!(judge(&[all.clone(), lost(290.0)], None, LIMITS).findings, []);
        let verdict = judge(&[all.clone(), lost(200.0)], None, LIMITS);
        assert_eq!(codes(&verdict), [("LossTooCostly", "a:2".to_owned())]);
        let mut bad = lost(300.0);
        change(&mut bad, |done| (done.restarts, done.drained_s) = (1, None));
        let verdict = judge(&[all, bad], None, LIMITS);
        assert_eq!(
            verdict.findings.iter().map(|one| one.code).collect::<Vec<_>>(),
            ["LossEndedJob", "NotDrained"]
        );
    }
}
