//! What local ranks have posted and not started yet.

use crate::call::Call;
use crate::machine::op::Member;
use crate::units::Time;

/// A local rank's counters.
#[derive(Debug, Clone, Default)]
pub struct RankState {
    /// Sequence number of its next collective.
    pub next: u64,
    /// Calls that have not completed.
    pub outstanding: usize,
}

/// A collective that some local ranks have posted.
#[derive(Debug, Clone)]
pub struct Gathering {
    pub call: Call,
    pub since: Time,
    pub members: Vec<Option<Member>>,
}

/// A message between two local ranks that one of them has posted.
#[derive(Debug, Clone)]
pub struct Half {
    pub call: Call,
    pub since: Time,
    pub member: Member,
}
