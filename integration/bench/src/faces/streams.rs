//! Row U3: what open pages cost the callers of a controller at work. Jobs come and go at a steady rate, with and without the streams of many
//! pages that see all of it, in turns of one run; the same streams on another controller, whose jobs come and go as well, say what they
//! cost the machine and not the controller.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use http_body_util::BodyExt as _;
use proto_rpc::Client;
use proto_wire::v1::{self, job_service_client::JobServiceClient};
use serde_json::{Value, json};
use tokio::{
    runtime::Runtime,
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time,
};

use crate::{
    overload::{Company, Kind, Server, page},
    report::{self, Cpu, Goal, Line, Sample, round},
};

/// Pages that are open, and in a quick run.
const STREAMS: usize = 500;
const QUICK: usize = 50;
/// Jobs that are submitted, cancelled and deleted each second.
const JOBS: usize = 40;
/// What one more caller may notice, and how late a page may be.
const TIMES: f64 = 1.2;
const LATE_MS: f64 = 250.0;
/// How long a page's events are waited for after the last submit.
const PATIENCE: Duration = Duration::from_secs(20);

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Measures the row.
///
/// # Errors
/// What kept it from being measured, as text.
pub fn measure(row: &report::Row<'_>, quick: bool) -> Result<(), String> {
    Runtime::new().map_err(text)?.block_on(run(row, quick))
}

/// What was measured in all turns.
#[derive(Default)]
struct Seen {
    quiet: Vec<f64>,
    loaded: Vec<f64>,
    elsewhere: Vec<f64>,
    ratios: Vec<f64>,
    late: Vec<f64>,
    cores: f64,
    /// CPU seconds of the controller for each second of a turn: without streams, with them.
    controller: [Vec<f64>; 2],
    kib: Vec<f64>,
}

async fn run(row: &report::Row<'_>, quick: bool) -> Result<(), String> {
    let (streams, turns) = if quick { (QUICK, 1) } else { (STREAMS, 5) };
    let turn = Duration::from_secs(if quick { 3 } else { 10 });
    let (server, other) = (Server::start().await?, Server::start().await?);
    let (client, others) = (server.modest()?, other.modest()?);
    work(&client, Duration::from_secs(2)).await?;
    let mut seen = Seen::default();
    for _ in 0..turns {
        let (at, quiet) = (server.cpu_seconds(), work(&client, turn).await?);
        seen.controller[0].push((server.cpu_seconds() - at) / turn.as_secs_f64());
        let memory = server.rss_kib();
        let company = Company::start(&server, Kind::Pages, streams)?;
        // One page here says how late its events are.
        let page = Page::open(&server.administrator()?).await?;
        let (at, cpu) = (server.cpu_seconds(), Cpu::start());
        let loaded = work(&client, turn).await?;
        seen.cores += cpu.cores() / f64::from(turns);
        seen.controller[1].push((server.cpu_seconds() - at) / turn.as_secs_f64());
        seen.kib.push(server.rss_kib().saturating_sub(memory) as f64 / streams as f64);
        seen.late.extend(page.late(&loaded).await?);
        company.end()?;
        let company = Company::start(&other, Kind::Pages, streams)?;
        let (elsewhere, busy) = tokio::join!(work(&client, turn), work(&others, turn));
        busy?;
        company.end()?;
        let p99 = |submits: &[Submit]| Sample::new(milliseconds(submits)).quantile(0.99);
        seen.ratios.push(p99(&loaded) / p99(&quiet));
        seen.quiet.extend(milliseconds(&quiet));
        seen.loaded.extend(milliseconds(&loaded));
        seen.elsewhere.extend(milliseconds(&elsewhere?));
    }
    print(row, streams, seen);
    Ok(())
}

