//! What survives: D5 leaders that are killed or asked to end, D6 an etcd whose leader is killed.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use integration_harness::{Controllers, Etcd};
use proto_rpc::{Client, ClientOptions, Jitter, KeyRequest, RetryPolicy, retry};
use proto_wire::v1::{
    self, enroll_service_client::EnrollServiceClient, health_service_client::HealthServiceClient,
    job_service_client::JobServiceClient, node_service_client::NodeServiceClient,
};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::{
    command_job::{command_job, text},
    report::{Cpu, Goal, Line, Row, Sample},
};

/// Raft timers for members that are near each other; the least with which etcd 3.4 was steady.
const NEAR: [&str; 4] = ["--heartbeat-interval", "20", "--election-timeout", "200"];
/// With them: a member that has lost the leader answers late, so each attempt is given up in time for another.
const NEAR_DEADLINE: [&str; 2] = ["--etcd-deadline", "500ms"];
/// A take-over that takes longer is printed in detail.
const SLOW_MS: f64 = 250.0;
/// A caller that is lost without an answer gives up then.
const DEADLINE: Duration = Duration::from_secs(2);

/// Submits as railctl does: one request id, tried again where that can help.
async fn submit(client: &Client, name: &str, policy: &RetryPolicy) -> Result<u32, String> {
    let mut job = command_job(name, 1, &["/bin/true"]);
    if let Some(gang) = job.spec.as_mut().and_then(|spec| spec.gang.as_mut()) {
        // The node that has joined never says what it has.
        gang.gpus_per_node = 0;
    }
    let request = v1::CreateJobRequest {
        job: Some(job),
        request_id: uuid::Uuid::new_v4().to_string(),
        on_behalf_of: "default".to_owned(),
        ..v1::CreateJobRequest::default()
    };
    let mut attempts = 0;
    let call = |attempt| {
        attempts = attempt;
        let (mut jobs, request) = (JobServiceClient::new(client.clone()), request.clone());
        async move { jobs.create_job(request).await }
    };
    retry(policy, &mut Jitter::from_os(), call).await.map(drop).map_err(text)?;
    Ok(attempts)
}

/// A node that has joined and never speaks, so that jobs can wait for it.
///
/// # Errors
/// The controller refuses the token or the join.
pub async fn join(client: &Client) -> Result<(), String> {
    let token = v1::CreateJoinTokenRequest { node: "n0".to_owned(), ..v1::CreateJoinTokenRequest::default() };
    let token = NodeServiceClient::new(client.clone())
        .create_join_token(token)
        .await
        .map_err(text)?
        .into_inner()
        .token;
    let csr_pem = KeyRequest::generate().map_err(text)?.csr_pem;
    let join = v1::JoinRequest { token, node: "n0".to_owned(), csr_pem };
    EnrollServiceClient::new(client.clone()).join(join).await.map(drop).map_err(text)
}

/// Which controller leads, by its own word.
///
/// # Errors
/// None answers, or one that is none of these.
pub async fn leader(controllers: &Controllers, client: &Client) -> Result<usize, String> {
    let request = |_| {
        let mut health = HealthServiceClient::new(client.clone());
        async move { health.get_health(v1::GetHealthRequest {}).await }
    };
    let health =
        retry(&RetryPolicy::default(), &mut Jitter::from_os(), request).await.map_err(text)?.into_inner();
    let pid = health.leader.rsplit(':').next().and_then(|pid| pid.parse().ok());
    pid.and_then(|pid| controllers.with_pid(pid)).ok_or_else(|| format!("nobody is {}", health.leader))
}

fn store_flags(etcd: &Etcd) -> Vec<String> {
    ["--store", "etcd", "--etcd-endpoints", &etcd.endpoints()].map(str::to_owned).to_vec()
}

fn world(members: usize, controllers: usize, more: &[&str]) -> Result<(Etcd, Controllers), String> {
    let etcd = Etcd::start(members, &NEAR)?;
    let flags = store_flags(&etcd);
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let controllers = Controllers::start(controllers, &flags)?;
    Ok((etcd, controllers))
}

