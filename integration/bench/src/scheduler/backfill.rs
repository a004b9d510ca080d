//! C7: a queue of ten thousand jobs on ten thousand nodes: a whole plan, one event, and how true the plans come.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use std::time::Instant;

use controller_queue::{
    Act, Budget, Entry, Past, Policy, QueueState, TenantDef,
    trial::{Trial, TrialJob},
};
use controller_scheduler::{Need, Placer, RailNeed, Snapshot};
use controller_topology::RailSet;
use proto_model::{JobId, JobName, JobUid, TenantName, Timestamp};
use serde_json::json;

use super::{Bench, site};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Limits are one to so many times the length.
const PARTS: u32 = 4;

/// Futures of a job whose lengths are drawn.
const DRAWS: u64 = 9;

const QUEUED: u64 = 10_000;
const NODES: u32 = 10_000;

/// Tenants that the jobs belong to.
const TENANTS: u32 = 8;

fn tenant(number: u32) -> Result<TenantName, String> {
    TenantName::new(format!("tenant{number}")).map_err(|error| error.to_string())
}

/// A job with a limit of one to four times what it takes.
fn job(dice: &mut site::Dice, number: u64, need: Need, submitted: Timestamp) -> Result<TrialJob, String> {
    let name = JobName::new(format!("job{number}")).map_err(|error| error.to_string())?;
    let id = JobId { tenant: tenant(dice.below(TENANTS))?, name };
    let uid = JobUid::ordered(submitted, u16::try_from(number % 4096).unwrap_or(0), number.to_be_bytes());
    let mut entry = Entry::plain(uid, id, need, submitted);
    // From five minutes to two days, most of them short.
    let length = 300 * 2_u64.pow(dice.below(9)) + u64::from(dice.below(300));
    entry.limit = Some(Duration::from_secs(length * u64::from(1 + dice.below(PARTS))));
    Ok(TrialJob { entry, length: Duration::from_secs(length) })
}

fn queue_state(tenants: u32, limit: Option<u32>) -> Result<QueueState, String> {
    let mut queue_state = QueueState::new(Policy::default());
    for number in 0..tenants {
        let def = TenantDef { limit, weight: 1 + number % 3, ..TenantDef::default() };
        queue_state.set_tenant(&tenant(number)?, Some(def));
    }
    Ok(queue_state)
}

/// A full cluster, and its queue.
struct Loaded {
    queue_state: QueueState,
    snapshot: Snapshot,
    placer: Placer,
    now: Timestamp,
    dice: site::Dice,
    next: u64,
}

impl Loaded {
    fn new() -> Result<Self, String> {
        let mut loaded = Self {
            queue_state: queue_state(TENANTS, Some(60_000))?,
            snapshot: site::cluster(&site::even(NODES, 1, 64), 5),
            placer: Placer::default(),
            now: Timestamp(1_000_000_000),
            dice: site::Dice::new(6),
            next: 0,
        };
        while loaded.queue_state.waiting() < QUEUED as usize {
            for _ in 0..500 {
                loaded.submit()?;
            }
            loaded.turn(Budget::ALL);
        }
        // What is too much goes again.
        let waiting = loaded.queue_state.jobs().filter(|entry| entry.run().is_none()).map(|entry| entry.uid);
        for uid in waiting.skip(QUEUED as usize).collect::<Vec<_>>() {
            loaded.queue_state.set_job(uid, None);
        }
        Ok(loaded)
    }

    fn submit(&mut self) -> Result<JobUid, String> {
        let size = 1 << self.dice.below(10);
        let need = site::needs(&mut self.dice, &self.snapshot, size);
        let job = job(&mut self.dice, self.next, need, self.now)?;
        self.next += 1;
        self.now = self.now.plus(Duration::from_secs(1));
        self.queue_state.set_job(job.entry.uid, Some(Arc::new(job.entry.clone())));
        Ok(job.entry.uid)
    }

