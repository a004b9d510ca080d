//! Time in steps of a millisecond from now, and how finely it is looked at.

use std::time::Duration;

use proto_model::Timestamp;

/// A step that is later than all others: never.
pub(crate) const NEVER: usize = usize::MAX;

/// Steps of one width of a coarse look before they double.
const SAME: usize = 32;

/// Doublings: with a width of ten seconds the last step begins after 121 days.
const LEVELS: usize = 15;

/// Ends of running jobs at which a step of a coarse look begins exactly; the soonest ones.
const ENDS: usize = 512;

/// Ends of running jobs that an exact look distinguishes; those behind them are rounded.
pub(crate) const EXACT_ENDS: usize = 4096;

/// How finely time is looked at. A step is a number of milliseconds from now.
///
/// An exact look rounds nothing, as long as not more jobs run than it distinguishes. Otherwise, what frees something counts
/// from the start of the step in which it lies: nobody who waits for an end is kept waiting by rounding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    now: u64,
    /// Where the steps of a coarse look begin.
    coarse: Option<Vec<usize>>,
    /// From here on an exact look rounds too.
    exact_until: usize,
}

impl Grid {
    /// No step is wider than a millisecond, up to the end of so many running jobs.
    pub(crate) fn exact(now: Timestamp, ends: impl Iterator<Item = Timestamp>) -> Self {
        let mut ends: Vec<usize> = ends.map(|end| steps(end.0.saturating_sub(now.0))).collect();
        let exact_until =
            if ends.len() > EXACT_ENDS { *ends.select_nth_unstable(EXACT_ENDS).1 } else { NEVER };
        Self { now: now.0, coarse: None, exact_until }
    }

    /// Steps that grow with their distance from now; ends of planned jobs are rounded to the nearest: right on average, for
    /// forecasts of very many jobs.
    pub(crate) fn coarse(now: Timestamp, step: Duration, ends: impl Iterator<Item = Timestamp>) -> Self {
        let width = u64::try_from(step.as_millis()).unwrap_or(u64::MAX).clamp(1, u64::MAX >> (LEVELS + 8));
        let mut ends: Vec<u64> = ends.map(|end| end.0.saturating_sub(now.0)).filter(|end| *end > 0).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.truncate(ENDS);
        let mut starts = Vec::with_capacity(SAME * LEVELS + ends.len());
        let mut at = 0_u64;
        let mut ends = ends.into_iter().peekable();
        for level in 0..LEVELS {
            for _ in 0..SAME {
                while let Some(end) = ends.next_if(|end| *end <= at) {
                    if end < at {
                        starts.push(steps(end));
                    }
                }
                starts.push(steps(at));
                at = at.saturating_add(width << level);
            }
        }
        Self { now: now.0, coarse: Some(starts), exact_until: NEVER }
    }

    /// Whether nothing is rounded.
    pub(crate) fn is_exact(&self) -> bool {
        self.coarse.is_none() && self.exact_until == NEVER
    }

    /// When a step begins.
    pub(crate) fn start(&self, step: usize) -> Timestamp {
        Timestamp(self.now.saturating_add(step as u64))
    }

    /// The step in which a time lies.
    pub(crate) fn floor(&self, time: Timestamp) -> usize {
        let step = steps(time.0.saturating_sub(self.now));
        match &self.coarse {
            Some(starts) => starts[starts.partition_point(|start| *start <= step).saturating_sub(1)],
            None if step <= self.exact_until => step,
            None => (step - step % width(step)).max(self.exact_until),
        }
    }

    /// The first step that begins at a time or later; [`NEVER`] if there is none.
    pub(crate) fn ceil(&self, time: Timestamp) -> usize {
        let step = steps(time.0.saturating_sub(self.now));
        match &self.coarse {
            Some(starts) => {
                starts.get(starts.partition_point(|start| *start < step)).copied().unwrap_or(NEVER)
            }
            None => step,
        }
    }

