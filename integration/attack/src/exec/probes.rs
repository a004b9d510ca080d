//! Ranks of two tenants on one server: one has secrets, the other one tries to get at them. The second one's output says what came
//! of each attempt.

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use integration_harness::procfs;
use serde_json::{Value, json};

use super::{call::must, people::Person};
use crate::{
    caller::From,
    rank::{Line, MARK, Outcome, TARGETS, Targets, victim},
    verdict::Verdict,
    world::{BESIDE_ALPHA, Part, SECRET, World},
};

/// What a job excludes to be on servers that its tenant can have without sharing them, also where servers are not shared.
pub const APART: [&str; 1] = ["n0"];

/// Longest wait for a job to start, and for the attacker to be through.
const PATIENCE: Duration = Duration::from_secs(40);
/// Longest wait for a place beside the other tenant.
const BESIDE: Duration = Duration::from_secs(8);

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The outcomes of everything that a rank tried.
pub struct Scene {
    outcomes: BTreeMap<String, Outcome>,
    /// Why the two could not be on one server, if so.
    apart: Option<String>,
    /// What the server does not give, and why.
    absent: BTreeMap<String, String>,
}

/// A job of one rank that may run on all nodes but these.
fn job(name: &str, argv: &[&str], env: &Value, exclude: &[&str]) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "gang": {"nodes": 1, "gpusPerNode": 1, "ranksPerNode": 1},
            "command": {"argv": argv, "env": env},
            "placement": {"exclude": exclude},
            "gracePeriod": "1s", "timeLimit": "900s",
            "rails": {"required": 1, "allowPartial": true},
        },
    })
}

/// Submits a job.
///
/// # Errors
/// It was refused.
pub async fn submit(by: &Person, job: Value) -> Result<Value, String> {
    let body = json!({"job": job, "requestId": uuid::Uuid::new_v4().to_string()});
    must(&by.client, "rail.v1.JobService/CreateJob", body).await
}

