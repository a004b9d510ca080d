//! Rails drained under a job of real processes, and brought back.

use std::time::Duration;

use integration_harness::{Cluster, Shape, eventually};
use serde_json::Value;

use crate::jobs::number;

const SOON: Duration = Duration::from_secs(60);
/// What may pass over a drained rail while the job moves hundreds of megabytes: questions and words about other rails.
const STRAY: u64 = 64 << 10;

/// One rail as an engine of the job saw it last.
fn rail(cluster: &Cluster, job: &str, node: &str, rail: u64) -> Option<Value> {
    let reported = cluster.json(&["explain", "job", job]).ok()?;
    let node = reported["rails"].as_array()?.iter().find(|one| one["node"] == node)?.clone();
    let found = node["rails"].as_array()?.iter().find(|one| number(&one["rail"]) == rail);
    found.cloned()
}

fn moved(rail: &Value) -> u64 {
    number(&rail["txBytes"]) + number(&rail["rxBytes"])
}

/// The engine's next words about the rail, once its neighbour has moved so much more.
fn after(cluster: &Cluster, job: &str, node: &str, of: u64, other: u64, bytes: u64) -> Value {
    let begin = rail(cluster, job, node, other).map_or(0, |rail| moved(&rail));
    let what = format!("{bytes} bytes more on rail {other} of {node}");
    let further = || rail(cluster, job, node, other).filter(|seen| moved(seen) >= begin + bytes);
    eventually(&what, SOON, further).unwrap_or_else(|error| panic!("{error}\n{}", cluster.logs()));
    rail(cluster, job, node, of).unwrap()
}

fn ok(cluster: &Cluster, args: &[&str]) -> String {
    let answer = cluster.railctl(args);
    assert_eq!(answer.code, 0, "{args:?}: {}{}\n{}", answer.stdout, answer.stderr, cluster.logs());
    answer.stdout
}

#[test]
fn a_running_job_leaves_a_drained_rail_and_comes_back() {
    let cluster = Cluster::up(&Shape { nodes: 2, rails: 3, gpus: 1, ..Shape::default() }).unwrap();
    let spec = "gang: {nodes: 2, gpusPerNode: 1}\nengine: {algorithm: direct}\ncollective: {op: ALL_REDUCE, bytes: 1048576, iterations: 1000000, verify: false}";
    cluster.submit("loop", spec).unwrap();
    cluster.wait_for("loop", &["RUNNING"], SOON).unwrap();
    let up = || rail(&cluster, "loop", "n0", 1).filter(|rail| moved(rail) > 1 << 20);
    let seen = eventually("rail 1 carries data", SOON, up).unwrap();
    assert_eq!(seen["state"], "UP", "{seen:#}");

    // The whole rail.
    let reported = ok(&cluster, &["rail", "drain", "1", "--reason", "switch upgrade", "--wait"]);
    assert!(reported.contains("rail/1 is drained (switch upgrade); no running job uses it"), "{reported}");
    for node in ["n0", "n1"] {
        let before = rail(&cluster, "loop", node, 1).unwrap();
        assert_eq!(before["state"], "DRAINED", "{before:#}");
        let later = after(&cluster, "loop", node, 1, 0, 64 << 20);
        assert!(moved(&later) - moved(&before) < STRAY, "{before:#} {later:#}");
        assert_eq!((&later["state"], number(&later["flaps"])), (&Value::from("DRAINED"), 0));
    }
    let listed = ok(&cluster, &["rail", "ls"]);
    assert!(listed.contains("2 drained") && listed.contains("switch upgrade"), "{listed}");
    let again = ok(&cluster, &["rail", "drain", "rail/1", "--wait"]);
    assert!(again.contains("drained already"), "{again}");
    let table = ok(&cluster, &["explain", "job", "loop"]);
    for words in ["RailDrained", "all-reduce", "direct", "forced by the configuration"] {
        assert!(table.contains(words), "{words}: {table}");
    }

    // And back.
    assert!(ok(&cluster, &["rail", "undrain", "1"]).contains("rail/1 is used again"));
    let before = rail(&cluster, "loop", "n1", 1).map_or(0, |rail| moved(&rail));
    let back =
        || rail(&cluster, "loop", "n1", 1).filter(|r| r["state"] == "UP" && moved(r) > before + (8 << 20));
    eventually("rail 1 carries data again", SOON, back).unwrap();

    // One server's port only; the rail is in use elsewhere.
    ok(&cluster, &["rail", "drain", "n1:2", "--wait"]);
    assert_eq!(rail(&cluster, "loop", "n1", 2).unwrap()["state"], "DRAINED");
    let answer = cluster.json(&["rail", "undrain", "2"]).unwrap();
    assert!(answer["changed"] != true && answer["remaining"][0]["target"] == "node/n1:2", "{answer:#}");
    ok(&cluster, &["rail", "undrain", "n1:2"]);

    // The last one is not drained by mistake.
    ok(&cluster, &["rail", "drain", "1", "--wait"]);
    ok(&cluster, &["rail", "drain", "2", "--wait"]);
    let refused = cluster.railctl(&["rail", "drain", "0"]);
    assert!(refused.code == 5 && refused.stderr.contains("dev/loop"), "{refused:?}");

    // Nobody was hurt.
    let job = cluster.job("loop").unwrap();
    assert_eq!(
        (&job["status"]["phase"], &job["status"]["exits"]),
        (&"RUNNING".into(), &serde_json::json!([])),
        "{job:#}"
    );
    ok(&cluster, &["cancel", "loop", "--wait"]);
}

