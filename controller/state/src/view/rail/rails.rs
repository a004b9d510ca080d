//! Reading rails: what an administrator may mean by a text, who uses which rail, and how engines see them.

use std::{collections::BTreeMap, sync::Arc};

use controller_topology::RailSet;
use proto_model::{
    Drain, DrainTarget, JobId, JobUid, NodeName, Observed, Phase, RailReport, RailState, Timestamp,
};

use crate::{
    error::refusal::CoreError,
    rows::job::{JobEntry, gang_size},
    tables::state::State,
};

/// Jobs and uses that one answer names, at most.
const NAMED_MAX: usize = 100;

/// The rails of the cluster.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RailsView {
    /// By index; only those that were asked for.
    pub rails: Vec<RailView>,
    /// What is drained.
    pub drains: Vec<Arc<Drain>>,
    /// Who still uses what is drained; the first of them.
    pub pending: Vec<RailUse>,
    /// All of them.
    pub pending_total: u32,
}

/// One rail.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RailView {
    /// The index of the rail, counted from 0.
    pub rail: u32,
    /// Its name; empty without a fabric document.
    pub name: String,
    /// Its leaves, in the document's order.
    pub leaves: Vec<String>,
    /// Nodes that have a NIC on it.
    pub nodes: u32,
    /// Those whose NIC is up.
    pub nodes_up: u32,
    /// Those whose port is drained.
    pub nodes_drained: u32,
    /// What drains it or some of its ports.
    pub drains: Vec<DrainTarget>,
    /// Jobs that hold it; the first of them.
    pub jobs: Vec<RailJob>,
    /// All of them.
    pub jobs_total: u32,
    /// How many engines see it how; `None` counts those that have not said.
    pub engines: BTreeMap<Option<RailState>, u32>,
}

/// A job that holds a rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailJob {
    /// The name of the job, with its tenant.
    pub id: JobId,
    /// The identity of the job; a name alone may have been another job's before.
    pub uid: JobUid,
    /// On how many of the nodes that were asked for.
    pub nodes: u32,
}

/// One engine that uses a rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailUse {
    /// The name of the job, with its tenant.
    pub id: JobId,
    /// The identity of the job; a name alone may have been another job's before.
    pub uid: JobUid,
    /// The name of the server.
    pub node: NodeName,
    /// The index of the rail, counted from 0.
    pub rail: u32,
    /// As the engine said.
    pub state: Option<RailState>,
    /// Why it is not off it, where that is known.
    pub note: &'static str,
}

/// What one node of a job has told of its rails.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRails {
    /// The name of the server.
    pub node: NodeName,
    /// What its engine has said of each rail, by index.
    pub reports: Vec<RailReport>,
    /// When; `None` if it has told nothing yet.
    pub reported_at: Option<Timestamp>,
}

/// What a text may name: `1`, a rail's name, a leaf's name, `NODE:RAIL`; or with `rail/`, `leaf/`, `node/` before it.
struct Words<'a> {
    kind: Option<&'a str>,
    name: &'a str,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        match text.split_once('/') {
            Some((kind @ ("rail" | "leaf" | "node"), name)) => Self { kind: Some(kind), name },
            _ => Self { kind: None, name: text },
        }
    }

    fn may_be(&self, kind: &str) -> bool {
        self.kind.is_none_or(|given| given == kind)
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let near = known.map(|other| (strsim::damerau_levenshtein(name, other), other));
    near.filter(|(distance, _)| *distance <= 2).min().map(|(_, other)| other.to_owned())
}

