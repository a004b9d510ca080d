//! What a run looks like, and the bugs that can be planted in it.

/// The size of a run; what is not here is drawn from the seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Servers at most; at least two.
    pub nodes: u64,
    /// Jobs at most.
    pub jobs: u64,
    /// Simulated milliseconds with faults.
    pub chaos_ms: u64,
    /// Simulated milliseconds after the last fault within which everything must have settled.
    pub settle_ms: u64,
    /// Mean simulated milliseconds between two faults.
    pub fault_every_ms: u64,
    /// Keep the story: every event as a line.
    pub story: bool,
    /// A bug in the simulator's shells, which the checks must find.
    pub bug: Option<Bug>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            nodes: 4,
            jobs: 16,
            chaos_ms: 90_000,
            settle_ms: 1_200_000,
            fault_every_ms: 6_000,
            story: false,
            bug: None,
        }
    }
}

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The controller answers clients before its transaction is durable.
    ReplyBeforeCommit,
    /// The controller tells agents before its transaction is durable.
    PushBeforeCommit,
    /// A failed transaction is not undone in memory.
    NoRollback,
    /// Request ids are not written.
    ForgetRequests,
    /// What an unreachable node holds counts as ended.
    FreeOnUnknown,
    /// The store takes writes of a controller that was replaced.
    NoFence,
    /// Agents obey commands of a controller that was replaced.
    IgnoreEpoch,
    /// Agents do not persist records before they start processes.
    ForgetRecords,
    /// A new controller does not find the jobs that hold something.
    LoseJobsOnLoad,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::ReplyBeforeCommit,
        Self::PushBeforeCommit,
        Self::NoRollback,
        Self::ForgetRequests,
        Self::FreeOnUnknown,
        Self::NoFence,
        Self::IgnoreEpoch,
        Self::ForgetRecords,
        Self::LoseJobsOnLoad,
    ];
}