/// Waits until a job is in one of these phases, and gives it.
///
/// # Errors
/// It is not in time.
pub async fn until(by: &Person, name: &str, phases: &[&str], within: Duration) -> Result<Value, String> {
    let begin = Instant::now();
    loop {
        let job = must(&by.client, "rail.v1.JobService/GetJob", json!({"name": name})).await?;
        if phases.iter().any(|phase| job["status"]["phase"] == *phase) {
            return Ok(job);
        }
        if begin.elapsed() > within {
            return Err(format!("job {name} is {}: {}", job["status"]["phase"], job["status"]["reasons"]));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A job's output.
///
/// # Errors
/// It cannot be read.
pub async fn output(by: &Person, name: &str) -> Result<String, String> {
    let mut jobs = proto_wire::v1::job_service_client::JobServiceClient::new(by.client.clone());
    let request = proto_wire::v1::StreamLogsRequest { name: name.to_owned(), ..Default::default() };
    let mut chunks = jobs.stream_logs(request).await.map_err(text)?.into_inner();
    let mut all = Vec::new();
    while let Some(chunk) = chunks.message().await.map_err(text)? {
        all.extend(chunk.data);
    }
    Ok(String::from_utf8_lossy(&all).into_owned())
}

/// Phases in which a job has ended.
pub const ENDED: [&str; 3] = ["COMPLETED", "FAILED", "CANCELLED"];

impl Scene {
    /// Starts the victim and lets the attacker try everything.
    ///
    /// # Errors
    /// The victim does not come to run, or the attacker's job cannot be submitted or read.
    pub async fn start(world: &World) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(text)?.display().to_string();
        let env = json!({"TOKEN_OF_ALPHA": SECRET});
        let made = submit(&world.ann, job("victim", &[&program, "victim"], &env, &BESIDE_ALPHA)).await?;
        until(&world.ann, "victim", &["RUNNING", "FAILED"], PATIENCE).await?;
        ready(&world.ann).await?;
        let dir =
            job_dir(&world.cluster.dir().join("n0"), made["metadata"]["uid"].as_str().unwrap_or_default())?;
        let targets = targets(world, &dir);
        let env = json!({TARGETS: serde_json::to_string(&targets).map_err(text)?});
        let attacker = world.person(From::User);
        submit(attacker, job("attacker", &[&program, "rank"], &env, &BESIDE_ALPHA)).await?;
        let started = [&["RUNNING"][..], &ENDED].concat();
        let beside = until(attacker, "attacker", &started, BESIDE).await;
        let (name, apart) = match beside {
            Ok(_) => ("attacker", None),
            Err(why) => {
                must(&attacker.client, "rail.v1.JobService/CancelJob", json!({"name": "attacker"})).await?;
                submit(attacker, job("attacker-apart", &[&program, "rank"], &env, &APART)).await?;
                ("attacker-apart", Some(why))
            }
        };
        let job = until(attacker, name, &ENDED, PATIENCE).await?;
        let reported = output(attacker, name).await?;
        let outcomes = read(&reported);
        if outcomes.is_empty() {
            let why = &job["status"];
            return Err(format!("the attacker's rank told nothing: {why}\n{reported:.2000}"));
        }
        let absent = absent(world, "n0").await?;
        Ok(Self { outcomes, apart, absent })
    }
}

fn read(reported: &str) -> BTreeMap<String, Outcome> {
    let lines = reported.lines().filter_map(|line| line.strip_prefix(MARK));
    let parsed = lines.filter_map(|line| serde_json::from_str::<Line>(line).ok());
    parsed.map(|line| (line.probe, line.outcome)).collect()
}

async fn ready(by: &Person) -> Result<(), String> {
    let mut reported = String::new();
    for _ in 0..100 {
        reported = output(by, "victim").await.unwrap_or_default();
        if reported.contains(victim::READY) {
            // Its owner sees the secret: what others are denied is there.
            return if reported.contains(SECRET) {
                Ok(())
            } else {
                Err("its owner does not see its output".to_owned())
            };
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(format!("the victim is not ready: {reported:.500}"))
}

/// The folder of the first attempt of a job on a server.
fn job_dir(agent: &Path, uid: &str) -> Result<PathBuf, String> {
    let jobs = agent.join("jobs");
    let entries = std::fs::read_dir(&jobs).map_err(|error| format!("{}: {error}", jobs.display()))?;
    let found = entries.flatten().map(|entry| entry.path()).find(|path| path.to_string_lossy().contains(uid));
    found.ok_or_else(|| format!("no folder of job {uid} in {}", jobs.display()))
}

fn targets(world: &World, victim_dir: &Path) -> Targets {
    let dir = world.cluster.dir();
    let pid = procfs::find(&["rail-attack", "victim"]).into_iter().find(|pid| !is_helper(*pid));
    let owner = pid.and_then(|pid| std::fs::metadata(format!("/proc/{pid}")).ok()).map(|meta| meta.uid());
    let mut metrics = Vec::new();
    for place in [dir.join("controller/controller.json"), dir.join("n0/metrics.url")] {
        let text = std::fs::read_to_string(place).unwrap_or_default();
        let address = text
            .split("http://")
            .nth(1)
            .map(|rest| rest.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect());
        metrics.extend::<Option<String>>(address);
    }
    for kind in ["pid", "mnt", "ipc"] {
        let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
        metrics.push(format!("ns/{kind}={}", link.display()));
    }
    Targets {
        victim_dir: victim_dir.display().to_string(),
        agent_dir: dir.join("n0").display().to_string(),
        controller_dir: dir.join("controller").display().to_string(),
        controller_socket: dir.join("controller.sock").display().to_string(),
        victim_uid: owner.unwrap_or(u32::MAX),
        metrics,
    }
}

/// Whether it is the step between the supervisor and the rank.
fn is_helper(pid: i32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains("rank-exec")
}

/// The verdict on one attempt.
///
/// # Errors
/// What kept the attempt from being made, as text.
pub async fn perform(world: &World, probe: &str) -> Result<Verdict, String> {
    let scene = world.part(Part::Scene, || Scene::start(world)).await?;
    Ok(match scene.outcomes.get(probe) {
        None => Verdict::NotMade("the rank ended before it".to_owned()),
        Some(Outcome::Held) => Verdict::Held,
        Some(Outcome::Absent(why)) => Verdict::NotHere(why.clone()),
        Some(Outcome::Gave(seen)) => judged(scene, probe, seen),
    })
}

/// What keeps a probe from getting anywhere: the features of isolation, of which one that the server says it has not is why it did. None
/// for what ranks must never reach, whatever the server can give.
fn features(probe: &str) -> &'static [&'static str] {
    match probe {
        "proc-hidden" | "proc-cmdline" | "pid-namespace" => &["PID_NAMESPACE", "HIDDEN_PROC"],
        "tmp-marker" | "var-tmp-marker" | "shm-marker" | "tmp-others" | "shm-others" | "limit-tmp"
        | "limit-shm" => &["PRIVATE_TMP"],
        "sysv" | "mqueue" | "ipc-namespace" => &["IPC_NAMESPACE"],
        "mount-namespace" => &["MOUNT_NAMESPACE"],
        "abstract-socket" | "unix-names" => &["NETWORK_NAMESPACE"],
        "seccomp" => &["SECCOMP"],
        "no-new-privs" | "suid-program" | "caps-bounding" => &["NO_NEW_PRIVILEGES"],
        "uverbs" | "tun" | "kvm-fuse" | "kmsg" => &["PRIVATE_DEV", "CGROUP_DEVICES"],
        "limit-memory" | "memory-hog" => &["CGROUP_MEMORY"],
        "limit-pids" | "fork-bomb" => &["CGROUP_PIDS"],
        "limit-cpu" => &["CGROUP_CPUSET"],
        _ if probe.starts_with("sys-") => &["SECCOMP"],
        _ => &[],
    }
}

/// What root can always have, where it may make namespaces at all.
const OF_ROOT: [&str; 7] = [
    "UID_PER_ATTEMPT",
    "PID_NAMESPACE",
    "MOUNT_NAMESPACE",
    "IPC_NAMESPACE",
    "PRIVATE_TMP",
    "HIDDEN_PROC",
    "NO_NEW_PRIVILEGES",
];

/// Whether the kernel lets this process make namespaces.
fn may_make_namespaces() -> bool {
    let made =
        std::process::Command::new("unshare").args(["--mount", "--pid", "--fork", "--ipc", "true"]).output();
    rustix::process::geteuid().is_root() && made.is_ok_and(|output| output.status.success())
}

/// What was reached is a hole, unless the server says itself that it cannot give what would have kept it closed. Without root the
/// servers of a local cluster are one account, and ranks are apart by nothing but where they are placed.
fn judged(scene: &Scene, probe: &str, seen: &str) -> Verdict {
    let said = features(probe).iter().find_map(|feature| {
        let excused = !(OF_ROOT.contains(feature) && may_make_namespaces());
        scene
            .absent
            .get(*feature)
            .filter(|_| excused)
            .map(|why| format!("{feature} is absent: {why}; {seen}"))
    });
    if let Some(said) = said {
        return Verdict::NotHere(said);
    }
    if rustix::process::geteuid().is_root() {
        return Verdict::GaveWay(seen.to_owned());
    }
    let apart = match &scene.apart {
        Some(_) => "tenants do not share a server",
        None => "all servers of a local cluster are one account",
    };
    Verdict::NotHere(format!("without root {apart}: {seen}"))
}

/// Features that a server says it does not give, with the reason.
async fn absent(world: &World, node: &str) -> Result<BTreeMap<String, String>, String> {
    let node = must(&world.admin.client, "rail.v1.NodeService/GetNode", json!({"name": node})).await?;
    let isolation = &node["status"]["inventory"]["isolation"];
    let states =
        isolation.as_array().or_else(|| isolation["features"].as_array()).cloned().unwrap_or_default();
    let of = |state: &Value| {
        let name = state["kind"].as_str()?.to_owned();
        (state["active"] != true).then(|| (name, state["reason"].as_str().unwrap_or_default().to_owned()))
    };
    Ok(states.iter().filter_map(of).collect())
}
