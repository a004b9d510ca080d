//! Switches: which are known, and what is heard of them.

use std::{collections::BTreeSet, sync::Arc};

use proto_model::{
    Placement, QosState, Reason, ReasonCode, SwitchConfig, SwitchName, SwitchStanding, Timestamp,
};

use crate::{
    error::{nearest::nearest, refusal::CoreError},
    rows::switches::SwitchObserved,
    tables::state::State,
};

/// Leaves that one reason names.
const LEAVES_NAMED: usize = 8;

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

    /// How the leaves of a gang are configured, by what was read back of them: a reason for each rail. Rails of whose leaves no administrator has
    /// said anything are left out.
    #[must_use]
    pub fn leaves_read_back(&self, placement: &Placement, now: Timestamp) -> Vec<Reason> {
        let topology = self.index.snapshot.topology();
        let leaves = |rail: u32| -> BTreeSet<SwitchName> {
            let leaf = |place: &proto_model::NodePlace| {
                let server = topology.index(&place.node).and_then(|ix| topology.server(ix))?;
                let leaf = server.ports.get(rail as usize)?.as_ref()?.leaf?;
                SwitchName::new(topology.leaf_name(leaf)).ok()
            };
            placement.nodes.iter().filter_map(leaf).collect()
        };
        let reason_of = |rail: &u32| {
            let leaves = leaves(*rail);
            let known: Vec<&SwitchName> = leaves.iter().filter(|leaf| self.switch(leaf).is_some()).collect();
            (!known.is_empty()).then(|| self.rail_read_back(*rail, &known, now))
        };
        placement.rails.iter().filter_map(reason_of).collect()
    }

    fn rail_read_back(&self, rail: u32, leaves: &[&SwitchName], now: Timestamp) -> Reason {
        let (mut drifted, mut pending, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for leaf in leaves {
            let observed = self.switch_observed(leaf, now);
            match observed.standing {
                _ if !observed.connected => unread.push(leaf.as_str()),
                SwitchStanding::Unread => unread.push(leaf.as_str()),
                SwitchStanding::Same => {}
                SwitchStanding::Differs(_) => match observed.state {
                    Some(QosState::Kept | QosState::Differs) => drifted.push(leaf.as_str()),
                    _ => pending.push(leaf.as_str()),
                },
            }
        }
        let code = match (drifted.is_empty(), pending.is_empty() && unread.is_empty()) {
            (false, _) => ReasonCode::SwitchDrifted,
            (true, false) => ReasonCode::SwitchUnread,
            (true, true) => ReasonCode::SwitchCertified,
        };
        let wrong = drifted.len() + pending.len() + unread.len();
        let mut message = format!(
            "rail {rail}: {} of {} leaves are configured as desired",
            leaves.len() - wrong,
            leaves.len()
        );
        for (what, names) in [("drifted", &drifted), ("not rolled out yet", &pending), ("not read", &unread)]
        {
            if !names.is_empty() {
                let more = if names.len() > LEAVES_NAMED { ", ..." } else { "" };
                let named = names.iter().take(LEAVES_NAMED).copied().collect::<Vec<_>>().join(", ");
                message.push_str(&format!("; {what}: {named}{more}"));
            }
        }
        Reason::new(code, message).count(wrong).scope(format!("rail/{rail}")).since(now)
    }

    /// The refusal for a switch that is not there, with the name that may have been meant.
    #[must_use]
    pub fn no_switch(&self, name: &SwitchName) -> CoreError {
        let nearest = nearest(name.as_str(), self.base.switches.keys());
        CoreError::SwitchNotFound { switch: name.clone(), nearest }
    }
}
