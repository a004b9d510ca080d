//! Row D9: what a caller notices of bad company. Idle connections, slow readers and a flood of resets, each beside one
//! well-behaved caller; and one tenant that asks a hundred times as much as another. Quiet and loaded times take turns
//! in one run, on one controller with real TLS; the load comes from another process. What the greedy tenant costs the machine and not
//! the controller is measured beside it, with the same load on another controller.

mod load;
mod node;
mod server;

use std::time::{Duration, Instant};

use proto_rpc::Client;
use proto_wire::v1::{self, job_service_client::JobServiceClient};
use serde_json::json;
use tokio::{runtime::Runtime, time};

use crate::report::{self, Cpu, Goal, Line, Sample, round};
pub use load::{Kind, Load, page};
pub use server::{Company, Server};

/// Calls per second of the well-behaved caller.
const MODEST: usize = 20;

struct Case {
    name: &'static str,
    kind: Kind,
    count: usize,
    goal: f64,
    /// Calls per second of the caller that is measured.
    rate: usize,
    /// The load stays between the turns: it takes long to build up. Else it ends and begins anew.
    turns: usize,
}

/// How long one turn is.
struct Times {
    turn: Duration,
}

/// Measures all cases of row D9.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure(row: &report::Row<'_>, quick: bool) -> Result<(), String> {
    let scale = if quick { 10 } else { 1 };
    let times = Times { turn: Duration::from_secs(if quick { 2 } else { 5 }) };
    let turns = if quick { 1 } else { 3 };
    let cases = [
        Case {
            name: "idle connections",
            kind: Kind::Idle,
            count: 10_000 / scale,
            goal: 2.0,
            rate: 100,
            turns: 1,
        },
        Case { name: "slow readers", kind: Kind::Slow, count: 1_000 / scale, goal: 2.0, rate: 100, turns: 1 },
        Case { name: "resets per second", kind: Kind::Reset, count: 2_000, goal: 2.0, rate: 100, turns },
        Case {
            name: "calls per second of another tenant, 100 times as many",
            kind: Kind::Greedy,
            count: 100 * MODEST,
            goal: 1.1,
            rate: MODEST,
            turns: 2 * turns,
        },
    ];
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    for case in &cases {
        runtime.block_on(one(row, case, &times))?;
    }
    Ok(())
}

async fn one(row: &report::Row<'_>, case: &Case, times: &Times) -> Result<(), String> {
    // Each case has a controller of its own: nothing of the last one is left.
    let server = Server::start().await?;
    let client = server.modest()?;
    // What the load takes of the machine, and not of the controller, is seen where it goes to another controller.
    let greedy = case.kind == Kind::Greedy;
    let other = if greedy { Some(Server::start().await?) } else { None };
    let turn = if case.turns == 1 || greedy { times.turn * 3 } else { times.turn };
    calls(&client, case.rate, Duration::from_secs(1)).await?;
    let (mut quiet, mut loaded, mut ratios, mut cores) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    let mut elsewhere = Vec::new();
    for _ in 0..case.turns {
        let before = calls(&client, case.rate, turn).await?;
        let company = Company::start(&server, case.kind, case.count)?;
        let cpu = Cpu::start();
        let during = calls(&client, case.rate, turn).await?;
        cores += cpu.cores() / case.turns as f64;
        company.end()?;
        ratios.push(Sample::new(during.clone()).quantile(0.99) / Sample::new(before.clone()).quantile(0.99));
        if let Some(other) = &other {
            let company = Company::start(other, case.kind, case.count)?;
            elsewhere.extend(calls(&client, case.rate, turn).await?);
            company.end()?;
        }
        quiet.extend(before);
        loaded.extend(during);
    }
    let (quiet, loaded, ratios) = (Sample::new(quiet), Sample::new(loaded), Sample::new(ratios));
    let value = loaded.quantile(0.99) / quiet.quantile(0.99);
    let figures = |sample: &Sample| json!({"calls": sample.len(), "p50_ms": round(sample.quantile(0.5)), "p99_ms": round(sample.quantile(0.99))});
    let mut peers =
        json!({"quiet": figures(&quiet), "loaded": figures(&loaded), "controller_rss_mib": server.rss_mib()});
    if !elsewhere.is_empty() {
        peers["load_on_another_controller"] = figures(&Sample::new(elsewhere));
    }
    let name = format!("p99 beside {} {} over quiet p99", case.count, case.name);
    row.line(&Line {
        case: &name,
        value,
        unit: "x",
        goal: Goal::AtMost(case.goal),
        sample: &ratios,
        cpu: cores,
        peers,
    });
    Ok(())
}

/// Lists the tenant's jobs at a steady rate; gives each call's milliseconds, counted from when it was due.
async fn calls(client: &Client, per_second: usize, time: Duration) -> Result<Vec<f64>, String> {
    let begin = Instant::now();
    let mut pace = time::interval(Duration::from_secs_f64(1.0 / per_second as f64));
    let mut jobs = JobServiceClient::new(client.clone());
    let mut taken = Vec::new();
    while begin.elapsed() < time {
        let due = pace.tick().await;
        jobs.list_jobs(v1::ListJobsRequest::default()).await.map_err(|status| status.to_string())?;
        taken.push(due.elapsed().as_secs_f64() * 1e3);
    }
    Ok(taken)
}
