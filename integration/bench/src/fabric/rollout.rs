//! Row F4: a rollout to a fabric of real FRR (4 leaves, 2 spines, 8 servers in namespaces) while jobs run that check what they compute. The
//! controller is killed at every step that the rollout shows, and started again. Each switch gets another AS number, so that all of its
//! sessions end and begin again.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use integration_harness::{Cluster, Shape, frr::programs};
use serde_json::{Value, json};

use crate::{
    command_job::text,
    report::{Cpu, Goal, Line, Row, Sample},
};

const SERVERS: u32 = 8;
const PODS: u32 = 2;
const RAILS: u32 = 2;
/// The AS number of the first leaf after a rollout; those that are planned begin at 65000. That of the spines is `SPINES` more.
const ASN: u32 = 65_100;
const SPINES: u32 = 50;
/// A job ends within this time, also where its rails come and go.
const JOB_LIMIT: Duration = Duration::from_secs(300);
/// A rollout ends within this time, kills included.
const ROLLOUT_LIMIT: Duration = Duration::from_secs(900);
/// A rollout that pauses is resumed so often at most.
const RESUMES: usize = 10;
/// Between two samples, and between two questions how far the rollout is.
const PAUSE: Duration = Duration::from_millis(50);

/// How jobs ended.
#[derive(Debug, Default)]
struct Jobs {
    verified: u64,
    failed: Vec<String>,
    wrong: u64,
    /// Attempts beyond the first of each job.
    again: u64,
    refused: u64,
    seconds: Vec<f64>,
}

/// Most rails of one server that were out at a time.
#[derive(Debug, Default)]
struct Out {
    /// Drained or not usable, as the API says.
    said: usize,
    /// Without a route to the rail's leaf in the other pod, as the kernel of the leaf says.
    unrouted: usize,
    /// By either of them.
    either: usize,
    samples: usize,
    /// When most were out, for the log.
    worst: String,
}

/// What a rollout was like.
#[derive(Debug, Default)]
struct Run {
    seconds: f64,
    kills: usize,
    steps: BTreeSet<String>,
    pauses: Vec<String>,
}

/// Measures row F4; with `quick` the controller is killed once at each kind of step, else at each step of each switch.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn row(row: &Row<'_>, quick: bool) -> Result<(), String> {
    if !programs().is_some_and(|folder| folder.join("usr/lib/frr/frr-reload.py").exists()) {
        row.void(
            "rollout to FRR with jobs running",
            "needs root, ip, and FRR's packages frr and frr-pythontools",
        );
        return Ok(());
    }
    let shape = Shape { nodes: SERVERS, rails: RAILS, pods: PODS, gpus: 2, frr: true, ..Shape::default() };
    let cluster = Cluster::up(&shape)?;
    let cpu = Cpu::start();
    let (end, jobs, out) = (AtomicBool::new(false), Mutex::new(Jobs::default()), Mutex::new(Out::default()));
    let ended = AtomicUsize::new(0);
    let (calm, killed) = thread::scope(|scope| {
        for nodes in [SERVERS, SERVERS / 2] {
            let (cluster, end, jobs, ended) = (&cluster, &end, &jobs, &ended);
            scope.spawn(move || run_jobs(cluster, nodes, end, jobs, ended));
        }
        scope.spawn(|| sample(&cluster, &end, &out));
        let calm = if quick { Ok(Run::default()) } else { roll_out(&cluster, ASN, |_, _| None) };
        let each = |switch: &str, step: &str| {
            Some(if quick { step.to_owned() } else { format!("{switch}: {step}") })
        };
        let killed = roll_out(&cluster, if quick { ASN } else { ASN + 100 }, each);
        wait_for_jobs(&ended);
        end.store(true, Ordering::Relaxed);
        (calm, killed)
    });
    let (calm, killed) = (calm?, killed?);
    let (jobs, out) = (jobs.into_inner().map_err(text)?, out.into_inner().map_err(text)?);
    print(row, cpu.cores(), &jobs, &out, &[calm, killed]);
    Ok(())
}

/// Jobs that began during the rollout end before this returns, and one of each kind begins and ends after it.
fn wait_for_jobs(ended: &AtomicUsize) {
    let (before, deadline) = (ended.load(Ordering::Relaxed), Instant::now() + JOB_LIMIT);
    while ended.load(Ordering::Relaxed) < before + 4 && Instant::now() < deadline {
        thread::sleep(PAUSE);
    }
}

