//! Class of service of all NICs of the fabric: one profile, rolled out in stages.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc, time::Duration};

use crate::{NodeName, Reason, ReasonCode, Timestamp};

/// No profile's document is longer, in bytes.
pub const MAX_DOCUMENT: usize = 64 * 1024;

/// How far a NIC is with the profile that is desired.
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

/// How one NIC stands to the profile that is desired for it, as its agent says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosPort {
    /// Device name of the NIC, as in the inventory.
    pub device: String,
    /// The rollout that this is about.
    pub generation: u64,
    /// How far the NIC is with that rollout.
    pub state: QosState,
    /// What differs, or what failed; may be empty.
    pub message: String,
    /// Number of the last desired state that the agent is done with here, whatever the result; 0 if it does not report that.
    pub observed_generation: u64,
}

impl QosPort {
    /// What counts of what was reported, one of each device, by device. A NIC that was renamed may be reported twice: what is newer
    /// counts, and of what is equally new that which claims least.
    #[must_use]
    pub fn distinct(mut ports: Vec<Self>) -> Vec<Self> {
        let claims = |port: &Self| match port.state {
            QosState::Failed => 0,
            QosState::Trial => 1,
            QosState::Held => 2,
            QosState::Differs => 3,
            QosState::Kept => 4,
        };
        ports.sort_by(|a, b| {
            let key = |port: &Self| (Reverse((port.generation, port.observed_generation)), claims(port));
            (&a.device, key(a), &a.message).cmp(&(&b.device, key(b), &b.message))
        });
        ports.dedup_by(|later, first| later.device == first.device);
        ports
    }
}

/// What one server should do. Rails that it does not name have the profile before this one, or are left alone where there
/// was none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredQos {
    /// Generation of the rollout that asks for it.
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
    /// Grows whenever the desired state of this server changes.
    pub number: u64,
}

/// A profile on its way to every NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosRollout {
    /// Counts rollouts; agents tell by it what they speak of.
    pub generation: u64,
    /// The profile, as JSON; at most [`MAX_DOCUMENT`] bytes.
    pub document: Arc<str>,
    /// The profile before this one.
    pub before: Option<Arc<str>>,
    /// Why, in the administrator's words.
    pub reason: String,
    /// Who began the rollout.
    pub by: String,
    /// When the rollout began.
    pub since: Timestamp,
    /// The server whose NICs get the profile first.
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
    /// The rollout before it had not reached every NIC: a NIC that this one has not reached is left as it is.
    pub mixed: bool,
}

impl QosRollout {
    /// Whether somebody has ended it for good.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.paused.as_ref().is_some_and(|paused| paused.code == ReasonCode::QosCancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(device: &str, generation: u64, observed_generation: u64, state: QosState) -> QosPort {
        QosPort { device: device.into(), generation, state, message: String::new(), observed_generation }
    }

    #[test]
    fn of_two_words_of_one_nic_the_newer_counts_and_then_the_one_that_claims_less() {
        let all = [
            port("b", 2, 7, QosState::Kept),
            port("b", 2, 7, QosState::Held),
            port("b", 2, 6, QosState::Failed),
            port("a", 1, 9, QosState::Trial),
            port("a", 2, 0, QosState::Kept),
            port("c", 0, 0, QosState::Failed),
            port("c", 0, 0, QosState::Trial),
        ];
        let expected = vec![all[4].clone(), all[1].clone(), all[5].clone()];
        let mut turned = all.to_vec();
        for _ in 0..all.len() {
            turned.rotate_left(1);
            assert_eq!(QosPort::distinct(turned.clone()), expected);
        }
        turned.reverse();
        assert_eq!(QosPort::distinct(turned), expected);
    }
}
