//! A plan, made: what is to be done next is decided in `node_agent_qos::journal`; here it is saved first, then done, and what became of
//! it is reported back.

use std::time::{Duration, SystemTime};

use node_agent_netlink::Kernel;
use node_agent_qos::{
    Blast, Device, Edit, Observed, Plan,
    journal::{Action, Asker, Event, Journal as Apply, Stage, step},
};
use proto_model::Timestamp;

use super::{
    apply,
    journal::{AuditLine, Journal, Record, key},
    observe,
};

/// More than any apply takes: each edit, its undo, and the readings.
const STEPS_MOST: usize = 1000;
/// For an apply that stays as soon as it has been read back: it is confirmed at once, or by the agent after the one that died before that.
const AT_ONCE: Duration = Duration::MAX;

/// Why a plan was not made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It was not begun, or not gone on with: what is done cannot be recorded.
    #[error("class of service of {netdev}: nothing more is done, the journal cannot be written: {source}")]
    Journal {
        /// Name of the network device.
        netdev: String,
        /// What the operating system answered.
        source: std::io::Error,
    },
    /// Something failed, and everything was taken back.
    #[error("{netdev}: {why}; everything was taken back")]
    TakenBack {
        /// Name of the network device.
        netdev: String,
        /// The change that failed, and why.
        why: String,
    },
    /// It is neither as it was nor as it should be.
    #[error("{netdev}: {why}; the NIC is out of service until this is mended")]
    Stuck {
        /// Name of the network device.
        netdev: String,
        /// The changes that failed, and why.
        why: String,
    },
    /// There is no apply to be taken back.
    #[error("{netdev}: nothing was applied here that could be taken back")]
    NothingToUndo {
        /// Name of the network device.
        netdev: String,
    },
    /// There is no apply to be confirmed.
    #[error("{netdev}: nothing here waits to be confirmed")]
    NothingToConfirm {
        /// Name of the network device.
        netdev: String,
    },
    /// Taking it back harms traffic, and jobs may run.
    #[error("{netdev}: taking it back causes {blast}, and the server is not drained; drain it, or force")]
    Harmful {
        /// Name of the network device.
        netdev: String,
        /// What taking it back would do to traffic.
        blast: Blast,
    },
}

/// Who wants it, and for how long at first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// A rollout, a person or the agent.
    pub who: Asker,
    /// It is taken back unless it is confirmed within this time; none if it stays once it was read back.
    pub confirm_within: Option<Duration>,
}

/// What became of an apply that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// The apply stays in force without being confirmed.
    Stays,
    /// It is taken back at this time, unless it is confirmed.
    Waits(Timestamp),
}

/// The time of the wall clock.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
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
) -> Result<Outlook, RunError> {
    let apply = Apply::new(plan, before, asked.who.clone(), asked.confirm_within.unwrap_or(AT_ONCE));
    let record = Record { key: key(&before.device), profile: plan.profile.clone(), begun_ms: now().0, apply };
    let at_once = asked.confirm_within.is_none();
    Drive { kernel, journal, record, who: asked.who.to_string(), at_once }.go("apply", Event::Start)
}

/// Goes on with an apply that is not over, one that an agent left in the middle or a trial, by what the NIC (`device` by now) is and what
/// the time is: until when it waits, if it does. Where neither its edits nor their undos can be completed, what the NIC is now decides,
/// as after any change by others.
///
/// # Errors
/// [`RunError::Journal`].
pub fn go_on(
    kernel: &dyn Kernel,
    journal: &mut dyn Journal,
    record: &Record,
    device: &Device,
) -> Result<Option<Timestamp>, RunError> {
    if record.apply.is_over() {
        return Ok(None);
    }
    let at_once = record.apply.confirm_within_ms == millis(AT_ONCE);
    let mut record = record.clone();
    // It may have another name by now.
    record.apply.before.device.netdev.clone_from(&device.netdev);
    let who = record.apply.asked_by.to_string();
    match (Drive { kernel, journal, record, who, at_once }).go("resume", Event::Restarted) {
        Ok(Outlook::Waits(until)) => Ok(Some(until)),
        Err(error @ RunError::Journal { .. }) => Err(error),
        Ok(Outlook::Stays) | Err(_) => Ok(None),
    }
}

/// An apply that waits stays.
///
/// # Errors
/// [`RunError`]: there is none, or it came too late.
pub fn confirm(
    kernel: &dyn Kernel,
    journal: &mut dyn Journal,
    record: Record,
    who: &str,
) -> Result<Outlook, RunError> {
    if record.waits_until().is_none() {
        return Err(RunError::NothingToConfirm { netdev: record.netdev().to_owned() });
    }
    Drive { kernel, journal, record, who: who.to_owned(), at_once: false }.go("confirm", Event::Confirm)
}

/// Ends a trial that was not confirmed: `why` says who wants that; none if its time is over.
///
/// # Errors
/// [`RunError::TakenBack`], as it should be; or that it could not be.
pub fn end_trial(
    kernel: &dyn Kernel,
    journal: &mut dyn Journal,
    record: Record,
    who: &str,
    why: Option<&str>,
) -> Result<Outlook, RunError> {
    let event = why.map_or(Event::Tick, |why| Event::Reject { why: why.to_owned() });
    Drive { kernel, journal, record, who: who.to_owned(), at_once: false }.go("rollback", event)
}

