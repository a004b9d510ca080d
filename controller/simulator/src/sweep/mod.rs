//! The trade between short waits of all and short waits of large jobs, as a site can have it: the settings of the
//! controller beside each other on the same jobs, and what EASY and first come, first served, would have done.

use std::{fmt::Write as _, time::Duration};

use proto_model::{Backfill, LongJobLimit, Objective};
use serde::Serialize;

use crate::{
    log::ObjectiveLine,
    policy::{Policy, scheduler::Rules},
    report::Inputs,
    run::Outcome,
    site::Site,
    span::span,
    summary::waits_of,
    workload::{SimJob, Workload},
};

/// The version of the JSON.
pub const SCHEMA: &str = "rail.sweep/v1";

/// Jobs of so many GPUs and more are large where there are enough of them.
const LARGE: u32 = crate::summary::LARGE;

/// A 99th percentile of fewer jobs says little.
const ENOUGH: usize = 50;

/// One way to run the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name of the setting, in few words.
    pub name: String,
    /// The scheduler that decides.
    pub policy: Policy,
    /// The rules that it decides by; they are for the production scheduler only.
    pub rules: Rules,
}

/// Objectives that are tried, each with a head start of large jobs for every doubling of their GPUs, and who may start before
/// jobs that wait ahead.
const TRIED: [(Option<Objective>, Duration, Backfill); 15] = [
    (None, Duration::ZERO, STRICT),
    (None, hours(12), STRICT),
    (Some(Objective::mean_wait(hours(24))), Duration::ZERO, STRICT),
    (Some(Objective::mean_wait(hours(48))), hours(9), STRICT),
    (Some(Objective::mean_wait(hours(96))), Duration::ZERO, STRICT),
    (Some(Objective::mean_wait(hours(96))), hours(3), STRICT),
    (Some(Objective::mean_wait(hours(96))), hours(12), STRICT),
    (Some(Objective::mean_wait(hours(384))), Duration::ZERO, STRICT),
    (Some(Objective::mean_wait(hours(384))), hours(12), STRICT),
    (Some(Objective::mean_wait(hours(384))), hours(24), STRICT),
    (Some(Objective::large_first(hours(192))), Duration::ZERO, STRICT),
    (None, Duration::ZERO, Backfill::Easy),
    (None, hours(12), Backfill::Easy),
    (Some(Objective::mean_wait(hours(72))), hours(9), Backfill::Easy),
    (Some(Objective::mean_wait(hours(384))), hours(12), Backfill::Easy),
];

/// What the controller does by default.
const STRICT: Backfill = Backfill::Conservative;

const fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3600)
}

/// The patience beside which GPU-hours are tried.
const BY_WORK_PATIENCE: Duration = hours(384);

/// The GPU-hours that are tried as those that are put back by all of the patience, as parts of those of the largest job, in
/// hundredths: from an eighth to four times as many, each more by the root of two.
const OF_LARGEST: [u64; 11] = [13, 18, 25, 35, 50, 71, 100, 141, 200, 283, 400];

/// Objectives by GPU-hours that are tried for such jobs: what suits depends on how large they are.
fn by_work(workload: &Workload) -> impl Iterator<Item = (Option<Objective>, Duration, Backfill)> {
    let gpu_seconds = |job: &SimJob| job.gpus().saturating_mul(job.limit.as_secs());
    let largest = workload.jobs.iter().map(gpu_seconds).max().unwrap_or(0) / 3600;
    let tried = OF_LARGEST.map(|part| rounded(largest.saturating_mul(part) / 100));
    let objectives = [Objective::mean_wait(BY_WORK_PATIENCE), Objective::large_first(BY_WORK_PATIENCE)];
    let all = objectives.into_iter().flat_map(move |of| tried.map(|hours| of.with_gpu_hours(Some(hours))));
    all.map(|objective| (Some(objective), Duration::ZERO, STRICT))
}

/// Time limits from which on a small job is tried as a long one.
const LONG: [Duration; 2] = [hours(72), hours(168)];

