//! D10, a large state read again: from the start of a controller, and from the death of a leader whose standby has a copy, to
//! the first answered read and the first acknowledged submit.

mod fill;

use std::time::{Duration, Instant};

use integration_harness::{Controllers, Etcd, procfs::rss_mib};
use proto_rpc::{Client, ClientOptions, Jitter, RetryPolicy, retry};
use proto_wire::v1::{self, job_service_client::JobServiceClient};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::{
    command_job::{command_job, text},
    report::{Cpu, Goal, Line, Row, Sample},
};
pub use fill::Fill;
use fill::Size;

/// etcd's quota is 2 GiB by default, this state is about one; its history comes on top.
const ETCD: [&str; 4] = ["--quota-backend-bytes", "8589934592", "--auto-compaction-retention", "0"];
/// Nobody's agents: nodes that are silent are no matter of this row.
const QUIET: [&str; 2] = ["--heartbeat-limit", "60m"];
/// Tries until a call is answered.
const UNTIL_IT_ANSWERS: RetryPolicy = RetryPolicy {
    attempts: 100_000,
    first: Duration::from_millis(5),
    longest: Duration::from_millis(5),
    within: Duration::from_secs(120),
};
const GOAL: Goal = Goal::AtMost(10.0);

/// Measures all of it.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure(row: &Row<'_>, quick: bool) -> Result<(), String> {
    let size =
        if quick { Size { nodes: 12_500, jobs: 100_000 } } else { Size { nodes: 125_000, jobs: 1_000_000 } };
    let runs = if quick { 1 } else { 3 };
    in_etcd(row, size, runs)?;
    embedded(row, size, runs)
}

fn in_etcd(row: &Row<'_>, size: Size, runs: u32) -> Result<(), String> {
    let etcd = Etcd::start(1, &ETCD)?;
    let flags = ["--store", "etcd", "--etcd-endpoints", &etcd.endpoints()].map(str::to_owned);
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(QUIET).collect();
    let mut controllers = Controllers::start(2, &flags)?;
    (0..2).for_each(|which| controllers.kill(which));
    let runtime = Runtime::new().map_err(text)?;
    let endpoint = etcd.endpoints().parse().map_err(text)?;
    runtime.block_on(async { fill::fill(fill::in_etcd(endpoint).await?, size).await })?;
    let etcd_rss = || etcd.pid(0).map_or(0, rss_mib);
    starts(row, "etcd", &runtime, &mut controllers, (size, runs), &etcd_rss)?;
    take_overs(row, &runtime, &mut controllers, (size, runs))
}

fn embedded(row: &Row<'_>, size: Size, runs: u32) -> Result<(), String> {
    let mut controllers = Controllers::start(1, &QUIET)?;
    controllers.kill(0);
    let runtime = Runtime::new().map_err(text)?;
    let filled = fill::in_folder(controllers.folder(0)).map(|filling| fill::fill(filling, size));
    runtime.block_on(filled?)?;
    starts(row, "embedded store", &runtime, &mut controllers, (size, runs), &|| 0)
}

/// One controller, started again and again on what is stored.
fn starts(
    row: &Row<'_>,
    store: &str,
    runtime: &Runtime,
    controllers: &mut Controllers,
    (size, runs): (Size, u32),
    store_rss: &dyn Fn() -> u64,
) -> Result<(), String> {
    let (mut reads, mut submits, mut rss, mut cores) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for run in 0..runs {
        let cpu = Cpu::start();
        let begin = Instant::now();
        controllers.restart(0)?;
        let _inside = runtime.enter();
        let client = controllers.client(&[0], &ClientOptions::default())?;
        runtime.block_on(read(&client, size))?;
        reads.push(begin.elapsed().as_secs_f64());
        runtime.block_on(submit(&client, &format!("start-{run}-{}", store.len())))?;
        submits.push(begin.elapsed().as_secs_f64());
        cores += cpu.cores() / f64::from(runs);
        rss.push(controllers.pid(0).map_or(0, rss_mib));
        controllers.kill(0);
    }
    let (reads, submits) = (Sample::new(reads), Sample::new(submits));
    let of = format!("{} nodes and {} job records", size.nodes, size.jobs);
    for (what, sample) in [("answered read", &reads), ("acknowledged submit", &submits)] {
        row.line(&Line {
            case: &format!("start of a controller to the first {what}, {of}, {store}"),
            value: sample.median(),
            unit: "s",
            goal: GOAL,
            sample,
            cpu: cores,
            peers: json!({"controller_rss_mib": rss, "store_rss_mib": store_rss()}),
        });
    }
    Ok(())
}

