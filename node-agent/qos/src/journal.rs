//! The life of an apply, as a value: edits one by one, read back, confirmed in time or undone.
//!
//! Contracts, proved by a test that dies at every step:
//! 1. The shell saves the journal that [`step`] returns before it does any of the actions; then an agent that died goes
//!    on from the saved one by [`Event::Restarted`].
//! 2. Unless [`Journal::service`] says `No`, a port is as it was before the first edit or as it is after the last.
//! 3. What nobody confirms in time is undone, also if the agent was away when the time came.

mod reading;

use std::time::Duration;

use proto_model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    edit::{Change, Edit, Via},
    model,
    observed::Observed,
    plan::Plan,
    vendor::{self, Vendor},
};

use reading::{Where, differing, locate};

/// How far an apply is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Stage {
    /// Nothing has been touched.
    Planned,
    /// This edit is being made, or is about to be.
    Applying {
        /// Index of the edit in the plan.
        edit: usize,
    },
    /// All edits are made; what they left is being read.
    ReadBack,
    /// The port is as planned; the apply must be confirmed before this time.
    AwaitConfirm {
        /// The latest time for the confirmation, in milliseconds since 1970.
        deadline: u64,
    },
    /// The apply was confirmed: the port stays as it is now.
    Confirmed,
    /// This edit is being undone, or is about to be.
    RollingBack {
        /// Index of the edit in the plan.
        edit: usize,
        /// What made the rollback necessary.
        why: String,
    },
    /// All undos are made; what they left is being read.
    ReadBackUndone {
        /// Why it was undone.
        why: String,
    },
    /// It is as it was before.
    RolledBack {
        /// What made the rollback necessary.
        why: String,
    },
    /// It is neither as planned nor as before; a person, or a new plan, has to correct it.
    Stuck {
        /// What could not be done, and why.
        reason: String,
    },
}

/// Whether the server may take jobs, as far as this port is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Service {
    /// As before the apply: the port is what it was.
    AsBefore,
    /// No: the port may be half of one and half of the other.
    No,
    /// Yes: it is what the profile says.
    Yes,
}

/// What happened: the outcome of the last action, a request, or the passing of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The apply is to begin.
    Start,
    /// The change that was asked for last is made.
    Made,
    /// It was refused, or the port is gone.
    Failed {
        /// What the kernel answered.
        error: String,
    },
    /// What the port was read to be.
    Read(Box<Observed>),
    /// It could not be read.
    ReadFailed {
        /// What the kernel answered.
        error: String,
    },
    /// Somebody confirms the apply: the port is to stay as it is now.
    Confirm,
    /// Somebody rejects the apply: the port is to be as it was before.
    Reject {
        /// Why it is rejected.
        why: String,
    },
    /// Time has passed: what has a deadline may be over.
    Tick,
    /// The agent has come up with this journal. Whether the last change was made is not known.
    Restarted,
}

/// What the shell has to do, after it has saved the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make this change and report `Made` or `Failed`.
    Make {
        /// The change to be made.
        change: Change,
        /// The interface of the kernel by which it is to be made.
        via: Via,
    },
    /// Read the port and report `Read` or `ReadFailed`.
    Read,
    /// Tell `Tick` at this time.
    Wake(Timestamp),
    /// The apply is over; nothing more is to be done.
    Over,
}

/// Who asked for an apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Asker {
    /// The controller, by a rollout.
    Rollout {
        /// The rollout's generation.
        #[serde(rename = "rollout")]
        generation: u64,
    },
    /// Somebody on this server, or its agent, by name.
    Local(String),
}

impl std::fmt::Display for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rollout { generation } => write!(f, "rollout {generation}"),
            Self::Local(name) => f.write_str(name),
        }
    }
}

/// An apply of one port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Journal {
    /// Who asked for it.
    pub asked_by: Asker,
    /// Name of the driver's table.
    pub vendor: String,
    /// The edits, in order.
    pub edits: Vec<Edit>,
    /// The port as it was planned for.
    pub before: Observed,
    /// How long a confirmation may take, in ms.
    pub confirm_within_ms: u64,
    /// How far the apply is.
    pub stage: Stage,
}

impl Journal {
    /// The journal for a plan that was made for `before`.
    #[must_use]
    pub fn new(plan: &Plan, before: &Observed, asked_by: Asker, confirm_within: Duration) -> Self {
        Self {
            asked_by,
            vendor: plan.vendor.clone(),
            edits: plan.edits.clone(),
            before: before.clone(),
            confirm_within_ms: u64::try_from(confirm_within.as_millis()).unwrap_or(u64::MAX),
            stage: Stage::Planned,
        }
    }

