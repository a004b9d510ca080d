//! Row X2: a flood of everything at once that peers without an identity can do, and what administrators and agents notice
//! of it. The flood is paced, so many connections and calls a second: it shares this machine's processors with the controller,
//! and what is measured is the controller's order of precedence, not who has more processors.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use proto_rpc::Client;
use proto_wire::v1::{
    self, audit_record::Content, audit_service_client::AuditServiceClient,
    job_service_client::JobServiceClient, tenant_service_client::TenantServiceClient,
};
use serde_json::json;
use tokio::{runtime::Runtime, time};

use crate::{
    overload::Server,
    report::{Cpu, Goal, Line, Row, Sample, round},
};

/// Calls per second of each that is measured.
const CALLS: usize = 50;
/// Changes per second that an administrator makes.
const CHANGES: u64 = 2;
/// New connections of the flood per second; it makes four calls for each.
const RATE: u32 = 110;
/// Goals: p99 beside the flood over quiet p99, MiB that memory grows, and changes without a record.
const SLOWER: f64 = 2.0;
const GROWS: f64 = 64.0;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Measures all of it.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure(row: &Row<'_>, quick: bool) -> Result<(), String> {
    let (quiet, flood) = if quick { (5, 10) } else { (20, 60) };
    let runtime = Runtime::new().map_err(text)?;
    runtime.block_on(flooded(row, Duration::from_secs(quiet), Duration::from_secs(flood)))
}

/// What was seen in one stretch of time, in milliseconds.
struct Seen {
    administrator: Sample,
    agent: Sample,
    /// Administrators that connect anew for one call.
    newcomer: Sample,
}

async fn flooded(row: &Row<'_>, quiet: Duration, flood: Duration) -> Result<(), String> {
    // Little room for denials: they must not take that of changes.
    let server = Server::start_with(&["--audit-denials", "100", "--audit-records", "10000"]).await?;
    let admin = server.administrator()?;
    let agent = server.agent()?;
    inspect(&server, &admin, &agent, Duration::from_secs(2)).await?;
    let before = inspect(&server, &admin, &agent, quiet).await?;
    let memory = server.rss_mib();
    let most = Arc::new(AtomicU64::new(memory));
    let stop = Arc::new(AtomicBool::new(false));
    let changes = tokio::spawn(change(admin.clone(), Arc::clone(&stop)));
    let flooding = Flooding::start(&server)?;
    let cpu = Cpu::start();
    let watch = async {
        let mut pace = time::interval(Duration::from_millis(100));
        loop {
            pace.tick().await;
            most.fetch_max(server.rss_mib(), Ordering::Relaxed);
        }
    };
    let during = tokio::select! {
        seen = inspect(&server, &admin, &agent, flood) => seen?,
        () = watch => return Err("the watch ended".to_owned()),
    };
    let cores = cpu.cores();
    let (connections, calls) = flooding.end()?;
    stop.store(true, Ordering::Relaxed);
    let made = changes.await.map_err(text)??;
    let (kept, denials, denied) = audited(&admin).await?;
    let lost = made.iter().filter(|name| !kept.contains(name)).count();
    let figures = |sample: &Sample| json!({"calls": sample.len(), "p50_ms": round(sample.quantile(0.5)), "p99_ms": round(sample.quantile(0.99))});
    let rate = |count: u64| (count as f64 / flood.as_secs_f64()).round();
    let peers = json!({
        "flood": {"connections_per_s": rate(connections), "calls_per_s": rate(calls), "seconds": flood.as_secs()},
        "denials_counted": denied, "denial_records_kept": denials, "controller_rss_mib": memory,
    });
    for (who, quiet, loaded, goal) in [
        ("an administrator's calls", &before.administrator, &during.administrator, Goal::AtMost(SLOWER)),
        ("an agent's calls", &before.agent, &during.agent, Goal::AtMost(SLOWER)),
        ("an administrator's call on a new connection", &before.newcomer, &during.newcomer, Goal::None),
    ] {
        let mut peers = peers.clone();
        (peers["quiet"], peers["loaded"]) = (figures(quiet), figures(loaded));
        let value = loaded.quantile(0.99) / quiet.quantile(0.99);
        let case = format!("p99 of {who} beside an anonymous flood over quiet p99");
        row.line(&Line { case: &case, value, unit: "x", goal, sample: loaded, cpu: cores, peers });
    }
    let grown = most.load(Ordering::Relaxed).saturating_sub(memory) as f64;
    let line = |case, value, unit, goal| {
        let sample = Sample::new(vec![value]);
        row.line(&Line { case, value, unit, goal, sample: &sample, cpu: cores, peers: peers.clone() });
    };
    line("memory that the controller grows by", grown, "MiB", Goal::AtMost(GROWS));
    let case = format!("of {} changes during the flood, without a record", made.len());
    line(&case, lost as f64, "records", Goal::AtMost(0.0));
    Ok(())
}

