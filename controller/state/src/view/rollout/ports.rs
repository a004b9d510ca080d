//! The NICs of a rollout, in the order of its stages, and what agents are told of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_topology::{RailSet, Topology};
use proto_model::{
    DesiredQos, Health, Inventory, JobUid, NodeName, QosPort, QosRollout, QosState, Severity, Timestamp,
};

use crate::{
    error::refusal::CoreError,
    rows::{job::gang, rollout::QosOrder},
    tables::state::State,
};

/// Where in the order a NIC is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The first server, rail by rail.
    Canary(u32),
    /// The canary's pod: its lowest rail first.
    Pod(u32),
    /// The other pods, by name, each rail by rail.
    Others(usize, u32),
}

/// A NIC.
#[derive(Debug, Clone)]
pub struct Port {
    /// Its turn.
    pub stage: Stage,
    /// The name of the server.
    pub node: NodeName,
    /// Its rail by the inventory.
    pub rail: u32,
    /// Its device name.
    pub device: String,
    /// Its agent is connected and heard.
    pub heard: bool,
    /// What its agent says of this rollout; nothing of another.
    pub reported: Option<QosPort>,
    /// Its agent is done with all that it was told. What it says may be older otherwise, and it may be at work on the NIC.
    pub done: bool,
    /// Why it serves nobody well at present: its link is down, or its health says so.
    pub unwell: Option<String>,
}

impl Port {
    /// What its agent says, if it speaks of this rollout.
    pub fn state(&self) -> Option<QosState> {
        self.reported.as_ref().map(|reported| reported.state)
    }

    /// What its agent says, in words; may be empty.
    pub fn said(&self) -> &str {
        self.reported.as_ref().map_or("", |reported| &reported.message)
    }
}

/// The cluster as a rollout asks of it.
pub struct Cluster<'a> {
    /// All that is known of it.
    pub state: &'a State,
}

impl Cluster<'_> {
    /// Of these NICs those without which a job would have no rail left, with its name.
    pub fn stranded_by(&self, ports: &[(NodeName, u32)]) -> BTreeMap<NodeName, String> {
        let mut more: BTreeMap<NodeName, RailSet> = BTreeMap::new();
        for (node, rail) in ports {
            let rails = more.entry(node.clone()).or_insert(RailSet::EMPTY);
            *rails = rails.with(self.state.names(node).of(*rail));
        }
        self.stranded_without(&more)
    }

    /// The same without these rails, as jobs name them.
    pub fn stranded_without(&self, more: &BTreeMap<NodeName, RailSet>) -> BTreeMap<NodeName, String> {
        let before = self.state.stranded(&BTreeMap::new());
        let mut found = BTreeMap::new();
        for (uid, id) in self.state.stranded(more).into_iter().filter(|(uid, _)| !before.contains_key(uid)) {
            for node in self.state.nodes_of(uid).into_iter().filter(|node| more.contains_key(node)) {
                found.insert(node, id.to_string());
            }
        }
        found
    }
}

impl State {
    /// The rollout that does already what is asked for.
    pub fn under_way(&self, order: &QosOrder) -> Option<Arc<QosRollout>> {
        let same = |old: &&Arc<QosRollout>| old.document == order.document && old.paused.is_none();
        self.base.qos.as_ref().filter(same).cloned()
    }

    /// What is asked for, as a rollout.
    ///
    /// # Errors
    /// No server can be the first.
    pub fn ordered(&self, order: QosOrder, now: Timestamp) -> Result<QosRollout, CoreError> {
        let old = self.base.qos.as_deref();
        let canary = self.canary(order.canary)?;
        let before = match old {
            // What was never right anywhere, and what somebody has cancelled, is nothing to go back to.
            Some(old) if old.document == order.document || old.is_cancelled() => old.before.clone(),
            Some(old) => Some(Arc::clone(&old.document)),
            None => None,
        };
        Ok(QosRollout {
            generation: old.map_or(1, |old| old.generation + 1),
            document: order.document,
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
            mixed: old.is_some_and(|old| !self.is_whole(old)),
        })
    }

    /// The server that is first: one that is named, or one that takes jobs and holds fewest.
    fn canary(&self, named: Option<NodeName>) -> Result<NodeName, CoreError> {
        if let Some(node) = named {
            let known = self.base.nodes.contains_key(&node);
            return if known { Ok(node) } else { Err(CoreError::NodeNotFound { node }) };
        }
        let holds = |name: &NodeName| self.index.holds.get(name).map_or(0, BTreeMap::len);
        let fit = self.base.nodes.values().filter(|node| !node.inventory.nics.is_empty());
        let best = fit.min_by_key(|node| {
            let away = node.health != Health::Ready || !self.is_heard(&node.name);
            (away, node.unschedulable, holds(&node.name), node.name.clone())
        });
        best.map(|node| node.name.clone()).ok_or(CoreError::NoCanary)
    }

    /// Whether every NIC was given the profile for good, those of servers that are not heard included.
    pub fn is_whole(&self, rollout: &QosRollout) -> bool {
        self.base.nodes.values().all(|node| {
            let of = |device: &str| node.inventory.qos.iter().find(|port| port.device == device);
            let reported =
                |device: &str| of(device).filter(|reported| reported.generation == rollout.generation);
            let has = |device: &str| has(reported(device).map(|reported| reported.state));
            node.inventory.nics.iter().all(|nic| has(&nic.device))
        })
    }

    fn nodes_of(&self, uid: JobUid) -> BTreeSet<NodeName> {
        let entry = self.base.jobs.get(&uid);
        entry.map(|entry| gang(entry).map(|(_, node)| node.clone()).collect()).unwrap_or_default()
    }

