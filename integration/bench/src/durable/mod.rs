//! D7: submits that are on etcd's disk when they are acknowledged, side by side with slurmctld, which writes nothing through
//! before it answers. Both take turns on the same cores, each with an empty queue; all jobs wait.

mod slurm;

use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use integration_harness::{Controllers, Etcd, binaries};
use proto_rpc::{Client, ClientOptions};
use proto_wire::v1::{self, job_service_client::JobServiceClient};
use serde_json::json;
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    command_job::{command_job, text},
    report::{Cpu, Goal, Line, Row, Sample, round},
    survival,
};
use slurm::Ground;

/// Clients at a time.
const CLIENTS: usize = 8;
/// Submits per second of the open loop.
const RATE: u32 = 1_000;
const JOB: &str = "\
apiVersion: rail/v1
kind: Job
metadata: {generateName: cli-}
spec:
  gang: {nodes: 1, gpusPerNode: 0}
  command: {argv: [/bin/true]}
";

/// Ours, on an empty etcd.
struct Ours {
    controllers: Controllers,
    runtime: Runtime,
    _etcd: Etcd,
}

impl Ours {
    fn start() -> Result<Self, String> {
        let etcd = Etcd::start(1, &[])?;
        let flags = ["--store", "etcd", "--etcd-endpoints", &etcd.endpoints()].map(str::to_owned);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let controllers = Controllers::start(1, &flags)?;
        let runtime = Runtime::new().map_err(text)?;
        let ours = Self { controllers, runtime, _etcd: etcd };
        ours.runtime.block_on(async { survival::join(&ours.client()?).await })?;
        Ok(ours)
    }

    fn client(&self) -> Result<Client, String> {
        self.controllers.client(&[0], &ClientOptions::default())
    }

    /// As `Slurm::submit`, with a connection for each client.
    fn submit(&self, clients: usize, seconds: u64, rate: u32) -> Result<(f64, Vec<f64>), String> {
        self.runtime.block_on(async {
            let (mut tasks, mut callers) = (JoinSet::new(), Vec::new());
            for which in 0..clients {
                let mut jobs = JobServiceClient::new(self.client()?);
                jobs.list_jobs(v1::ListJobsRequest { page_size: 1, ..Default::default() })
                    .await
                    .map_err(text)?;
                callers.push((which, jobs));
            }
            let begin = Instant::now();
            let end = begin + Duration::from_secs(seconds);
            for (which, mut jobs) in callers {
                tasks.spawn(async move {
                    let mut taken = Vec::new();
                    loop {
                        let after = (taken.len() * clients + which) as f64 / f64::from(rate);
                        let due =
                            if rate == 0 { Instant::now() } else { begin + Duration::from_secs_f64(after) };
                        if due >= end {
                            return Ok::<_, String>(taken);
                        }
                        tokio::time::sleep_until(due.into()).await;
                        jobs.create_job(request(&format!("d7-{which}-{}", taken.len())))
                            .await
                            .map_err(text)?;
                        taken.push(due.elapsed().as_secs_f64() * 1e3);
                    }
                });
            }
            let mut all = Vec::new();
            while let Some(done) = tasks.join_next().await {
                all.append(&mut done.map_err(text)??);
            }
            Ok((begin.elapsed().as_secs_f64(), all))
        })
    }

    fn railctl(&self, shell: &str) -> Result<Command, String> {
        let folder = self.controllers.folder(0);
        fs::write(folder.join("job.yaml"), JOB).map_err(text)?;
        let mut command = Command::new("sh");
        let railctl = binaries::directory()?.join("railctl");
        command.arg("-c").arg(shell.replace("SUBMIT", &format!("{} submit job.yaml", railctl.display())));
        command.env("RAIL_CONTROLLER", self.controllers.addresses()).env("RAIL_TENANT", "default");
        for (name, file) in [("RAIL_CA", "ca.pem"), ("RAIL_CERT", "admin.pem"), ("RAIL_KEY", "admin.key")] {
            command.env(name, folder.join(file));
        }
        command.current_dir(folder);
        Ok(command)
    }
}

fn request(name: &str) -> v1::CreateJobRequest {
    let mut job = command_job(name, 1, &["/bin/true"]);
    if let Some(gang) = job.spec.as_mut().and_then(|spec| spec.gang.as_mut()) {
        // The node that has joined never says what it has.
        gang.gpus_per_node = 0;
    }
    let request_id = uuid::Uuid::new_v4().to_string();
    v1::CreateJobRequest {
        job: Some(job),
        request_id,
        on_behalf_of: "default".to_owned(),
        ..v1::CreateJobRequest::default()
    }
}

