//! Why a rollout to switches does not begin or go on, and why a switch is not let in.

use proto_model::SwitchName;
use thiserror::Error;

use crate::error::kind::ErrorKind;

/// What is refused about switches.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SwitchError {
    /// Nobody has begun a rollout to switches.
    #[error("nothing is rolled out to switches; begin with `railctl switch apply`")]
    NoRollout,
    /// There is nothing to go back to.
    #[error("no other profile was rolled out to switches before, so there is none to go back to")]
    NoProfileBefore,
    /// There is nothing left of a rollout to cancel.
    #[error(
        "the rollout is done, every switch keeps its configuration; `railctl switch rollback` brings the one before it back"
    )]
    RolloutDone,
    /// A rollout that was cancelled does not go on.
    #[error(
        "the rollout to switches was cancelled and does not go on; `railctl switch apply` begins it anew, `railctl switch rollback` takes back what it has changed"
    )]
    RolloutCancelled,
    /// No leaf is known.
    #[error(
        "no leaf of the fabric document is known as a switch, so there is none to begin with; `railctl apply -f` a document of kind Switch for each"
    )]
    NoSwitches,
    /// A leaf is to be the first that is not known.
    #[error(
        "canary: there is no switch '{name}' that is a leaf of the fabric document; `railctl get switches` lists them"
    )]
    NoSuchLeaf {
        /// What was asked for.
        name: SwitchName,
    },
    /// A switch is not known, or no more.
    #[error(
        "switch '{name}' is not known; `railctl apply -f` a document of kind Switch, then make a token for it"
    )]
    Unknown {
        /// What was asked for.
        name: SwitchName,
    },
}

impl SwitchError {
    /// Stable, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoRollout => "NO_SWITCH_ROLLOUT",
            Self::NoProfileBefore => "NO_SWITCH_PROFILE_BEFORE",
            Self::RolloutDone => "SWITCH_ROLLOUT_DONE",
            Self::RolloutCancelled => "SWITCH_ROLLOUT_CANCELLED",
            Self::NoSwitches => "NO_SWITCHES",
            Self::NoSuchLeaf { .. } => "NO_SUCH_LEAF",
            Self::Unknown { .. } => "SWITCH_UNKNOWN",
        }
    }

    /// What kind of refusal it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoRollout | Self::NoSuchLeaf { .. } | Self::Unknown { .. } => ErrorKind::NotFound,
            Self::NoProfileBefore | Self::RolloutDone | Self::RolloutCancelled | Self::NoSwitches => {
                ErrorKind::Precondition
            }
        }
    }
}
