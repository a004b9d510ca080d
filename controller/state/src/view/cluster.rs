//! The fabric as the scheduler sees it, and how the cluster is at a glance.

use crate::tables::state::State;
use proto_model::Health;
use proto_model::NicConditionCode;
use proto_model::NodeName;
use proto_model::Reason;
use proto_model::ReasonCode;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// The fabric as the scheduler sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TopologyView {
    /// In name order; nodes that the document does not cable come last, in a pod without name.
    pub pods: Vec<PodView>,
    /// Number of rails.
    pub rails: u32,
    /// What does not fit.
    pub findings: Vec<Reason>,
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PodView {
    /// The name, as people write it.
    pub name: String,
    /// Its leaves, one list per rail.
    pub leaves: Vec<Vec<String>>,
    /// The nodes of the pod.
    pub nodes: Vec<NodeView>,
}

/// One node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    /// The name of the server.
    pub name: NodeName,
    /// GPUs that can be scheduled.
    pub gpus: u32,
    /// Those that no job holds.
    pub gpus_free: u32,
    /// Whether new jobs may be placed there.
    pub schedulable: bool,
    /// One per rail of the fabric.
    pub ports: Vec<PortView>,
}

/// A node's NIC on one rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortView {
    /// The index of the rail, counted from 0.
    pub rail: u32,
    /// Device name; empty if there is none.
    pub nic: String,
    /// Leaf; may be empty.
    pub leaf: String,
    /// Up and cabled.
    pub usable: bool,
    /// It is out of use for an administrator or a rollout.
    pub drained: bool,
}

/// How the cluster is, at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthView {
    /// Nodes that are heard.
    pub nodes_ready: u32,
    /// How many nodes there are.
    pub nodes_total: u32,
    /// GPUs that can be scheduled.
    pub gpus_total: u32,
    /// GPUs that jobs hold.
    pub gpus_held: u32,
    /// Jobs that wait.
    pub jobs_pending: u32,
    /// Jobs that hold something.
    pub jobs_running: u32,
    /// Per rail: NICs up and NICs in all.
    pub rails: Vec<(u32, u32)>,
    /// What is wrong.
    pub reasons: Vec<Reason>,
    /// Servers and their rails, those that are least well first; not more than [`HEAT_MAX`].
    pub nodes: Vec<NodeHeat>,
    /// Servers that `nodes` leaves out.
    pub nodes_left_out: u32,
}

/// Servers whose rails one answer shows.
pub const HEAT_MAX: usize = 256;

/// How well the rails of one server are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeHeat {
    /// The name, as people write it.
    pub name: String,
    /// Rails on which it has a NIC.
    pub rails: Vec<RailHeat>,
}

/// How well one rail of one server is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RailHeat {
    /// The index of the rail, counted from 0.
    pub rail: u32,
    /// 100: nothing is known against it. 0: down, or no new job should use it.
    pub score: u32,
    /// New jobs may use it.
    pub usable: bool,
    /// What is wrong.
    pub codes: Vec<String>,
}

/// The rails of one server.
fn heat(server: &controller_topology::Server) -> NodeHeat {
    let rail = |rail: u32| {
        let port = server.ports.get(rail as usize).copied().flatten()?;
        let nic = server.inventory.nics.get(port.nic as usize)?;
        let sick = server.inventory.health.iter().find(|sick| sick.device == nic.device);
        let usable = server.usable.has(rail);
        let mut codes: Vec<String> =
            sick.iter().flat_map(|sick| &sick.conditions).map(|one| one.code.to_string()).collect();
        let mut score = sick.map_or(100, |sick| sick.score);
        if !usable && !server.unfit.has(rail) {
            codes.insert(0, "Down".to_owned());
            score = 0;
        }
        Some(RailHeat { rail, score, usable, codes })
    };
    let rails = server.present.iter().filter_map(rail).collect();
    NodeHeat { name: server.name.to_string(), rails }
}

