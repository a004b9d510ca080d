//! A fabric of real processes validated: every phase, against baselines, and interrupted.

use std::{fs, process::Stdio, time::Duration};

use integration_harness::{Cluster, Shape, eventually};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(60);
/// Small messages, and everything is borne but a test that did not run, or was wrong: this machine is no fabric.
const LENIENT: [&str; 9] =
    ["validate", "--bytes", "262144", "--iterations", "3", "--tolerance", "99.9", "--outlier", "99.9"];

fn cluster(nodes: u32) -> Cluster {
    Cluster::up(&Shape { nodes, rails: 2, gpus: 1, ..Shape::default() }).unwrap()
}

/// No job, and nothing drained.
fn is_clean(cluster: &Cluster) -> bool {
    let jobs = cluster.railctl(&["get", "jobs", "-o", "name"]);
    let rails = cluster.json(&["rail", "ls"]).unwrap();
    assert_eq!(jobs.code, 0, "{jobs:?}");
    jobs.stdout.is_empty() && rails["drains"] == serde_json::json!([])
}

#[test]
fn a_fabric_is_validated_in_all_its_phases() {
    let cluster = cluster(3);
    let file = |name: &str| cluster.home().join(name).display().to_string();
    let (page, kept) = (file("report.html"), file("baseline.json"));
    let args = [&LENIENT[..], &["--html", &page, "--save-baseline", &kept, "-o", "json"]].concat();
    let answer = cluster.railctl(&args);
    assert_eq!(answer.code, 0, "{}{}\n{}", answer.stdout, answer.stderr, cluster.logs());
    let report: Value = serde_json::from_str(&answer.stdout).unwrap();
    let runs = report["report"]["runs"].as_array().unwrap();
    let count = |name: &str| runs.iter().filter(|run| run["test"] == name).count();
    let names = ["pair", "incast", "microburst", "all-to-all", "all-reduce", "all-rails", "rail-loss"];
    assert_eq!(names.map(count), [3, 1, 1, 1, 3, 1, 2], "{report:#}");
    for run in runs {
        let done = &run["outcome"]["measured"];
        assert!(done["gbps"].as_f64().unwrap() > 0.0 && done["verified"] == true, "{run:#}");
    }
    // Each server's ports, and a rail that was lost was empty before it came back.
    assert_eq!(report["ports"].as_array().unwrap().len(), 6);
    let lost: Vec<&Value> = runs.iter().filter(|run| run["test"] == "rail-loss").collect();
    assert!(lost.iter().all(|run| run["outcome"]["measured"]["drainedS"].is_number()), "{lost:#?}");
    assert_eq!(
        [&lost[0]["lost"], &lost[1]["lost"]],
        [&json!({"node": "n0", "rail": 0}), &json!({"node": "n0", "rail": 1})]
    );
    assert!(!answer.stderr.contains("rail-loss"), "with JSON nothing is said of progress: {}", answer.stderr);
    assert!(is_clean(&cluster));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("nothing falls short") && page.matches("class=\"heat\"").count() == 6, "{page}");
    against_a_baseline(&cluster, &kept);
}

/// The same again is as good; against one that no machine reaches it falls short, by name.
fn against_a_baseline(cluster: &Cluster, kept: &str) {
    let pairs = |baseline: &str| {
        let more = ["--phase", "baseline", "--nodes", "n[0-1]", "--baseline", baseline, "-o", "json"];
        cluster.railctl(&[&LENIENT[..], &more].concat())
    };
    let answer = pairs(kept);
    assert_eq!(answer.code, 0, "{answer:?}");
    let mut baseline: Value = serde_json::from_str(&fs::read_to_string(kept).unwrap()).unwrap();
    let name = "baseline/pair/n0-n1/262144";
    assert!(baseline["gbps"][name].is_f64(), "{baseline:#}");
    // What the first run measured may be a tenth of what this machine can do a moment later: no machine reaches a tolerated share of this.
    baseline["gbps"] = json!({name: 1e9});
    fs::write(kept, baseline.to_string()).unwrap();
    let answer = pairs(kept);
    assert_eq!(answer.code, 1, "{answer:?}");
    let report: Value = serde_json::from_str(&answer.stdout).unwrap();
    let finding = &report["findings"][0];
    assert_eq!(
        (&finding["code"], &finding["place"]),
        (&json!("BelowBaseline"), &json!("n0-n1")),
        "{report:#}"
    );
    assert!(answer.stderr.contains("1 thing falls short"), "{}", answer.stderr);
    fs::write(kept, "{}x").unwrap();
    let answer = pairs(kept);
    assert!(answer.code == 2 && answer.stderr.contains("is not a baseline"), "{answer:?}");
    assert!(is_clean(cluster));
}

#[test]
fn an_interrupted_validation_leaves_nothing_behind() {
    let cluster = cluster(2);
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let args = [&LENIENT[..], &["--phase", "failure"]].concat();
        let mut command = cluster.command(&args);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let drained = || {
            let rails = cluster.json(&["rail", "ls"]).ok()?;
            rails["drains"][0]["reason"].as_str().map(str::to_owned)
        };
        let reason = eventually("a port is drained", SOON, drained).unwrap();
        assert!(reason.starts_with("railctl validate "), "{reason}");
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(130), "{said}");
        assert!(said.contains("rail-loss"), "how far it is: {said}");
        assert!(is_clean(&cluster), "{said}");
    }
}

#[test]
fn what_cannot_be_validated_is_refused_with_what_to_do() {
    let cluster = cluster(2);
    for (more, code, words) in [
        (&["--nodes", "n[0-9]"][..], 3, "there is no node `n2`"),
        (&["--nodes", "n0"], 6, "two servers at least"),
        (&["--nodes", "n["], 2, "--nodes"),
        (&["--phase", "all"], 2, "possible values"),
        (&["--baseline", "/nowhere/b.json"], 1, "cannot read /nowhere/b.json"),
    ] {
        let answer = cluster.railctl(&[&LENIENT[..], more].concat());
        assert!(answer.code == code && answer.stderr.contains(words), "{more:?}: {answer:?}");
    }
    // A server that does not come free is no hang.
    cluster.submit("busy", "gang: {nodes: 2, gpusPerNode: 1}\ncommand: {argv: [sleep, '600']}").unwrap();
    cluster.wait_for("busy", &["RUNNING"], SOON).unwrap();
    let args = [&LENIENT[..], &["--phase", "baseline", "--limit", "2s"]].concat();
    let answer = cluster.railctl(&args);
    assert!(
        answer.code == 1 && answer.stdout.contains("NotRun") && answer.stdout.contains("not done within 2 s"),
        "{answer:?}"
    );
    let jobs = cluster.railctl(&["get", "jobs", "-o", "name"]);
    assert_eq!(jobs.stdout, "job/dev/busy\n");
    assert_eq!(cluster.railctl(&["cancel", "busy", "--wait"]).code, 0);
}