/// What long small jobs are tried with, as a part of all GPUs in hundredths.
const LONG_PART: u64 = 4;

/// Limits of long small jobs that are tried: small is who is not large and takes no server whole. None where no job is both.
fn long_jobs(site: &Site, workload: &Workload) -> Vec<LongJobLimit> {
    let below = large_from(workload).min(site.gpus_per_node);
    let gpus = u32::try_from(site.gpus() * LONG_PART / 100).unwrap_or(u32::MAX);
    let limit = |length| LongJobLimit { length, below_gpus: below, gpus: gpus.max(below - 1) };
    let any = |limit: &LongJobLimit| {
        below > 1 && workload.jobs.iter().any(|job| limit.counts(job.gpus(), Some(job.limit)))
    };
    LONG.map(limit).into_iter().filter(any).collect()
}

/// Objectives that are tried beside a limit of long small jobs: those for large jobs, which it is for.
fn limited_objectives(workload: &Workload) -> impl Iterator<Item = Objective> {
    let by_work = by_work(workload).filter_map(|(objective, ..)| objective);
    let large = |objective: &Objective| matches!(objective, Objective::LargeFirst { .. });
    [Objective::large_first(hours(192))].into_iter().chain(by_work.filter(large))
}

/// A number of GPU-hours with two digits that count.
fn rounded(gpu_hours: u64) -> u32 {
    let unit = 10_u64.pow(gpu_hours.max(10).ilog10() - 1);
    let most = Objective::GPU_HOURS_MAX;
    u32::try_from(gpu_hours / unit * unit).unwrap_or(most).clamp(1, most)
}

/// The settings that are tried: objectives and head starts of the controller, each with fair share and without it, and the
/// baselines. What else `base` says counts for all of them.
#[must_use]
pub fn settings(base: &Rules, site: &Site, workload: &Workload) -> Vec<Setting> {
    let mut all: Vec<Setting> = Vec::new();
    let limits = long_jobs(site, workload);
    for fair_share in [true, false] {
        let mut add = |rules: Rules| {
            // Of small jobs several parts of the largest are the same number of GPU-hours.
            if all.iter().all(|setting: &Setting| setting.rules != rules) {
                all.push(Setting { name: name(&rules), policy: Policy::Ours, rules });
            }
        };
        for (objective, head_start, backfill) in TRIED.into_iter().chain(by_work(workload)) {
            add(Rules { objective, head_start, backfill, fair_share, ..*base });
        }
        for objective in limits.iter().flat_map(|_| limited_objectives(workload)) {
            for limit in &limits {
                let (objective, long_jobs) = (Some(objective), Some(*limit));
                add(Rules { objective, long_jobs, fair_share, ..*base });
            }
        }
    }
    for policy in [Policy::Easy, Policy::Fifo] {
        all.push(Setting { name: policy.name().to_owned(), policy, rules: *base });
    }
    all
}

fn name(rules: &Rules) -> String {
    let mut name = match rules.objective {
        None => "by age".to_owned(),
        Some(objective) => ObjectiveLine::from(objective).to_string(),
    };
    if !rules.head_start.is_zero() {
        let _ = write!(name, ", head start {}", span(rules.head_start.as_secs_f64()));
    }
    if rules.backfill != STRICT {
        let _ = write!(name, ", backfill {}", rules.backfill);
    }
    if let Some(limit) = rules.long_jobs {
        let _ = write!(name, ", long jobs {limit}");
    }
    if !rules.fair_share {
        name.push_str(", no fair share");
    }
    name
}

