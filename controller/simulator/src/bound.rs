//! What no scheduler can do better, however much it knows.
//!
//! The clairvoyant bound: let `W(s)` be the GPU time that jobs could have had up to `s` if there were no end of GPUs
//! (each job from its submit on, no more than its GPUs at once, no longer than it runs). A cluster of `C` GPUs gives at
//! most `W(s)` up to any `s` and at most `C (T - s)` after it, so that up to `T` it gives at most the least of
//! `W(s) + C (T - s)` over all `s` from 0 to `T`. Divided by `C T` that bounds the utilisation of every scheduler, with
//! preemption, with jobs that can be cut into any pieces, and with all knowledge of the future.

use crate::workload::SimJob;

/// The bound on the utilisation from the first submit to `window`, in milliseconds, of a cluster of so many GPUs.
#[must_use]
pub fn utilisation(jobs: &[SimJob], gpus: u64, window: u64) -> f64 {
    if window == 0 || gpus == 0 {
        return 0.0;
    }
    let mut turns: Vec<(u64, i64)> = Vec::with_capacity(jobs.len() * 2);
    for job in jobs.iter().filter(|job| job.submit.0 < window) {
        let gpus = i64::try_from(job.gpus()).unwrap_or(i64::MAX);
        let end = job.submit.plus(job.run).0;
        turns.push((job.submit.0, gpus));
        if end < window {
            turns.push((end, -gpus));
        }
    }
    turns.sort_unstable();
    let (capacity, end) = (gpus as f64, window as f64);
    let (mut work, mut rate, mut at) = (0.0, 0_i64, 0_u64);
    let mut least = capacity * end;
    for (time, change) in turns.into_iter().chain([(window, 0)]) {
        work += rate as f64 * (time - at) as f64;
        (at, rate) = (time, rate + change);
        least = least.min(work + capacity * (window - at) as f64);
    }
    least / (capacity * end)
}
