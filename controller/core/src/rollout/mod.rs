//! Class of service of all NICs: the rollout of a profile, one row of the store. How far it is follows from what agents say of
//! their NICs; what is under way is decided anew at each look ([`decide`]).

mod decide;
mod plan;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_topology::{RailSet, Topology};
use proto_model::{
    DesiredQos, Health, Inventory, JobUid, NodeName, QosPort, QosRollout, QosState, Reason, ReasonCode,
    Severity, Timestamp,
};

use crate::{
    error::CoreError,
    event::{QosAction, QosOrder, Reply},
    state::State,
    step::Step,
};
pub(crate) use decide::Run;
use decide::{Active, Decision, Port, Site, Stage, decide};
pub use plan::{QosPlan, QosPlanNic, QosPlanStage};
pub use view::{QosActive, QosStage, QosView};

/// While a rollout is under way it is looked at this often; each look goes over all NICs, so less often in a large cluster:
/// every 2.3 s with 125,000 servers.
const CHECK: Duration = Duration::from_millis(200);
const CHECK_PER_NODE: Duration = Duration::from_nanos(16_667);

impl Step<'_> {
    /// A profile is to be rolled out.
    pub(crate) fn apply_qos(&mut self, order: QosOrder) -> Result<Reply, CoreError> {
        if let Some(old) = self.state.under_way(&order) {
            return Ok(Reply::Qos { rollout: old, changed: false });
        }
        let rollout = self.state.ordered(order, self.now)?;
        Ok(self.begin_qos(rollout))
    }

    /// A rollout is paused, goes on, or goes back.
    pub(crate) fn control_rollout(
        &mut self,
        action: QosAction,
        reason: String,
        by: String,
    ) -> Result<Reply, CoreError> {
        let old = self.state.base.qos.clone().ok_or(CoreError::NoRollout)?;
        let next = QosRollout {
            generation: old.generation + 1,
            since: self.now,
            by: by.clone(),
            reason: reason.clone(),
            paused: None,
            mixed: !self.state.is_whole(&old),
            ..(*old).clone()
        };
        match action {
            QosAction::Cancel => self.cancel_qos(&old, &reason, &by),
            QosAction::Resume if old.is_cancelled() => Err(CoreError::RolloutCancelled),
            QosAction::Pause if old.paused.is_some() => Ok(Reply::Qos { rollout: old, changed: false }),
            QosAction::Pause => {
                let said = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                let paused =
                    Reason::new(ReasonCode::QosPaused, format!("{by} paused it{said}")).since(self.now);
                let rollout = Arc::new(QosRollout { paused: Some(paused), ..(*old).clone() });
                self.state.set_qos(Some(Arc::clone(&rollout)));
                self.check_qos();
                Ok(Reply::Qos { rollout, changed: true })
            }
            QosAction::Resume if old.paused.is_none() => Ok(Reply::Qos { rollout: old, changed: false }),
            // Another number: what failed is tried again.
            QosAction::Resume => {
                let reason = if reason.is_empty() { old.reason.clone() } else { reason };
                Ok(self.begin_qos(QosRollout { reason, ..next }))
            }
            QosAction::RollBack => {
                let document = old.before.clone().ok_or(CoreError::NoProfileBefore)?;
                let before = Some(Arc::clone(&old.document));
                Ok(self.begin_qos(QosRollout { document, before, ..next }))
            }
        }
    }

    /// A rollout ends where it is: what is on trial is taken back as by a pause, and nothing is begun any more.
    fn cancel_qos(&mut self, old: &Arc<QosRollout>, reason: &str, by: &str) -> Result<Reply, CoreError> {
        if old.is_cancelled() {
            return Ok(Reply::Qos { rollout: Arc::clone(old), changed: false });
        }
        if self.state.is_whole(old) {
            return Err(CoreError::RolloutDone);
        }
        let said = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let why = Reason::new(ReasonCode::QosCancelled, format!("{by} cancelled it{said}")).since(self.now);
        let rollout = Arc::new(QosRollout { paused: Some(why), ..(**old).clone() });
        self.state.set_qos(Some(Arc::clone(&rollout)));
        self.check_qos();
        Ok(Reply::Qos { rollout, changed: true })
    }

    fn begin_qos(&mut self, rollout: QosRollout) -> Reply {
        let rollout = Arc::new(rollout);
        let mut run = self.state.base.qos_run.clone();
        run.begins_anew();
        let check = self.state.base.qos_check;
        self.state.set_qos_run(run, check);
        self.state.set_qos(Some(Arc::clone(&rollout)));
        self.check_qos();
        Reply::Qos { rollout, changed: true }
    }

    /// Looks at the rollout, if there is one, and tells agents what follows.
    pub(crate) fn check_qos(&mut self) {
        let Some(rollout) = self.state.base.qos.clone() else { return };
        let ports = self.state.qos_ports(&rollout);
        let site = Cluster { state: self.state };
        let Decision { run, pause } = decide(&rollout, &ports, &self.state.base.qos_run, &site, self.now);
        let open = !run.ports.is_empty()
            || !run.waits.is_empty()
            || ports.iter().any(|port| port.heard && view::lacks(port));
        let wakes = rollout.paused.is_none() && pause.is_none() && open || !run.ports.is_empty();
        self.state.set_qos_run(run, wakes.then(|| self.next_check()));
        if let Some(pause) = pause.filter(|_| rollout.paused.is_none()) {
            self.state.set_qos(Some(Arc::new(QosRollout { paused: Some(pause), ..(*rollout).clone() })));
        }
        self.refresh_drained();
    }

    /// When what goes over all NICs is looked at again.
    pub(crate) fn next_check(&self) -> Timestamp {
        let nodes = u32::try_from(self.state.base.nodes.len()).unwrap_or(u32::MAX);
        self.now.plus(CHECK + CHECK_PER_NODE * nodes)
    }

    /// A node has told something new, or has come or gone: soon the rollout is looked at again.
    pub(crate) fn qos_changed(&mut self) {
        if self.state.base.qos.is_some() && self.state.base.qos_check.is_none() {
            let run = self.state.base.qos_run.clone();
            self.state.set_qos_run(run, Some(self.next_check()));
        }
    }

    /// A server comes back with NICs on trial: they stay out of use until the rollout is looked at. (This controller may have begun
    /// since.)
    pub(crate) fn adopt_trials(&mut self, name: &NodeName, inventory: &Inventory) {
        let Some(rollout) = self.state.base.qos.clone().filter(|rollout| rollout.paused.is_none()) else {
            return;
        };
        let on_trial =
            |port: &&QosPort| port.generation == rollout.generation && port.state == QosState::Trial;
        let mut run = self.state.base.qos_run.clone();
        for port in inventory.qos.iter().filter(on_trial) {
            if let Some(nic) = inventory.nics.iter().find(|nic| nic.device == port.device) {
                run.ports.entry((name.clone(), nic.rail)).or_insert_with(|| Active::on_trial(self.now));
            }
        }
        let check = self.state.base.qos_check;
        self.state.set_qos_run(run, check);
    }
}