impl State {
    /// What an administrator means: a rail by index or name, a leaf by name, or `NODE:RAIL`.
    ///
    /// # Errors
    /// There is no such thing, or there are two.
    pub fn target(&self, text: &str) -> Result<DrainTarget, CoreError> {
        let words = Words::of(text);
        let rail = self.rail_named(words.name).filter(|_| words.may_be("rail"));
        let leaf = Some(words.name).filter(|name| words.may_be("leaf") && self.has_leaf(name));
        match (rail, leaf) {
            (Some(_), Some(_)) => return Err(CoreError::RailAmbiguous { target: text.to_owned() }),
            (Some(rail), None) => return Ok(DrainTarget::Rail(rail)),
            (None, Some(leaf)) => return Ok(DrainTarget::Leaf(leaf.to_owned())),
            (None, None) => {}
        }
        match words.name.rsplit_once(':').filter(|_| words.may_be("node")) {
            Some((node, rail)) => self.port_named(text, node, rail),
            None => Err(self.no_such_rail(text, words.name)),
        }
    }

    /// The same for what is drained already, which may be known no more otherwise.
    ///
    /// # Errors
    /// Nothing of that name is drained, nor is there such a thing; or there are two.
    pub fn drained_target(&self, text: &str) -> Result<DrainTarget, CoreError> {
        let exact = text.parse().ok().filter(|target| self.base.drains.contains_key(target));
        if let Some(target) = exact {
            return Ok(target);
        }
        self.target(text).or_else(|error| {
            let named = |target: &&DrainTarget| {
                target.to_string().split_once('/').is_some_and(|(_, name)| name == text)
            };
            self.base.drains.keys().find(named).cloned().ok_or(error)
        })
    }

    fn rail_named(&self, text: &str) -> Option<u32> {
        let rails = self.index.snapshot.topology().rails();
        let named = self.base.fabric.iter().flat_map(|fabric| &fabric.rails).find(|rail| rail.name == text);
        text.parse().ok().filter(|rail| *rail < rails).or(named.map(|rail| rail.index))
    }

    fn has_leaf(&self, name: &str) -> bool {
        self.base.fabric.as_ref().is_some_and(|fabric| fabric.leaves.iter().any(|leaf| leaf.name == name))
    }

    fn port_named(&self, text: &str, node: &str, rail: &str) -> Result<DrainTarget, CoreError> {
        let known = NodeName::new(node).ok().filter(|name| self.base.nodes.contains_key(name));
        let missing =
            |message: String, nearest| CoreError::RailNotFound { target: text.to_owned(), message, nearest };
        let Some(node) = known else {
            let near = nearest(node, self.base.nodes.keys().map(NodeName::as_str));
            let near = near.map(|node| format!("{node}:{rail}"));
            return Err(missing(format!("there is no node '{node}'"), near));
        };
        let topology = self.index.snapshot.topology();
        let server = topology.index(&node).and_then(|ix| topology.server(ix));
        let present = server.map_or(RailSet::EMPTY, |server| server.present);
        match self.rail_named(rail) {
            Some(rail) if present.has(rail) => Ok(DrainTarget::Port { node, rail }),
            Some(rail) => {
                Err(missing(format!("node '{node}' has no NIC on rail {rail}; it has rails {present}"), None))
            }
            None => {
                Err(missing(format!("there is no rail '{rail}'; node '{node}' has rails {present}"), None))
            }
        }
    }

    fn no_such_rail(&self, text: &str, name: &str) -> CoreError {
        let rails = self.index.snapshot.topology().rails();
        let message = match rails {
            0 => "no rail is known yet; apply a fabric, or let nodes join".to_owned(),
            1 => "there is rail 0 only; see `railctl rail ls`".to_owned(),
            _ => format!("rails are 0 to {}; see `railctl rail ls`", rails - 1),
        };
        let fabric = self.base.fabric.as_deref();
        let names = fabric.iter().flat_map(|fabric| fabric.rails.iter().map(|rail| rail.name.as_str()));
        let leaves = fabric.iter().flat_map(|fabric| fabric.leaves.iter().map(|leaf| leaf.name.as_str()));
        CoreError::RailNotFound {
            target: text.to_owned(),
            message,
            nearest: nearest(name, names.chain(leaves)),
        }
    }

