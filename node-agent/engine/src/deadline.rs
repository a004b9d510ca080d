//! Deadlines, in the engine's own clock and in the system's.

use std::time::{Duration, Instant};

use node_agent_collective::units::Time;

/// Deadlines in the engine's own clock.
pub(crate) fn after(now: Time, wait: Duration) -> Time {
    now.saturating_add(wait)
}

/// The same moment for those who count by the system's clock.
pub(crate) fn instant_after(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or(now)
}
