//! What is free over time, as the steps at which it changes.
//!
//! A row of many changes is kept in chunks that know their least and their greatest value, and what was added to all of
//! theirs: a search passes over chunks that cannot have what it looks for, a change of a long range touches each chunk inside
//! it once, and a new step moves no more than its chunk.

use crate::grid::NEVER;

/// Values of a chunk at most; a chunk that would have more becomes two. Few in tests, so that these see many chunks.
const WIDE: usize = if cfg!(test) { 4 } else { 64 };

/// A chunk and the next one that have no more than this together become one.
const NARROW: usize = WIDE / 4;

/// Values that follow one another.
#[derive(Debug, Clone)]
struct Chunk {
    /// Where each value begins.
    from: Vec<usize>,
    /// Each less by `more` than it is.
    values: Vec<i32>,
    more: i32,
    /// The least and the greatest of them, as they are.
    low: i32,
    high: i32,
}

impl Chunk {
    fn of(from: Vec<usize>, values: Vec<i32>) -> Self {
        let mut chunk = Self { from, values, more: 0, low: 0, high: 0 };
        chunk.measure();
        chunk
    }

    fn len(&self) -> usize {
        self.from.len()
    }

    fn value(&self, at: usize) -> i32 {
        self.values[at].saturating_add(self.more)
    }

    fn measure(&mut self) {
        // Each fold by itself: the compiler does sixteen values at once.
        let low = self.values.iter().fold(i32::MAX, |low, value| low.min(*value));
        let high = self.values.iter().fold(i32::MIN, |high, value| high.max(*value));
        (self.low, self.high) = (low.saturating_add(self.more), high.saturating_add(self.more));
    }

    /// The value that holds in a step, which must not be before the first.
    fn place(&self, step: usize) -> usize {
        self.from.partition_point(|from| *from <= step).saturating_sub(1)
    }

    fn add_to_all(&mut self, value: i32) {
        for of in [&mut self.more, &mut self.low, &mut self.high] {
            *of = of.saturating_add(value);
        }
    }

    /// Adds to the values of a part of it.
    fn add(&mut self, (from, to): (usize, usize), value: i32) {
        if from == 0 && to >= self.len() {
            self.add_to_all(value);
            return;
        }
        let to = to.min(self.len());
        if from < to {
            self.values[from..to].iter_mut().for_each(|entry| *entry = entry.saturating_add(value));
            self.measure();
        }
    }
}

/// Where a value stands: its chunk, and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    chunk: usize,
    at: usize,
}

/// One number over time, as the steps at which it changes.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Never without a value; the first one begins with step 0.
    chunks: Vec<Chunk>,
    /// Where each chunk begins, side by side for searches.
    firsts: Vec<usize>,
    /// Changes that are not in the values yet.
    notes: Vec<(usize, i32)>,
}

impl Default for Row {
    fn default() -> Self {
        Self { chunks: vec![Chunk::of(vec![0], vec![0])], firsts: vec![0], notes: Vec::new() }
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
        *self = Self::of(std::mem::take(&mut self.notes));
    }

    /// The row of some changes, each a step and by how much the value is more from it on; in any order.
    pub(crate) fn of(mut changes: Vec<(usize, i32)>) -> Self {
        if !changes.is_sorted_by_key(|(step, _)| *step) {
            changes.sort_unstable_by_key(|(step, _)| *step);
        }
        let (mut from, mut values) =
            (Vec::with_capacity(changes.len() + 1), Vec::with_capacity(changes.len() + 1));
        from.push(0);
        values.push(0);
        let mut sum = 0_i32;
        for (step, value) in changes {
            sum = sum.saturating_add(value);
            match (from.last(), values.last_mut()) {
                (Some(last), Some(here)) if *last == step => *here = sum,
                (_, Some(here)) if *here == sum => {}
                _ => {
                    from.push(step);
                    values.push(sum);
                }
            }
        }
        if from.len() <= WIDE {
            return Self { chunks: vec![Chunk::of(from, values)], firsts: vec![0], notes: Vec::new() };
        }
        // Half full: there is room for what comes between.
        let firsts = from.iter().copied().step_by(WIDE / 2).collect();
        let parts = from.chunks(WIDE / 2).zip(values.chunks(WIDE / 2));
        let chunks = parts.map(|(from, values)| Chunk::of(from.to_vec(), values.to_vec())).collect();
        Self { chunks, firsts, notes: Vec::new() }
    }

