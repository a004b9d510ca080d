//! S1: jobs submitted to a real Slurm of each version through `job_submit.lua`, prolog and epilog, on eight servers in two pods.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use integration_harness::slurm::{
    Version,
    beside::{JointSite, Options},
    missing, programs,
};
use proto_random::Random;
use serde_json::{Value, json};

use super::settings::Bench;
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// The nodes; a pod has half of them.
pub const NODES: [&str; 8] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"];
/// Nodes of a job; one of these by chance.
pub const SIZES: [usize; 8] = [1, 2, 2, 3, 4, 4, 6, 8];
/// Jobs that Slurm has at a time: so many that some have to wait.
const AT_A_TIME: usize = 4;
/// A job that has not ended after this time never will.
pub const LONGEST: Duration = Duration::from_secs(300);
/// What is held for jobs that have ended is given back within this time.
const GIVEN_BACK: Duration = Duration::from_secs(30);
/// Of sizes, and of when something is killed.
pub const SEED: u64 = 1;
/// Phases of jobs that hold servers, or will.
const ACTIVE: [&str; 5] = ["PENDING", "RESERVED", "PREPARING", "RUNNING", "RECOVERING"];

/// What became of the jobs.
#[derive(Default)]
struct Seen {
    /// Jobs that were given servers, asked for shared leaves, or went wherever Slurm liked.
    given: usize,
    together: usize,
    anywhere: usize,
    /// Those that ran otherwise than they were told, or did not complete.
    wrong: Vec<String>,
    /// Seconds from submit until it was seen to have ended.
    seconds: Vec<f64>,
}

/// Row S1.
///
/// # Errors
/// Slurm or the cluster does not start, or does not answer.
pub fn placed(row: &Row<'_>, bench: &Bench) -> Result<(), String> {
    for version in Version::ALL {
        if programs(version).is_none() {
            row.void(&format!("{version}: all"), &missing(version));
        } else {
            placed_by(version, row, bench)?;
        }
    }
    Ok(())
}

fn placed_by(version: Version, row: &Row<'_>, bench: &Bench) -> Result<(), String> {
    let jobs = if bench.quick { 40 } else { 1000 };
    let options =
        Options { version, nodes: &NODES, submit: "500ms", prolog: "2m", serve: &["--every", "2s"] };
    let site = JointSite::up(&options)?;
    let cpu = Cpu::start();
    let (seen, asked, others) = run(&site, jobs)?;
    let left = left(&site)?;
    let cpu = cpu.cores();
    let share = 100.0 * (jobs - seen.wrong.len()) as f64 / jobs as f64;
    let line = |case: &str, value, unit, goal, sample: &Sample, peers: Value| {
        row.line(&Line { case: &format!("{version}: {case}"), value, unit, goal, sample, cpu, peers });
    };
    let first: Vec<&String> = seen.wrong.iter().take(3).collect();
    let peers = json!({"jobs": jobs, "given_servers": seen.given, "shared_leaves": seen.together, "anywhere": seen.anywhere, "wrong": first});
    line(
        "jobs that ran as the placer said",
        share,
        "%",
        Goal::AtLeast(100.0),
        &Sample::new(vec![share]),
        peers,
    );
    let peers = json!({"first": left.first()});
    let count = left.len() as f64;
    line("allocations left", count, "", Goal::AtMost(0.0), &Sample::new(vec![count]), peers);
    let times = usec(&site)?;
    let of = |ids: &[String]| -> Vec<f64> {
        ids.iter().filter_map(|id| times.get(id)).map(|usec| *usec as f64 / 1000.0).collect()
    };
    let (with, without) = (Sample::new(of(&asked)), Sample::new(of(&others)));
    let more = with.quantile(0.99) - without.median();
    let peers =
        json!({"asked": with.spread(), "not_asked": without.spread(), "asked_p99": with.quantile(0.99)});
    line("submit, p99, beyond one without a question", more, "ms", Goal::AtMost(5.0), &with, peers);
    let seconds = Sample::new(seen.seconds);
    line("from submit to end", seconds.median(), "s", Goal::None, &seconds, json!({}));
    Ok(())
}

