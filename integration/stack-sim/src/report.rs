//! What a run has come to.

use std::fmt;

/// The report of one seed's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// Of every event with its time.
    pub digest: u64,
    /// The number of events.
    pub events: u64,
    /// How long the run was, in simulated milliseconds.
    pub simulated_ms: u64,
    /// The number of faults that began.
    pub faults: u64,
    /// Submits that were acknowledged.
    pub acknowledged: u64,
    /// Calls of clients, repeated ones too.
    pub calls: u64,
    /// Transactions of etcd that changed something.
    pub commits: u64,
    /// Times that a controller began to lead.
    pub take_overs: u64,
    /// Milliseconds from the last fault until all had settled.
    pub settled_ms: u64,
    /// The longest that nobody led although somebody could, in milliseconds.
    pub vacancy_ms: u64,
    /// The first thing that must not be, and when.
    pub violation: Option<(u64, String)>,
    /// Lines for people, if they were kept.
    pub story: Vec<String>,
}

impl Report {
    /// Of a seed of which nothing is known.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self {
            seed,
            digest: 0,
            events: 0,
            simulated_ms: 0,
            faults: 0,
            acknowledged: 0,
            calls: 0,
            commits: 0,
            take_overs: 0,
            settled_ms: 0,
            vacancy_ms: 0,
            violation: None,
            story: Vec::new(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, digest, events, simulated_ms, faults, acknowledged, calls, commits, .. } = self;
        write!(
            f,
            "seed {seed}: digest {digest:016x}, {events} events in {simulated_ms} ms, {faults} faults, {acknowledged} submits \
             acknowledged of {calls} calls, {commits} transactions, {} take-overs, nobody led for {} ms at most, settled {} ms after \
             the last fault",
            self.take_overs, self.vacancy_ms, self.settled_ms
        )?;
        match &self.violation {
            Some((at, what)) => write!(f, "\nVIOLATION at {at} ms: {what}"),
            None => Ok(()),
        }
    }
}
