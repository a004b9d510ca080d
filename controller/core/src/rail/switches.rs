//! Switches: made, changed and forgotten. The fabric document is never touched.

use std::sync::Arc;

use controller_state::{CoreError, Key, rows::switch_rollout::SwitchContact};
use proto_model::{SwitchConfig, SwitchName, SwitchReport, SwitchStanding, TokenHolder};

use crate::{context::Step, event::Reply};

/// Switches at most: twice what a fabric of 125,000 servers with 8 rails has.
const MAX_SWITCHES: usize = 32_768;

impl Step<'_> {
    pub(crate) fn apply_switch(
        &mut self,
        switch: SwitchConfig,
        if_version: u64,
        dry_run: bool,
    ) -> Result<Reply, CoreError> {
        let name = switch.name.clone();
        let current = self.state.version(&Key::Switch(name.clone())).unwrap_or(0);
        if if_version != 0 && if_version != current {
            return Err(CoreError::Conflict { what: format!("switch '{name}'"), asked: if_version, current });
        }
        let old = self.state.switch(&name).cloned();
        let wanted = match &old {
            Some(old) => SwitchConfig {
                uid: old.uid.clone(),
                generation: old.generation,
                created: old.created,
                ..switch
            },
            None if self.state.base.switches.len() >= MAX_SWITCHES => {
                let remedy = "delete some that are not in the fabric any more";
                return Err(CoreError::Full { what: "switches", limit: MAX_SWITCHES, remedy });
            }
            None => SwitchConfig { uid: self.random_uid(), generation: 0, created: self.now, ..switch },
        };
        if let Some(old) = old.filter(|old| **old == wanted) {
            return Ok(Reply::Switch(old));
        }
        let switch = Arc::new(SwitchConfig { generation: wanted.generation + 1, ..wanted });
        if !dry_run {
            self.state.put(Arc::clone(&switch));
            self.switch_plans_changed();
        }
        Ok(Reply::Switch(switch))
    }

    /// What switches are to have follows from the fabric and from the documents of all of them, as planned numbers go by the order of names: what
    /// was read back of each was compared with what it was to have before, also what is on its way here. Its next report is compared with what it is
    /// to have now.
    pub(crate) fn switch_plans_changed(&mut self) {
        self.state.renumber_switch_plans();
        let names: Vec<SwitchName> = self.state.base.switch_views.keys().cloned().collect();
        for name in names {
            let Some(view) = self.state.base.switch_views.get(&name) else { continue };
            let (standing, unreadable) = (SwitchStanding::Unread, String::new());
            let report = SwitchReport { standing, unreadable, sessions: None, ..(*view.report).clone() };
            let report = Arc::new(report);
            let view = SwitchContact { report, ..view.clone() };
            self.state.set_switch_view(&name, Some(view));
        }
        self.switches_changed();
    }

    pub(crate) fn delete_switch(&mut self, name: &SwitchName) -> Result<Reply, CoreError> {
        if self.state.switch(name).is_none() {
            return Err(self.state.no_switch(name));
        }
        self.state.remove::<SwitchConfig>(name);
        self.withdraw_tokens(&TokenHolder::Switch(name.clone()));
        self.state.set_switch_view(name, None);
        self.switch_plans_changed();
        self.check_switches();
        Ok(Reply::Done)
    }
}