    /// The chunk of the value that holds in a step.
    fn chunk(&self, step: usize) -> usize {
        if self.firsts.len() == 1 {
            return 0;
        }
        self.firsts.partition_point(|first| *first <= step).saturating_sub(1)
    }

    /// The value that holds in a step.
    fn place(&self, step: usize) -> Slot {
        let chunk = self.chunk(step);
        Slot { chunk, at: self.chunks[chunk].place(step) }
    }

    /// Where a chunk ends.
    fn chunk_end(&self, chunk: usize) -> usize {
        self.firsts.get(chunk + 1).copied().unwrap_or(NEVER)
    }

    /// Where the value at a place ends.
    fn upto(&self, place: Slot) -> usize {
        let next = self.chunks[place.chunk].from.get(place.at + 1);
        next.copied().unwrap_or_else(|| self.chunk_end(place.chunk))
    }

    fn value(&self, place: Slot) -> i32 {
        self.chunks[place.chunk].value(place.at)
    }

    /// Lets a value begin exactly with a step.
    fn split(&mut self, step: usize) {
        if step == NEVER {
            return;
        }
        let Slot { chunk, at } = self.place(step);
        let here = &mut self.chunks[chunk];
        if here.from[at] == step {
            return;
        }
        here.from.insert(at + 1, step);
        here.values.insert(at + 1, here.values[at]);
        if here.len() > WIDE {
            let half = here.len() / 2;
            let mut rest = Chunk {
                more: here.more,
                ..Chunk::of(here.from.split_off(half), here.values.split_off(half))
            };
            rest.measure();
            here.measure();
            self.firsts.insert(chunk + 1, rest.from[0]);
            self.chunks.insert(chunk + 1, rest);
        }
    }

    /// A value that goes on as the one before is none of its own.
    fn join(&mut self, step: usize) {
        if step == NEVER || step == 0 {
            return;
        }
        let place = self.place(step);
        let Slot { chunk, at } = place;
        if self.chunks[chunk].from[at] != step {
            return;
        }
        let before = match (at.checked_sub(1), chunk.checked_sub(1)) {
            (Some(before), _) => self.chunks[chunk].value(before),
            (None, Some(before)) => self.chunks[before].value(self.chunks[before].len() - 1),
            (None, None) => return,
        };
        if self.value(place) != before {
            return;
        }
        let here = &mut self.chunks[chunk];
        here.from.remove(at);
        here.values.remove(at);
        if here.from.is_empty() {
            self.chunks.remove(chunk);
            self.firsts.remove(chunk);
            return;
        }
        // Inside a chunk the value is still there.
        if at == 0 {
            here.measure();
            self.firsts[chunk] = here.from[0];
        }
        if self.chunks.get(chunk + 1).is_some_and(|next| next.len() + self.chunks[chunk].len() <= NARROW) {
            self.firsts.remove(chunk + 1);
            let next = self.chunks.remove(chunk + 1);
            let here = &mut self.chunks[chunk];
            let apart = next.more.saturating_sub(here.more);
            here.from.extend(next.from);
            here.values.extend(next.values.into_iter().map(|value| value.saturating_add(apart)));
            here.measure();
        }
    }

    /// The parts of chunks that lie in a range, which begins and ends with values.
    fn parts(&self, from: usize, to: usize) -> (Slot, Slot) {
        let end = Slot { chunk: self.chunks.len() - 1, at: usize::MAX };
        (self.place(from), if to == NEVER { end } else { self.place(to) })
    }

