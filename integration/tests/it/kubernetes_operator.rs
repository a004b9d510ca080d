//! The operator in a real Kubernetes: its API server with the files of `deploy/kubernetes` as they are and RBAC on, beside a real cluster of Railyard.

use std::{collections::BTreeMap, fs, time::Duration};

use integration_harness::{
    Access, Cluster, Kubernetes, Operator, Shape, eventually, kubernetes::missing, operator::Railyard,
};
use serde_json::{Value, json};

use crate::jobs::number;

const SOON: Duration = Duration::from_secs(180);
/// In Kubernetes as in Railyard.
const NODES: [&str; 2] = ["n0", "n1"];
/// The rights of the operator's service account are those of this user.
const USER: &str = "system:serviceaccount:railyard:rail-operator";
/// Answers to the operator that are no refusal: what is not there yet, and what somebody was faster with.
const USUAL: [i64; 2] = [404, 409];

struct World {
    kubernetes: Kubernetes,
    cluster: Cluster,
    operator: Operator,
}

impl World {
    /// What the page says that somebody does who sets it up.
    fn start() -> Option<Self> {
        if let Some(missing) = missing(false) {
            println!("skipped: {missing}");
            return None;
        }
        let kubernetes = Kubernetes::with_controllers(&NODES, "").unwrap();
        Operator::install(&kubernetes).unwrap();
        let env = vec![("RAIL_QOS_MODEL".to_owned(), "true".to_owned())];
        let cluster = Cluster::up(&Shape { nodes: 2, rails: 2, gpus: 2, env, ..Shape::default() }).unwrap();
        let access = Access::of(&cluster).unwrap();
        let issued = cluster.railctl(&["tenant", "issue-token", "kubernetes-operator", "--role", "admin"]);
        assert_eq!(issued.code, 0, "{issued:?}");
        let token = cluster.home().join("operator.token");
        fs::write(&token, issued.stdout).unwrap();
        let controller = access.rest().unwrap().to_owned();
        let operator =
            Operator::start(&kubernetes, &Railyard { controller, ca: access.ca, token }, &["--every", "1"]);
        Some(Self { operator: operator.unwrap(), kubernetes, cluster })
    }