/// The results of one setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// Name of the setting, in few words.
    pub name: String,
    /// Name of the scheduler that decided.
    pub policy: &'static str,
    /// The options of the controller for it; empty for a baseline.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub flags: String,
    /// Mean wait of all jobs, in seconds.
    pub mean_wait: f64,
    /// 99 of a hundred jobs wait no longer, in seconds.
    pub p99: f64,
    /// 99 of a hundred large jobs wait no longer, in seconds; `None`: there is no large job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_p99: Option<f64>,
    /// GPUs held / GPUs, from the first to the last submit.
    pub utilisation: f64,
    /// Jobs that never started.
    pub never_started: usize,
    /// No other point is better in one of mean wait, wait of large jobs and utilisation, and not worse in the others.
    pub on_front: bool,
    /// Violations that the proof found.
    pub violations: u64,
}

impl Point {
    /// Of an outcome; `large` is from how many GPUs on a job is large.
    #[must_use]
    pub fn new(site: &Site, workload: &Workload, setting: &Setting, large: u32, outcome: &Outcome) -> Self {
        let all = waits_of(workload, outcome, 0, u32::MAX);
        let large = waits_of(workload, outcome, large, u32::MAX);
        Self {
            name: setting.name.clone(),
            policy: setting.policy.name(),
            flags: if setting.policy == Policy::Ours { flags(&setting.rules) } else { String::new() },
            mean_wait: all.mean,
            p99: all.p99,
            large_p99: (large.jobs > 0).then_some(large.p99),
            utilisation: outcome.series.mean(|bin| bin.busy) / site.gpus() as f64,
            never_started: all.never,
            on_front: false,
            violations: outcome.violations,
        }
    }

    /// Whether it is better in one thing and worse in none.
    fn beats(&self, other: &Self) -> bool {
        let large = |of: &Self| of.large_p99.unwrap_or(0.0);
        let pairs = [
            (self.never_started as f64, other.never_started as f64),
            (self.mean_wait, other.mean_wait),
            (large(self), large(other)),
            (-self.utilisation, -other.utilisation),
        ];
        pairs.iter().all(|(one, two)| one <= two) && pairs.iter().any(|(one, two)| one < two)
    }
}

/// The options of `rail-controller run` for these rules.
fn flags(rules: &Rules) -> String {
    let hours = |time: Duration| format!("{}h", time.as_secs() / 3600);
    let gpu_hours = |full: Option<u32>| full.map_or_else(String::new, |hours| format!(":{hours}"));
    let mut parts = Vec::new();
    match rules.objective {
        None => {}
        Some(Objective::Fair) => parts.push("--objective fair".to_owned()),
        Some(Objective::MeanWait { patience, full_delay_gpu_hours: full }) => {
            parts.push(format!("--objective mean-wait:{}{}", hours(patience), gpu_hours(full)));
        }
        Some(Objective::LargeFirst { patience, full_delay_gpu_hours: full }) => {
            parts.push(format!("--objective large-first:{}{}", hours(patience), gpu_hours(full)));
        }
    }
    if !rules.head_start.is_zero() {
        parts.push(format!("--head-start {}m", rules.head_start.as_secs() / 60));
    }
    if rules.backfill != STRICT {
        parts.push(format!("--backfill {}", rules.backfill));
    }
    if let Some(limit) = rules.long_jobs {
        parts.push(format!("--long-jobs {limit}"));
    }
    if !rules.fair_share {
        parts.push("--fair-share false".to_owned());
    }
    if parts.is_empty() { "(as it is)".to_owned() } else { parts.join(" ") }
}

/// From how many GPUs on a job is large here: as in the report where there are enough of those, else fewer.
#[must_use]
pub fn large_from(workload: &Workload) -> u32 {
    let count = |from: u32| workload.jobs.iter().filter(|job| job.asked >= from).count();
    let mut from = LARGE;
    while from > 2 && count(from) < ENOUGH.min(workload.jobs.len()) {
        from /= 2;
    }
    from
}

/// Which setting is advised.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Advice {
    /// Name of the setting that is advised.
    pub setting: String,
    /// The options of the controller for it.
    pub flags: String,
    /// Why it is this one, in sentences.
    pub reasons: Vec<String>,
}

