//! Class of service of all NICs of the fabric: one profile, rolled out in stages.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{NodeName, Reason, Timestamp};

/// No profile's document is longer, in bytes.
pub const MAX_DOCUMENT: usize = 64 * 1024;

/// How far a NIC is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QosState {
    /// It is left as it is, until its stage comes.
    Held,
    /// It has the profile for a trial.
    Trial,
    /// It has the profile, and its agent keeps it so.
    Kept,
    /// It should have the profile and has not: what is missing harms traffic, and jobs may run.
    Differs,
    /// It was tried and taken back, or could not be tried.
    Failed,
}

/// How one NIC stands to the profile that is wished for it, as its agent says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosPort {
    /// The NIC's device.
    pub device: String,
    /// The roll-out that this is about.
    pub generation: u64,
    /// How far it is.
    pub state: QosState,
    /// What differs, or what failed; may be empty.
    pub message: String,
    /// Number of the last wish that the agent is done with here, whatever came of it; 0 if it does not tell.
    pub wish: u64,
}

/// What one server should do. Rails that it does not name have the profile before this one, or are left alone where there
/// was none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosWish {
    /// Of the roll-out.
    pub generation: u64,
    /// The profile, as JSON.
    pub document: Arc<str>,
    /// The profile before this one.
    pub before: Option<Arc<str>>,
    /// A trial that nobody confirms for so long is taken back.
    pub confirm_within: Duration,
    /// Rails that are out of use and shall have the profile for a trial.
    pub trial: BTreeSet<u32>,
    /// Rails that shall keep it.
    pub kept: BTreeSet<u32>,
    /// Grows whenever something else is wished of this server.
    pub number: u64,
}

/// A profile on its way to every NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosRollout {
    /// Counts roll-outs; agents tell by it what they speak of.
    pub generation: u64,
    /// The profile, as JSON; at most [`MAX_DOCUMENT`] bytes.
    pub document: Arc<str>,
    /// The profile before this one.
    pub before: Option<Arc<str>>,
    /// Why, in the administrator's words.
    pub reason: String,
    /// Who asked.
    pub by: String,
    /// When.
    pub since: Timestamp,
    /// The server that is first.
    pub canary: NodeName,
    /// A trial that nobody confirms for so long is taken back.
    pub confirm_within: Duration,
    /// A trial has to be well for so long before it is confirmed.
    pub soak: Duration,
    /// NICs out of use at a time, at most.
    pub at_once: u32,
    /// Also where a job loses its last rail.
    pub force: bool,
    /// Why it does not go on.
    pub paused: Option<Reason>,
}
