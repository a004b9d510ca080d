//! The main job's figures: A1 submit to all ranks started, A2 durable submits per second, A3 all-reduce on shaped rails;
//! and D9, what callers notice of bad company, in `overload`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use integration_harness::{Access, Cluster, Shape, binaries};
use proto_rpc::Client;
use proto_wire::v1::{self, job_service_client::JobServiceClient};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt as _;

use crate::{
    agents,
    command_job::{command_job, text},
    durable, overload, reload,
    report::{self, Cpu, Goal, Line, Sample},
    survival,
};

/// A function that measures one row; the flag asks for fewer repetitions.
pub type Row = fn(&report::Row<'_>, bool) -> Result<(), String>;

/// The rows of this bench.
pub const ROWS: [(&str, Row); 9] = [
    ("A1", start_latency),
    ("A2", submit_rate),
    ("A3", shaped_all_reduce),
    ("D5", survival::leader_loss),
    ("D6", survival::etcd_leader_loss),
    ("D7", durable::measure),
    ("D8", agents::measure),
    ("D9", overload::measure),
    ("D10", reload::measure),
];

type Jobs = JobServiceClient<Client>;

async fn submit(jobs: &mut Jobs, job: v1::Job) -> Result<(), String> {
    let request_id = uuid::Uuid::new_v4().to_string();
    let request = v1::CreateJobRequest {
        job: Some(job),
        request_id,
        on_behalf_of: "default".to_owned(),
        ..v1::CreateJobRequest::default()
    };
    jobs.create_job(request).await.map(drop).map_err(text)
}

/// Submits and waits until all ranks have been started; then until the job has ended.
///
/// # Errors
/// A call fails, the job fails, or it ends without having started.
pub async fn one_start(jobs: &mut Jobs, name: &str) -> Result<Duration, String> {
    let watch =
        v1::WatchJobsRequest { tenant: "default".to_owned(), name: name.to_owned(), ..Default::default() };
    let mut events = jobs.watch_jobs(watch).await.map_err(text)?.into_inner();
    let begin = Instant::now();
    submit(jobs, command_job(name, 4, &["/bin/true"])).await?;
    let mut started = None;
    while let Some(event) = events.next().await {
        let Some(status) = event.map_err(text)?.job.and_then(|job| job.status) else { continue };
        if status.start_time.is_some() && started.is_none() {
            started = Some(begin.elapsed());
        }
        match status.phase() {
            v1::job_status::Phase::Completed => return started.ok_or_else(|| "it never started".to_owned()),
            v1::job_status::Phase::Failed => return Err(format!("{name} failed: {:?}", status.reasons)),
            _ => {}
        }
    }
    Err("the watch ended".to_owned())
}

fn start_latency(row: &report::Row<'_>, quick: bool) -> Result<(), String> {
    let runs = if quick { 20 } else { 200 };
    let cluster = Cluster::up(&Shape::default())?;
    let access = Access::of(&cluster)?;
    let runtime = Runtime::new().map_err(text)?;
    let cpu = Cpu::start();
    let taken: Result<Vec<f64>, String> = runtime.block_on(async {
        let mut jobs = JobServiceClient::new(access.client()?);
        let mut taken = Vec::new();
        for run in 0..runs {
            taken.push(one_start(&mut jobs, &format!("a1-{run}")).await?.as_secs_f64() * 1e3);
        }
        Ok(taken)
    });
    let sample = Sample::new(taken?);
    let cores = cpu.cores();
    for (case, q, goal) in [("p50", 0.5, Goal::None), ("p99", 0.99, Goal::AtMost(250.0))] {
        let case = format!("submit to all ranks started, 4 nodes, {case}");
        let value = sample.quantile(q);
        row.line(&Line {
            case: &case,
            value,
            unit: "ms",
            goal,
            sample: &sample,
            cpu: cores,
            peers: json!({}),
        });
    }
    Ok(())
}

/// With an empty queue, and behind so many jobs that wait already.
const WAITING: [u32; 3] = [0, 1_000, 10_000];

fn submit_rate(row: &report::Row<'_>, quick: bool) -> Result<(), String> {
    WAITING.into_iter().try_for_each(|waiting| submits_behind(row, quick, waiting))
}

fn submits_behind(row: &report::Row<'_>, quick: bool, waiting: u32) -> Result<(), String> {
    const CLIENTS: usize = 32;
    let (rounds, seconds) = match (quick, waiting) {
        (true, _) => (1, 2),
        (false, 0) => (5, 3),
        (false, _) => (2, 3),
    };
    let runtime = Runtime::new().map_err(text)?;
    let (mut rates, mut latencies, mut cores) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..rounds {
        // A fresh store each time; one long job holds the only node, so that the others queue.
        let cluster = Cluster::up(&Shape { nodes: 1, rails: 1, gpus: 1, ..Shape::default() })?;
        let access = Arc::new(Access::of(&cluster)?);
        let cpu = Cpu::start();
        let (rate, mut taken) =
            runtime.block_on(flood(&access, CLIENTS, waiting, Duration::from_secs(seconds)))?;
        cores += cpu.cores() / f64::from(rounds);
        rates.push(rate);
        latencies.append(&mut taken);
    }
    let (rates, latencies) = (Sample::new(rates), Sample::new(latencies));
    let value = rates.quantile(0.5);
    let peers = json!({"p50_ms": latencies.quantile(0.5), "p99_ms": latencies.quantile(0.99)});
    let mut case = "durable submits, embedded store, 32 clients".to_owned();
    if waiting > 0 {
        case.push_str(&format!(", behind {waiting} jobs that wait"));
    }
    let goal = Goal::AtLeast(2000.0);
    row.line(&Line { case: &case, value, unit: "1/s", goal, sample: &rates, cpu: cores, peers });
    Ok(())
}

/// Submits from many clients at once; gives acknowledged submits per second and each one's milliseconds.
async fn flood(
    access: &Access,
    clients: usize,
    waiting: u32,
    time: Duration,
) -> Result<(f64, Vec<f64>), String> {
    let mut first = JobServiceClient::new(access.client()?);
    submit(&mut first, command_job("holder", 1, &["/bin/sleep", "600"])).await?;
    for part in 0..waiting.div_ceil(1000) {
        let mut job = command_job(&format!("queue-{part}"), 1, &["/bin/true"]);
        if let Some(spec) = job.spec.as_mut() {
            spec.array = format!("0-{}", waiting.min(1000) - 1);
        }
        submit(&mut first, job).await?;
    }
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..clients {
        let mut jobs = JobServiceClient::new(access.client()?);
        tasks.spawn(async move {
            let mut taken = Vec::new();
            while begin.elapsed() < time {
                let sent = Instant::now();
                submit(&mut jobs, command_job(&format!("a2-{client}-{}", taken.len()), 1, &["/bin/true"]))
                    .await?;
                taken.push(sent.elapsed().as_secs_f64() * 1e3);
            }
            Ok::<_, String>(taken)
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.append(&mut done.map_err(text)??);
    }
    Ok((all.len() as f64 / begin.elapsed().as_secs_f64(), all))
}

fn shaped_all_reduce(row: &report::Row<'_>, quick: bool) -> Result<(), String> {
    const CASE: &str = "all-reduce 64 MiB f32, 4 nodes, 4 rails of 200 Mbit/s, bus bandwidth over line rate";
    if !binaries::may_make_namespaces() {
        row.void(CASE, "network namespaces and shaping need root, ip and tc");
        return Ok(());
    }
    let runs = if quick { 1 } else { 5 };
    let shape = Shape { gpus: 1, netns: Some("200mbit".to_owned()), ..Shape::default() };
    let cluster = Cluster::up(&shape)?;
    let line_gbps = 4.0 * 0.2;
    let (mut shares, mut cores) = (Vec::new(), 0.0);
    for run in 0..runs {
        let name = format!("a3-{run}");
        let spec = "gang: {nodes: 4, gpusPerNode: 1}\ncollective: {op: ALL_REDUCE, bytes: 67108864, iterations: 3, verify: true}";
        let cpu = Cpu::start();
        cluster.submit(&name, spec)?;
        let job = cluster.wait_for(&name, &["COMPLETED", "FAILED"], Duration::from_secs(120))?;
        cores += cpu.cores() / f64::from(runs);
        let result = &job["status"]["result"];
        if result["verified"] != true {
            return Err(format!("{name} was not verified: {:#}", job["status"]));
        }
        shares.push(100.0 * result["busBwGbps"].as_f64().unwrap_or(0.0) / line_gbps);
    }
    let sample = Sample::new(shares);
    let value = sample.quantile(0.5);
    let goal = Goal::AtLeast(80.0);
    row.line(&Line { case: CASE, value, unit: "%", goal, sample: &sample, cpu: cores, peers: json!({}) });
    Ok(())
}