    /// Adds to the steps of a range.
    pub(crate) fn add(&mut self, from: usize, to: usize, value: i32) {
        if from >= to || value == 0 {
            return;
        }
        self.split(from);
        self.split(to);
        let (first, last) = self.parts(from, to);
        if first.chunk == last.chunk {
            self.chunks[first.chunk].add((first.at, last.at), value);
        } else {
            self.chunks[first.chunk].add((first.at, usize::MAX), value);
            self.chunks[first.chunk + 1..last.chunk].iter_mut().for_each(|chunk| chunk.add_to_all(value));
            self.chunks[last.chunk].add((0, last.at), value);
        }
        self.join(to);
        self.join(from);
    }

    /// Puts other values in place of those of a range, each with where it holds.
    pub(crate) fn change(
        &mut self,
        (from, to): (usize, usize),
        mut new: impl FnMut((usize, usize), i32) -> i32,
    ) {
        if from >= to {
            return;
        }
        self.split(from);
        self.split(to);
        let (first, last) = self.parts(from, to);
        for chunk in first.chunk..=last.chunk {
            let end = self.chunk_end(chunk);
            let here = &mut self.chunks[chunk];
            let begin = if chunk == first.chunk { first.at } else { 0 };
            let stop = if chunk == last.chunk { last.at.min(here.len()) } else { here.len() };
            for at in begin..stop {
                let upto = here.from.get(at + 1).copied().unwrap_or(end);
                let value = new((here.from[at], upto), here.value(at));
                here.values[at] = value.saturating_sub(here.more);
            }
            if begin < stop {
                here.measure();
            }
        }
        self.join(to);
        self.join(from);
    }

    pub(crate) fn at(&self, step: usize) -> i32 {
        self.value(self.place(step))
    }

    /// Where the value that holds in a step ends.
    pub(crate) fn next(&self, step: usize) -> usize {
        self.upto(self.place(step))
    }

    /// The end of the last part of a range with less than `least`: [`NEVER`] if that has no end.
    pub(crate) fn last_below(&self, from: usize, to: usize, least: i32) -> Option<usize> {
        if from >= to {
            return None;
        }
        let first = self.place(from);
        let last = self.place(to - 1);
        for chunk in (first.chunk..=last.chunk).rev() {
            let here = &self.chunks[chunk];
            if here.low >= least {
                continue;
            }
            let begin = if chunk == first.chunk { first.at } else { 0 };
            let end = if chunk == last.chunk { last.at + 1 } else { here.len() };
            let least = least.saturating_sub(here.more);
            if let Some(at) = here.values[begin..end].iter().rposition(|value| *value < least) {
                return Some(self.upto(Slot { chunk, at: begin + at }));
            }
        }
        None
    }

    /// The first step from one on with so much at least.
    pub(crate) fn first_with(&self, from: usize, least: i32) -> Option<usize> {
        let first = self.place(from);
        for (chunk, here) in self.chunks.iter().enumerate().skip(first.chunk) {
            if here.high < least {
                continue;
            }
            let begin = if chunk == first.chunk { first.at } else { 0 };
            let least = least.saturating_sub(here.more);
            if let Some(at) = here.values[begin..].iter().position(|value| *value >= least) {
                return Some(here.from[begin + at].max(from));
            }
        }
        None
    }

    /// The first step from one on that begins a range with so much in all of it; `end` says where the range of a step ends.
    pub(crate) fn first_fit(&self, from: usize, least: i32, end: impl Fn(usize) -> usize) -> Option<usize> {
        let mut step = self.first_with(from, least)?;
        // From the step up to here there is enough: that is not looked at again.
        let mut enough = step;
        loop {
            let until = end(step);
            let Some(miss) = self.last_below(enough, until, least) else { return Some(step) };
            step = self.first_with(miss, least)?;
            enough = if step == miss { until.max(miss) } else { step };
        }
    }

