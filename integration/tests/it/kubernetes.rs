//! Rails in a real Kubernetes: its API server, its scheduler and its controllers, with the files of `deploy/kubernetes` as they are; two servers with
//! the DRA driver, and a test that plays their kubelets.

use std::{collections::BTreeSet, fs, process::Command, time::Duration};

use integration_harness::{Kubernetes, binaries, eventually, kubernetes::missing};
use node_agent_dra_server::{Interface, Server};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(90);
const NODES: [&str; 2] = ["n0", "n1"];
/// As many as the pod of `deploy/kubernetes/pod.yaml` wants.
const RAILS: usize = 8;
/// The rail of n1 that is down when the driver starts.
const DOWN: usize = 3;
/// Of whom slices are written, in `deploy/kubernetes/driver.yaml`.
const ACCOUNT: &str = "rail-dra-driver";

struct World {
    kubernetes: Kubernetes,
    /// In the order of [`NODES`].
    servers: Vec<Server>,
}

impl World {
    /// What the page says that somebody does who sets it up; the drivers are started with the tokens that kubelet would give their pods.
    async fn start() -> Option<Self> {
        if let Some(missing) = missing(true) {
            println!("skipped: {missing}");
            return None;
        }
        let kubernetes = Kubernetes::up(&NODES).unwrap();
        let kubectl =
            |arguments: &[&str]| kubernetes.kubectl(arguments).unwrap_or_else(|error| panic!("{error}"));
        kubectl(&["label", "node", "n0", "n1", "railyard.io/rails=true"]);
        for file in ["class.yaml", "driver.yaml"] {
            kubectl(&["apply", "--filename", &deployed(file)]);
        }
        let program = binaries::directory().unwrap().join("rail-dra-driver");
        let mut servers = Vec::new();
        for node in NODES {
            let what = format!("the DaemonSet's pod on {node}");
            let pod = eventually(&what, SOON, || pod_on(&kubernetes, node));
            let pod = pod.unwrap_or_else(|error| panic!("{error}\n{}", kubernetes.said()));
            let address = kubernetes.address().parse().unwrap();
            let server = Server::new(&program, node, RAILS, address);
            fs::copy(kubernetes.ca(), server.path("ca.crt")).unwrap();
            fs::write(server.path("token"), token_of(&kubernetes, Some(&pod))).unwrap();
            servers.push(server);
        }
        servers[1].write_inventory(RAILS, |k| k != DOWN);
        for server in &servers {
            server.start().await;
        }
        Some(Self { kubernetes, servers })
    }

    /// Waits for it, and shows all logs where it never comes.
    fn until<T>(&self, what: &str, probe: impl FnMut() -> Option<T>) -> T {
        eventually(what, SOON, probe).unwrap_or_else(|error| {
            let drivers: Vec<String> = self.servers.iter().map(Server::log).collect();
            panic!("{error}\n{}\n{}", drivers.join("\n"), self.kubernetes.said())
        })
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubernetes.kubectl(arguments).unwrap_or_else(|error| panic!("{error}"))
    }

    fn get(&self, arguments: &[&str]) -> Option<Value> {
        self.kubernetes.get(arguments).ok()
    }

    fn slice(&self, node: &str) -> Option<Value> {
        self.get(&["resourceslice", &format!("{node}-rails")])
    }

    /// A pod with this many rails of whichever server, whatever their health.
    fn submit(&self, name: &str, rails: usize) {
        let template = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
            "spec": {"spec": {"devices": {"requests": [{"name": "rails", "exactly": {
                "deviceClassName": "rail.railyard.io", "allocationMode": "ExactCount", "count": rails,
            }}]}}},
        });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "resourceClaims": [{"name": "rails", "resourceClaimTemplateName": name}],
                "containers": [{"name": "train", "image": "registry.example/train:1",
                    "resources": {"claims": [{"name": "rails"}]}}],
            },
        });
        for object in [template, pod] {
            self.kubernetes.create(&object).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// The node that the scheduler has chosen for a pod, and the pod's claim with what it was given.
    fn scheduled(&self, pod: &str) -> (String, Value) {
        self.until(&format!("pod {pod} to be scheduled"), || {
            let pod = self.get(&["pod", pod])?;
            let node = pod["spec"]["nodeName"].as_str()?.to_owned();
            let claim = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str()?;
            Some((node, self.get(&["resourceclaim", claim])?))
        })
    }
}

fn deployed(file: &str) -> String {
    binaries::root().join("deploy/kubernetes").join(file).display().to_string()
}

/// The driver's pod on a node, as soon as the scheduler has bound it.
fn pod_on(kubernetes: &Kubernetes, node: &str) -> Option<String> {
    let pods = kubernetes
        .get(&["pods", "--namespace=railyard", "--selector=app.kubernetes.io/component=dra-driver"])
        .ok()?;
    let pod = pods["items"].as_array()?.iter().find(|pod| pod["spec"]["nodeName"] == node)?;
    Some(pod["metadata"]["name"].as_str()?.to_owned())
}

