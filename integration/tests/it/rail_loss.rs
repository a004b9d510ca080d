//! A server loses a rail for good: jobs of real processes do as their policies say, and start on what is left.

use std::time::Duration;

use integration_harness::{Cluster, Shape, eventually, procfs};
use serde_json::Value;

use crate::jobs::number;

const SOON: Duration = Duration::from_secs(60);
const ENDED: [&str; 3] = ["COMPLETED", "FAILED", "CANCELLED"];

/// The server's adapter is down from now on, as its agent finds when it looks at its inventory the next time.
fn lose(cluster: &Cluster, node: &str, rail: u64) {
    let path = cluster.dir().join(format!("{node}.inventory.json"));
    let mut inventory: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let nics = inventory["nics"].as_array_mut().unwrap();
    let nic = nics.iter_mut().find(|nic| number(&nic["rail"]) == rail).unwrap();
    nic["up"] = false.into();
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, inventory.to_string()).unwrap();
    std::fs::rename(&fresh, &path).unwrap();
}

/// Waits until the controller knows it.
fn lost(cluster: &Cluster, node: &str, rail: u64) {
    let known = || {
        let node = cluster.json(&["get", "nodes", node]).ok()?;
        let nics = node["status"]["inventory"]["nics"].as_array()?.clone();
        // Canonical JSON leaves out what is false.
        nics.iter().any(|nic| number(&nic["rail"]) == rail && nic["up"] != true).then_some(())
    };
    eventually(&format!("{node} without rail {rail}"), SOON, known).unwrap();
}

fn nodes(job: &Value) -> Vec<String> {
    let places = job["status"]["placement"]["nodes"].as_array().cloned().unwrap_or_default();
    places.iter().map(|place| place["node"].as_str().unwrap_or_default().to_owned()).collect()
}

fn rails(job: &Value) -> Vec<u64> {
    let rails = job["status"]["placement"]["rails"].as_array().cloned().unwrap_or_default();
    rails.iter().map(number).collect()
}

fn when(cluster: &Cluster, job: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let found = || cluster.job(job).ok().filter(|job| is(job));
    eventually(what, SOON, found).unwrap_or_else(|error| {
        panic!("{error}\n{:#}\n{}", cluster.job(job).unwrap_or_default(), cluster.logs())
    })
}

fn runs(job: &Value, attempt: u64) -> bool {
    number(&job["status"]["attempt"]) == attempt
        && job["status"]["phase"] == "RUNNING"
        && job["status"]["startTime"].is_string()
}

#[test]
fn a_lost_rail_is_done_without_moved_away_from_or_fails_the_job() {
    let cluster = Cluster::up(&Shape { nodes: 7, rails: 2, gpus: 1, ..Shape::default() }).unwrap();
    let gate = cluster.home().join("gate");
    for policy in ["CONTINUE", "MOVE", "FAIL"] {
        let spec = format!(
            "gang: {{nodes: 2, gpusPerNode: 1}}\ngracePeriod: 1s\nfailure: {{onRailLoss: {policy}}}\ncommand: {{argv: [/bin/sh, -c, 'while ! test -e {}; do sleep 0.05; done']}}",
            gate.display()
        );
        cluster.submit(&policy.to_lowercase(), &spec).unwrap();
    }
    let first = |name: &str| when(&cluster, name, &format!("{name} runs"), |job| runs(job, 1));
    let before = ["continue", "move", "fail"].map(|name| nodes(&first(name)));
    for gang in &before {
        lose(&cluster, &gang[1], 1);
    }
    let failed = cluster.wait_for("fail", &ENDED, SOON).unwrap();
    assert_eq!(failed["status"]["phase"], "FAILED", "{failed:#}");
    assert!(failed["status"]["reasons"].to_string().contains("RailLost"), "{failed:#}");
    let moved = when(&cluster, "move", "the second attempt", |job| runs(job, 2));
    assert_eq!(nodes(&moved)[0], before[1][0], "the healthy server keeps its rank");
    assert!(!before.iter().any(|gang| gang[1] == nodes(&moved)[1]), "{moved:#}");
    assert_eq!((rails(&moved), number(&moved["status"]["restarts"])), (vec![0, 1], 0));
    for gang in &before {
        lost(&cluster, &gang[1], 1);
    }
    let stayed = cluster.job("continue").unwrap();
    assert!(runs(&stayed, 1) && nodes(&stayed) == before[0], "{stayed:#}");
    std::fs::write(&gate, "").unwrap();
    for name in ["continue", "move"] {
        let job = cluster.wait_for(name, &ENDED, SOON).unwrap();
        assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}");
    }
}

#[test]
fn a_job_that_may_do_with_fewer_rails_goes_on_and_starts_on_those_that_are_left() {
    let cluster = Cluster::up(&Shape { nodes: 2, rails: 3, gpus: 1, ..Shape::default() }).unwrap();
    // It asks for all, may do with fewer, and would move if there were anything better.
    let spec = "gang: {nodes: 2, gpusPerNode: 1}\ngracePeriod: 1s\nrails: {required: 3, allowPartial: true}\nfailure: {onRailLoss: MOVE, replace: ANY, maxReplacements: 3}\ncollective: {op: ALL_REDUCE, bytes: 1048576, iterations: 1000000, verify: false}";
    cluster.submit("long", spec).unwrap();
    let job = when(&cluster, "long", "the first attempt", |job| runs(job, 1));
    let gang = nodes(&job);
    lose(&cluster, "n1", 1);
    lost(&cluster, "n1", 1);
    assert!(runs(&cluster.job("long").unwrap(), 1), "there is nothing better than where it is");
    // Its engine is killed: there are no other servers, and these share two rails.
    let dir = cluster.dir().join(&gang[0]).display().to_string();
    let engine = procfs::find(&["rail-engine", "run", &dir]);
    assert_eq!(engine.len(), 1, "{engine:?}");
    procfs::kill(engine[0]).unwrap();
    let again = when(&cluster, "long", "the second attempt", |job| runs(job, 2));
    assert_eq!((nodes(&again), rails(&again)), (gang, vec![0, 2]), "{again:#}");
    assert_eq!(cluster.railctl(&["cancel", "long", "--wait"]).code, 0);

    // One that needs two of three starts there, on those that both have, and its sums are right.
    let two = |partial: bool| {
        format!(
            "gang: {{nodes: 2, gpusPerNode: 1}}\nrails: {{required: 2, allowPartial: {partial}}}\ncollective: {{op: ALL_REDUCE, bytes: 8388608, iterations: 5, verify: true}}"
        )
    };
    cluster.submit("strict", &two(false)).unwrap();
    cluster.submit("partial", &two(true)).unwrap();
    let job = cluster.wait_for("partial", &ENDED, SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}\n{}", cluster.logs());
    assert_eq!(rails(&job), [0, 2], "{job:#}");
    let result = &job["status"]["result"];
    assert_eq!((&result["verified"], number(&result["mismatches"])), (&true.into(), 0), "{job:#}");
    let used = result["rails"].as_array().unwrap();
    for rail in used {
        let bytes = number(&rail["txBytes"]);
        assert!([0, 2].contains(&number(&rail["rail"])) && bytes > 1 << 20, "{used:?}");
    }
    assert_eq!(used.len(), 2, "{used:?}");
    let waits = cluster.job("strict").unwrap();
    assert_eq!(waits["status"]["phase"], "PENDING", "{waits:#}");
}
