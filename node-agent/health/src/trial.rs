//! A probe of a port's path while it lasts: what counters say of it.

use crate::counter_kind::{CounterKind, PerWord};

/// What must not rise while a probe passes. Drops are not among them: hosts drop what nobody listens for all the time, and what the
/// probe itself loses it sees.
const QUIET: [CounterKind; 6] = [
    CounterKind::LossOut,
    CounterKind::LossBack,
    CounterKind::Timeout,
    CounterKind::DeadQp,
    CounterKind::Reorder,
    CounterKind::Corrupt,
];
/// Samples after its end until its last packet is counted for sure: drivers bring some counters up to date once a second.
const CHECKS: u8 = 2;

/// A probe of a rail during which counters of loss or damage must not rise.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    /// Sums when it began.
    before: PerWord<u64>,
    /// Samples that are still needed; `None` while it lasts.
    left: Option<u8>,
}

impl Trial {
    pub(crate) fn new(before: PerWord<u64>) -> Self {
        Self { before, left: None }
    }

    /// The probe has passed; the counters are looked at a few times more.
    pub(crate) fn end(&mut self) {
        self.left = Some(CHECKS);
    }

    /// The counters were read once more.
    pub(crate) fn check(&mut self) {
        self.left = self.left.map(|left| left.saturating_sub(1));
    }

    /// The counter kinds that show loss or damage, once they have been read.
    pub(crate) fn outcome(&self, totals: &PerWord<u64>) -> Option<Result<(), CounterKind>> {
        (self.left? == 0).then(|| match QUIET.into_iter().find(|word| totals[*word] > self.before[*word]) {
            Some(word) => Err(word),
            None => Ok(()),
        })
    }
}
