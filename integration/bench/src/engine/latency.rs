//! B7 small calls, where every microsecond counts; B8 ranks that share one server's memory.

use std::{
    hint::black_box,
    os::unix::process::CommandExt as _,
    process::Stdio,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use integration_harness::binaries;
use serde_json::{Value, json};

use super::{
    Bench, Environment, Who, children,
    group::{Outcome, Task},
    lab::Lab,
    series::{Contender, Figure, Series},
};
use crate::report::{Goal, Line, Row, Sample};

const MIB: u64 = 1 << 20;
/// Longest time of one run with ranks inside the engine.
const INSIDE_LIMIT: Duration = Duration::from_secs(60);

/// One case of B7.
struct Small {
    name: &'static str,
    bytes: u64,
    place: Environment,
    n: usize,
    rails: usize,
    /// Through the door and inside the engine: times the best peer.
    goals: Option<(f64, f64)>,
}

const SMALL: [Small; 3] = [
    Small {
        name: "1 KiB n=4 shaped",
        bytes: 1024,
        place: Environment::Rails,
        n: 4,
        rails: 4,
        goals: Some((3.0, 1.5)),
    },
    Small {
        name: "8 B n=2 loopback",
        bytes: 8,
        place: Environment::Loopback,
        n: 2,
        rails: 1,
        goals: Some((3.0, 1.5)),
    },
    Small { name: "8 B n=4 loopback", bytes: 8, place: Environment::Loopback, n: 4, rails: 1, goals: None },
];

/// Latency through the door and inside the engine, beside the best peer.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn small(row: &Row, bench: &Bench) -> Result<(), String> {
    for case in &SMALL {
        let name = format!("all-reduce {}", case.name);
        let task = Task { warmup: 100, ..Task::of(case.bytes, 2000) };
        // Gloo needs milliseconds for each.
        let fewer = Task { warmup: 5, iterations: 100, ..task };
        let contender = |label, who, task| Contender { label, who, task };
        let mut contenders = vec![
            contender("ours", Who::Ours { rails: case.rails }, task),
            contender("openmpi", Who::OpenMpi, task),
            contender("mpich", Who::Mpich, task),
            contender("gloo", Who::Gloo, fewer),
        ];
        if case.place == Environment::Rails {
            contenders.push(contender("openmpi_ucx", Who::Ucx, task));
        }
        let series = match Series::take(bench, (case.place, case.n), &contenders, None) {
            Ok(series) => series,
            Err(reason) => {
                row.void(&name, &reason);
                continue;
            }
        };
        let inside = inside_runs(bench, case);
        small_lines(row, &name, case, &series, &inside);
    }
    Ok(())
}

fn small_lines(row: &Row, name: &str, case: &Small, series: &Series, inside: &Result<Vec<Inside>, String>) {
    let peers = with_cpu(series, series.peers("us", Outcome::median_us));
    let best = series.best(Outcome::median_us, false, &[]).unwrap_or("nobody");
    let least = series.sample(best, Outcome::median_us).median();
    let goal = |times: f64| Goal::AtMost(times * least);
    let door = series.sample("ours", Outcome::median_us);
    let goals = case.goals.map_or((Goal::None, Goal::None), |(door, inside)| (goal(door), goal(inside)));
    let figure = |sample, goal, peers| Figure { sample, unit: "us", goal, peers, may_be_busy: true };
    let times =
        |limit: Option<f64>| limit.map_or(String::new(), |limit| format!(", at most {limit} x {best}"));
    let text = format!("{name}, through the door{}", times(case.goals.map(|goals| goals.0)));
    series.line(row, &text, figure(&door, goals.0, peers.clone()));
    let text = format!("{name}, inside the engine{}", times(case.goals.map(|goals| goals.1)));
    match inside {
        Ok(runs) => {
            let sample = Sample::new(runs.iter().map(|run| run.median_us).collect());
            let cpu = Sample::new(runs.iter().map(|run| run.cores).collect()).median();
            let mut peers = peers;
            let p99 = Sample::new(runs.iter().map(|run| run.p99_us).collect());
            peers["ours_inside_p99_us"] = json!(p99.median());
            let value = sample.median();
            let line = Line { case: &text, value, unit: "us", goal: goals.1, sample: &sample, cpu, peers };
            match series.others_busy() {
                Some(why) => row.spoilt(&line, &why),
                None => row.line(&line),
            }
        }
        Err(error) => row.failed(&text, error),
    }
    if case.n == 4 {
        let p99 = series.sample("ours", |outcome| outcome.quantile_us(0.99));
        let text = format!("{name}, through the door, p99: never milliseconds on two cores");
        let peers = series.peers("us, p99", |outcome| outcome.quantile_us(0.99));
        series.line(row, &text, figure(&p99, Goal::AtMost(1000.0), peers));
    }
}

/// Adds how many cores each one's processes kept busy: those that spin are fast at a price.
fn with_cpu(series: &Series, mut peers: Value) -> Value {
    peers["own_cores"] =
        series.each(|outcome| outcome.cpu_s / (outcome.mean_s() * outcome.operations() as f64));
    peers
}