/// The leader is killed when the standby has its copy.
fn take_overs(
    row: &Row<'_>,
    runtime: &Runtime,
    controllers: &mut Controllers,
    (size, runs): (Size, u32),
) -> Result<(), String> {
    let (mut reads, mut submits, mut rss) = (Vec::new(), Vec::new(), Vec::new());
    let _inside = runtime.enter();
    controllers.restart(0)?;
    runtime.block_on(read(&controllers.client(&[0], &ClientOptions::default())?, size))?;
    controllers.restart(1)?;
    let cpu = Cpu::start();
    for run in 0..runs {
        let (leads, stands) = (run as usize % 2, (run as usize + 1) % 2);
        let client = controllers.client(&[stands], &ClientOptions::default())?;
        runtime.block_on(submit(&client, &format!("before-{run}")))?;
        rss.push(controllers.pid(stands).map_or(0, rss_mib));
        controllers.kill(leads);
        let begin = Instant::now();
        runtime.block_on(read(&client, size))?;
        reads.push(begin.elapsed().as_secs_f64());
        runtime.block_on(submit(&client, &format!("after-{run}")))?;
        submits.push(begin.elapsed().as_secs_f64());
        controllers.restart(leads)?;
    }
    let cores = cpu.cores();
    let of = format!("{} nodes and {} job records", size.nodes, size.jobs);
    for (what, sample) in
        [("answered read", Sample::new(reads)), ("acknowledged submit", Sample::new(submits))]
    {
        row.line(&Line {
            case: &format!("leader killed to the first {what} by its standby, {of}, etcd"),
            value: sample.median(),
            unit: "s",
            goal: GOAL,
            sample: &sample,
            cpu: cores,
            peers: json!({"standby_rss_mib": rss}),
        });
    }
    Ok(())
}

/// One of the stored jobs, as it must be.
async fn read(client: &Client, size: Size) -> Result<(), String> {
    let name = format!("train-{:07}", size.jobs / 2 / 50 * 50);
    let request = v1::GetJobRequest { name, tenant: "default".to_owned() };
    let call = |_| {
        let (mut jobs, request) = (JobServiceClient::new(client.clone()), request.clone());
        async move { jobs.get_job(request).await }
    };
    let job = retry(&UNTIL_IT_ANSWERS, &mut Jitter::from_os(), call).await.map_err(text)?.into_inner();
    let phase = job.status.map(|status| status.phase());
    (phase == Some(v1::job_status::Phase::Completed)).then_some(()).ok_or(format!("the job is {phase:?}"))
}

async fn submit(client: &Client, name: &str) -> Result<(), String> {
    let request = v1::CreateJobRequest {
        job: Some(command_job(name, 1, &["/bin/true"])),
        request_id: uuid::Uuid::new_v4().to_string(),
        on_behalf_of: "default".to_owned(),
        ..v1::CreateJobRequest::default()
    };
    let call = |_| {
        let (mut jobs, request) = (JobServiceClient::new(client.clone()), request.clone());
        async move { jobs.create_job(request).await }
    };
    retry(&UNTIL_IT_ANSWERS, &mut Jitter::from_os(), call).await.map(drop).map_err(text)
}
