//! The switches of a rollout, in the order of its stages, and what their agents are told of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_topology::RailSet;
use proto_model::{
    DesiredSwitch, DrainTarget, Fabric, NodeName, QosState, SwitchName, SwitchPhase, SwitchProgress,
    SwitchReport, SwitchRollout, SwitchStanding, Timestamp,
};

use super::sessions;
use crate::{
    error::{refusal::CoreError, switches::SwitchError},
    rows::{
        rollout::NicKey,
        switch_rollout::{BUILT_IN_PROFILE, SwitchContact, SwitchOrder},
    },
    tables::state::{Own, State},
};

/// A switch whose agent says nothing for so long is not connected. Agents speak every [`State::switch_interval`], three times as often.
const SILENT: Duration = Duration::from_secs(5);
/// Reports of all switches a second, at most; each is a step of the core.
const REPORTS_PER_SECOND: u32 = 500;

/// Where in the order a switch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The first leaf.
    Canary,
    /// Leaves of the canary's rail.
    Rail,
    /// The canary's pod, rail by rail.
    Pod(u32),
    /// The other pods, by name, rail by rail.
    Others(usize, u32),
    /// What is above the leaves, one after the other.
    Spines,
}

/// A switch.
#[derive(Debug, Clone)]
pub struct Unit {
    /// Its turn.
    pub stage: Stage,
    /// Its name.
    pub name: SwitchName,
    /// The pod that it is in; empty for spines.
    pub pod: String,
    /// The lowest rail that it serves.
    pub rail: u32,
    /// NICs that are cabled to it; none for spines.
    pub nics: BTreeSet<NicKey>,
    /// Its agent is connected.
    pub heard: bool,
    /// How it stands to this rollout.
    pub state: Option<QosState>,
    /// What its agent says; may be empty.
    pub said: String,
    /// Its agent is done with all that it was told.
    pub done: bool,
    /// Why it serves nobody well at present.
    pub unwell: Option<String>,
    /// It is heard, and what it is set to is still to be compared with what it is to have now.
    pub unread: bool,
}

impl State {
    /// How often each switch's agent shall speak.
    #[must_use]
    pub fn switch_interval(&self) -> Duration {
        let switches = u32::try_from(self.base.switches.len()).unwrap_or(u32::MAX);
        Duration::from_secs(1).max(Duration::from_secs(1) * switches / REPORTS_PER_SECOND)
    }

    /// Whether a switch's agent is connected.
    #[must_use]
    pub fn switch_heard(&self, name: &SwitchName, now: Timestamp) -> bool {
        let limit = SILENT.max(self.switch_interval() * 3);
        self.base.switch_views.get(name).is_some_and(|view| now.since(view.seen) < limit)
    }

    /// The rollout that is asked for.
    ///
    /// # Errors
    /// There is no fabric document, no switch that is known, or not the one that is to be first.
    pub fn switch_rollout_of(&self, order: SwitchOrder, now: Timestamp) -> Result<SwitchRollout, CoreError> {
        let old = self.base.switch_rollout.as_deref();
        let canary = self.canary_switch(order.canary)?;
        let profile = self.base.qos.as_ref().map_or(order.default_profile, |qos| qos.document.clone());
        let before = match old {
            Some(old) if old.profile == profile || old.is_cancelled() => old.before.clone(),
            Some(old) => Some(old.profile.clone()),
            None => None,
        };
        Ok(SwitchRollout {
            generation: old.map_or(1, |old| old.generation + 1),
            profile,
            before,
            reason: order.reason,
            by: order.by,
            since: now,
            canary,
            confirm_within: order.confirm_within,
            soak: order.soak,
            at_once: order.at_once.max(1),
            force: order.force,
            paused: None,
            out_of_use: old.map(|old| old.out_of_use.clone()).unwrap_or_default(),
        })
    }

