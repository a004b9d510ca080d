//! The whole of it, between an API server and a controller in this process.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use controller_kubernetes_kueue::{Connect, Policy, Settings, names::HoldKey, run, workload::seconds};
use proto_random::Random;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{api::Api, cluster::uid, rail::Rail};

/// What has not come about after this time never will.
const PATIENCE: Duration = Duration::from_secs(120);
const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];

/// Both sides, with nodes, a queue and a check.
async fn site() -> (Api, Rail, Connect) {
    let (api, rail) = (Api::default(), Rail::of(&NODES));
    for node in NODES {
        api.put("nodes", node, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": {"railyard.io/rails": "true"}}}));
    }
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name, "uid": name}, "spec": spec});
    api.put(
        "admissionchecks",
        "railyard",
        object("AdmissionCheck", "railyard", json!({"controllerName": "railyard.io/placement"})),
    );
    api.put("namespaces", "ml", namespace("ml"));
    let client = rail.serve().await;
    (api, rail, Arc::new(move || Ok(client.clone())))
}

fn settings() -> Settings {
    // Of namespaces that name none: here all do.
    let policy = Policy { retry_first: 1, tenant: Some("platform".to_owned()), ..Policy::default() };
    Settings { policy, workers: 3, every: Duration::from_millis(200), topology: None, ..Settings::default() }
}

/// A workload with quota since so many seconds after the hour.
fn workload(number: usize, pods: u32, second: u32) -> Value {
    let quota = json!({"type": "QuotaReserved", "status": "True", "lastTransitionTime": format!("2026-11-30T05:00:{second:02}Z"), "reason": "r", "message": ""});
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": {"name": format!("w{number}"), "namespace": "ml", "uid": uid(number)},
        "spec": {"podSets": [{"name": "main", "count": pods, "template": {"spec": {"containers": [
            {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]}}}]},
        "status": {
            "conditions": [quota], "admission": {"clusterQueue": "cq", "podSetAssignments": []},
            "admissionChecks": [{"name": "railyard", "state": "Pending", "message": "", "lastTransitionTime": "2026-11-30T05:00:00Z"}]},
    })
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"railyard.io/tenant": "research"}}})
}

fn check(api: &Api, name: &str) -> Value {
    api.get("workloads", name).unwrap()["status"]["admissionChecks"][0].clone()
}

fn state(api: &Api, number: usize) -> String {
    check(api, &format!("ml/w{number}"))["state"].as_str().unwrap().to_owned()
}

fn label(number: usize) -> String {
    format!("hold.railyard.io/{}", uid(number))
}

