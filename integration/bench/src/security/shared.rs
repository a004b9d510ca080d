//! X4: short jobs of two tenants on shared servers. Each leaves secrets about and tries to get at what the others have left; in the end
//! nothing of any of them may be there: no process, mount, file, control group, System V memory or process of a rank's user.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use integration_harness::{Access, Cluster, Shape, binaries, procfs};
use proto_rpc::Client;
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, tenant_service_client::TenantServiceClient,
};
use serde_json::json;
use tokio::{runtime::Runtime, task::JoinSet};

use super::isolation::active;
use crate::{
    command_job::{command_job, text},
    report::{Cpu, Goal, Line, Row, Sample},
};

/// The names of the two tenants.
const TENANTS: [&str; 2] = ["xa", "xb"];
/// Jobs of each tenant that are submitted and not over at a time.
const AHEAD: usize = 24;
/// The last job ends within this.
const PATIENCE: Duration = Duration::from_secs(900);

/// What is there of ranks, outside of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Left {
    processes: BTreeSet<i32>,
    mounts: BTreeSet<String>,
    files: BTreeSet<PathBuf>,
    segments: usize,
    groups: BTreeSet<PathBuf>,
    uids: BTreeSet<u32>,
}

/// Ranks have folders of their own in place of some.
fn refuse_private(program: &Path) -> Result<(), String> {
    if let Some(private) = ["/tmp", "/var/tmp", "/dev/shm"].iter().find(|folder| program.starts_with(folder))
    {
        let shown = program.display();
        return Err(format!(
            "{shown} lies below {private}, of which every job has its own: build it elsewhere, or name another folder \
             with RAIL_BIN_DIR"
        ));
    }
    Ok(())
}

/// Runs the jobs of both tenants and judges what they read and left.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure(row: &Row<'_>, quick: bool) -> Result<(), String> {
    let count = if quick { 60 } else { 1_000 };
    let bin = binaries::directory()?;
    let program = bin.join("rail-attack");
    if !program.exists() {
        return Err(format!("{} is not there: build it (`cargo build -p integration`)", program.display()));
    }
    refuse_private(&program)?;
    // Sockets without a file are the network's: where jobs must not meet there, ranks have a network of their own.
    let env = vec![("RAIL_RANK_NETWORK".to_owned(), "none".to_owned())];
    let cluster =
        Cluster::up(&Shape { nodes: 2, rails: 1, gpus: 8, safe_ranks: true, env, ..Shape::default() })?;
    let features = active(&cluster)?;
    let shares = features.iter().any(|feature| feature == "UID_PER_ATTEMPT");
    let (access, before) = (Access::of(&cluster)?, Left::now(&cluster));
    let (cpu, begin) = (Cpu::start(), Instant::now());
    let outcome = Runtime::new().map_err(text)?.block_on(all(&access, &program, count))?;
    let seconds = begin.elapsed().as_secs_f64();
    let left = settled(&cluster, &before);
    let beside = outcome.beside();
    let sample = Sample::new(vec![outcome.read.len() as f64]);
    let line = |case: &str, value: usize, unit: &str, goal, peers| {
        let line = Line { case, value: value as f64, unit, goal, sample: &sample, cpu: cpu.cores(), peers };
        row.line(&line);
    };
    let run = json!({
        "jobs": outcome.jobs, "seconds": seconds, "tries_each": outcome.attempts, "beside_the_other_tenant": beside,
        "features": features, "failed": outcome.failed,
    });
    let all = format!("jobs of two tenants on 2 servers that ended well, of {count}");
    line(&all, outcome.jobs - outcome.failed.len(), "jobs", Goal::AtLeast(count as f64), run);
    if shares {
        let most = outcome.read.iter().take(5).collect::<Vec<_>>();
        line(
            "secrets of the other tenant that were read, of shared servers",
            outcome.read.len(),
            "secrets",
            Goal::AtMost(0.0),
            json!(most),
        );
        line(
            "jobs that ran while one of the other tenant was on their server",
            beside,
            "jobs",
            Goal::AtLeast(1.0),
            json!({}),
        );
    } else {
        let why = "without a user per attempt two tenants never share a server";
        row.void("secrets of the other tenant that were read, of shared servers", why);
        line(
            "jobs that ran while one of the other tenant was on their server",
            beside,
            "jobs",
            Goal::AtMost(0.0),
            json!({"why": why}),
        );
    }
    let left_over = |case: &str, value: usize, peers| {
        line(&format!("left behind: {case}"), value, case, Goal::AtMost(0.0), peers)
    };
    left_over("processes", left.processes.len(), json!(left.processes));
    left_over("mounts", left.mounts.len(), json!(left.mounts));
    left_over("files", left.files.len(), json!(left.files));
    left_over("segments", left.segments, json!({}));
    left_over("groups", left.groups.len(), json!(left.groups));
    left_over("uids", left.uids.len(), json!(left.uids));
    Ok(())
}