/// A token of the driver's account: of one of its pods, or of nobody's.
fn token_of(kubernetes: &Kubernetes, pod: Option<&str>) -> String {
    let mut arguments = vec!["create", "token", ACCOUNT, "--namespace=railyard"];
    if let Some(pod) = pod {
        arguments.extend(["--bound-object-kind=Pod", "--bound-object-name", pod]);
    }
    kubernetes.kubectl(&arguments).unwrap().trim().to_owned()
}

/// Names of the devices that a claim was given; all of one pool.
fn given(claim: &Value, pool: &str) -> BTreeSet<String> {
    let results = claim["status"]["allocation"]["devices"]["results"].as_array().unwrap();
    assert!(results.iter().all(|one| one["pool"] == pool), "{claim:#}");
    results.iter().map(|one| one["device"].as_str().unwrap().to_owned()).collect()
}

/// All that a server has.
fn every_rail() -> BTreeSet<String> {
    (0..RAILS).map(|k| format!("nic-0000-{k:02x}-00-0")).collect()
}

/// UID and name of a claim of the namespace `default`, as kubelet names it.
fn key(claim: &Value) -> (String, String) {
    let text = |field: &str| claim["metadata"][field].as_str().unwrap().to_owned();
    (text("uid"), text("name"))
}

#[tokio::test(flavor = "multi_thread")]
async fn rails_are_published_allocated_prepared_and_given_back() {
    let Some(world) = World::start().await else { return };
    slices_are_stored_as_they_are_printed(&world);
    let claim = eight_healthy_rails_are_allocated(&world);
    what_was_allocated_is_prepared_where_it_was_allocated(&world, &claim).await;
    an_unfit_rail_is_not_allocated_before_it_is_fit(&world);
    a_driver_writes_the_slice_of_its_own_node_alone(&world);
    a_driver_may_do_no_more(&world);
    a_slice_that_kubelet_removes_is_written_again(&world);
    what_a_pod_leaves_is_given_back(&world, &claim).await;
}

/// What the real validation keeps is what the program prints, field by field.
fn slices_are_stored_as_they_are_printed(world: &World) {
    for (node, server) in NODES.iter().zip(&world.servers) {
        let stored = world.until(&format!("the slice of {node}"), || world.slice(node));
        let mut devices = stored["spec"]["devices"].clone();
        let mut taints = Vec::new();
        for device in devices.as_array_mut().unwrap() {
            for taint in device.get_mut("taints").and_then(Value::as_array_mut).into_iter().flatten() {
                assert!(
                    taint.as_object_mut().unwrap().remove("timeAdded").is_some(),
                    "the API server says when"
                );
                taints.push(taint["value"].as_str().unwrap().to_owned());
            }
        }
        let mut print = Command::new(binaries::directory().unwrap().join("rail-dra-driver"));
        print.args(["devices", "--kubernetes-node", node, "--inventory"]).arg(server.path("inventory.json"));
        let printed: Value = serde_json::from_slice(&print.output().unwrap().stdout).unwrap();
        assert_eq!(devices, printed["spec"]["devices"], "{node}");
        assert_eq!(stored["spec"]["pool"], json!({"name": node, "generation": 1, "resourceSliceCount": 1}));
        assert_eq!(taints, if *node == "n1" { vec!["LinkDown"] } else { Vec::new() }, "{node}");
        let owner = &stored["metadata"]["ownerReferences"][0]["uid"];
        assert_eq!(*owner, world.get(&["node", node]).unwrap()["metadata"]["uid"]);
        assert_eq!(server.log(), "", "nothing to warn of");
    }
}

/// The pod of the page wants eight healthy rails, which n0 alone has.
fn eight_healthy_rails_are_allocated(world: &World) -> Value {
    world.kubectl(&["apply", "--filename", &deployed("pod.yaml")]);
    let (node, claim) = world.scheduled("rails");
    assert_eq!(node, "n0", "{claim:#}");
    assert_eq!(given(&claim, "n0"), every_rail());
    assert_eq!(claim["status"]["reservedFor"][0]["name"], "rails");
    claim
}

