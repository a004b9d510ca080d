//! What is to be done about one object: a function of the object as it was seen and of what Railyard has said of it. [pure]
//!
//! Whoever does it asks again after each step that brings an answer, until there is no step left or the last one is to wait. Nothing is written that
//! is there already, and what is written says what has changed: the finalizer, a first status where the answer is not the last word, and the last one.

use crate::{
    object::{Object, Policy},
    status::{Health, JobView, Status},
};

/// A refusal of Railyard's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// As a code in UpperCamelCase.
    pub reason: String,
    /// What is wrong, with the paths of fields.
    pub message: String,
    /// Whether the same again is refused again until the object changes.
    pub is_final: bool,
}

/// How far Railyard is with what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What it is.
    pub health: Health,
    /// As a code in UpperCamelCase.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// The job, of a job.
    pub job: Option<JobView>,
}

/// What Railyard has said of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// It was not asked so far.
    Unknown,
    /// It does not answer, or cannot now; why.
    Away(String),
    /// It does not take the object.
    Refused(Refusal),
    /// It has something else, or nothing.
    Differs,
    /// It has what the object says.
    Same(Progress),
    /// What the object stood for is gone from it, or was never there.
    Gone,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Put the finalizer on the object. A write.
    AddFinalizer,
    /// Take it off. A write, and the last.
    RemoveFinalizer,
    /// Ask Railyard what it has.
    Ask,
    /// Have Railyard take the object, and ask it then.
    Apply,
    /// Have Railyard delete or cancel it.
    Delete,
    /// Write this status. A write.
    Write(Status),
    /// Look again in a while.
    Wait(Pace),
}

/// How soon to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Longer with every failure in a row.
    Backoff,
    /// It goes on by itself.
    Soon,
    /// Others may mend it.
    Later,
    /// Only to find what others have changed.
    Rarely,
}

/// A step and why it is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What is to be done.
    pub action: Action,
    /// Why.
    pub why: &'static str,
}

/// What is to be done. `rival` is the object that counts, where that is another one.
#[must_use]
pub fn decide(object: &Object, view: &View, rival: Option<&str>) -> Vec<Step> {
    let mut steps = Vec::new();
    if object.is_deleted {
        deleted(object, view, &mut steps);
    } else {
        living(object, view, rival, &mut steps);
    }
    steps
}

fn add(steps: &mut Vec<Step>, action: Action, why: &'static str) {
    steps.push(Step { action, why });
}

fn deleted(object: &Object, view: &View, steps: &mut Vec<Step>) {
    if !object.has_finalizer {
        return;
    }
    if object.policy == Policy::Retain {
        return add(steps, Action::RemoveFinalizer, "it stays in Railyard");
    }
    match view {
        View::Unknown | View::Differs | View::Same(_) => add(steps, Action::Delete, "the object is deleted"),
        View::Gone => add(steps, Action::RemoveFinalizer, "Railyard has it no more"),
        View::Away(why) => {
            write(object, away(why), "Railyard cannot delete it now", steps);
            add(steps, Action::Wait(Pace::Backoff), "Railyard is away");
        }
        View::Refused(refusal) => {
            write(object, refused(refusal), "Railyard does not delete it", steps);
            add(steps, Action::Wait(Pace::Later), "others may mend it");
        }
    }
}

fn living(object: &Object, view: &View, rival: Option<&str>, steps: &mut Vec<Step>) {
    let ended = object.status.as_ref().and_then(|status| status.job.as_ref()).is_some_and(JobView::has_ended);
    if ended {
        return;
    }
    if let Some(rival) = rival {
        let message = format!("{} {rival} is older and counts: delete one of them", object.kind.name());
        let progress =
            Progress { health: Health::Degraded, reason: "Superseded".to_owned(), message, job: None };
        write(object, progress, "another object counts", steps);
        return add(steps, Action::Wait(Pace::Rarely), "until the other one is gone");
    }
    match (object.policy, object.has_finalizer) {
        (Policy::Delete, false) => {
            return add(steps, Action::AddFinalizer, "what Railyard gets is to be deleted with the object");
        }
        (Policy::Retain, true) => return add(steps, Action::RemoveFinalizer, "it stays in Railyard"),
        _ => {}
    }
    match view {
        View::Unknown => add(steps, Action::Ask, "it is not known what Railyard has"),
        View::Differs => match submitted(object) {
            Some(job) => {
                let message = "Railyard has the job no more; it is not submitted again".to_owned();
                let job = Some(job.clone());
                let progress =
                    Progress { health: Health::Degraded, reason: "JobGone".to_owned(), message, job };
                write(object, progress, "the job is gone", steps);
                add(steps, Action::Wait(Pace::Rarely), "a job is submitted once");
            }
            None => add(steps, Action::Apply, "Railyard has something else, or nothing"),
        },
        View::Gone => add(steps, Action::Ask, "it is not known what Railyard has"),
        View::Away(why) => {
            // What was said last of this generation stands, for it is still what Railyard has.
            let stands = object.status.as_ref().is_some_and(|status| status.generation == object.generation);
            if !stands {
                write(object, away(why), "Railyard is away", steps);
            }
            add(steps, Action::Wait(Pace::Backoff), "Railyard is away");
        }
        View::Refused(refusal) => {
            write(object, refused(refusal), "Railyard does not take it", steps);
            let pace = if refusal.is_final { Pace::Rarely } else { Pace::Later };
            add(steps, Action::Wait(pace), "the same again is refused again");
        }
        View::Same(progress) => {
            write(object, progress.clone(), "Railyard has it", steps);
            let ended = progress.job.as_ref().is_some_and(JobView::has_ended);
            if !ended {
                let pace = match (progress.health, &progress.job) {
                    (Health::Ready, None) => Pace::Rarely,
                    _ => Pace::Soon,
                };
                add(steps, Action::Wait(pace), "to find what has changed");
            }
        }
    }
}

/// The job that was submitted for this object, where it was seen.
fn submitted(object: &Object) -> Option<&JobView> {
    let job = object.status.as_ref()?.job.as_ref()?;
    (!job.uid.is_empty()).then_some(job)
}

fn away(why: &str) -> Progress {
    let message = format!("the controller does not answer: {why}; it is tried again");
    Progress { health: Health::Degraded, reason: "Unreachable".to_owned(), message, job: None }
}

fn refused(refusal: &Refusal) -> Progress {
    let (reason, message) = (refusal.reason.clone(), refusal.message.clone());
    Progress { health: Health::Degraded, reason, message, job: None }
}

/// Writes a status, unless it is there. What is known of a job stays known.
fn write(object: &Object, progress: Progress, why: &'static str, steps: &mut Vec<Step>) {
    let Progress { health, reason, message, job } = progress;
    let job = job.or_else(|| submitted(object).cloned());
    let status = Status { generation: object.generation, health, reason, message, job };
    if !status.is_said_by(object.status.as_ref()) {
        add(steps, Action::Write(status), why);
    }
}

#[cfg(test)]
mod tests;
