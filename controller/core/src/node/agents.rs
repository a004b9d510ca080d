//! Agents come, speak, fall silent and come back.

use std::{collections::BTreeSet, sync::Arc};

use controller_state::{CoreError, Link};
use proto_model::{
    Assignment, Health, Inventory, JobUid, Node, NodeName, Observation, Observed, Reason, ReasonCode,
};

use crate::{
    context::Step,
    event::{Register, Reply, ToNode},
    node::claims::untruth::Untruth,
};

impl Step<'_> {
    pub(crate) fn connected(&mut self, register: Register) -> Result<Reply, CoreError> {
        let Register { node: name, session, agent_version, inventory, observations, epoch } = register;
        if epoch > self.state.epoch {
            return Err(CoreError::Fenced { node: name, seen: epoch, own: self.state.epoch });
        }
        let known = self.state.base.nodes.get(&name).cloned();
        let node = known.ok_or_else(|| CoreError::NodeNotFound { node: name.clone() })?;
        let old = self.state.base.links.get(&name);
        let qos_number = old.map_or(0, |link| link.qos_number);
        let before = old.and_then(|link| link.session);
        if before.is_some_and(|before| before >= session) {
            return Err(CoreError::StaleSession { node: name, session });
        }
        if before.is_some() {
            let reason = "the agent has connected anew".to_owned();
            self.push(&name, ToNode::Close { reason });
        }
        let foreign = self.foreign_attempts(&name, &observations);
        let due = Some(self.now.plus(self.state.config.heartbeat_limit));
        self.adopt_trials(&name, &inventory);
        let drained = self.state.drained_rails(&name);
        let link = Link {
            session: Some(session),
            heard: self.now,
            due,
            foreign,
            drained,
            qos_number,
            ..Link::absent(self.now, None)
        };
        self.state.set_link(&name, Some(link));
        let returned = node.health == Health::NotReady;
        let wanted = Node {
            inventory: known_or(&node.inventory, sane(inventory)),
            health: Health::Ready,
            health_since: if returned { self.now } else { node.health_since },
            reasons: lasting(&node).collect(),
            agent_version,
            ..(*node).clone()
        };
        self.take_hardware(&name, wanted);
        self.reconcile(&name, observations);
        self.request_scheduling_pass();
        self.qos_changed();
        self.proofs_changed(&name);
        Ok(Reply::Done)
    }

    /// Compares what the node has with what it should have, and tells it all of that.
    fn reconcile(&mut self, name: &NodeName, observations: Vec<Observation>) {
        self.hold_back = Some(name.clone());
        let mut forget = Vec::new();
        let holds = self.state.index.holds.get(name).cloned().unwrap_or_default();
        let mut heard: BTreeSet<JobUid> = BTreeSet::new();
        for observation in observations {
            let (uid, attempt) = (observation.uid, observation.attempt);
            match self.position(name, uid, attempt) {
                Some(position) => {
                    heard.insert(uid);
                    self.report(uid, position, name, observation);
                }
                None if observation.state == Observed::Ended => forget.push((uid, attempt)),
                None => self.ignored("attempt"),
            }
        }
        for (uid, position) in holds {
            if !heard.contains(&uid) {
                self.missing(uid, position, name);
            }
        }
        let holds = self.state.index.holds.get(name).cloned().unwrap_or_default();
        for uid in holds.keys() {
            self.refresh_reasons(*uid);
        }
        let assignments: Vec<Assignment> = holds
            .iter()
            .filter_map(|(uid, position)| {
                let entry = self.state.base.jobs.get(uid)?;
                self.state.desired(entry, *position, &self.state.hidden_env(entry))
            })
            .collect();
        let heartbeat_interval = self.state.config.heartbeat_interval;
        let (drained, qos, proofs) = self.drained_now(name);
        self.push(name, ToNode::Welcome { assignments, heartbeat_interval, drained, qos, proofs });
        self.hold_back = None;
        for (uid, attempt) in forget {
            self.push(name, ToNode::Forget { uid, attempt });
        }
    }

    /// Attempts that run on the node although no desired state has them: until they have ended there, it takes no new job.
    fn foreign_attempts(&self, name: &NodeName, observations: &[Observation]) -> BTreeSet<(JobUid, u32)> {
        let desired = |observation: &Observation| {
            let position = self.position(name, observation.uid, observation.attempt)?;
            let view = self.state.base.views.get(&(observation.uid, position));
            view.is_none_or(|view| view.state != Observed::Ended).then_some(position)
        };
        observations
            .iter()
            .filter(|observation| observation.state != Observed::Ended && desired(observation).is_none())
            .map(|observation| (observation.uid, observation.attempt))
            .collect()
    }

    /// Changes the set of attempts that run on a node although no desired state has them.
    pub(crate) fn foreign(
        &mut self,
        name: &NodeName,
        change: impl FnOnce(&mut BTreeSet<(JobUid, u32)>) -> bool,
    ) {
        let Some(mut link) = self.state.base.links.get(name).cloned() else { return };
        if change(&mut link.foreign) {
            let clean = link.foreign.is_empty();
            self.state.set_link(name, Some(link));
            if clean {
                self.request_scheduling_pass();
            }
        }
    }

    /// The agent is alive.
    pub(crate) fn on_report(&mut self, name: &NodeName, session: u64) -> Result<Reply, CoreError> {
        let link = self.state.base.links.get(name).filter(|link| link.session == Some(session));
        let Some(mut link) = link.cloned() else {
            return Err(CoreError::StaleSession { node: name.clone(), session });
        };
        link.heard = self.now;
        let silent = link.due.is_none();
        if silent {
            link.due = Some(self.now.plus(self.state.config.heartbeat_limit));
        }
        self.state.set_link(name, Some(link));
        if silent {
            self.set_health(name, Health::Ready, Vec::new());
            self.request_scheduling_pass();
            self.proofs_changed(name);
        }
        Ok(Reply::Done)
    }

    pub(crate) fn inventory(
        &mut self,
        name: &NodeName,
        session: u64,
        inventory: Arc<Inventory>,
    ) -> Result<Reply, CoreError> {
        self.on_report(name, session)?;
        let inventory = sane(inventory);
        if let Some(node) = self.state.base.nodes.get(name).filter(|node| node.inventory != inventory) {
            let node = Node { inventory, ..(**node).clone() };
            self.take_hardware(name, node);
            self.request_scheduling_pass();
            self.qos_changed();
            self.proofs_changed(name);
            self.report_drained(name);
            self.rails_changed(name);
        }
        Ok(Reply::Done)
    }

    pub(crate) fn disconnected(&mut self, name: &NodeName, session: u64) -> Result<Reply, CoreError> {
        if let Some(link) = self.state.base.links.get(name).filter(|link| link.session == Some(session)) {
            let link = Link { session: None, ..link.clone() };
            self.state.set_link(name, Some(link));
            self.refresh_jobs_of(name);
        }
        Ok(Reply::Done)
    }

    pub(crate) fn refused_epoch(&mut self, node: NodeName, current: u64) -> Result<Reply, CoreError> {
        if current > self.state.epoch {
            return Err(CoreError::Fenced { node, seen: current, own: self.state.epoch });
        }
        Ok(Reply::Done)
    }

    /// The store has said that no newer controller rules: the epoch of which a node spoke never was.
    pub(crate) fn untrue_epoch(&mut self, name: &NodeName, seen: u64) -> Reply {
        let own = self.state.epoch;
        if seen > own {
            self.quarantine(name, &Untruth::Epoch { seen, own });
        }
        Reply::Done
    }

    /// A node's silence is looked at.
    pub(crate) fn node_due(&mut self, name: &NodeName) {
        let Some(mut link) = self.state.base.links.get(name).cloned() else { return };
        let limit = self.state.config.heartbeat_limit;
        let silence = self.now.since(link.heard);
        if silence < limit {
            link.due = Some(link.heard.plus(limit));
            self.state.set_link(name, Some(link));
            return;
        }
        let heard = link.heard;
        link.due = None;
        self.state.set_link(name, Some(link));
        let message = format!(
            "the node has not been heard for {} s; its jobs go on, new ones are not placed",
            silence.as_secs()
        );
        let reason = Reason::new(ReasonCode::NotHeard, message).since(heard);
        self.set_health(name, Health::NotReady, vec![reason]);
        self.replace_silent(name);
    }

    fn set_health(&mut self, name: &NodeName, health: Health, reasons: Vec<Reason>) {
        let Some(node) = self.state.base.nodes.get(name).filter(|node| node.health != health) else { return };
        let reasons = reasons.into_iter().chain(lasting(node)).collect();
        let node = Node { health, health_since: self.now, reasons, ..(**node).clone() };
        self.state.put(Arc::new(node));
        self.refresh_jobs_of(name);
    }

    pub(crate) fn refresh_jobs_of(&mut self, name: &NodeName) {
        let jobs: Vec<JobUid> =
            self.state.index.holds.get(name).map(|jobs| jobs.keys().copied().collect()).unwrap_or_default();
        for uid in jobs {
            self.refresh_reasons(uid);
        }
    }
}