#[test]
fn a_drained_rail_stays_drained_for_jobs_that_start_later_and_over_restarts() {
    let cluster = Cluster::up(&Shape { nodes: 2, rails: 2, gpus: 1, ..Shape::default() }).unwrap();
    ok(&cluster, &["rail", "drain", "1", "--reason", "cable"]);
    let spec = "gang: {nodes: 2, gpusPerNode: 1}\nrails: {required: 2}\ncollective: {op: ALL_REDUCE, bytes: 8388608, iterations: 5, verify: true}";
    cluster.submit("later", spec).unwrap();
    let job = cluster.wait_for("later", &["COMPLETED", "FAILED"], SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}\n{}", cluster.logs());
    let rails = job["status"]["result"]["rails"].as_array().unwrap();
    let sent = |rail: u64| {
        rails.iter().find(|one| number(&one["rail"]) == rail).map_or(0, |one| number(&one["txBytes"]))
    };
    assert!(sent(1) < STRAY && sent(0) > 8 << 20, "{rails:?}");
    assert_eq!(job["status"]["result"]["verified"], true);
}

#[test]
fn what_cannot_be_drained_is_refused_with_what_to_do() {
    let cluster = Cluster::up(&Shape { nodes: 2, rails: 2, gpus: 1, pods: 2, ..Shape::default() }).unwrap();
    for (target, code, words) in [
        ("9", 3, "rails are 0 to 1"),
        ("n7:1", 3, "did you mean"),
        ("n1:9", 3, "node 'n1' has rails 0,1"),
        ("", 2, "target"),
        ("a\tb", 2, "printable"),
    ] {
        for verb in ["drain", "undrain"] {
            let answer = cluster.railctl(&["rail", verb, target]);
            assert!(answer.code == code && answer.stderr.contains(words), "{verb} {target:?}: {answer:?}");
            assert_eq!(answer.stdout, "");
        }
    }
    let names = ok(&cluster, &["rail", "ls", "-o", "name"]);
    let leaf = names.lines().find(|name| name.starts_with("leaf/")).expect("a leaf");
    let drained = cluster.json(&["rail", "drain", leaf]).unwrap();
    assert_eq!((&drained["drain"]["target"], &drained["changed"]), (&leaf.into(), &true.into()));
    let listed = cluster.json(&["rail", "ls"]).unwrap();
    let ports: u64 =
        listed["rails"].as_array().unwrap().iter().map(|rail| number(&rail["nodesDrained"])).sum();
    assert_eq!(ports, 1, "a leaf of one of two pods: {listed:#}");
    ok(&cluster, &["rail", "undrain", leaf]);
}
