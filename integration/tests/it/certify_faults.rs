//! Certification with real processes and real faults, each server in its own network namespace: what is wrong with a rail of a server is
//! found and named, and acted on as the job asks.

use std::{process::Command, time::Duration};

use integration_harness::{Cluster, Shape, binaries, eventually};
use serde_json::Value;

use crate::jobs::number;

const SOON: Duration = Duration::from_secs(120);
const ENDED: [&str; 2] = ["COMPLETED", "FAILED"];
/// Full speed of a rail: so slow that what waits in its queue lasts longer than another process of a busy machine keeps ours waiting.
const RATE: &str = "80mbit";

fn ip(line: &str) {
    run("ip", line);
}

fn run(tool: &str, line: &str) {
    let output = Command::new(tool).args(line.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{tool} {line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Four servers of two rails; what they are told of each other's addresses is learnt anew after each change.
struct Lab(Cluster);

impl Lab {
    fn up() -> Option<Self> {
        if !binaries::may_make_namespaces() {
            println!("skipped: network namespaces and shaping need root, ip and tc");
            return None;
        }
        let shape = Shape { rails: 2, gpus: 1, netns: Some(RATE.to_owned()), ..Shape::default() };
        Some(Self(Cluster::up(&shape).unwrap()))
    }

    fn leaf(&self, rail: u32) -> String {
        format!("rail-{}-p0-rail{rail}", self.0.name())
    }

    fn forget_neighbours(&self) {
        for node in 0..4 {
            ip(&format!("-n rail-{}-n{node} neigh flush all", self.0.name()));
        }
    }

    /// Submits a job and waits for its end.
    fn job(&self, name: &str, certification: &str, work: &str) -> Value {
        let spec = format!(
            "gang: {{nodes: 3, gpusPerNode: 1}}\ngracePeriod: 1s\ncertification: {certification}\nfailure: {{replace: ANY, maxReplacements: 2}}\n{work}"
        );
        self.0.submit(name, &spec).unwrap();
        let job = self.0.wait_for(name, &ENDED, SOON).unwrap();
        assert_eq!(job["status"]["phase"], "COMPLETED", "{job:#}\n{}", self.0.logs());
        job
    }

    /// One that only says what is wrong.
    fn warned(&self, name: &str) -> Value {
        self.job(name, "WARN", "command: {argv: [/bin/true]}")
    }

    /// One that starts only if nothing is wrong.
    fn certified(&self, name: &str) -> Value {
        let job = self.job(
            name,
            "REQUIRE",
            "collective: {op: ALL_REDUCE, bytes: 1048576, iterations: 2, verify: true}",
        );
        assert_eq!(job["status"]["result"]["verified"], true, "{job:#}");
        job
    }
}

fn nodes(job: &Value) -> Vec<String> {
    let places = job["status"]["placement"]["nodes"].as_array().unwrap();
    places.iter().map(|place| place["node"].as_str().unwrap().to_owned()).collect()
}

/// The message of the first reason of a placement with this code, if there is one.
fn reason(job: &Value, code: &str) -> Option<String> {
    let reasons = job["status"]["placement"]["reasons"].as_array()?;
    let reason = reasons.iter().find(|reason| reason["code"] == code)?;
    Some(reason["message"].as_str()?.to_owned())
}

/// Found and named by a job that only warns, and avoided by one that requires.
fn named_and_replaced(lab: &Lab, fault: &str, code: &str, rail: u32, node: &str) {
    let job = lab.warned(&format!("{fault}-warn"));
    assert!(nodes(&job).contains(&node.to_owned()), "idle, the same job has the same place: {job:#}");
    let message = reason(&job, code).unwrap_or_else(|| panic!("no {code}: {job:#}"));
    assert!(message.contains(&format!("'{node}'")) && message.contains(&format!("rail {rail}")), "{message}");
    let twice = reason(&job, "NotCertified").unwrap().contains("all of them twice");
    assert_eq!(twice, code == "RailSlow", "what may pass is measured again, and nothing else: {job:#}");
    let job = lab.certified(&format!("{fault}-require"));
    let replaced = number(&job["status"]["replaced"]) > 0 && !nodes(&job).contains(&node.to_owned());
    assert!(replaced, "{job:#}\n{}", lab.0.logs());
    let repaired = reason(&job, "Repaired").unwrap();
    assert!(repaired.contains(&format!("'{node}' by")), "{repaired}");
    assert!(reason(&job, "Certified").is_some(), "{job:#}");
}

#[test]
fn a_small_mtu_and_a_slow_rail_are_named_and_their_server_is_replaced() {
    let Some(lab) = Lab::up() else { return };
    let first = nodes(&lab.certified("sound"));
    let (node, port) = (&first[1], first[1].replace('n', "swp"));
    let leaf = lab.leaf(1);
    ip(&format!("-n {leaf} link set {port} mtu 1500"));
    named_and_replaced(&lab, "mtu", "MtuTooSmall", 1, node);
    ip(&format!("-n {leaf} link set {port} mtu 9000"));
    run("tc", &format!("-n {leaf} qdisc replace dev {port} root tbf rate 24mbit burst 40000 limit 500000"));
    named_and_replaced(&lab, "slow", "RailSlow", 1, node);
}

#[test]
fn swapped_rails_are_used_as_they_are_cabled() {
    let Some(lab) = Lab::up() else { return };
    let first = nodes(&lab.certified("sound"));
    let (node, port) = (&first[1], first[1].replace('n', "swp"));
    let leaves = [lab.leaf(0), lab.leaf(1)];
    // The cables of the server's two NICs change places at the leaves.
    for (at, leaf) in leaves.iter().enumerate() {
        ip(&format!("-n {leaf} link set {port} down"));
        ip(&format!("-n {leaf} link set {port} nomaster name moved{at}"));
        ip(&format!("-n {leaf} link set moved{at} netns {}", leaves[1 - at]));
    }
    for (at, leaf) in leaves.iter().enumerate() {
        ip(&format!("-n {leaf} link set moved{} name {port} master br0", 1 - at));
        ip(&format!("-n {leaf} link set {port} up"));
    }
    lab.forget_neighbours();
    let job = lab.warned("swap-warn");
    let message = reason(&job, "RailsSwapped").unwrap_or_else(|| panic!("{job:#}"));
    assert!(message.contains(&format!("'{node}'")), "{message}");
    let job = lab.certified("swap-require");
    let attempts = number(&job["status"]["attempt"]);
    assert_eq!((nodes(&job), attempts), (first.clone(), 2), "{job:#}\n{}", lab.0.logs());
    assert!(reason(&job, "RailsRemapped").unwrap().contains(&format!("'{node}'")), "{job:#}");
    assert!(reason(&job, "Certified").is_some(), "{job:#}");
    let place = &job["status"]["placement"]["nodes"][1];
    let nics: Vec<(u64, &str)> = place["nics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|nic| (number(&nic["rail"]), nic["device"].as_str().unwrap()))
        .collect();
    assert_eq!((&place["remapped"], nics), (&true.into(), vec![(0, "rail1"), (1, "rail0")]), "{place:#}");
    let shown = lab.0.railctl(&["describe", "job", "swap-require"]);
    assert!(shown.stdout.contains("RailsRemapped"), "{}", shown.stdout);
    let reported = || {
        let shown = lab.0.railctl(&["describe", "node", node]).stdout;
        (shown.contains("RailsSwapped") && shown.contains("swap their cables")).then_some(())
    };
    eventually("the server says that its cables are swapped", SOON, reported).unwrap();
}
