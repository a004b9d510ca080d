//! What cannot be computed: wall time and random bytes. The system's, or those of a simulation.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where wall time and random bytes come from.
pub trait Source: Debug + Send + Sync + 'static {
    /// The wall time, which may be set back or forward.
    fn wall(&self) -> SystemTime;

    /// Fills the buffer with random bytes; false: there are none.
    fn fill(&self, bytes: &mut [u8]) -> bool;
}

/// The wall clock and the random bytes of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemSource;

impl Source for SystemSource {
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn fill(&self, bytes: &mut [u8]) -> bool {
        aws_lc_rs::rand::fill(bytes).is_ok()
    }
}

/// The wall time of a source in whole seconds since 1970; 0 for a time before that.
pub(crate) fn unix_seconds(source: &dyn Source) -> u64 {
    source.wall().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A number that nobody else has.
pub(crate) fn random_id(source: &dyn Source) -> Option<uuid::Uuid> {
    let mut bytes = [0; 16];
    source.fill(&mut bytes).then(|| uuid::Builder::from_random_bytes(bytes).into_uuid())
}