    /// Folds `of` over the chunks of the steps `from..to`, and over the single values where the range cuts a
    /// chunk; `none` if it is empty.
    fn fold(
        &self,
        from: usize,
        to: usize,
        none: i32,
        of: impl Fn(&Chunk) -> i32,
        pick: fn(i32, i32) -> i32,
    ) -> i32 {
        if from >= to {
            return none;
        }
        let (first, last) = (self.place(from), self.place(to - 1));
        let mut found = none;
        for chunk in first.chunk..=last.chunk {
            let here = &self.chunks[chunk];
            let begin = if chunk == first.chunk { first.at } else { 0 };
            let end = if chunk == last.chunk { last.at + 1 } else { here.len() };
            if begin == 0 && end == here.len() {
                found = pick(found, of(here));
            } else {
                let part = here.values[begin..end].iter().fold(none, |found, value| pick(found, *value));
                found = pick(found, part.saturating_add(here.more));
            }
        }
        found
    }

    /// The most of a range.
    pub(crate) fn most(&self, from: usize, to: usize) -> i32 {
        self.fold(from, to, i32::MIN, |chunk| chunk.high, i32::max)
    }

    /// The least of a range.
    pub(crate) fn least(&self, from: usize, to: usize) -> i32 {
        self.fold(from, to, i32::MAX, |chunk| chunk.low, i32::min)
    }

    /// Where the last value begins.
    pub(crate) fn last_change(&self) -> usize {
        self.chunks.last().and_then(|chunk| chunk.from.last()).copied().unwrap_or(0)
    }
}

/// Several rows that are looked at as one: each counts so often, and not less than once.
#[derive(Clone, Copy)]
pub(crate) struct Sum<'a>(pub(crate) [Option<(&'a Row, i32)>; 3]);

impl<'a> Sum<'a> {
    fn rows(&self) -> impl Iterator<Item = (usize, &'a Row, i32)> {
        let rows = self.0.into_iter().enumerate();
        rows.filter_map(|(number, row)| row.map(|(row, times)| (number, row, times)))
    }

    fn sum(&self, of: impl Fn(usize, &Row) -> i32) -> i32 {
        let parts = self.rows().map(|(number, row, times)| of(number, row).saturating_mul(times));
        parts.fold(0, i32::saturating_add)
    }

    pub(crate) fn at(&self, step: usize) -> i32 {
        self.sum(|_, row| row.at(step))
    }

    /// As [`Row::last_below`], of the sum of the rows.
    pub(crate) fn last_below(&self, from: usize, to: usize, least: i32) -> Option<usize> {
        if from >= to {
            return None;
        }
        // What is looked at now ends here, and does not begin behind this step.
        let mut step = to - 1;
        loop {
            let mut chunks = [0; 3];
            let mut begin = from;
            for (number, row, _) in self.rows() {
                chunks[number] = row.chunk(step);
                begin = begin.max(row.firsts[chunks[number]]);
            }
            if self.sum(|number, row| row.chunks[chunks[number]].low) < least
                && let Some(end) = self.last_below_inside(chunks, (begin, step), least)
            {
                return Some(end);
            }
            if begin <= from {
                return None;
            }
            step = begin - 1;
        }
    }

    /// The same where each row is in one chunk.
    fn last_below_inside(
        &self,
        chunks: [usize; 3],
        (begin, step): (usize, usize),
        least: i32,
    ) -> Option<usize> {
        let mut places = [0; 3];
        let mut end = NEVER;
        for (number, row, _) in self.rows() {
            let chunk = chunks[number];
            places[number] = row.chunks[chunk].place(step);
            end = end.min(row.upto(Slot { chunk, at: places[number] }));
        }
        loop {
            if self.sum(|number, row| row.chunks[chunks[number]].value(places[number])) < least {
                return Some(end);
            }
            let starts = |number: usize, row: &Row, at: usize| row.chunks[chunks[number]].from[at];
            let here =
                self.rows().map(|(number, row, _)| starts(number, row, places[number])).max().unwrap_or(0);
            if here <= begin {
                return None;
            }
            for (number, row, _) in self.rows() {
                if starts(number, row, places[number]) == here {
                    places[number] -= 1;
                }
            }
            end = here;
        }
    }