/// All settings on the same jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Trace, fabric and rules of the sweep.
    pub inputs: Inputs,
    /// From how many GPUs on a job is large.
    pub large: u32,
    /// Jobs that are large.
    pub large_jobs: usize,
    /// By setting, in the order in which they were tried.
    pub points: Vec<Point>,
    /// Which one is advised; `None`: ours was not tried.
    pub advice: Option<Advice>,
}

impl Sweep {
    /// From the results of the settings.
    #[must_use]
    pub fn new(inputs: Inputs, workload: &Workload, large: u32, mut points: Vec<Point>) -> Self {
        mark_front(&mut points);
        let advice = advise(&points);
        let large_jobs = workload.jobs.iter().filter(|job| job.asked >= large).count();
        Self { inputs, large, large_jobs, points, advice }
    }

    /// The point that is advised.
    #[must_use]
    pub fn advised(&self) -> Option<&Point> {
        named(&self.points, self.advice.as_ref()?)
    }

    /// The sweep as a JSON document, for programs.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "schema": SCHEMA, "inputs": self.inputs, "largeFrom": self.large, "largeJobs": self.large_jobs,
            "points": self.points, "advice": self.advice,
        })
    }

    /// The table for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.inputs.text(&mut text, true);
        let (from, count) = (self.large, self.large_jobs);
        let _ = writeln!(text, "\nLarge     {count} jobs of {from} GPUs and more\n");
        let width = self.points.iter().map(|point| point.name.chars().count()).max().unwrap_or(0).max(8);
        let _ = writeln!(
            text,
            "{:<3}{:>2} {:<width$}{:>11}{:>9}{:>11}{:>9}{:>11}{:>9}",
            "", "NO", "SETTING", "MEAN WAIT", "OF EASY", "LARGE P99", "OF EASY", "ALL P99", "UTIL"
        );
        let easy = easy(&self.points);
        let advised = self.advised();
        for (number, point) in (1..).zip(&self.points) {
            let mark = match (advised.is_some_and(|one| std::ptr::eq(one, point)), point.on_front) {
                (true, _) => ">",
                (_, true) => "*",
                _ => "",
            };
            let of = |value: Option<f64>, base: Option<f64>| match (value, base) {
                (Some(value), Some(base)) if base > 0.0 && base.is_finite() && value.is_finite() => {
                    format!("{:.2}", value / base)
                }
                _ => "-".to_owned(),
            };
            let _ = writeln!(
                text,
                "{mark:<3}{number:>2} {:<width$}{:>11}{:>9}{:>11}{:>9}{:>11}{:>8.2}%",
                point.name,
                span(point.mean_wait),
                of(Some(point.mean_wait), easy.map(|easy| easy.mean_wait)),
                point.large_p99.map_or_else(|| "-".to_owned(), span),
                of(point.large_p99, easy.and_then(|easy| easy.large_p99)),
                span(point.p99),
                point.utilisation * 100.0,
            );
        }
        text.push_str("\n*: on the Pareto front of mean wait, large p99 and utilisation");
        text.push_str(if advised.is_some() { "; >: advised\n" } else { "\n" });
        if let Some(advice) = &self.advice {
            let _ = writeln!(text, "\nAdvised   {}: rail-controller run {}", advice.setting, advice.flags);
            for reason in &advice.reasons {
                let _ = writeln!(text, "  {reason}");
            }
        }
        text
    }
}

/// Says of each point whether it lies on the front of all.
pub fn mark_front(points: &mut [Point]) {
    for at in 0..points.len() {
        let beaten = points.iter().any(|other| other.beats(&points[at]));
        points[at].on_front = !beaten;
    }
}

/// The point that is advised, of points whose front is marked.
#[must_use]
pub fn advised(points: &[Point]) -> Option<&Point> {
    named(points, &advise(points)?)
}

fn named<'p>(points: &'p [Point], advice: &Advice) -> Option<&'p Point> {
    points.iter().find(|point| point.policy == Policy::Ours.name() && point.name == advice.setting)
}

fn easy(points: &[Point]) -> Option<&Point> {
    points.iter().find(|point| point.policy == Policy::Easy.name())
}