/// Rails of a server whose NICs are held up by the server itself (PCIe, memory).
fn stalled(server: &controller_topology::Server) -> impl Iterator<Item = u32> {
    let is_stalled = |device: &str| {
        let sick = server.inventory.health.iter().find(|sick| sick.device == device);
        sick.is_some_and(|sick| sick.conditions.iter().any(|one| one.code == NicConditionCode::HostStalled))
    };
    server.present.iter().filter(move |rail| {
        let port = server.ports.get(*rail as usize).copied().flatten();
        port.and_then(|port| server.inventory.nics.get(port.nic as usize))
            .is_some_and(|nic| is_stalled(&nic.device))
    })
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl State {
    /// Rails of servers whose NICs are held up by the server itself (PCIe, memory), as its agent has found: server and rail.
    #[must_use]
    pub fn stalled_rails(&self) -> BTreeSet<(String, u32)> {
        let sick = self.index.snapshot.nodes().filter(|(_, server, _)| !server.inventory.health.is_empty());
        sick.flat_map(|(_, server, _)| stalled(server).map(|rail| (server.name.to_string(), rail))).collect()
    }

    /// The fabric as the scheduler sees it.
    #[must_use]
    pub fn topology(&self) -> TopologyView {
        let topology = self.index.snapshot.topology();
        let rails = topology.rails();
        let mut pods: BTreeMap<Option<usize>, PodView> = BTreeMap::new();
        for pod in topology.pod_indices() {
            let leaves =
                (0..rails).map(|rail| topology.leaves_of(pod, rail).map(str::to_owned).collect()).collect();
            let view = PodView { name: topology.pod_name(pod).to_owned(), leaves, nodes: Vec::new() };
            pods.insert(Some(pod.index()), view);
        }
        let mut outside = PodView::default();
        for (ix, server) in topology.servers() {
            let capacity = self.index.snapshot.capacity(ix);
            let (drained, names) = (self.drained_rails(&server.name), self.names(&server.name));
            let port = |rail: u32| {
                let port = server.ports.get(rail as usize).copied().flatten();
                let nic = port.and_then(|port| server.inventory.nics.get(port.nic as usize));
                PortView {
                    rail,
                    nic: nic.map_or_else(String::new, |nic| nic.device.clone()),
                    leaf: port
                        .and_then(|port| port.leaf)
                        .map_or("", |leaf| topology.leaf_name(leaf))
                        .to_owned(),
                    usable: server.usable.has(rail),
                    drained: drained.has(names.of(rail)),
                }
            };
            let view = NodeView {
                name: server.name.clone(),
                gpus: capacity.gpus.count_ones(),
                gpus_free: capacity.free_gpus().count_ones(),
                schedulable: capacity.gate.is_open(),
                ports: (0..rails).map(port).collect(),
            };
            let pod = pods.get_mut(&server.pod.map(controller_topology::PodIx::index));
            pod.unwrap_or(&mut outside).nodes.push(view);
        }
        let mut pods: Vec<PodView> = pods.into_values().collect();
        if !outside.nodes.is_empty() {
            pods.push(outside);
        }
        TopologyView { pods, rails, findings: topology.findings() }
    }

    /// How the cluster is.
    #[must_use]
    pub fn health(&self) -> HealthView {
        let mut health = HealthView {
            nodes_total: number(self.base.nodes.len()),
            jobs_pending: number(self.index.waiting),
            jobs_running: number(self.index.holding.len()),
            rails: vec![(0, 0); self.index.snapshot.topology().rails() as usize],
            ..HealthView::default()
        };
        for (_, server, capacity) in self.index.snapshot.nodes() {
            health.nodes.push(heat(server));
            health.gpus_total += capacity.gpus.count_ones();
            health.gpus_held += (capacity.gpus & capacity.held.gpus).count_ones();
            for (rail, counts) in health.rails.iter_mut().enumerate() {
                let rail = number(rail);
                counts.0 += u32::from(server.usable.has(rail));
                counts.1 += u32::from(server.present.has(rail));
            }
        }
        let least = |node: &NodeHeat| node.rails.iter().map(|rail| rail.score).min().unwrap_or(100);
        health.nodes.sort_by(|a, b| (least(a), &a.name).cmp(&(least(b), &b.name)));
        health.nodes_left_out = number(health.nodes.len().saturating_sub(HEAT_MAX));
        health.nodes.truncate(HEAT_MAX);
        let ready = self.base.nodes.values().filter(|node| node.health == Health::Ready);
        health.nodes_ready = number(ready.count());
        let silent = health.nodes_total - health.nodes_ready;
        if silent > 0 {
            let message = format!("{silent} of {} nodes are not heard from", health.nodes_total);
            health.reasons.push(Reason::new(ReasonCode::NodeNotReady, message).count(silent as usize));
        }
        let drains = self.base.drains.len();
        if drains > 0 {
            let message = format!("{drains} rails, leaves or ports are drained; see `railctl rail ls`");
            health.reasons.push(Reason::new(ReasonCode::RailsDrained, message).count(drains));
        }
        let unproved = self.unproved();
        if unproved > 0 {
            let message = format!(
                "{unproved} rails of servers are out of use until something proves them well; see `railctl describe node`"
            );
            health.reasons.push(Reason::new(ReasonCode::RailsUnproved, message).count(unproved));
        }
        let findings = self.findings();
        if !findings.is_empty() {
            let message =
                format!("{} things in the fabric do not fit; see `railctl topology show`", findings.len());
            health.reasons.push(Reason::new(ReasonCode::FabricFindings, message).count(findings.len()));
        }
        health
    }
}
