//! The four pictures: utilisation, waits by size, fragmentation, cut.

use super::{
    axes::{Frame, Scale},
    scene::{Anchor, Colour, INK, Scene},
};
use crate::{
    run::Outcome,
    series::{BINS, Bin, Series},
    site::Site,
    summary::Summary,
    workload::Workload,
};

/// A picture with the name of its file, without ending.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Name of the picture and of its files, for example `utilisation`.
    pub name: &'static str,
    /// The picture with its boxes, lines and texts.
    pub scene: Scene,
}

pub(super) fn colour(policy: &str) -> Colour {
    match policy {
        "ours" => [0x1b, 0x6c, 0xa8],
        "easy" => [0xd9, 0x77, 0x06],
        "fifo" => [0x5f, 0x6b, 0x6d],
        _ => [0x9d, 0x5b, 0xb8],
    }
}

/// The pictures of a simulation.
#[must_use]
pub fn charts(site: &Site, workload: &Workload, outcomes: &[Outcome], summaries: &[Summary]) -> Vec<Chart> {
    let title = |what: &str| {
        let (jobs, fabric, load) = (workload.jobs.len(), &site.fabric.name, workload.load);
        let title = format!("{what}: {jobs} jobs on {fabric}, load {load:.2}");
        title.chars().take(TITLE).collect::<String>()
    };
    vec![
        Chart { name: "utilisation", scene: utilisation(&title("Utilisation"), site, outcomes, summaries) },
        Chart { name: "waits", scene: waits(&title("Waits by size"), summaries) },
        Chart {
            name: "fragmentation",
            scene: fragmentation(&title("Fragmentation"), site, outcomes, summaries),
        },
        Chart { name: "cut", scene: cut(&title("Cut"), workload, outcomes) },
    ]
}

/// Characters of a title at most.
const TITLE: usize = 96;

fn legend(outcomes: &[Outcome], reported: impl Fn(usize) -> String) -> Vec<(String, Colour)> {
    let entry = |(at, outcome): (usize, &Outcome)| {
        (format!("{} {}", outcome.policy, reported(at)).trim_end().to_owned(), colour(outcome.policy))
    };
    outcomes.iter().enumerate().map(entry).collect()
}

fn percents() -> Vec<(f64, String)> {
    (0..=5).map(|at| (f64::from(at) * 0.2, format!("{}%", at * 20))).collect()
}

/// Lines over time, the first scheduler on top.
fn over_time(frame: &mut Frame, outcomes: &[Outcome], value: impl Fn(&Bin) -> f64 + Copy) {
    let window = outcomes.first().map_or(0.0, |outcome| outcome.series.window.0 as f64);
    let (unit, name) = if window > 2.0 * 86_400_000.0 {
        (86_400_000.0, "days since the first submit")
    } else {
        (3_600_000.0, "hours since the first submit")
    };
    let most = window / unit;
    let step = step(most, 10.0);
    let mut at = 0.0;
    while at <= most && step > 0.0 {
        frame.below(at / most, format!("{}", (at * 100.0).round() / 100.0));
        at += step;
    }
    frame.meaning(name);
    for outcome in outcomes.iter().rev() {
        let points = points(frame, &outcome.series, value);
        let width = if outcome.policy == "ours" { 2.4 } else { 1.3 };
        frame.scene.line(points, colour(outcome.policy), width);
    }
}

fn points(frame: &Frame, series: &Series, value: impl Fn(&Bin) -> f64) -> Vec<(f64, f64)> {
    let means = series.means(value);
    let point = |(at, mean): (usize, &Option<f64>)| {
        mean.map(|mean| (frame.x((at as f64 + 0.5) / BINS as f64), frame.y(mean)))
    };
    means.iter().enumerate().filter_map(point).collect()
}

/// A round step that gives at most so many.
fn step(most: f64, count: f64) -> f64 {
    if most <= 0.0 || !most.is_finite() {
        return 0.0;
    }
    let rough = most / count;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].iter().map(|by| by * power).find(|step| *step >= rough).unwrap_or(rough)
}

