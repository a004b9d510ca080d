//! Row Y4: how a list of ten thousand jobs feels: what it takes to print it, and to watch it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use integration_harness::{Access, Cluster, Shape, eventually, procfs::cpu_seconds};
use proto_rpc::Client;
use proto_wire::v1::{self, job_service_client::JobServiceClient};
use serde_json::json;
use tokio::runtime::Runtime;

use super::Bench;
use crate::{
    command_job::{command_job, text},
    report::{self, Cpu, Goal, Line, Sample},
};

/// Jobs of one array; ten of these are the list.
const ARRAY: u32 = 1000;
/// More than a pipe holds: a program that has so much left to print has not ended.
const LEFT: usize = 128 * 1024;
/// Changes of jobs per second while somebody watches.
const CHANGES: u64 = 20;

/// Measures all of it.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure(row: &report::Row<'_>, bench: &Bench) -> Result<(), String> {
    let (arrays, runs, seconds) = if bench.quick { (4, 3, 3) } else { (10, 10, 10) };
    let cluster = Cluster::up(&Shape { nodes: 1, rails: 1, gpus: 1, ..Shape::default() })?;
    let access = Access::of(&cluster)?;
    let runtime = Runtime::new().map_err(text)?;
    runtime.block_on(fill(&access, arrays))?;
    let jobs = arrays * ARRAY;
    for (words, time, memory) in [
        (&["get", "jobs"][..], Goal::AtMost(0.3), Goal::AtMost(50.0)),
        (&["get", "jobs", "-o", "wide"], Goal::None, Goal::None),
        (&["get", "jobs", "-o", "json"], Goal::None, Goal::None),
    ] {
        let list = List { cluster: &cluster, words, jobs };
        list.time(row, runs, time)?;
        list.memory(row, runs, memory)?;
    }
    // Of the jobs that run `top` shows the state again and again, others are not there for it.
    for (words, lines) in [(&["get", "jobs", "-w"][..], jobs), (&["top", "jobs", "-w"], 1)] {
        List { cluster: &cluster, words, jobs }.watch(row, &runtime, &access, (seconds, lines))?;
    }
    Ok(())
}

/// One job holds the only node, the others wait.
async fn fill(access: &Access, arrays: u32) -> Result<(), String> {
    let mut jobs = JobServiceClient::new(access.client()?);
    let mut all = vec![command_job("holder", 1, &["/bin/sleep", "100000"])];
    for array in 0..arrays {
        let mut job = command_job(&format!("train-{array}"), 1, &["/bin/true"]);
        job.spec.get_or_insert_default().array = format!("0-{}", ARRAY - 1);
        all.push(job);
    }
    for job in all {
        let request_id = uuid::Uuid::new_v4().to_string();
        let request = v1::CreateJobRequest {
            job: Some(job),
            request_id,
            on_behalf_of: "dev".to_owned(),
            ..v1::CreateJobRequest::default()
        };
        jobs.create_job(request).await.map_err(text)?;
    }
    Ok(())
}

/// A way to print the list.
struct List<'a> {
    cluster: &'a Cluster,
    words: &'a [&'a str],
    jobs: u32,
}