fn print(row: &Row<'_>, cpu: f64, jobs: &Jobs, out: &Out, runs: &[Run; 2]) {
    let [calm, killed] = runs;
    let failed = u32::try_from(jobs.failed.len()).unwrap_or(u32::MAX);
    let sample = Sample::new(if jobs.seconds.is_empty() { vec![f64::NAN] } else { jobs.seconds.clone() });
    let peers = json!({
        "jobs": jobs.verified, "first_failure": jobs.failed.first(), "attempts_again": jobs.again, "refused_submits": jobs.refused,
        "kills": killed.kills, "steps": killed.steps, "pauses": killed.pauses, "pauses_without_kills": calm.pauses,
        "samples": out.samples, "most_out": out.worst, "seconds_without_kills": calm.seconds,
    });
    let line = |case, value, unit, goal| {
        row.line(&Line { case, value, unit, goal, sample: &sample, cpu, peers: peers.clone() });
    };
    line("jobs that fail", f64::from(failed), "jobs", Goal::AtMost(0.0));
    line("elements that are wrong", jobs.wrong as f64, "elements", Goal::AtMost(0.0));
    line("jobs that were verified", jobs.verified as f64, "jobs", Goal::AtLeast(1.0));
    line("rails of a server out at a time, by the API", out.said as f64, "rails", Goal::AtMost(1.0));
    line("the same by routes of the kernel", out.unrouted as f64, "rails", Goal::AtMost(1.0));
    line("the same by either", out.either as f64, "rails", Goal::AtMost(1.0));
    line(
        "pauses of the rollout",
        (calm.pauses.len() + killed.pauses.len()) as f64,
        "pauses",
        Goal::AtMost(0.0),
    );
    line("the controller was killed", killed.kills as f64, "times", Goal::AtLeast(4.0));
    line("rollout with the controller killed at its steps", killed.seconds, "s", Goal::None);
}

/// One verified all-reduce after the other.
fn run_jobs(cluster: &Cluster, nodes: u32, end: &AtomicBool, jobs: &Mutex<Jobs>, ended: &AtomicUsize) {
    let spec = format!(
        "gang: {{nodes: {nodes}, gpusPerNode: 1}}\ncollective: {{op: ALL_REDUCE, bytes: 4194304, iterations: 40, verify: true}}"
    );
    for number in 0_u32.. {
        if end.load(Ordering::Relaxed) {
            return;
        }
        let (name, begin) = (format!("f4-{nodes}-{number}"), Instant::now());
        if cluster.submit(&name, &spec).is_err() && cluster.job(&name).is_err() {
            // Refused while nobody leads: it is no job.
            with(jobs, |jobs| jobs.refused += 1);
            thread::sleep(PAUSE);
            continue;
        }
        let job = cluster.wait_for(&name, &["COMPLETED", "FAILED", "CANCELLED"], JOB_LIMIT);
        with(jobs, |jobs| judge(&name, job, begin.elapsed(), jobs));
        ended.fetch_add(1, Ordering::Relaxed);
    }
}

fn judge(name: &str, job: Result<Value, String>, took: Duration, jobs: &mut Jobs) {
    let job = match job {
        Ok(job) => job,
        Err(error) => {
            return jobs.failed.push(format!("{name}: {}", error.chars().take(300).collect::<String>()));
        }
    };
    let status = &job["status"];
    jobs.wrong += number(&status["result"]["mismatches"]);
    jobs.again += number(&status["attempt"]).saturating_sub(1);
    if status["phase"] == "COMPLETED" && status["result"]["verified"] == true {
        jobs.verified += 1;
        jobs.seconds.push(took.as_secs_f64());
    } else {
        eprintln!("{name}: {status:#}");
        jobs.failed.push(format!("{name}: {} {}", status["phase"], status["reasons"]));
    }
}

fn with<T>(shared: &Mutex<T>, act: impl FnOnce(&mut T)) {
    if let Ok(mut held) = shared.lock() {
        act(&mut held);
    }
}

/// 64-bit numbers are texts in JSON.
fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

/// Looks at the API and at the kernel until the end.
fn sample(cluster: &Cluster, end: &AtomicBool, out: &Mutex<Out>) {
    while !end.load(Ordering::Relaxed) {
        let unrouted = unrouted(cluster);
        // Nobody answers while the controller is away.
        let topology = cluster.json(&["topology", "show"]).unwrap_or_default();
        let said = drained(&topology);
        let by_kernel = |pod: &str| unrouted.get(pod).cloned().unwrap_or_default();
        with(out, |out| {
            out.samples += 1;
            out.unrouted = out.unrouted.max(unrouted.values().map(BTreeSet::len).max().unwrap_or(0));
            for ((pod, server), rails) in &said {
                let either = rails.union(&by_kernel(pod)).count();
                out.said = out.said.max(rails.len());
                if either > out.either {
                    out.worst = format!("{server}: said {rails:?}, without a route {:?}", by_kernel(pod));
                }
                out.either = out.either.max(either);
            }
        });
        thread::sleep(PAUSE);
    }
}

/// Rails that are drained or not usable, by pod and server.
fn drained(topology: &Value) -> BTreeMap<(String, String), BTreeSet<u64>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut all = BTreeMap::new();
    for pod in list(&topology["pods"]) {
        for node in list(&pod["nodes"]) {
            let is_out = |port: &Value| port["drained"] == true || port["usable"] != true;
            let ports = list(&node["ports"]).into_iter().filter(is_out);
            all.insert((name(&pod), name(&node)), ports.map(|port| number(&port["rail"])).collect());
        }
    }
    all
}

