//! Whose turn it is among waiting jobs of equal priority and share: by age, and by what the order is for.
//!
//! A job's turn is the time of its submit and a delay, which its size, its length or its GPU-hours make longer or shorter,
//! but never longer than the patience of the objective (and the head starts of the doublings between two jobs, where those
//! count): two jobs of which one came later by more than that stand in the order of their submits. So nobody starves, and a
//! turn never changes while a job waits.

use std::time::Duration;

use proto_model::{Objective, Timestamp};

use crate::{defs::Policy, entry::Entry};

/// Doublings of GPUs of the largest job that a head start counts for.
const DOUBLINGS: u32 = 24;

/// Doublings of GPUs of the largest job that is distinguished from larger ones by [`Objective::LargeFirst`].
const SIZES: u32 = 16;

/// A job that runs so long, and any longer one, has all the delay of [`Objective::MeanWait`].
const LONG: Duration = Duration::from_secs(4 * 86_400);

/// Milliseconds of an hour.
const HOUR_MILLIS: u128 = 3_600_000;

const MILLION: u128 = 1_000_000;

/// When it is a job's turn. All turns are moved back by what the largest job would be ahead by the head start, so that none
/// stands before time began.
pub(crate) fn turn(entry: &Entry, objective: Option<Objective>, policy: &Policy) -> Timestamp {
    let doublings = entry.gpus(entry.need.nodes).max(1).ilog2();
    let by_work = |patience, full| by_gpu_hours(entry, policy, patience, full);
    let (head_starts, delay) = match objective {
        None => (doublings, Duration::ZERO),
        Some(Objective::MeanWait { patience, full_delay_gpu_hours: None }) => {
            (doublings, part(patience, length(entry, policy), LONG))
        }
        Some(Objective::MeanWait { patience, full_delay_gpu_hours: Some(full) }) => {
            (doublings, by_work(patience, full))
        }
        Some(Objective::LargeFirst { patience, full_delay_gpu_hours }) => {
            let by_size = patience / SIZES * (SIZES - doublings.min(SIZES));
            let by_work = full_delay_gpu_hours.map_or(Duration::ZERO, |full| by_work(patience, full));
            (0, (by_size + by_work).min(patience))
        }
        Some(Objective::Fair) => (0, Duration::ZERO),
    };
    let behind = DOUBLINGS - head_starts.min(DOUBLINGS);
    entry.submitted.plus(policy.head_start.saturating_mul(behind)).plus(delay)
}

/// How long a job says that it runs: nothing that is learned while it waits.
fn length(entry: &Entry, policy: &Policy) -> Duration {
    entry.expected.or(entry.limit).unwrap_or(policy.unknown)
}

/// `of` times `length / whole`, at most `of`.
fn part(of: Duration, length: Duration, whole: Duration) -> Duration {
    let millis = of.as_millis() * length.min(whole).as_millis() / whole.as_millis().max(1);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)).min(of)
}

/// `patience` times the square of the part that a job asks for of `full` GPU-hours, at most `patience`.
fn by_gpu_hours(entry: &Entry, policy: &Policy, patience: Duration, full: u32) -> Duration {
    let full = u128::from(full.max(1)) * HOUR_MILLIS;
    let asked = u128::from(entry.gpus(entry.need.nodes)) * length(entry, policy).as_millis();
    // In millionths: the square of the most that an operator may say is beyond what numbers hold.
    let share = asked.min(full) * MILLION / full;
    let millis = patience.as_millis() * share * share / (MILLION * MILLION);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)).min(patience)
}
