//! What a run has found.

use std::fmt;

use crate::usage::UsageTally;

/// An invariant does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Simulated milliseconds since the start.
    pub at_ms: u64,
    /// Which, and with what.
    pub what: String,
}

/// What a run has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// Events of the run.
    pub events: u64,
    /// How long the run was, in simulated milliseconds.
    pub simulated_ms: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// Submits that were acknowledged.
    pub acknowledged: u64,
    /// Jobs that completed, failed, were cancelled.
    pub ended: [u64; 3],
    /// Tries beyond a job's first.
    pub restarts: u64,
    /// A digest of all events and of the store's last content.
    pub digest: u64,
    /// The first violation; the run ends with it.
    pub violation: Option<Violation>,
    /// Times that a controller began to lead.
    pub take_overs: u64,
    /// Probes of NICs that were out of use: those that failed, and those that passed.
    pub probes: [u64; 2],
    /// Attempts that ended because a rail was lost.
    pub rails_lost: u64,
    /// Attempts that were stopped because their job was suspended or queued again on request.
    pub stopped: u64,
    /// Writes of nodes that are quarantined.
    pub quarantined: u64,
    /// How usage records compare with what was seen.
    pub usage: UsageTally,
    /// Every event as a line, if asked for.
    pub story: Vec<String>,
    /// Every row that was stored in the end, if the story was asked for.
    pub rows: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [completed, failed, cancelled] = self.ended;
        write!(
            f,
            "seed {}: {} events, {} s simulated, {} faults, {} jobs acknowledged ({completed} completed, {failed} failed, \
             {cancelled} cancelled, {} restarts), {} times a new leader, digest {:016x}",
            self.seed,
            self.events,
            self.simulated_ms / 1000,
            self.faults,
            self.acknowledged,
            self.restarts,
            self.take_overs,
            self.digest
        )?;
        match &self.violation {
            Some(violation) => write!(f, "\n  VIOLATION at {} ms: {}", violation.at_ms, violation.what),
            None => Ok(()),
        }
    }
}
