//! D8, ten thousand agents: what they cost the controller, and how soon all is well again after a restart of etcd.

mod load;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    thread,
    time::{Duration, Instant},
};

use integration_harness::{
    Controllers, Deadline, Etcd,
    etcd::tied,
    procfs::{cpu_seconds, rss_mib},
};
use proto_rpc::{Client, ClientOptions, Jitter, RetryPolicy, retry};
use proto_wire::v1::{
    self, health_service_client::HealthServiceClient, job_service_client::JobServiceClient,
};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::{
    command_job::{command_job, text},
    report::{Cpu, Goal, Line, Row, Sample},
};
pub use load::Load;

/// Processes that the agents are spread over.
const PROCESSES: u32 = 2;
/// Longest wait for all to be well.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time between two looks at the controller's state.
const PAUSE: Duration = Duration::from_millis(20);
/// How long etcd is away.
const AWAY: Duration = Duration::from_secs(3);

/// The processes that run the agents, with the pipes to and from each.
pub struct Agents(Vec<(Child, ChildStdin, BufReader<ChildStdout>)>);

impl Agents {
    /// Starts them with further arguments, and waits until all are connected.
    ///
    /// # Errors
    /// They cannot be started, or do not connect.
    pub fn start(controllers: &Controllers, count: u32, more: &[&str]) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(text)?;
        let each = count / PROCESSES;
        let mut agents = Self(Vec::new());
        for process in 0..PROCESSES {
            let mut command = tied(&program);
            command.args(["agents-load", "--first", &(process * each).to_string()]);
            command.args(["--count", &each.to_string(), "--controller", &controllers.addresses(), "--admin"]);
            command.arg(controllers.folder(0)).args(more).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().map_err(text)?;
            let pipes = child.stdin.take().zip(child.stdout.take()).ok_or("no pipes")?;
            agents.0.push((child, pipes.0, BufReader::new(pipes.1)));
        }
        for (_, _, out) in &mut agents.0 {
            let mut line = String::new();
            out.read_line(&mut line).map_err(text)?;
            if line.trim() != "ready" {
                return Err(format!("the agents did not connect: {line}"));
            }
        }
        Ok(agents)
    }

    /// How many are connected, by their own word.
    fn connected(&mut self) -> Result<u32, String> {
        let mut sum = 0;
        for (_, ask, out) in &mut self.0 {
            ask.write_all(b"\n").map_err(text)?;
            let mut line = String::new();
            out.read_line(&mut line).map_err(text)?;
            sum += line.trim().parse::<u32>().map_err(text)?;
        }
        Ok(sum)
    }

    fn cpu_seconds(&self) -> f64 {
        self.0.iter().map(|(child, ..)| cpu_seconds(child.id())).sum()
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for (child, ..) in &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Measures what the agents cost, and how soon all is well after a restart of etcd.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure(row: &Row<'_>, quick: bool) -> Result<(), String> {
    let (count, seconds, restarts) = if quick { (1_000, 10, 1) } else { (10_000, 60, 3) };
    let mut etcd = Etcd::start(1, &[])?;
    let endpoints = etcd.endpoints();
    // All agents come from one address here.
    let flags = ["--store", "etcd", "--etcd-endpoints", &endpoints, "--max-connections-per-address", "20000"];
    let more = ["--max-connections", "20000", "--heartbeat-interval", "1s", "--log-level", "warn"];
    let joining = ["--max-anonymous-connections", "1024", "--max-anonymous-connections-per-address", "1024"];
    let at_once = ["--anonymous-rate", "20000", "--max-handshakes", "4096"];
    let controllers = Controllers::start(1, &[flags.as_slice(), &more, &joining, &at_once].concat())?;
    let pid = controllers.pid(0).ok_or("no controller")?;
    let begin = Instant::now();
    let mut agents = Agents::start(&controllers, count, &[])?;
    let joined = begin.elapsed().as_secs_f64();
    let runtime = Runtime::new().map_err(text)?;
    let client = {
        let _inside = runtime.enter();
        controllers.client(&[0], &ClientOptions::default())?
    };
    // Whatever their coming has stirred up is over.
    settled(&runtime, &client, &mut agents, count, "begin")?;
    thread::sleep(Duration::from_secs(5));
    at_rest(row, pid, &mut agents, count, (seconds, joined))?;
    restarts_of_etcd(row, &runtime, &client, (&mut etcd, &mut agents, pid), (count, restarts))
}

/// What the controller takes while all agents beat.
fn at_rest(
    row: &Row<'_>,
    pid: u32,
    agents: &mut Agents,
    count: u32,
    (seconds, joined): (u64, f64),
) -> Result<(), String> {
    let cpu = Cpu::start();
    let (begin, before, load) = (Instant::now(), cpu_seconds(pid), agents.cpu_seconds());
    let mut rss = Vec::new();
    for _ in 0..seconds {
        thread::sleep(Duration::from_secs(1));
        rss.push(rss_mib(pid) as f64);
    }
    let time = begin.elapsed().as_secs_f64();
    let cores = (cpu_seconds(pid) - before) / time;
    let peers = json!({
        "seconds": seconds, "connected": agents.connected()?, "agents_cores": (agents.cpu_seconds() - load) / time,
        "seconds_to_join_and_connect": joined,
    });
    let (busy, cores, rss) = (cpu.cores(), Sample::new(vec![cores]), Sample::new(rss));
    let case =
        |what: &str| format!("{what} of the controller, {count} agents on etcd, a heartbeat each second");
    let line = |what: &str, unit, goal, sample: &Sample| {
        let (case, value) = (case(what), sample.quantile(1.0));
        row.line(&Line { case: &case, value, unit, goal, sample, cpu: busy, peers: peers.clone() });
    };
    line("processor time", "cores", Goal::AtMost(1.0), &cores);
    line("memory", "MiB", Goal::AtMost(1024.0), &rss);
    Ok(())
}

/// From the start of the new etcd until all agents are connected and a submit is acknowledged.
fn restarts_of_etcd(
    row: &Row<'_>,
    runtime: &Runtime,
    client: &Client,
    (etcd, agents, pid): (&mut Etcd, &mut Agents, u32),
    (count, restarts): (u32, u32),
) -> Result<(), String> {
    let (mut taken, mut least) = (Vec::new(), count);
    let cpu = Cpu::start();
    for restart in 0..restarts {
        etcd.kill(0);
        thread::sleep(AWAY);
        least = least.min(agents.connected()?);
        let begin = Instant::now();
        etcd.restart(0)?;
        settled(runtime, client, agents, count, &format!("restart-{restart}"))?;
        taken.push(begin.elapsed().as_secs_f64());
    }
    let sample = Sample::new(taken);
    row.line(&Line {
        case: &format!("start of a killed etcd until {count} agents are connected and a submit is acknowledged"),
        value: sample.quantile(1.0),
        unit: "s",
        goal: Goal::AtMost(5.0),
        sample: &sample,
        cpu: cpu.cores(),
        peers: json!({"seconds_away": AWAY.as_secs(), "connected_meanwhile": least, "controller_rss_mib": rss_mib(pid)}),
    });
    Ok(())
}

/// Waits for a submit to be acknowledged, for the controller to count every node as ready, and for all agents to say that
/// they are connected.
fn settled(
    runtime: &Runtime,
    client: &Client,
    agents: &mut Agents,
    count: u32,
    name: &str,
) -> Result<(), String> {
    let deadline = Deadline::after(PATIENCE);
    runtime.block_on(submit(client, name))?;
    loop {
        let (connected, health) = (agents.connected()?, runtime.block_on(health(client)));
        if connected == count && health.as_ref().is_ok_and(|health| health.nodes_ready == count) {
            return Ok(());
        }
        if deadline.passed() {
            return Err(format!("of {count} agents {connected} are connected; {health:?}"));
        }
        thread::sleep(PAUSE);
    }
}

async fn health(client: &Client) -> Result<v1::ClusterHealth, String> {
    let answer = HealthServiceClient::new(client.clone()).get_health(v1::GetHealthRequest {}).await;
    answer.map(tonic::Response::into_inner).map_err(text)
}

async fn submit(client: &Client, name: &str) -> Result<(), String> {
    let request = v1::CreateJobRequest {
        job: Some(command_job(name, 1, &["/bin/true"])),
        request_id: uuid::Uuid::new_v4().to_string(),
        on_behalf_of: "default".to_owned(),
        ..v1::CreateJobRequest::default()
    };
    let policy = RetryPolicy { attempts: 100_000, first: PAUSE, longest: PAUSE, within: PATIENCE };
    let call = |_| {
        let (mut jobs, request) = (JobServiceClient::new(client.clone()), request.clone());
        async move { jobs.create_job(request).await }
    };
    retry(&policy, &mut Jitter::from_os(), call).await.map(drop).map_err(text)
}