    /// The steps that a job touches which starts now: up to, without, the result.
    pub(crate) fn end_now(&self, length: Duration) -> usize {
        self.ceil(Timestamp(self.now).plus(length)).max(1)
    }

    /// The steps that a job fills which starts with a step.
    pub(crate) fn end(&self, step: usize, length: Duration) -> usize {
        if step == 0 {
            return self.end_now(length);
        }
        let time = self.start(step).plus(length);
        let Some(starts) = &self.coarse else {
            return self.ceil(time).max(step.saturating_add(1));
        };
        let (time, at) = (steps(time.0.saturating_sub(self.now)), |at: usize| starts.get(at).copied());
        let next = starts.partition_point(|start| *start <= time);
        let floor = at(next.saturating_sub(1)).unwrap_or(0);
        let up = at(next).filter(|up| time - floor > up - time);
        let least = at(starts.partition_point(|start| *start <= step)).unwrap_or(NEVER);
        up.unwrap_or(floor).max(least)
    }
}

fn steps(milliseconds: u64) -> usize {
    usize::try_from(milliseconds).unwrap_or(NEVER)
}

/// The width of the steps of an exact look where it rounds: at most a sixty-fourth of the way.
fn width(step: usize) -> usize {
    (1_usize << step.max(1).ilog2() >> 6).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_steps_grow_and_times_are_found() {
        let now = Timestamp(1_000_003);
        let ends = [now.0 + 7, now.0 + 10_000, now.0 + 400_005, now.0 - 5].map(Timestamp);
        let grid = Grid::coarse(now, Duration::from_secs(10), ends.into_iter());
        let starts = grid.coarse.clone().unwrap();
        assert_eq!(starts.len(), SAME * LEVELS + 2);
        assert_eq!(grid.start(0), now);
        assert!(starts[starts.len() - 1] > 80 * 24 * 3_600_000);
        assert!(ends[..3].iter().all(|end| grid.start(grid.floor(*end)) == *end));
        for (at, step) in starts.iter().enumerate() {
            let start = grid.start(*step);
            assert_eq!((grid.floor(start), grid.ceil(start)), (*step, *step));
            if at > 0 {
                assert_eq!(grid.floor(Timestamp(start.0 - 1)), starts[at - 1]);
                assert_eq!(grid.ceil(Timestamp(start.0 - 1)), *step);
                assert_eq!(grid.end(*step, Duration::ZERO), starts.get(at + 1).copied().unwrap_or(NEVER));
            }
        }
        assert_eq!(grid.floor(Timestamp(u64::MAX)), starts[starts.len() - 1]);
        assert_eq!(grid.ceil(Timestamp(u64::MAX)), NEVER);
        assert_eq!(grid.floor(Timestamp(5)), 0);
        assert_eq!(grid.end(0, Duration::ZERO), 1);
    }

    #[test]
    fn an_exact_look_rounds_nothing_before_it_must() {
        let now = Timestamp(1_000_003);
        let grid = Grid::exact(now, [Timestamp(5), Timestamp(2_000_000)].into_iter());
        assert!(grid.is_exact());
        let time = Timestamp(1_234_567_891);
        assert_eq!((grid.floor(time), grid.ceil(time)), (1_233_567_888, 1_233_567_888));
        assert_eq!(grid.end(7, Duration::from_millis(5)), 12);
        assert_eq!((grid.end(7, Duration::ZERO), grid.end_now(Duration::ZERO)), (8, 1));
        let many = Grid::exact(now, (0..2 * EXACT_ENDS as u64).map(|at| now.plus(Duration::from_secs(at))));
        assert!(!many.is_exact());
        let last = EXACT_ENDS * 1000;
        for step in (0..4 * last).step_by(999) {
            let floor = many.floor(many.start(step));
            assert!(floor <= step && (step > last || floor == step), "{step}: {floor}");
            assert!(step - floor <= step / 32 && (step < last || floor >= last), "{step}: {floor}");
        }
    }
}
