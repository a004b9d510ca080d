//! The results of an outcome, in numbers.

use serde::Serialize;

use crate::{bound, run::Outcome, site::Site, workload::Workload};

/// Quantiles of waits, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// Jobs that are counted here.
    pub jobs: usize,
    /// Jobs of these that never started.
    pub never: usize,
    /// The mean of all waits.
    pub mean: f64,
    /// Half of the jobs wait no longer.
    pub p50: f64,
    /// Nine of ten jobs wait no longer.
    pub p90: f64,
    /// Ninety-nine of a hundred jobs wait no longer.
    pub p99: f64,
    /// The longest of all waits.
    pub max: f64,
}

/// Jobs of a size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SizeWaits {
    /// GPUs as the trace asks, for example `2-7`.
    pub gpus: String,
    /// How long they waited.
    pub waits: Waits,
}

/// Jobs on more than one server, and their pods.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    /// Jobs on several servers that started.
    pub jobs: usize,
    /// In no more pods than they would need if the cluster were empty.
    pub fewest_when_empty: usize,
    /// In no more pods than they needed as the cluster was when they started.
    pub fewest_when_started: usize,
    /// Pods of a job in the mean.
    pub mean: f64,
    /// Weighted cut of a job's ring in the mean.
    pub mean_cut: f64,
    /// Weighted cut of all rings.
    pub cut: u64,
}

impl Pods {
    /// The share in the fewest pods of the empty cluster.
    #[must_use]
    pub fn share_when_empty(&self) -> f64 {
        share(self.fewest_when_empty, self.jobs)
    }

    /// The share in the fewest pods as the cluster was.
    #[must_use]
    pub fn share_when_started(&self) -> f64 {
        share(self.fewest_when_started, self.jobs)
    }
}

fn share(part: usize, of: usize) -> f64 {
    part as f64 / of.max(1) as f64
}

/// A field that is left out, because there is nothing that it would be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Absent {
    /// Name of the field that is absent.
    pub field: &'static str,
    /// Why there is nothing to tell.
    pub why: &'static str,
}

const NO_LARGE: Absent = Absent { field: "large", why: "no job of 64 GPUs and more" };
const NO_PODS: Absent = Absent { field: "pods", why: "no job on several servers was started" };

/// The results of one scheduler.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Name of the scheduler.
    pub policy: &'static str,
    /// Jobs that started at least once.
    pub started: usize,
    /// Jobs that never started.
    pub never_started: usize,
    /// How often jobs were stopped for others.
    pub restarts: u64,
    /// GPUs held / GPUs, over the time from the first to the last submit.
    pub utilisation: f64,
    /// The most that any scheduler could reach; see [`crate::bound`].
    pub bound: f64,
    /// The part of what is possible that was used: `utilisation / bound`.
    pub of_bound: f64,
    /// The part of free GPUs on servers that are broken into, over the same time.
    pub fragmentation: f64,
    /// Free GPUs on servers that are broken into / GPUs of the cluster, over the same time. Unlike the part of what is
    /// free it does not grow because less is free.
    pub stranded: f64,
    /// Waits of all jobs.
    pub waits: Waits,
    /// Waits of the jobs of each size, the smallest size first.
    pub by_size: Vec<SizeWaits>,
    /// Jobs of 64 GPUs and more; `None`: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large: Option<Waits>,
    /// Jobs on several servers; `None`: none was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Pods>,
    /// Fields that are left out, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Absent>,
    /// From the first submit to the last end, in seconds.
    pub makespan: f64,
    /// Passes over the queue.
    pub passes: u64,
    /// Placements that were proved.
    pub proved: u64,
    /// Violations that the proof found.
    pub violations: u64,
    /// The first of these violations, in words.
    pub violations_reported: Vec<String>,
}

/// The classes of size, in GPUs as the trace asks.
const SIZES: [(u32, u32); 9] =
    [(1, 1), (2, 3), (4, 7), (8, 8), (9, 16), (17, 32), (33, 63), (64, 127), (128, u32::MAX)];

/// Jobs of so many GPUs and more are large.
pub const LARGE: u32 = 64;

/// A size in words.
#[must_use]
pub fn size_name((low, high): (u32, u32)) -> String {
    match (low, high) {
        (low, u32::MAX) => format!("{low}+"),
        (low, high) if low == high => low.to_string(),
        (low, high) => format!("{low}-{high}"),
    }
}

