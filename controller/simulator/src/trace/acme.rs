//! Jobs drawn so that they have the statistics that a cluster published: AcmeTrace's `cluster_summary.csv`.
//!
//! Sizes are powers of two with the published median, mean and maximum; lengths are log-normal, cut at the published
//! maximum, with the published median and mean; and sizes go with lengths as far as the published GPU time says.
//! Submits are a Poisson process, whose rate the load sets. What the statistics do not say is not there: no rhythm of
//! day and week, one tenant.

use super::{
    fields::{Fields, gpus, run},
    row::{Asks, Fault, TraceJob, tenant},
};
use crate::dice::Dice;

pub(super) const NEEDED: [&str; 6] =
    ["id", "avg_run_time_gpu", "avg_gpu_num", "med_run_time_gpu", "max_run_time_gpu", "max_gpu"];

/// What a cluster published of its GPU jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Name of the cluster, as published.
    pub name: String,
    /// How many jobs, where known.
    pub jobs: u64,
    /// Mean length in seconds.
    pub mean_run: f64,
    /// Median length in seconds.
    pub median_run: f64,
    /// Longest run of a job in seconds.
    pub max_run: f64,
    /// Mean number of GPUs.
    pub mean_gpus: f64,
    /// GPUs of the largest job.
    pub max_gpus: u32,
    /// GPU-seconds of a job in the mean, where known.
    pub gpu_time: Option<f64>,
}

pub(super) fn read(fields: &Fields<'_>) -> Result<Statistics, Fault> {
    let name = fields.text("id");
    if name.is_empty() {
        return Err(Fault::new("Missing", "id", "nothing is there"));
    }
    let positive = |field: &'static str| match fields.needed(field)? {
        number if number > 0.0 => Ok(number),
        number => Err(Fault::new("Negative", field, format!("{number}; it must be above 0"))),
    };
    let (mean_run, median_run) = (positive("avg_run_time_gpu")?, positive("med_run_time_gpu")?);
    let max_run = positive("max_run_time_gpu")?;
    let mean_gpus = positive("avg_gpu_num")?;
    run(max_run, "max_run_time_gpu")?;
    let (max_gpus, _) = gpus(positive("max_gpu")?, "max_gpu")?;
    if !(median_run <= mean_run && mean_run <= max_run) {
        let what = format!("median {median_run}, mean {mean_run} and maximum {max_run} do not ascend");
        return Err(Fault::new("Contradiction", "avg_run_time_gpu", what));
    }
    if mean_gpus > f64::from(max_gpus) {
        let what = format!("the mean of {mean_gpus} is above the maximum of {max_gpus}");
        return Err(Fault::new("Contradiction", "avg_gpu_num", what));
    }
    let jobs = fields.number("gpu_job_num")?.filter(|jobs| (1.0..1e12).contains(jobs));
    let parts = ["complete_gpu_time", "cancel_gpu_time", "fail_gpu_time"];
    let mut time = Some(0.0);
    for part in parts {
        let number = fields.number(part)?.filter(|number| *number >= 0.0);
        time = time.zip(number).map(|(sum, part)| sum + part);
    }
    let gpu_time = time.zip(jobs).map(|(time, jobs)| time / jobs);
    let jobs = jobs.map_or(0, |jobs| jobs as u64);
    Ok(Statistics {
        name: name.to_owned(),
        jobs,
        mean_run,
        median_run,
        max_run,
        mean_gpus,
        max_gpus,
        gpu_time,
    })
}

/// Draws jobs, a second apart in the mean.
#[must_use]
pub fn draw(of: &Statistics, count: usize, seed: u64) -> Vec<TraceJob> {
    let mut dice = Dice::new(seed, 1);
    let shares = shares(of);
    let sizes: Vec<u32> = (0..count).map(|_| size(&shares, dice.unit(), of.max_gpus)).collect();
    let (mu, sigma) = (of.median_run.ln(), spread(of));
    let mut lengths: Vec<f64> =
        (0..count).map(|_| (mu + sigma * dice.normal()).exp().clamp(1.0, of.max_run)).collect();
    lengths.sort_by(f64::total_cmp);
    let order = pairing(&sizes, &lengths, of.gpu_time, &mut dice);
    let mut runs = vec![0.0; count];
    for (length, at) in lengths.iter().zip(order) {
        runs[at] = *length;
    }
    let mut at = 0.0;
    let tenant = {
        let mut name = of.name.clone();
        tenant(&mut name);
        name
    };
    (1..)
        .zip(sizes.iter().zip(runs))
        .map(|(line, (gpus, run))| {
            at -= dice.unit().ln();
            let (submit, run) = ((at * 1e3) as u64, (run * 1e3).round() as u64);
            TraceJob {
                line,
                submit,
                run,
                limit: None,
                gpus: *gpus,
                tenant: tenant.clone(),
                own: None,
                asks: Asks::default(),
            }
        })
        .collect()
}