/// Railyard goes on until that is so.
async fn until(rail: &Rail, what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        rail.step();
        assert!(begin.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gang_is_admitted_on_the_servers_that_are_held_and_leaves_none() {
    let (api, rail, client) = site().await;
    let stop = CancellationToken::new();
    api.refuse("admissionchecks", 2);
    let running = tokio::spawn(run(api.client(), client, settings(), stop.clone()));
    until(&rail, "the check is active", || {
        api.get("admissionchecks", "railyard").unwrap()["status"]["conditions"][0]["status"] == "True"
    })
    .await;
    api.put("workloads", "ml/w1", workload(1, 3, 0));
    until(&rail, "the first is admitted", || state(&api, 1) == "Ready").await;
    let update = check(&api, "ml/w1")["podSetUpdates"][0].clone();
    assert_eq!(
        (&update["nodeSelector"][label(1)], &update["annotations"]["railyard.io/nodes"]),
        (&json!("main"), &json!("n0,n1,n2"))
    );
    assert_eq!(api.nodes_with(&label(1)), ["n0", "n1", "n2"]);
    // The second does not fit beside it.
    api.put("workloads", "ml/w2", workload(2, 2, 0));
    until(&rail, "the second is told to wait", || state(&api, 2) == "Retry").await;
    let said = check(&api, "ml/w2");
    assert_eq!(said["requeueAfterSeconds"], 1);
    assert!(said["message"].as_str().unwrap().contains("others hold the servers"), "{said}");
    api.put("workloads", "ml/w9", workload(9, 9, 0));
    until(&rail, "what needs more than Kubernetes has waits", || state(&api, 9) == "Retry").await;
    nothing_is_written_where_nothing_differs(&api, &rail).await;
    api.remove("workloads", "ml/w1");
    until(&rail, "nothing is held", || rail.held().is_empty() && api.nodes_with(&label(1)).is_empty()).await;
    // It has quota once more.
    api.put("workloads", "ml/w2", workload(2, 2, 5));
    until(&rail, "the second is admitted", || state(&api, 2) == "Ready").await;
    rail.fail(&rail.held()[0]);
    until(&rail, "it is queued again", || state(&api, 2) == "Retry" && api.nodes_with(&label(2)).is_empty())
        .await;
    assert_eq!(check(&api, "ml/w2")["podSetUpdates"], json!([]));
    // Its name is taken.
    let key = HoldKey { uid: uid(7), reserved: seconds("2026-11-30T05:00:00Z").unwrap() };
    rail.squat(&key.name("kueue-"));
    api.put("workloads", "ml/w7", workload(7, 1, 0));
    until(&rail, "it is told whose the name is", || state(&api, 7) == "Retry").await;
    let said = check(&api, "ml/w7");
    assert!(said["message"].as_str().unwrap().contains("somebody else's"), "{said}");
    assert_eq!(rail.most(), 1);
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// While another is admitted, whose namespace comes after it.
async fn nothing_is_written_where_nothing_differs(api: &Api, rail: &Rail) {
    let mut late = workload(5, 1, 0);
    late["metadata"]["namespace"] = json!("late");
    api.put("workloads", "late/w5", late);
    let names = ["ml/w1", "ml/w2", "ml/w9"];
    for name in names {
        api.change("workloads", name, |object| object["metadata"]["labels"] = json!({"a": "b"}));
    }
    let versions = || names.map(|name| api.version("workloads", name));
    let before = versions();
    api.put("workloads", "ml/w6", workload(6, 9, 0));
    until(rail, "one that came later is told to wait", || state(api, 6) == "Retry").await;
    assert_eq!(check(api, "late/w5")["state"], "Pending");
    api.put("namespaces", "late", namespace("late"));
    until(rail, "it is admitted", || check(api, "late/w5")["state"] == "Ready").await;
    assert_eq!(versions(), before);
    api.remove("workloads", "late/w5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_killed_at_any_point_is_followed_by_one_that_goes_on() {
    for seed in 0..12 {
        let (api, rail, client) = site().await;
        let mut random = Random::new(seed);
        for number in 0..3 {
            api.put("workloads", &format!("ml/w{number}"), workload(number, 1, 0));
        }
        for life in 0..8 {
            let running =
                tokio::spawn(run(api.client(), client.clone(), settings(), CancellationToken::new()));
            tokio::time::sleep(Duration::from_micros(random.within(0, 30_000))).await;
            running.abort();
            let _ = running.await;
            // Allocations prepare, or end, over one life or more.
            if random.below(2) == 0 {
                rail.step();
            }
            if life == 4 {
                api.remove("workloads", "ml/w0");
            }
            // It has lost its quota, and has it again: what held for the first time is given back before.
            if life % 3 == 2 {
                api.put("workloads", "ml/w1", workload(1, 1, life));
            }
        }
        let running = tokio::spawn(run(api.client(), client, settings(), CancellationToken::new()));
        until(&rail, &format!("seed {seed}: all is as it should be"), || {
            let labelled: usize = (0..3).map(|at| api.nodes_with(&label(at)).len()).sum();
            rail.held().len() == 2 && labelled == 2 && (1..3).all(|at| state(&api, at) == "Ready")
        })
        .await;
        assert_eq!(rail.most(), 1, "seed {seed}");
        running.abort();
    }
}