/// The results of an outcome, in numbers.
#[must_use]
pub fn summary(site: &Site, workload: &Workload, outcome: &Outcome) -> Summary {
    let waits = |low: u32, high: u32| waits_of(workload, outcome, low, high);
    let by_size = SIZES.iter().map(|size| (size_name(*size), waits(size.0, size.1)));
    let by_size = by_size.filter(|(_, waits)| waits.jobs > 0).map(|(gpus, waits)| SizeWaits { gpus, waits });
    let started = outcome.rows.iter().filter(|row| row.start.is_some()).count();
    let window = outcome.series.window.0;
    let gpus = site.gpus();
    let utilisation = outcome.series.mean(|bin| bin.busy) / gpus as f64;
    let bound = bound::utilisation(&workload.jobs, gpus, window);
    let large = Some(waits(LARGE, u32::MAX)).filter(|waits| waits.jobs > 0);
    let pods = pods(workload, outcome);
    let absent = [(large.is_none(), NO_LARGE), (pods.is_none(), NO_PODS)];
    Summary {
        policy: outcome.policy,
        started,
        never_started: outcome.rows.len() - started,
        restarts: outcome.rows.iter().map(|row| u64::from(row.restarts)).sum(),
        utilisation,
        bound,
        of_bound: if bound > 0.0 { utilisation / bound } else { 0.0 },
        fragmentation: outcome.series.mean(|bin| bin.fragmentation),
        stranded: outcome.series.mean(|bin| bin.stranded) / gpus as f64,
        waits: waits(0, u32::MAX),
        by_size: by_size.collect(),
        large,
        pods,
        absent: absent.into_iter().filter(|(is_absent, _)| *is_absent).map(|(_, absent)| absent).collect(),
        makespan: outcome.end.0 as f64 / 1e3,
        passes: outcome.passes,
        proved: outcome.proved,
        violations: outcome.violations,
        violations_reported: outcome.reported.clone(),
    }
}

/// How long jobs waited that ask for so many GPUs.
pub(crate) fn waits_of(workload: &Workload, outcome: &Outcome, low: u32, high: u32) -> Waits {
    let rows = workload.jobs.iter().zip(&outcome.rows);
    let of = rows.filter(|(job, _)| (low..=high).contains(&job.asked));
    let mut never = 0;
    let of = of.filter_map(|(_, row)| {
        never += usize::from(row.start.is_none());
        row.start.map(|_| row.wait.as_secs_f64())
    });
    let seconds: Vec<f64> = of.collect();
    quantiles(seconds, never)
}

fn pods(workload: &Workload, outcome: &Outcome) -> Option<Pods> {
    let rows = workload.jobs.iter().zip(&outcome.rows);
    let several = rows.filter(|(job, row)| job.nodes() > 1 && row.start.is_some());
    let mut pods = Pods::default();
    let mut sum = 0_u64;
    for (_, row) in several {
        pods.jobs += 1;
        pods.fewest_when_empty += usize::from(row.pods <= row.fewest);
        pods.fewest_when_started += usize::from(row.pods <= row.fewest_then);
        pods.cut += row.cut;
        sum += u64::from(row.pods);
    }
    if pods.jobs == 0 {
        return None;
    }
    pods.mean = sum as f64 / pods.jobs as f64;
    pods.mean_cut = pods.cut as f64 / pods.jobs as f64;
    Some(pods)
}

/// Nearest ranks. A job that never started has waited longer than every other: it counts as infinitely long where a
/// quantile falls on it, which JSON tells as null.
fn quantiles(mut seconds: Vec<f64>, never: usize) -> Waits {
    seconds.sort_by(f64::total_cmp);
    let jobs = seconds.len() + never;
    let at = |share: f64| {
        let rank = (share * jobs as f64).ceil() as usize;
        if jobs == 0 { 0.0 } else { seconds.get(rank.max(1) - 1).copied().unwrap_or(f64::INFINITY) }
    };
    let mean = match seconds.len() {
        0 if never > 0 => f64::INFINITY,
        count => seconds.iter().sum::<f64>() / count.max(1) as f64,
    };
    Waits { jobs, never, mean, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
}