/// So many submits by eight shells; answers how many there were per second.
fn by_shell(mut command: Command, count: usize) -> Result<f64, String> {
    let begin = Instant::now();
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output().map_err(text)?;
    let time = begin.elapsed().as_secs_f64();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).lines().take(3).collect::<Vec<_>>().join("; "));
    }
    Ok(count as f64 / time)
}

/// What both sides did in turn.
#[derive(Default)]
struct Turns {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Turns {
    fn ratios(&self) -> Sample {
        Sample::new(self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect())
    }
}

/// Measures all three cases of row D7.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure(row: &Row<'_>, quick: bool) -> Result<(), String> {
    let mut ground = match Ground::new() {
        Ok(ground) => ground,
        Err(missing) => {
            row.void("durable submits on etcd beside slurmctld", &missing);
            return Ok(());
        }
    };
    let (rounds, seconds, count) = if quick { (1, 2, 200) } else { (5, 3, 400) };
    let place = ground.place();
    rates(row, &mut ground, (rounds, seconds), place)?;
    by_command(row, &mut ground, (rounds, count))?;
    open_loop(row, &mut ground, (rounds, seconds))
}

fn rates(
    row: &Row<'_>,
    ground: &mut Ground,
    (rounds, seconds): (u32, u64),
    place: &str,
) -> Result<(), String> {
    let (mut turns, cpu) = (Turns::default(), Cpu::start());
    for _ in 0..rounds {
        let (time, taken) = ground.start()?.submit(CLIENTS, seconds, 0)?;
        turns.theirs.push(taken.len() as f64 / time);
        let (time, taken) = Ours::start()?.submit(CLIENTS, seconds, 0)?;
        turns.ours.push(taken.len() as f64 / time);
    }
    let (cores, ratios) = (cpu.cores(), turns.ratios());
    row.line(&Line {
        case: "durable submits per second on etcd, 8 clients, over slurmctld's by libslurm, 8 processes",
        value: ratios.median(),
        unit: "x",
        goal: Goal::AtLeast(2.0),
        sample: &ratios,
        cpu: cores,
        peers: json!({
            "ours": Sample::new(turns.ours).spread(), "slurmctld": Sample::new(turns.theirs).spread(),
            "slurmctld_state_on": place,
        }),
    });
    Ok(())
}

fn by_command(row: &Row<'_>, ground: &mut Ground, (rounds, count): (u32, usize)) -> Result<(), String> {
    let shell = format!("seq {count} | xargs -P {CLIENTS} -n 1 sh -c 'SUBMIT' _");
    let (mut turns, cpu) = (Turns::default(), Cpu::start());
    for _ in 0..rounds {
        turns.theirs.push(by_shell(ground.start()?.sbatch(&shell), count)?);
        let ours = Ours::start()?;
        turns.ours.push(by_shell(ours.railctl(&shell)?, count)?);
    }
    let (cores, ratios) = (cpu.cores(), turns.ratios());
    row.line(&Line {
        case: "railctl submit per second by 8 shells, over sbatch",
        value: ratios.median(),
        unit: "x",
        goal: Goal::AtLeast(1.0),
        sample: &ratios,
        cpu: cores,
        peers: json!({
            "railctl": Sample::new(turns.ours).spread(), "sbatch": Sample::new(turns.theirs).spread(),
        }),
    });
    Ok(())
}

fn open_loop(row: &Row<'_>, ground: &mut Ground, (rounds, seconds): (u32, u64)) -> Result<(), String> {
    let (mut turns, cpu) = (Turns::default(), Cpu::start());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut turn = ground.start()?.submit(CLIENTS, seconds, RATE)?.1;
        turns.theirs.push(Sample::new(turn.clone()).quantile(0.99));
        theirs.append(&mut turn);
        let mut turn = Ours::start()?.submit(CLIENTS, seconds, RATE)?.1;
        turns.ours.push(Sample::new(turn.clone()).quantile(0.99));
        ours.append(&mut turn);
    }
    let cores = cpu.cores();
    let (ours, theirs) = (Sample::new(ours), Sample::new(theirs));
    let figures = |sample: &Sample| json!({"submits": sample.len(), "p50_ms": round(sample.quantile(0.5)), "p99_ms": round(sample.quantile(0.99))});
    let rounds = Sample::new(turns.ours);
    row.line(&Line {
        case: "p99 of a durable submit on etcd at 1,000 per second, open loop",
        value: ours.quantile(0.99),
        unit: "ms",
        goal: Goal::AtMost(25.0),
        sample: &rounds,
        cpu: cores,
        peers: json!({
            "ours": figures(&ours), "slurmctld": figures(&theirs), "slurmctld_p99_ms": Sample::new(turns.theirs).spread(),
        }),
    });
    Ok(())
}
