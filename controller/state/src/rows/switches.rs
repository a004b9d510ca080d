//! What is heard of switches, and not stored.

use proto_model::Timestamp;

/// What a switch, or whoever reaches it, says of it now; the default where nothing was heard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchObserved {
    /// Its agent, or its management endpoint, answers.
    pub connected: bool,
    /// When it was heard last.
    pub last_seen: Option<Timestamp>,
    /// The version of its operating system, as it says it; empty: not known.
    pub nos_version: String,
    /// The version of its agent; empty: not known, or none.
    pub agent_version: String,
}
