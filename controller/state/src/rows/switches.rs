//! What is heard of switches, and not stored.

use proto_model::{QosState, SwitchStanding, Timestamp};

/// What a switch, or whoever reaches it, says of it now; the default where nothing was heard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchObserved {
    /// Its agent answers.
    pub connected: bool,
    /// When it was heard last.
    pub last_seen: Option<Timestamp>,
    /// The version of its operating system, as it says it; empty: not known.
    pub nos_version: String,
    /// The version of its agent; empty: not known, or none.
    pub agent_version: String,
    /// How it gets on with what is rolled out; none where its agent has said nothing of it.
    pub state: Option<QosState>,
    /// The rollout that this is about; 0: none.
    pub generation: u64,
    /// The number of the last desired state that its agent is done with.
    pub number: u64,
    /// How what was read back stands to what it is to have.
    pub standing: SwitchStanding,
}
