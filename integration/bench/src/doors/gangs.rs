//! K1: gangs that a real Kueue admits where Railyard's placer says, on servers that are not there; in turn with gangs of a queue that asks nobody.
//! Gangs are Workloads without Jobs: what is measured lies between Kueue's sight of one and its admission.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader},
    process::Child,
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use integration_harness::{
    Controllers, Kubernetes, Kueue, Operator, binaries, eventually, kueue::missing, operator::Railyard,
};
use proto_random::Random;
use proto_rpc::ClientOptions;
use proto_wire::v1::{self, fabric_service_client::FabricServiceClient};
use serde_json::{Value, json};

use super::settings::Bench;
use crate::{
    agents::Agents,
    command_job::text,
    report::{Cpu, Goal, Line, Row, Sample},
    scheduler::site,
};

/// The queue whose gangs Railyard holds servers for, and the one of Kueue alone; each of a namespace of its own.
const QUEUES: [&str; 2] = ["held", "alone"];
/// Servers of a gang; one of these by chance.
const SIZES: [u64; 8] = [1, 1, 1, 2, 2, 2, 2, 3];
const SEED: u64 = 1;
/// A tenant that every controller has.
const TENANT: &str = "default";
/// A gang that is not admitted by then never will be.
const LONGEST: Duration = Duration::from_secs(120);

/// What is under test.
struct Site {
    kubernetes: Kubernetes,
    _kueue: Kueue,
    controllers: Controllers,
    _agents: Agents,
    _operator: Operator,
}

/// Row K1.
///
/// # Errors
/// A part does not start, or a gang is not admitted.
pub fn admitted(row: &Row<'_>, bench: &Bench) -> Result<(), String> {
    if let Some(missing) = missing() {
        row.void("all", &missing);
        return Ok(());
    }
    let (servers, gangs) = if bench.quick { (100, 50) } else { (1_000, 500) };
    let site = Site::up(servers)?;
    let (cpu, watched) = (Cpu::start(), Watched::start(&site.kubernetes)?);
    let mut random = Random::new(SEED);
    let mut taken = QUEUES.map(|_| Vec::new());
    for gang in 0..gangs {
        let servers = SIZES[random.index(SIZES.len())];
        for (queue, taken) in QUEUES.iter().zip(&mut taken) {
            let name = format!("{queue}-{gang}");
            site.kubernetes.create(&workload(queue, &name, servers))?;
            taken.push(watched.admitted(&name)?);
        }
    }
    let (wrong, doubled) = site.judge()?;
    let [held, alone] = taken.map(Sample::new);
    report(row, (&held, &alone), (servers, gangs), (&wrong, doubled), cpu.cores());
    Ok(())
}

fn report(
    row: &Row<'_>,
    (held, alone): (&Sample, &Sample),
    (servers, gangs): (u32, usize),
    (wrong, doubled): (&[String], usize),
    cpu: f64,
) {
    let peers = json!({
        "servers": servers, "gangs": gangs, "wrong": wrong.first(), "held": held.spread(), "alone": alone.spread(),
        "held_p99": held.quantile(0.99), "alone_p99": alone.quantile(0.99),
    });
    let line = |case: &str, value: f64, unit, goal| {
        row.line(&Line { case, value, unit, goal, sample: held, cpu, peers: peers.clone() });
    };
    let share = 100.0 * (gangs - wrong.len().min(gangs)) as f64 / gangs as f64;
    line("gangs on the servers that the placer chose", share, "%", Goal::AtLeast(100.0));
    line("servers held for two gangs", doubled as f64, "", Goal::AtMost(0.0));
    let more = held.quantile(0.99) - alone.quantile(0.99);
    line("admission, p99, beyond that of Kueue alone", more, "ms", Goal::AtMost(100.0));
}

