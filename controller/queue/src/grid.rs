//! Time in steps of a millisecond from now, how finely it is looked at, and what is free over it.

use std::time::Duration;

use proto_model::Timestamp;

/// Behind all steps.
pub(crate) const NEVER: usize = usize::MAX;

/// Steps of one width of a coarse look before they double.
const SAME: usize = 32;

/// Doublings: with a width of ten seconds the last step begins after 121 days.
const LEVELS: usize = 15;

/// Ends of running jobs at which a step of a coarse look begins exactly; the soonest ones.
const ENDS: usize = 512;

/// Ends of running jobs that an exact look tells apart; those behind them are rounded.
pub(crate) const EXACT_ENDS: usize = 4096;

/// How finely time is looked at. A step is told as milliseconds from now.
///
/// An exact look rounds nothing, as long as not more jobs run than it tells apart. Otherwise, what frees something counts
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

/// One number over time, as the steps at which it changes.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Where each value begins; the first is 0.
    from: Vec<usize>,
    values: Vec<i32>,
    /// Changes that are not in the values yet.
    notes: Vec<(usize, i32)>,
}

impl Default for Row {
    fn default() -> Self {
        Self { from: vec![0], values: vec![0], notes: Vec::new() }
    }
}

impl Row {
    /// Adds from a step on to another; only before [`Self::sum_up`], which turns such notes into values.
    pub(crate) fn note(&mut self, from: usize, to: usize, value: i32) {
        if from >= to || value == 0 {
            return;
        }
        for (step, value) in [(from, value), (to, -value)] {
            match self.notes.last_mut() {
                _ if step == NEVER => {}
                Some((last, sum)) if *last == step => *sum += value,
                _ => self.notes.push((step, value)),
            }
        }
    }

    pub(crate) fn sum_up(&mut self) {
        let mut notes = std::mem::take(&mut self.notes);
        notes.sort_unstable_by_key(|(step, _)| *step);
        let mut sum = 0_i32;
        (self.from, self.values) = (vec![0], vec![0]);
        for (step, value) in notes {
            sum = sum.saturating_add(value);
            match (self.from.last(), self.values.last_mut()) {
                (Some(last), Some(here)) if *last == step => *here = sum,
                (_, Some(here)) if *here == sum => {}
                _ => {
                    self.from.push(step);
                    self.values.push(sum);
                }
            }
        }
    }

    /// The place of the value that holds in a step.
    fn place(&self, step: usize) -> usize {
        self.from.partition_point(|from| *from <= step).saturating_sub(1)
    }

    /// Where the value at a place ends.
    fn upto(&self, place: usize) -> usize {
        self.from.get(place + 1).copied().unwrap_or(NEVER)
    }

    /// The place of a value that begins exactly with a step; the number of places for [`NEVER`].
    fn split(&mut self, step: usize) -> usize {
        if step == NEVER {
            return self.from.len();
        }
        let place = self.place(step);
        if self.from[place] == step {
            return place;
        }
        self.from.insert(place + 1, step);
        self.values.insert(place + 1, self.values[place]);
        place + 1
    }

    /// A value that goes on as the one before is none of its own.
    fn join(&mut self, place: usize) {
        if place > 0 && place < self.values.len() && self.values[place] == self.values[place - 1] {
            self.from.remove(place);
            self.values.remove(place);
        }
    }

    /// Adds to the steps of a range.
    pub(crate) fn add(&mut self, from: usize, to: usize, value: i32) {
        if from >= to || value == 0 {
            return;
        }
        let first = self.split(from);
        let last = self.split(to);
        self.values[first..last].iter_mut().for_each(|entry| *entry = entry.saturating_add(value));
        self.join(last);
        self.join(first);
    }

    /// Puts other values in place of those of a range, each told with where it holds.
    pub(crate) fn change(
        &mut self,
        (from, to): (usize, usize),
        mut new: impl FnMut((usize, usize), i32) -> i32,
    ) {
        if from >= to {
            return;
        }
        let first = self.split(from);
        let last = self.split(to);
        for place in first..last {
            self.values[place] = new((self.from[place], self.upto(place)), self.values[place]);
        }
        self.join(last);
        self.join(first);
    }