fn utilisation(title: &str, site: &Site, outcomes: &[Outcome], summaries: &[Summary]) -> Scene {
    let gpus = site.gpus() as f64;
    let bound = summaries.first().map_or(0.0, |of| of.bound);
    let mut frame = Frame::new(
        title,
        "GPUs held / GPUs; marks at the right: means of the whole time; dashed: the bound on that mean for any scheduler",
        Scale::Linear(1.0),
        &percents(),
    );
    over_time(&mut frame, outcomes, |bin| bin.busy / gpus);
    let y = frame.y(bound);
    let (from, to) = ((frame.x(0.0), y), (frame.x(1.0), y));
    frame.scene.dashes(from, to, INK, 1.6);
    for of in summaries {
        frame.mark(of.utilisation, colour(of.policy));
    }
    let mut entries = legend(outcomes, |at| format!("mean {:.1}%", summaries[at].utilisation * 100.0));
    entries.push((format!("bound {:.1}%", bound * 100.0), INK));
    frame.legend(&entries);
    frame.scene
}

/// Of all GPUs, not of those that are free: when hardly any is free, a part of those says nothing.
fn fragmentation(title: &str, site: &Site, outcomes: &[Outcome], summaries: &[Summary]) -> Scene {
    let gpus = site.gpus() as f64;
    let value = |bin: &Bin| bin.stranded / gpus;
    let all = outcomes.iter().flat_map(|outcome| outcome.series.means(value)).flatten();
    let most = all.fold(0.01, f64::max) * 1.05;
    let step = step(most, 6.0);
    let labels: Vec<(f64, String)> = (0..)
        .map(|at| f64::from(at) * step)
        .take_while(|at| *at <= most)
        .map(|at| (at, format!("{}%", (at * 1000.0).round() / 10.0)))
        .collect();
    let mut frame = Frame::new(
        title,
        "Free GPUs on servers that are broken into / GPUs: no job on whole servers can have them; legend: means",
        Scale::Linear(most),
        &labels,
    );
    over_time(&mut frame, outcomes, value);
    for of in summaries {
        frame.mark(of.stranded, colour(of.policy));
    }
    frame.legend(&legend(outcomes, |at| format!("mean {:.2}%", summaries[at].stranded * 100.0)));
    frame.scene
}

/// Waits that are written at the left, in seconds.
const WAITS: [(f64, &str); 18] = [
    (1.0, "<= 1s"),
    (10.0, "10s"),
    (60.0, "1m"),
    (600.0, "10m"),
    (3600.0, "1h"),
    (10_800.0, "3h"),
    (21_600.0, "6h"),
    (43_200.0, "12h"),
    (86_400.0, "1d"),
    (172_800.0, "2d"),
    (345_600.0, "4d"),
    (604_800.0, "7d"),
    (1_209_600.0, "14d"),
    (2_592_000.0, "30d"),
    (7_776_000.0, "90d"),
    (31_536_000.0, "1y"),
    (94_608_000.0, "3y"),
    (315_360_000.0, "10y"),
];

/// Waits from one to another that are written beside a scale; many where the range is small.
pub(super) fn wait_labels(low: f64, top: f64) -> Vec<(f64, String)> {
    let round: Vec<(f64, String)> = WAITS
        .iter()
        .filter(|(wait, _)| (low..=top).contains(wait))
        .map(|(wait, label)| (*wait, (*label).to_owned()))
        .collect();
    if round.len() > 1 {
        return round;
    }
    let between = |part: f64| low * (top / low).powf(part);
    [0.1, 0.5, 0.9].into_iter().map(between).map(|wait| (wait, crate::span::span(wait))).collect()
}

/// The scale that shows all waits from their medians to their 99th percentiles, and no more.
fn wait_scale(summaries: &[Summary]) -> (f64, f64) {
    let all = || summaries.iter().flat_map(|of| &of.by_size).map(|size| size.waits);
    let least = all().map(|waits| waits.p50).fold(f64::INFINITY, f64::min);
    let most = all().map(|waits| waits.p99).filter(|wait| wait.is_finite()).fold(1.0, f64::max);
    let low = WAITS.iter().rev().map(|(wait, _)| *wait).find(|wait| *wait <= least).unwrap_or(1.0);
    let top = WAITS.iter().map(|(wait, _)| *wait).find(|wait| *wait >= most * 1.02 && *wait > low * 2.0);
    let low = if low.is_finite() && low < most { low } else { 1.0 };
    (low, top.unwrap_or_else(|| (most * 1.1).max(low * 10.0)))
}

