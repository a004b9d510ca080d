//! Who may say which cause of an attempt's end. A node reports on its own part of an attempt only; what concerns a job as a whole,
//! or a node that is not heard, the controller alone says.

use crate::ReasonCode;

word! {
    /// A cause that a node may report of its own part of an attempt.
    NodeCause {
        /// Its engine misses a peer of the gang: the only cause that may be about another node, and then about one of the same gang.
        PeerLost = "PeerLost",
        /// Its engine ended while the job needed it.
        EngineLost = "EngineLost",
        /// Its engine could not start, connect or measure.
        EngineFailed = "EngineFailed",
        /// Its supervisor ended without recording the attempt's end.
        SupervisorLost = "SupervisorLost",
        /// Its supervisor could not be started.
        SupervisorFailed = "SupervisorFailed",
        /// One of its ranks could not be started: the job's own doing.
        RankStartFailed = "RankStartFailed",
        /// Ranks of it used more memory than the job may: the job's own doing.
        OutOfMemory = "OutOfMemory",
        /// Its ranks are more processes than the job may have: the job's own doing.
        TooManyProcesses = "TooManyProcesses",
        /// It was asked to run what was never prepared there.
        AttemptUnknown = "AttemptUnknown",
    }
}

impl NodeCause {
    /// Whether it is the job's own doing, and no failure of the server; such a cause is about a rank.
    #[must_use]
    pub fn is_own_doing(self) -> bool {
        matches!(self, Self::RankStartFailed | Self::OutOfMemory | Self::TooManyProcesses)
    }
}

impl From<NodeCause> for ReasonCode {
    fn from(cause: NodeCause) -> Self {
        match cause {
            NodeCause::PeerLost => Self::PeerLost,
            NodeCause::EngineLost => Self::EngineLost,
            NodeCause::EngineFailed => Self::EngineFailed,
            NodeCause::SupervisorLost => Self::SupervisorLost,
            NodeCause::SupervisorFailed => Self::SupervisorFailed,
            NodeCause::RankStartFailed => Self::RankStartFailed,
            NodeCause::OutOfMemory => Self::OutOfMemory,
            NodeCause::TooManyProcesses => Self::TooManyProcesses,
            NodeCause::AttemptUnknown => Self::AttemptUnknown,
        }
    }
}

/// Causes of an attempt's end that only the controller may say.
pub const CONTROLLER_CAUSES: [ReasonCode; 18] = [
    ReasonCode::AttemptLost,
    ReasonCode::CancelRequested,
    ReasonCode::EndedEarly,
    ReasonCode::NodeClaimRefused,
    ReasonCode::NodeDeleted,
    ReasonCode::NodeDrained,
    ReasonCode::NodeLost,
    ReasonCode::NotCertified,
    ReasonCode::Preempted,
    ReasonCode::PreemptedForPriority,
    ReasonCode::RailLost,
    ReasonCode::RailsRemapped,
    ReasonCode::RankFailed,
    ReasonCode::RequeueRequested,
    ReasonCode::Resized,
    ReasonCode::SuspendRequested,
    ReasonCode::TimeLimit,
    ReasonCode::UnknownCause,
];

/// Who may say a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// A node, of its own part.
    Node(NodeCause),
    /// Only the controller may give this cause; a node must not.
    Controller,
    /// Nobody in this release; a newer agent may know it.
    Unknown,
}

impl Speaker {
    /// Who may say the cause with this code.
    #[must_use]
    pub fn of(code: &ReasonCode) -> Self {
        let node = NodeCause::ALL.iter().copied().find(|cause| ReasonCode::from(*cause) == *code);
        match node {
            Some(cause) => Self::Node(cause),
            None if CONTROLLER_CAUSES.contains(code) => Self::Controller,
            None => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_may_say_what_another_says() {
        for cause in NodeCause::ALL {
            let code = ReasonCode::from(*cause);
            assert_eq!(code.as_str(), cause.as_str());
            assert_eq!(Speaker::of(&code), Speaker::Node(*cause));
            assert!(!CONTROLLER_CAUSES.contains(&code));
        }
        for code in CONTROLLER_CAUSES {
            assert_eq!(Speaker::of(&code), Speaker::Controller);
        }
        assert_eq!(Speaker::of(&ReasonCode::from_text("Whatever")), Speaker::Unknown);
        assert!(CONTROLLER_CAUSES.is_sorted_by_key(ToString::to_string));
    }
}
