//! The rollout to switches as it is shown, and what one would do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use proto_model::{JobId, QosState, SwitchName, SwitchRollout, Timestamp};

use crate::{
    error::refusal::CoreError,
    rows::switch_rollout::SwitchOrder,
    tables::state::State,
    view::rollout::switches::{Stage, Unit},
};

/// Switches named at most, of those under way.
const ACTIVE: usize = 100;
/// Switches named at most in a plan.
const PLANNED: usize = 1000;
/// Jobs named of each.
const JOBS: usize = 8;

/// How far a rollout to switches is.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchRolloutView {
    /// The rollout; none while nobody has begun one.
    pub rollout: Option<Arc<SwitchRollout>>,
    /// Its stages, in order.
    pub stages: Vec<SwitchStage>,
    /// Switches that are being changed, or on which it waits; the first of them.
    pub active: Vec<SwitchActive>,
    /// All of them.
    pub active_total: usize,
    /// Every switch that is connected has its configuration.
    pub done: bool,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchStage {
    /// The name, as people write it.
    pub name: String,
    /// How many switches there are.
    pub switches: u32,
    /// Those that keep their configuration.
    pub kept: u32,
    /// Those on trial.
    pub trial: u32,
    /// Those on which it failed.
    pub failed: u32,
    /// Those that are not connected and have not said that they keep it.
    pub silent: u32,
}

/// A switch that is being changed, or on which the rollout waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchActive {
    /// Its name.
    pub name: SwitchName,
    /// What its agent says.
    pub state: Option<QosState>,
    /// What it waits for.
    pub note: String,
}

/// What a rollout to switches would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchPlan {
    /// Every switch has its configuration.
    pub unchanged: bool,
    /// The leaf that would be first.
    pub canary: SwitchName,
    /// Its stages, in order.
    pub stages: Vec<SwitchPlanStage>,
    /// The first of the switches that would change, in order.
    pub switches: Vec<SwitchPlanStep>,
    /// All of them.
    pub switches_total: usize,
    /// Jobs that use one of them.
    pub jobs: usize,
    /// What the soaks alone take.
    pub at_least: Duration,
    /// The profile that it would follow from, as JSON.
    pub profile: Arc<str>,
}

/// One stage of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchPlanStage {
    /// As in the rollout's view.
    pub name: String,
    /// How many switches would change.
    pub switches: u32,
    /// Of them, those that are not connected.
    pub silent: u32,
    /// Switches out of use at a time, at most.
    pub at_once: u32,
    /// How many times some are out of use.
    pub steps: u32,
}

/// One switch of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchPlanStep {
    /// The stage's name.
    pub stage: String,
    /// Its name.
    pub name: SwitchName,
    /// Some of the jobs whose traffic crosses it.
    pub jobs: Vec<JobId>,
    /// What it would wait for; may be empty.
    pub note: String,
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Whether something is to be done about a switch.
#[must_use]
pub fn lacks(unit: &Unit) -> bool {
    unit.state != Some(QosState::Kept)
}

/// Stages that are shown as one, in order, with the name of each.
fn named(units: &[Unit]) -> Vec<(String, Vec<&Unit>)> {
    let mut groups: BTreeMap<(usize, usize), (String, Vec<&Unit>)> = BTreeMap::new();
    for unit in units {
        let (key, name) = match unit.stage {
            Stage::Canary => ((0, 0), format!("canary {}", unit.name)),
            Stage::Rail => ((1, 0), format!("rail {}", unit.rail)),
            Stage::Pod(_) => ((2, 0), format!("pod {}", unit.pod)),
            Stage::Others(pod, _) => ((3, pod), format!("pod {}", unit.pod)),
            Stage::Spines => ((4, 0), "spines".to_owned()),
        };
        groups.entry(key).or_insert_with(|| (name, Vec::new())).1.push(unit);
    }
    groups.into_values().collect()
}