/// Rails of each pod whose leaf has no route to the same rail's leaf in the other pod.
fn unrouted(cluster: &Cluster) -> BTreeMap<String, BTreeSet<u64>> {
    let mut all = BTreeMap::new();
    for pod in 0..PODS {
        let without = (0..RAILS).filter(|rail| {
            let other = format!("10.255.0.{}", (PODS - 1 - pod) * RAILS + rail + 1);
            let namespace = format!("rail-{}-p{pod}-rail{rail}", cluster.name());
            let mut ip = Command::new("ip");
            ip.args(["-n", &namespace, "route", "show", &other]).stdin(Stdio::null());
            ip.output().is_ok_and(|output| output.stdout.is_empty())
        });
        all.insert(format!("p{pod}"), without.map(u64::from).collect());
    }
    all
}

/// The switches, each with its number after a rollout that begins at `first`; spines have one together.
fn numbers(first: u32) -> Vec<(String, u32)> {
    let leaf = |leaf| (format!("p{}-rail{}", leaf / RAILS, leaf % RAILS), first + leaf);
    let spines = ["spine0", "spine1"].map(|name| (name.to_owned(), first + SPINES));
    (0..PODS * RAILS).map(leaf).chain(spines).collect()
}

/// Gives every switch another number and rolls that out; `kill` names the step at which the controller is killed, once for each name.
fn roll_out(
    cluster: &Cluster,
    first: u32,
    kill: impl Fn(&str, &str) -> Option<String>,
) -> Result<Run, String> {
    for (name, asn) in numbers(first) {
        let switch = cluster.json(&["get", "switches", &name])?;
        let mut spec = switch["spec"].clone();
        spec["asn"] = json!(asn);
        let document =
            json!({"apiVersion": "rail/v1", "kind": "Switch", "metadata": {"name": name}, "spec": spec});
        let path = cluster.home().join(format!("{name}.json"));
        std::fs::write(&path, document.to_string()).map_err(text)?;
        ok(cluster, &["apply", "-f", &path.display().to_string()])?;
    }
    let begin = Instant::now();
    ok(cluster, &["switch", "apply", "--reason", "F4"])?;
    let mut run = Run::default();
    while begin.elapsed() < ROLLOUT_LIMIT {
        let Ok(seen) = cluster.json(&["switch", "status"]) else { continue };
        match seen["state"].as_str() {
            Some("DONE") => {
                run.seconds = begin.elapsed().as_secs_f64();
                return Ok(run);
            }
            Some("PAUSED") if run.pauses.len() < RESUMES => {
                run.pauses.push(seen["paused"].to_string());
                eprintln!("the rollout has paused: {}", seen["paused"]);
                ok(cluster, &["switch", "resume"])?;
            }
            Some("UNDER_WAY") => {}
            _ => return Err(format!("the rollout is {}: {}", seen["state"], seen["paused"])),
        }
        let active = seen["active"].as_array().cloned().unwrap_or_default();
        let steps = active.iter().filter_map(|one| {
            let note = one["note"].as_str()?;
            kill(one["name"].as_str()?, note.split(':').next().unwrap_or_default())
        });
        // Of several that are new one is taken; the others are still there, or come again, after it.
        let new: Option<String> = steps.into_iter().find(|step| !run.steps.contains(step));
        match new {
            Some(step) => {
                eprintln!("{:.1} s: the controller is killed at \"{step}\"", begin.elapsed().as_secs_f64());
                run.steps.insert(step);
                run.kills += 1;
                kill_controller(cluster)?;
                cluster.revive()?;
            }
            None => thread::sleep(PAUSE),
        }
    }
    Err(format!("the rollout is not done after {} s: {run:?}", ROLLOUT_LIMIT.as_secs()))
}

fn ok(cluster: &Cluster, args: &[&str]) -> Result<(), String> {
    let answer = cluster.railctl(args);
    if answer.code == 0 { Ok(()) } else { Err(format!("railctl {args:?}: {}", answer.stderr)) }
}

/// A killed process is gone within this time, however busy the machine is.
const GONE_LIMIT: Duration = Duration::from_secs(10);

/// SIGKILL, by the pid that its record has; it is gone then. Who starts it again while it still dies finds it running, and starts nothing.
fn kill_controller(cluster: &Cluster) -> Result<(), String> {
    let record = std::fs::read_to_string(cluster.dir().join("run/controller.json")).map_err(text)?;
    let record: Value = serde_json::from_str(&record).map_err(text)?;
    let pid = i32::try_from(number(&record["pid"])).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| format!("the controller's record has no pid: {record}"))?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).map_err(text)?;
    let deadline = Instant::now() + GONE_LIMIT;
    while runs(pid) {
        if Instant::now() >= deadline {
            return Err(format!("process {pid:?} runs {} s after it was killed", GONE_LIMIT.as_secs()));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Whether there is a process that has not ended; the state is the first word behind the name (proc(5)).
fn runs(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    state.is_some_and(|state| !matches!(state, "Z" | "X"))
}