    /// Whether the server may take jobs.
    #[must_use]
    pub const fn service(&self) -> Service {
        match self.stage {
            Stage::Planned | Stage::RolledBack { .. } => Service::AsBefore,
            Stage::Confirmed => Service::Yes,
            Stage::Applying { .. }
            | Stage::ReadBack
            | Stage::AwaitConfirm { .. }
            | Stage::RollingBack { .. }
            | Stage::ReadBackUndone { .. }
            | Stage::Stuck { .. } => Service::No,
        }
    }

    /// Whether the apply is over.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Confirmed | Stage::RolledBack { .. } | Stage::Stuck { .. })
    }

    /// What the edits touch and `observed` does not have, with the reason; none if it has all of it.
    #[must_use]
    pub fn unread(&self, observed: &Observed) -> Option<String> {
        self.edits.iter().find_map(|edit| {
            let why = reading::unreadable(&edit.change, &observed.settings)?;
            Some(format!("{} cannot be read: {why}", reading::name(&edit.change)))
        })
    }

    /// The port after the first `edits` of them.
    fn after(&self, edits: usize, vendor: &Vendor) -> Observed {
        let made = self.edits.iter().take(edits);
        made.fold(self.before.clone(), |at, edit| model::apply(&at, &edit.change, vendor))
    }

    /// The port after all edits, and the undos of those from `edits` on.
    fn undone(&self, edits: usize, vendor: &Vendor) -> Observed {
        let undone = self.edits.iter().skip(edits).rev();
        undone.fold(self.after(self.edits.len(), vendor), |at, edit| model::apply(&at, &edit.undo, vendor))
    }

    fn to(&self, stage: Stage) -> Self {
        Self { stage, ..self.clone() }
    }

    fn stuck(&self, reason: String) -> (Self, Vec<Action>) {
        (self.to(Stage::Stuck { reason }), vec![Action::Over])
    }

    /// Makes edit `edit`, or reads back if it was the last.
    fn apply_from(&self, edit: usize) -> (Self, Vec<Action>) {
        match self.edits.get(edit) {
            Some(Edit { change, via, .. }) => {
                let make = Action::Make { change: change.clone(), via: via.clone() };
                (self.to(Stage::Applying { edit }), vec![make])
            }
            None => (self.to(Stage::ReadBack), vec![Action::Read]),
        }
    }

    /// Undoes the edits before `edits`, the last first.
    fn undo_below(&self, edits: usize, why: String) -> (Self, Vec<Action>) {
        match edits.checked_sub(1).and_then(|edit| Some((edit, self.edits.get(edit)?))) {
            Some((edit, Edit { undo, via, .. })) => {
                let make = Action::Make { change: undo.clone(), via: via.clone() };
                (self.to(Stage::RollingBack { edit, why }), vec![make])
            }
            None => (self.to(Stage::ReadBackUndone { why }), vec![Action::Read]),
        }
    }
}

