//! C3: what a million GPUs and a million jobs take in memory, and how long the snapshot takes to follow one event.

use std::{
    collections::BTreeMap,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use controller_scheduler::{Choice, Gate, Need, Placer, RailNeed, Snapshot};
use controller_topology::RailSet;
use proto_model::{
    CommandSpec, FailurePolicy, Gang, Job, JobId, JobName, JobSpec, JobStatus, JobUid, NodeName, Phase,
    Reason, ReasonCode, Requeue, TenantName, Timestamp, Work,
};
use serde_json::json;

use super::{Bench, site};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Measures both at 125,000 nodes.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn memory(row: &Row, bench: &Bench) -> Result<(), String> {
    let (nodes, jobs) = if bench.quick { (12_500, 100_000) } else { (125_000, 1_000_000) };
    let cpu = Cpu::start();
    let before = resident()?;
    let mut snapshot = site::cluster(&site::even(nodes, 1, 64), 5);
    let mut placer = Placer::default();
    let cluster = resident()?;
    // Views of many kinds of requests.
    let (mut dice, mut choice) = (site::Dice::new(6), Choice::default());
    for _ in 0..2_000 {
        let need = site::needs(&mut dice, &snapshot, 8);
        placer.choose(snapshot.capacity_index(), &need, None, &mut choice);
    }
    let views = resident()?;
    let records = records(jobs)?;
    let all = resident()?;
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let peers = json!({
        "cluster_gib": gib(cluster - before), "views_gib": gib(views.saturating_sub(cluster)), "jobs_gib": gib(all.saturating_sub(views)),
        "jobs": records.len(),
    });
    let sample = Sample::new(vec![gib(all - before)]);
    let case = format!("snapshot of {nodes} nodes, {jobs} job records");
    row.line(&Line {
        case: &case,
        value: gib(all - before),
        unit: "GiB",
        goal: Goal::AtMost(4.0),
        sample: &sample,
        cpu: cpu.cores(),
        peers,
    });
    drop(records);
    events(row, bench, &mut snapshot, nodes)
}

fn events(row: &Row, bench: &Bench, snapshot: &mut Snapshot, nodes: u32) -> Result<(), String> {
    let count = if bench.quick { 2_000 } else { 20_000 };
    let mut dice = site::Dice::new(7);
    let tenant = TenantName::new("bench").map_err(|error| error.to_string())?;
    let names: Vec<NodeName> = snapshot.topology().servers().map(|(_, server)| server.name.clone()).collect();
    let inventories: Vec<_> = names
        .iter()
        .take(64)
        .filter_map(|name| {
            let ix = snapshot.topology().index(name)?;
            Some(Arc::clone(&snapshot.topology().server(ix)?.inventory))
        })
        .collect();
    let cpu = Cpu::start();
    let line = |case: &str, times: Vec<f64>, goal| {
        let sample = Sample::new(times);
        let case = format!("p99 of one event at {nodes} nodes: {case}");
        let peers = json!({"p50": sample.quantile(0.5), "p999": sample.quantile(0.999)});
        let value = sample.quantile(0.99);
        row.line(&Line { case: &case, value, unit: "us", goal, sample: &sample, cpu: cpu.cores(), peers });
    };
    let timed = |act: &mut dyn FnMut()| {
        let begin = Instant::now();
        act();
        begin.elapsed().as_secs_f64() * 1e6
    };
    let mut gates = Vec::new();
    for at in 0..count {
        let name = dice.one(&names);
        let gate = Gate { away: at % 2 == 0, ..Gate::default() };
        gates.push(timed(&mut || snapshot.set_gate(name, gate)));
    }
    line("a node is closed or opened", gates, Goal::AtMost(20.0));
    let mut changes = Vec::new();
    for _ in 0..count {
        let (name, inventory) = (dice.one(&names), dice.one(&inventories));
        changes.push(timed(&mut || snapshot.set_node(name, inventory, Gate::default())));
    }
    line("a node's inventory changes", changes, Goal::AtMost(20.0));
    let mut leaves = Vec::new();
    for _ in 0..count {
        let (name, inventory) = (dice.one(&names), dice.one(&inventories));
        leaves.push(timed(&mut || snapshot.remove_node(name)));
        leaves.push(timed(&mut || snapshot.set_node(name, inventory, Gate::default())));
    }
    line("a node leaves or joins", leaves, Goal::AtMost(20.0));
    let (mut placer, mut choice) = (Placer::default(), Choice::default());
    for (size, goal) in
        [(1, Goal::AtMost(20.0)), (8, Goal::AtMost(20.0)), (64, Goal::None), (512, Goal::None)]
    {
        let need = Need::plain(size, 8, RailNeed::Exactly(RailSet::first(site::RAILS)));
        let (mut takes, mut records) = (Vec::new(), Vec::new());
        let mut capacity_index = snapshot.capacity_index().clone();
        for _ in 0..count / 10 {
            if !placer.choose(&capacity_index, &need, None, &mut choice) {
                return Err("an empty cluster has no room".into());
            }
            takes.push(timed(&mut || capacity_index.take(&choice.nodes, choice.rails, choice.host, false)));
            takes.push(timed(&mut || capacity_index.give(&choice.nodes, choice.rails, choice.host, false)));
            let spec = spec(size);
            let placement = controller_scheduler::rankmap::placement(snapshot, &spec, &choice);
            records.push(timed(&mut || snapshot.hold(&tenant, &placement)));
            records.push(timed(&mut || snapshot.release(&tenant, &placement)));
        }
        line(&format!("a gang of {size} begins or ends, bitmaps alone"), takes, Goal::AtMost(20.0));
        line(&format!("a gang of {size} begins or ends, by the names of its record"), records, goal);
    }
    Ok(())
}

fn spec(nodes: u32) -> JobSpec {
    let work = Work::Command(CommandSpec {
        argv: vec!["./train.sh".into(), "--config".into(), "run.yaml".into()],
        env: BTreeMap::from([("WANDB_MODE".to_owned(), "offline".to_owned())]),
        env_from: Vec::new(),
        working_dir: "/home/user/run".into(),
    });
    JobSpec {
        time_limit: Some(Duration::from_secs(3600)),
        failure: FailurePolicy::new(Requeue::OnInfrastructure, 3),
        ..JobSpec::new(Gang::new(nodes, 8, 8), work)
    }
}

/// Queued jobs as the controller keeps them.
fn records(jobs: u32) -> Result<BTreeMap<JobUid, Arc<Job>>, String> {
    let tenant = TenantName::new("bench").map_err(|error| error.to_string())?;
    let mut records = BTreeMap::new();
    for at in 0..jobs {
        let mut random = [0; 16];
        random[..4].copy_from_slice(&at.to_be_bytes());
        let name = JobName::new(format!("train-{at}")).map_err(|error| error.to_string())?;
        let uid = JobUid::from_random(random);
        let job = Job {
            id: JobId { tenant: tenant.clone(), name },
            uid,
            labels: BTreeMap::from([("team".to_owned(), "nlp".to_owned())]),
            generation: 1,
            spec: spec(1 + at % 64).into(),
            status: JobStatus {
                phase: Phase::Pending,
                reasons: vec![
                    Reason::new(
                        ReasonCode::GangCapacity,
                        "3 of the 8 nodes that the job needs can take it now",
                    )
                    .count(5),
                ],
                placement: None,
                attempt: 1,
                submitted: Timestamp(u64::from(at)),
                started: None,
                ended: None,
                exits: Vec::new(),
                result: None,
                trace_parent: String::new(),
                cancel_requested: false,
                array: None,
                preempted: 0,
                restarts: 0,
                replaced: 0,
                eta: None,
                holds: Vec::new(),
                submitter: None,
                schedule: None,
                past_attempts: Vec::new(),
            },
        };
        records.insert(uid, Arc::new(job));
    }
    Ok(records)
}

/// Memory of this process that is not swapped out, in bytes.
fn resident() -> Result<u64, String> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| "/proc/self/status does not tell VmRSS".into())
}