    /// The ports that a target covers, by node, as the jobs there name them.
    pub fn ports_of(&self, target: &DrainTarget) -> BTreeMap<NodeName, RailSet> {
        let topology = self.index.snapshot.topology();
        let covered = |server: &controller_topology::Server| {
            let is = |(rail, port): (u32, &Option<controller_topology::Port>)| {
                let covers = match target {
                    DrainTarget::Rail(wanted) => *wanted == rail,
                    DrainTarget::Port { node, rail: wanted } => {
                        *node == server.name && self.names(node).of(*wanted) == rail
                    }
                    DrainTarget::Leaf(name) => {
                        port.as_ref()?.leaf.is_some_and(|leaf| topology.leaf_name(leaf) == name)
                    }
                };
                covers.then_some(rail)
            };
            (0..).zip(&server.ports).filter_map(is).collect::<RailSet>()
        };
        let servers = topology.servers().map(|(_, server)| (server.name.clone(), covered(server)));
        servers.filter(|(_, rails)| !rails.is_empty()).collect()
    }

    /// What drains some of a target's ports.
    pub fn drains_upon(&self, target: &DrainTarget) -> Vec<Arc<Drain>> {
        let ports = self.ports_of(target);
        let meets = |drain: &&Arc<Drain>| {
            let other = self.ports_of(&drain.target);
            ports.iter().any(|(node, rails)| other.get(node).is_some_and(|set| !set.and(*rails).is_empty()))
        };
        self.base.drains.values().filter(meets).take(NAMED_MAX).cloned().collect()
    }

    /// The rails, who holds them and how engines see them; only the ports of `target` where one is given.
    #[must_use]
    pub fn rails(&self, target: Option<&DrainTarget>) -> RailsView {
        let topology = self.index.snapshot.topology();
        let mut view = RailsView::default();
        let mut rails: BTreeMap<u32, RailView> = BTreeMap::new();
        let mut jobs: BTreeMap<u32, BTreeMap<JobUid, u32>> = BTreeMap::new();
        if target.is_none() {
            rails.extend((0..topology.rails()).map(|rail| (rail, RailView::default())));
        }
        let wanted = target.map(|target| self.ports_of(target));
        for (_, server) in topology.servers() {
            let names = self.names(&server.name);
            let (present, up) = (names.of_all(server.present), names.of_all(server.usable));
            let asked = match &wanted {
                None => present,
                Some(ports) => ports.get(&server.name).copied().unwrap_or_default().and(present),
            };
            let drained = self.drained_rails(&server.name);
            for rail in asked.iter() {
                let row = rails.entry(rail).or_default();
                row.nodes += 1;
                row.nodes_up += u32::from(up.has(rail));
                row.nodes_drained += u32::from(drained.has(rail));
            }
            self.count_uses(&server.name, asked, drained, &mut rails, &mut jobs, &mut view);
        }
        self.name_rails(&mut rails);
        for (rail, holders) in jobs {
            let Some(row) = rails.get_mut(&rail) else { continue };
            row.jobs_total = number(holders.len());
            let job = |(uid, nodes)| Some(RailJob { id: self.job_by_uid(&uid)?.id.clone(), uid, nodes });
            row.jobs = holders.into_iter().take(NAMED_MAX).filter_map(job).collect();
        }
        view.rails = rails.into_values().collect();
        view.drains = match target {
            None => self.base.drains.values().cloned().collect(),
            Some(target) => self.drains_upon(target),
        };
        view
    }

    /// Everybody who holds one of these rails on one node.
    fn count_uses(
        &self,
        node: &NodeName,
        asked: RailSet,
        drained: RailSet,
        rails: &mut BTreeMap<u32, RailView>,
        jobs: &mut BTreeMap<u32, BTreeMap<JobUid, u32>>,
        view: &mut RailsView,
    ) {
        let held = self.index.holds.get(node).into_iter().flatten();
        for (entry, position) in
            held.filter_map(|(uid, position)| Some((self.base.jobs.get(uid)?, *position)))
        {
            let nodes = entry.job.status.placement.as_ref().map_or(&[][..], |placement| &placement.nodes);
            let nics = nodes.get(position as usize).map_or(&[][..], |place| &place.nics);
            for rail in nics.iter().map(|nic| nic.rail).filter(|rail| asked.has(*rail)) {
                let uid = entry.job.uid;
                *jobs.entry(rail).or_default().entry(uid).or_default() += 1;
                let state = self.rail_state(uid, position, rail);
                *rails.entry(rail).or_default().engines.entry(state).or_default() += 1;
                if drained.has(rail)
                    && let Some(note) = self.pending_note(entry, position, node, state)
                {
                    view.pending_total += 1;
                    if view.pending.len() < NAMED_MAX {
                        let (id, node) = (entry.job.id.clone(), node.clone());
                        view.pending.push(RailUse { id, uid, node, rail, state, note });
                    }
                }
            }
        }
    }