/// What follows from `event`: the journal to be saved, and then what is to be done. Events that do not fit change nothing.
#[must_use]
pub fn step(journal: &Journal, event: &Event, now: Timestamp) -> (Journal, Vec<Action>) {
    let Some(vendor) = vendor::named(&journal.vendor) else {
        return journal.stuck(format!("there is no table of driver '{}' in this version", journal.vendor));
    };
    let nothing = || (journal.clone(), Vec::new());
    match (&journal.stage, event) {
        (Stage::Planned, Event::Start | Event::Restarted) => journal.apply_from(0),
        (Stage::Planned, Event::Reject { why }) => {
            (journal.to(Stage::RolledBack { why: why.clone() }), vec![Action::Over])
        }
        (Stage::Applying { edit }, Event::Made) => journal.apply_from(edit + 1),
        // It may have been made in part, so it is undone as well.
        (Stage::Applying { edit }, Event::Failed { error }) => {
            journal.undo_below(edit + 1, format!("edit {} failed: {error}", edit + 1))
        }
        (Stage::Applying { edit }, Event::Reject { why }) => journal.undo_below(edit + 1, why.clone()),
        (Stage::Applying { .. } | Stage::RollingBack { .. }, Event::Restarted) => {
            (journal.clone(), vec![Action::Read])
        }
        (Stage::Applying { edit }, Event::Read(observed)) => resume(journal, *edit, observed, vendor),
        (Stage::ReadBack, Event::Read(observed)) => read_back(journal, observed, vendor, now),
        (Stage::ReadBack | Stage::ReadBackUndone { .. }, Event::Restarted) => {
            (journal.clone(), vec![Action::Read])
        }
        (Stage::ReadBack, Event::ReadFailed { error }) => {
            journal.undo_below(journal.edits.len(), format!("what was set cannot be read: {error}"))
        }
        (Stage::ReadBack, Event::Reject { why }) => journal.undo_below(journal.edits.len(), why.clone()),
        (Stage::AwaitConfirm { .. }, _) => await_confirm(journal, event, now, vendor),
        (Stage::RollingBack { edit, why }, Event::Made) => journal.undo_below(*edit, why.clone()),
        (Stage::RollingBack { edit, why }, Event::Failed { error }) => {
            journal.stuck(format!("undo of edit {} failed: {error}; it was undone because {why}", edit + 1))
        }
        (Stage::RollingBack { edit, why }, Event::Read(observed)) => {
            let expected = [journal.undone(edit + 1, vendor), journal.undone(*edit, vendor)];
            match locate(journal, *edit, &expected, observed) {
                Where::Here => journal.undo_below(edit + 1, why.clone()),
                Where::Elsewhere(what) => elsewhere(journal, &what),
            }
        }
        (Stage::ReadBackUndone { why }, Event::Read(observed)) => {
            match differing(journal, &journal.undone(0, vendor), observed) {
                None => (journal.to(Stage::RolledBack { why: why.clone() }), vec![Action::Over]),
                Some(what) => journal.stuck(format!("after all undos {what}; it was undone because {why}")),
            }
        }
        (_, Event::ReadFailed { error }) if !journal.is_over() => {
            journal.stuck(format!("the port cannot be read: {error}"))
        }
        _ => nothing(),
    }
}

/// An agent came back in the middle of edit `edit`: it is made again if the rest is as it should be by now.
fn resume(journal: &Journal, edit: usize, observed: &Observed, vendor: &Vendor) -> (Journal, Vec<Action>) {
    let expected = [journal.after(edit, vendor), journal.after(edit + 1, vendor)];
    match locate(journal, edit, &expected, observed) {
        Where::Here => journal.apply_from(edit),
        Where::Elsewhere(what) => elsewhere(journal, &what),
    }
}

fn elsewhere(journal: &Journal, what: &str) -> (Journal, Vec<Action>) {
    journal.stuck(format!("while the agent was away the port was changed by others: {what}; make a new plan"))
}

fn read_back(
    journal: &Journal,
    observed: &Observed,
    vendor: &Vendor,
    now: Timestamp,
) -> (Journal, Vec<Action>) {
    match differing(journal, &journal.after(journal.edits.len(), vendor), observed) {
        None => {
            let deadline = now.plus(Duration::from_millis(journal.confirm_within_ms));
            (journal.to(Stage::AwaitConfirm { deadline: deadline.0 }), vec![Action::Wake(deadline)])
        }
        Some(what) => {
            journal.undo_below(journal.edits.len(), format!("read back otherwise than set: {what}"))
        }
    }
}

fn await_confirm(
    journal: &Journal,
    event: &Event,
    now: Timestamp,
    vendor: &Vendor,
) -> (Journal, Vec<Action>) {
    let Stage::AwaitConfirm { deadline } = journal.stage else { return (journal.clone(), Vec::new()) };
    let all = journal.edits.len();
    let late = now.0 >= deadline;
    match event {
        Event::Confirm if !late => (journal.to(Stage::Confirmed), vec![Action::Over]),
        Event::Reject { why } => journal.undo_below(all, why.clone()),
        _ if late => journal.undo_below(all, "nobody confirmed it in time".to_owned()),
        // A server that was restarted has lost what was set.
        Event::Restarted => (journal.clone(), vec![Action::Read, Action::Wake(Timestamp(deadline))]),
        // What cannot be read now is no change by others. The time goes on.
        Event::Read(observed) if journal.unread(observed).is_some() => (journal.clone(), Vec::new()),
        Event::Read(observed) => match differing(journal, &journal.after(all, vendor), observed) {
            None => (journal.clone(), Vec::new()),
            // A driver that was reloaded, or somebody else: what is tried is not that any more, and the way back is still known.
            Some(what) => {
                journal.undo_below(all, format!("while it was tried others changed the port: {what}"))
            }
        },
        _ => (journal.clone(), vec![Action::Wake(Timestamp(deadline))]),
    }
}