impl State {
    /// The rollout to switches, and how far it is.
    #[must_use]
    pub fn switch_rollout_view(&self, now: Timestamp) -> SwitchRolloutView {
        let rollout = self.base.switch_rollout.clone();
        let (stages, active, active_total) = (Vec::new(), Vec::new(), 0);
        let mut view = SwitchRolloutView { rollout, stages, active, active_total, done: false };
        let Some(rollout) = view.rollout.clone() else { return view };
        let units = self.switch_units(&rollout, now);
        for (name, group) in named(&units) {
            let mut stage = SwitchStage { name, ..SwitchStage::default() };
            for unit in group {
                stage.switches += 1;
                match unit.state {
                    Some(QosState::Kept) => stage.kept += 1,
                    Some(QosState::Failed) => stage.failed += 1,
                    _ if !unit.heard => stage.silent += 1,
                    Some(QosState::Trial) => stage.trial += 1,
                    _ => {}
                }
                self.name_switch(unit, &mut view);
            }
            view.stages.push(stage);
        }
        view.done = units.iter().all(|unit| !unit.heard || !lacks(unit));
        view
    }

    fn name_switch(&self, unit: &Unit, view: &mut SwitchRolloutView) {
        let run = &self.base.switch_run;
        let note = run.units.get(&unit.name).map(|active| &active.note).or_else(|| run.waits.get(&unit.name));
        let failed = (unit.state == Some(QosState::Failed)).then_some(&unit.said);
        let Some(note) = note.or(failed) else { return };
        view.active_total += 1;
        if view.active.len() < ACTIVE {
            let (name, state, note) = (unit.name.clone(), unit.state, note.clone());
            view.active.push(SwitchActive { name, state, note });
        }
    }

    /// What the rollout would do that is asked for.
    ///
    /// # Errors
    /// The order would be refused.
    pub fn switch_plan(&self, order: SwitchOrder, now: Timestamp) -> Result<SwitchPlan, CoreError> {
        let rollout = self.switch_rollout_of(order, now)?;
        let units = self.switch_units(&rollout, now);
        let mut plan = SwitchPlan {
            unchanged: true,
            canary: rollout.canary.clone(),
            stages: Vec::new(),
            switches: Vec::new(),
            switches_total: 0,
            jobs: 0,
            at_least: Duration::ZERO,
            profile: rollout.profile.clone(),
        };
        let mut jobs = BTreeSet::new();
        for (name, group) in named(&units) {
            let changing: Vec<&Unit> = group.into_iter().filter(|unit| lacks(unit)).collect();
            let Some(first) = changing.first() else { continue };
            let alone = matches!(first.stage, Stage::Canary | Stage::Spines);
            let at_once = if alone { 1 } else { rollout.at_once };
            let heard = number(changing.iter().filter(|unit| unit.heard).count());
            let steps = heard.div_ceil(at_once);
            let switches = number(changing.len());
            plan.at_least += rollout.soak * steps;
            for unit in changing {
                let held = self.jobs_across(unit);
                plan.switches_total += 1;
                if plan.switches.len() < PLANNED {
                    let named = held.iter().take(JOBS).cloned().collect();
                    let note = if unit.heard { "" } else { "it is not connected: it follows when it is" };
                    let (stage, own) = (name.clone(), unit.name.clone());
                    plan.switches.push(SwitchPlanStep {
                        stage,
                        name: own,
                        jobs: named,
                        note: note.to_owned(),
                    });
                }
                jobs.extend(held);
            }
            plan.stages.push(SwitchPlanStage { name, switches, silent: switches - heard, at_once, steps });
        }
        (plan.unchanged, plan.jobs) = (plan.switches_total == 0, jobs.len());
        Ok(plan)
    }

    /// Jobs that hold a NIC which is cabled to it.
    fn jobs_across(&self, unit: &Unit) -> BTreeSet<JobId> {
        let mut jobs = BTreeSet::new();
        for (node, rail) in &unit.nics {
            for (uid, position) in self.index.holds.get(node).into_iter().flatten() {
                let Some(entry) = self.base.jobs.get(uid) else { continue };
                let places = entry.job.status.placement.as_ref().map_or(&[][..], |own| &own.nodes);
                let place = places.get(*position as usize);
                if place.is_some_and(|place| place.nics.iter().any(|nic| nic.rail == *rail)) {
                    jobs.insert(entry.job.id.clone());
                }
            }
        }
        jobs
    }
}