    /// Waits for it, and shows all logs where it never comes.
    fn until<T>(&self, what: &str, probe: impl FnMut() -> Option<T>) -> T {
        eventually(what, SOON, probe).unwrap_or_else(|error| {
            let all = self.kubernetes.kubectl(&["get", "railyard", "--all-namespaces", "--output=yaml"]);
            panic!("{error}\n{all:?}\n{}\n{}", self.operator.log(), self.kubernetes.said())
        })
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubernetes.kubectl(arguments).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Applies an object as its owner, whom no write of the operator's hinders.
    fn apply(&self, object: &Value) {
        let arguments = ["apply", "--server-side", "--filename=-"];
        self.kubernetes
            .kubectl_with(&arguments, &object.to_string())
            .unwrap_or_else(|error| panic!("{error}"));
    }

    fn get(&self, arguments: &[&str]) -> Option<Value> {
        self.kubernetes.get(arguments).ok()
    }

    /// Waits until an object has this condition for this reason and for its present spec.
    fn said(&self, object: &[&str], condition: &str, reason: &str) -> Value {
        self.until(&format!("{object:?} to be {condition} for {reason}"), || {
            let object = self.get(object)?;
            let status = &object["status"];
            let is_it = |one: &&Value| one["type"] == condition && one["status"] == "True";
            let found = status["conditions"].as_array()?.iter().find(is_it)?;
            let is_new = status["observedGeneration"] == object["metadata"]["generation"];
            (found["reason"] == reason && is_new).then_some(object)
        })
    }

    /// How often each custom resource was written since it was made.
    fn writes(&self) -> BTreeMap<String, u64> {
        self.kubernetes.writes("railyard.io/").unwrap()
    }
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "railyard.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn job(name: &str, argv: &[&str]) -> Value {
    let spec = json!({"gang": {"nodes": 2, "gpusPerNode": 1}, "command": {"argv": argv}});
    let mut job = object("RailJob", name, &spec);
    job["metadata"]["namespace"] = "nlp".into();
    job
}

#[test]
fn railyard_is_kept_as_objects_say_and_objects_say_how_railyard_is() {
    let Some(mut world) = World::start() else { return };
    wrong_objects_are_refused_by_the_definitions(&world);
    a_tenant_and_its_queue_are_made_and_changed(&world);
    the_fabric_that_is_there_is_not_touched_until_its_object_changes(&world);
    a_profile_is_rolled_out(&world);
    a_job_runs_to_its_end_and_another_is_cancelled_with_its_object(&world);
    nodes_say_how_their_rails_are(&world);
    nothing_is_written_again_when_everything_is_started_again(&mut world);
    a_tenant_goes_with_its_object_or_stays(&world);
    the_operator_needed_no_other_right(&world);
}

fn wrong_objects_are_refused_by_the_definitions(world: &World) {
    for (kind, spec, why) in [
        ("RailTenant", json!({"quota": {"gpus": -1}}), "spec.quota.gpus"),
        ("RailTenant", json!({"qouta": {"gpus": 1}}), r#"unknown field "spec.qouta""#),
        ("RailProfile", json!({"profile": {}, "confirmWithin": "1s"}), "spec.confirmWithin"),
    ] {
        let error = world.kubernetes.create(&object(kind, "wrong", &spec)).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    let names = world.kubectl(&["get", "railyard", "--all-namespaces", "--output=name"]);
    assert_eq!(names, "");
}

fn a_tenant_and_its_queue_are_made_and_changed(world: &World) {
    let spec = json!({"quota": {"gpus": 3}, "queues": [{"name": "night", "weight": 2}]});
    world.apply(&object("RailTenant", "nlp", &spec));
    let said = world.said(&["railtenant", "nlp"], "Ready", "Applied");
    // It stays in Railyard: nobody has to be asked before the object goes.
    assert!(said["metadata"]["finalizers"].is_null(), "{said:#}");
    let tenant = world.cluster.json(&["get", "tenants", "nlp"]).unwrap();
    assert!(tenant.to_string().contains(r#""gpus":3"#), "{tenant:#}");
    let queues = world.cluster.json(&["get", "queues", "--tenant", "nlp"]).unwrap();
    assert!(queues.to_string().contains(r#""night""#), "{queues:#}");
    let spec = json!({"quota": {"gpus": 4}, "queues": [{"name": "night", "weight": 2}]});
    world.apply(&object("RailTenant", "nlp", &spec));
    let said = world.said(&["railtenant", "nlp"], "Ready", "Applied");
    assert_eq!(said["metadata"]["generation"], 2);
    let tenant = world.cluster.json(&["get", "tenants", "nlp"]).unwrap();
    assert!(tenant.to_string().contains(r#""gpus":4"#), "{tenant:#}");
    // Made, what is handed over, taken; changed by its owner, taken.
    assert_eq!(world.writes()["railtenants/nlp"], 5);
}

fn the_fabric_that_is_there_is_not_touched_until_its_object_changes(world: &World) {
    let fabric = || world.cluster.json(&["get", "fabric"]).unwrap();
    let (before, name) =
        (fabric()["spec"].clone(), fabric()["metadata"]["name"].as_str().unwrap().to_owned());
    world.apply(&object("RailFabric", &name, &before));
    let said = world.said(&["railfabric", &name], "Ready", "Applied");
    assert!(said["status"]["handed"].is_null(), "{said:#}");
    let mut after = before;
    after["links"][0]["port"] = "swp7".into();
    world.apply(&object("RailFabric", &name, &after));
    let said = world.said(&["railfabric", &name], "Ready", "Applied");
    assert_eq!(said["status"]["handed"]["isTaken"], true, "{said:#}");
    assert_eq!(fabric()["spec"]["links"][0]["port"], "swp7");
    // A second one does not count.
    world.apply(&object("RailFabric", "another", &after));
    world.said(&["railfabric", "another"], "Degraded", "Superseded");
    world.kubectl(&["delete", "railfabric", "another"]);
}

fn a_profile_is_rolled_out(world: &World) {
    let spec = json!({"profile": {"name": "first"}, "soak": "1s", "confirmWithin": "10s"});
    world.apply(&object("RailProfile", "lossless", &spec));
    world.said(&["railprofile", "lossless"], "Ready", "Applied");
    let status = world.cluster.railctl(&["qos", "status"]);
    assert!(status.stdout.contains("profile 'first', rollout 1"), "{status:?}");
}

fn a_job_runs_to_its_end_and_another_is_cancelled_with_its_object(world: &World) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "nlp", "labels": {"railyard.io/tenant": "nlp"}}});
    world.kubernetes.create(&namespace).unwrap();
    world.apply(&job("short", &["true"]));
    let said = world.said(&["railjob", "short", "--namespace=nlp"], "Ready", "Completed");
    let seen = &said["status"]["job"];
    assert_eq!(
        (&seen["tenant"], &seen["nodes"], &seen["rails"]),
        (&json!("nlp"), &json!(NODES), &json!([0, 1]))
    );
    let of_nlp = |name: &str| world.cluster.json(&["get", "jobs", name, "--tenant", "nlp"]).unwrap();
    assert_eq!(seen["uid"], of_nlp("short")["metadata"]["uid"]);
    world.apply(&job("long", &["sleep", "100000"]));
    let said = world.said(&["railjob", "long", "--namespace=nlp"], "Progressing", "Running");
    assert_eq!(said["metadata"]["finalizers"], json!(["railyard.io/operator"]));
    // No job of this namespace may be of another tenant, or of no tenant.
    let mut other = job("other", &["true"]);
    other["spec"]["tenant"] = "vision".into();
    world.apply(&other);
    world.said(&["railjob", "other", "--namespace=nlp"], "Degraded", "TenantNotAllowed");
    for name in ["long", "other"] {
        world.kubectl(&["delete", "railjob", name, "--namespace=nlp", "--wait=false"]);
        world.until(&format!("{name} to be gone"), || {
            world.get(&["railjob", name, "--namespace=nlp"]).is_none().then_some(())
        });
    }
    world.until("the job to be cancelled", || {
        (of_nlp("long")["status"]["phase"] == "CANCELLED").then_some(())
    });
    assert_eq!(number(&of_nlp("long")["status"]["attempt"]), 1);
}

fn nodes_say_how_their_rails_are(world: &World) {
    let condition = |node: &Value| {
        let all = node["status"]["conditions"].as_array()?;
        all.iter().find(|one| one["type"] == "RailsReady").cloned()
    };
    let is = |status: &str, message: &str| {
        world.until(&format!("the rails of n0 to be {status}"), || {
            let node = world.get(&["node", "n0"])?;
            let said = condition(&node)?;
            let is_it = said["status"] == status && said["message"].as_str()?.contains(message);
            is_it.then_some(node)
        })
    };
    let node = is("True", "2 of 2");
    assert_eq!(node["metadata"]["labels"]["railyard.io/pod"], "p0", "{node:#}");
    // What a kubelet said of the node stays.
    let kinds: Vec<&Value> =
        node["status"]["conditions"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert_eq!(kinds, ["Ready", "RailsReady"]);
    assert_eq!(world.cluster.railctl(&["rail", "drain", "n0:1", "--reason", "cable"]).code, 0);
    let node = is("False", "rail 1: Drained");
    assert!(node["spec"]["taints"].is_null(), "one rail is left: {node:#}");
    assert_eq!(world.cluster.railctl(&["node", "cordon", "n0", "--reason", "fan"]).code, 0);
    let node = is("False", "fan");
    assert_eq!(node["spec"]["taints"][0]["key"], "railyard.io/rails");
    assert_eq!(world.cluster.railctl(&["node", "uncordon", "n0"]).code, 0);
    assert_eq!(world.cluster.railctl(&["rail", "undrain", "n0:1"]).code, 0);
    let node = is("True", "2 of 2");
    assert!(node["spec"]["taints"].is_null(), "{node:#}");
}

/// All objects are looked at again by an operator that knows nothing of them, and none is written.
fn nothing_is_written_again_when_everything_is_started_again(world: &mut World) {
    let (before, nodes) = (world.writes(), world.kubernetes.writes("minions/").unwrap());
    world.kubernetes.restart_api_server().unwrap();
    world.apply(&object("RailTenant", "later", &json!({"quota": {"gpus": 1}, "deletionPolicy": "Delete"})));
    world.said(&["railtenant", "later"], "Ready", "Applied");
    world.operator.restart().unwrap();
    world.apply(&object("RailTenant", "stays", &json!({"quota": {"gpus": 1}})));
    world.said(&["railtenant", "stays"], "Ready", "Applied");
    let passes = ["RailFabric", "RailTenant", "RailProfile", "RailJob"]
        .map(|kind| format!("rail_operator_reconciles_total{{kind=\"{kind}\",outcome=\"done\""));
    world.until("a pass over every object", || {
        passes.iter().all(|series| world.operator.counted(series) > 0).then_some(())
    });
    let mut after = world.writes();
    // Made, a finalizer, what is handed over, taken; and of the one that stays no finalizer.
    assert_eq!((after.remove("railtenants/later"), after.remove("railtenants/stays")), (Some(4), Some(3)));
    assert_eq!(after, before);
    assert_eq!(world.kubernetes.writes("minions/").unwrap(), nodes);
}

fn a_tenant_goes_with_its_object_or_stays(world: &World) {
    let tenants = || world.cluster.json(&["get", "tenants"]).unwrap().to_string();
    for name in ["later", "stays"] {
        assert!(tenants().contains(&format!("\"{name}\"")));
        world.kubectl(&["delete", "railtenant", name, "--wait=false"]);
        world.until(&format!("{name} to be gone"), || {
            world.get(&["railtenant", name]).is_none().then_some(())
        });
    }
    assert!(!tenants().contains("\"later\""), "{}", tenants());
    assert!(tenants().contains("\"stays\""), "{}", tenants());
}

/// The API server has refused the operator nothing, and understood all that it was sent.
fn the_operator_needed_no_other_right(world: &World) {
    let audited = world.kubernetes.audited().unwrap();
    let calls: Vec<&Value> = audited.iter().filter(|call| call["user"]["username"] == USER).collect();
    assert!(calls.len() > 50, "{} calls", calls.len());
    let code = |call: &Value| call["responseStatus"]["code"].as_i64().unwrap_or(200);
    let what = |call: &Value| (call["verb"].clone(), call["objectRef"]["resource"].clone());
    for (at, call) in calls.iter().enumerate() {
        let code_of_it = code(call);
        // While it comes up again, the API server may have no answer, or know of no rights yet: then the same is allowed later.
        let allowed_later =
            || calls[at + 1..].iter().any(|later| what(later) == what(call) && code(later) < 400);
        let is_usual = !(400..500).contains(&code_of_it)
            || code_of_it == 429
            || USUAL.contains(&code_of_it)
            || (code_of_it == 403 && allowed_later());
        assert!(is_usual, "{call:#}");
    }
}
