//! Places by how many nodes they offer: the best fit and the largest are found without looking at the others.

/// Counts up to here have a row of their own, larger ones share rows of a thirty-second of their size.
const EXACT: u32 = 128;

/// Bits of a row's number within one doubling of the count.
const FINE: u32 = 5;

/// Places of equal rank looked at for the last criteria.
const TIES: usize = 32;

/// Pods or blocks, each with its count, sorted into rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bins {
    counts: Vec<u32>,
    /// 64-bit words of the bitmap of one row.
    stride: usize,
    /// Which places are in a row, as bitmaps; row 0 is not kept.
    rows: Vec<u64>,
    /// How many places are in each row.
    filled: Vec<u32>,
    /// Which rows have any, as a bitmap.
    live: Vec<u64>,
    total: u64,
}

fn row(count: u32) -> usize {
    if count < EXACT {
        return count as usize;
    }
    let doubling = count.ilog2();
    let fine = count >> (doubling - FINE) & ((1 << FINE) - 1);
    (EXACT + ((doubling - EXACT.ilog2()) << FINE) + fine) as usize
}

impl Bins {
    /// So many places, all with nothing, of which none will ever offer more than `most`.
    pub(crate) fn new(places: usize, most: u32) -> Self {
        let (stride, rows) = (places.div_ceil(64), row(most) + 1);
        Self {
            counts: vec![0; places],
            stride,
            rows: vec![0; stride * rows],
            filled: vec![0; rows],
            live: vec![0; rows.div_ceil(64)],
            total: 0,
        }
    }

    /// What one place offers.
    pub(crate) fn count(&self, place: u32) -> u32 {
        self.counts[place as usize]
    }

    /// What all offer together.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// A place offers `more` and no longer `less`.
    pub(crate) fn change(&mut self, place: u32, more: u32, less: u32) {
        let at = place as usize;
        let (old, new) = (self.counts[at], self.counts[at] + more - less);
        self.counts[at] = new;
        self.total = self.total + u64::from(more) - u64::from(less);
        let (from, to) = (row(old), row(new));
        if from == to {
            return;
        }
        let bit = 1 << (at % 64);
        if from > 0 {
            self.rows[from * self.stride + at / 64] &= !bit;
            self.filled[from] -= 1;
            if self.filled[from] == 0 {
                self.live[from / 64] &= !(1 << (from % 64));
            }
        }
        if to > 0 {
            self.rows[to * self.stride + at / 64] |= bit;
            self.filled[to] += 1;
            self.live[to / 64] |= 1 << (to % 64);
        }
    }

    /// Rows with places, ascending from `from`.
    fn live_rows(&self, from: usize) -> impl Iterator<Item = usize> {
        let start = from / 64;
        self.live.iter().enumerate().skip(start).flat_map(move |(at, word)| {
            let word = if at == start { word & u64::MAX << (from % 64) } else { *word };
            bits(word).map(move |bit| at * 64 + bit as usize)
        })
    }

    /// The places of a row, ascending.
    fn places(&self, row: usize) -> impl Iterator<Item = u32> {
        let words = &self.rows[row * self.stride..][..self.stride];
        (0..).zip(words).flat_map(|(at, word): (u32, &u64)| bits(*word).map(move |bit| at * 64 + bit))
    }

    /// Places that offer at least so many, roughly in ascending order of what they offer: exactly so for small counts.
    pub(crate) fn at_least(&self, wanted: u32) -> impl Iterator<Item = u32> {
        self.live_rows(row(wanted.max(1)))
            .flat_map(|row| self.places(row))
            .filter(move |place| self.count(*place) >= wanted)
    }

    /// Of the places that offer at least so many the one that offers least, then the one with the smallest `rank`.
    pub(crate) fn best_fit<R: Ord>(&self, wanted: u32, rank: impl Fn(u32) -> R) -> Option<u32> {
        for row in self.live_rows(row(wanted.max(1))) {
            let fits = self.places(row).filter(|place| self.count(*place) >= wanted);
            let best = if (row as u32) < EXACT {
                fits.take(TIES).min_by_key(|place| (rank(*place), *place))
            } else {
                fits.min_by_key(|place| (self.count(*place), rank(*place), *place))
            };
            if best.is_some() {
                return best;
            }
        }
        None
    }

    /// The places that offer anything, the largest first; equal ones in the order of `rank`.
    pub(crate) fn largest<R: Ord>(
        &self,
        into: &mut Vec<u32>,
        rank: impl Fn(u32) -> R,
        mut enough: impl FnMut(u32) -> bool,
    ) {
        into.clear();
        for row in (1..self.filled.len()).rev().filter(|row| self.filled[*row] > 0) {
            let start = into.len();
            into.extend(self.places(row));
            into[start..]
                .sort_unstable_by_key(|place| (std::cmp::Reverse(self.count(*place)), rank(*place), *place));
            for at in start..into.len() {
                if enough(into[at]) {
                    into.truncate(at + 1);
                    return;
                }
            }
        }
    }

    /// The most that one place offers.
    pub(crate) fn most(&self) -> u32 {
        let top = (1..self.filled.len()).rev().find(|row| self.filled[*row] > 0);
        top.and_then(|row| self.places(row).map(|place| self.count(place)).max()).unwrap_or(0)
    }
}

/// The ones of a word, ascending.
pub(crate) fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        (word != 0).then(|| {
            let bit = word.trailing_zeros();
            word &= word - 1;
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{Bins, row};

    #[test]
    fn rows_never_go_down() {
        let mut last = 0;
        for count in 0..200_000 {
            let now = row(count);
            assert!(now == last || now == last + 1, "{count}");
            last = now;
        }
    }

    #[test]
    fn the_best_fit_and_the_largest_of_any_counts() {
        let counts: Vec<u32> =
            (0..97_u32).map(|at| (at * 7919) % 61 * if at % 5 == 0 { 40 } else { 1 }).collect();
        let mut bins = Bins::new(counts.len(), 3000);
        for (place, count) in (0..).zip(&counts) {
            bins.change(place, 3000, 0);
            bins.change(place, *count, 3000);
        }
        assert_eq!(bins.total(), counts.iter().map(|count| u64::from(*count)).sum::<u64>());
        for wanted in 1..2600 {
            let right = (0..).zip(&counts).filter(|(_, count)| **count >= wanted);
            let right =
                right.min_by_key(|(place, count)| (**count, *place)).map(|(place, _): (u32, _)| place);
            assert_eq!(bins.best_fit(wanted, |_| ()), right, "{wanted}");
        }
        let mut largest = Vec::new();
        bins.largest(&mut largest, |_| (), |_| false);
        let mut right: Vec<u32> = (0..97).filter(|place| counts[*place as usize] > 0).collect();
        right.sort_by_key(|place| (std::cmp::Reverse(counts[*place as usize]), *place));
        assert_eq!(largest, right);
        assert_eq!(bins.most(), *counts.iter().max().unwrap());
    }
}
