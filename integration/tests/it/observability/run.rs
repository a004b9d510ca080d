//! A real Prometheus scrapes a real cluster that runs jobs, and is asked whatever panels and rules ask.

use std::{collections::BTreeMap, time::Duration};

use integration_harness::{Cluster, Prometheus, Shape, eventually};
use serde_json::Value;

use super::{
    files::{DASHBOARDS, Query, RULES, dashboard, filled, known, queries, rule_file, rules, text},
    made_up::{self, MadeUp},
    promql::unknown,
};

const SOON: Duration = Duration::from_secs(120);
const NODES: u32 = 3;

/// Panels that the run itself must have something for.
const CORE: [&str; 21] = [
    "fleet: Submits that succeed",
    "fleet: Submit, 99th percentile",
    "fleet: Start, 90th percentile",
    "fleet: Gangs certified",
    "fleet: Agents connected",
    "fleet: Jobs by phase",
    "fleet: Ranks that ended",
    "fleet: Programs",
    "fabric: Gangs measured",
    "fabric: Gangs certified",
    "job: Submits",
    "job: Answer to a submit",
    "job: Wait for the first start",
    "job: Starts",
    "job: Attempts on servers",
    "tenant: GPUs held",
    "tenant: Jobs that wait",
    "controller: Controllers that lead",
    "controller: Commits",
    "controller: Calls",
    "controller: Connections",
];

fn run(cluster: &Cluster, name: &str) {
    let spec = "gang: {nodes: 3, gpusPerNode: 1}\ncollective: {op: ALL_REDUCE, bytes: 65536, iterations: 1, verify: true}";
    cluster.submit(name, spec).unwrap();
    let job = cluster.wait_for(name, &["COMPLETED", "FAILED"], SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}\n{}", cluster.logs());
}

/// A job that holds all GPUs until the cluster ends, and one that waits for them.
fn crowd(cluster: &Cluster) {
    let spec = "gang: {nodes: 3, gpusPerNode: 1}\ngracePeriod: 1s\ncommand: {argv: [sleep, '600']}";
    cluster.submit("holds", spec).unwrap();
    cluster.wait_for("holds", &["RUNNING"], SOON).unwrap();
    cluster.submit("waits", spec).unwrap();
}

fn questions() -> Vec<Query> {
    DASHBOARDS.iter().flat_map(|name| queries(name, &dashboard(name))).collect()
}

/// Asks until each question has an answer that is not empty; an error ends it at once.
fn answered(prometheus: &Prometheus, mut open: Vec<Query>) {
    let mut last = BTreeMap::new();
    let all = eventually("data for every panel", SOON, || {
        open.retain(|query| match prometheus.query(&filled(&query.expression)) {
            Ok(found) if !found.is_empty() => false,
            Ok(_) => true,
            Err(error) => {
                last.insert(query.panel.clone(), error);
                true
            }
        });
        open.is_empty().then_some(())
    });
    let left: Vec<String> =
        open.iter().map(|query| format!("{}: {}", query.panel, query.expression)).collect();
    assert!(all.is_ok(), "without data:\n{}\nerrors: {last:#?}", left.join("\n"));
}

/// All rules are evaluated without an error, and no alert fires.
fn evaluated(prometheus: &Prometheus) {
    let expected = rules().len();
    let done = || {
        let seen = prometheus.rules().ok()?;
        let over = seen.len() == expected && seen.iter().all(|rule| rule["health"] != "unknown");
        over.then_some(seen)
    };
    for rule in eventually("every rule to be evaluated", SOON, done).unwrap() {
        let name = text(&rule["name"]);
        assert_eq!(rule["health"], "ok", "{name}: {}", rule["lastError"]);
        assert_ne!(rule["state"], "firing", "{name}: {rule:#}");
    }
}

fn up(prometheus: &Prometheus, targets: usize) {
    let all = || {
        let found = prometheus.query("sum(up)").ok()?;
        let value = found.first().map(|sum| &sum["value"][1]);
        (value.and_then(Value::as_str) == Some(&targets.to_string())).then_some(())
    };
    eventually(&format!("{targets} programs to be scraped"), SOON, all).unwrap();
}

#[test]
fn a_real_prometheus_answers_every_panel_and_rule_about_a_real_run() {
    if Prometheus::program().is_none() {
        println!("skipped: Prometheus is not installed (Debian's package prometheus has it)");
        return;
    }
    let env = vec![("RAIL_CONTROLLER_CERTIFICATION".to_owned(), "require".to_owned())];
    let cluster = Cluster::up(&Shape { nodes: NODES, rails: 2, gpus: 1, env, ..Shape::default() }).unwrap();
    // So that what is counted is there at the first scrape, and grows.
    run(&cluster, "before");
    let targets = cluster.metrics().unwrap();
    assert_eq!(targets.len(), NODES as usize + 1);
    let files = RULES.map(rule_file);
    let (core, others): (Vec<Query>, Vec<Query>) =
        questions().into_iter().partition(|query| CORE.contains(&query.panel.as_str()));
    for name in CORE {
        assert!(core.iter().any(|query| query.panel == name), "there is no panel {name}");
    }
    {
        let prometheus = Prometheus::start(&targets, &files).unwrap();
        up(&prometheus, targets.len());
        run(&cluster, "scraped");
        crowd(&cluster);
        answered(&prometheus, core);
        evaluated(&prometheus);
        for query in &others {
            let answer = prometheus.query(&filled(&query.expression));
            assert!(answer.is_ok(), "{}: {answer:?}", query.panel);
        }
    }
    let made_up = MadeUp::serve();
    let targets: Vec<_> = targets.into_iter().chain([made_up.address]).collect();
    let prometheus = Prometheus::start(&targets, &files).unwrap();
    up(&prometheus, targets.len());
    answered(&prometheus, others);
    evaluated(&prometheus);
}

#[test]
fn what_is_made_up_are_series_of_programs() {
    let known = known();
    for series in made_up::series() {
        let wrong = unknown(series, &known);
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
