//! J2: starts of jobs while others wait ahead, judged by an exact planner that shares no code with the plan.

use std::{fs, time::Duration};

use controller_queue::{
    Entry, Policy, QueueState, TenantDef,
    delays::{Delays, Watch},
    trial::{Trial, TrialJob},
};
use controller_scheduler::{Need, RailNeed};
use controller_simulator::trace;
use controller_topology::RailSet;
use proto_model::{Backfill, JobId, JobName, JobUid, TenantName, Timestamp};
use serde_json::{Value, json};

use super::{Bench, philly::TRACE, site};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// How the jobs of one trace are drawn.
struct Kind {
    name: &'static str,
    /// Nodes of the cluster.
    nodes: u32,
    /// Sizes of jobs; each as likely.
    sizes: &'static [u32],
    /// Lengths in seconds: the least, and doublings of it.
    length: (u32, u32),
    /// Limits are one to so many times the length.
    worst: u32,
    /// Of what can be served, in hundredths.
    load: u32,
    /// Jobs come in bursts of so many.
    burst: u32,
}

const KINDS: [Kind; 7] = [
    Kind {
        name: "powers of two",
        nodes: 128,
        sizes: &[1, 1, 2, 2, 4, 8, 16, 32, 64],
        length: (60, 9),
        worst: 4,
        load: 95,
        burst: 1,
    },
    Kind {
        name: "any size",
        nodes: 100,
        sizes: &[1, 2, 3, 5, 7, 11, 13, 17, 29, 61],
        length: (47, 9),
        worst: 3,
        load: 92,
        burst: 1,
    },
    Kind {
        name: "true limits",
        nodes: 64,
        sizes: &[1, 2, 4, 8, 16],
        length: (300, 7),
        worst: 1,
        load: 95,
        burst: 1,
    },
    Kind {
        name: "limits far too long",
        nodes: 64,
        sizes: &[1, 2, 4, 8, 16],
        length: (300, 7),
        worst: 10,
        load: 95,
        burst: 1,
    },
    Kind {
        name: "bursts",
        nodes: 96,
        sizes: &[1, 1, 1, 2, 4, 12, 24, 48],
        length: (90, 8),
        worst: 4,
        load: 90,
        burst: 40,
    },
    Kind {
        name: "days and minutes",
        nodes: 48,
        sizes: &[1, 1, 2, 3, 6, 12, 24],
        length: (20, 14),
        worst: 4,
        load: 95,
        burst: 1,
    },
    Kind {
        name: "more than is served",
        nodes: 64,
        sizes: &[1, 1, 2, 4, 8, 32],
        length: (120, 6),
        worst: 4,
        load: 120,
        burst: 1,
    },
];

struct Trace {
    name: &'static str,
    nodes: u32,
    jobs: Vec<TrialJob>,
}

fn job(
    number: u64,
    nodes: u32,
    submitted: Timestamp,
    length: Duration,
    limit: Duration,
) -> Result<TrialJob, String> {
    let name = JobName::new(format!("job{number}")).map_err(|error| error.to_string())?;
    let id = JobId { tenant: tenant()?, name };
    let uid = JobUid::ordered(submitted, u16::try_from(number % 4096).unwrap_or(0), number.to_be_bytes());
    let need = Need::plain(nodes, 8, RailNeed::Exactly(RailSet::first(site::RAILS)));
    let entry = Entry { limit: Some(limit), ..Entry::plain(uid, id, need, submitted) };
    Ok(TrialJob { entry, length })
}

fn tenant() -> Result<TenantName, String> {
    TenantName::new("site").map_err(|error| error.to_string())
}

/// Times are in milliseconds and never round: a plan that rounds is found out.
fn drawn(kind: &Kind, count: u64, seed: u64) -> Result<Trace, String> {
    let mut dice = site::Dice::new(seed);
    let size: u64 = kind.sizes.iter().map(|size| u64::from(*size)).sum::<u64>() / kind.sizes.len() as u64;
    let (least, doublings) = kind.length;
    // The mean of the lengths.
    let length = u64::from(least) * 1000 * ((2 << (doublings - 1)) - 1) / u64::from(doublings) * 5 / 4;
    let gap = length * size * 100 / u64::from(kind.nodes * kind.load).max(1);
    let mut now = 1_000_000_000_u64;
    let mut jobs = Vec::new();
    for number in 0..count {
        if number.is_multiple_of(u64::from(kind.burst)) {
            let gap = u32::try_from(gap * u64::from(kind.burst) * 2).unwrap_or(u32::MAX);
            now += u64::from(dice.below(gap));
        }
        let long = (u64::from(least) * 1000) << dice.below(doublings);
        let length = long + u64::from(dice.below(u32::try_from(long / 2).unwrap_or(u32::MAX)));
        let limit = length * u64::from(1 + dice.below(kind.worst)) + u64::from(dice.below(997));
        let (length, limit) = (Duration::from_millis(length), Duration::from_millis(limit));
        jobs.push(job(number, *dice.one(kind.sizes), Timestamp(now), length, limit)?);
    }
    Ok(Trace { name: kind.name, nodes: kind.nodes, jobs })
}

