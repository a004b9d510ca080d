//! Health of rails: E3 what watching costs, E6 what is found in simulation and what is not made up, E8 what certification takes.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use integration_harness::{Cluster, Shape, procfs};
use node_agent_health::{
    Config, Source, State, Vendor,
    model::{Kind, full_layout, inject, month},
};
use node_agent_host::{
    counters::{FolderStatistics, Poller, recorded},
    sysfs::Tree,
};
use proto_model::{Nic, Timestamp};
use serde_json::json;

use crate::{
    certify::certifying,
    report::{Cpu, Goal, Line, Row, Sample},
};

/// A function that measures one row; the flag asks for fewer repetitions.
pub type Measure = fn(&Row<'_>, bool) -> Result<(), String>;

/// The rows, in order.
pub const ROWS: [(&str, Measure); 3] = [("E3", watching), ("E6", finding), ("E8", certifying)];

const RAILS: u32 = 8;
/// What the row asks for.
const COUNTERS: usize = 120;
const DAY: u64 = 24 * 3600;
/// A fault must be found within this time.
const FOUND: Duration = Duration::from_secs(10);

fn nic(rail: u32) -> Nic {
    // As the local cluster's inventory calls them.
    let name = format!("rail{rail}");
    recorded::nic(rail, &name, &name)
}

/// Counters of a busy server: those of bytes go on, each written in place.
struct Moving {
    files: Vec<File>,
    value: u64,
}

impl Moving {
    fn record(root: &Path) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let value = 1_000_000_000_000;
        let mut files = Vec::new();
        for nic in (0..RAILS).map(nic) {
            recorded::record(root, &nic, value).map_err(text)?;
            for column in full_layout(Vendor::Mlx5).columns() {
                if column.name.ends_with("_bytes") && column.row.source == Source::Ethtool {
                    let at = root.join(recorded::place(&nic, Source::Ethtool, &column.name));
                    files.push(OpenOptions::new().write(true).open(at).map_err(text)?);
                }
            }
        }
        Ok(Self { files, value })
    }

    fn turn(&mut self) {
        self.value += 1_000_000_007;
        let text = format!("{}\n", self.value);
        for file in &self.files {
            let _ = file.write_at(text.as_bytes(), 0);
        }
    }

    fn run(&mut self, span: Duration) {
        let end = Instant::now() + span;
        while Instant::now() < end {
            self.turn();
            thread::sleep(Duration::from_secs(1).min(end.saturating_duration_since(Instant::now())));
        }
    }
}

/// E3: the agent of a local cluster, whose eight NICs are a recorded tree; beside it the reading alone.
fn watching(row: &Row<'_>, quick: bool) -> Result<(), String> {
    let root = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut moving = Moving::record(root.path())?;
    let each = full_layout(Vendor::Mlx5).columns().len();
    if each < COUNTERS {
        return Err(format!("the recorded NIC has {each} counters, and {COUNTERS} are asked for"));
    }
    let check_us = check_us(root.path(), &mut moving, if quick { 50 } else { 500 })?;
    let idle = agent(None, &mut moving, quick)?;
    let busy = agent(Some(root.path()), &mut moving, quick)?;
    let peers = json!({
        "rails": RAILS, "countersOfEach": each, "pollMs": 1000, "agentWithout": idle.percent,
        "lookUs": check_us.spread(), "note": "private statistics are files here, a read each; a driver gives all in one call",
    });
    let one = |value: f64| Sample::new(vec![value]);
    row.line(&Line {
        case: "agent, 8 NICs: share of a core",
        value: busy.percent,
        unit: "%",
        goal: Goal::AtMost(0.3),
        sample: &one(busy.percent),
        cpu: busy.cpu,
        peers,
    });
    row.line(&Line {
        case: "agent, 8 NICs: memory",
        value: busy.mib,
        unit: "MiB",
        goal: Goal::AtMost(20.0),
        sample: &one(busy.mib),
        cpu: busy.cpu,
        peers: json!({"agentWithout": idle.mib}),
    });
    Ok(())
}

/// Microseconds of processor time of one look at all ports, judging included.
fn check_us(root: &Path, moving: &mut Moving, checks: u32) -> Result<Sample, String> {
    let mut poller = Poller::new(Tree::new(root), Box::new(FolderStatistics::new(root)));
    poller.watch(&(0..RAILS).map(nic).collect::<Vec<_>>());
    let mut state = State::new(Config::default());
    let mut all = Vec::new();
    for inspect in 0..checks {
        moving.turn();
        thread::sleep(Duration::from_millis(5));
        let begun = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let verdicts = poller.check(&mut state, Timestamp(1_000_000 + u64::from(inspect) * 1000));
        let ended = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        if !verdicts.is_empty() {
            return Err(format!("a healthy server is said to have {verdicts:?}"));
        }
        let ns = (ended.tv_sec - begun.tv_sec) * 1_000_000_000 + (ended.tv_nsec - begun.tv_nsec);
        all.push(ns as f64 / 1000.0);
    }
    // The first opens all files.
    all.remove(0);
    Ok(Sample::new(all))
}