/// What the controllers did when it took long, on standard error.
fn notify(controllers: &Controllers, kill: u32, killed: usize, taken: f64) {
    eprintln!("kill {kill}, of controller {killed}: {taken:.0} ms");
    for which in (0..controllers.count()).filter(|which| *which != killed) {
        let log = controllers.log(which);
        let lines: Vec<&str> = log.lines().collect();
        eprintln!("  controller {which}:");
        lines.iter().skip(lines.len().saturating_sub(8)).for_each(|line| eprintln!("    {line}"));
    }
}

/// From SIGKILL of the leader to the next acknowledged submit, for a client that was connected to it and for one that asks
/// another controller; and calls that fail while leaders are asked to end.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn leader_loss(row: &Row<'_>, quick: bool) -> Result<(), String> {
    let (kills, overs) = if quick { (10, 3) } else { (100, 20) };
    let (_etcd, mut controllers) = world(1, 3, &[])?;
    let runtime = Runtime::new().map_err(text)?;
    let cpu = Cpu::start();
    let (mut by_leader, mut by_other) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        join(&controllers.client(&[0, 1, 2], &ClientOptions::default())?).await?;
        for kill in 0..kills {
            let any = controllers.client(&[0, 1, 2], &ClientOptions::default())?;
            let leads = leader(&controllers, &any).await?;
            let others: Vec<usize> = (0..3).filter(|n| *n != leads).collect();
            let from_leader = kill % 2 == 0;
            let order = if from_leader { [vec![leads], others].concat() } else { others };
            let client = controllers.client(&order, &ClientOptions::default())?;
            submit(&client, &format!("before-{kill}"), &RetryPolicy::default()).await?;
            controllers.kill(leads);
            let begin = Instant::now();
            submit(&client, &format!("after-{kill}"), &RetryPolicy::default()).await?;
            let taken = begin.elapsed().as_secs_f64() * 1e3;
            if taken > SLOW_MS {
                notify(&controllers, kill, leads, taken);
            }
            if from_leader {
                by_leader.push(taken)
            } else {
                by_other.push(taken)
            }
            controllers.restart(leads)?;
        }
        Ok::<(), String>(())
    })?;
    let cores = cpu.cores();
    let peers = json!({"slurmctld": "3,100 ms at its lowest timeout, 120 s by default"});
    for (who, taken) in [("connected to it", by_leader), ("asking a standby", by_other)] {
        let sample = Sample::new(taken);
        for (quantile, q, limit) in [("p50", 0.5, 150.0), ("p99", 0.99, 400.0)] {
            let case = format!("leader killed to next acknowledged submit, client {who}, {quantile}");
            row.line(&Line {
                case: &case,
                value: sample.quantile(q),
                unit: "ms",
                goal: Goal::AtMost(limit),
                sample: &sample,
                cpu: cores,
                peers: peers.clone(),
            });
        }
    }
    hand_over(row, &mut controllers, &runtime, overs)
}