    /// One pass, with what follows of it. How long it took, and how many jobs it started.
    fn turn(&mut self, budget: Budget) -> (f64, usize) {
        let begin = Instant::now();
        let acts = self.queue_state.pass(&mut self.snapshot, &mut self.placer, self.now, budget);
        let took = begin.elapsed().as_secs_f64();
        let count = acts.len();
        for act in acts {
            if let Act::Start { uid, placement } = act
                && let Some(entry) = self.queue_state.job(uid).cloned()
            {
                self.snapshot.hold(&entry.id.tenant, &placement);
                self.queue_state.set_job(uid, Some(Arc::new(entry.running(Arc::new(placement), self.now))));
            }
        }
        (took, count)
    }

    /// Some running job ends.
    fn end(&mut self, running: &mut Vec<JobUid>) {
        let at = self.dice.below(u32::try_from(running.len()).unwrap_or(u32::MAX)) as usize;
        let uid = running.swap_remove(at);
        if let Some(entry) = self.queue_state.job(uid).cloned()
            && let Some(past) = Past::of(&entry, self.now, true)
            && let Some(run) = entry.run()
        {
            self.snapshot.release(&entry.id.tenant, &run.placement);
            self.queue_state.remember(&past);
            self.queue_state.set_job(uid, None);
        }
    }

    fn running(&self) -> Vec<JobUid> {
        self.queue_state.jobs().filter(|entry| entry.run().is_some()).map(|entry| entry.uid).collect()
    }
}

/// Measures row C7: a whole plan, one event, and how true plans are.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn backfill(row: &Row, bench: &Bench) -> Result<(), String> {
    let mut loaded = Loaded::new()?;
    full(row, bench, &mut loaded);
    incremental(row, bench, &mut loaded)?;
    errors(row, bench, &SERVED)?;
    errors(row, bench, &CROWDED)
}