async fn what_was_allocated_is_prepared_where_it_was_allocated(world: &World, claim: &Value) {
    let (uid, name) = key(claim);
    let asked = (uid.as_str(), "default", name.as_str());
    let [here, elsewhere] = [0, 1].map(|at: usize| world.servers[at].kubelet(Interface::V1));
    let devices = here.prepare_one(asked).await.unwrap();
    assert_eq!(devices.keys().cloned().collect::<BTreeSet<_>>(), given(claim, "n0"));
    let specification = world.servers[0].specification(&uid).unwrap();
    let all = &specification["devices"][0];
    assert_eq!(all["name"], uid.as_str());
    let environment: Vec<&str> =
        all["containerEdits"]["env"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(environment.contains(&"RAIL_RAILS=0,1,2,3,4,5,6,7"), "{environment:?}");
    assert!(environment.iter().any(|variable| variable.starts_with("NCCL_IB_HCA=")), "{environment:?}");
    let error = elsewhere.prepare_one(asked).await.unwrap_err();
    assert!(error.contains("of pool n0"), "{error}");
    assert_eq!(world.servers[1].on_disk(), (Vec::new(), Vec::new()));
    // A claim of that name and another UID is another claim.
    let other =
        here.prepare_one(("0b5c0000-0000-4000-8000-000000000000", "default", &name)).await.unwrap_err();
    assert!(other.contains("is gone"), "{other}");
}

/// Seven rails are free of taints: who wants eight waits until the eighth one is up, although the pod asks for no health.
fn an_unfit_rail_is_not_allocated_before_it_is_fit(world: &World) {
    world.submit("wide", RAILS);
    world.until("the scheduler to find no room", || {
        let pod = world.get(&["pod", "wide"])?;
        let conditions = pod["status"]["conditions"].as_array()?;
        let refused = |one: &&Value| one["type"] == "PodScheduled" && one["reason"] == "Unschedulable";
        let message = conditions.iter().find(refused)?["message"].as_str()?.to_owned();
        message.contains("cannot allocate all claims").then_some(())
    });
    let claims = world.get(&["resourceclaims"]).unwrap();
    let of_wide = |claim: &&Value| claim["metadata"]["ownerReferences"][0]["name"] == "wide";
    let claim = claims["items"].as_array().unwrap().iter().find(of_wide).unwrap();
    assert!(claim["status"]["allocation"].is_null(), "{claim:#}");
    world.servers[1].write_inventory(RAILS, |_| true);
    let (node, claim) = world.scheduled("wide");
    assert_eq!((node.as_str(), given(&claim, "n1")), ("n1", every_rail()));
}

fn a_driver_writes_the_slice_of_its_own_node_alone(world: &World) {
    let tokens = [0, 1].map(|at: usize| fs::read_to_string(world.servers[at].path("token")).unwrap());
    let own = world.slice("n1").unwrap();
    let others = world.slice("n0").unwrap();
    let mut more = others.clone();
    more["metadata"] = json!({"name": "n0-more"});
    let try_to = |token: &str, verb: &str, object: &Value| {
        let arguments = [verb, "--dry-run=server", "--filename=-"];
        world.kubernetes.kubectl_as(token, &arguments, &object.to_string())
    };
    let refusal = r#"a driver on node "n1" may not write the ResourceSlice of node "n0""#;
    // A policy counts as soon as the API server has compiled it.
    world.until("the policy to refuse", || {
        try_to(&tokens[1], "replace", &others).err().filter(|error| error.contains(refusal))
    });
    let error = try_to(&tokens[1], "create", &more).unwrap_err();
    assert!(error.contains(refusal), "{error}");
    // What it refuses there it permits here.
    try_to(&tokens[1], "replace", &own).unwrap();
    try_to(&tokens[0], "create", &more).unwrap();
    // A token that is no pod's speaks of no node.
    let error = try_to(&token_of(&world.kubernetes, None), "replace", &own).unwrap_err();
    assert!(error.contains(r#"a driver on node "" may not write"#), "{error}");
}

fn a_driver_may_do_no_more(world: &World) {
    let token = fs::read_to_string(world.servers[0].path("token")).unwrap();
    for arguments in [
        &["get", "pods"][..],
        &["get", "resourceclaims"],
        &["get", "nodes"],
        &["get", "secrets", "--namespace=railyard"],
        &["delete", "resourceslice", "n0-rails"],
        &["label", "node", "n0", "a=b"],
    ] {
        let error = world.kubernetes.kubectl_as(&token, arguments, "").unwrap_err();
        assert!(error.contains("Forbidden"), "{error}");
    }
}

/// Kubelet does so when it starts, by its own right.
fn a_slice_that_kubelet_removes_is_written_again(world: &World) {
    let uid = |slice: Value| slice["metadata"]["uid"].as_str().unwrap().to_owned();
    let before = uid(world.slice("n0").unwrap());
    let token = world.kubernetes.kubelet_token("n0").unwrap();
    let all = "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dn0";
    world.kubernetes.kubectl_as(&token, &["delete", "--raw", all], "").unwrap();
    world.until("the slice to be back", || world.slice("n0").map(uid).filter(|uid| *uid != before));
}

/// The pod is deleted; its claim goes with it, and kubelet has what is on the server removed without it.
async fn what_a_pod_leaves_is_given_back(world: &World, claim: &Value) {
    let (uid, name) = key(claim);
    assert_eq!(world.servers[0].on_disk().0, std::slice::from_ref(&uid));
    // A pod that no kubelet ends goes by force.
    world.kubectl(&["delete", "pod", "rails", "--force", "--grace-period=0"]);
    world.until("the claim to go with its pod", || {
        let left = world.get(&["resourceclaims"])?;
        let is_it = |one: &Value| one["metadata"]["uid"] == uid.as_str();
        (!left["items"].as_array()?.iter().any(is_it)).then_some(())
    });
    let kubelet = world.servers[0].kubelet(Interface::V1);
    kubelet.unprepare_one((&uid, "default", &name)).await.unwrap();
    assert_eq!(world.servers[0].on_disk(), (Vec::new(), Vec::new()));
    // Others have the rails now.
    world.submit("next", RAILS);
    let (node, claim) = world.scheduled("next");
    assert_eq!((node.as_str(), given(&claim, "n0")), ("n0", every_rail()));
}