/// Callers that never try again, through controllers that stay, while the leader is asked to end again and again.
fn hand_over(
    row: &Row<'_>,
    controllers: &mut Controllers,
    runtime: &Runtime,
    overs: u32,
) -> Result<(), String> {
    let cpu = Cpu::start();
    let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    let (mut failed, mut made, mut ends) = (Vec::new(), 0_u64, Vec::new());
    for over in 0..overs {
        let leads = runtime.block_on(async {
            leader(controllers, &controllers.client(&[0, 1, 2], &ClientOptions::default())?).await
        })?;
        let stay: Vec<usize> = (0..3).filter(|n| *n != leads).collect();
        let end = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..8)
            .map(|caller| {
                let _inside = runtime.enter();
                let client = controllers.client(&[stay[caller % 2]], &ClientOptions::default())?;
                let end = Arc::clone(&end);
                Ok(runtime.spawn(async move {
                    let (mut made, mut failed) = (0_u64, Vec::new());
                    while !end.load(Ordering::Relaxed) {
                        let name = format!("over-{over}-{caller}-{made}");
                        failed.extend(submit(&client, &name, &once).await.err());
                        made += 1;
                    }
                    (made, failed)
                }))
            })
            .collect::<Result<_, String>>()?;
        std::thread::sleep(Duration::from_millis(300));
        let begin = Instant::now();
        let pid = controllers.pid(leads).unwrap_or_default().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().map_err(text)?;
        std::thread::sleep(Duration::from_millis(700));
        end.store(true, Ordering::Relaxed);
        for caller in callers {
            let (calls, errors) = runtime.block_on(caller).map_err(text)?;
            made += calls;
            failed.extend(errors);
        }
        ends.push(begin.elapsed().as_secs_f64() * 1e3);
        controllers.restart(leads)?;
    }
    let sample = Sample::new(vec![failed.len() as f64]);
    row.line(&Line {
        case: "calls that fail while the leader hands over, 8 callers that never try again",
        value: failed.len() as f64,
        unit: "calls",
        goal: Goal::AtMost(0.0),
        sample: &sample,
        cpu: cpu.cores(),
        peers: json!({"hand_overs": overs, "calls": made, "first_failure": failed.first()}),
    });
    Ok(())
}

/// Submits one after the other, each with a deadline of two seconds, while the leader of a three-member etcd is killed.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn etcd_leader_loss(row: &Row<'_>, quick: bool) -> Result<(), String> {
    let kills = if quick { 3 } else { 20 };
    let (mut etcd, controllers) = world(3, 1, &NEAR_DEADLINE)?;
    let runtime = Runtime::new().map_err(text)?;
    let cpu = Cpu::start();
    let (mut slowest, mut failed, mut made) = (Vec::new(), Vec::new(), 0_u64);
    let client = runtime.block_on(async {
        let client = controllers.client(&[0], &ClientOptions::default())?;
        join(&client).await?;
        Ok::<Client, String>(client)
    })?;
    for kill in 0..kills {
        etcd.ready()?;
        let leads = etcd.leader().ok_or("no member of etcd leads")?;
        let end = Arc::new(AtomicBool::new(false));
        let caller = runtime.spawn({
            let (client, end) = (client.with_timeout(DEADLINE), Arc::clone(&end));
            async move {
                let (mut slowest, mut made, mut failed) = (Duration::ZERO, 0_u64, Vec::new());
                let policy = RetryPolicy { within: DEADLINE, ..RetryPolicy::default() };
                while !end.load(Ordering::Relaxed) {
                    let begin = Instant::now();
                    let name = format!("d6-{kill}-{made}");
                    let done = tokio::time::timeout(DEADLINE, submit(&client, &name, &policy)).await;
                    failed.extend(done.unwrap_or_else(|_| Err("no answer in time".to_owned())).err());
                    slowest = slowest.max(begin.elapsed());
                    made += 1;
                }
                (slowest, made, failed)
            }
        });
        std::thread::sleep(Duration::from_millis(300));
        etcd.kill(leads);
        std::thread::sleep(Duration::from_millis(2500));
        end.store(true, Ordering::Relaxed);
        let (longest, calls, errors) = runtime.block_on(caller).map_err(text)?;
        slowest.push(longest.as_secs_f64() * 1e3);
        made += calls;
        failed.extend(errors);
        etcd.restart(leads)?;
    }
    let cores = cpu.cores();
    let sample = Sample::new(slowest);
    row.line(&Line {
        case: "submits that fail within 2 s while the leader of etcd (3 members) is killed",
        value: failed.len() as f64,
        unit: "calls",
        goal: Goal::AtMost(0.0),
        sample: &Sample::new(vec![failed.len() as f64]),
        cpu: cores,
        peers: json!({"kills": kills, "calls": made, "first_failure": failed.first()}),
    });
    row.line(&Line {
        case: "slowest submit while the leader of etcd is killed, median",
        value: sample.median(),
        unit: "ms",
        goal: Goal::None,
        sample: &sample,
        cpu: cores,
        peers: json!({}),
    });
    Ok(())
}
