//! N1: messages of NCCL's over the plugin's rails: how near they come to what the rails carry, and what a rail that is cut costs them.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use integration_harness::binaries;
use proto_random::Random;
use serde::Deserialize;
use serde_json::json;

use super::settings::Bench;
use crate::{
    engine::{self, Cut, Engines, Environment, Key, Lab, Who},
    report::{Cpu, Goal, Line, Row, Sample, monotonic_ns},
};

/// Rails of each server, and Mbit/s of each: what two cores carry without being the limit.
const RAILS: usize = 4;
const RATE: u32 = 200;
/// Bytes of the messages whose rate is measured, and of those among which a stall shows.
const LARGE: u64 = 16 << 20;
const SMALL: u64 = 1 << 20;
/// Messages before the measured ones.
const WARM_UP: usize = 4;
/// Time between a cut and its repair, and until the next one after all rails are up.
const CUT: Duration = Duration::from_millis(1200);
const HEALTHY: Duration = Duration::from_millis(500);
/// A repaired rail is used again within this time.
const BACK: Duration = Duration::from_secs(8);
/// The longest that one cut takes, so that there are messages all the while.
const EACH: f64 = 3.5;
/// What a rank may take beside what its messages need.
const SLACK: Duration = Duration::from_secs(60);

/// What one rank prints that is used here.
#[derive(Debug, Deserialize)]
struct Answer {
    ends: Vec<u64>,
    wrong: u64,
}

/// Row N1.
///
/// # Errors
/// The namespaces, the engines or the ranks do not start, or a rank fails.
pub fn carried(row: &Row<'_>, bench: &Bench) -> Result<(), String> {
    if !binaries::may_make_namespaces() {
        row.void("all", "network namespaces and shaping need root, ip and tc");
        return Ok(());
    }
    let settings = engine::Settings { quick: bench.quick, rate: RATE };
    let shaped = engine::Bench::new(settings);
    let lab = shaped.lab()?;
    let place = Environment::Rails;
    let engines = engine::engines(lab, Key { who: Who::Ours { rails: RAILS }, place, n: 2 }, RAILS)?;
    let world = World { lab, engines };
    rate(row, bench, &shaped, &world)?;
    stalls(row, bench, &world)
}

struct World<'a> {
    lab: &'a Lab,
    engines: Engines,
}

impl World<'_> {
    /// Two ranks, one on each server, which send each other so many messages at once.
    fn start(&self, bytes: u64, messages: u64) -> Result<Vec<Child>, String> {
        let folder = self.lab.folder("proxy")?;
        (0..2).map(|rank| self.rank(rank, &folder, bytes, messages)).collect()
    }

    fn rank(&self, rank: usize, folder: &Path, bytes: u64, messages: u64) -> Result<Child, String> {
        let (program, library) = programs()?;
        let mut command = self.lab.inside(&self.lab.host(rank), program);
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", "2").env("RAIL_JOB_UID", engine::JOB_UID);
        command.env("RAIL_ENGINE_SOCKET", &self.engines.sockets[rank]);
        command.env("PROXY_PLUGIN", library).env("PROXY_FOLDER", folder);
        command.env("PROXY_BYTES", bytes.to_string()).env("PROXY_MESSAGES", messages.to_string());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))
    }
}

/// NCCL's proxy as it is played, and the plugin.
fn programs() -> Result<(PathBuf, PathBuf), String> {
    let directory = binaries::directory()?;
    let both = (directory.join("examples/nccl_proxy"), directory.join("librail_nccl_net.so"));
    for file in [&both.0, &both.1] {
        fs::metadata(file).map_err(|error| {
            format!("{}: {error} (cargo build -p node-agent-nccl --lib --example nccl_proxy)", file.display())
        })?;
    }
    Ok(both)
}

/// Waits for the ranks' ends.
fn answers(children: Vec<Child>, limit: Duration) -> Result<Vec<Answer>, String> {
    let said = engine::ended(children, limit)?;
    let read =
        |text: &String| serde_json::from_str(text).map_err(|error| format!("a rank said {text:?}: {error}"));
    said.iter().map(read).collect()
}

/// Bytes each second to one rank, from its first messages on: until then memory is made, and rails find their rates.
fn bytes_per_s(answer: &Answer, bytes: u64) -> f64 {
    let (Some(first), Some(last)) = (answer.ends.get(WARM_UP - 1), answer.ends.last()) else {
        return f64::NAN;
    };
    ((answer.ends.len() - WARM_UP) as u64 * bytes) as f64 / (last.saturating_sub(*first) as f64 / 1e9)
}