/// The cluster as `decide` asks of it.
struct Cluster<'a> {
    state: &'a State,
}

impl Site for Cluster<'_> {
    fn user(&self, node: &NodeName, rail: u32) -> Option<String> {
        self.state.rail_user(node, rail)
    }

    fn strands(&self, ports: &[(NodeName, u32)]) -> BTreeMap<NodeName, String> {
        let mut more: BTreeMap<NodeName, RailSet> = BTreeMap::new();
        for (node, rail) in ports {
            let rails = more.entry(node.clone()).or_insert(RailSet::EMPTY);
            *rails = rails.with(self.state.names(node).of(*rail));
        }
        let before = self.state.stranded(&BTreeMap::new());
        let mut found = BTreeMap::new();
        for (uid, id) in self.state.stranded(&more).into_iter().filter(|(uid, _)| !before.contains_key(uid)) {
            for node in self.state.nodes_of(uid).into_iter().filter(|node| more.contains_key(node)) {
                found.insert(node, id.to_string());
            }
        }
        found
    }
}

impl State {
    /// The rollout that does already what is asked for.
    fn under_way(&self, order: &QosOrder) -> Option<Arc<QosRollout>> {
        let same = |old: &&Arc<QosRollout>| old.document == order.document && old.paused.is_none();
        self.base.qos.as_ref().filter(same).cloned()
    }

    /// What is asked for, as a rollout.
    fn ordered(&self, order: QosOrder, now: Timestamp) -> Result<QosRollout, CoreError> {
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
    fn is_whole(&self, rollout: &QosRollout) -> bool {
        self.base.nodes.values().all(|node| {
            let of = |device: &str| node.inventory.qos.iter().find(|port| port.device == device);
            let reported =
                |device: &str| of(device).filter(|reported| reported.generation == rollout.generation);
            let has = |device: &str| view::has(reported(device).map(|reported| reported.state));
            node.inventory.nics.iter().all(|nic| has(&nic.device))
        })
    }

    fn nodes_of(&self, uid: JobUid) -> BTreeSet<NodeName> {
        let entry = self.base.jobs.get(&uid);
        entry
            .map(|entry| crate::state::gang(entry).map(|(_, node)| node.clone()).collect())
            .unwrap_or_default()
    }

    /// Whether a node's agent is connected and speaks.
    pub(crate) fn is_heard(&self, name: &NodeName) -> bool {
        self.base.links.get(name).is_some_and(|link| link.session.is_some() && link.due.is_some())
    }

    /// Every NIC of the cluster, in the order of the rollout.
    fn qos_ports(&self, rollout: &QosRollout) -> Vec<Port> {
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
    pub(crate) fn qos_desired(&self, name: &NodeName, now: Timestamp) -> Option<Arc<DesiredQos>> {
        let rollout = self.base.qos.as_ref()?;
        let node = self.base.nodes.get(name)?;
        let (mut trial, mut kept) = (BTreeSet::new(), BTreeSet::new());
        for nic in &node.inventory.nics {
            let active = self.base.qos_run.ports.get(&(name.clone(), nic.rail));
            let reported = node.inventory.qos.iter().find(|port| port.device == nic.device);
            let reported = reported
                .filter(|reported| reported.generation == rollout.generation)
                .map(|reported| reported.state);
            let desired = match active {
                Some(active) if active.kept => Some(&mut kept),
                Some(active) if active.opened.is_some() && active.leaving.is_none() => Some(&mut trial),
                Some(_) => None,
                None => view::has(reported).then_some(&mut kept),
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
    pub(crate) fn qos_rails(&self, name: &NodeName) -> RailSet {
        let ports = &self.base.qos_run.ports;
        if ports.is_empty() {
            return RailSet::EMPTY;
        }
        ports.range((name.clone(), 0)..=(name.clone(), u32::MAX)).map(|((_, rail), _)| *rail).collect()
    }
}

fn pod_of(topology: &Topology, name: &NodeName) -> Option<String> {
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