/// One run with ranks inside the engine.
struct Inside {
    median_us: f64,
    p99_us: f64,
    /// Busy cores of the machine.
    cores: f64,
}

fn inside_runs(bench: &Bench, case: &Small) -> Result<Vec<Inside>, String> {
    let lab = bench.lab()?;
    (0..bench.repetitions()).map(|_| inside(lab, case)).collect()
}

/// One process a node, each its own rank; node 0 prints the figures.
fn inside(lab: &Lab, case: &Small) -> Result<Inside, String> {
    let folder = lab.folder("inside")?;
    let cpu = crate::report::Cpu::start();
    let program = binaries::directory()?.join("rail-engine");
    let rails: Vec<String> = (0..case.rails)
        .map(|rail| {
            if case.place == Environment::Rails {
                format!("10.80.{rail}.%")
            } else {
                format!("127.90.{rail}.%")
            }
        })
        .collect();
    let mut children = Vec::new();
    for node in 0..case.n {
        let namespace = if case.place == Environment::Rails { lab.host(node) } else { lab.solo() };
        let mut command = lab.inside(&namespace, &program);
        command.args(["bench-engine", "--node", &node.to_string(), "--nodes", &case.n.to_string()]);
        command.args(["--rails", &rails.join(","), "--dir"]).arg(&folder);
        command.args(["--bytes", &case.bytes.to_string(), "--iterations", "3000", "--budget-ms", "4000"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        children.push(command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?);
    }
    let said = children::ended(children, INSIDE_LIMIT).map_err(|error| format!("bench-engine: {error}"))?;
    let cores = cpu.cores();
    let line = said.first().and_then(|text| text.lines().next()).unwrap_or_default();
    let result: Value =
        serde_json::from_str(line).map_err(|error| format!("bench-engine: {error}: {line}"))?;
    let time = |name: &str| result["time_us"][name].as_f64().unwrap_or(f64::NAN);
    Ok(Inside { median_us: time("median"), p99_us: time("p99"), cores })
}

/// Ranks of one server, with the door's buffers and with any.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn server(row: &Row, bench: &Bench) -> Result<(), String> {
    for n in [2, 4] {
        for bytes in [16 * MIB, 64 * MIB] {
            let name = format!("all-reduce {} MiB, {n} ranks on one server", bytes / MIB);
            let task = Task { warmup: 2, ..Task::of(bytes, (512 * MIB / bytes) as u32) };
            let staged = Task { staged: true, ..task };
            let ours = Who::Ours { rails: 0 };
            let contender = |label, who, task| Contender { label, who, task };
            let mut contenders = vec![
                contender("ours", ours, task),
                contender("ours_any_buffer", ours, staged),
                contender("openmpi", Who::OpenMpi, task),
            ];
            if n == 2 {
                // With four ranks on two cores it needs many seconds for one.
                contenders.push(contender("mpich", Who::Mpich, task));
            }
            match Series::take(bench, (Environment::Server, n), &contenders, None) {
                Ok(series) => server_lines(row, &name, (n, bytes), &series),
                Err(reason) => row.void(&name, &reason),
            }
        }
    }
    Ok(())
}

fn server_lines(row: &Row, name: &str, (n, bytes): (usize, u64), series: &Series) {
    let bus = |outcome: &Outcome| outcome.bus() / 1e9;
    let copied = copy_rate(bytes);
    let mut peers = series.peers("GB/s bus bandwidth", bus);
    peers["memory_copy_GBps"] = json!(copied / 1e9);
    let best = series.best(Outcome::bus, true, &[]).unwrap_or("nobody");
    let line = |case: String, sample: &Sample, unit: &str, goal: f64| {
        let goal = Goal::AtLeast(goal);
        let figure = Figure { sample, unit, goal, peers: peers.clone(), may_be_busy: true };
        series.line(row, &case, figure);
    };
    let over = series.ratio("ours", best, Outcome::bus);
    line(format!("{name}, zero copy over the best peer ({best})"), &over, "x", 2.0);
    let over = series.ratio("ours_any_buffer", best, Outcome::bus);
    line(format!("{name}, any buffer over the best peer ({best})"), &over, "x", 1.0);
    // Every rank's operand must be read once and every rank's result written once: what copying n operands moves.
    let bound_s = n as f64 * bytes as f64 / copied;
    let share = series.sample("ours", |outcome| 100.0 * bound_s / outcome.mean_s());
    line(format!("{name}, zero copy of the memory's bound"), &share, "%", 50.0);
}

/// Bytes per second that all cores together copy between buffers of this size: the best of three.
fn copy_rate(bytes: u64) -> f64 {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    let barrier = Barrier::new(cores);
    let rate = || -> f64 {
        let (from, mut to) = (vec![1_u8; size], vec![0_u8; size]);
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            barrier.wait();
            let begin = Instant::now();
            black_box(&mut to).copy_from_slice(black_box(&from));
            best = best.min(begin.elapsed().as_secs_f64());
        }
        bytes as f64 / best
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..cores).map(|_| scope.spawn(rate)).collect();
        all.into_iter().filter_map(|one| one.join().ok()).sum()
    })
}
