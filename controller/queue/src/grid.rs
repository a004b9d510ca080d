//! Time in steps that grow with their distance from now, and what is free in each of them.

use std::time::Duration;

use proto_model::Timestamp;

/// Steps of one width before they double.
const SAME: usize = 32;

/// Doublings: with steps of ten seconds the last one begins after 121 days.
const LEVELS: usize = 15;

/// Ends of running jobs at which a step begins exactly; the soonest ones.
const ENDS: usize = 512;

/// The starts of the steps, in milliseconds; the last one has no end.
///
/// What frees something counts from the start of the step in which it lies, and what will be held counts to its end: so
/// nobody who waits for an end is kept waiting by rounding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    starts: Vec<u64>,
    /// Ends of planned jobs are rounded to the nearest step: right on average, for forecasts.
    nearest: bool,
}

impl Grid {
    /// Steps from now on.
    pub(crate) fn new(now: Timestamp, step: Duration, ends: impl Iterator<Item = Timestamp>) -> Self {
        let width = u64::try_from(step.as_millis()).unwrap_or(u64::MAX).clamp(1, u64::MAX >> (LEVELS + 8));
        let mut ends: Vec<u64> = ends.map(|end| end.0).filter(|end| *end > now.0).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.truncate(ENDS);
        let mut starts = Vec::with_capacity(SAME * LEVELS + ends.len());
        let mut at = now.0;
        let mut ends = ends.into_iter().peekable();
        for level in 0..LEVELS {
            for _ in 0..SAME {
                while let Some(end) = ends.next_if(|end| *end <= at) {
                    if end < at {
                        starts.push(end);
                    }
                }
                starts.push(at);
                at = at.saturating_add(width << level);
            }
        }
        Self { starts, nearest: false }
    }

    /// The same for a forecast.
    pub(crate) fn rounding_to_nearest(self) -> Self {
        Self { nearest: true, ..self }
    }

    /// How many steps there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// When a step begins.
    pub(crate) fn start(&self, step: usize) -> Timestamp {
        Timestamp(self.starts[step.min(self.starts.len() - 1)])
    }

    /// The step in which a time lies.
    pub(crate) fn floor(&self, time: Timestamp) -> usize {
        self.starts.partition_point(|start| *start <= time.0).saturating_sub(1)
    }

    /// The first step that begins at a time or later; behind the last one if there is none.
    pub(crate) fn ceil(&self, time: Timestamp) -> usize {
        self.starts.partition_point(|start| *start < time.0)
    }

    /// The steps that a job touches which starts now: up to, without, the result.
    pub(crate) fn end_now(&self, length: Duration) -> usize {
        self.ceil(self.start(0).plus(length)).max(1)
    }

    /// The steps that a job fills which starts with a step. What it only touches is not counted, so that those who
    /// wait for its end are planned no later than they can start.
    pub(crate) fn end(&self, step: usize, length: Duration) -> usize {
        if step == 0 {
            return self.end_now(length);
        }
        let time = self.start(step).plus(length);
        let floor = self.floor(time);
        let up = self.nearest
            && floor + 1 < self.starts.len()
            && time.since(self.start(floor)) > self.start(floor + 1).since(time);
        (floor + usize::from(up)).max(step + 1)
    }
}

/// One number per step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row(Vec<i32>);

impl Row {
    /// The same everywhere.
    pub(crate) fn filled(value: i32, steps: usize) -> Self {
        Self(vec![value; steps])
    }

    /// Adds from a step on to another; only before [`Self::sum_up`], which turns such notes into values.
    pub(crate) fn note(&mut self, from: usize, to: usize, value: i32) {
        if from < to && from < self.0.len() {
            self.0[from] += value;
            if to < self.0.len() {
                self.0[to] -= value;
            }
        }
    }

    pub(crate) fn sum_up(&mut self) {
        let mut sum = 0;
        for value in &mut self.0 {
            sum += *value;
            *value = sum;
        }
    }

    /// Adds to the steps of a range.
    pub(crate) fn add(&mut self, from: usize, to: usize, value: i32) {
        let to = to.min(self.0.len());
        if from < to {
            self.0[from..to].iter_mut().for_each(|entry| *entry = entry.saturating_add(value));
        }
    }

    pub(crate) fn at(&self, step: usize) -> i32 {
        self.0[step.min(self.0.len() - 1)]
    }

    pub(crate) fn get_mut(&mut self, step: usize) -> &mut i32 {
        let last = self.0.len() - 1;
        &mut self.0[step.min(last)]
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The last step of a range with less than `least`.
    pub(crate) fn last_below(&self, from: usize, to: usize, least: i32) -> Option<usize> {
        let to = to.min(self.0.len());
        if from >= to {
            return None;
        }
        let range = &self.0[from..to];
        // A look at the minimum first: the compiler does sixteen steps at once.
        if range.iter().fold(i32::MAX, |low, value| low.min(*value)) >= least {
            return None;
        }
        range.iter().rposition(|value| *value < least).map(|at| from + at)
    }

    /// The most of a range.
    pub(crate) fn most(&self, from: usize, to: usize) -> i32 {
        let to = to.min(self.0.len());
        if from >= to {
            i32::MIN
        } else {
            self.0[from..to].iter().fold(i32::MIN, |high, value| high.max(*value))
        }
    }

    /// The least of a range.
    pub(crate) fn least(&self, from: usize, to: usize) -> i32 {
        let to = to.min(self.0.len());
        if from >= to {
            i32::MAX
        } else {
            self.0[from..to].iter().fold(i32::MAX, |low, value| low.min(*value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_and_times_are_found() {
        let now = Timestamp(1_000_003);
        let ends = [now.0 + 7, now.0 + 10_000, now.0 + 400_005, now.0 - 5].map(Timestamp);
        let grid = Grid::new(now, Duration::from_secs(10), ends.into_iter());
        assert_eq!(grid.len(), SAME * LEVELS + 2);
        assert_eq!(grid.start(0), now);
        assert!(grid.start(grid.len() - 1).since(now) > Duration::from_secs(80 * 24 * 3600));
        assert!(ends[..3].iter().all(|end| grid.start(grid.floor(*end)) == *end));
        for step in 0..grid.len() {
            let start = grid.start(step);
            assert_eq!(grid.floor(start), step);
            assert_eq!(grid.ceil(start), step);
            if step > 0 {
                assert_eq!(grid.floor(Timestamp(start.0 - 1)), step - 1);
                assert_eq!(grid.ceil(Timestamp(start.0 - 1)), step);
            }
        }
        assert_eq!(grid.floor(Timestamp(u64::MAX)), grid.len() - 1);
        assert_eq!(grid.ceil(Timestamp(u64::MAX)), grid.len());
        assert_eq!(grid.floor(Timestamp(5)), 0);
        assert_eq!(grid.end(0, Duration::ZERO), 1);
    }

    #[test]
    fn rows_know_the_last_step_that_is_too_low() {
        let mut row = Row::filled(0, 100);
        row.note(3, 10, 4);
        row.note(5, usize::MAX, 2);
        row.sum_up();
        assert_eq!((row.at(2), row.at(3), row.at(5), row.at(10), row.at(1000)), (0, 4, 6, 2, 2));
        assert_eq!(row.last_below(3, 10, 5), Some(4));
        assert_eq!(row.last_below(5, 10, 5), None);
        assert_eq!((row.least(3, 6), row.most(3, 6), row.most(0, 3)), (4, 6, 0));
        row.add(0, 4, 1);
        assert_eq!((row.at(0), row.at(3), row.at(4)), (1, 5, 4));
    }
}