    pub(crate) fn at(&self, step: usize) -> i32 {
        self.values[self.place(step)]
    }

    /// Where the value that holds in a step ends.
    pub(crate) fn next(&self, step: usize) -> usize {
        self.upto(self.place(step))
    }

    /// The values of a range.
    fn range(&self, from: usize, to: usize) -> (usize, &[i32]) {
        if from >= to {
            return (0, &[]);
        }
        let first = self.place(from);
        let last = first + self.from[first..].partition_point(|start| *start < to);
        (first, &self.values[first..last])
    }

    /// The end of the last part of a range with less than `least`: [`NEVER`] if that has no end.
    pub(crate) fn last_below(&self, from: usize, to: usize, least: i32) -> Option<usize> {
        let (first, values) = self.range(from, to);
        // A look at the minimum first: the compiler does sixteen values at once.
        if values.iter().fold(i32::MAX, |low, value| low.min(*value)) >= least {
            return None;
        }
        values.iter().rposition(|value| *value < least).map(|at| self.upto(first + at))
    }

    /// The first step from one on with so much at least.
    pub(crate) fn first_with(&self, from: usize, least: i32) -> Option<usize> {
        let first = self.place(from);
        let found = self.values[first..].iter().position(|value| *value >= least)?;
        Some(self.from[first + found].max(from))
    }

    /// The most of a range.
    pub(crate) fn most(&self, from: usize, to: usize) -> i32 {
        self.range(from, to).1.iter().fold(i32::MIN, |high, value| high.max(*value))
    }

    /// The least of a range.
    pub(crate) fn least(&self, from: usize, to: usize) -> i32 {
        self.range(from, to).1.iter().fold(i32::MAX, |low, value| low.min(*value))
    }

    /// Where the last value begins.
    pub(crate) fn last_change(&self) -> usize {
        self.from.last().copied().unwrap_or(0)
    }
}

/// Several rows that are looked at as one: each counts so often.
#[derive(Clone, Copy)]
pub(crate) struct Sum<'a>(pub(crate) [Option<(&'a Row, i32)>; 3]);

impl<'a> Sum<'a> {
    fn rows(&self) -> impl Iterator<Item = (&'a Row, i32)> {
        self.0.into_iter().flatten()
    }

    pub(crate) fn at(&self, step: usize) -> i32 {
        let parts = self.rows().map(|(row, times)| row.at(step).saturating_mul(times));
        parts.fold(0, i32::saturating_add)
    }

    /// As [`Row::last_below`].
    pub(crate) fn last_below(&self, from: usize, to: usize, least: i32) -> Option<usize> {
        if from >= to {
            return None;
        }
        let mut places = self.0.map(|row| row.map_or(0, |(row, _)| row.place(to - 1)));
        let ends = self.0.iter().zip(places).filter_map(|(row, place)| Some(row.as_ref()?.0.upto(place)));
        let mut end = ends.min().unwrap_or(NEVER);
        loop {
            let (mut begin, mut sum) = (0, 0_i32);
            for (row, place) in self.0.iter().zip(places) {
                let Some((row, times)) = row else { continue };
                begin = begin.max(row.from[place]);
                sum = sum.saturating_add(row.values[place].saturating_mul(*times));
            }
            if sum < least {
                return Some(end);
            }
            if begin <= from {
                return None;
            }
            for (row, place) in self.0.iter().zip(&mut places) {
                if row.is_some_and(|(row, _)| row.from[*place] == begin) {
                    *place -= 1;
                }
            }
            end = begin;
        }
    }

    /// As [`Row::first_with`].
    pub(crate) fn first_with(&self, from: usize, least: i32) -> Option<usize> {
        let mut places = self.0.map(|row| row.map_or(0, |(row, _)| row.place(from)));
        let mut step = from;
        loop {
            let (mut end, mut sum) = (NEVER, 0_i32);
            for (row, place) in self.0.iter().zip(places) {
                let Some((row, times)) = row else { continue };
                end = end.min(row.upto(place));
                sum = sum.saturating_add(row.values[place].saturating_mul(*times));
            }
            if sum >= least {
                return Some(step);
            }
            if end == NEVER {
                return None;
            }
            for (row, place) in self.0.iter().zip(&mut places) {
                if row.is_some_and(|(row, _)| row.upto(*place) == end) {
                    *place += 1;
                }
            }
            step = end;
        }
    }
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