/// Philly's arrivals, lengths and GPUs, each GPU a node of its own; limits, which the trace lacks, are one to four times the length.
fn philly(bench: &Bench, count: usize) -> Result<Trace, String> {
    let path = bench.traces.join(TRACE);
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut jobs = trace::read(&bytes).map_err(|error| error.to_string())?.jobs;
    jobs.sort_by_key(|job| (job.submit, job.line));
    // From the middle, when the cluster was in use.
    let jobs: Vec<_> = jobs.iter().skip(jobs.len() / 2).filter(|job| job.run > 0).take(count).collect();
    let (first, last) = (jobs.first().map_or(0, |job| job.submit), jobs.last().map_or(0, |job| job.submit));
    let work: u64 = jobs.iter().map(|job| job.run * u64::from(job.gpus)).sum();
    let largest = jobs.iter().map(|job| job.gpus).max().unwrap_or(1);
    let nodes = work * 100 / (last - first).max(1) / 95;
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX).clamp(largest, 2048);
    let mut dice = site::Dice::new(77);
    let each = (0..).zip(jobs).map(|(number, of)| {
        let limit = of.run * u64::from(1 + dice.below(4)) + u64::from(dice.below(997));
        let (length, limit) = (Duration::from_millis(of.run), Duration::from_millis(limit));
        job(number, of.gpus, Timestamp(1_000_000_000 + of.submit - first), length, limit)
    });
    Ok(Trace { name: "Philly, GPUs as nodes", nodes, jobs: each.collect::<Result<_, _>>()? })
}

/// What a replay has shown.
struct Shown {
    delays: Delays,
    starts: usize,
    wait: f64,
}

fn replay(trace: &Trace, backfill: Backfill) -> Result<Shown, String> {
    let mut queue_state = QueueState::new(Policy { backfill, fair_share: false, ..Policy::default() });
    queue_state.set_tenant(&tenant()?, Some(TenantDef::default()));
    let mut trial = Trial::new(queue_state, site::alike(trace.nodes));
    trial.watched = Some(Watch { nodes: trace.nodes, slack: Duration::ZERO });
    trial.run(&trace.jobs);
    if let Some(fault) = trial.faults.first() {
        return Err(format!("{}: the replay breaks a promise: {fault}", trace.name));
    }
    let waits = trace.jobs.iter().filter_map(|job| {
        let start = trial.rows.get(&job.entry.uid)?.starts.first()?;
        Some(start.since(job.entry.submitted).as_secs_f64())
    });
    let waits: Vec<f64> = waits.collect();
    let wait = waits.iter().sum::<f64>() / waits.len().max(1) as f64;
    Ok(Shown { delays: trial.delays, starts: waits.len(), wait })
}

/// Measures row J2 on drawn traces, and on that of Philly where it is there.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn strict(row: &Row, bench: &Bench) -> Result<(), String> {
    let count = if bench.quick { 300 } else { 4000 };
    let (cpu, mut traces) = (Cpu::start(), Vec::new());
    for (seed, kind) in (40..).zip(&KINDS) {
        traces.push(drawn(kind, count, seed)?);
    }
    match philly(bench, count as usize) {
        Ok(trace) => traces.push(trace),
        Err(error) => {
            row.void("Philly, GPUs as nodes", &format!("give the data with --traces: {error}"));
            traces.push(Trace { name: "powers of two, once more", ..drawn(&KINDS[0], count, 99)? });
        }
    }
    for backfill in [Backfill::Conservative, Backfill::Slack(Duration::from_secs(1800)), Backfill::Easy] {
        let (mut backfills, mut harmful, mut worst, mut each) = (0, 0, Duration::ZERO, Vec::<Value>::new());
        for trace in &traces {
            let Shown { delays, starts, wait } = replay(trace, backfill)?;
            backfills += delays.backfills;
            harmful += delays.harmful;
            let longest =
                delays.found.iter().map(|delay| delay.to.since(delay.from)).max().unwrap_or_default();
            worst = worst.max(longest);
            each.push(json!({
                "trace": trace.name, "nodes": trace.nodes, "starts": starts, "backfill_starts": delays.backfills,
                "delay_somebody": delays.harmful, "longest_delay_s": longest.as_secs(), "mean_wait_s": wait,
            }));
        }
        let sample = Sample::new(vec![harmful as f64]);
        let strict = backfill == Backfill::Conservative;
        row.line(&Line {
            case: &format!("starts that delay a planned start ahead of them, {} traces, {backfill}", traces.len()),
            value: harmful as f64,
            unit: "count",
            goal: if strict { Goal::AtMost(0.0) } else { Goal::None },
            sample: &sample,
            cpu: cpu.cores(),
            peers: json!({ "backfill_starts": backfills, "longest_delay_s": worst.as_secs(), "traces": each }),
        });
    }
    Ok(())
}
