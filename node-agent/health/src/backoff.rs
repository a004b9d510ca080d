//! How long to leave a device alone whose firmware does not answer: polling itself must not hurt.

use std::time::Duration;

use proto_model::Timestamp;

/// The wait after the first failure.
const FIRST: Duration = Duration::from_secs(2);
/// No wait is longer.
const LAST: Duration = Duration::from_secs(300);

/// The failures of one port in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backoff {
    /// Failures since the last success.
    pub failures: u32,
    /// Not to be read before.
    pub until: Timestamp,
}

impl Backoff {
    /// It failed: the wait doubles.
    pub fn failed(&mut self, now: Timestamp) {
        let wait = FIRST.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX)).min(LAST);
        self.failures = self.failures.saturating_add(1);
        self.until = now.plus(wait);
    }

    /// It was not there; that costs nobody anything, so it is looked for each time.
    pub fn absent(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.until = Timestamp::default();
    }

    /// The port could be read again: the next failure begins with the first wait.
    pub fn answered(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes() {
        let mut backoff = Backoff::default();
        let now = Timestamp(1_000_000);
        let waits: Vec<u64> = (0..40)
            .map(|_| {
                backoff.failed(now);
                backoff.until.since(now).as_secs()
            })
            .collect();
        assert_eq!(waits[..9], [2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert!(waits[9..].iter().all(|wait| *wait == 300));
        backoff.answered();
        backoff.failed(now);
        assert_eq!(backoff.until.since(now).as_secs(), 2);
    }
}