    /// The leaf that is first: one that is named, or of those that are known the one whose servers run fewest jobs.
    fn canary_switch(&self, named: Option<SwitchName>) -> Result<SwitchName, CoreError> {
        let fabric = self.base.fabric.as_deref().ok_or(SwitchError::NoSwitches)?;
        let known = |leaf: &&proto_model::Leaf| {
            SwitchName::new(&leaf.name).ok().filter(|name| self.base.switches.contains_key(name))
        };
        let mut leaves: Vec<SwitchName> = fabric.leaves.iter().filter_map(|leaf| known(&leaf)).collect();
        if let Some(name) = named {
            return if leaves.contains(&name) {
                Ok(name)
            } else {
                Err(SwitchError::NoSuchLeaf { name }.into())
            };
        }
        let cables = self.cables();
        let jobs = |name: &SwitchName| {
            let nics = cables.get(name.as_str()).into_iter().flatten();
            let nodes: BTreeSet<&NodeName> = nics.map(|(node, _)| node).collect();
            nodes.iter().map(|node| self.index.holds.get(*node).map_or(0, BTreeMap::len)).sum::<usize>()
        };
        leaves.sort_by_cached_key(|name| (jobs(name), name.clone()));
        Ok(leaves.into_iter().next().ok_or(SwitchError::NoSwitches)?)
    }

    /// NICs by the leaf that they are cabled to, with the rail by which their server names them.
    fn cables(&self) -> BTreeMap<String, BTreeSet<NicKey>> {
        let topology = self.index.snapshot.topology();
        let mut cables: BTreeMap<String, BTreeSet<NicKey>> = BTreeMap::new();
        for node in self.base.nodes.keys() {
            let server = topology.index(node).and_then(|ix| topology.server(ix));
            for (rail, port) in (0..).zip(server.map_or(&[][..], |server| &server.ports)) {
                if let Some(leaf) = port.and_then(|port| port.leaf) {
                    let nics = cables.entry(topology.leaf_name(leaf).to_owned()).or_default();
                    nics.insert((node.clone(), rail));
                }
            }
        }
        cables
    }

    /// Rails of a server whose leaf is out of use for a rollout to switches.
    #[must_use]
    pub fn switch_rails(&self, name: &NodeName) -> RailSet {
        let run = &self.base.switch_run.units;
        if run.is_empty() {
            return RailSet::EMPTY;
        }
        let topology = self.index.snapshot.topology();
        let server = topology.index(name).and_then(|ix| topology.server(ix));
        let mut rails = RailSet::EMPTY;
        for (rail, port) in (0..).zip(server.map_or(&[][..], |server| &server.ports)) {
            let leaf = port.and_then(|port| port.leaf).map(|leaf| topology.leaf_name(leaf));
            let out = leaf.and_then(|leaf| SwitchName::new(leaf).ok());
            if out.is_some_and(|leaf| run.contains_key(&leaf)) {
                rails = rails.with(rail);
            }
        }
        rails
    }

    /// Every switch that is known and stands in the fabric document, in the order of the rollout.
    #[must_use]
    pub fn switch_units(&self, rollout: &SwitchRollout, now: Timestamp) -> Vec<Unit> {
        let Some(fabric) = self.base.fabric.as_deref() else { return Vec::new() };
        let cables = self.cables();
        let mut units = Vec::new();
        for (name, pod, rail, stage) in places(fabric, &rollout.canary) {
            if !self.base.switches.contains_key(&name) {
                continue;
            }
            let nics = cables.get(name.as_str()).cloned().unwrap_or_default();
            let view = self.base.switch_views.get(&name);
            let report = view.map(|view| &*view.report);
            let observed = report.and_then(|report| report.progress.as_ref());
            let sent = view.and_then(|view| view.desired.as_ref()).map(|desired| desired.number);
            units.push(Unit {
                stage,
                pod,
                rail,
                heard: self.switch_heard(&name, now),
                state: report.and_then(|report| self.state_of(&name, report, rollout)),
                said: observed.map(|progress| progress.message.clone()).unwrap_or_default(),
                done: observed.map(|progress| progress.observed_number) == sent,
                unwell: self.switch_unwell(report, &nics).or_else(|| self.session_missing(&name, now)),
                unread: report.is_some_and(is_unread),
                name,
                nics,
            });
        }
        units.sort_by(|a, b| (a.stage, &a.name).cmp(&(b.stage, &b.name)));
        units
    }

