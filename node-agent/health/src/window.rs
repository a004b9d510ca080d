//! Sums over the last seconds, and means that forget, in a few bytes.

use std::time::Duration;

use proto_model::Timestamp;

/// Parts of a window: a sum is exact to one part.
const PARTS: usize = 12;

/// How much there was within a span of time that ends now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    part_ms: u64,
    /// The number of the newest part since 1970.
    head: u64,
    parts: [u64; PARTS],
}

impl Window {
    /// An empty window, which holds what happened within the last `span`.
    #[must_use]
    pub fn new(span: Duration) -> Self {
        let span_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self { part_ms: span_ms.div_ceil(PARTS as u64).max(1), head: 0, parts: [0; PARTS] }
    }

    fn turn(&mut self, now: Timestamp) {
        let head = now.0 / self.part_ms;
        let gone = head.saturating_sub(self.head).min(PARTS as u64);
        for at in 0..gone {
            let part = (self.head + 1 + at) % PARTS as u64;
            self.parts[part as usize] = 0;
        }
        self.head = self.head.max(head);
    }

    /// Adds what came within `elapsed_ms` up to now. What came within more than the whole window counts by its share, so
    /// that a gap of polling is no burst.
    pub fn add(&mut self, now: Timestamp, elapsed_ms: u64, count: u64) {
        self.turn(now);
        let span = self.part_ms * PARTS as u64;
        let count = if elapsed_ms > span {
            u64::try_from(u128::from(count) * u128::from(span) / u128::from(elapsed_ms)).unwrap_or(u64::MAX)
        } else {
            count
        };
        let part = &mut self.parts[(self.head % PARTS as u64) as usize];
        *part = part.saturating_add(count);
    }

    /// The sum of the window that ends now.
    pub fn sum(&mut self, now: Timestamp) -> u64 {
        self.turn(now);
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }
}

/// A mean that forgets: after `tau` a value weighs a third of what it did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Ewma(pub f64);

impl Ewma {
    /// Takes a value that held for `elapsed_ms`.
    pub fn take(&mut self, value: f64, elapsed_ms: u64, tau: Duration) {
        let weight = 1.0 - (-(elapsed_ms as f64) / tau.as_millis().max(1) as f64).exp();
        self.0 += (value - self.0) * weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the plain list of what came: never less than the window without its oldest part, never more than
        /// the window.
        #[test]
        fn a_window_is_right_to_one_part(
            steps in prop::collection::vec((1_u64..3000, 0_u64..50), 1..80), seconds in 1_u64..100,
        ) {
            let span = seconds * 1000;
            let mut window = Window::new(Duration::from_millis(span));
            let mut all: Vec<(u64, u64)> = Vec::new();
            let mut now = 1_700_000_000_000;
            for (wait, count) in steps {
                now += wait;
                let elapsed = wait.min(span);
                window.add(Timestamp(now), elapsed, count);
                all.push((now, count));
                let part = span.div_ceil(PARTS as u64);
                let within = |ms: u64| all.iter().filter(|(at, _)| now - at < ms).map(|(_, n)| n).sum::<u64>();
                let got = window.sum(Timestamp(now));
                let least = within(part * (PARTS as u64 - 1));
                prop_assert!(least <= got && got <= within(part * PARTS as u64), "{got}, least {least}");
            }
        }
    }

    #[test]
    fn a_gap_is_no_burst() {
        let mut window = Window::new(Duration::from_secs(12));
        window.add(Timestamp(1_000_000), 120_000, 60);
        assert_eq!(window.sum(Timestamp(1_000_000)), 6);
    }

    #[test]
    fn a_mean_nears_what_it_is_given() {
        let mut mean = Ewma::default();
        for _ in 0..60 {
            mean.take(10.0, 1000, Duration::from_secs(20));
        }
        assert!((9.0..10.0).contains(&mean.0), "{}", mean.0);
    }
}
