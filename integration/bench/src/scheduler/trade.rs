//! J4: the setting that `railctl simulate --sweep` advises for a trace, beside EASY: mean wait, and the wait that 99 of a hundred large
//! jobs do not exceed.
//!
//! Where the second goal is missed, who large jobs wait for says why; `large_p99_if_no_other_job_came_easy_s` is in the row. On Kalos they hold
//! nine tenths of the work and wait for each other: by themselves they would wait as long under EASY, so what is kept from small jobs wins
//! nothing, and only another order among large jobs helps. One by their GPU-hours reaches the goal there, for parts of the largest job that lie
//! close together, and at the cost of the very largest: one of two hundred large jobs may wait longer than 99 of a hundred, and does. On Philly
//! they would wait 0.71 x as long by themselves: the rest is owed to long small jobs that run already when a burst of large ones comes. Large jobs first
//! without exception bring 0.88 x, and by GPU-hours too 0.87 x; a limit of what long small jobs hold together reaches the goal.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use controller_simulator::{
    Policy, Rules, run,
    sweep::{Point, Setting, advised, large_from, mark_front, settings},
};
use serde_json::{Value, json};

use super::{Bench, sites};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Measures row J4 on every trace that is there.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn trade(row: &Row, bench: &Bench) -> Result<(), String> {
    for (name, found) in sites::all(bench) {
        let replay = match found {
            Ok(replay) => replay,
            Err(why) => {
                row.void(name, &why);
                continue;
            }
        };
        let cpu = Cpu::start();
        let points = points(&replay)?;
        let (cores, ours) = (cpu.cores(), advised(&points).ok_or("no setting is advised")?);
        let easy =
            points.iter().find(|point| point.policy == Policy::Easy.name()).ok_or("EASY was not run")?;
        if easy.mean_wait <= 0.0 {
            row.void(name, "under EASY nobody waits");
            continue;
        }
        let all: Vec<Value> = points
            .iter()
            .map(|point| {
                json!({
                    "setting": point.name, "policy": point.policy, "mean_wait_s": point.mean_wait,
                    "large_p99_s": point.large_p99, "utilisation": point.utilisation, "on_front": point.on_front,
                    "violations": point.violations,
                })
            })
            .collect();
        let large = large_from(&replay.workload);
        let peers = json!({
            "large_p99_if_no_other_job_came_easy_s": alone(&replay, large), "advised": ours.name, "flags": ours.flags, "large_from_gpus": large,
            "jobs": replay.workload.jobs.len(), "load": replay.workload.load, "points": all,
        });
        let line = |case: String, value: f64, goal: f64| {
            let sample = Sample::new(vec![value]);
            let (goal, peers) = (Goal::AtMost(goal), peers.clone());
            row.line(&Line { case: &case, value, unit: "x", goal, sample: &sample, cpu: cores, peers });
        };
        line(format!("mean wait, advised setting / EASY, {name}"), ours.mean_wait / easy.mean_wait, 1.0);
        let ratio = ours.large_p99.zip(easy.large_p99).map_or(f64::NAN, |(ours, easy)| ours / easy);
        line(format!("p99 wait of large jobs, advised setting / EASY, {name}"), ratio, 0.8);
    }
    Ok(())
}

/// The p99 wait of large jobs under EASY if no other job came.
fn alone(replay: &sites::Replay, large: u32) -> Option<f64> {
    let mut workload = replay.workload.clone();
    workload.jobs.retain(|job| job.asked >= large);
    let rules = Rules::default();
    let setting = Setting { name: String::new(), policy: Policy::Easy, rules };
    let mut scheduler = Policy::Easy.scheduler(&replay.site, &workload, &rules, 1);
    let outcome = run(&replay.site, &workload, &mut *scheduler, &mut ());
    Point::new(&replay.site, &workload, &setting, large, &outcome).large_p99
}

/// All settings, as many at a time as there are cores.
fn points(replay: &sites::Replay) -> Result<Vec<Point>, String> {
    let (settings, large) =
        (settings(&Rules::default(), &replay.site, &replay.workload), large_from(&replay.workload));
    let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![None; settings.len()]));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((at, setting)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, settings.get(at)?)))
                {
                    let (site, workload) = (&replay.site, &replay.workload);
                    let mut scheduler = setting.policy.scheduler(site, workload, &setting.rules, 1);
                    let outcome = run(site, workload, &mut *scheduler, &mut ());
                    let point = Point::new(site, workload, setting, large, &outcome);
                    if let Ok(mut found) = found.lock() {
                        found[at] = Some(point);
                    }
                }
            });
        }
    });
    let found: Option<Vec<Point>> = found.into_inner().unwrap_or_default().into_iter().collect();
    let mut points = found.ok_or("a setting ended before its time")?;
    mark_front(&mut points);
    Ok(points)
}
