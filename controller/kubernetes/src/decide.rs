//! What is to be done about one object: a function of the object as it was seen and of what Railyard has said of it. [pure]
//!
//! Whoever does it asks again after each step that brings an answer, until there is no step left or the last one is to wait. Nothing is written that
//! is there already, and what is written says what has changed: the finalizer, a first status where the answer is not the last word, what is handed over,
//! and the last one. What is handed over is written before it is: only that is ever deleted, and a job is asked for where it was submitted.

use crate::{
    kind::Kind,
    object::{Object, Policy},
    status::{Handed, Health, JobView, Status},
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
    /// It has not answered, which may be over in a moment.
    Silent,
    /// It does not answer, or cannot now; why.
    Away(String),
    /// It does not take the object.
    Refused(Refusal),
    /// It has something else, or nothing. Of a job: as whose it would be submitted; else empty.
    Differs(String),
    /// It has taken the object just now, and does not show it yet.
    Taken,
    /// It has what the object says.
    Same(Progress),
    /// It has what the object says, and has stopped it, or somebody has.
    Stopped(Progress),
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
    Write(Box<Status>),
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
    // A job says itself whose it is; what else has this name may be somebody's.
    if object.handed().is_none() && object.kind != Kind::Job {
        return add(steps, Action::RemoveFinalizer, "Railyard was never asked to take it");
    }
    match view {
        View::Unknown | View::Differs(_) | View::Taken | View::Same(_) | View::Stopped(_) => {
            add(steps, Action::Delete, "the object is deleted");
        }
        View::Gone => add(steps, Action::RemoveFinalizer, "Railyard has it no more"),
        View::Silent => add(steps, Action::Wait(Pace::Backoff), "Railyard may be back at once"),
        View::Away(why) => {
            write_meaning(object, away(why), "Railyard cannot delete it now", steps);
            add(steps, Action::Wait(Pace::Backoff), "Railyard is away");
        }
        View::Refused(refusal) => {
            write_meaning(object, refused(refusal), "Railyard does not delete it", steps);
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
        write(object, progress, object.handed().cloned(), "another object counts", steps);
        return add(steps, Action::Wait(Pace::Rarely), "until the other one is gone");
    }
    match (object.policy, object.has_finalizer) {
        (Policy::Delete, false) => {
            return add(steps, Action::AddFinalizer, "what Railyard gets is to be deleted with the object");
        }
        (Policy::Retain, true) => return add(steps, Action::RemoveFinalizer, "it stays in Railyard"),
        _ => {}
    }
    asked(object, view, steps);
}

/// What follows from what Railyard says of a living object that counts.
fn asked(object: &Object, view: &View, steps: &mut Vec<Step>) {
    match view {
        View::Unknown | View::Gone => add(steps, Action::Ask, "it is not known what Railyard has"),
        View::Differs(tenant) => differs(object, tenant, steps),
        // What it has may be seen later than it is answered: the same again would be a second one.
        View::Taken => add(steps, Action::Wait(Pace::Soon), "Railyard has just taken it"),
        View::Silent => add(steps, Action::Wait(Pace::Backoff), "Railyard may be back at once"),
        View::Stopped(_) if !is_handed(object, "") => hand(object, "", steps),
        View::Stopped(progress) => {
            write(object, progress.clone(), seen(object, progress), "whoever stopped it had a reason", steps);
            add(steps, Action::Wait(Pace::Later), "it goes on when somebody says so, or the object changes");
        }
        View::Away(why) => {
            // What was said last of this generation stands, for it is still what Railyard has.
            let stands = object.status.as_ref().is_some_and(|status| status.generation == object.generation);
            if !stands {
                write_meaning(object, away(why), "Railyard is away", steps);
            }
            add(steps, Action::Wait(Pace::Backoff), "Railyard is away");
        }
        View::Refused(refusal) if refusal.is_final => {
            write(object, refused(refusal), object.handed().cloned(), "Railyard does not take it", steps);
            add(steps, Action::Wait(Pace::Rarely), "the same again is refused again");
        }
        View::Refused(refusal) => {
            write_meaning(object, refused(refusal), "Railyard does not take it", steps);
            add(steps, Action::Wait(Pace::Later), "others may mend it");
        }
        View::Same(progress) => {
            let progress =
                if is_changed(object, progress) { spec_changed(progress) } else { progress.clone() };
            write(object, progress.clone(), seen(object, &progress), "Railyard has it", steps);
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

/// Railyard has something else, or nothing.
fn differs(object: &Object, tenant: &str, steps: &mut Vec<Step>) {
    let stays = |reason: &str, message: &str, job: Option<JobView>| Progress {
        health: Health::Degraded,
        reason: reason.to_owned(),
        message: message.to_owned(),
        job,
    };
    let handed = object.handed();
    if let Some(job) = submitted(object) {
        let message = "Railyard has the job no more; it is not submitted again";
        let progress = stays("JobGone", message, Some(job.clone()));
        write(object, progress, handed.cloned(), "the job is gone", steps);
        add(steps, Action::Wait(Pace::Rarely), "a job is submitted once");
    } else if object.kind == Kind::Profile && is_handed(object, "") && handed.is_some_and(|one| one.is_taken)
    {
        // Also what an administrator rolled back.
        let message = "somebody has had another profile rolled out since: change the object to have its own rolled out again";
        write(object, stays("Replaced", message, None), handed.cloned(), "a rollout is begun once", steps);
        add(steps, Action::Wait(Pace::Rarely), "until the object changes, or the profile is back");
    } else {
        hand(object, tenant, steps);
    }
}

/// Writes what is handed over, and hands it over then.
fn hand(object: &Object, tenant: &str, steps: &mut Vec<Step>) {
    if is_handed(object, tenant) {
        return add(steps, Action::Apply, "Railyard has something else, or nothing");
    }
    let message = "it is handed to Railyard".to_owned();
    let progress =
        Progress { health: Health::Progressing, reason: "Applying".to_owned(), message, job: None };
    write(object, progress, Some(new_handed(object, tenant)), "what is handed over is known before", steps);
    add(steps, Action::Apply, "Railyard has something else, or nothing");
}

/// Whether it is written that this is handed over.
fn is_handed(object: &Object, tenant: &str) -> bool {
    object.handed().is_some_and(|handed| match object.kind {
        Kind::Fabric | Kind::Tenant => true,
        Kind::Profile => handed.generation == object.generation,
        Kind::Job => handed.is_taken || (handed.tenant == tenant && handed.digest == object.digest()),
    })
}

fn new_handed(object: &Object, tenant: &str) -> Handed {
    let digest = if object.kind == Kind::Job { object.digest() } else { String::new() };
    Handed { generation: object.generation, tenant: tenant.to_owned(), digest, is_taken: false }
}

/// What was handed over, now that Railyard has it. A tenant or fabric that was there before, as the object says, was not.
fn seen(object: &Object, progress: &Progress) -> Option<Handed> {
    let handed = object.handed().cloned();
    let handed = match object.kind {
        Kind::Fabric | Kind::Tenant => handed?,
        Kind::Profile => new_handed(object, ""),
        Kind::Job => handed.unwrap_or_else(|| {
            new_handed(object, progress.job.as_ref().map_or("", |job| job.tenant.as_str()))
        }),
    };
    Some(Handed { is_taken: true, ..handed })
}

/// Whether a job that goes on was submitted with another spec than the object has.
fn is_changed(object: &Object, progress: &Progress) -> bool {
    let goes_on = progress.job.as_ref().is_some_and(|job| !job.has_ended());
    let other = |handed: &Handed| handed.generation != object.generation && handed.digest != object.digest();
    goes_on && object.handed().is_some_and(other)
}

fn spec_changed(progress: &Progress) -> Progress {
    let message = "the object's spec is not what was submitted: a job does not change; delete the object and make another";
    Progress {
        health: Health::Degraded,
        reason: "SpecChanged".to_owned(),
        message: message.to_owned(),
        job: progress.job.clone(),
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

fn status(object: &Object, progress: Progress, handed: Option<Handed>) -> Status {
    let Progress { health, reason, message, job } = progress;
    let job = job.or_else(|| submitted(object).cloned());
    Status { generation: object.generation, health, reason, message, job, handed }
}

/// Writes a status, unless it is there. What is known of a job stays known.
fn write(
    object: &Object,
    progress: Progress,
    handed: Option<Handed>,
    why: &'static str,
    steps: &mut Vec<Step>,
) {
    let status = status(object, progress, handed);
    if !status.is_said_by(object.status.as_ref()) {
        add(steps, Action::Write(Box::new(status)), why);
    }
}

/// Writes a status, unless what is there differs in its message alone.
fn write_meaning(object: &Object, progress: Progress, why: &'static str, steps: &mut Vec<Step>) {
    let status = status(object, progress, object.handed().cloned());
    if !status.is_meant_by(object.status.as_ref()) {
        add(steps, Action::Write(Box::new(status)), why);
    }
}

#[cfg(test)]
mod tests;
