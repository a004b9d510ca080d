//! How long to ask again and again before sleeping: a bounded spin that learns whether it is worth it.
//!
//! Waking a sleeper costs some 5 to 50 microseconds, so a spin that is as long can at most double what a wait costs, and one
//! that is answered in time saves most of it. Where those who are waited for need a processor that this thread has, each
//! look is followed by an offer of the processor; a thread that does not get it back soon is in the way and goes to sleep.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Bounds of a spin, in nanoseconds.
const LEAST: u32 = 2_000;
const MOST: u32 = 60_000;
/// A wait that ended up to here, by being woken, would have been worth a spin of [`MOST`].
const SOON: Duration = Duration::from_micros(80);
/// Looks between two looks at the clock, where the processor is not offered.
const CHECKS: u32 = 64;
/// Longest time without the processor of a thread that is not in anybody's way; who computes keeps it for longer.
const LAP: Duration = Duration::from_millis(1);

/// How long spinning is worth it for one kind of wait.
#[derive(Debug)]
pub(crate) struct Patience {
    /// Nanoseconds of the next spin.
    budget: AtomicU32,
    /// Whether the processor is offered between looks.
    offers: bool,
}

impl Patience {
    /// For `threads` that wait for each other: they offer their processors where those are fewer.
    pub(crate) fn among(threads: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { budget: AtomicU32::new(MOST / 2), offers: threads > processors }
    }

    /// For waiting for another process, which may need this processor.
    pub(crate) fn offering() -> Self {
        Self { budget: AtomicU32::new(MOST / 2), offers: true }
    }

    /// A wait has ended that was too long for the last look, after this time in all. Says what a look alone cannot know:
    /// that a longer one would have done.
    pub(crate) fn slept(&self, after: Duration) {
        if after <= SOON {
            let budget = self.budget.load(Ordering::Relaxed);
            self.budget.store(budget.saturating_mul(8).min(MOST), Ordering::Relaxed);
        }
    }

    /// Looks for something a little while.
    pub(crate) fn inspect<T>(&self, mut found: impl FnMut() -> Option<T>) -> Option<T> {
        let budget = self.budget.load(Ordering::Relaxed);
        let end = Duration::from_nanos(budget.into());
        let start = Instant::now();
        let mut lap = Duration::ZERO;
        loop {
            for _ in 0..if self.offers { 1 } else { CHECKS } {
                if let Some(found) = found() {
                    self.budget.store(budget.saturating_mul(2).min(MOST), Ordering::Relaxed);
                    return Some(found);
                }
                std::hint::spin_loop();
            }
            if self.offers {
                std::thread::yield_now();
            }
            let now = start.elapsed();
            if now >= end || now - lap >= LAP {
                // The last offer may have been what was needed.
                let late = found();
                let worth = if late.is_some() { budget } else { (budget / 2).max(LEAST) };
                self.budget.store(worth, Ordering::Relaxed);
                return late;
            }
            lap = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short looks that fail must not keep it from ever trying a longer one.
    #[test]
    fn it_recovers_where_longer_looks_are_worth_it() {
        let patience = Patience::offering();
        (0..20).for_each(|_| assert_eq!(patience.inspect(|| None::<()>), None));
        patience.slept(SOON * 2);
        assert_eq!(patience.budget.load(Ordering::Relaxed), LEAST);
        for _ in 0..3 {
            assert_eq!(patience.inspect(|| None::<()>), None);
            patience.slept(SOON);
        }
        assert_eq!(patience.budget.load(Ordering::Relaxed), MOST);
    }

    #[test]
    fn it_learns_and_stays_within_its_bounds() {
        for patience in [Patience::offering(), Patience::among(1)] {
            (0..20).for_each(|_| assert_eq!(patience.inspect(|| None::<()>), None));
            assert_eq!(patience.budget.load(Ordering::Relaxed), LEAST);
            (0..20).for_each(|_| assert_eq!(patience.inspect(|| Some(7)), Some(7)));
            assert_eq!(patience.budget.load(Ordering::Relaxed), MOST);
        }
    }
}