fn full(row: &Row, bench: &Bench, loaded: &mut Loaded) {
    let (mut times, cpu) = (Vec::new(), Cpu::start());
    for _ in 0..if bench.quick { 3 } else { 11 } {
        let begin = Instant::now();
        loaded.queue_state.forecast(&mut loaded.snapshot, &mut loaded.placer, loaded.now);
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let cpu = cpu.cores();
    let waiting: Vec<JobUid> =
        loaded.queue_state.jobs().filter(|entry| entry.run().is_none()).map(|entry| entry.uid).collect();
    let reported = waiting.iter().filter(|uid| loaded.queue_state.eta(**uid).is_some()).count();
    let never = waiting
        .iter()
        .filter(|uid| loaded.queue_state.seen(**uid).is_some_and(|why| why.eta.is_none()))
        .count();
    let sample = Sample::new(times);
    let peers = json!({"queued": waiting.len(), "with_eta": reported, "without_eta": never, "running": loaded.running().len()});
    row.line(&Line {
        case: "a full pass, every job planned, 10,000 queued, 10,000 nodes",
        value: sample.median(),
        unit: "ms",
        goal: Goal::AtMost(1000.0),
        sample: &sample,
        cpu,
        peers,
    });
    let share = Sample::new(vec![reported as f64 * 100.0 / waiting.len().max(1) as f64]);
    row.line(&Line {
        case: "queued jobs with an expected start",
        value: share.median(),
        unit: "%",
        goal: Goal::AtLeast(100.0),
        sample: &share,
        cpu,
        peers: json!({}),
    });
}

fn incremental(row: &Row, bench: &Bench, loaded: &mut Loaded) -> Result<(), String> {
    let mut running = loaded.running();
    let (mut times, mut whole, mut starts) = (Vec::new(), Vec::new(), 0);
    let cpu = Cpu::start();
    for event in 0..if bench.quick { 200 } else { 2000 } {
        loaded.now = loaded.now.plus(Duration::from_secs(20));
        if event % 2 == 0 && !running.is_empty() {
            loaded.end(&mut running);
        } else {
            loaded.submit()?;
        }
        // The whole queue is looked at every now and then, an event looks at its first jobs.
        if event % 50 == 0 {
            let (took, started) = loaded.turn(Budget::ALL);
            whole.push(took * 1e3);
            starts += started;
        }
        let (took, started) = loaded.turn(Budget::EVENT);
        times.push(took * 1e3);
        starts += started;
        if event % 100 == 99 {
            running = loaded.running();
        }
    }
    let sample = Sample::new(times);
    let peers = json!({
        "p50": sample.quantile(0.5), "p90": sample.quantile(0.9), "max": sample.quantile(1.0), "started": starts,
        "queued": loaded.queue_state.waiting(), "jobs_looked_at": Budget::EVENT.jobs, "pass_over_all_p50": Sample::new(whole).median(),
    });
    row.line(&Line {
        case: "p99 of a pass after one end or one submit, 10,000 queued, 10,000 nodes",
        value: sample.quantile(0.99),
        unit: "ms",
        goal: Goal::AtMost(0.8),
        sample: &sample,
        cpu: cpu.cores(),
        peers,
    });
    Ok(())
}

/// How fast jobs come.
struct Load {
    /// What share of what can be served.
    share: &'static str,
    /// Between two of them there are up to so many seconds.
    gap: u32,
    /// The future of one job of so many is gone through.
    every: usize,
}

/// The queue keeps its length: the figures here say how true forecasts are.
const SERVED: Load = Load { share: "0.95", gap: 1482, every: 16 };

/// The queue grows as long as jobs come, and then nobody comes any more, which no forecast can know: those who came late
/// get too long a forecast. Most of the first half start before that.
const CROWDED: Load = Load { share: "1.76", gap: 800, every: 32 };

/// Jobs of 1 to 32 nodes come to 256 nodes, in all 3,000 of eight tenants with weights of 1 to 3, whose fair shares make
/// late arrivals overtake: the forecast at the submit against the real start.
///
/// The error is the distance of the start that was forecast from the real one, as a share of the job's own wait, for all that
/// waited more than a minute: a short wait counts as much as a long one. Nobody can know two things: who will come, and of
/// what limits promise (one to four times the truth, evenly) what jobs will take. How much of the error is theirs is shown
/// beside it, by the production code itself: the futures of some jobs are gone through once with true lengths and nobody
/// who comes, and several times with those who come and lengths drawn by the law that they follow, of which the middle
/// start is forecast: about what can be known without the lengths.
fn errors(row: &Row, bench: &Bench, load: &Load) -> Result<(), String> {
    let jobs = if bench.quick { 400 } else { 3000 };
    let (list, snapshot) = crowd(jobs, load.gap)?;
    let mut trial = Trial::new(queue_state(TENANTS, None)?, snapshot.clone());
    trial.forecasts = true;
    let cpu = Cpu::start();
    trial.run(&list);
    if let Some(fault) = trial.faults.first() {
        return Err(format!("the replay breaks a promise: {fault}"));
    }
    let (mut errors, mut early, mut ratios, mut inside) = (Vec::new(), Vec::new(), Vec::new(), 0_u32);
    for (at, job) in list.iter().enumerate() {
        let Some(found) = trial.rows.get(&job.entry.uid) else { continue };
        let (Some(reported), Some(start)) = (found.reported, found.starts.first()) else { continue };
        if let Some(off) = error(job, reported.start, *start) {
            errors.push(off);
            if at < list.len() / 2 {
                early.push(off);
            }
            let wait = |start: Timestamp| start.since(job.entry.submitted).as_secs_f64();
            ratios.push(wait(*start) / wait(reported.start).max(1.0));
            inside += u32::from(reported.earliest <= *start && *start <= reported.latest);
        }
    }
    let sample = Sample::new(errors);
    let cores = cpu.cores();
    let unknown = unknown(&list, snapshot, &trial, load.every)?;
    let peers = json!({
        "p90": sample.quantile(0.9), "waited": sample.len(), "jobs": list.len(),
        "of_the_first_half": Sample::new(early).median(), "wait_of_what_was_told": Sample::new(ratios).median(),
        "inside_band_percent": f64::from(inside) * 100.0 / sample.len().max(1) as f64,
        "if_lengths_were_known": unknown[0], "if_arrivals_were_known": unknown[1], "if_both_were_known": unknown[2],
    });
    row.line(&Line {
        case: &format!(
            "median error of the expected start, of the wait, {} of what can be served comes",
            load.share
        ),
        value: sample.median(),
        unit: "%",
        goal: Goal::AtMost(20.0),
        sample: &sample,
        cpu: cores,
        peers,
    });
    Ok(())
}

/// Of a job that waited, how far off its forecast was.
fn error(job: &TrialJob, reported: Timestamp, start: Timestamp) -> Option<f64> {
    let wait = start.since(job.entry.submitted);
    let off = reported.since(start).max(start.since(reported));
    // Who starts at once had that forecast.
    (wait > Duration::from_secs(60)).then(|| off.as_secs_f64() / wait.as_secs_f64() * 100.0)
}

/// The median errors of forecasts by the production code that know the lengths, the arrivals, or both.
fn unknown(list: &[TrialJob], snapshot: Snapshot, came: &Trial, every: usize) -> Result<[f64; 3], String> {
    let lengths: BTreeMap<JobUid, Duration> = list.iter().map(|job| (job.entry.uid, job.length)).collect();
    let mut trial = Trial::new(queue_state(TENANTS, None)?, snapshot);
    let mut errors: [Vec<f64>; 3] = Default::default();
    for (at, job) in list.iter().enumerate() {
        let now = job.entry.submitted;
        trial.run_until(&list[at..=at], now);
        let uid = job.entry.uid;
        let start = came.rows.get(&uid).and_then(|row| row.starts.first()).copied();
        let Some(start) = start.filter(|start| at % every == 5 && *start > now) else { continue };
        let real = |entry: &Entry| lengths.get(&entry.uid).copied().unwrap_or_default();
        let reported = [
            trial.would_start(uid, now, &[], &real),
            middle(&trial, uid, &list[at + 1..], now),
            trial.would_start(uid, now, &list[at + 1..], &real),
        ];
        for (errors, reported) in errors.iter_mut().zip(reported) {
            errors.extend(reported.and_then(|reported| error(job, reported, start)));
        }
    }
    Ok(errors.map(|errors| Sample::new(errors).median()))
}

/// The middle of the starts with lengths of which only the limits and the ages are known.
fn middle(trial: &Trial, uid: JobUid, coming: &[TrialJob], now: Timestamp) -> Option<Timestamp> {
    let mut starts: Vec<Timestamp> = (0..DRAWS)
        .filter_map(|draw| {
            let length = |entry: &Entry| drawn(entry, draw, now);
            let coming = coming.iter().map(|job| TrialJob { length: length(&job.entry), ..job.clone() });
            trial.would_start(uid, now, &coming.collect::<Vec<_>>(), &length)
        })
        .collect();
    starts.sort_unstable();
    starts.get(starts.len() / 2).copied()
}

/// A length that a job's limit and its age allow: the limit is one to four times the length.
fn drawn(entry: &Entry, draw: u64, now: Timestamp) -> Duration {
    let limit = entry.limit.unwrap_or_default();
    let age = entry.run().map_or(Duration::ZERO, |run| now.since(run.started));
    let (high, low) = entry.uid.0.as_u64_pair();
    let mut dice = site::Dice::new(high ^ low.rotate_left(32) ^ draw << 56);
    let most = (1..=PARTS).rev().find(|part| limit / *part > age).unwrap_or(1);
    limit / (1 + dice.below(most))
}

/// Jobs, and the cluster that they come to.
fn crowd(jobs: u64, gap: u32) -> Result<(Vec<TrialJob>, Snapshot), String> {
    let mut dice = site::Dice::new(8);
    let mut list = Vec::new();
    let mut now = Timestamp(1_000_000_000);
    for number in 0..jobs {
        let need = Need::plain(1 << dice.below(6), 8, RailNeed::Exactly(RailSet::first(site::RAILS)));
        list.push(job(&mut dice, number, need, now)?);
        now = now.plus(Duration::from_secs(u64::from(dice.below(gap))));
    }
    // All nodes alike: what is measured is time.
    Ok((list, site::alike(256)))
}
