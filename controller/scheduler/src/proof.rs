//! An independent proof of a choice: shares no code with it, and looks only at single nodes, never at the capacity index.

use std::collections::BTreeMap;

use controller_topology::{NodeIx, RailSet, Topology};
use proto_model::{IsolationFeature, NodePlace, Placement, TenantName};
use thiserror::Error;

use crate::{
    capacity::Allocated,
    capacity_index::{Filter, Pick, Traits},
    choice::Choice,
    host::Host,
    place::{Need, RailNeed, Within},
};

/// What the proof may ask.
pub trait World {
    /// A node as it is before the gang takes it.
    fn node(&self, node: NodeIx) -> Option<Seen<'_>>;

    /// The leaf of a node's NIC on a rail, as a number; `None` where it has none, or where no document says so.
    fn leaf(&self, node: NodeIx, rail: u32) -> Option<u32>;

    /// Whether these nodes reach one another on each of the rails without leaving it.
    fn aligned(&self, nodes: &[NodeIx], rails: RailSet) -> bool;

    /// How many rails there are.
    fn rails(&self) -> u32;

    /// Whether a job of somebody else is on a node.
    fn has_others(&self, node: NodeIx, tenant: &TenantName) -> bool;
}

/// What the proof looks at of one node.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Whether the node takes new jobs.
    pub open: bool,
    /// Its GPUs, as a bitmap.
    pub gpus: u64,
    /// Its CPUs and memory.
    pub host: Host,
    /// Rails with a NIC that is cabled and up.
    pub usable: RailSet,
    /// What jobs hold on it.
    pub held: Allocated,
    /// Its pod, as a number; `None` if no document cables it.
    pub pod: Option<u32>,
    /// Its labels and taints.
    pub traits: &'a Traits,
}

/// What is wrong with a choice.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Flaw {
    /// Not the whole gang, or more than it.
    #[error("nodes placed: {placed}, asked for: {asked}")]
    Gang {
        /// Nodes of the choice, spares included.
        placed: usize,
        /// Asked for, spares too.
        asked: usize,
    },
    /// A node is in the choice twice.
    #[error("node {0:?} is placed twice")]
    Twice(NodeIx),
    /// The choice has a node that does not exist.
    #[error("node {0:?} is not there")]
    Unknown(NodeIx),
    /// The node takes no jobs.
    #[error("node {0:?} takes no new jobs")]
    Closed(NodeIx),
    /// Not the number of GPUs that was asked for, or GPUs that it does not have or that are held.
    #[error("node {node:?} cannot give GPUs {gpus:#x}")]
    Gpus {
        /// The node that cannot give them.
        node: NodeIx,
        /// The GPUs that the choice takes there, as a bitmap by index.
        gpus: u64,
    },
    /// Not the CPUs and memory that were asked for, or more than jobs leave there.
    #[error("node {node:?} cannot give {} CPUs and {} bytes of memory", .host.cpus, .host.memory)]
    Host {
        /// The node that cannot give them.
        node: NodeIx,
        /// The CPUs and the memory that the choice takes there.
        host: Host,
    },
    /// Not the rails that were asked for.
    #[error("rails {0} are not what was asked for")]
    Rails(RailSet),
    /// A rail of the gang that the node does not have, that is down, or that is held.
    #[error("node {node:?} cannot give rails {rails}")]
    NodeRails {
        /// The node that cannot give them.
        node: NodeIx,
        /// The rails of the gang that the node cannot give.
        rails: RailSet,
    },
    /// The nodes do not reach one another on each rail.
    #[error("the gang is not aligned on rails {0}")]
    Misaligned(RailSet),
    /// One of the two jobs wants the node alone.
    #[error("node {0:?} would be shared against the will of a job")]
    Shared(NodeIx),
    /// A selector or a taint.
    #[error("node {0:?} does not have the labels, or has a taint")]
    Filter(NodeIx),
    /// A GPU of a model that will not do, or of one that nobody knows.
    #[error("node {0:?} has GPUs of a model that the job does not ask for")]
    GpuModel(NodeIx),
    /// Another tenant's job is there, and the node has no user for each attempt.
    #[error("node {0:?} runs another tenant's job and cannot keep the two apart")]
    Tenants(NodeIx),
    /// Less isolation than the job must have.
    #[error("node {0:?} does not give the isolation that the job must have")]
    Isolation(NodeIx),
    /// A node that the job does not want.
    #[error("node {0:?} is excluded, or not among those that are named")]
    Excluded(NodeIx),
    /// The gang or a group leaves the place inside which it must stay.
    #[error("ranks {first} to {last} are not in one place ({within:?})")]
    Apart {
        /// The first node, in rank order.
        first: usize,
        /// The last node, in rank order.
        last: usize,
        /// Where they should stay.
        within: Within,
    },
    /// The number of pods is wrong.
    #[error("pods said: {said}, used: {counted}")]
    Pods {
        /// Pods as the choice counts them.
        said: u32,
        /// Pods that the nodes of the choice are in.
        counted: usize,
    },
}

