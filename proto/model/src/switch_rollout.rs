//! Configurations of switches on their way, and what a switch's agent says of its own.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use crate::{QosState, Reason, ReasonCode, SwitchName, Timestamp};

/// A configuration on its way to every switch: that which follows from the profile, the fabric document and what is known of each switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchRollout {
    /// Counts rollouts; agents say by it what they speak of.
    pub generation: u64,
    /// The profile of class of service that it follows from, as JSON.
    pub profile: Arc<str>,
    /// The profile of the rollout before; none where there was no other.
    pub before: Option<Arc<str>>,
    /// Why, in the administrator's words.
    pub reason: String,
    /// Who began it.
    pub by: String,
    /// When it began.
    pub since: Timestamp,
    /// The leaf that is first.
    pub canary: SwitchName,
    /// A trial that nobody confirms for so long is taken back by the switch itself.
    pub confirm_within: Duration,
    /// A trial has to be well for so long before it is confirmed.
    pub soak: Duration,
    /// Switches out of use at a time, at most.
    pub at_once: u32,
    /// Also where a job loses its last rail.
    pub force: bool,
    /// Why it does not go on.
    pub paused: Option<Reason>,
    /// Switches that are out of use for it now: also a controller that begins in the middle keeps traffic off them.
    pub out_of_use: BTreeSet<SwitchName>,
}

impl SwitchRollout {
    /// Whether somebody has ended it for good.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.paused.as_ref().is_some_and(|paused| paused.code == ReasonCode::SwitchRolloutCancelled)
    }
}

/// What is asked of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SwitchPhase {
    /// It stays as it is; what is on trial is taken back.
    Hold,
    /// The configuration is put in place for a trial.
    Trial,
    /// What is on trial is kept for good.
    Keep,
}

/// What one switch should do; its files follow from the rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredSwitch {
    /// Of the rollout.
    pub generation: u64,
    /// What is asked.
    pub phase: SwitchPhase,
    /// A trial that nobody confirms for so long is taken back.
    pub confirm_within: Duration,
    /// Grows whenever this changes; the agent says by it what it is done with.
    pub number: u64,
}

/// How an agent gets on with its desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchProgress {
    /// Held, on trial, kept or failed.
    pub state: QosState,
    /// Of the rollout that this is about.
    pub generation: u64,
    /// What failed; may be empty.
    pub message: String,
    /// The number of the last desired state that the agent is done with.
    pub observed_number: u64,
}

/// How what was read back of a switch stands to what it is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SwitchStanding {
    /// Nothing was read back yet, or it could not be.
    #[default]
    Unread,
    /// As desired.
    Same,
    /// So many settings differ.
    Differs(u32),
}

/// The state of a BGP session (RFC 4271, section 8.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum BgpState {
    /// There is no session, or nobody says its state.
    #[default]
    Unknown,
    /// Nothing is tried.
    Idle,
    /// A TCP connection is being made.
    Connect,
    /// One is waited for.
    Active,
    /// What this end can do was said.
    OpenSent,
    /// The other end has agreed.
    OpenConfirm,
    /// Routes are exchanged.
    Established,
}

impl fmt::Display for BgpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "not there",
            Self::Idle => "idle",
            Self::Connect => "connect",
            Self::Active => "active",
            Self::OpenSent => "open sent",
            Self::OpenConfirm => "open confirm",
            Self::Established => "established",
        })
    }
}

/// A BGP session that the plan of a switch has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SwitchSession {
    /// The port that it is on.
    pub port: String,
    /// The switch at the other end.
    pub peer: Option<SwitchName>,
    /// Its state, as the switch has it.
    pub state: BgpState,
    /// It was established when the trial that goes on began.
    pub before_trial: bool,
}

/// What an agent says of its switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchReport {
    /// The agent's version.
    pub agent_version: String,
    /// The operating system's.
    pub nos_version: String,
    /// How the desired state gets on; none where it has not had any.
    pub progress: Option<SwitchProgress>,
    /// How its configuration stands to the one that is rolled out, or would be.
    pub standing: SwitchStanding,
    /// Why not all of it could be read; may be empty.
    pub unreadable: String,
    /// The number of the plans that `standing` and `sessions` follow from, which grows with every change of one.
    pub compared: u64,
    /// Sessions that its plan has; none where its agent does not say how they are.
    pub sessions: Option<Vec<SwitchSession>>,
}
