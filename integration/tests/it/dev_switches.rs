//! `railctl dev up --netns --leaves frr`: a fabric of real FRR that anybody can start, and a rollout to its switches.

use std::{process::Command, time::Duration};

use integration_harness::{Cluster, Shape, binaries, eventually, frr::programs};
use serde_json::Value;

use crate::jobs::number;

const SOON: Duration = Duration::from_secs(120);
const LEAVES: [&str; 4] = ["p0-rail0", "p0-rail1", "p1-rail0", "p1-rail1"];

fn cluster() -> Option<Cluster> {
    let has_reload = programs().is_some_and(|folder| folder.join("usr/lib/frr/frr-reload.py").exists());
    if !has_reload {
        println!(
            "skipped: FRR in network namespaces needs root, ip, and FRR's packages frr and frr-pythontools"
        );
        return None;
    }
    let shape = Shape { rails: 2, pods: 2, gpus: 1, frr: true, ..Shape::default() };
    Some(Cluster::up(&shape).unwrap())
}

fn namespaces() -> String {
    let output = Command::new("ip").args(["netns", "list"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What FRR's own shell on a switch prints.
fn vtysh(cluster: &Cluster, switch: &str, commands: &[&str]) -> String {
    let namespace = format!("rail-{}-{switch}", cluster.name());
    let frr = programs().unwrap();
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace]).arg(cluster.bin().join("railctl"));
    command.args(["dev", "switch", "--dir"]).arg(cluster.dir().join(switch));
    command.arg("--cluster").arg(cluster.dir()).arg("--frr").arg(&frr);
    command.arg("--").arg(frr.join("usr/bin/vtysh"));
    command.args(commands.iter().flat_map(|command| ["-c", command]));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn standing(cluster: &Cluster, name: &str) -> Option<String> {
    let switch = cluster.json(&["get", "switches", name]).ok()?;
    Some(switch["status"]["configuration"].as_str().unwrap_or_default().to_owned())
}

fn until_all(cluster: &Cluster, switches: &[&str], wanted: &str) {
    for name in switches {
        let is = || standing(cluster, name).filter(|found| found == wanted);
        eventually(&format!("{name} is {wanted}"), SOON, is).unwrap_or_else(|error| {
            let seen = cluster.json(&["get", "switches", name]);
            panic!("{error}: {seen:#?}\n{}", cluster.logs())
        });
    }
}

/// A gang of both pods whose result is checked, bit for bit.
fn verified(cluster: &Cluster, name: &str) {
    let spec = "gang: {nodes: 4, gpusPerNode: 1}\ncollective: {op: ALL_REDUCE, bytes: 4194304, iterations: 3, verify: true}";
    cluster.submit(name, spec).unwrap();
    let job = cluster.wait_for(name, &["COMPLETED", "FAILED"], SOON).unwrap();
    let result = &job["status"]["result"];
    assert_eq!(result["verified"], true, "{job:#}\n{}", cluster.logs());
    let rails = result["rails"].as_array().unwrap();
    assert!(rails.len() == 2 && rails.iter().all(|rail| number(&rail["txBytes"]) > 0), "{result:#}");
}

/// Bytes that both spines have been sent by leaves.
fn carried(cluster: &Cluster) -> u64 {
    let mut sum = 0;
    for spine in ["spine0", "spine1"] {
        let namespace = format!("rail-{}-{spine}", cluster.name());
        let output = Command::new("ip").args(["-n", &namespace, "-s", "-j", "link"]).output().unwrap();
        let links: Value = serde_json::from_slice(&output.stdout).unwrap();
        let links = links.as_array().unwrap().iter();
        let ports = links.filter(|link| link["ifname"].as_str().unwrap().starts_with("dn"));
        sum += ports.map(|link| link["stats64"]["rx"]["bytes"].as_u64().unwrap()).sum::<u64>();
    }
    sum
}

#[test]
fn a_fabric_of_frr_carries_jobs_and_takes_a_rollout_and_leaves_nothing() {
    let Some(cluster) = cluster() else { return };
    let name = cluster.name().to_owned();
    let all: Vec<&str> = LEAVES.into_iter().chain(["spine0", "spine1"]).collect();
    until_all(&cluster, &all, "IN_SYNC");
    let plan = cluster.railctl(&["switch", "apply", "--dry-run"]);
    assert!(plan.stdout.contains("nothing would begin"), "{}{}", plan.stdout, plan.stderr);
    verified(&cluster, "before");
    assert!(carried(&cluster) > 4 << 20, "what pods sent each other crossed the spines");

    // By hand, on every leaf: twice as slow to notice a dead neighbour.
    for leaf in LEAVES {
        vtysh(&cluster, leaf, &["configure terminal", "bfd", "profile fabric", "transmit-interval 200"]);
    }
    until_all(&cluster, &LEAVES, "PENDING");
    let rollout = ["switch", "apply", "--reason", "BFD", "--soak", "1s", "--confirm-within", "60s"];
    let applied =
        cluster.railctl(&[&rollout[..], &["--canary", "p1-rail1", "--wait", "--timeout", "2m"]].concat());
    assert_eq!(applied.code, 0, "{}{}\n{}", applied.stdout, applied.stderr, cluster.logs());
    let seen = cluster.json(&["switch", "status"]).unwrap();
    assert_eq!(
        (seen["state"].as_str(), seen["canary"].as_str()),
        (Some("DONE"), Some("p1-rail1")),
        "{seen:#}"
    );
    until_all(&cluster, &all, "IN_SYNC");
    for leaf in LEAVES {
        let running = vtysh(&cluster, leaf, &["show running-config"]);
        let kept = std::fs::read_to_string(cluster.dir().join(leaf).join("etc/frr.conf")).unwrap();
        for text in [running, kept] {
            assert!(text.contains("transmit-interval 100"), "{leaf}: {text}");
        }
    }
    verified(&cluster, "after");

    // A switch whose FRR is gone is made anew with what was kept on it.
    let status =
        || cluster.json(&["dev", "status", "--name", &name, "--dir", &cluster.dir().display().to_string()]);
    let pid = |role: &str| {
        let status = status().unwrap();
        let process = status["processes"].as_array().unwrap().iter().find(|one| one["role"] == role).unwrap();
        process["pid"].as_u64()
    };
    let killed = pid("frr-p0-rail0").unwrap().to_string();
    assert!(Command::new("kill").args(["-KILL", &killed]).status().unwrap().success());
    eventually("it is gone", SOON, || pid("frr-p0-rail0").is_none().then_some(())).unwrap();
    cluster.revive().unwrap();
    assert!(pid("frr-p0-rail0").is_some() && pid("switch-p0-rail0").is_some());
    verified(&cluster, "again");

    let dir = cluster.dir().display().to_string();
    drop(cluster);
    assert!(!namespaces().contains(&name), "{}", namespaces());
    let left = Command::new("grep").args(["-lsF", &dir]).args(command_lines()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
    assert!(binaries::may_make_namespaces());
}

/// The command lines of all processes but this one.
fn command_lines() -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let pids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own);
    pids.map(|pid| format!("/proc/{pid}/cmdline")).collect()
}