/// Proves a choice against the world as it is before the gang takes it.
///
/// # Errors
/// Every flaw.
pub fn prove(world: &impl World, need: &Need, choice: &Choice) -> Result<(), Vec<Flaw>> {
    let mut flaws = Vec::new();
    let placed = choice.nodes.len() + choice.spares.len();
    let asked = need.nodes as usize + need.spares as usize;
    if placed != asked || choice.nodes.len() != need.nodes as usize {
        flaws.push(Flaw::Gang { placed, asked });
    }
    let all = world.rails();
    let rails = match need.rails {
        RailNeed::Exactly(rails) => choice.rails == rails,
        RailNeed::Any(count) => choice.rails.len() == count,
    };
    if !rails || choice.rails.iter().any(|rail| rail >= all) {
        flaws.push(Flaw::Rails(choice.rails));
    }
    let hosts: Vec<Host> =
        choice.hosts.iter().flat_map(|(nodes, host)| std::iter::repeat_n(*host, *nodes as usize)).collect();
    let mut nodes: Vec<NodeIx> = Vec::with_capacity(placed);
    let mut pods: BTreeMap<Option<u32>, ()> = BTreeMap::new();
    for (at, pick) in choice.nodes.iter().chain(&choice.spares).enumerate() {
        nodes.push(pick.node);
        match world.node(pick.node) {
            Some(seen) => {
                if at < choice.nodes.len() {
                    pods.insert(seen.pod, ());
                }
                let own = asked_of(need, at);
                node(&seen, need, &own, choice.rails, *pick, &mut flaws);
                host(&seen, &own, hosts.get(at).copied().unwrap_or(choice.host), pick.node, &mut flaws);
                let alone = !seen.traits.isolation.has(IsolationFeature::UidPerAttempt);
                if alone && need.tenant.as_ref().is_some_and(|tenant| world.has_others(pick.node, tenant)) {
                    flaws.push(Flaw::Tenants(pick.node));
                }
            }
            None => flaws.push(Flaw::Unknown(pick.node)),
        }
    }
    if !world.aligned(&nodes, choice.rails) {
        flaws.push(Flaw::Misaligned(choice.rails));
    }
    if pods.len() != choice.pods as usize {
        flaws.push(Flaw::Pods { said: choice.pods, counted: pods.len() });
    }
    nodes.sort_unstable();
    flaws.extend(nodes.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| Flaw::Twice(pair[0])));
    together(world, choice, 0, choice.nodes.len(), need.within, &mut flaws);
    for group in need.groups.iter().filter(|group| group.required && group.size > 0) {
        let size = group.size as usize;
        for first in (0..choice.nodes.len()).step_by(size) {
            together(world, choice, first, first + size, group.within, &mut flaws);
        }
    }
    if flaws.is_empty() { Ok(()) } else { Err(flaws) }
}

/// A placement as the choice that it says it is, to be proved; `None` if one of its nodes is not there.
#[must_use]
pub fn choice_of(topology: &Topology, placement: &Placement) -> Option<Choice> {
    let host_of = |place: &NodePlace| Host { cpus: place.cpus, memory: place.memory_bytes };
    let pick = |place: &NodePlace| {
        let gpus = place.gpus.iter().try_fold(0_u64, |set, gpu| Some(set | 1_u64.checked_shl(*gpu)?))?;
        Some(Pick { node: topology.index(&place.node)?, gpus })
    };
    Some(Choice {
        rails: placement.rails.iter().copied().collect(),
        nodes: placement.nodes.iter().map(pick).collect::<Option<_>>()?,
        spares: placement.spares.iter().map(pick).collect::<Option<_>>()?,
        host: placement.nodes.first().map_or(Host::NONE, host_of),
        hosts: if placement.nodes.windows(2).all(|pair| host_of(&pair[0]) == host_of(&pair[1])) {
            Vec::new()
        } else {
            placement.nodes.iter().map(|place| (1, host_of(place))).collect()
        },
        exclusive: placement.exclusive,
        pods: placement.pods,
        cut: placement.cut,
    })
}