fn print(row: &report::Row<'_>, streams: usize, seen: Seen) {
    let Seen { quiet, loaded, elsewhere, ratios, late, cores, controller, kib } = seen;
    let [quiet, loaded, elsewhere, late] = [quiet, loaded, elsewhere, late].map(Sample::new);
    let [without, with] = controller.map(|cores| Sample::new(cores).median());
    let figures = |sample: &Sample| json!({"submits": sample.len(), "p50_ms": round(sample.quantile(0.5)), "p99_ms": round(sample.quantile(0.99))});
    let of_one = json!({
        "cpu_percent": round((with - without).max(0.0) * 100.0 / streams as f64),
        "kib": round(Sample::new(kib).median()),
    });
    let peers = json!({
        "without": figures(&quiet), "with": figures(&loaded), "pages_on_another_controller": figures(&elsewhere),
        "a_stream": of_one, "controller_cores": {"without": round(without), "with": round(with)},
        "jobs_per_second": JOBS,
    });
    row.line(&Line {
        case: &format!("p99 of submits beside {streams} open pages over p99 without"),
        value: loaded.quantile(0.99) / quiet.quantile(0.99),
        unit: "x",
        goal: Goal::AtMost(TIMES),
        sample: &Sample::new(ratios),
        cpu: cores,
        peers,
    });
    row.line(&Line {
        case: &format!("a job's event at a page after its submit's answer, beside {streams} others, p99"),
        value: late.quantile(0.99),
        unit: "ms",
        goal: Goal::AtMost(LATE_MS),
        sample: &late,
        cpu: cores,
        peers: Value::Null,
    });
}

/// One submit: how long it took, counted from when it was due, and when it was answered.
struct Submit {
    name: String,
    ms: f64,
    answered: Instant,
}

fn milliseconds(submits: &[Submit]) -> Vec<f64> {
    submits.iter().map(|one| one.ms).collect()
}

/// Jobs come at a steady rate, and each goes as soon as it is there.
async fn work(client: &Client, time: Duration) -> Result<Vec<Submit>, String> {
    let begin = Instant::now();
    let mut pace = time::interval(Duration::from_secs_f64(1.0 / JOBS as f64));
    let (mut submits, mut leaving) = (Vec::new(), JoinSet::new());
    while begin.elapsed() < time {
        let due = pace.tick().await;
        let name = format!("u-{}", uuid::Uuid::new_v4().simple());
        let request = v1::CreateJobRequest {
            job: Some(crate::command_job::command_job(&name, 1, &["/bin/true"])),
            request_id: uuid::Uuid::new_v4().to_string(),
            ..v1::CreateJobRequest::default()
        };
        let mut jobs = JobServiceClient::new(client.clone());
        jobs.create_job(request).await.map_err(text)?;
        submits.push(Submit {
            name: name.clone(),
            ms: due.elapsed().as_secs_f64() * 1e3,
            answered: Instant::now(),
        });
        leaving.spawn(async move {
            let request = v1::CancelJobRequest { name: name.clone(), ..v1::CancelJobRequest::default() };
            jobs.cancel_job(request).await.map_err(text)?;
            let request = v1::DeleteJobRequest { name, ..v1::DeleteJobRequest::default() };
            jobs.delete_job(request).await.map(drop).map_err(text)
        });
    }
    while let Some(left) = leaving.join_next().await {
        left.map_err(text)??;
    }
    Ok(submits)
}

/// A page that notes when it hears of a job first.
struct Page {
    heard: mpsc::UnboundedReceiver<(String, Instant)>,
    reading: JoinHandle<()>,
}

impl Page {
    async fn open(client: &Client) -> Result<Self, String> {
        let mut body = page(client).await?;
        let (say, heard) = mpsc::unbounded_channel();
        let reading = tokio::spawn(async move {
            let mut waiting = String::new();
            while let Some(Ok(frame)) = body.frame().await {
                waiting.push_str(&String::from_utf8_lossy(&frame.into_data().unwrap_or_default()));
                while let Some((event, rest)) = waiting.split_once("\n\n") {
                    let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default();
                    let data: Value = serde_json::from_str(data).unwrap_or_default();
                    let name = data["job"]["metadata"]["name"].as_str().map(str::to_owned);
                    waiting = rest.to_owned();
                    if let Some(name) = name
                        && say.send((name, Instant::now())).is_err()
                    {
                        return;
                    }
                }
            }
        });
        Ok(Self { heard, reading })
    }

    /// How late it heard of each of these jobs, in milliseconds. Of a job that has gone by then it hears that.
    async fn late(mut self, submits: &[Submit]) -> Result<Vec<f64>, String> {
        let mut first = BTreeMap::new();
        let all = async {
            while submits.iter().any(|one| !first.contains_key(&one.name)) {
                let Some((name, at)) = self.heard.recv().await else { return };
                first.entry(name).or_insert(at);
            }
        };
        let came = time::timeout(PATIENCE, all).await;
        self.reading.abort();
        came.map_err(|_| "a page did not hear of every job".to_owned())?;
        let late = submits.iter().filter_map(|one| {
            let at = first.get(&one.name)?;
            Some(at.saturating_duration_since(one.answered).as_secs_f64() * 1e3)
        });
        Ok(late.collect())
    }
}
