//! What a run looks like.

use crate::plant::Bug;

/// The size of a run; what is not here is drawn from the seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The most controllers that a run has.
    pub controllers: u64,
    /// Servers at most; at least two.
    pub nodes: u64,
    /// The most jobs that a run has.
    pub jobs: u64,
    /// Faults of the plan.
    pub faults: u64,
    /// Simulated milliseconds with faults.
    pub chaos_ms: u64,
    /// Simulated milliseconds after the last fault within which everything must have settled.
    pub settle_ms: u64,
    /// Simulated milliseconds of a run at least.
    pub run_ms: u64,
    /// Controllers' clocks may be an hour off and a tenth too fast or slow.
    pub skew: bool,
    /// Beside the plan's faults a little goes wrong at any time: processes that do not start, agents that die.
    pub noise: bool,
    /// Gangs are certified before their ranks start; now and then a port is found unfit, cables are swapped, or an engine measures for
    /// ever.
    pub certify: bool,
    /// NICs fall ill now and then, and are out of use until a probe of their path passes.
    pub prove: bool,
    /// Agents say what is not true now and then.
    pub lie: bool,
    /// Only these faults of the plan.
    pub only_faults: Option<Vec<usize>>,
    /// The jobs that are submitted, by number; `None`: all.
    pub only_jobs: Option<Vec<usize>>,
    /// Keep the story: every event as a line.
    pub story: bool,
    /// A bug in the simulator's shells, which the checks must find.
    pub bug: Option<Bug>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            controllers: 3,
            nodes: 3,
            jobs: 4,
            faults: 10,
            chaos_ms: 480_000,
            settle_ms: 1_200_000,
            run_ms: 600_000,
            skew: true,
            noise: true,
            certify: false,
            prove: false,
            lie: false,
            only_faults: None,
            only_jobs: None,
            story: false,
            bug: None,
        }
    }
}

impl Config {
    /// Whether gangs are certified: where a bug of that is looked for, too.
    #[must_use]
    pub fn certifies(&self) -> bool {
        self.certify || self.bug == Some(Bug::StartUncertified)
    }
}
