//! What detectors look at: one port between two samples.

use crate::layout::Layout;

/// What changed between two samples of one port.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The counters that the port has, in the order of `deltas`.
    pub layout: &'a Layout,
    /// How far each went; `None` if that is not known.
    pub deltas: &'a [Option<u64>],
    /// Which of them cover samples before as well, at which the counter was missing.
    pub longer: &'a [bool],
    /// In how many milliseconds; never 0.
    pub elapsed_ms: u64,
    /// When it was seen.
    pub now: proto_model::Timestamp,
}

impl Step<'_> {
    /// How far the counter at `place` went.
    #[must_use]
    pub fn at(&self, place: usize) -> Option<u64> {
        self.deltas.get(place).copied().flatten()
    }

    /// How far it went in the time of this sample alone: for rates, and for what is compared with others.
    #[must_use]
    pub fn rate_at(&self, place: usize) -> Option<u64> {
        let longer = self.longer.get(place).copied().unwrap_or(false);
        self.at(place).filter(|_| !longer)
    }

    /// The sum of what is known of the counters at `places`; `None` if nothing is known of any.
    #[must_use]
    pub fn sum(&self, places: &[usize]) -> Option<u64> {
        let mut sum = None;
        for delta in places.iter().filter_map(|place| self.at(*place)) {
            sum = Some(sum.unwrap_or(0_u64).saturating_add(delta));
        }
        sum
    }
}
