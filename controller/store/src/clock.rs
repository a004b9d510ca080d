//! The clock that lease expiry reads: the system's monotonic one, or one that a test moves by hand.

use std::fmt::Debug;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Monotonic time since an origin of the clock's own choosing. Leases are measured by it, never by wall time.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Time passed since the clock's origin; never goes backwards.
    fn now(&self) -> Duration;
}

/// The system's monotonic clock.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that stands still until it is moved; for tests and simulation.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Mutex<Duration>,
}

impl ManualClock {
    /// Moves the clock forward by `by`.
    pub fn advance(&self, by: Duration) {
        *self.now.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