/// Takes back the NIC's last apply: its undos are the edits of another apply, the last first.
///
/// # Errors
/// [`RunError`]; what became of the NIC is in its record.
pub fn roll_back(
    kernel: &dyn Kernel,
    journal: &mut dyn Journal,
    before: &Observed,
    who: &str,
    force: bool,
) -> Result<Outlook, RunError> {
    let netdev = before.device.netdev.clone();
    let records = journal.load().map_err(|source| RunError::Journal { netdev: netdev.clone(), source })?;
    let wanted = key(&before.device);
    let last = records.into_iter().find(|record| record.key == wanted);
    let made = |record: &Record| matches!(record.apply.stage, Stage::Confirmed | Stage::AwaitConfirm { .. });
    let Some(last) = last.filter(|record| made(record) && !record.apply.edits.is_empty()) else {
        return Err(RunError::NothingToUndo { netdev });
    };
    let blast = last.apply.edits.iter().map(|edit| edit.blast).max().unwrap_or(Blast::Nothing);
    if !blast.is_harmless() && !before.drained && !force {
        return Err(RunError::Harmful { netdev, blast });
    }
    let back = |edit: &Edit| Edit {
        change: edit.undo.clone(),
        commands: edit.undo_commands.clone(),
        undo: edit.change.clone(),
        undo_commands: edit.commands.clone(),
        ..edit.clone()
    };
    let apply = Apply {
        asked_by: Asker::Local(who.to_owned()),
        edits: last.apply.edits.iter().rev().map(back).collect(),
        before: before.clone(),
        confirm_within_ms: millis(AT_ONCE),
        stage: Stage::Planned,
        ..last.apply
    };
    let record = Record { begun_ms: now().0, apply, ..last };
    Drive { kernel, journal, record, who: who.to_owned(), at_once: true }.go("rollback", Event::Start)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// An apply under way.
struct Drive<'a> {
    kernel: &'a dyn Kernel,
    journal: &'a mut dyn Journal,
    record: Record,
    /// Whose doing this is, which may be another's than the apply.
    who: String,
    /// It is confirmed as soon as it has been read back.
    at_once: bool,
}

impl Drive<'_> {
    /// Saves, acts and reports, until the apply is over or waits for somebody.
    fn go(&mut self, action: &str, first: Event) -> Result<Outlook, RunError> {
        let netdev = self.record.netdev().to_owned();
        let from = self.record.apply.stage.clone();
        let mut next = Some(first);
        for _ in 0..STEPS_MOST {
            let Some(event) = next.take() else { break };
            let (apply, actions) = step(&self.record.apply, &event, now());
            if apply != self.record.apply {
                self.record.apply = apply;
                let saved = self.journal.save(&self.record);
                saved.map_err(|source| RunError::Journal { netdev: netdev.clone(), source })?;
            }
            next = actions.into_iter().find_map(|action| self.act(action));
            if next.is_none() && self.at_once && self.record.waits_until().is_some() {
                next = Some(Event::Confirm);
            }
        }
        let result = match &self.record.apply.stage {
            Stage::Confirmed => Ok(Outlook::Stays),
            Stage::AwaitConfirm { deadline } => Ok(Outlook::Waits(Timestamp(*deadline))),
            Stage::RolledBack { why } => Err(RunError::TakenBack { netdev, why: why.clone() }),
            _ => Err(RunError::Stuck { netdev, why: self.record.state() }),
        };
        if self.record.apply.stage != from {
            self.report(action, &result);
        }
        result
    }

    fn report(&mut self, action: &str, result: &Result<Outlook, RunError>) {
        let apply = &self.record.apply;
        let line = AuditLine {
            time_ms: now().0,
            who: self.who.clone(),
            netdev: self.record.netdev().to_owned(),
            profile: self.record.profile.clone(),
            action: action.to_owned(),
            changes: apply.edits.iter().flat_map(|edit| edit.commands.clone()).collect(),
            result: match result {
                Ok(Outlook::Stays) => "done".to_owned(),
                Ok(Outlook::Waits(_)) => "done; it waits to be confirmed".to_owned(),
                Err(error) => error.to_string(),
            },
        };
        // The record says who asked for the last apply; a line that is lost is one of those before it at most.
        let _ = self.journal.audit(&line);
    }

    /// Does one action; what is to be reported of it.
    fn act(&self, action: Action) -> Option<Event> {
        let before = &self.record.apply.before;
        match action {
            Action::Make { change, via } => Some(match apply(self.kernel, before, &change, &via) {
                Ok(_) => Event::Made,
                Err(error) => Event::Failed { error: error.to_string() },
            }),
            Action::Read => {
                // What the NIC is shows whether somebody came in between.
                let seen = observe(self.kernel, &before.device, before.drained, before.agents.clone());
                Some(Event::Read(Box::new(seen)))
            }
            Action::Wake(_) | Action::Over => None,
        }
    }
}