    #[test]
    fn rows_know_where_there_is_too_little() {
        let mut row = Row::default();
        row.note(3, 10, 4);
        row.note(5, NEVER, 2);
        row.sum_up();
        assert_eq!((row.at(2), row.at(3), row.at(5), row.at(10), row.at(1000)), (0, 4, 6, 2, 2));
        assert_eq!((row.last_below(3, 10, 5), row.last_below(5, 10, 5)), (Some(5), None));
        assert_eq!((row.last_below(3, 11, 5), row.last_below(0, 3, 1)), (Some(NEVER), Some(3)));
        assert_eq!(
            (row.first_with(0, 5), row.first_with(6, 5), row.first_with(6, 7)),
            (Some(5), Some(6), None)
        );
        assert_eq!((row.least(3, 6), row.most(3, 6), row.most(0, 3), row.last_change()), (4, 6, 0, 10));
        row.add(0, 4, 1);
        assert_eq!((row.at(0), row.at(3), row.at(4), row.next(0)), (1, 5, 4, 3));
        row.add(0, 4, -1);
        row.add(10, NEVER, 4);
        assert_eq!((row.from, row.values), (vec![0, 3, 5], vec![0, 4, 6]));
    }

    #[test]
    fn a_row_is_what_single_steps_would_be() {
        let mut state = 7_u64;
        let mut dice = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % end
        };
        for _ in 0..200 {
            let (mut rows, mut plain) = (vec![Row::default(); 3], vec![[0_i32; 40]; 3]);
            for _ in 0..20 {
                let (at, from, to) = (dice(3) as usize, dice(40) as usize, dice(44) as usize);
                let value = dice(7) as i32 - 3;
                rows[at].add(from, if to >= 40 { NEVER } else { to }, value);
                (from..to.min(40)).for_each(|step| plain[at][step] += value);
            }
            let sum = Sum([Some((&rows[0], 1)), Some((&rows[1], 3)), Some((&rows[2], 1))]);
            let all = |step: usize| plain[0][step] + 3 * plain[1][step] + plain[2][step];
            for _ in 0..20 {
                let (from, to, least) = (dice(40) as usize, 1 + dice(40) as usize, dice(9) as i32 - 4);
                let low = |value: &dyn Fn(usize) -> i32| {
                    let last = (from..to).rev().find(|step| value(*step) < least)?;
                    // The part ends where the value changes; behind it there is enough, or what was asked ends.
                    Some(last)
                };
                let holds = |found: Option<usize>, value: &dyn Fn(usize) -> i32| match (found, low(value)) {
                    (None, None) => true,
                    (Some(end), Some(last)) => {
                        let same = (last..end.min(40)).all(|step| value(step) == value(last));
                        end > last && same && (end >= to || value(end) >= least)
                    }
                    _ => false,
                };
                assert!(holds(rows[1].last_below(from, to, least), &|step| plain[1][step]));
                let found = sum.last_below(from, to, least);
                let ends = found.is_some_and(|end| end > from && (end >= to || all(end) >= least));
                assert_eq!(found.is_some(), low(&all).is_some());
                assert!(found.is_none() || ends);
                assert_eq!(sum.first_with(from, least), (from..40).find(|step| all(*step) >= least));
                assert_eq!(rows[2].first_with(from, least), (from..40).find(|step| plain[2][*step] >= least));
                assert_eq!((sum.at(from), rows[0].at(from)), (all(from), plain[0][from]));
                if from < to {
                    assert_eq!(rows[0].least(from, to), *plain[0][from..to].iter().min().unwrap());
                    assert_eq!(rows[0].most(from, to), *plain[0][from..to].iter().max().unwrap());
                }
            }
        }
    }
}