impl List<'_> {
    fn name(&self) -> String {
        format!("`railctl {}` of {} jobs", self.words.join(" "), self.jobs)
    }

    fn start(&self) -> Result<(Child, ChildStdout), String> {
        let mut command: Command = self.cluster.command(self.words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("cannot start railctl: {error}"))?;
        let out = child.stdout.take().ok_or("no pipe")?;
        Ok((child, out))
    }

    /// Prints it once: how long that takes, and how many bytes there are.
    fn once(&self) -> Result<(f64, usize), String> {
        let begin = Instant::now();
        let (mut child, mut out) = self.start()?;
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map_err(text)?;
        let status = child.wait().map_err(text)?;
        let took = begin.elapsed().as_secs_f64();
        let lines = bytes.split(|byte| *byte == b'\n').count();
        if !status.success() || lines <= self.jobs as usize {
            return Err(format!("{}: {status}, {lines} lines", self.name()));
        }
        Ok((took, bytes.len()))
    }

    fn time(&self, row: &report::Row<'_>, runs: u32, goal: Goal) -> Result<(), String> {
        let cpu = Cpu::start();
        let taken: Result<Vec<f64>, String> = (0..runs).map(|_| self.once().map(|(took, _)| took)).collect();
        let sample = Sample::new(taken?);
        let case = format!("{}: time", self.name());
        let value = sample.median();
        row.line(&Line {
            case: &case,
            value,
            unit: "s",
            goal,
            sample: &sample,
            cpu: cpu.cores(),
            peers: json!({}),
        });
        Ok(())
    }

    fn memory(&self, row: &report::Row<'_>, runs: u32, goal: Goal) -> Result<(), String> {
        let (_, bytes) = self.once()?;
        let cpu = Cpu::start();
        let peaks: Result<Vec<(f64, f64)>, String> = (0..runs).map(|_| self.peak(bytes)).collect();
        let (peaks, seconds): (Vec<f64>, Vec<f64>) = peaks?.into_iter().unzip();
        let sample = Sample::new(peaks);
        let case = format!("{}: peak memory", self.name());
        let (value, peers) =
            (sample.quantile(1.0), json!({"bytes": bytes, "cpu_s": Sample::new(seconds).median()}));
        row.line(&Line { case: &case, value, unit: "MiB", goal, sample: &sample, cpu: cpu.cores(), peers });
        Ok(())
    }

    /// The most memory that it had, in MiB, and the seconds that it was at work, asked for while it waits for the reader of its last
    /// lines.
    fn peak(&self, bytes: usize) -> Result<(f64, f64), String> {
        let (mut child, mut out) = self.start()?;
        let most = bytes.checked_sub(LEFT).ok_or("the list is too short to see its end come")?;
        let mut read = vec![0; most];
        out.read_exact(&mut read).map_err(text)?;
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).map_err(text)?;
        let seconds = cpu_seconds(child.id());
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        out.read_to_end(&mut read).map_err(text)?;
        child.wait().map_err(text)?;
        kib.map(|kib| (kib / 1024.0, seconds)).ok_or_else(|| "the kernel tells no VmHWM".to_owned())
    }

    /// The share of a core that it takes while jobs change.
    fn watch(
        &self,
        row: &report::Row<'_>,
        runtime: &Runtime,
        access: &Access,
        (seconds, expected): (u64, u32),
    ) -> Result<(), String> {
        let case = format!("{} of which {CHANGES} a second change: share of a core", self.name());
        let (mut child, out) = self.start()?;
        let lines = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lines);
        let reader = thread::spawn(move || {
            let each = BufReader::new(out).split(b'\n').map_while(Result::ok);
            each.for_each(|_| _ = counted.fetch_add(1, Ordering::Relaxed));
        });
        let all = || lines.load(Ordering::Relaxed) >= u64::from(expected);
        let ended = |child: &mut Child| child.try_wait().ok().flatten().is_some();
        let listed = eventually("the whole list", Duration::from_secs(30), || {
            if ended(&mut child) { Some(false) } else { all().then_some(true) }
        });
        if listed != Ok(true) {
            child.kill().and_then(|()| child.wait()).map_err(text)?;
            row.void(&case, "there is no such command, or it does not print the list");
            return Ok(());
        }
        let (cpu, before, printed) = (Cpu::start(), cpu_seconds(child.id()), lines.load(Ordering::Relaxed));
        let begin = Instant::now();
        let changed = runtime.block_on(async { change(access.client()?, seconds).await });
        let share = 100.0 * (cpu_seconds(child.id()) - before) / begin.elapsed().as_secs_f64();
        let printed = lines.load(Ordering::Relaxed) - printed;
        child.kill().and_then(|()| child.wait()).map_err(text)?;
        let _ = reader.join();
        let (sample, goal) = (Sample::new(vec![share]), Goal::AtMost(2.0));
        let peers = json!({"changes": changed?, "lines": printed, "seconds": seconds});
        let line =
            Line { case: &case, value: share, unit: "%", goal, sample: &sample, cpu: cpu.cores(), peers };
        row.line(&line);
        Ok(())
    }
}

/// Holds and releases jobs in turn; gives how often.
async fn change(client: Client, seconds: u64) -> Result<u64, String> {
    let mut jobs = JobServiceClient::new(client);
    let mut beat = tokio::time::interval(Duration::from_millis(1000 / CHANGES));
    let changes = seconds * CHANGES;
    for change in 0..changes {
        beat.tick().await;
        let (tenant, request_id) = ("dev".to_owned(), uuid::Uuid::new_v4().to_string());
        let name = format!("train-0-{}", change / 2);
        if change % 2 == 0 {
            let request = v1::HoldJobRequest { name, tenant, request_id, ..Default::default() };
            jobs.hold_job(request).await.map_err(text)?;
        } else {
            let request = v1::ReleaseJobRequest { name, tenant, request_id, ..Default::default() };
            jobs.release_job(request).await.map_err(text)?;
        }
    }
    Ok(changes)
}