struct Cost {
    percent: f64,
    mib: f64,
    cpu: f64,
}

/// What the agent of a cluster of one server takes while nothing runs there.
fn agent(counters: Option<&Path>, moving: &mut Moving, quick: bool) -> Result<Cost, String> {
    let env = counters.map(|root| ("RAIL_COUNTERS".to_owned(), root.display().to_string()));
    let shape = Shape { nodes: 1, rails: RAILS, gpus: 8, env: env.into_iter().collect(), ..Shape::default() };
    let cluster = Cluster::up(&shape)?;
    let dir = cluster.dir().display().to_string();
    let found = procfs::find(&["rail-node-agent", "run", &dir]);
    let [agent] = found[..] else { return Err(format!("{} agents, and one is expected", found.len())) };
    let id = u32::try_from(agent).map_err(|error| error.to_string())?;
    // Past its start.
    moving.run(Duration::from_secs(5));
    let (before, cpu, begun) = (procfs::cpu_seconds(id), Cpu::start(), Instant::now());
    moving.run(Duration::from_secs(if quick { 10 } else { 100 }));
    let spent = procfs::cpu_seconds(id) - before;
    if !procfs::lives(agent) {
        return Err("the agent has ended".to_owned());
    }
    Ok(Cost {
        percent: spent / begun.elapsed().as_secs_f64() * 100.0,
        mib: procfs::rss_kib(id) as f64 / 1024.0,
        cpu: cpu.cores(),
    })
}

/// E6: a month of noise in which nothing may be found, and a hundred faults of each kind. On a rail with a fault, too, what that does not show
/// and what does not follow from it is a false alarm.
fn finding(row: &Row<'_>, quick: bool) -> Result<(), String> {
    let (days, faults) = if quick { (1, 20) } else { (30, 100) };
    let cpu = Cpu::start();
    let begun = Instant::now();
    let noise = thread::spawn(move || month(1, days * DAY, Vendor::Mlx5));
    for kind in Kind::ALL {
        found(row, kind, faults);
    }
    let noise = noise.join().map_err(|_| "the month did not end")?;
    let alarms: Vec<String> = (noise.alarms.iter())
        .map(|alarm| format!("{:.0} s, rail {:?}: {}", alarm.at as f64 / 1000.0, alarm.rail, alarm.what))
        .collect();
    let count = noise.alarms.len() as f64;
    row.line(&Line {
        case: "month of noise, 8 NICs: false alarms",
        value: count,
        unit: "",
        goal: Goal::AtMost(0.0),
        sample: &Sample::new(vec![count]),
        cpu: cpu.cores(),
        peers: json!({
            "days": days, "seed": 1, "looks": noise.samples, "trueOfDriversLoadedAnew": noise.justified,
            "alarms": alarms, "wallSeconds": begun.elapsed().as_secs_f64().round(),
        }),
    });
    Ok(())
}

fn found(row: &Row<'_>, kind: Kind, faults: u64) {
    let cpu = Cpu::start();
    let (mut after, mut missed, mut alarms, mut drained) = (Vec::new(), Vec::new(), 0, 0);
    for seed in 0..faults {
        let found = inject(seed, kind, Vendor::Mlx5);
        // What is found and stays in use is not found.
        let done = found.drained || !found.fault.must_drain();
        match found.after.filter(|after| *after <= FOUND && done) {
            Some(time) => after.push(time.as_secs_f64()),
            None => missed.push(seed),
        }
        alarms += found.alarms.len();
        drained += u32::from(found.drained);
    }
    let sample = Sample::new(after);
    let share = sample.len() as f64 / faults as f64 * 100.0;
    let note = match kind {
        Kind::Swapped => {
            "what ports hear is given: agents know no plan of the leaves, controllers find such cables"
        }
        _ => "",
    };
    row.line(&Line {
        case: &format!("{}: found within 10 s", kind.name()),
        value: share,
        unit: "%",
        goal: Goal::AtLeast(100.0),
        sample: &sample,
        cpu: cpu.cores(),
        peers: json!({"faults": faults, "seconds": sample.spread(), "missedSeeds": missed, "railsDrained": drained, "note": note}),
    });
    let alarms = f64::from(u32::try_from(alarms).unwrap_or(u32::MAX));
    row.line(&Line {
        case: &format!("{}: false alarms beside it", kind.name()),
        value: alarms,
        unit: "",
        goal: Goal::AtMost(0.0),
        sample: &Sample::new(vec![alarms]),
        cpu: cpu.cores(),
        peers: json!({"faults": faults}),
    });
}