impl Site {
    fn up(servers: u32) -> Result<Self, String> {
        let names: Vec<String> = (0..servers).map(site::node_name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let kubernetes = Kubernetes::with_controllers(&names, "")?;
        kubernetes.kubectl(&["label", "node", "--all", "railyard.io/rails=true"])?;
        // All agents come from one address here.
        let flags =
            ["--max-connections-per-address", "20000", "--max-connections", "20000", "--log-level", "warn"];
        let joining =
            ["--max-anonymous-connections", "1024", "--max-anonymous-connections-per-address", "1024"];
        let at_once = ["--anonymous-rate", "20000", "--max-handshakes", "4096"];
        let controllers = Controllers::start(1, &[flags.as_slice(), &joining, &at_once].concat())?;
        apply_fabric(&controllers, servers)?;
        let agents = Agents::start(&controllers, servers, &["--comply"])?;
        Operator::install(&kubernetes)?;
        let kueue = Kueue::start(&kubernetes)?;
        let page = binaries::root().join("deploy/kubernetes/kueue.yaml").display().to_string();
        kubernetes.kubectl(&["create", "namespace", "research"])?;
        kubernetes.kubectl(&["apply", "--filename", &page])?;
        kubernetes.create(&queues())?;
        let operator =
            Operator::start(&kubernetes, &Railyard::of(&controllers)?, &["--kueue", "--no-nodes"])?;
        eventually("both queues to be active", LONGEST, || {
            let all = kubernetes.get(&["clusterqueues"]).ok()?;
            let is_active = |queue: &Value| {
                let conditions = queue["status"]["conditions"].as_array();
                conditions.into_iter().flatten().any(|one| one["type"] == "Active" && one["status"] == "True")
            };
            all["items"].as_array()?.iter().all(is_active).then_some(())
        })?;
        Ok(Self { kubernetes, _kueue: kueue, controllers, _agents: agents, _operator: operator })
    }

    /// Gangs that are not where the placer has them, and how many servers are held twice.
    fn judge(&self) -> Result<(Vec<String>, usize), String> {
        let jobs: Value = serde_json::from_str(
            &self.controllers.railctl(&["get", "jobs", "--tenant", TENANT, "--output", "json"])?,
        )
        .map_err(text)?;
        let mut placed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for job in jobs["jobs"].as_array().into_iter().flatten() {
            let uid = job["metadata"]["labels"]["kueue/uid"].as_str().unwrap_or_default().to_owned();
            let nodes = job["status"]["placement"]["nodes"].as_array().into_iter().flatten();
            placed.insert(uid, nodes.filter_map(|place| place["node"].as_str().map(str::to_owned)).collect());
        }
        let (mut labelled, mut doubled) = (BTreeMap::<String, BTreeSet<String>>::new(), 0);
        let nodes = self.kubernetes.get(&["nodes"])?;
        for node in nodes["items"].as_array().into_iter().flatten() {
            let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
            let uids: Vec<&str> =
                labels.filter_map(|(key, _)| key.strip_prefix("hold.railyard.io/")).collect();
            doubled += usize::from(uids.len() > 1);
            for uid in uids {
                let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                labelled.entry(uid.to_owned()).or_default().insert(name);
            }
        }
        let mut wrong = Vec::new();
        let workloads = self.kubernetes.get(&["workloads", "--namespace", QUEUES[0]])?;
        for workload in workloads["items"].as_array().into_iter().flatten() {
            let uid = workload["metadata"]["uid"].as_str().unwrap_or_default();
            let selector = &workload["status"]["admissionChecks"][0]["podSetUpdates"][0]["nodeSelector"];
            let (said, chosen) = (labelled.get(uid), placed.get(uid));
            let asks = selector[format!("hold.railyard.io/{uid}")] == "main";
            if !asks || said.is_none() || said != chosen {
                wrong.push(format!(
                    "{}: {said:?}, and {chosen:?} by the placer",
                    workload["metadata"]["name"]
                ));
            }
        }
        Ok((wrong, doubled))
    }
}

fn apply_fabric(controllers: &Controllers, servers: u32) -> Result<(), String> {
    let mut fabric: v1::Fabric = (&site::fabric(&site::Plan::of(&site::even(servers, 1, 64)))).into();
    fabric.metadata = Some(v1::Metadata { name: "row".to_owned(), ..v1::Metadata::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(text)?;
    runtime.block_on(async {
        let client = controllers.client(&[0], &ClientOptions::default())?;
        let request = v1::ApplyFabricRequest { fabric: Some(fabric), ..v1::ApplyFabricRequest::default() };
        FabricServiceClient::new(client).apply_fabric(request).await.map(drop).map_err(text)
    })
}

/// Both queues with all quota that there can be, each of its namespace.
fn queues() -> Value {
    let mut items = Vec::new();
    for queue in QUEUES {
        let labels = json!({"railyard.io/tenant": TENANT});
        let api = "kueue.x-k8s.io/v1beta2";
        items.push(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": queue, "labels": labels}}),
        );
        let mut spec = json!({
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": queue}},
            "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [
                {"name": "railyard-placed", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "1000000"}]}]}],
        });
        if queue == QUEUES[0] {
            spec["admissionChecksStrategy"] = json!({"admissionChecks": [{"name": "railyard"}]});
        }
        items.push(
            json!({"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": queue}, "spec": spec}),
        );
        items.push(
            json!({"apiVersion": api, "kind": "LocalQueue", "metadata": {"name": queue, "namespace": queue},
            "spec": {"clusterQueue": queue}}),
        );
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// A gang of so many servers, with all of their GPUs.
fn workload(queue: &str, name: &str, servers: u64) -> Value {
    let resources = json!({"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}});
    let container = json!({"name": "train", "image": "registry.example/train", "resources": resources});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name, "namespace": queue},
        "spec": {"queueName": queue, "active": true, "podSets": [{"name": "main", "count": servers, "template": template}]},
    })
}

/// Workloads as the API server tells of them.
struct Watched {
    watching: Child,
    admissions: Receiver<(Instant, String, bool)>,
}

impl Watched {
    fn start(kubernetes: &Kubernetes) -> Result<Self, String> {
        let all = "/apis/kueue.x-k8s.io/v1beta2/workloads?watch=true";
        let mut watching = kubernetes.spawn_kubectl(&["get", "--raw", all])?;
        let lines = BufReader::new(watching.stdout.take().ok_or("kubectl has no output")?).lines();
        let (sender, admissions) = channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let (now, event) = (Instant::now(), serde_json::from_str::<Value>(&line).unwrap_or_default());
                let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let conditions = event["object"]["status"]["conditions"].as_array();
                let is_admitted = |one: &Value| one["type"] == "Admitted" && one["status"] == "True";
                let admitted = conditions.into_iter().flatten().any(is_admitted);
                if sender.send((now, name, admitted)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { watching, admissions })
    }

    /// Milliseconds from when this gang was seen until it was seen to be admitted.
    fn admitted(&self, name: &str) -> Result<f64, String> {
        let (begin, mut seen) = (Instant::now(), None);
        loop {
            let left = LONGEST.saturating_sub(begin.elapsed());
            let next = self.admissions.recv_timeout(left);
            let (at, which, admitted) = next.map_err(|_| format!("gang {name} is not admitted"))?;
            if which != name {
                continue;
            }
            let seen = *seen.get_or_insert(at);
            if admitted {
                return Ok(at.duration_since(seen).as_secs_f64() * 1000.0);
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.watching.kill();
        let _ = self.watching.wait();
    }
}
