//! A plan, made: the record first, then edit by edit, each read back; on a failure all of it is taken back.
//!
//! Between the first edit and the last the NIC's record says `Applying`, on disk: an agent that dies there finds the NIC out of service
//! and completes what the plan of then, made anew from what is, says. No step needs a record of its own: a plan that is made after any
//! prefix of the edits ends in the same place.

use node_agent_netlink::Kernel;
use node_agent_qos::{Edit, Observed, Plan};

use super::{
    ApplyError, apply,
    journal::{AuditLine, Journal, Record, State, key},
    observe,
};

/// Who wants it, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// A person or the agent.
    pub who: String,
    /// Milliseconds since 1970.
    pub now_ms: u64,
}

/// Why a plan was not made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Nothing was begun: what is to be done cannot be recorded.
    #[error("class of service of {netdev} is left as it is: the journal cannot be written: {source}")]
    Journal {
        /// Whose.
        netdev: String,
        /// Why.
        source: std::io::Error,
    },
    /// An edit failed, and all that were made before it were taken back.
    #[error("{netdev}: {cause}; everything was taken back")]
    TakenBack {
        /// Whose.
        netdev: String,
        /// What failed.
        cause: Box<ApplyError>,
    },
    /// An edit failed, and so did taking back.
    #[error(
        "{netdev}: {cause}; and it cannot be taken back: {undo}; the NIC is out of service until this is mended"
    )]
    Stuck {
        /// Whose.
        netdev: String,
        /// What failed.
        cause: Box<ApplyError>,
        /// What failed after it.
        undo: Box<ApplyError>,
    },
    /// Taking back failed; what could be taken back was.
    #[error("{netdev}: it cannot be taken back: {cause}; the NIC is out of service until this is mended")]
    Undo {
        /// Whose.
        netdev: String,
        /// What failed.
        cause: Box<ApplyError>,
    },
    /// There is no apply to be taken back.
    #[error("{netdev}: nothing was applied here that could be taken back")]
    NothingToUndo {
        /// Whose.
        netdev: String,
    },
}

/// Makes the plan's edits.
///
/// # Errors
/// [`RunError`]; what became of the NIC is in its record.
pub fn run(
    kernel: &dyn Kernel,
    journal: &mut dyn Journal,
    before: &Observed,
    plan: &Plan,
    asked: &Asked,
) -> Result<Observed, RunError> {
    let netdev = &before.device.netdev;
    let mut record = Record {
        key: key(&before.device),
        netdev: netdev.clone(),
        profile: plan.profile.clone(),
        who: asked.who.clone(),
        begun_ms: asked.now_ms,
        edits: plan.edits.clone(),
        state: State::Applying,
    };
    journal.save(&record).map_err(|source| RunError::Journal { netdev: netdev.clone(), source })?;
    let mut at = before.clone();
    let mut result = Ok(());
    for (number, edit) in plan.edits.iter().enumerate() {
        match apply(kernel, &at, &edit.change, &edit.via) {
            Ok(after) => at = after,
            Err(cause) => {
                // The edit that failed may have been made in part, such as some entries of a table.
                result = Err(take_back(kernel, &at, &plan.edits[..=number], cause));
                break;
            }
        }
    }
    record.state = match &result {
        Ok(()) => State::Applied,
        Err(RunError::Stuck { .. }) => State::Stuck(text_of(&result)),
        Err(_) => State::Undone,
    };
    close(journal, &record, "apply", &plan.edits, asked, text_of(&result));
    result.map(|()| at)
}

/// Takes back the NIC's last apply.
///
/// # Errors
/// [`RunError`]; what became of the NIC is in its record.
pub fn roll_back(
    kernel: &dyn Kernel,
    journal: &mut dyn Journal,
    before: &Observed,
    asked: &Asked,
) -> Result<Observed, RunError> {
    let netdev = before.device.netdev.clone();
    let records = journal.load().map_err(|source| RunError::Journal { netdev: netdev.clone(), source })?;
    let wanted = key(&before.device);
    let last = records.into_iter().find(|record| record.key == wanted && record.state != State::Undone);
    let Some(mut record) = last.filter(|record| !record.edits.is_empty()) else {
        return Err(RunError::NothingToUndo { netdev });
    };
    record.state = State::Undoing;
    journal.save(&record).map_err(|source| RunError::Journal { netdev: netdev.clone(), source })?;
    let result = undo_all(kernel, before, &record.edits);
    let text = result.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned());
    record.state = if result.is_ok() { State::Undone } else { State::Stuck(text.clone()) };
    let edits = record.edits.clone();
    close(journal, &record, "rollback", &edits, asked, text);
    result.map_err(|cause| RunError::Undo { netdev, cause: Box::new(cause) })
}

fn text_of(result: &Result<(), RunError>) -> String {
    result.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned())
}

/// The record's end and its line. A record that cannot be written leaves the NIC out of service after the next start, which looks again.
fn close(
    journal: &mut dyn Journal,
    record: &Record,
    action: &str,
    edits: &[Edit],
    asked: &Asked,
    result: String,
) {
    let undone = action == "rollback";
    let commands = |edit: &Edit| if undone { edit.undo_commands.clone() } else { edit.commands.clone() };
    let line = AuditLine {
        time_ms: asked.now_ms,
        who: asked.who.clone(),
        netdev: record.netdev.clone(),
        profile: record.profile.clone(),
        action: action.to_owned(),
        changes: edits.iter().flat_map(commands).collect(),
        result,
    };
    let _ = journal.audit(&line);
    let _ = journal.save(record);
}

fn take_back(kernel: &dyn Kernel, at: &Observed, made: &[Edit], cause: ApplyError) -> RunError {
    let netdev = at.device.netdev.clone();
    match undo_all(kernel, at, made) {
        Ok(_) => RunError::TakenBack { netdev, cause: Box::new(cause) },
        Err(undo) => RunError::Stuck { netdev, cause: Box::new(cause), undo: Box::new(undo) },
    }
}

/// Undoes edits from the last to the first. One that was never made is undone by asking for what is.
fn undo_all(kernel: &dyn Kernel, at: &Observed, made: &[Edit]) -> Result<Observed, ApplyError> {
    let mut at = observe(kernel, &at.device, at.drained, at.agents.clone());
    let mut first_error = None;
    for edit in made.iter().rev() {
        match apply(kernel, &at, &edit.undo, &edit.via) {
            Ok(after) => at = after,
            // The others are taken back nevertheless: less of a half is better than more.
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(at), Err)
}
