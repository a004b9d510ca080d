//! The loop's clock: wall time as it was at the start, carried on by the monotonic clock.
//!
//! A wall clock that is set back or forward while the controller runs must neither expire nodes nor freeze limits.

use std::time::{Duration, SystemTime};

use proto_model::Timestamp;
use tokio::time::Instant;

/// Milliseconds that only grow.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    wall: Timestamp,
    start: Instant,
}

impl Clock {
    /// Begins with the system's wall clock.
    #[must_use]
    pub fn start() -> Self {
        Self::start_at(SystemTime::now())
    }

    /// Begins now, which people call `wall`.
    #[must_use]
    pub fn start_at(wall: SystemTime) -> Self {
        let since = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { wall: Timestamp(0).plus(since), start: Instant::now() }
    }

    /// The wall time at the start and the time that has passed since.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.wall.plus(self.start.elapsed())
    }

    /// How long until `time`; zero if it has passed.
    #[must_use]
    pub fn until(&self, time: Timestamp) -> Duration {
        time.since(self.now())
    }
}

/// A time of the loop as a time of certificates.
pub(crate) fn time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at.0)
}

/// The other way round.
pub(crate) fn stamp(at: SystemTime) -> Timestamp {
    Timestamp(0).plus(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}