/// What is left once nothing goes any more, beyond what was there before.
fn settled(cluster: &Cluster, before: &Left) -> Left {
    let begin = Instant::now();
    loop {
        let left = Left::now(cluster).without(before);
        if left == Left::default() || begin.elapsed() > Duration::from_secs(10) {
            return left;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

impl Left {
    fn now(cluster: &Cluster) -> Self {
        let dir = cluster.dir();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let ours = |line: &&str| line.contains(&dir.display().to_string());
        let marked =
            ["/tmp", "/var/tmp", "/dev/shm"].iter().flat_map(|dir| named(Path::new(dir), "x4-secret-"));
        let jobs = ["n0", "n1"].iter().flat_map(|node| entries(&dir.join(node).join("jobs")));
        let segments = fs::read_to_string("/proc/sysvipc/shm").map(|table| table.lines().skip(1).count());
        let users = procfs::find(&["rail-attack", "neighbour"]);
        Self {
            processes: users.iter().copied().chain(procfs::find(&["x4-daemon"])).collect(),
            mounts: mounts
                .lines()
                .filter(ours)
                .map(|line| line.split(' ').nth(4).unwrap_or_default().to_owned())
                .collect(),
            files: marked.chain(jobs).collect(),
            segments: segments.unwrap_or(0),
            groups: groups(Path::new("/sys/fs/cgroup"), cluster),
            uids: uids(),
        }
    }

    fn without(self, before: &Self) -> Self {
        Self {
            processes: &self.processes - &before.processes,
            mounts: &self.mounts - &before.mounts,
            files: &self.files - &before.files,
            segments: self.segments.saturating_sub(before.segments),
            groups: &self.groups - &before.groups,
            uids: &self.uids - &before.uids,
        }
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn named(dir: &Path, part: &str) -> Vec<PathBuf> {
    let has = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(part));
    entries(dir).into_iter().filter(has).collect()
}

/// Control groups of attempts: `NODE.UID.ATTEMPT`, below any folder.
fn groups(root: &Path, cluster: &Cluster) -> BTreeSet<PathBuf> {
    let (mut found, mut open) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(dir) = open.pop() {
        for path in entries(&dir).into_iter().filter(|path| path.is_dir() && !path.is_symlink()) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let attempt = (name.starts_with("n0.") || name.starts_with("n1.")) && name.len() > 38;
            if attempt && fs::read_to_string(path.join("cgroup.procs")).is_ok() {
                found.insert(path.clone());
            }
            open.push(path);
        }
    }
    let _ = cluster;
    found
}

/// Users above those of people and services that have processes.
fn uids() -> BTreeSet<u32> {
    use std::os::unix::fs::MetadataExt;
    let pids = entries(Path::new("/proc")).into_iter().filter(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().bytes().all(|digit| digit.is_ascii_digit()))
    });
    let uid = |path: PathBuf| fs::metadata(path).ok().map(|meta| meta.uid());
    pids.filter_map(uid).filter(|uid| *uid >= 20_000 && *uid != 65_534).collect()
}

/// The outcome of all jobs.
#[derive(Debug, Default)]
struct Outcome {
    jobs: usize,
    failed: Vec<String>,
    read: Vec<String>,
    attempts: usize,
    stays: Vec<Stay>,
}

/// Where and when a job was.
#[derive(Debug)]
struct Stay {
    tenant: String,
    node: String,
    /// When the job started, in seconds since 1970.
    from: f64,
    until: f64,
}

impl Outcome {
    /// Jobs during which one of the other tenant was on their server.
    fn beside(&self) -> usize {
        let meets = |one: &&Stay| {
            let met = |other: &Stay| {
                other.tenant != one.tenant
                    && other.node == one.node
                    && other.from < one.until
                    && one.from < other.until
            };
            self.stays.iter().any(met)
        };
        self.stays.iter().filter(meets).count()
    }
}

fn stay(tenant: &str, status: &v1::JobStatus) -> Option<Stay> {
    let seconds = |time: &prost_types::Timestamp| time.seconds as f64 + f64::from(time.nanos) / 1e9;
    let node = status.placement.as_ref()?.nodes.first()?.node.clone();
    let (from, until) = (status.start_time.as_ref().map(seconds)?, status.end_time.as_ref().map(seconds)?);
    Some(Stay { tenant: tenant.to_owned(), node, from, until })
}

async fn all(access: &Access, program: &Path, count: usize) -> Result<Outcome, String> {
    let admin = access.client()?;
    for name in TENANTS {
        let metadata = v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() };
        let quota = v1::Quota { gpus: 16, ..v1::Quota::default() };
        let spec = v1::TenantSpec { quota: Some(quota), ..v1::TenantSpec::default() };
        let tenant = v1::Tenant { metadata: Some(metadata), spec: Some(spec), ..v1::Tenant::default() };
        let request = v1::ApplyTenantRequest { tenant: Some(tenant), ..v1::ApplyTenantRequest::default() };
        TenantServiceClient::new(admin.clone()).apply_tenant(request).await.map_err(text)?;
    }
    let mut workers = JoinSet::new();
    for worker in 0..AHEAD * TENANTS.len() {
        let (client, program) = (admin.clone(), program.display().to_string());
        workers.spawn(async move {
            let mut outcome = Outcome::default();
            let mut number = worker;
            while number < count {
                let tenant = TENANTS[number % TENANTS.len()];
                one(&client, &program, tenant, number, &mut outcome).await?;
                number += AHEAD * TENANTS.len();
            }
            Ok::<Outcome, String>(outcome)
        });
    }
    let mut sum = Outcome::default();
    while let Some(done) = workers.join_next().await {
        let part = done.map_err(text)??;
        sum.jobs += part.jobs;
        sum.failed.extend(part.failed);
        sum.read.extend(part.read);
        sum.attempts = sum.attempts.max(part.attempts);
        sum.stays.extend(part.stays);
    }
    Ok(sum)
}