    /// How a switch stands to the rollout, by what its agent says.
    fn state_of(
        &self,
        name: &SwitchName,
        report: &SwitchReport,
        rollout: &SwitchRollout,
    ) -> Option<QosState> {
        let own = |progress: &&SwitchProgress| progress.generation == rollout.generation;
        let repairs = self.base.switches.get(name).is_some_and(|config| config.spec.repair_drift);
        match report.progress.as_ref().filter(own).map(|progress| progress.state) {
            // What somebody has changed by hand since is drift: it is only reported, unless it shall be put right.
            Some(QosState::Kept | QosState::Differs) => match report.standing {
                SwitchStanding::Differs(_) if repairs => Some(QosState::Differs),
                _ => Some(QosState::Kept),
            },
            Some(QosState::Held) | None if report.standing == SwitchStanding::Same => Some(QosState::Kept),
            other => other,
        }
    }

    /// Why a switch serves nobody well: what was read back, and the links of NICs that are cabled to it. A NIC that an administrator has
    /// drained, and one of a server that is not heard, says nothing of the switch.
    fn switch_unwell(&self, report: Option<&SwitchReport>, nics: &BTreeSet<NicKey>) -> Option<String> {
        let report = report?;
        match report.standing {
            SwitchStanding::Unread if report.unreadable.is_empty() => {
                return Some("nothing was read back yet".to_owned());
            }
            SwitchStanding::Unread => return Some(report.unreadable.clone()),
            SwitchStanding::Differs(count) => {
                return Some(format!("{count} settings are not as they were applied"));
            }
            SwitchStanding::Same => {}
        }
        let down = |(node, rail): &&NicKey| {
            let target = DrainTarget::Port { node: node.clone(), rail: *rail };
            let inventory = self.base.nodes.get(node).map(|node| &node.inventory);
            let nic = inventory.and_then(|own| own.nics.iter().find(|nic| nic.rail == *rail));
            self.is_heard(node) && !self.base.drains.contains_key(&target) && nic.is_some_and(|nic| !nic.up)
        };
        let (node, rail) = nics.iter().find(down)?;
        Some(format!(
            "the link of node '{node}' on rail {rail} is down; `railctl drain rail` of that port leaves it out"
        ))
    }

    /// Which session a switch has to have on trial and has not.
    fn session_missing(&self, name: &SwitchName, now: Timestamp) -> Option<String> {
        let view = self.base.switch_views.get(name)?;
        let Some(planned) = &view.report.sessions else {
            return Some("its agent does not say which BGP sessions it has".to_owned());
        };
        let is_ready = |peer: &SwitchName| {
            let report = self.base.switch_views.get(peer).map(|view| &view.report);
            report.is_some_and(|report| report.standing == SwitchStanding::Same)
                && self.switch_heard(peer, now)
                && !self.base.switch_run.units.contains_key(peer)
        };
        sessions::missing(planned, is_ready).map(sessions::said)
    }

    /// The profile that configurations of switches follow from: that of the rollout to switches; where there is none, that of the rollout to NICs;
    /// else the one that is built in.
    #[must_use]
    pub fn switch_profile(&self) -> Arc<str> {
        let own = self.base.switch_rollout.as_ref().map(|rollout| Arc::clone(&rollout.profile));
        let nics = || self.base.qos.as_ref().map(|qos| Arc::clone(&qos.document));
        own.or_else(nics).unwrap_or_else(|| Arc::from(BUILT_IN_PROFILE))
    }