    /// Who may still use a drained port of a server.
    pub fn rail_user(&self, node: &NodeName, port: u32) -> Option<String> {
        self.user_of_rail(node, self.names(node).of(port))
    }

    /// The same for a rail as jobs name it.
    pub fn user_of_rail(&self, node: &NodeName, rail: u32) -> Option<String> {
        for (uid, position) in self.index.holds.get(node)? {
            let Some(entry) = self.base.jobs.get(uid) else { continue };
            let nodes = entry.job.status.placement.as_ref().map_or(&[][..], |placement| &placement.nodes);
            let holds = nodes
                .get(*position as usize)
                .is_some_and(|place| place.nics.iter().any(|nic| nic.rail == rail));
            let state = self.rail_state(*uid, *position, rail);
            if let Some(note) = self.pending_note(entry, *position, node, state).filter(|_| holds) {
                return Some(format!("job '{}': {note}", entry.job.id));
            }
        }
        None
    }

    /// Why a drained port may still be used by a job; `None` if it is not.
    fn pending_note(
        &self,
        entry: &JobEntry,
        position: u32,
        node: &NodeName,
        state: Option<RailState>,
    ) -> Option<&'static str> {
        let view = self.base.views.get(&(entry.job.uid, position));
        // Engines that are not connected yet learn of it before they are; one without peers sends nothing anywhere.
        let moving = match view {
            Some(view) => (Observed::Starting..Observed::Ended).contains(&view.state),
            // Not heard since this controller began.
            None => entry.job.status.phase == Phase::Running,
        };
        if !moving || gang_size(entry) < 2 {
            return None;
        }
        match state {
            Some(state) if state.is_off() => None,
            _ if self.session(node).is_none() => Some("the node's agent is not connected"),
            None => Some("its engine has not said how it uses the rail"),
            Some(RailState::Draining) => Some("it moves off the rail, or has no other"),
            Some(_) => Some("it has not begun to move off the rail"),
        }
    }

    fn rail_state(&self, uid: JobUid, position: u32, rail: u32) -> Option<RailState> {
        let view = self.base.views.get(&(uid, position))?;
        view.reports.iter().find(|report| report.rail == rail)?.state
    }

    /// Names, leaves and drains of rails.
    fn name_rails(&self, rails: &mut BTreeMap<u32, RailView>) {
        for (rail, row) in rails.iter_mut() {
            row.rail = *rail;
            if let Some(fabric) = &self.base.fabric {
                let named = fabric.rails.iter().find(|known| known.index == *rail);
                row.name = named.map(|known| known.name.clone()).unwrap_or_default();
                let leaves = fabric.leaves.iter().filter(|leaf| leaf.serves(*rail));
                row.leaves = leaves.map(|leaf| leaf.name.clone()).collect();
            }
        }
        for target in self.base.drains.keys() {
            let drained: Vec<u32> = match target {
                DrainTarget::Rail(rail) | DrainTarget::Port { rail, .. } => vec![*rail],
                DrainTarget::Leaf(name) => {
                    let mut leaves = self.base.fabric.iter().flat_map(|fabric| &fabric.leaves);
                    let leaf = leaves.find(|leaf| leaf.name == *name);
                    leaf.map_or_else(Vec::new, |leaf| leaf.rails().collect())
                }
            };
            for rail in drained {
                if let Some(row) = rails.get_mut(&rail) {
                    row.drains.push(target.clone());
                }
            }
        }
    }
}
