//! Who may say which cause of an attempt's end. A node reports on its own part of an attempt only; what concerns a job as a whole,
//! or a node that is not heard, the controller alone says.

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
        /// It was asked to run what was never prepared there.
        AttemptUnknown = "AttemptUnknown",
    }
}

/// Causes of an attempt's end that only the controller may say.
pub const CONTROLLER_CAUSES: [&str; 18] = [
    "AttemptLost",
    "CancelRequested",
    "EndedEarly",
    "NodeClaimRefused",
    "NodeDeleted",
    "NodeDrained",
    "NodeLost",
    "NotCertified",
    "Preempted",
    "PreemptedForPriority",
    "RailLost",
    "RailsRemapped",
    "RankFailed",
    "RequeueRequested",
    "Resized",
    "SuspendRequested",
    "TimeLimit",
    "UnknownCause",
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
    pub fn of(code: &str) -> Self {
        let node = NodeCause::ALL.iter().copied().find(|cause| cause.as_str() == code);
        match node {
            Some(cause) => Self::Node(cause),
            None if CONTROLLER_CAUSES.contains(&code) => Self::Controller,
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
            assert_eq!(Speaker::of(cause.as_str()), Speaker::Node(*cause));
            assert!(!CONTROLLER_CAUSES.contains(&cause.as_str()));
        }
        for code in CONTROLLER_CAUSES {
            assert_eq!(Speaker::of(code), Speaker::Controller);
        }
        assert_eq!(Speaker::of("Whatever"), Speaker::Unknown);
        assert!(CONTROLLER_CAUSES.is_sorted());
    }
}