/// Steady calls of an administrator, of an agent, and of administrators that come anew.
async fn inspect(server: &Server, admin: &Client, agent: &Client, time: Duration) -> Result<Seen, String> {
    let list = |client: Client| async move {
        JobServiceClient::new(client).list_jobs(v1::ListJobsRequest::default()).await.map(|_| ())
    };
    let check = |client: Client| async move {
        let mut call = tonic::client::Grpc::new(client);
        call.ready().await?;
        let path = tonic::codegen::http::uri::PathAndQuery::from_static("/grpc.health.v1.Health/Check");
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        call.unary(tonic::Request::new(()), path, codec).await.map(|_| ())
    };
    let fresh = || async { list(server.administrator().map_err(tonic::Status::unknown)?).await };
    let (administrator, agent, newcomer) = tokio::join!(
        steady(CALLS, time, || list(admin.clone())),
        steady(CALLS, time, || check(agent.clone())),
        steady(4, time, fresh),
    );
    let sample = |taken: Result<Vec<f64>, String>| taken.map(Sample::new);
    Ok(Seen { administrator: sample(administrator)?, agent: sample(agent)?, newcomer: sample(newcomer)? })
}

/// Each call's milliseconds, counted from when it was due.
async fn steady<F: Future<Output = Result<(), tonic::Status>>>(
    per_second: usize,
    time: Duration,
    mut call: impl FnMut() -> F,
) -> Result<Vec<f64>, String> {
    let begin = Instant::now();
    let mut pace = time::interval(Duration::from_secs_f64(1.0 / per_second as f64));
    let mut taken = Vec::new();
    while begin.elapsed() < time {
        let due = pace.tick().await;
        call().await.map_err(text)?;
        taken.push(due.elapsed().as_secs_f64() * 1e3);
    }
    Ok(taken)
}

/// Makes tenants until it is stopped; gives their names.
async fn change(admin: Client, stop: Arc<AtomicBool>) -> Result<Vec<String>, String> {
    let mut tenants = TenantServiceClient::new(admin);
    let mut pace = time::interval(Duration::from_secs(1) / u32::try_from(CHANGES).unwrap_or(1));
    let mut made = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        pace.tick().await;
        let name = format!("made-{}", made.len());
        let metadata = v1::Metadata { name: name.clone(), ..v1::Metadata::default() };
        let (metadata, spec) = (Some(metadata), Some(v1::TenantSpec::default()));
        let tenant = Some(v1::Tenant { metadata, spec, ..v1::Tenant::default() });
        tenants.apply_tenant(v1::ApplyTenantRequest { tenant, ..Default::default() }).await.map_err(text)?;
        made.push(name);
    }
    Ok(made)
}

/// Tenants that a record names; and how many records of denials there are, and denials they stand for.
async fn audited(admin: &Client) -> Result<(Vec<String>, u64, u64), String> {
    let mut audit = AuditServiceClient::new(admin.without_timeout());
    let mut records =
        audit.export_audit_records(v1::ExportAuditRecordsRequest {}).await.map_err(text)?.into_inner();
    let (mut kept, mut denials, mut denied) = (Vec::new(), 0, 0);
    while let Some(record) = records.message().await.map_err(text)? {
        match record.content {
            Some(Content::Change(change)) if change.kind == "tenant" => kept.push(change.name),
            Some(Content::Denial(denial)) => (denials, denied) = (denials + 1, denied + denial.count),
            _ => {}
        }
    }
    Ok((kept, denials, denied))
}

/// The process that makes the flood, ended when dropped.
struct Flooding(Child);

impl Flooding {
    fn start(server: &Server) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(text)?;
        let mut child = Command::new(program)
            .args(["security-flood", "--rate", &RATE.to_string(), "--controller", server.endpoint(), "--ca"])
            .arg(server.ca())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(text)?;
        let line = Self::line(&mut child)?;
        let flooding = Self(child);
        if line.trim() == "ready" { Ok(flooding) } else { Err(format!("the flood did not begin: {line}")) }
    }

    fn line(child: &mut Child) -> Result<String, String> {
        let mut line = String::new();
        if let Some(out) = child.stdout.as_mut() {
            BufReader::with_capacity(1, out).read_line(&mut line).map_err(text)?;
        }
        Ok(line)
    }

    /// Connections and calls that it made.
    fn end(mut self) -> Result<(u64, u64), String> {
        if let Some(mut stdin) = self.0.stdin.take() {
            // Its end is the sign.
            stdin.flush().map_err(text)?;
        }
        let line = Self::line(&mut self.0)?;
        let numbers = line.trim().split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        numbers.ok_or_else(|| format!("the flood ended too early: {line}"))
    }
}

impl Drop for Flooding {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
