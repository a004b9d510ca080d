//! Switches: which are known, and what is heard of them.

use std::sync::Arc;

use proto_model::{SwitchConfig, SwitchName, Timestamp};

use crate::{
    error::{nearest::nearest, refusal::CoreError},
    rows::switches::SwitchObserved,
    tables::state::State,
};

impl State {
    /// A switch.
    #[must_use]
    pub fn switch(&self, name: &SwitchName) -> Option<&Arc<SwitchConfig>> {
        self.base.switches.get(name)
    }

    /// All switches, in the order of their names.
    pub fn switches(&self) -> impl Iterator<Item = &Arc<SwitchConfig>> {
        self.base.switches.values()
    }

    /// What is heard of a switch: nothing, where none of that name is.
    #[must_use]
    pub fn switch_observed(&self, name: &SwitchName, now: Timestamp) -> SwitchObserved {
        let Some(contact) = self.base.switch_views.get(name) else { return SwitchObserved::default() };
        let progress = contact.report.progress.as_ref();
        SwitchObserved {
            connected: self.switch_heard(name, now),
            last_seen: Some(contact.seen),
            nos_version: contact.report.nos_version.clone(),
            agent_version: contact.report.agent_version.clone(),
            state: progress.map(|progress| progress.state),
            generation: progress.map_or(0, |progress| progress.generation),
            number: progress.map_or(0, |progress| progress.observed_number),
            standing: contact.report.standing,
        }
    }

    /// The refusal for a switch that is not there, with the name that may have been meant.
    #[must_use]
    pub fn no_switch(&self, name: &SwitchName) -> CoreError {
        let nearest = nearest(name.as_str(), self.base.switches.keys());
        CoreError::SwitchNotFound { switch: name.clone(), nearest }
    }
}