    /// Whether a node's agent is connected and speaks.
    pub fn is_heard(&self, name: &NodeName) -> bool {
        self.base.links.get(name).is_some_and(|link| link.session.is_some() && link.due.is_some())
    }

    /// Every NIC of the cluster, in the order of the rollout.
    pub fn qos_ports(&self, rollout: &QosRollout) -> Vec<Port> {
        let topology = self.index.snapshot.topology();
        let pod = |name: &NodeName| pod_of(topology, name);
        let home = pod(&rollout.canary);
        let mut pods: BTreeMap<Option<String>, usize> = BTreeMap::new();
        for node in self.base.nodes.keys() {
            pods.entry(pod(node)).or_default();
        }
        for (at, place) in pods.values_mut().enumerate() {
            *place = at;
        }
        let mut ports = Vec::new();
        for node in self.base.nodes.values() {
            let heard = self.is_heard(&node.name);
            let link = self.base.links.get(&node.name);
            let desired = link.and_then(|link| link.qos.as_deref()).map(|desired| desired.number);
            let place = pod(&node.name);
            for nic in &node.inventory.nics {
                let stage = if node.name == rollout.canary {
                    Stage::Canary(nic.rail)
                } else if place == home {
                    Stage::Pod(nic.rail)
                } else {
                    Stage::Others(pods.get(&place).copied().unwrap_or_default(), nic.rail)
                };
                let reported = node.inventory.qos.iter().find(|port| port.device == nic.device);
                ports.push(Port {
                    stage,
                    node: node.name.clone(),
                    rail: nic.rail,
                    device: nic.device.clone(),
                    heard,
                    done: reported.is_some_and(|reported| Some(reported.observed_generation) == desired),
                    reported: reported.filter(|reported| reported.generation == rollout.generation).cloned(),
                    unwell: unwell(&node.inventory, &nic.device, nic.up),
                });
            }
        }
        ports.sort_by(|a, b| (a.stage, &a.node, &a.device).cmp(&(b.stage, &b.node, &b.device)));
        ports
    }

    /// What one server should do with its class of service; nothing while no stage has reached it and nothing was before. What it was
    /// told last comes again with its number; anything else has a higher one, also than what it heard of another controller.
    pub fn qos_desired(&self, name: &NodeName, now: Timestamp) -> Option<Arc<DesiredQos>> {
        let rollout = self.base.qos.as_ref()?;
        let node = self.base.nodes.get(name)?;
        let (mut trial, mut kept) = (BTreeSet::new(), BTreeSet::new());
        for nic in &node.inventory.nics {
            let active = self.base.qos_run.units.get(&(name.clone(), nic.rail));
            let reported = node.inventory.qos.iter().find(|port| port.device == nic.device);
            let reported = reported
                .filter(|reported| reported.generation == rollout.generation)
                .map(|reported| reported.state);
            let desired = match active {
                Some(active) if active.kept => Some(&mut kept),
                Some(active) if active.opened.is_some() && active.leaving.is_none() => Some(&mut trial),
                Some(_) => None,
                None => has(reported).then_some(&mut kept),
            };
            if let Some(desired) = desired {
                desired.insert(nic.rail);
            }
        }
        // An agent that was told once is told until the end: what it has on trial it takes back only where it is not named.
        let reached = !node.inventory.qos.is_empty() || !self.qos_rails(name).is_empty();
        // Where not every NIC has the profile before, none is brought to it unseen.
        let before = rollout.before.as_ref().filter(|_| !rollout.mixed).cloned();
        if !reached && before.is_none() {
            return None;
        }
        let link = self.base.links.get(name);
        let last = link.and_then(|link| link.qos.as_ref());
        let desired = DesiredQos {
            generation: rollout.generation,
            document: Arc::clone(&rollout.document),
            before,
            confirm_within: rollout.confirm_within,
            trial,
            kept,
            number: last.map_or(0, |last| last.number),
        };
        if let Some(last) = last.filter(|last| ***last == desired) {
            return Some(Arc::clone(last));
        }
        let before = node
            .inventory
            .qos
            .iter()
            .map(|port| port.observed_generation)
            .chain(link.map(|link| link.qos_number));
        let number = now.0.max(before.max().unwrap_or_default().saturating_add(1));
        Some(Arc::new(DesiredQos { number, ..desired }))
    }

    /// Rails of a server that are out of use for the rollout.
    pub fn qos_rails(&self, name: &NodeName) -> RailSet {
        let ports = &self.base.qos_run.units;
        if ports.is_empty() {
            return RailSet::EMPTY;
        }
        ports.range((name.clone(), 0)..=(name.clone(), u32::MAX)).map(|((_, rail), _)| *rail).collect()
    }
}

pub(crate) fn pod_of(topology: &Topology, name: &NodeName) -> Option<String> {
    let pod = topology.index(name).and_then(|ix| topology.server(ix)).and_then(|server| server.pod);
    pod.map(|pod| topology.pod_name(pod).to_owned())
}

/// Why a NIC serves nobody well.
fn unwell(inventory: &Inventory, device: &str, up: bool) -> Option<String> {
    if !up {
        return Some("its link is down".to_owned());
    }
    let health = inventory.health.iter().find(|nic| nic.device == device)?;
    let worst = health.conditions.iter().find(|condition| condition.severity == Severity::Drain)?;
    Some(format!("{}: {}", worst.code, worst.message))
}

/// Whether a NIC was given the profile for good, be it right at the moment or not.
pub fn has(reported: Option<QosState>) -> bool {
    matches!(reported, Some(QosState::Kept | QosState::Differs))
}
