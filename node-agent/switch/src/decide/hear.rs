//! What a controller's words change.

use std::time::Duration;

use proto_model::sonic::LEAST_OF_RELOAD;
use thiserror::Error;

use super::{
    asked::{Action, Desired, LONGEST, Phase},
    method::{Method, method},
    state::{Done, Moment, Outcome, Saved, Stage, Trial},
};
use crate::files::Files;

/// Why a controller is not obeyed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the controller's epoch is {said}, and {seen} was seen: another one leads")]
pub struct Refusal {
    /// What it said.
    pub said: u64,
    /// The highest that was seen.
    pub seen: u64,
}

/// Takes the epoch over.
pub(super) fn hear(state: &mut Saved, epoch: u64) -> Result<(), Refusal> {
    if epoch < state.epoch {
        return Err(Refusal { said: epoch, seen: state.epoch });
    }
    state.epoch = epoch;
    Ok(())
}

/// What is on the switch now.
#[derive(Clone, Copy)]
pub(super) struct Now<'a> {
    pub(super) found: Option<&'a Files>,
    pub(super) established: &'a [String],
}

/// What follows from a desired state, where nothing else is due.
pub(super) fn desire(state: &mut Saved, desired: &Desired, on: Now<'_>, now: &Moment) -> Action {
    if let Some(trial) = &mut state.trial {
        return judge(trial, desired, now);
    }
    let Desired { generation, phase, number } = desired;
    let (generation, number) = (*generation, *number);
    if (state.done.number, state.done.generation) == (number, generation) {
        return Action::Nothing;
    }
    let done = |outcome, message: &str| Done {
        number,
        generation,
        outcome,
        message: message.to_owned(),
        digest: String::new(),
    };
    match phase {
        Phase::Hold => state.done = done(Outcome::Held, ""),
        Phase::Trial { files, owned, within } => match begin(files, owned, *within, on.found) {
            Ok((before, method)) => {
                state.trial = Some(Trial {
                    number,
                    generation,
                    before,
                    wanted: files.clone(),
                    owned: owned.clone(),
                    method,
                    established: on.established.to_vec(),
                    begun: now.clone(),
                    within: (*within).min(LONGEST),
                    stage: Stage::Begun,
                    trouble: String::new(),
                });
                return Action::Try;
            }
            Err(why) => state.done = done(Outcome::Failed, &why),
        },
        Phase::Keep { files } => {
            let last = &state.done;
            let kept = last.outcome == Outcome::Kept && last.digest == files.digest();
            state.done = if kept && last.generation == generation {
                Done { number, ..last.clone() }
            } else if last.outcome == Outcome::Failed && last.generation == generation {
                // Why it was taken back says more than that it was.
                Done { number, ..last.clone() }
            } else {
                done(Outcome::Failed, "these files are not on trial here, so that they cannot be kept")
            };
        }
    }
    Action::Nothing
}

/// What was on the switch, and how what is tried gets there, if a trial may begin.
fn begin(
    files: &Files,
    owned: &[String],
    within: Duration,
    found: Option<&Files>,
) -> Result<(Files, Method), String> {
    let found =
        found.ok_or("not all that is on the switch could be read, so that it could not be taken back")?;
    if files.is_empty() {
        return Err("there is nothing to try: no file is given".to_owned());
    }
    if within.is_zero() {
        return Err("no time is given within which the trial is to be confirmed".to_owned());
    }
    if let Some(name) = files.names().find(|name| found.get(name).is_none()) {
        return Err(format!(
            "its agent finds no {name} on this switch; of one that is reached by gNMI the document says so, with `management`"
        ));
    }
    let (method, why) = method(found, files, owned).map_err(|error| error.to_string())?;
    if let Some(why) = why.filter(|_| within < LEAST_OF_RELOAD) {
        let least = LEAST_OF_RELOAD.as_secs();
        return Err(format!(
            "{} s are too few for it, give --confirm-within {least}s or more: {why}",
            within.as_secs()
        ));
    }
    Ok((found.clone(), method))
}

/// What a desired state means for a trial that goes on.
fn judge(trial: &mut Trial, desired: &Desired, now: &Moment) -> Action {
    // What is being taken back is taken back first, and what is being kept is kept.
    if trial.stage != Stage::InPlace {
        return Action::Nothing;
    }
    let same = |files: &Files| desired.generation == trial.generation && *files == trial.wanted;
    match &desired.phase {
        Phase::Hold => {
            trial.number = desired.number;
            trial.generation = desired.generation;
            trial.stage = Stage::TakingBack { held: true, why: "the controller takes it back".to_owned() };
        }
        Phase::Trial { files, within, .. } if same(files) => {
            trial.number = desired.number;
            trial.within = (*within).min(LONGEST);
            return Action::Nothing;
        }
        Phase::Keep { files } if same(files) => {
            trial.number = desired.number;
            trial.stage = Stage::Keeping;
            return Action::Keep { again: false };
        }
        Phase::Trial { .. } | Phase::Keep { .. } => trial.take_back("another configuration is desired"),
    }
    Action::TakeBack(trial.method_back(now))
}
