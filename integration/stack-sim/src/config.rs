//! What a run looks like.

use crate::plant::Bug;

/// The size of a run; what is not here is drawn from the seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The most controllers that a run has.
    pub controllers: u64,
    /// The number of clients.
    pub clients: u64,
    /// Submits of a client, at most.
    pub submits: u64,
    /// Faults of the plan.
    pub faults: u64,
    /// Simulated milliseconds with faults.
    pub chaos_ms: u64,
    /// Simulated milliseconds after the last fault within which everything must have settled.
    pub settle_ms: u64,
    /// Simulated milliseconds between two looks at the network.
    pub tick_ms: u64,
    /// Keep the story: every event as a line.
    pub story: bool,
    /// A planted bug, which the checks must find.
    pub bug: Option<Bug>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            controllers: 3,
            clients: 5,
            submits: 6,
            faults: 7,
            chaos_ms: 4000,
            settle_ms: 15_000,
            tick_ms: 5,
            story: false,
            bug: None,
        }
    }
}