    /// As [`Row::first_with`], of the sum of the rows.
    pub(crate) fn first_with(&self, from: usize, least: i32) -> Option<usize> {
        let mut step = from;
        loop {
            let mut chunks = [0; 3];
            let mut end = NEVER;
            for (number, row, _) in self.rows() {
                chunks[number] = row.chunk(step);
                end = end.min(row.chunk_end(chunks[number]));
            }
            if self.sum(|number, row| row.chunks[chunks[number]].high) >= least
                && let Some(found) = self.first_with_inside(chunks, (step, end), least)
            {
                return Some(found);
            }
            if end == NEVER {
                return None;
            }
            step = end;
        }
    }

    /// The same where each row is in one chunk.
    fn first_with_inside(
        &self,
        chunks: [usize; 3],
        (from, end): (usize, usize),
        least: i32,
    ) -> Option<usize> {
        let mut places = [0; 3];
        for (number, row, _) in self.rows() {
            places[number] = row.chunks[chunks[number]].place(from);
        }
        let mut step = from;
        loop {
            if self.sum(|number, row| row.chunks[chunks[number]].value(places[number])) >= least {
                return Some(step);
            }
            let upto = |number: usize, row: &Row, at: usize| row.upto(Slot { chunk: chunks[number], at });
            let next =
                self.rows().map(|(number, row, _)| upto(number, row, places[number])).min().unwrap_or(NEVER);
            if next >= end {
                return None;
            }
            for (number, row, _) in self.rows() {
                if upto(number, row, places[number]) == next {
                    places[number] += 1;
                }
            }
            step = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps and values of a row.
    fn values(row: &Row) -> (Vec<usize>, Vec<i32>) {
        let all = || row.chunks.iter().flat_map(|chunk| (0..chunk.len()).map(move |at| (chunk, at)));
        (
            all().map(|(chunk, at)| chunk.from[at]).collect(),
            all().map(|(chunk, at)| chunk.value(at)).collect(),
        )
    }

    fn check(row: &Row) {
        let (from, _) = values(row);
        assert!(from[0] == 0 && from.is_sorted_by(|a, b| a < b), "{from:?}");
        assert!(row.firsts.iter().copied().eq(row.chunks.iter().map(|chunk| chunk.from[0])));
        for chunk in &row.chunks {
            let all = || (0..chunk.len()).map(|at| chunk.value(at));
            assert!((1..=WIDE).contains(&chunk.len()));
            assert_eq!((Some(chunk.low), Some(chunk.high)), (all().min(), all().max()));
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
        assert_eq!(values(&row), (vec![0, 3, 5], vec![0, 4, 6]));
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
                if dice(5) == 0 {
                    let most = dice(5) as i32;
                    rows[at].change((from, if to >= 40 { NEVER } else { to }), |_, value| value.min(most));
                    (from..to.min(40)).for_each(|step| plain[at][step] = plain[at][step].min(most));
                }
                check(&rows[at]);
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
                let length = dice(12) as usize;
                let enough = |at: usize| plain[1][at.min(39)] >= least;
                let first = (from..=40).find(|step| (*step..=step + length).all(enough));
                assert_eq!(rows[1].first_fit(from, least, |step| step + length + 1), first);
                assert_eq!((sum.at(from), rows[0].at(from)), (all(from), plain[0][from]));
                if from < to {
                    assert_eq!(rows[0].least(from, to), *plain[0][from..to].iter().min().unwrap());
                    assert_eq!(rows[0].most(from, to), *plain[0][from..to].iter().max().unwrap());
                }
            }
        }
    }
}
