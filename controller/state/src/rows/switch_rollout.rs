//! A rollout to switches that somebody asks for, and what switches' agents have said. The latter is not stored: they say it again.

use std::{sync::Arc, time::Duration};

use proto_model::{DesiredSwitch, SwitchName, SwitchReport, Timestamp};

/// The profile of class of service that is built in, as JSON: nothing of it is another way.
pub const BUILT_IN_PROFILE: &str = "{}";

/// A rollout that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchOrder {
    /// The profile of class of service that configurations follow from where none is rolled out to NICs, as JSON.
    pub default_profile: Arc<str>,
    /// Why, in the words of who asks; may be empty.
    pub reason: String,
    /// Who asks, as the audit log names them.
    pub by: String,
    /// The leaf that is to be first; else one that few jobs use.
    pub canary: Option<SwitchName>,
    /// How long a trial waits for its confirmation.
    pub confirm_within: Duration,
    /// How long it has to be well before.
    pub soak: Duration,
    /// Switches out of use at a time, at most.
    pub at_once: u32,
    /// Also where a job loses its last rail.
    pub force: bool,
}

/// A switch as its agent describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchContact {
    /// When it was heard last.
    pub seen: Timestamp,
    /// What it said.
    pub report: Arc<SwitchReport>,
    /// What it was told last.
    pub desired: Option<DesiredSwitch>,
}