/// How a setting stands to EASY: the ratio of mean waits, and of the waits of large jobs. Where nobody waits under EASY
/// every wait is endlessly longer, but for none.
fn ratios(point: &Point, easy: &Point) -> [f64; 2] {
    let ratio = |one: f64, two: f64| match (one <= two, two > 0.0) {
        (_, true) if two.is_finite() => one / two,
        (true, _) => 1.0,
        _ => f64::INFINITY,
    };
    let large = match (point.large_p99, easy.large_p99) {
        (Some(one), Some(two)) => ratio(one, two),
        _ => 1.0,
    };
    [ratio(point.mean_wait, easy.mean_wait), large]
}

/// How a setting stands to EASY in both waits, the better first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// The mean is no longer, and large jobs wait clearly less.
    ClearlyBetter,
    /// Neither is longer.
    NoWorse,
    /// One of them is longer.
    Worse,
}

impl Standing {
    fn of([mean, large]: [f64; 2]) -> Self {
        match (mean <= 1.0, large) {
            (true, large) if large <= CLEARLY => Self::ClearlyBetter,
            (true, large) if large <= 1.0 => Self::NoWorse,
            _ => Self::Worse,
        }
    }
}

/// At most so many times EASY's wait of large jobs is clearly better.
const CLEARLY: f64 = 0.8;

/// Of our settings on the front those that stand best to EASY, of them the one with the least product of both ratios; where all are worse than
/// EASY in one, the one whose worse ratio is the least.
fn advise(points: &[Point]) -> Option<Advice> {
    let ours = || points.iter().filter(|point| point.policy == Policy::Ours.name());
    let least = ours().map(|point| point.never_started).min()?;
    let mut front: Vec<&Point> =
        ours().filter(|point| point.on_front && point.never_started == least).collect();
    if front.is_empty() {
        front = ours().filter(|point| point.never_started == least).collect();
    }
    let Some(easy) = easy(points) else {
        let best = front.into_iter().min_by(|one, two| one.mean_wait.total_cmp(&two.mean_wait))?;
        let reasons = vec!["the shortest mean wait of the settings; EASY was not tried".to_owned()];
        return Some(Advice { setting: best.name.clone(), flags: best.flags.clone(), reasons });
    };
    let scored: Vec<(&Point, [f64; 2])> =
        front.into_iter().map(|point| (point, ratios(point, easy))).collect();
    let standing = scored.iter().map(|of| Standing::of(of.1)).min()?;
    let cost = |[mean, large]: [f64; 2]| match standing {
        Standing::Worse => mean.max(large),
        Standing::ClearlyBetter | Standing::NoWorse => mean.max(1e-9) * large.max(1e-9),
    };
    let same = scored.iter().filter(|of| Standing::of(of.1) == standing);
    let best = same.min_by(|one, two| cost(one.1).total_cmp(&cost(two.1)))?;
    let (point, [mean, large]) = *best;
    let mut reasons = vec![format!(
        "the mean wait is {mean:.2} x EASY's ({} against {})",
        span(point.mean_wait),
        span(easy.mean_wait)
    )];
    if let (Some(one), Some(two)) = (point.large_p99, easy.large_p99) {
        reasons.push(format!(
            "99 % of large jobs wait {large:.2} x as long as under EASY ({} against {})",
            span(one),
            span(two)
        ));
    }
    reasons.push(match standing {
        Standing::ClearlyBetter => format!(
            "of the settings on the front with a mean wait no longer than EASY's and {CLEARLY} x its wait of large jobs or less it has the \
             least product of both"
        ),
        Standing::NoWorse => {
            "of the settings on the front that are worse than EASY in neither it has the least product of both".to_owned()
        }
        Standing::Worse => "no setting is as good as EASY in both; its worse ratio is the least".to_owned(),
    });
    Some(Advice { setting: point.name.clone(), flags: point.flags.clone(), reasons })
}

#[cfg(test)]
mod tests;
