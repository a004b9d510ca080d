//! Commit-confirm: what becomes of a switch's configuration, decided from what is saved, what is heard and what time it is. Pure: whoever
//! carries an action out saves the state first, durably.
//!
//! A trial is saved, with the files from before it, before anything is changed. From then on the saved state says what has to be done,
//! whenever the program or the switch ends: a trial of which it is not known that it is in place whole is taken back at the next start;
//! one in place is taken back when its time is over or the switch has started anew; one that is being kept is kept.

mod asked;
mod hear;
mod method;
mod state;
#[cfg(test)]
mod tests;

pub use asked::{Action, Desired, Event, LONGEST, Phase};
pub use hear::Refusal;
pub use method::Method;
pub use state::{Done, Moment, Outcome, Saved, Stage, Trial};

/// The next state and what is to be done.
///
/// # Errors
/// [`Refusal`] for a controller whose lead is over; then nothing changes.
pub fn step(saved: &Saved, event: &Event<'_>, now: &Moment) -> Result<(Saved, Action), Refusal> {
    let mut next = saved.clone();
    let action = match *event {
        Event::Heard { epoch, desired, found, established } => {
            hear::hear(&mut next, epoch)?;
            match act(&mut next, now) {
                Action::Nothing => desired.map_or(Action::Nothing, |desired| {
                    hear::desire(&mut next, desired, hear::Now { found, established }, now)
                }),
                due => due,
            }
        }
        Event::Started | Event::Tick => act(&mut next, now),
        Event::Ending => {
            if let Some(trial) = next.trial.as_mut().filter(|trial| trial.stage == Stage::InPlace) {
                trial.take_back("the agent was ended in the middle of the trial");
            }
            act(&mut next, now)
        }
        Event::Finished(result) => finished(&mut next, result, now),
    };
    Ok((next, action))
}

/// What the state itself asks for.
fn act(state: &mut Saved, now: &Moment) -> Action {
    let Some(trial) = &mut state.trial else { return Action::Nothing };
    match &trial.stage {
        // Whoever was at it is gone.
        Stage::Begun => trial.take_back("the agent ended while it put the configuration in place"),
        Stage::InPlace if trial.begun.boot != now.boot => {
            trial.take_back("the machine of its agent started anew in the middle of the trial");
        }
        Stage::InPlace if trial.is_over(now) => {
            let why = format!("not confirmed within {} s", trial.within.as_secs_f64());
            trial.take_back(&why);
        }
        Stage::InPlace => return Action::Nothing,
        Stage::TakingBack { .. } => {}
        Stage::Keeping => return Action::Keep { again: trial.begun.boot != now.boot },
    }
    Action::TakeBack(trial.method_back(now))
}

fn finished(state: &mut Saved, result: Result<(), &str>, now: &Moment) -> Action {
    let Some(trial) = &mut state.trial else { return Action::Nothing };
    match (&trial.stage, result) {
        (Stage::Begun, Ok(())) => {
            trial.stage = Stage::InPlace;
            return act(state, now);
        }
        (Stage::Begun, Err(why)) => {
            trial.take_back(why);
            return Action::TakeBack(trial.method_back(now));
        }
        (Stage::InPlace, _) => {}
        (Stage::TakingBack { .. } | Stage::Keeping, Err(why)) => why.clone_into(&mut trial.trouble),
        (Stage::TakingBack { held, why }, Ok(())) => {
            let (outcome, message) =
                if *held { (Outcome::Held, String::new()) } else { (Outcome::Failed, why.clone()) };
            let (number, generation, digest) = (trial.number, trial.generation, String::new());
            state.done = Done { number, generation, outcome, message, digest };
            state.trial = None;
        }
        (Stage::Keeping, Ok(())) => {
            let digest = trial.wanted.digest();
            let (number, generation, message) = (trial.number, trial.generation, String::new());
            state.done = Done { number, generation, outcome: Outcome::Kept, message, digest };
            state.trial = None;
        }
    }
    Action::Nothing
}
