//! Class of service of a cluster of real processes: a profile reaches every NIC while a job runs over them, and what cannot be is told.
//! The NICs behind the agents are in memory (mlx5, by the kernel's own bytes).

use std::{path::PathBuf, process::Command, time::Duration};

use integration_harness::{Access, Cluster, Shape, binaries, eventually};
use proto_wire::v1::{self, qos_service_client::QosServiceClient};
use serde_json::Value;

use crate::jobs::number;

const SOON: Duration = Duration::from_secs(60);

fn cluster() -> Cluster {
    let env = vec![("RAIL_QOS_MODEL".to_owned(), "true".to_owned())];
    Cluster::up(&Shape { nodes: 3, rails: 2, gpus: 1, env, ..Shape::default() }).unwrap()
}

fn profile(cluster: &Cluster, name: &str, text: &str) -> String {
    let path = cluster.home().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn roll_out(cluster: &Cluster, file: &str) -> integration_harness::Answer {
    let quick = ["--soak", "1s", "--confirm-within", "60s", "--wait", "--timeout", "2m"];
    let mut arguments = vec!["qos", "apply", "-f", file];
    arguments.extend(quick);
    cluster.railctl(&arguments)
}

#[test]
fn a_profile_reaches_every_nic_while_a_job_runs_and_goes_back_again() {
    let cluster = cluster();
    let status = cluster.railctl(&["qos", "status"]);
    assert!(status.code == 0 && status.stdout.contains("no profile is rolled out"), "{status:?}");
    let spec = "gang: {nodes: 3, gpusPerNode: 1}\ncollective: {op: ALL_REDUCE, bytes: 8388608, iterations: 1000000, verify: true}";
    cluster.submit("steady", spec).unwrap();
    let started = || cluster.job("steady").ok().filter(|job| job["status"]["startTime"].is_string());
    eventually("all ranks to be started", SOON, started).unwrap();
    let first = profile(&cluster, "first.json", r#"{"name": "first"}"#);
    let answer = roll_out(&cluster, &first);
    assert_eq!(answer.code, 0, "{}{}\n{}", answer.stdout, answer.stderr, cluster.logs());
    assert!(
        answer.stdout.contains("profile 'first', rollout 1") && answer.stdout.contains(": done"),
        "{}",
        answer.stdout
    );
    assert!(answer.stderr.contains("of 6 NICs"), "progress: {}", answer.stderr);
    let nodes = cluster.json(&["get", "nodes"]).unwrap();
    let ports = |nodes: &Value| -> Vec<String> {
        let nodes = nodes["nodes"].as_array().unwrap().clone();
        let ports = nodes
            .iter()
            .flat_map(|node| node["status"]["inventory"]["qos"].as_array().cloned().unwrap_or_default());
        ports
            .map(|port| {
                format!("{} {}", number(&port["generation"]), port["state"].as_str().unwrap_or_default())
            })
            .collect()
    };
    assert_eq!(ports(&nodes), vec!["1 KEPT"; 6], "{nodes:#}");
    // The job has gone on over the rails that were in use, and every rail is in use again.
    let job = cluster.job("steady").unwrap();
    assert_eq!(
        (number(&job["status"]["attempt"]), job["status"]["phase"].as_str()),
        (1, Some("RUNNING")),
        "{job:#}"
    );
    let rails = cluster.json(&["rail", "ls"]).unwrap();
    assert!(
        rails["rails"].as_array().unwrap().iter().all(|rail| number(&rail["nodesDrained"]) == 0),
        "{rails:#}"
    );
    // The same again changes nothing; another one can be taken back.
    assert_eq!(roll_out(&cluster, &first).code, 0);
    let second = profile(&cluster, "second.json", r#"{"name": "second", "mtu": 4200}"#);
    assert_eq!(roll_out(&cluster, &second).code, 0);
    let back = cluster.railctl(&["qos", "rollback", "--reason", "too small"]);
    assert!(back.code == 0 && back.stdout.contains("profile 'first', rollout 3"), "{back:?}");
    let done = || cluster.railctl(&["qos", "status"]).stdout.contains(": done").then_some(());
    if let Err(late) = eventually("the profile before", SOON, done) {
        panic!("{late}\n{}\n{}", cluster.railctl(&["qos", "status"]).stdout, cluster.logs());
    }
    assert_eq!(cluster.railctl(&["cancel", "steady"]).code, 0);
    cluster.wait_for("steady", &["CANCELLED"], SOON).unwrap();
}

/// A rollout is told before it begins, is cancelled in the middle, and goes back; a profile that says nothing is refused.
#[test]
fn a_roll_out_is_predicted_cancelled_and_taken_back() {
    let cluster = cluster();
    let empty = profile(&cluster, "empty.json", " {}\n");
    let refused = roll_out(&cluster, &empty);
    assert!(refused.code == 2 && refused.stderr.contains("roce-lossless"), "{refused:?}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Access::of(&cluster).unwrap().client().unwrap();
        let request = v1::ApplyQosRequest { document: "{ }".into(), ..Default::default() };
        let status = QosServiceClient::new(client).apply_qos(request).await.unwrap_err();
        let error = proto_rpc::RpcError::from_status(&status);
        assert_eq!(error.violations[0].field, "document", "{error:?}");
    });
    let first = profile(&cluster, "first.json", r#"{"name": "first"}"#);
    let reported = cluster.railctl(&["qos", "apply", "-f", &first, "--canary", "n1", "--dry-run"]);
    assert!(reported.code == 0 && reported.stdout.contains("canary n1"), "{reported:?}");
    assert!(
        reported.stdout.starts_with("6 NICs of 3 servers") && reported.stdout.contains("(dry run)"),
        "{reported:?}"
    );
    assert!(cluster.railctl(&["qos", "status"]).stdout.contains("no profile is rolled out"));
    assert_eq!(cluster.railctl(&["qos", "cancel"]).code, 3);
    assert_eq!(roll_out(&cluster, &first).code, 0);
    // The second one is ended while its canary is on trial.
    let second = profile(&cluster, "second.json", r#"{"name": "second", "mtu": 4200}"#);
    let begun = cluster.railctl(&["qos", "apply", "-f", &second, "--canary", "n1", "--soak", "5s"]);
    assert_eq!(begun.code, 0, "{begun:?}");
    let trial = || {
        let seen = cluster.json(&["qos", "status"]).ok()?;
        let trial = |stage: &Value| number(&stage["trial"]) > 0;
        seen["stages"].as_array()?.iter().any(trial).then_some(())
    };
    eventually("the first trial", SOON, trial).unwrap();
    let ended = cluster.railctl(&["qos", "cancel", "--reason", "wrong MTU"]);
    assert!(ended.code == 0 && ended.stdout.contains("CANCELLED: "), "{ended:?}");
    let clean = || {
        let rails = cluster.json(&["rail", "ls"]).ok()?;
        let used = |rail: &Value| number(&rail["nodesDrained"]) == 0;
        rails["rails"].as_array()?.iter().all(used).then_some(())
    };
    eventually("every rail to be in use", SOON, clean).unwrap();
    let seen = cluster.json(&["qos", "status"]).unwrap();
    assert_eq!(seen["state"], "CANCELLED", "{seen:#}");
    let why = seen["rollout"]["paused"]["message"].as_str().unwrap();
    assert!(why.contains("admin") && why.ends_with("cancelled it: wrong MTU"), "{why}");
    let kept: u64 = seen["stages"].as_array().unwrap().iter().map(|stage| number(&stage["kept"])).sum();
    assert!(kept < 6, "{seen:#}");
    let resumed = cluster.railctl(&["qos", "resume"]);
    assert!(resumed.code != 0 && resumed.stderr.contains("was cancelled"), "{resumed:?}");
    assert_eq!(cluster.railctl(&["qos", "rollback"]).code, 0);
    let done = || {
        let seen = cluster.json(&["qos", "status"]).ok()?;
        (seen["state"] == "DONE" && seen["rollout"]["document"].as_str()?.contains("first")).then_some(())
    };
    eventually("the profile before", SOON + SOON, done).unwrap();
    let records = cluster.railctl(&["audit", "list", "-o", "json"]).stdout;
    assert!(records.contains("ControlRollout"), "{records}");
}

#[test]
fn what_an_agent_cannot_make_pauses_the_roll_out_with_its_words() {
    let cluster = cluster();
    let bad = profile(&cluster, "bad.json", r#"{"mtu": 9000, "pcf": [3]}"#);
    let answer = roll_out(&cluster, &bad);
    assert!(answer.code == 2 && answer.stderr.contains("pcf"), "railctl knows: {answer:?}");
    // Past railctl, by the API: the first agent says so, and nothing else is touched.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Access::of(&cluster).unwrap().client().unwrap();
        let document = r#"{"pcf": [3]}"#.to_owned();
        let request = v1::ApplyQosRequest { document, canary: "n1".into(), ..Default::default() };
        QosServiceClient::new(client).apply_qos(request).await.unwrap();
    });
    let paused = || {
        let status = cluster.railctl(&["qos", "status"]).stdout;
        status.contains("PAUSED").then_some(status)
    };
    let status = eventually("the pause", SOON, paused).unwrap();
    assert!(
        status.contains("QosFailed")
            && status.contains("does not accept the profile")
            && status.contains("pcf"),
        "{status}"
    );
    assert!(status.contains("railctl qos resume") && !status.contains("rollback"), "{status}");
    let rails = cluster.json(&["rail", "ls"]).unwrap();
    assert!(
        rails["rails"].as_array().unwrap().iter().all(|rail| number(&rail["nodesDrained"]) == 0),
        "{rails:#}"
    );
    let back = cluster.railctl(&["qos", "rollback"]);
    assert!(back.code != 0 && back.stderr.contains("none to go back to"), "{back:?}");
}

fn recorded(name: &str) -> PathBuf {
    binaries::root().join("node-agent/qos/recorded").join(name)
}

/// `railctl qos plan` says of recorded servers what was signed, word by word.
#[test]
fn plans_of_recorded_servers_need_no_cluster() {
    let railctl = |arguments: &[&str]| {
        Command::new(binaries::directory().unwrap().join("railctl")).args(arguments).output().unwrap()
    };
    for host in ["hgx-h100", "hgx-h100-ofed", "mi300x-bnxt", "e810-ice", "soft-roce"] {
        let nics = recorded(&format!("{host}.json"));
        let output = railctl(&["qos", "plan", "--nics", nics.to_str().unwrap()]);
        let signed = std::fs::read_to_string(recorded(&format!("{host}.plan.txt"))).unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let plans = |text: &str| {
            text.split("\n\n")
                .map(|part| part.trim().to_owned())
                .filter(|part| !part.is_empty() && !part.starts_with("refused: "))
                .collect::<Vec<_>>()
        };
        assert_eq!(plans(&said), plans(&signed), "{host}");
        assert_eq!(output.status.code(), Some(if signed.contains("refused: ") { 6 } else { 0 }), "{host}");
    }
    let nics = recorded("soft-roce.json");
    let differs = railctl(&["qos", "diff", "--nics", nics.to_str().unwrap(), "-o", "json"]);
    assert_eq!(differs.status.code(), Some(1));
    assert!(serde_json::from_slice::<Value>(&differs.stdout).unwrap()[0]["deviations"].is_array());
    let missing = railctl(&["qos", "plan", "--nics", "/no/such/file"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/no/such/file"));
}
