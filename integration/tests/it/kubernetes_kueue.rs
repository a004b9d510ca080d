//! A real Kueue with Railyard's admission check, in a real Kubernetes: a gang goes where Railyard says, its pods with it.

use std::{collections::BTreeSet, fs, time::Duration};

use integration_harness::{
    Access, Cluster, Kubernetes, Kueue, Operator, Shape, binaries, eventually, kueue::missing,
    operator::Railyard,
};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(240);
/// In Kubernetes as in Railyard; as many as the gang of the page has.
const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];
/// That a Job becomes pods, and what they need.
const CONTROLLERS: &str = "garbage-collector-controller,job-controller,serviceaccount-controller";
/// Whose jobs the namespace's are.
const TENANT: &str = "dev";

struct World {
    kubernetes: Kubernetes,
    kueue: Kueue,
    cluster: Cluster,
    operator: Operator,
}

impl World {
    /// What the page says that somebody does who sets it up.
    fn start() -> Option<Self> {
        if let Some(missing) = missing() {
            println!("skipped: {missing}");
            return None;
        }
        let kubernetes = Kubernetes::with_controllers(&NODES, CONTROLLERS).unwrap();
        Operator::install(&kubernetes).unwrap();
        let kueue = Kueue::start(&kubernetes).unwrap();
        let kubectl =
            |arguments: &[&str]| kubernetes.kubectl(arguments).unwrap_or_else(|error| panic!("{error}"));
        kubectl(&[&["label", "node"][..], &NODES, &["railyard.io/rails=true"]].concat());
        kubectl(&["create", "namespace", "research"]);
        kubectl(&["label", "namespace", "research", &format!("railyard.io/tenant={TENANT}")]);
        kubectl(&["apply", "--filename", &deployed("kueue.yaml")]);
        let cluster = Cluster::up(&Shape { nodes: 4, rails: 8, gpus: 8, ..Shape::default() }).unwrap();
        let access = Access::of(&cluster).unwrap();
        let issued = cluster.railctl(&["tenant", "issue-token", "kubernetes-operator", "--role", "admin"]);
        assert_eq!(issued.code, 0, "{issued:?}");
        let token = cluster.home().join("operator.token");
        fs::write(&token, issued.stdout).unwrap();
        let railyard = Railyard { controller: access.rest().unwrap().to_owned(), ca: access.ca, token };
        let operator = Operator::start(&kubernetes, &railyard, &["--kueue", "--every", "1"]).unwrap();
        Some(Self { kubernetes, kueue, cluster, operator })
    }

    /// Waits for it, and shows all logs where it never comes.
    fn until<T>(&self, what: &str, probe: impl FnMut() -> Option<T>) -> T {
        eventually(what, SOON, probe).unwrap_or_else(|error| {
            let all =
                self.kubernetes.kubectl(&["get", "workloads,jobs", "--all-namespaces", "--output=yaml"]);
            let kueue = self.kueue.log();
            let end: Vec<&str> = kueue.lines().rev().take(40).collect();
            panic!(
                "{error}\n{all:?}\n{}\n{}\n{}",
                self.operator.log(),
                end.join("\n"),
                self.kubernetes.said()
            )
        })
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubernetes.kubectl(arguments).unwrap_or_else(|error| panic!("{error}"))
    }