    /// What one switch should do, `None` while nobody has begun a rollout. What it was told last comes again with its number; anything else
    /// has a higher one, also than what it heard of another controller.
    #[must_use]
    pub fn switch_desired(&self, name: &SwitchName, now: Timestamp) -> Option<DesiredSwitch> {
        let rollout = self.base.switch_rollout.as_deref()?;
        let view = self.base.switch_views.get(name);
        let progress = view.and_then(|view| view.report.progress.as_ref());
        let own = progress.filter(|progress| progress.generation == rollout.generation);
        let phase = match self.base.switch_run.units.get(name) {
            Some(active) if active.kept => SwitchPhase::Keep,
            Some(active) if active.opened.is_some() && active.leaving.is_none() => SwitchPhase::Trial,
            Some(_) => SwitchPhase::Hold,
            None if own.is_some_and(|own| own.state == QosState::Kept) => SwitchPhase::Keep,
            None => SwitchPhase::Hold,
        };
        // What is kept is left alone, whoever leads now.
        if let Some(own) = own.filter(|own| phase == SwitchPhase::Keep && own.state == QosState::Kept) {
            let (generation, number) = (own.generation, own.observed_number);
            return Some(DesiredSwitch { generation, phase, confirm_within: rollout.confirm_within, number });
        }
        let last = view.and_then(|view| view.desired.as_ref());
        let (generation, confirm_within) = (rollout.generation, rollout.confirm_within);
        let same = |last: &&DesiredSwitch| {
            (last.generation, last.phase, last.confirm_within) == (generation, phase, confirm_within)
        };
        if let Some(last) = last.filter(same) {
            return Some(last.clone());
        }
        let before = last.map(|last| last.number).into_iter().chain(progress.map(|own| own.observed_number));
        let number = now.0.max(before.max().unwrap_or_default().saturating_add(1));
        Some(DesiredSwitch { generation, phase, confirm_within, number })
    }

    /// Puts what an agent says of its switch into its table; the journal can undo it.
    pub fn set_switch_view(&mut self, name: &SwitchName, new: Option<SwitchContact>) {
        let old = self.swap_switch_view(name, new);
        self.note(Own::SwitchView(name.clone(), old.map(Box::new)));
    }

    pub(crate) fn swap_switch_view(
        &mut self,
        name: &SwitchName,
        new: Option<SwitchContact>,
    ) -> Option<SwitchContact> {
        match new {
            Some(new) => self.base.switch_views.insert(name.clone(), new),
            None => self.base.switch_views.remove(name),
        }
    }
}

/// Whether what was read back has still to be compared: nothing speaks against it.
#[must_use]
pub fn is_unread(report: &SwitchReport) -> bool {
    report.standing == SwitchStanding::Unread && report.unreadable.is_empty()
}

/// Every switch of the document with its pod, its lowest rail and its turn. What has no name that a switch can have has none.
fn places(fabric: &Fabric, canary: &SwitchName) -> Vec<(SwitchName, String, u32, Stage)> {
    let lowest = |rails: &mut dyn Iterator<Item = u32>| rails.min().unwrap_or_default();
    let home = fabric.leaves.iter().find(|leaf| leaf.name == canary.as_str());
    let (pod, rail) = home.map_or(("", 0), |leaf| (leaf.pod.as_str(), lowest(&mut leaf.rails())));
    let pods: BTreeSet<&str> = fabric.leaves.iter().map(|leaf| leaf.pod.as_str()).collect();
    let order: BTreeMap<&str, usize> = pods.into_iter().zip(0..).collect();
    let mut all = Vec::new();
    for leaf in &fabric.leaves {
        let Ok(name) = SwitchName::new(&leaf.name) else { continue };
        let own = lowest(&mut leaf.rails());
        let stage = if name == *canary {
            Stage::Canary
        } else if own == rail {
            Stage::Rail
        } else if leaf.pod == pod {
            Stage::Pod(own)
        } else {
            Stage::Others(order.get(leaf.pod.as_str()).copied().unwrap_or_default(), own)
        };
        all.push((name, leaf.pod.clone(), own, stage));
    }
    for spine in &fabric.spines {
        let Ok(name) = SwitchName::new(&spine.name) else { continue };
        all.push((name, String::new(), lowest(&mut spine.rails()), Stage::Spines));
    }
    all
}
