//! What is saved: what the agent is done with, and the trial that goes on.

use std::time::Duration;

use proto_wire::v1::{SwitchProgress, switch_progress::State};

use super::method::Method;
use crate::{files::Files, text};

/// A time of this switch. Times of two starts of it say nothing of each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment {
    /// Which start of the switch.
    pub boot: String,
    /// Milliseconds since that start, also those asleep.
    pub ms: u64,
}

/// What must not be forgotten.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Saved {
    /// The highest epoch that was obeyed.
    pub epoch: u64,
    /// The last desired state that the agent is done with.
    pub done: Done,
    /// What is tried.
    pub trial: Option<Trial>,
}

/// What came of a desired state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Done {
    /// Its number; 0: there was none.
    pub number: u64,
    /// Of its rollout.
    pub generation: u64,
    /// What came of it.
    pub outcome: Outcome,
    /// What failed; may be empty.
    pub message: String,
    /// Of the files that were kept, else empty.
    pub digest: String,
}

/// What came of a desired state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Outcome {
    /// There was none.
    #[default]
    None,
    /// The switch was left as it is.
    Held,
    /// The files are in place for good.
    Kept,
    /// They were taken back, or could not be tried.
    Failed,
}

/// A trial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trial {
    /// Of the desired state that it is about.
    pub number: u64,
    /// Of its rollout.
    pub generation: u64,
    /// What was on the switch before.
    pub before: Files,
    /// What is tried.
    pub wanted: Files,
    /// Tables of the switch's database of which nothing stays but what the files have.
    pub owned: Vec<String>,
    /// How the files are put in place.
    pub method: Method,
    /// Ports and addresses with which BGP sessions were established then.
    pub established: Vec<String>,
    /// When it was saved.
    pub begun: Moment,
    /// How long it goes on unconfirmed, from then.
    pub within: Duration,
    /// How far it is.
    pub stage: Stage,
    /// Why the last attempt to take it back, or to keep it, failed; empty: none has.
    pub trouble: String,
}

/// How far a trial is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The files are being put in place: what is there is not known.
    Begun,
    /// They are in place, whole.
    InPlace,
    /// Those from before are being put in place.
    TakingBack {
        /// Because the controller holds the switch.
        held: bool,
        /// Why.
        why: String,
    },
    /// They stay for good; they are being made to outlive a start of the switch.
    Keeping,
}

impl Trial {
    /// Its time has passed.
    #[must_use]
    pub fn is_over(&self, now: &Moment) -> bool {
        self.left(now).is_zero()
    }

    /// What is left of its time; none after another start of the switch.
    #[must_use]
    pub fn left(&self, now: &Moment) -> Duration {
        if self.begun.boot != now.boot {
            return Duration::ZERO;
        }
        self.within.saturating_sub(Duration::from_millis(now.ms.saturating_sub(self.begun.ms)))
    }

    /// How the files from before are put in place. A switch that has started anew began with them, and nothing was reloaded since.
    pub(super) fn method_back(&self, now: &Moment) -> Method {
        if self.begun.boot == now.boot { self.method } else { Method::Change }
    }

    pub(super) fn take_back(&mut self, why: &str) {
        self.stage = Stage::TakingBack { held: false, why: text::bounded(why) };
        self.trouble.clear();
    }
}

impl Saved {
    /// As the controller is told.
    #[must_use]
    pub fn progress(&self) -> SwitchProgress {
        let Done { number: observed_number, generation, outcome, message, .. } = self.done.clone();
        if let Some(trial) = &self.trial {
            let message = match (&trial.stage, trial.trouble.as_str()) {
                (Stage::TakingBack { why, .. }, "") => format!("is taken back: {why}"),
                (Stage::TakingBack { why, .. }, trouble) => {
                    format!("cannot be taken back: {trouble}; it is because: {why}")
                }
                (_, "") => String::new(),
                (_, trouble) => format!("is kept, but would not outlive a start of the switch: {trouble}"),
            };
            let (state, generation) = (State::Trial.into(), trial.generation);
            // In place whole or not at all: one that is still being put in place is not yet a trial.
            let state = if trial.stage == Stage::Begun { State::Unspecified.into() } else { state };
            return SwitchProgress { state, generation, message: text::bounded(&message), observed_number };
        }
        let state = match outcome {
            Outcome::None => State::Unspecified,
            Outcome::Held => State::Held,
            Outcome::Kept => State::Kept,
            Outcome::Failed => State::Failed,
        };
        SwitchProgress { state: state.into(), generation, message: text::bounded(&message), observed_number }
    }
}
