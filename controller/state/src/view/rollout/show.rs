//! The rollout as it is shown.

use std::{collections::BTreeMap, sync::Arc};

use proto_model::{NodeName, QosRollout, QosState};

use crate::{
    tables::state::State,
    view::rollout::ports::{Port, Stage, pod_of},
};

/// NICs named at most.
const NAMED: usize = 100;

/// How far a rollout is.
#[derive(Debug, Clone, PartialEq)]
pub struct QosView {
    /// The rollout; none while nobody has begun one.
    pub rollout: Option<Arc<QosRollout>>,
    /// Its stages, in order.
    pub stages: Vec<QosStage>,
    /// NICs that are being changed, or on which it waits; the first of them.
    pub active: Vec<QosActive>,
    /// All of them.
    pub active_total: usize,
    /// Every NIC that is heard has the profile.
    pub done: bool,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QosStage {
    /// The name, as people write it.
    pub name: String,
    /// How many NICs there are.
    pub nics: u32,
    /// Those that keep the profile.
    pub kept: u32,
    /// Those on trial.
    pub trial: u32,
    /// Those on which it failed.
    pub failed: u32,
    /// Those of servers that are not heard and have not said that they keep it.
    pub silent: u32,
}

/// A NIC that is being changed, or on which the rollout waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosActive {
    /// The name of the server.
    pub node: NodeName,
    /// The index of the rail, counted from 0.
    pub rail: u32,
    /// The device name of the NIC, such as `mlx5_0`.
    pub device: String,
    /// What its agent says.
    pub state: Option<QosState>,
    /// What it waits for.
    pub note: String,
}

/// Whether something is to be done about a NIC.
pub fn lacks(port: &Port) -> bool {
    port.state() != Some(QosState::Kept)
}

impl State {
    /// The rollout, and how far it is.
    #[must_use]
    pub fn qos(&self) -> QosView {
        let mut view = QosView {
            rollout: self.base.qos.clone(),
            stages: Vec::new(),
            active: Vec::new(),
            active_total: 0,
            done: false,
        };
        let Some(rollout) = &self.base.qos else { return view };
        let ports = self.qos_ports(rollout);
        let names = self.stage_names(rollout, &ports);
        let mut stages: BTreeMap<usize, QosStage> = BTreeMap::new();
        for port in &ports {
            let (at, name) = &names[&group(port.stage)];
            let stage =
                stages.entry(*at).or_insert_with(|| QosStage { name: name.clone(), ..QosStage::default() });
            stage.nics += 1;
            match port.state() {
                Some(QosState::Kept) => stage.kept += 1,
                Some(QosState::Failed) => stage.failed += 1,
                _ if !port.heard => stage.silent += 1,
                Some(QosState::Trial) => stage.trial += 1,
                _ => {}
            }
            self.name(port, &mut view);
        }
        view.stages = stages.into_values().collect();
        view.done = ports.iter().all(|port| !port.heard || !lacks(port));
        view
    }

    fn name(&self, port: &Port, view: &mut QosView) {
        let key = (port.node.clone(), port.rail);
        let run = &self.base.qos_run;
        let note = run.units.get(&key).map(|active| &active.note).or_else(|| run.waits.get(&key));
        let failed = port
            .reported
            .as_ref()
            .filter(|reported| matches!(reported.state, QosState::Failed | QosState::Differs));
        let Some(note) = note.or(failed.map(|reported| &reported.message)) else { return };
        view.active_total += 1;
        if view.active.len() < NAMED {
            let (state, note) = (port.state(), note.clone());
            let (node, rail, device) = (port.node.clone(), port.rail, port.device.clone());
            view.active.push(QosActive { node, rail, device, state, note });
        }
    }

    /// Order and name of each group of stages that is shown as one.
    pub fn stage_names(&self, rollout: &QosRollout, ports: &[Port]) -> BTreeMap<Group, (usize, String)> {
        let topology = self.index.snapshot.topology();
        let mut names: BTreeMap<Group, String> = BTreeMap::new();
        for port in ports {
            let of = pod_of(topology, &port.node).map(|pod| format!(" of pod {pod}")).unwrap_or_default();
            names.entry(group(port.stage)).or_insert_with(|| match port.stage {
                Stage::Canary(_) => format!("canary {}", rollout.canary),
                Stage::Pod(_) => format!("rail {}{of}", port.rail),
                Stage::Others(..) => format!("all rails{of}"),
            });
        }
        names.into_iter().enumerate().map(|(at, (group, name))| (group, (at, name))).collect()
    }
}

/// Canary; one rail of its pod; a pod.
pub type Group = (usize, usize, u32);

/// Which stages are shown as one.
pub fn group(stage: Stage) -> Group {
    match stage {
        Stage::Canary(_) => (0, 0, 0),
        Stage::Pod(rail) => (1, 0, rail),
        Stage::Others(pod, _) => (2, pod, 0),
    }
}
