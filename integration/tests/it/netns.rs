//! What needs root: each server in its own network namespace, every rail a shaped link.

use std::{process::Command, time::Duration};

use integration_harness::{Cluster, Shape, binaries, procfs};

use crate::jobs::number;

const SOON: Duration = Duration::from_secs(120);

fn cluster() -> Option<Cluster> {
    if !binaries::may_make_namespaces() {
        println!("skipped: network namespaces and shaping need root, ip and tc");
        return None;
    }
    Some(Cluster::up(&Shape { netns: Some("200mbit".to_owned()), ..Shape::default() }).unwrap())
}

fn namespaces() -> String {
    let output = Command::new("ip").args(["netns", "list"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn shaped_rails_carry_a_verified_all_reduce_and_leave_nothing() {
    let Some(cluster) = cluster() else { return };
    let name = cluster.name().to_owned();
    assert!(namespaces().contains(&name));
    let spec = "gang: {nodes: 4, gpusPerNode: 1}\ncollective: {op: ALL_REDUCE, bytes: 16777216, iterations: 3, verify: true}";
    cluster.submit("shaped", spec).unwrap();
    let job = cluster.wait_for("shaped", &["COMPLETED", "FAILED"], SOON).unwrap();
    let result = &job["status"]["result"];
    assert_eq!(result["verified"], true, "{job:#}\n{}", cluster.logs());
    let sent: Vec<u64> =
        result["rails"].as_array().unwrap().iter().map(|rail| number(&rail["txBytes"])).collect();
    let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
    assert!(sent.len() == 4 && most - least <= most / 20, "rails differ by more than 5 %: {sent:?}");
    // Sanity only: faster than one rail could be, and not faster than four.
    let bus = result["busBwGbps"].as_f64().unwrap();
    assert!(bus > 0.2 && bus < 0.9, "{bus} Gbit/s over 4 rails of 0.2 Gbit/s");
    drop(cluster);
    assert!(!namespaces().contains(&name), "{}", namespaces());
}

#[test]
fn a_network_that_was_half_made_is_made_anew() {
    if !binaries::may_make_namespaces() {
        println!("skipped: network namespaces and shaping need root, ip and tc");
        return;
    }
    let shape = Shape { nodes: 2, rails: 1, gpus: 1, netns: Some("200mbit".to_owned()), ..Shape::default() };
    let cluster = Cluster::up(&shape).unwrap();
    // As an `up` leaves it that is killed between the namespaces and their links, with agents of an earlier one in it. Its guard is killed
    // first: one that has not seen yet that `up` is done would take an incomplete cluster down.
    let guards = procfs::find(&["dev guard", cluster.name()]);
    assert_eq!(guards.len(), 1, "{guards:?}");
    procfs::kill(guards[0]).unwrap();
    let record = cluster.dir().join("cluster.json");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace("\"complete\": true", "\"complete\": false")).unwrap();
    let namespace = format!("rail-{}-n0", cluster.name());
    assert!(Command::new("ip").args(["-n", &namespace, "link", "del", "rail0"]).status().unwrap().success());
    cluster.revive().unwrap();
    let spec = "gang: {nodes: 2, gpusPerNode: 1}\ncollective: {op: ALL_REDUCE, bytes: 65536, verify: true}";
    cluster.submit("anew", spec).unwrap();
    let job = cluster.wait_for("anew", &["COMPLETED", "FAILED"], SOON).unwrap();
    assert_eq!(job["status"]["result"]["verified"], true, "{job:#}\n{}", cluster.logs());
}

#[test]
fn python_ranks_meet_in_a_barrier_through_the_c_door() {
    let Some(cluster) = cluster() else { return };
    let script = binaries::root().join("deploy/jobs/barrier.py");
    let spec = format!(
        "gang: {{nodes: 4, gpusPerNode: 2, ranksPerNode: 2}}\ncommand: {{argv: [python3, {}]}}",
        script.display()
    );
    cluster.submit("meet", &spec).unwrap();
    let job = cluster.wait_for("meet", &["COMPLETED", "FAILED"], SOON).unwrap();
    let log = cluster.railctl(&["logs", "meet", "--rank", "5"]);
    assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}\n{}\n{}", log.stdout, cluster.logs());
    assert!(!log.stdout.is_empty(), "{}", log.stderr);
    assert!(log.stdout.contains("RANK=5"), "{}", log.stdout);
    for other in [0, 1, 2, 3, 4, 6, 7] {
        assert!(!log.stdout.lines().any(|line| line == format!("RANK={other}")), "{}", log.stdout);
    }
}