/// Submits all, a few at a time; also the numbers of jobs of which Railyard was asked, and of those of which it was not.
fn run(site: &JointSite, jobs: usize) -> Result<(Seen, Vec<String>, Vec<String>), String> {
    let mut random = Random::new(SEED);
    let mut seen = Seen::default();
    let mut running: BTreeMap<String, Instant> = BTreeMap::new();
    let (mut asked, mut others) = (Vec::new(), Vec::new());
    let submit = |arguments: &[&str]| {
        let all = [&["--parsable", "--output=/dev/null", "--wrap=true"], arguments].concat();
        site.slurm.run("sbatch", &all)
    };
    while asked.len() < jobs || !running.is_empty() {
        while asked.len() < jobs && running.len() < AT_A_TIME {
            // In turn with one that is held, of which nobody is asked.
            let held = submit(&["--nodes=1", "--hold"])?;
            site.slurm.run("scancel", &[&held])?;
            others.push(held);
            let size = format!("--nodes={}", SIZES[random.index(SIZES.len())]);
            let begin = Instant::now();
            let id = submit(&[&size])?;
            asked.push(id.clone());
            running.insert(id, begin);
        }
        let listed = site.slurm.run("squeue", &["--noheader", "--all", "--format=%A"])?;
        let alive: Vec<&str> = listed.lines().map(str::trim).collect();
        let ended: Vec<String> = running.keys().filter(|id| !alive.contains(&id.as_str())).cloned().collect();
        for id in ended {
            let begin = running.remove(&id).unwrap_or_else(Instant::now);
            seen.seconds.push(begin.elapsed().as_secs_f64());
            judge(site, &id, &mut seen)?;
        }
        if let Some((id, _)) = running.iter().find(|(_, begin)| begin.elapsed() > LONGEST) {
            return Err(format!("job {id} does not end:\n{}", site.slurm.said()));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok((seen, asked, others))
}

/// Whether a job that has ended ran as it should.
fn judge(site: &JointSite, id: &str, seen: &mut Seen) -> Result<(), String> {
    let field = |name: &str| site.field(id, name);
    let (state, ran, wanted) = (field("JobState")?, field("NodeList")?, field("ReqNodeList")?);
    if state != "COMPLETED" {
        seen.wrong.push(format!("job {id} is {state}"));
        return Ok(());
    }
    if wanted != "(null)" {
        seen.given += 1;
        if ran != wanted {
            seen.wrong.push(format!("job {id} ran on {ran}, and was given {wanted}"));
        }
    } else if field("Switches")?.starts_with("1@") {
        seen.together += 1;
        let names = site.slurm.run("scontrol", &["show", "hostnames", &ran])?;
        let pods: Vec<Option<bool>> =
            names.lines().map(|name| NODES.iter().position(|node| *node == name).map(|at| at < 4)).collect();
        if pods.windows(2).any(|two| two[0] != two[1]) {
            seen.wrong.push(format!("job {id} ran on {ran}, which do not share their leaves"));
        }
    } else {
        seen.anywhere += 1;
    }
    Ok(())
}

/// Names of allocations that are held though no job is there.
///
/// # Errors
/// The controller does not answer.
pub fn left(site: &JointSite) -> Result<Vec<String>, String> {
    let begin = Instant::now();
    loop {
        let list = site.cluster.json(&["get", "jobs", "--tenant", "dev"])?;
        let all = list["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_active =
            |job: &&Value| job["status"]["phase"].as_str().is_some_and(|phase| ACTIVE.contains(&phase));
        let name = |job: &Value| job["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let held: Vec<String> = all.iter().filter(is_active).map(name).collect();
        if held.is_empty() || begin.elapsed() > GIVEN_BACK {
            return Ok(held);
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// How long slurmctld took for each submit, in microseconds, by the job's number.
fn usec(site: &JointSite) -> Result<BTreeMap<String, u64>, String> {
    let log = site.slurm.log("slurmctld.out")?;
    let of = |line: &str| {
        let rest = line.split_once("_slurm_rpc_submit_batch_job: JobId=")?.1;
        let id = rest.split_whitespace().next()?;
        Some((id.to_owned(), rest.split_once("usec=")?.1.trim().parse().ok()?))
    };
    Ok(log.lines().filter_map(of).collect())
}
