//! The operator before an API server that lists, watches, patches and forgets, and a controller that is away at times.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod cluster;
mod manifests;
mod objects;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use cluster::Cluster;
use controller_kubernetes::{kind::Kind, reconcile};
use proto_wire::v1::job_status::Phase;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The operator's passes over one kind, in this process; they end with it.
struct Operator {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Operator {
    fn start(cluster: &Cluster) -> Self {
        Self::start_for(cluster, Kind::Tenant)
    }

    fn start_for(cluster: &Cluster, kind: Kind) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(reconcile::keep(Arc::new(cluster.shared()), kind, stop.clone()));
        Self { stop, task }
    }

    /// As by SIGKILL: nothing is brought to its end.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

fn tenant(name: &str, policy: &str) -> Value {
    json!({
        "apiVersion": "railyard.io/v1alpha1", "kind": "RailTenant", "metadata": {"name": name},
        "spec": {"quota": {"gpus": 8}, "deletionPolicy": policy},
    })
}

fn reason(object: &Value) -> &str {
    object["status"]["conditions"][0]["reason"].as_str().unwrap_or_default()
}

fn is_ready(object: &Value) -> bool {
    object["status"]["conditions"][0]["status"] == "True" && reason(object) == "Applied"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_objects_converge_by_few_writes_though_the_operator_is_killed() {
    let cluster = Cluster::start().await;
    let names: Vec<String> = (0..40).map(|index| format!("t{index}")).collect();
    for (index, name) in names.iter().enumerate() {
        cluster.create("railtenants", tenant(name, if index % 2 == 0 { "Delete" } else { "Retain" }));
    }
    // It is killed when so many objects are ready.
    for ready in [1, 12, 25] {
        let operator = Operator::start(&cluster);
        cluster.until(|objects| objects.count(is_ready) >= ready).await;
        operator.kill().await;
    }
    let operator = Operator::start(&cluster);
    cluster.until(|objects| objects.count(is_ready) == names.len()).await;
    operator.end().await;
    for name in &names {
        let writes = cluster.objects().writes("railtenants", name);
        assert!(writes <= 4, "{name}: {writes} writes");
    }
    assert_eq!(cluster.tenants(), names.iter().cloned().collect::<BTreeSet<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_absent_controller_is_said_once_and_nothing_is_lost() {
    let cluster = Cluster::start().await;
    cluster.set_away(true);
    let operator = Operator::start(&cluster);
    cluster.create("railtenants", tenant("a", "Delete"));
    cluster.until(|objects| objects.count(|object| reason(object) == "Unreachable") == 1).await;
    cluster.set_away(false);
    cluster.until(|objects| objects.count(is_ready) == 1).await;
    assert_eq!(cluster.objects().writes("railtenants", "a"), 4);
    operator.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_not_answered_is_looked_for_before_it_is_written_again() {
    for (lost, name) in [(1, "finalizer"), (2, "handed"), (3, "ready")] {
        let cluster = Cluster::start().await;
        cluster.lose(lost);
        let operator = Operator::start(&cluster);
        cluster.create("railtenants", tenant(name, "Delete"));
        cluster.until(|objects| objects.reads("railtenants", name) > 0 && objects.count(is_ready) == 1).await;
        operator.end().await;
        let objects = cluster.objects();
        assert_eq!(
            (objects.reads("railtenants", name), objects.writes("railtenants", name)),
            (1, 3),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_too_old_lists_again() {
    let cluster = Cluster::start().await;
    let operator = Operator::start(&cluster);
    cluster.create("railtenants", tenant("a", "Retain"));
    cluster.until(|objects| objects.count(is_ready) == 1).await;
    // Watches end, and what has happened meanwhile is forgotten.
    cluster.break_watches(|objects| objects.create("railtenants", tenant("b", "Retain")));
    cluster.until(|objects| objects.count(is_ready) == 2).await;
    assert!(cluster.objects().gone() > 0, "no watch was told that it is too old");
    operator.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_object_goes_when_its_tenant_has_gone() {
    let cluster = Cluster::start().await;
    let operator = Operator::start(&cluster);
    cluster.create("railtenants", tenant("a", "Delete"));
    cluster.create("railtenants", tenant("b", "Retain"));
    cluster.until(|objects| objects.count(is_ready) == 2).await;
    cluster.delete("railtenants", "a");
    cluster.delete("railtenants", "b");
    cluster.until(|objects| objects.count(|_| true) == 0).await;
    assert_eq!(cluster.tenants(), BTreeSet::from(["b".to_owned()]));
    operator.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_object_is_asked_about_once_until_it_is_mended() {
    let cluster = Cluster::start().await;
    let operator = Operator::start(&cluster);
    let mut wrong = tenant("a", "Retain");
    wrong["spec"]["quota"]["gpus"] = 0.into();
    cluster.create("railtenants", wrong);
    cluster.until(|objects| objects.count(|object| reason(object) == "BadQuota") == 1).await;
    let message = cluster.objects().get("railtenants", "a")["status"]["conditions"][0]["message"].clone();
    assert!(message.as_str().unwrap().contains("spec.quota.gpus: is 0"), "{message}");
    // Its own status, and another object's whole life, do not make it be asked about again.
    cluster.create("railtenants", tenant("b", "Retain"));
    cluster.until(|objects| objects.count(is_ready) == 1).await;
    assert!(cluster.plans("a") <= 2, "{} plans", cluster.plans("a"));
    cluster.change("railtenants", "a", |object| object["spec"]["quota"]["gpus"] = 1.into());
    tokio::time::timeout(Duration::from_secs(60), cluster.until(|objects| objects.count(is_ready) == 2))
        .await
        .unwrap();
    operator.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_was_there_before_its_object_stays_when_that_goes() {
    let cluster = Cluster::start().await;
    cluster.make_tenant("a", 8);
    let operator = Operator::start(&cluster);
    cluster.create("railtenants", tenant("a", "Delete"));
    cluster.create("railtenants", tenant("b", "Delete"));
    cluster.until(|objects| objects.count(is_ready) == 2).await;
    cluster.delete("railtenants", "a");
    cluster.delete("railtenants", "b");
    cluster.until(|objects| objects.count(|_| true) == 0).await;
    assert_eq!(cluster.tenants(), BTreeSet::from(["a".to_owned()]));
    operator.end().await;
}

fn job(name: &str) -> Value {
    json!({
        "apiVersion": "railyard.io/v1alpha1", "kind": "RailJob", "metadata": {"name": name, "namespace": "ml"},
        "spec": {"gang": {"nodes": 1, "gpusPerNode": 8}, "command": {"argv": ["true"]}},
    })
}

fn runs(object: &Value) -> bool {
    object["status"]["job"]["phase"] == "RUNNING" && reason(object) == "Running"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_submitted_once_and_cancelled_where_they_are_though_the_operator_is_killed() {
    let cluster = Cluster::start().await;
    let names: Vec<String> = (0..30).map(|index| format!("j{index}")).collect();
    cluster.create("railjobs", job(&names[0]));
    for running in [1, 10, 20] {
        let operator = Operator::start_for(&cluster, Kind::Job);
        cluster.until(|objects| objects.count(runs) >= running).await;
        if running == 1 {
            // Those that come later are of a namespace that is known.
            let read = cluster.namespaces_read();
            names[1..5].iter().for_each(|name| cluster.create("railjobs", job(name)));
            cluster.until(|objects| objects.count(runs) == 5).await;
            assert_eq!(cluster.namespaces_read(), read);
            names[5..].iter().for_each(|name| cluster.create("railjobs", job(name)));
        }
        operator.kill().await;
    }
    let operator = Operator::start_for(&cluster, Kind::Job);
    cluster.until(|objects| objects.count(runs) == names.len()).await;
    let (submitted, jobs) = cluster.jobs();
    assert_eq!((submitted as usize, jobs.len()), (names.len(), names.len()));
    for name in &names {
        let writes = cluster.objects().writes("railjobs", name);
        assert!(writes <= 4, "{name}: {writes} writes");
    }
    // Another tenant of the namespace, and a restart: jobs stay where they were submitted, and are cancelled there.
    operator.kill().await;
    cluster.set_label("vision");
    let operator = Operator::start_for(&cluster, Kind::Job);
    cluster.change("railjobs", &names[0], |object| object["spec"]["priority"] = (-1).into());
    cluster.until(|objects| objects.count(|object| reason(object) == "SpecChanged") == 1).await;
    assert_eq!(cluster.objects().get("railjobs", &names[0])["status"]["job"]["tenant"], "nlp");
    names.iter().for_each(|name| cluster.delete("railjobs", name));
    cluster.until(|objects| objects.count(|_| true) == 0).await;
    let (submitted, jobs) = cluster.jobs();
    assert_eq!(submitted as usize, names.len());
    assert!(
        jobs.iter().all(|((tenant, _), phase)| tenant == "nlp" && *phase == Phase::Cancelled),
        "{jobs:?}"
    );
    operator.end().await;
}