fn waits(title: &str, summaries: &[Summary]) -> Scene {
    let (low, top) = wait_scale(summaries);
    let labels = wait_labels(low, top);
    let mut frame = Frame::new(
        title,
        "From submit to start; bars from the median to the 99th percentile, the line across at the 90th",
        Scale::Log(low, top),
        &labels,
    );
    let sizes = summaries.first().map_or(&[][..], |of| &of.by_size);
    let slot = 1.0 / sizes.len().max(1) as f64;
    for (at, size) in sizes.iter().enumerate() {
        let middle = (at as f64 + 0.5) * slot;
        frame.below(middle, format!("{} ({})", size.gpus, size.waits.jobs));
        for (which, of) in summaries.iter().enumerate() {
            let Some(waits) = of.by_size.get(at).map(|size| size.waits) else { continue };
            let part = slot * 0.8 / summaries.len() as f64;
            let left = frame.x(middle - slot * 0.4 + part * which as f64);
            let width = (frame.x(part) - frame.x(0.0)) * 0.8;
            // A job that never started waits beyond the frame.
            let height = |wait: f64| frame.y(if wait.is_finite() { wait } else { top });
            let (low, middle, high) = (height(waits.p50), height(waits.p90), height(waits.p99));
            frame.scene.rect(left, high - 1.0, width, (low - high).max(0.0) + 2.0, colour(of.policy));
            // Nobody waited: there is no bar that it could lie across.
            if low - high > 4.0 {
                frame.scene.line(vec![(left, middle), (left + width, middle)], [0xff; 3], 2.0);
            }
        }
    }
    frame.meaning("GPUs (jobs)");
    let entries: Vec<(String, Colour)> =
        summaries.iter().map(|of| (of.policy.to_owned(), colour(of.policy))).collect();
    frame.legend(&entries);
    frame.scene
}

/// Classes of the size of gangs, in servers.
const GANGS: [(u32, u32); 6] = [(2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, u32::MAX)];

fn cut(title: &str, workload: &Workload, outcomes: &[Outcome]) -> Scene {
    let mean = |outcome: &Outcome, (low, high): (u32, u32)| {
        let rows = workload.jobs.iter().zip(&outcome.rows);
        let of = rows.filter(|(job, row)| (low..=high).contains(&job.nodes()) && row.start.is_some());
        let cuts: Vec<u64> = of.map(|(_, row)| row.cut).collect();
        (cuts.len(), cuts.iter().sum::<u64>() as f64 / cuts.len().max(1) as f64)
    };
    let sizes: Vec<(u32, u32)> = GANGS
        .into_iter()
        .filter(|size| outcomes.first().is_some_and(|outcome| mean(outcome, *size).0 > 0))
        .collect();
    let values = outcomes.iter().flat_map(|outcome| sizes.iter().map(|size| mean(outcome, *size).1));
    let most = values.fold(1.0, f64::max) * 1.1;
    let step = step(most, 6.0);
    let labels: Vec<(f64, String)> = (0..)
        .map(|at| f64::from(at) * step)
        .take_while(|at| *at <= most)
        .map(|at| (at, format!("{}", (at * 100.0).round() / 100.0)))
        .collect();
    let mut frame = Frame::new(
        title,
        "Mean weighted cut of a job's ring: 1 for each connection to other leaves of the pod, 4 for each to another pod",
        Scale::Linear(most),
        &labels,
    );
    let slot = 1.0 / sizes.len().max(1) as f64;
    for (at, size) in sizes.iter().enumerate() {
        let middle = (at as f64 + 0.5) * slot;
        let jobs = outcomes.first().map_or(0, |outcome| mean(outcome, *size).0);
        frame.below(middle, format!("{} ({jobs})", crate::summary::size_name(*size)));
        for (which, outcome) in outcomes.iter().enumerate() {
            let part = slot * 0.7 / outcomes.len() as f64;
            let left = frame.x(middle - slot * 0.35 + part * which as f64);
            let width = (frame.x(part) - frame.x(0.0)) * 0.85;
            let value = mean(outcome, *size).1;
            let height = (frame.low() - frame.y(value)).max(1.0);
            let top = frame.low() - height;
            frame.scene.rect(left, top, width, height, colour(outcome.policy));
            // A bar of nothing cannot be seen; its number can.
            let number = if value >= 9.95 { format!("{value:.0}") } else { format!("{value:.1}") };
            let number = number.trim_end_matches(".0").to_owned();
            frame.scene.text(left + width / 2.0, top - 9.0, number, Anchor::Middle, colour(outcome.policy));
        }
    }
    frame.meaning("servers of the gang (jobs)");
    frame.legend(&legend(outcomes, |_| String::new()));
    frame.scene
}