/// The share of each power of two: half of the jobs have one GPU (every published median is at most one), the others
/// fall from two upwards by a constant factor that gives the mean; or less than half where one GPU were too many.
fn shares(of: &Statistics) -> Vec<f64> {
    let classes = of.max_gpus.next_power_of_two().trailing_zeros() as usize + 1;
    if classes == 1 || of.mean_gpus <= 1.0 {
        return vec![1.0];
    }
    let largest = f64::from(of.max_gpus);
    let gpus = |class: usize| f64::from(1_u32 << class.min(31)).min(largest);
    let mean = |ratio: f64, first: f64| {
        let tail: Vec<f64> = (1..classes).map(|class| ratio.powi(class as i32)).collect();
        let sum: f64 = tail.iter().sum();
        first
            + (1.0 - first) * tail.iter().zip(1..).map(|(share, class)| share * gpus(class)).sum::<f64>()
                / sum
    };
    // Fewer of two GPUs and more than bring the mean below two need more of one.
    let mut first: f64 = 0.5;
    if mean(1e-9, first) > of.mean_gpus {
        first = (2.0 - of.mean_gpus).clamp(0.0, 1.0);
    }
    let (mut low, mut high) = (1e-9, 64.0);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if mean(middle, first) < of.mean_gpus { low = middle } else { high = middle }
    }
    let tail: Vec<f64> = (1..classes).map(|class| low.powi(class as i32)).collect();
    let sum: f64 = tail.iter().sum();
    std::iter::once(first).chain(tail.iter().map(|share| share / sum * (1.0 - first))).collect()
}

fn size(shares: &[f64], at: f64, most: u32) -> u32 {
    let mut sum = 0.0;
    let class = shares.iter().position(|share| {
        sum += share;
        at < sum
    });
    let class = class.unwrap_or(shares.len() - 1).min(31);
    (1_u32 << class).min(most)
}

/// The deviation of the logarithm that gives the mean, with what is cut off at the maximum.
fn spread(of: &Statistics) -> f64 {
    let (mu, end) = (of.median_run.ln(), of.max_run.ln());
    let mean = |sigma: f64| {
        let inside = (mu + sigma * sigma / 2.0).exp() * below((end - mu - sigma * sigma) / sigma);
        inside + of.max_run * (1.0 - below((end - mu) / sigma))
    };
    let (mut low, mut high) = (1e-3, 10.0);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if mean(middle) < of.mean_run { low = middle } else { high = middle }
    }
    low
}

/// The share of a normal distribution below `x` (Abramowitz and Stegun 7.1.26).
fn below(x: f64) -> f64 {
    let z = x.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let erf = 1.0 - poly * (-z * z).exp();
    f64::midpoint(1.0, if x < 0.0 { -erf } else { erf })
}

/// Which job has the shortest length, the next, ...: as tied to sizes as gives the published GPU time.
fn pairing(sizes: &[u32], lengths: &[f64], target: Option<f64>, dice: &mut Dice) -> Vec<usize> {
    let noise: Vec<f64> = sizes.iter().map(|_| dice.normal()).collect();
    let ties: Vec<f64> = sizes.iter().map(|_| dice.unit()).collect();
    // The normal score of each size's rank.
    let mut ranks: Vec<usize> = (0..sizes.len()).collect();
    ranks.sort_by(|a, b| sizes[*a].cmp(&sizes[*b]).then(ties[*a].total_cmp(&ties[*b])));
    let mut normal: Vec<f64> = sizes.iter().map(|_| dice.normal()).collect();
    normal.sort_by(f64::total_cmp);
    let mut scores = vec![0.0; sizes.len()];
    for (score, at) in normal.iter().zip(&ranks) {
        scores[*at] = *score;
    }
    let order = |weight: f64| {
        let key = |at: usize| weight * scores[at] + (1.0 - weight * weight).sqrt() * noise[at];
        let keys: Vec<f64> = (0..sizes.len()).map(key).collect();
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by(|a, b| keys[*a].total_cmp(&keys[*b]).then(a.cmp(b)));
        order
    };
    let Some(target) = target else { return order(0.0) };
    let time = |order: &[usize]| {
        let sum: f64 = order.iter().zip(lengths).map(|(at, length)| f64::from(sizes[*at]) * length).sum();
        sum / sizes.len().max(1) as f64
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..20 {
        let middle = f64::midpoint(low, high);
        if time(&order(middle)) < target { low = middle } else { high = middle }
    }
    order(low)
}
