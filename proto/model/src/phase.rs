//! The job's state machine.

use std::fmt;

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The job waits in the queue; it holds nothing.
    Pending,
    /// Placed; GPUs and NICs are held.
    Reserved,
    /// Engines start and listen.
    Preparing,
    /// All ranks of the attempt have been started.
    Running,
    /// An attempt has failed or is stopped; it is torn down before the job is queued again.
    Recovering,
    /// All ranks ended well.
    Completed,
    /// It ended neither well nor on request.
    Failed,
    /// It was ended on request.
    Cancelled,
}

impl Phase {
    /// All phases, in the order of life.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Reserved,
        Self::Preparing,
        Self::Running,
        Self::Recovering,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// True for phases that are never left.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// True for phases in which the job holds GPUs and NICs.
    #[must_use]
    pub fn holds(self) -> bool {
        matches!(self, Self::Reserved | Self::Preparing | Self::Running | Self::Recovering)
    }

    /// The declared graph: forward within an attempt, and back to `Pending` from `Recovering` only, with the next attempt.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        use Phase::{Cancelled, Completed, Failed, Pending, Preparing, Recovering, Reserved, Running};
        matches!(
            (self, next),
            (Pending, Reserved | Failed | Cancelled)
                | (Reserved, Preparing | Recovering | Failed | Cancelled)
                | (Preparing, Running | Recovering | Failed | Cancelled)
                | (Running, Recovering | Completed | Failed | Cancelled)
                | (Recovering, Pending | Failed | Cancelled)
        )
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Phase;

    #[test]
    fn terminal_phases_absorb_and_all_others_can_end() {
        for from in Phase::ALL {
            let next: Vec<_> = Phase::ALL.into_iter().filter(|to| from.may_become(*to)).collect();
            assert_eq!(from.is_terminal(), next.is_empty(), "{from}");
            assert!(from.is_terminal() || next.contains(&Phase::Cancelled), "{from}");
            assert!(!from.may_become(from));
        }
    }
}
