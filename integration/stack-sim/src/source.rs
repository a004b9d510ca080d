//! Wall time and random bytes of one life of a process in the simulation.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use controller_store::Source;
use integration_sim::rng::Rng;

/// Seconds after 1970 at which every run begins.
const BEGIN_S: u64 = 1_800_000_000;

/// A source that depends on its seed alone.
#[derive(Debug)]
pub struct Seeded {
    rng: Mutex<Rng>,
    /// The process's clock is so far ahead.
    ahead: Duration,
}

impl Seeded {
    /// Random bytes that this seed determines, and a clock that is so far `ahead`.
    #[must_use]
    pub fn new(seed: u64, ahead: Duration) -> Self {
        Self { rng: Mutex::new(Rng::new(seed)), ahead }
    }
}

impl Source for Seeded {
    fn wall(&self) -> SystemTime {
        let since = turmoil::sim_elapsed().unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_secs(BEGIN_S) + self.ahead + since
    }

    fn fill(&self, bytes: &mut [u8]) -> bool {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes);
        true
    }
}