fn rate(row: &Row<'_>, bench: &Bench, shaped: &engine::Bench, world: &World<'_>) -> Result<(), String> {
    let (repetitions, messages, seconds) = if bench.quick { (3, 30, 2.0) } else { (7, 60, 5.0) };
    let key = Key { who: Who::Roof, place: Environment::Rails, n: 2 };
    let (mut shares, mut rates, mut roofs, mut wrong) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let cpu = Cpu::start();
    for _ in 0..repetitions {
        let roof = shaped.with(key, |group| engine::measure_roof(group, seconds))?.mean;
        let answers = answers(world.start(LARGE, messages)?, SLACK)?;
        let each: Vec<f64> = answers.iter().map(|answer| bytes_per_s(answer, LARGE)).collect();
        let mean = each.iter().sum::<f64>() / each.len() as f64;
        wrong += answers.iter().map(|answer| answer.wrong).sum::<u64>();
        shares.push(100.0 * mean / roof);
        rates.push(mean / 1e6);
        roofs.push(roof / 1e6);
    }
    let (cpu, share) = (cpu.cores(), Sample::new(shares));
    let peers = json!({"MB_per_s": Sample::new(rates).median(), "roof_MB_per_s": Sample::new(roofs).median(), "rails": RAILS,
        "Mbit_per_s": RATE, "messages": messages, "wrong": wrong});
    row.line(&Line {
        case: "16 MiB messages both ways, of the roof",
        value: share.median(),
        unit: "%",
        goal: Goal::AtLeast(97.0),
        sample: &share,
        cpu,
        peers: peers.clone(),
    });
    let bad = Sample::new(vec![wrong as f64]);
    row.line(&Line {
        case: "16 MiB messages both ways, with wrong bytes",
        value: bad.median(),
        unit: "",
        goal: Goal::AtMost(0.0),
        sample: &bad,
        cpu,
        peers,
    });
    Ok(())
}

fn stalls(row: &Row<'_>, bench: &Bench, world: &World<'_>) -> Result<(), String> {
    let cuts: u32 = if bench.quick { 6 } else { 50 };
    for (how, name) in [(Cut::Carrier, "carrier lost"), (Cut::Silent, "silently dropped")] {
        let healthy = f64::from(RATE) * 1e6 / 8.0 * RAILS as f64;
        let messages = (f64::from(cuts) * EACH * healthy / SMALL as f64) as u64;
        let (cpu, mut random) = (Cpu::start(), Random::new(how as u64 + 1));
        let mut children = world.start(SMALL, messages)?;
        // Long enough for the first messages to have come.
        thread::sleep(HEALTHY * 3);
        let mut at = Vec::new();
        for _ in 0..cuts {
            let (host, rail) = (random.index(2), random.index(RAILS));
            if children.iter_mut().any(|child| !matches!(child.try_wait(), Ok(None))) {
                break;
            }
            at.push(monotonic_ns());
            world.lab.cut(host, rail, how)?;
            thread::sleep(CUT);
            world.lab.remediate(host, rail, how)?;
            all_up(world)?;
            thread::sleep(HEALTHY + Duration::from_millis(random.index(50) as u64));
        }
        let answers = answers(children, Duration::from_secs_f64(f64::from(cuts) * EACH * 2.0) + SLACK)?;
        let wrong: u64 = answers.iter().map(|answer| answer.wrong).sum();
        let cpu = cpu.cores();
        let added: Vec<f64> = at
            .iter()
            .flat_map(|cut| answers.iter().filter_map(|answer| added_stall(&answer.ends, *cut)))
            .collect();
        let bad = Sample::new(vec![wrong as f64]);
        let line = |case: &str, value, unit, goal, sample: &Sample| {
            let peers = json!({"cuts": at.len(), "messages": messages, "p50_ms": sample.median()});
            row.line(&Line { case: &format!("{name}: {case}"), value, unit, goal, sample, cpu, peers });
        };
        line("messages with wrong bytes", bad.median(), "", Goal::AtMost(0.0), &bad);
        let wanted = answers.len() * cuts as usize;
        if added.len() < wanted {
            let text = format!(
                "{} cuts of {cuts} were made while messages went, and {} pauses of {wanted} are known: a rank without one had no message before a cut or until its repair",
                at.len(),
                added.len()
            );
            row.failed(&format!("{name}: added stall p99"), &text);
            continue;
        }
        let stalls = Sample::new(added);
        line("added stall p99, 1 MiB messages", stalls.quantile(0.99), "ms", Goal::AtMost(100.0), &stalls);
    }
    Ok(())
}

fn all_up(world: &World<'_>) -> Result<(), String> {
    let begin = Instant::now();
    while !world.engines.all_up()? {
        if begin.elapsed() > BACK {
            return Err(format!("a repaired rail is not back after {BACK:?}"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Milliseconds of the longest pause between two messages from the cut until it is repaired, less the median pause before; `None` where there were
/// no messages then.
fn added_stall(ends: &[u64], cut: u64) -> Option<f64> {
    let window = u64::try_from(CUT.as_nanos()).unwrap_or(u64::MAX);
    let pauses = |from: u64, to: u64| -> Vec<f64> {
        let within = |pair: &&[u64]| pair[1] >= from && pair[1] < to;
        ends.windows(2).filter(within).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect()
    };
    let before = pauses(cut.saturating_sub(window / 3), cut);
    let longest = pauses(cut, cut.saturating_add(window)).into_iter().reduce(f64::max)?;
    (!before.is_empty()).then(|| longest - Sample::new(before).median())
}
