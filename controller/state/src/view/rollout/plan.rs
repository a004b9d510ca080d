//! What a rollout would do, before it has begun.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proto_model::{JobId, NodeName, QosState, Timestamp};

use crate::{
    error::refusal::CoreError,
    rows::rollout::QosOrder,
    tables::state::State,
    view::rollout::{
        ports::{Cluster, Port, Stage},
        show::group,
    },
};

/// NICs named at most.
const NAMED: usize = 1000;
/// Jobs named of each.
const JOBS: usize = 8;
/// Stages, rail by rail, of which it is looked who would lose the last rail: each look goes over all jobs.
const JUDGED: usize = 64;

/// What a rollout would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosPlan {
    /// The profile is rolled out, or on its way, already.
    pub unchanged: bool,
    /// The server that would be first.
    pub canary: NodeName,
    /// Its stages, in order.
    pub stages: Vec<QosPlanStage>,
    /// The first of the NICs, in order.
    pub nics: Vec<QosPlanNic>,
    /// All of them.
    pub nics_total: usize,
    /// How many servers these NICs are in.
    pub nodes: usize,
    /// Jobs that hold one of them.
    pub jobs: usize,
    /// What the soaks alone take.
    pub at_least: Duration,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QosPlanStage {
    /// For people, as in the rollout's view.
    pub name: String,
    /// How many NICs there are.
    pub nics: u32,
    /// How many servers these NICs are in.
    pub nodes: u32,
    /// NICs of servers that are not heard.
    pub silent: u32,
    /// NICs out of use at a time, at most.
    pub at_once: u32,
    /// How many times some are out of use.
    pub steps: u32,
}

/// One NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosPlanNic {
    /// The stage's name.
    pub stage: String,
    /// The name of the server.
    pub node: NodeName,
    /// The index of the rail, counted from 0.
    pub rail: u32,
    /// The device name of the NIC, such as `mlx5_0`.
    pub device: String,
    /// Some of the jobs that hold it.
    pub jobs: Vec<JobId>,
    /// What it would wait for, or that it has the profile.
    pub note: String,
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl State {
    /// What the rollout would do that is asked for.
    ///
    /// # Errors
    /// The order would be refused.
    pub fn qos_plan(&self, order: &QosOrder, now: Timestamp) -> Result<QosPlan, CoreError> {
        let unchanged = self.under_way(order).is_some();
        let rollout = self.ordered(order.clone(), now)?;
        // How far NICs are with the present rollout of this profile: the next one tries all of them again.
        let present = self.base.qos.as_ref().filter(|old| old.document == order.document);
        let generation = present.map_or(rollout.generation, |old| old.generation);
        let ports = self.qos_ports(&proto_model::QosRollout { generation, ..rollout.clone() });
        let names = self.stage_names(&rollout, &ports);
        let mut plan = QosPlan {
            unchanged,
            canary: rollout.canary.clone(),
            stages: Vec::new(),
            nics: Vec::new(),
            nics_total: ports.len(),
            nodes: ports.iter().map(|port| &port.node).collect::<BTreeSet<_>>().len(),
            jobs: 0,
            at_least: Duration::ZERO,
        };
        let (mut jobs, mut stages) = (BTreeSet::new(), BTreeMap::new());
        for (at, ports) in ports.chunk_by(|a, b| a.stage == b.stage).enumerate() {
            let Some(first) = ports.first() else { continue };
            let (place, name) = &names[&group(first.stage)];
            let canary = matches!(first.stage, Stage::Canary(_));
            let at_once = if canary { 1 } else { rollout.at_once };
            let heard = number(ports.iter().filter(|port| port.heard).count());
            let (stage, nodes) = stages.entry(*place).or_insert_with(|| {
                let stage = QosPlanStage { name: name.clone(), at_once, ..QosPlanStage::default() };
                (stage, BTreeSet::new())
            });
            stage.nics += number(ports.len());
            stage.silent += number(ports.len()) - heard;
            stage.steps += heard.div_ceil(at_once);
            nodes.extend(ports.iter().map(|port| &port.node));
            let strands = if at < JUDGED { self.strands(ports) } else { BTreeMap::new() };
            for port in ports {
                let held = self.held_by(port);
                jobs.extend(held.iter().cloned());
                if plan.nics.len() < NAMED {
                    let note = note(port, strands.get(&port.node), rollout.force);
                    plan.nics.push(named(port, name, held, note));
                }
            }
        }
        for (mut stage, nodes) in stages.into_values() {
            stage.nodes = number(nodes.len());
            plan.at_least += rollout.soak * stage.steps;
            plan.stages.push(stage);
        }
        plan.jobs = jobs.len();
        Ok(plan)
    }

    /// Of these NICs those without which a job would have no rail left.
    fn strands(&self, ports: &[Port]) -> BTreeMap<NodeName, String> {
        let heard: Vec<(NodeName, u32)> =
            ports.iter().filter(|port| port.heard).map(|port| (port.node.clone(), port.rail)).collect();
        Cluster { state: self }.stranded_by(&heard)
    }

    /// The jobs that hold a NIC.
    fn held_by(&self, port: &Port) -> Vec<JobId> {
        let rail = self.names(&port.node).of(port.rail);
        let Some(holds) = self.index.holds.get(&port.node) else { return Vec::new() };
        let of = |(uid, position): (&proto_model::JobUid, &u32)| {
            let job = &self.base.jobs.get(uid)?.job;
            let place = job.status.placement.as_ref()?.nodes.get(*position as usize)?;
            place.nics.iter().any(|nic| nic.rail == rail).then(|| job.id.clone())
        };
        holds.iter().filter_map(of).collect()
    }
}

fn named(port: &Port, stage: &str, mut jobs: Vec<JobId>, note: String) -> QosPlanNic {
    jobs.truncate(JOBS);
    let (node, device) = (port.node.clone(), port.device.clone());
    QosPlanNic { stage: stage.to_owned(), node, rail: port.rail, device, jobs, note }
}

fn note(port: &Port, stranded: Option<&String>, force: bool) -> String {
    match (stranded, port.state()) {
        _ if !port.heard => "its server is not heard: it follows when it is".to_owned(),
        (Some(job), _) if force => format!("job '{job}' would have no rail left, and stands still meanwhile"),
        (Some(job), _) => format!("job '{job}' would have no rail left: it is waited for"),
        (None, Some(QosState::Kept)) => "it has the profile".to_owned(),
        (None, Some(QosState::Failed)) => format!("it has failed before: {}", port.said()),
        (None, _) => match &port.unwell {
            Some(why) => format!("it is not well: {why}"),
            None => String::new(),
        },
    }
}
