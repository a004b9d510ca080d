//! The audit log in the simulator: who asks, checkpoints, and the invariant that what was answered was recorded before, once,
//! in one chain.

mod events;

use std::{collections::BTreeMap, sync::Arc};

use controller_core::{DenialRecord, Event as Core, Naming, State, Submit};
use proto_audit::{Actor, Hash, Log};
use proto_model::JobId;

/// What was recorded so far.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The number and the hash of the last record of each log.
    last: BTreeMap<Log, (u64, Hash)>,
    /// Records of each call.
    calls: BTreeMap<u64, u32>,
}

/// Somebody asks, by a call with this number.
#[must_use]
pub fn by(event: Core, who: String, call: u64) -> Core {
    event.by(&Arc::new(Actor { who, request: call.to_string(), ..Actor::default() }))
}

/// A call that the door refuses.
#[must_use]
pub fn denied() -> Core {
    Core::DenialRecord(DenialRecord {
        reason: "ROLE_NOT_ALLOWED".to_owned(),
        detail: String::new(),
        count: 1,
    })
}

/// The checkpoint that a controller makes where one is due; nobody here looks at signatures.
#[must_use]
pub fn checkpoint(state: &State, now: proto_model::Timestamp) -> Option<Core> {
    let due = |log: &Log| state.seal_due(*log).is_some_and(|due| due <= now);
    let log = Log::ALL.into_iter().find(due)?;
    let claim = state.claim(log, now)?;
    Some(Core::Sealed(log, Some(Box::new((claim, Vec::new())))))
}

/// What a client asked for, as far as it says what must be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Submit,
    /// Submit of a job that the controller has.
    Repeated,
    Delete,
    Denied,
    Other,
}

impl Kind {
    pub(crate) fn of(event: &Core, state: &State) -> Self {
        match event {
            Core::Submit(submit) if has(state, submit) => Self::Repeated,
            Core::Submit(_) => Self::Submit,
            Core::DeleteJob { .. } => Self::Delete,
            Core::DenialRecord(_) => Self::Denied,
            _ => Self::Other,
        }
    }
}

fn has(state: &State, submit: &Submit) -> bool {
    let Naming::Name(name) = &submit.name else { return false };
    state.job(&JobId { tenant: submit.tenant.clone(), name: name.clone() }).is_some()
}