    fn items(&self, arguments: &[&str]) -> Vec<Value> {
        let list = self.kubernetes.get(arguments).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// The workload that Kueue made of a Job.
    fn workload(&self, job: &str) -> Option<Value> {
        let all = self.items(&["workloads", "--namespace=research"]);
        all.into_iter().find(|one| one["metadata"]["ownerReferences"][0]["name"] == job)
    }

    /// Allocations that Railyard holds for a workload, with all that it ever held.
    fn holds(&self, uid: &str) -> Vec<Value> {
        let list = self.cluster.json(&["get", "jobs", "--tenant", TENANT]).unwrap();
        let all = list["jobs"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|job| job["metadata"]["labels"]["kueue/uid"] == uid).collect()
    }

    /// Nodes that carry a workload's label.
    fn labelled(&self, uid: &str) -> BTreeSet<String> {
        names(&self.items(&["nodes", "--selector", &format!("hold.railyard.io/{uid}")]))
    }
}

fn deployed(file: &str) -> String {
    binaries::root().join("deploy/kubernetes").join(file).display().to_string()
}

fn names(items: &[Value]) -> BTreeSet<String> {
    items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// Whether an object has this condition.
fn is(object: &Value, condition: &str) -> bool {
    let all = object["status"]["conditions"].as_array();
    all.into_iter().flatten().any(|one| one["type"] == condition && one["status"] == "True")
}

fn check(workload: &Value) -> &Value {
    &workload["status"]["admissionChecks"][0]
}

#[test]
fn a_gang_that_kueue_admits_runs_where_railyard_holds_servers_for_it() {
    let Some(world) = World::start() else { return };
    the_fabric_is_kueues_topology(&world);
    let uid = the_gang_of_the_page_is_admitted(&world);
    its_pods_are_on_the_held_servers(&world, &uid);
    a_gang_that_does_not_fit_waits_with_railyards_cause(&world);
    what_a_gang_held_is_given_back_with_it(&world, &uid);
    nothing_was_refused(&world);
}

fn the_fabric_is_kueues_topology(world: &World) {
    let topology =
        world.until("the Topology", || world.kubernetes.get(&["topologies.kueue.x-k8s.io", "railyard"]).ok());
    let levels = topology["spec"]["levels"].as_array().unwrap();
    assert_eq!(levels.last().unwrap()["nodeLabel"], "kubernetes.io/hostname", "{topology:#}");
    let flavor = world.until("the flavor", || world.kubernetes.get(&["resourceflavors", "railyard"]).ok());
    assert_eq!(flavor["spec"]["topologyName"], "railyard", "{flavor:#}");
    world.until("the queue to be active", || {
        let queue = world.kubernetes.get(&["clusterqueue", "gangs"]).ok()?;
        is(&queue, "Active").then_some(())
    });
}

fn the_gang_of_the_page_is_admitted(world: &World) -> String {
    world.kubectl(&["create", "--filename", &deployed("gang.yaml")]);
    let workload =
        world.until("the gang to be admitted", || world.workload("train").filter(|one| is(one, "Admitted")));
    let uid = workload["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(check(&workload)["state"], "Ready", "{workload:#}");
    let selector = &check(&workload)["podSetUpdates"][0]["nodeSelector"];
    assert_eq!(selector[format!("hold.railyard.io/{uid}")], "main", "{workload:#}");
    let holds = world.holds(&uid);
    let [hold] = holds.as_slice() else { panic!("{holds:#?}") };
    assert_eq!(hold["status"]["phase"], "RUNNING", "{hold:#}");
    let placed = hold["status"]["placement"]["nodes"].as_array().unwrap().iter();
    let placed: BTreeSet<String> = placed.map(|place| place["node"].as_str().unwrap().to_owned()).collect();
    assert_eq!(placed, world.labelled(&uid));
    assert_eq!(placed.len(), 4);
    uid
}

fn its_pods_are_on_the_held_servers(world: &World, uid: &str) {
    let pods = world.until("the gang's pods to be bound", || {
        let pods = world.items(&["pods", "--namespace=research", "--selector=job-name=train"]);
        let bound = pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count();
        (bound == 4).then_some(pods)
    });
    let on = pods.iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap().to_owned());
    assert_eq!(on.collect::<BTreeSet<_>>(), world.labelled(uid));
    let hold = world.holds(uid)[0]["metadata"]["name"].clone();
    for pod in &pods {
        assert_eq!(pod["metadata"]["annotations"]["railyard.io/hold"], hold, "{pod:#}");
    }
}

/// Kueue has quota for it; Railyard has no servers.
fn a_gang_that_does_not_fit_waits_with_railyards_cause(world: &World) {
    let container = json!({"name": "train", "image": "registry.example/train", "resources": {"limits": {"nvidia.com/gpu": 8}}});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "second", "namespace": "research", "labels": {"kueue.x-k8s.io/queue-name": "gangs"}},
        "spec": {"suspend": true, "completions": 2, "parallelism": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    });
    world.kubernetes.create(&job).unwrap();
    world.until("the second gang to wait", || {
        let workload = world.workload("second")?;
        let said = workload["status"].to_string();
        (said.contains("Retry") || said.contains("requeueState")).then_some(())
    });
    let workload = world.workload("second").unwrap();
    assert!(!is(&workload, "Admitted"), "{workload:#}");
    let uid = workload["metadata"]["uid"].as_str().unwrap();
    let live = |hold: &Value| hold["status"]["phase"] == "RUNNING";
    assert!(!world.holds(uid).iter().any(live), "{:#?}", world.holds(uid));
    assert!(world.items(&["pods", "--namespace=research", "--selector=job-name=second"]).is_empty());
    world.kubectl(&["delete", "job", "second", "--namespace=research", "--wait=false"]);
}

fn what_a_gang_held_is_given_back_with_it(world: &World, uid: &str) {
    world.kubectl(&["delete", "job", "train", "--namespace=research", "--wait=false"]);
    // Pods that no kubelet ends go by force.
    world.kubectl(&["delete", "pods", "--all", "--namespace=research", "--force", "--grace-period=0"]);
    world.until("the servers to be given back", || {
        let ended = world.holds(uid).iter().all(|hold| hold["status"]["phase"] == "CANCELLED");
        (ended && world.labelled(uid).is_empty()).then_some(())
    });
}

/// The API server has refused the operator nothing but what it was too late for.
fn nothing_was_refused(world: &World) {
    for call in world.kubernetes.audited().unwrap() {
        let code = call["responseStatus"]["code"].as_i64().unwrap_or(200);
        let is_operators = call["user"]["username"] == "system:serviceaccount:railyard:rail-operator";
        assert!(!is_operators || code < 400 || [404, 409].contains(&code), "{call:#}");
    }
}