/// The one that is known if it says the same: then the rest need not be compared again.
fn known_or(known: &Arc<Inventory>, reported: Arc<Inventory>) -> Arc<Inventory> {
    if *known == reported { Arc::clone(known) } else { reported }
}

/// An inventory whose GPUs and NICs have distinct identities: of two alike, the first counts.
fn sane(inventory: Arc<Inventory>) -> Arc<Inventory> {
    let mut devices = BTreeSet::new();
    let distinct = inventory.nics.iter().all(|nic| devices.insert(nic.device.as_str()));
    if distinct && inventory.gpus.is_sorted_by(|a, b| a.index < b.index) {
        return inventory;
    }
    let mut inventory = Arc::unwrap_or_clone(inventory);
    let mut gpus = BTreeSet::new();
    inventory.gpus.retain(|gpu| gpus.insert(gpu.index));
    inventory.gpus.sort_by_key(|gpu| gpu.index);
    let mut nics = BTreeSet::new();
    inventory.nics.retain(|nic| nics.insert(nic.device.clone()));
    Arc::new(inventory)
}

/// What a node says that its agent's coming and going does not change.
fn lasting(node: &Node) -> impl Iterator<Item = Reason> {
    node.reasons.iter().filter(|reason| reason.code == ReasonCode::RailsSwapped).cloned()
}
