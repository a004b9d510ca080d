//! When the engine gets orders about its rails, when it is asked about them, and what of that is reported.

use std::{collections::BTreeSet, time::Duration};

use proto_model::{AlgorithmChoice, RailReport, RailState, Timestamp};

use super::{Action, Phase, State};

/// The engine is asked this often how its rails are.
pub const RAILS_CHECK: Duration = Duration::from_secs(1);
/// While rails move after an order, it is asked this often,
pub const RAILS_HASTE: Duration = Duration::from_millis(50);
/// for this long at most.
pub(super) const HASTE_LIMIT: Duration = Duration::from_secs(10);
/// Bytes and rates are reported this often; a changed state at once.
pub const RAILS_REPORT: Duration = Duration::from_secs(5);
/// After a change they are reported again after this long.
const RAILS_RATES: Duration = Duration::from_secs(2);
/// An engine that did not answer is asked again after this long.
pub(super) const RAILS_AGAIN: Duration = Duration::from_secs(5);

/// When the engine's rails are looked at and reported.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RailsLook {
    pub(super) next: Timestamp,
    pub(super) hasty_until: Timestamp,
    pub(super) notify: Timestamp,
}

impl State {
    /// True while rails move, so that the shell looks more often.
    #[must_use]
    pub fn is_hasty(&self, now: Timestamp) -> bool {
        self.engine_serves() && now < self.rails.hasty_until && !self.is_settled()
    }

    pub(super) fn wanted(&self) -> BTreeSet<u32> {
        self.seen.drained.clone().unwrap_or_default()
    }

    /// The engine has done what is wanted of its rails.
    pub(super) fn is_settled(&self) -> bool {
        let wanted = self.wanted();
        let done = |report: &RailReport| match report.state {
            Some(state) if wanted.contains(&report.rail) => state.is_off(),
            Some(state) => !matches!(state, RailState::Draining | RailState::Drained),
            None => false,
        };
        self.engine_drained == wanted && self.seen.reports.iter().all(done)
    }
}

/// Has the engine drain what is wanted, unless it does already.
pub(super) fn drain_engine(state: &mut State, now: Timestamp, actions: &mut Vec<Action>) {
    let wanted = state.wanted();
    if state.engine_serves() && state.engine_drained != wanted {
        state.rails.next = now.plus(RAILS_CHECK);
        actions.push(Action::DrainEngine(wanted));
    }
}

/// A changed state is reported at once, bytes and rates now and then.
pub(super) fn rails_seen(
    state: &mut State,
    reports: Vec<RailReport>,
    choices: Vec<AlgorithmChoice>,
    now: Timestamp,
    actions: &mut Vec<Action>,
) {
    let seen = &mut state.seen;
    let same = reports.len() == seen.reports.len()
        && reports.iter().zip(&seen.reports).all(|(new, old)| new.says_as(old))
        && choices == seen.choices;
    if same && now < state.rails.notify {
        return;
    }
    (seen.reports, seen.choices) = (reports, choices);
    // Rates are of the time before: after a change they are reported once more as they are then.
    state.rails.notify = now.plus(if same { RAILS_REPORT } else { RAILS_RATES });
    actions.push(Action::Publish);
}

/// Looks after the engine's rails while it serves. How they are is asked only once all of them have been connected: before that they
/// are down to every peer, which would be reported until the next check, of an attempt that runs.
pub(super) fn rails_due(state: &mut State, now: Timestamp, actions: &mut Vec<Action>) {
    if !state.engine_serves() || now < state.rails.next {
        return;
    }
    if state.engine_drained != state.wanted() {
        drain_engine(state, now, actions);
    } else if matches!(state.phase, Phase::Launching | Phase::Running) {
        state.rails.next = now.plus(if state.is_hasty(now) { RAILS_HASTE } else { RAILS_CHECK });
        actions.push(Action::ReadRails);
    }
}
