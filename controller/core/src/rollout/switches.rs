//! Switches as units of a rollout: a canary leaf, the leaves of its rail, its pod, the other pods, and what is above the leaves one by one.
//! Two switches that serve one server are never out of use together, and none beside a NIC of its servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_state::{
    CoreError,
    error::switches::SwitchError,
    rows::{
        rollout::{Active, Run},
        switch_rollout::{SwitchContact, SwitchOrder},
    },
    tables::state::State,
    view::rollout::{
        ports::Cluster,
        switch_show::lacks,
        switches::{Stage, Unit as Switch},
    },
};
use controller_topology::RailSet;
use proto_model::{
    NodeName, QosState, Reason, ReasonCode, SwitchName, SwitchReport, SwitchRollout, SwitchStanding,
    TokenHolder,
};

use crate::{
    context::Step,
    event::{QosAction, Reply, SwitchEvent},
    rollout::{
        decide::{Codes, Decision, Site, Terms, Unit, decide},
        nics,
    },
};

fn terms(rollout: &SwitchRollout) -> Terms {
    Terms {
        paused: rollout.paused.is_some(),
        confirm_within: rollout.confirm_within,
        soak: rollout.soak,
        at_once: rollout.at_once as usize,
        force: rollout.force,
    }
}

impl Unit for Switch {
    type Key = SwitchName;
    type Stage = Stage;
    const CODES: Codes = Codes {
        failed: ReasonCode::SwitchFailed,
        silent: ReasonCode::SwitchSilent,
        unwell: ReasonCode::SwitchUnwell,
    };

    fn key(&self) -> SwitchName {
        self.name.clone()
    }

    fn stage(&self) -> Stage {
        self.stage
    }

    fn alone(stage: Stage) -> bool {
        matches!(stage, Stage::Canary | Stage::Spines)
    }

    fn heard(&self) -> bool {
        self.heard
    }

    fn state(&self) -> Option<QosState> {
        self.state
    }

    fn said(&self) -> &str {
        &self.said
    }

    fn done(&self) -> bool {
        self.done
    }

    fn unwell(&self) -> Option<&str> {
        self.unwell.as_deref()
    }

    fn unread(&self) -> bool {
        self.unread
    }

    fn name(&self) -> String {
        format!("switch '{}'", self.name)
    }

    fn agent(&self) -> (String, String) {
        (format!("switch '{}'", self.name), "its configuration".to_owned())
    }

    fn scope(&self) -> String {
        format!("switch/{}", self.name)
    }
}

/// The cluster around a rollout to switches.
struct Around<'a> {
    state: &'a State,
    /// Servers that each switch serves.
    servers: BTreeMap<SwitchName, BTreeSet<NodeName>>,
}

impl<'a> Around<'a> {
    fn new(state: &'a State, units: &[Switch]) -> Self {
        let servers = |unit: &Switch| unit.nics.iter().map(|(node, _)| node.clone()).collect();
        Self { state, servers: units.iter().map(|unit| (unit.name.clone(), servers(unit))).collect() }
    }

    fn meet(&self, a: &SwitchName, b: &SwitchName) -> bool {
        let (Some(a), Some(b)) = (self.servers.get(a), self.servers.get(b)) else { return false };
        !a.is_disjoint(b)
    }
}

impl Site<Switch> for Around<'_> {
    fn user(&self, unit: &Switch) -> Option<String> {
        unit.nics.iter().find_map(|(node, rail)| self.state.user_of_rail(node, *rail))
    }

    fn strands(&self, units: &[&Switch]) -> BTreeMap<SwitchName, String> {
        let mut more: BTreeMap<NodeName, RailSet> = BTreeMap::new();
        for (node, rail) in units.iter().flat_map(|unit| &unit.nics) {
            let rails = more.entry(node.clone()).or_insert(RailSet::EMPTY);
            *rails = rails.with(*rail);
        }
        let stranded = Cluster { state: self.state }.stranded_without(&more);
        let of = |unit: &&Switch| {
            let job = unit.nics.iter().find_map(|(node, _)| stranded.get(node))?;
            Some((unit.name.clone(), job.clone()))
        };
        units.iter().filter_map(of).collect()
    }

    fn conflicts(&self, unit: &Switch, run: &Run<SwitchName>, chosen: &[&Switch]) -> bool {
        let out = run.units.keys().chain(chosen.iter().map(|other| &other.name));
        let nics = &self.state.base.qos_run;
        let mut servers = self.servers.get(&unit.name).into_iter().flatten();
        out.into_iter().any(|other| self.meet(&unit.name, other))
            || servers.any(|node| nics::busy(nics, node))
    }
}