/// What is asked of one node of a gang.
struct Asked<'a> {
    gpus: u32,
    host: Host,
    filter: &'a Filter,
}

/// What is asked of the node at a position in rank order; components lie one behind the other.
fn asked_of(need: &Need, position: usize) -> Asked<'_> {
    let mut left = position;
    for component in &need.components {
        match left.checked_sub(component.nodes as usize) {
            Some(behind) => left = behind,
            None => {
                let filter = &component.filter;
                return Asked { gpus: component.gpus, host: component.host, filter };
            }
        }
    }
    Asked { gpus: need.gpus, host: need.host, filter: &need.filter }
}

fn node(seen: &Seen<'_>, need: &Need, own: &Asked<'_>, rails: RailSet, pick: Pick, flaws: &mut Vec<Flaw>) {
    let filter = own.filter;
    let Pick { node, gpus } = pick;
    if !seen.open {
        flaws.push(Flaw::Closed(node));
    }
    if seen.held.whole || (need.exclusive && seen.held != Allocated::default()) {
        flaws.push(Flaw::Shared(node));
    }
    if gpus.count_ones() != own.gpus || gpus & !seen.gpus != 0 || gpus & seen.held.gpus != 0 {
        flaws.push(Flaw::Gpus { node, gpus });
    }
    let drained = if filter.avoid_drained.is_some() { seen.traits.drained } else { RailSet::EMPTY };
    let lost = rails.without(seen.usable).or(rails.and(seen.held.rails)).or(rails.and(drained));
    if !lost.is_empty() {
        flaws.push(Flaw::NodeRails { node, rails: lost });
    }
    let labels = filter.selector.iter().all(|term| term.holds(&seen.traits.labels));
    let tolerated = seen.traits.taints.iter().all(|taint| {
        filter.tolerations.iter().any(|toleration| {
            toleration.key.as_ref().is_none_or(|key| *key == taint.key)
                && toleration.value.as_ref().is_none_or(|value| *value == taint.value)
        })
    });
    if !labels || !tolerated {
        flaws.push(Flaw::Filter(node));
    }
    let models = &filter.gpu_models;
    let kinds = &seen.traits.gpu_kinds;
    let parts = filter.whole_gpus && kinds.iter().any(|kind| kind.partition);
    let unfit = kinds.is_empty() || !kinds.iter().all(|kind| models.iter().any(|model| model.is(kind)));
    if if models.is_empty() { parts } else { unfit } {
        flaws.push(Flaw::GpuModel(node));
    }
    if filter.isolation.iter().any(|feature| !seen.traits.isolation.has(feature)) {
        flaws.push(Flaw::Isolation(node));
    }
    if need.bars(node) {
        flaws.push(Flaw::Excluded(node));
    }
}

fn host(seen: &Seen<'_>, own: &Asked<'_>, placed: Host, node: NodeIx, flaws: &mut Vec<Flaw>) {
    let held = seen.held.host;
    let cpus = placed.cpus == 0 || u64::from(held.cpus) + u64::from(placed.cpus) <= seen.host.cpus.into();
    let memory = placed.memory == 0
        || held.memory.checked_add(placed.memory).is_some_and(|memory| memory <= seen.host.memory);
    if placed != own.host || !cpus || !memory {
        flaws.push(Flaw::Host { node, host: placed });
    }
}

fn together(
    world: &impl World,
    choice: &Choice,
    first: usize,
    end: usize,
    within: Within,
    flaws: &mut Vec<Flaw>,
) {
    let end = end.min(choice.nodes.len());
    if within == Within::Fabric || first >= end {
        return;
    }
    let here = choice.nodes[first].node;
    let pod = |node: NodeIx| world.node(node).and_then(|seen| seen.pod);
    let same = |node: NodeIx| {
        pod(node) == pod(here)
            && (within == Within::Pod
                || choice.rails.iter().all(|rail| world.leaf(node, rail) == world.leaf(here, rail)))
    };
    if !choice.nodes[first + 1..end].iter().all(|pick| same(pick.node)) {
        flaws.push(Flaw::Apart { first, last: end - 1, within });
    }
}
