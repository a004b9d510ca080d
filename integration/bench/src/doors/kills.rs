//! S2: slurmctld, of each version, and the controller are killed while jobs are submitted, held, run and given back.

use std::{
    thread,
    time::{Duration, Instant},
};

use integration_harness::{
    procfs,
    slurm::{
        Version,
        beside::{JointSite, Options},
        missing, programs,
    },
};
use proto_random::Random;
use serde_json::json;

use super::{
    settings::Bench,
    slurm::{LONGEST, NODES, SEED, SIZES, left},
};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Jobs of each kill.
const JOBS: usize = 2;
/// The longest time between their submit and the kill.
const SPREAD: Duration = Duration::from_millis(2500);
/// slurmctld is back within this time.
const BACK: Duration = Duration::from_secs(60);

/// What became of the jobs.
#[derive(Default)]
struct Fates {
    completed: usize,
    /// Those that slurmctld has forgotten: it had accepted them, and was killed before they were on its disk.
    forgotten: Vec<String>,
    /// Those that it knows, and that have not completed.
    lost: Vec<String>,
}

/// Row S2.
///
/// # Errors
/// Slurm or the cluster does not start, or does not come back.
pub fn survived(row: &Row<'_>, bench: &Bench) -> Result<(), String> {
    for version in Version::ALL {
        if programs(version).is_none() {
            row.void(&format!("{version}: all"), &missing(version));
        } else {
            survived_by(version, row, bench)?;
        }
    }
    Ok(())
}

fn survived_by(version: Version, row: &Row<'_>, bench: &Bench) -> Result<(), String> {
    let kills = if bench.quick { 6 } else { 50 };
    let options =
        Options { version, nodes: &NODES, submit: "500ms", prolog: "2m", serve: &["--every", "2s"] };
    let mut site = JointSite::up(&options)?;
    let (cpu, mut random, mut fates, mut seconds) =
        (Cpu::start(), Random::new(SEED), Fates::default(), Vec::new());
    for kill in 0..kills {
        let begin = Instant::now();
        let mut jobs = Vec::new();
        for _ in 0..JOBS {
            jobs.push(submit(&site, SIZES[random.index(SIZES.len())])?);
        }
        let spread = usize::try_from(SPREAD.as_millis()).unwrap_or(usize::MAX);
        thread::sleep(Duration::from_millis(random.index(spread) as u64));
        if kill % 2 == 0 {
            site.slurm.restart()?;
        } else {
            kill_controller(&site)?;
        }
        ended(&site, &jobs)?;
        jobs.iter().for_each(|job| fates.note(job, &site));
        seconds.push(begin.elapsed().as_secs_f64());
    }
    let left = left(&site)?;
    let (cpu, sample) = (cpu.cores(), Sample::new(seconds));
    let peers = json!({"kills": kills, "jobs": kills * JOBS, "completed": fates.completed, "forgotten": fates.forgotten,
        "lost": fates.lost, "left": left.first()});
    let line = |case: &str, value: usize, goal| {
        row.line(&Line {
            case: &format!("{version}: {case}"),
            value: value as f64,
            unit: "",
            goal,
            sample: &sample,
            cpu,
            peers: peers.clone(),
        });
    };
    line("jobs lost that slurmctld knows", fates.lost.len(), Goal::AtMost(0.0));
    line("allocations left", left.len(), Goal::AtMost(0.0));
    line("jobs that slurmctld has forgotten", fates.forgotten.len(), Goal::None);
    Ok(())
}

impl Fates {
    fn note(&mut self, job: &str, site: &JointSite) {
        match site.field(job, "JobState") {
            Ok(state) if state == "COMPLETED" => self.completed += 1,
            Ok(state) => self.lost.push(format!("job {job} is {state}")),
            Err(_) => self.forgotten.push(job.to_owned()),
        }
    }
}

/// Submits a job as a user would who tries again while slurmctld is away.
fn submit(site: &JointSite, nodes: usize) -> Result<String, String> {
    let nodes = format!("--nodes={nodes}");
    let arguments = ["--parsable", "--output=/dev/null", &nodes, "--wrap=true"];
    again(|| site.slurm.run("sbatch", &arguments))
}

/// The answer of a Slurm that is back soon.
fn again<T>(ask: impl Fn() -> Result<T, String>) -> Result<T, String> {
    let begin = Instant::now();
    loop {
        match ask() {
            Err(error) if begin.elapsed() > BACK => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(100)),
            done => return done,
        }
    }
}

fn kill_controller(site: &JointSite) -> Result<(), String> {
    let folder = site.cluster.dir().display().to_string();
    let found = procfs::find(&["rail-controller", "run", &folder]);
    let [id] = found[..] else { return Err(format!("controllers that run: {found:?}")) };
    procfs::kill(id)?;
    site.cluster.revive()
}

/// Waits until Slurm has none of them any more.
fn ended(site: &JointSite, jobs: &[String]) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let listed = again(|| site.slurm.run("squeue", &["--noheader", "--all", "--format=%A"]))?;
        let Some(job) = jobs.iter().find(|job| listed.lines().any(|line| line.trim() == job.as_str())) else {
            return Ok(());
        };
        if begin.elapsed() > LONGEST {
            return Err(format!("job {job} does not end:\n{}", site.slurm.said()));
        }
        thread::sleep(Duration::from_millis(100));
    }
}