/// One job: submitted, waited for, its output read.
async fn one(
    client: &Client,
    program: &str,
    tenant: &str,
    number: usize,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let name = format!("x4-{number}");
    let mut job = command_job(&name, 1, &[program, "neighbour"]);
    if let Some(v1::job_spec::Work::Command(command)) = job.spec.as_mut().and_then(|spec| spec.work.as_mut())
    {
        command.env.insert("X4_SECRET".to_owned(), format!("x4-secret-{tenant}-{number}"));
    }
    if let Some(spec) = job.spec.as_mut() {
        spec.rails = Some(v1::RailRequest { none: true, ..v1::RailRequest::default() });
    }
    let request_id = uuid::Uuid::new_v4().to_string();
    let request = v1::CreateJobRequest {
        job: Some(job),
        request_id,
        on_behalf_of: tenant.to_owned(),
        ..v1::CreateJobRequest::default()
    };
    let mut jobs = JobServiceClient::new(client.clone());
    jobs.create_job(request).await.map_err(text)?;
    outcome.jobs += 1;
    let begin = Instant::now();
    let job = loop {
        let get = v1::GetJobRequest { name: name.clone(), tenant: tenant.to_owned() };
        let job = jobs.get_job(get).await.map_err(text)?.into_inner();
        let phase = job.status.as_ref().map(v1::JobStatus::phase).unwrap_or_default();
        use v1::job_status::Phase;
        if matches!(phase, Phase::Completed | Phase::Failed | Phase::Cancelled) {
            break job;
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("job {name} is {phase:?}"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let status = job.status.unwrap_or_default();
    let request =
        v1::StreamLogsRequest { name: name.clone(), tenant: tenant.to_owned(), ..Default::default() };
    let mut output = Vec::new();
    let mut chunks = jobs.stream_logs(request).await.map_err(text)?.into_inner();
    while let Some(chunk) = chunks.message().await.map_err(text)? {
        output.extend(chunk.data);
    }
    let output = String::from_utf8_lossy(&output).into_owned();
    let Some(attempts) = output.lines().find_map(|line| line.strip_prefix("x4 tries ")) else {
        outcome.failed.push(format!("{name}: {:?} {:?} {output:.200}", status.phase(), status.reasons));
        return Ok(());
    };
    outcome.attempts = attempts.parse().unwrap_or(0);
    outcome.stays.extend(stay(tenant, &status));
    outcome.read.extend(
        output
            .lines()
            .filter(|line| line.starts_with("x4 read "))
            .map(|line| format!("{tenant} {name}: {line}")),
    );
    Ok(())
}