impl Step<'_> {
    /// What concerns switches.
    pub(crate) fn handle_switch(&mut self, event: SwitchEvent) -> Result<Reply, CoreError> {
        match event {
            SwitchEvent::CreateToken { switch, hash, lifetime } => {
                self.known_switch(&switch)?;
                self.create_token(TokenHolder::Switch(switch), hash, lifetime)
            }
            SwitchEvent::WithdrawTokens { switch } => Ok(self.withdraw_tokens(&TokenHolder::Switch(switch))),
            SwitchEvent::Join { switch, hash, csr } => {
                let record = self.good_token(TokenHolder::Switch(switch.clone()), hash, csr)?;
                self.known_switch(&switch)?;
                self.spend_token(&record, csr);
                Ok(Reply::Done)
            }
            SwitchEvent::RollOut(order) => self.roll_out_switches(*order),
            SwitchEvent::Control { action, reason, by } => self.control_switch_rollout(action, reason, by),
            SwitchEvent::Reported { switch, report } => self.switch_reported(switch, report),
        }
    }

    fn known_switch(&self, name: &SwitchName) -> Result<(), CoreError> {
        let known = self.state.base.switches.contains_key(name);
        if known { Ok(()) } else { Err(SwitchError::Unknown { name: name.clone() }.into()) }
    }

    fn roll_out_switches(&mut self, order: SwitchOrder) -> Result<Reply, CoreError> {
        let rollout = self.state.switch_rollout_of(order, self.now)?;
        if let Some(old) = self.state.base.switch_rollout.clone()
            && old.profile == rollout.profile
            && old.paused.is_none()
        {
            let units = self.state.switch_units(&old, self.now);
            let standing = |unit: &Switch| Some(&self.state.base.switch_views.get(&unit.name)?.report);
            let differs = |unit: &Switch| {
                standing(unit).is_some_and(|report| matches!(report.standing, SwitchStanding::Differs(_)))
            };
            let is_unread = |unit: &Switch| unit.heard && unit.unread;
            let is_under_way = units.iter().any(|unit| unit.heard && lacks(unit));
            // What is under way goes on; what is done begins anew only where something differs, or may.
            if !units.iter().any(is_unread) && (is_under_way || !units.iter().any(differs)) {
                return Ok(Reply::SwitchRollout { rollout: old, changed: false });
            }
        }
        Ok(self.begin_switches(rollout))
    }

    fn begin_switches(&mut self, rollout: SwitchRollout) -> Reply {
        let rollout = Arc::new(rollout);
        let mut run = self.state.base.switch_run.clone();
        run.begins_anew();
        let check = self.state.base.switch_check;
        self.state.set_switch_run(run, check);
        let before = self.state.switch_profile();
        self.state.set_switch_rollout(Some(Arc::clone(&rollout)));
        if before != self.state.switch_profile() {
            self.switch_plans_changed();
        }
        self.check_switches();
        Reply::SwitchRollout { rollout, changed: true }
    }

    fn control_switch_rollout(
        &mut self,
        action: QosAction,
        reason: String,
        by: String,
    ) -> Result<Reply, CoreError> {
        let old = self.state.base.switch_rollout.clone().ok_or(SwitchError::NoRollout)?;
        let unchanged = Reply::SwitchRollout { rollout: Arc::clone(&old), changed: false };
        let said = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let next = SwitchRollout {
            generation: old.generation + 1,
            since: self.now,
            by: by.clone(),
            paused: None,
            ..(*old).clone()
        };
        match action {
            QosAction::Pause if old.paused.is_some() => Ok(unchanged),
            QosAction::Pause => {
                Ok(self.stop_switches(&old, ReasonCode::SwitchRolloutPaused, format!("{by} paused it{said}")))
            }
            QosAction::Cancel if old.is_cancelled() => Ok(unchanged),
            QosAction::Cancel if self.switches_are_done(&old) => Err(SwitchError::RolloutDone.into()),
            QosAction::Cancel => {
                let why = format!("{by} cancelled it{said}");
                Ok(self.stop_switches(&old, ReasonCode::SwitchRolloutCancelled, why))
            }
            QosAction::Resume if old.is_cancelled() => Err(SwitchError::RolloutCancelled.into()),
            QosAction::Resume if old.paused.is_none() => Ok(unchanged),
            // Another number: what failed is tried again.
            QosAction::Resume => {
                let reason = if reason.is_empty() { old.reason.clone() } else { reason };
                Ok(self.begin_switches(SwitchRollout { reason, ..next }))
            }
            QosAction::RollBack => {
                let profile = old.before.clone().ok_or(SwitchError::NoProfileBefore)?;
                let before = Some(Arc::clone(&old.profile));
                Ok(self.begin_switches(SwitchRollout { profile, before, reason, ..next }))
            }
        }
    }

    fn switches_are_done(&self, rollout: &SwitchRollout) -> bool {
        self.state.switch_units(rollout, self.now).iter().all(|unit| !lacks(unit))
    }

    fn stop_switches(&mut self, old: &Arc<SwitchRollout>, code: ReasonCode, why: String) -> Reply {
        let paused = Some(Reason::new(code, why).since(self.now));
        let rollout = Arc::new(SwitchRollout { paused, ..(**old).clone() });
        self.state.set_switch_rollout(Some(Arc::clone(&rollout)));
        self.check_switches();
        Reply::SwitchRollout { rollout, changed: true }
    }

    /// Looks at the rollout to switches, if there is one; what follows agents read with their next report.
    pub(crate) fn check_switches(&mut self) {
        let Some(rollout) = self.state.base.switch_rollout.clone() else { return };
        let units = self.state.switch_units(&rollout, self.now);
        let site = Around::new(self.state, &units);
        let before = &self.state.base.switch_run;
        let Decision { run, pause } = decide(&terms(&rollout), &units, before, &site, self.now);
        let open = !run.units.is_empty()
            || !run.waits.is_empty()
            || units.iter().any(|unit| unit.heard && lacks(unit));
        let wakes = rollout.paused.is_none() && pause.is_none() && open || !run.units.is_empty();
        let moved = !before.units.keys().eq(run.units.keys());
        let out_of_use = run.units.keys().cloned().collect();
        self.state.set_switch_run(run, wakes.then(|| self.next_check()));
        let paused = rollout.paused.clone().or(pause);
        if rollout.out_of_use != out_of_use || rollout.paused != paused {
            let next = SwitchRollout { paused, out_of_use, ..(*rollout).clone() };
            self.state.set_switch_rollout(Some(Arc::new(next)));
        }
        if moved {
            self.refresh_drained();
        }
    }

    /// Something that the rollout to switches goes by has changed: soon it is looked at again.
    pub(crate) fn switches_changed(&mut self) {
        if self.state.base.switch_rollout.is_some() && self.state.base.switch_check.is_none() {
            let run = self.state.base.switch_run.clone();
            self.state.set_switch_run(run, Some(self.next_check()));
        }
    }

    fn switch_reported(&mut self, switch: SwitchName, report: Arc<SwitchReport>) -> Result<Reply, CoreError> {
        self.known_switch(&switch)?;
        let report = self.current(report);
        let old = self.state.base.switch_views.get(&switch);
        // Also one that is back counts: it was left out while it was not heard.
        let is_new =
            old.is_none_or(|old| old.report != report) || !self.state.switch_heard(&switch, self.now);
        let last = old.and_then(|old| old.desired.clone());
        let contact = SwitchContact { seen: self.now, report, desired: last };
        self.state.set_switch_view(&switch, Some(contact));
        if is_new {
            self.adopt_switch_trial(&switch);
            self.switches_changed();
        }
        let desired = self.state.switch_desired(&switch, self.now);
        if let Some(view) = self.state.base.switch_views.get(&switch).filter(|view| view.desired != desired) {
            let view = SwitchContact { desired: desired.clone(), ..view.clone() };
            self.state.set_switch_view(&switch, Some(view));
        }
        Ok(Reply::SwitchDesired { desired, interval: self.state.switch_interval() })
    }

    /// A report, without what in it was compared with what a switch was to have before: the next one is compared anew.
    fn current(&self, report: Arc<SwitchReport>) -> Arc<SwitchReport> {
        if report.compared == self.state.base.switch_plans {
            return report;
        }
        let (standing, unreadable) = (SwitchStanding::Unread, String::new());
        Arc::new(SwitchReport { standing, unreadable, sessions: None, ..(*report).clone() })
    }

    /// A switch is on trial that this controller has not begun with: it is out of use already, and stays so until the rollout is looked at.
    fn adopt_switch_trial(&mut self, switch: &SwitchName) {
        let Some(rollout) = self.state.base.switch_rollout.clone().filter(|one| one.paused.is_none()) else {
            return;
        };
        let view = self.state.base.switch_views.get(switch);
        let progress = view.and_then(|view| view.report.progress.as_ref());
        let on_trial =
            progress.is_some_and(|own| own.generation == rollout.generation && own.state == QosState::Trial);
        if on_trial && !self.state.base.switch_run.units.contains_key(switch) {
            let mut run = self.state.base.switch_run.clone();
            run.units.insert(switch.clone(), Active::on_trial(self.now));
            let out_of_use = run.units.keys().cloned().collect();
            self.state.set_switch_run(run, Some(self.next_check()));
            self.state.set_switch_rollout(Some(Arc::new(SwitchRollout { out_of_use, ..(*rollout).clone() })));
            self.refresh_drained();
        }
    }
}
