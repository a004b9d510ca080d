//! An independent proof of a placement: shares no code with the choice, looks only at inventories, document and holds.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{
    Inventory, IsolationFeature, IsolationSet, JobSpec, NodeName, NodePlace, NodeShape, Placement, TenantName,
};
use thiserror::Error;

use crate::{host::Host, snapshot::Snapshot};

/// What is wrong with a placement.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Violation {
    /// Not the whole gang, or more than it.
    #[error("nodes placed: {placed}, asked for: {asked}")]
    Gang {
        /// Nodes of the placement, without spares.
        placed: usize,
        /// Nodes that the job asks for.
        asked: usize,
    },
    /// Not as many idle nodes as were asked for.
    #[error("spare nodes placed: {placed}, asked for: {asked}")]
    Spares {
        /// Spare nodes of the placement.
        placed: usize,
        /// Spare nodes that the job asks for.
        asked: usize,
    },
    /// One of two jobs wants the node alone.
    #[error("node '{0}' would be shared against the will of a job")]
    Shared(NodeName),
    /// Another tenant's job is there, and the node has no user for each attempt.
    #[error("node '{0}' runs another tenant's job and cannot keep the two apart")]
    Tenants(NodeName),
    /// Less isolation than the job must have.
    #[error("node '{node}' does not give {missing}, which the job must have")]
    Isolation {
        /// The node that gives less.
        node: NodeName,
        /// The isolation that the job must have and the node does not give.
        missing: IsolationSet,
    },
    /// A node is in the placement twice.
    #[error("node '{0}' is placed twice")]
    NodeTwice(NodeName),
    /// The placement names a node that is not in the cluster.
    #[error("node '{0}' is not in the cluster")]
    NodeUnknown(NodeName),
    /// The node takes no jobs.
    #[error("node '{0}' takes no new jobs")]
    NodeClosed(NodeName),
    /// Not the number of GPUs that was asked for.
    #[error("distinct GPUs of node '{node}': {placed}, asked for: {asked}")]
    GpuCount {
        /// The node with the wrong number of GPUs.
        node: NodeName,
        /// Different GPUs that the placement has on the node.
        placed: usize,
        /// GPUs that the job asks for on each node.
        asked: usize,
    },
    /// A GPU that the node does not have.
    #[error("node '{0}' has no GPU {1}")]
    GpuUnknown(NodeName, u32),
    /// A GPU that is of none of the models that will do.
    #[error("GPU {gpu} of node '{node}' is of model '{model}', which the job does not ask for")]
    GpuModel {
        /// The node of the GPU.
        node: NodeName,
        /// The GPU, by its index on the node.
        gpu: u32,
        /// What its driver calls it.
        model: String,
    },
    /// A GPU that a job holds.
    #[error("GPU {1} of node '{0}' is held by another job")]
    GpuHeld(NodeName, u32),
    /// Not the CPUs that were asked for, or more than other jobs leave.
    #[error(
        "CPUs of node '{node}': {placed} placed, {asked} asked for, {held} of {total} held by other jobs"
    )]
    Cpus {
        /// The node whose CPUs are wrong.
        node: NodeName,
        /// CPUs that the placement takes on the node.
        placed: u32,
        /// CPUs that the job asks for on each node.
        asked: u32,
        /// CPUs of the node that other jobs hold.
        held: u32,
        /// What the node has.
        total: u32,
    },
    /// Not the memory that was asked for, or more than other jobs leave; in bytes.
    #[error(
        "memory of node '{node}': {placed} placed, {asked} asked for, {held} of {total} held by other jobs"
    )]
    Memory {
        /// The node whose memory is wrong.
        node: NodeName,
        /// Bytes that the placement takes on the node.
        placed: u64,
        /// Bytes that the job asks for on each node.
        asked: u64,
        /// Bytes of the node that other jobs hold.
        held: u64,
        /// What the node has.
        total: u64,
    },
    /// Not the rails that were asked for.
    #[error("rails {placed:?} are placed: {why}")]
    Rails {
        /// The rails of the placement, by number.
        placed: Vec<u32>,
        /// What would be right.
        why: &'static str,
    },
    /// A node is not on exactly the rails of the gang.
    #[error("node '{0}' is not on exactly the rails of the gang")]
    Misaligned(NodeName),
    /// A NIC that the node does not have, or of another rail, or down, or without a cable in the document.
    #[error("NIC {1} of node '{0}' cannot serve rail {2}")]
    NicUnusable(NodeName, String, u32),
    /// A NIC that a job holds.
    #[error("the NIC of rail {1} of node '{0}' is held by another job")]
    NicHeld(NodeName, u32),
    /// The rank map does not fit the gang.
    #[error("rank {rank}: {why}")]
    Ranks {
        /// The rank whose entry in the rank map is wrong.
        rank: u32,
        /// What is wrong with the rank's entry.
        why: &'static str,
    },
    /// The number of pods is wrong.
    #[error("pods said: {said}, used: {counted}")]
    Pods {
        /// Pods as the placement counts them.
        said: u32,
        /// Pods that the nodes of the placement are in.
        counted: usize,
    },
    /// More than the tenant may hold.
    #[error("tenant '{tenant}' would hold {would} GPUs of {quota}")]
    Quota {
        /// The tenant whose quota is exceeded.
        tenant: TenantName,
        /// GPUs that the tenant would hold with this placement.
        would: u64,
        /// GPUs that the tenant may hold.
        quota: u32,
    },
}

/// Proves a placement against the snapshot as it is before the placement is held.
///
/// # Errors
/// Every violation.
pub fn check_placement(
    snapshot: &Snapshot,
    tenant: &TenantName,
    spec: &JobSpec,
    placement: &Placement,
) -> Result<(), Vec<Violation>> {
    let mut found = Vec::new();
    let (asked, least) = (spec.gang.nodes as usize, spec.gang.min_nodes.min(spec.gang.nodes) as usize);
    if placement.nodes.len() > asked || placement.nodes.len() < least.max(1) {
        found.push(Violation::Gang { placed: placement.nodes.len(), asked });
    }
    // After a repair there are fewer.
    let asked = spec.placement.spares as usize;
    if placement.spares.len() > asked {
        found.push(Violation::Spares { placed: placement.spares.len(), asked });
    }
    if placement.exclusive != spec.placement.exclusive {
        found.extend(placement.nodes.first().map(|place| Violation::Shared(place.node.clone())));
    }
    rails(snapshot, spec, placement, &mut found);
    let mut seen = BTreeSet::new();
    let mut pods = BTreeSet::new();
    for (position, place) in (0..).zip(&placement.nodes) {
        if !seen.insert(&place.node) {
            found.push(Violation::NodeTwice(place.node.clone()));
        }
        pods.insert(place.pod.as_str());
        node(snapshot, spec, placement, (place, spec.shape_at(position)), &mut found);
        isolated(snapshot, tenant, place, &mut found);
    }
    for place in &placement.spares {
        if !seen.insert(&place.node) {
            found.push(Violation::NodeTwice(place.node.clone()));
        }
        node(snapshot, spec, placement, (place, spec.shape_at(0)), &mut found);
        isolated(snapshot, tenant, place, &mut found);
    }
    if pods.len() != placement.pods as usize {
        found.push(Violation::Pods { said: placement.pods, counted: pods.len() });
    }
    ranks(spec, placement, &mut found);
    let used = snapshot.tenant(tenant);
    let places = placement.nodes.iter().chain(&placement.spares);
    let would = used.held + places.map(|place| place.gpus.len() as u64).sum::<u64>();
    let quota = used.quota.unwrap_or(0);
    if would > u64::from(quota) && would > used.held {
        found.push(Violation::Quota { tenant: tenant.clone(), would, quota });
    }
    if found.is_empty() { Ok(()) } else { Err(found) }
}

fn rails(snapshot: &Snapshot, spec: &JobSpec, placement: &Placement, found: &mut Vec<Violation>) {
    let all = snapshot.topology().rails();
    let required = match spec.rails.required {
        _ if spec.rails.none => 0,
        0 => all,
        required => required,
    };
    let mut wrong = |why| found.push(Violation::Rails { placed: placement.rails.clone(), why });
    if !placement.rails.is_sorted_by(|a, b| a < b) {
        wrong("they must ascend");
    }
    // A gang that lost a rail and may do with fewer goes on with what all its nodes have.
    let least = if placement.repaired && spec.rails.allow_partial { required.min(1) } else { required };
    if placement.rails.len() > required as usize || placement.rails.len() < least as usize {
        wrong("not as many as were asked for");
    }
    if placement.rails.iter().any(|rail| *rail >= all) {
        wrong("the fabric does not have them all");
    }
    if !spec.rails.allow_partial && !placement.rails.iter().copied().eq(0..required) {
        wrong("without allowPartial they must be the first ones");
    }
}

fn node(
    snapshot: &Snapshot,
    spec: &JobSpec,
    placement: &Placement,
    (place, shape): (&NodePlace, NodeShape<'_>),
    found: &mut Vec<Violation>,
) {
    let name = &place.node;
    let topology = snapshot.topology();
    let Some((ix, server)) = topology.index(name).and_then(|ix| Some((ix, topology.server(ix)?))) else {
        found.push(Violation::NodeUnknown(name.clone()));
        return;
    };
    if !snapshot.capacity(ix).gate.is_open() {
        found.push(Violation::NodeClosed(name.clone()));
    }
    let held = snapshot.held(name);
    let others = held.gpus != 0 || !held.rails.is_empty() || held.host.cpus > 0 || held.host.memory > 0;
    if held.whole || (spec.placement.exclusive && others) {
        found.push(Violation::Shared(name.clone()));
    }
    host(shape, place, &server.inventory, held.host, found);
    let distinct: BTreeSet<u32> = place.gpus.iter().copied().collect();
    let asked = shape.gpus as usize;
    if distinct.len() != asked || place.gpus.len() != asked {
        found.push(Violation::GpuCount { node: name.clone(), placed: distinct.len(), asked });
    }
    let models = shape.gpu_models;
    for gpu in server.inventory.gpus.iter().filter(|gpu| distinct.contains(&gpu.index)) {
        let kind = gpu.kind();
        let whole = models.is_empty() && !kind.partition;
        if !whole && !models.iter().any(|model| model.is(&kind)) {
            let (node, gpu, model) = (name.clone(), gpu.index, gpu.model.clone());
            found.push(Violation::GpuModel { node, gpu, model });
        }
    }
    for gpu in distinct {
        if !server.inventory.gpus.iter().any(|have| have.index == gpu) {
            found.push(Violation::GpuUnknown(name.clone(), gpu));
        } else if gpu >= 64 || held.gpus >> gpu & 1 == 1 {
            found.push(Violation::GpuHeld(name.clone(), gpu));
        }
    }
    if !place.nics.iter().map(|nic| nic.rail).eq(placement.rails.iter().copied()) {
        found.push(Violation::Misaligned(name.clone()));
    }
    for nic in &place.nics {
        // What was measured knows better on which of the job's rails a NIC is; still each is on one.
        let renamed = place.remapped && place.nics.iter().filter(|one| one.device == nic.device).count() == 1;
        let fits = server.inventory.nics.iter().any(|have| {
            have.device == nic.device
                && (have.rail == nic.rail || renamed && placement.rails.contains(&have.rail))
                && have.up
                && server.inventory.is_fit(&have.device)
                && have.address == nic.address
        });
        let cabled = !topology.has_document()
            || server.pod.is_some_and(|pod| topology.leaves_of(pod, nic.rail).any(|leaf| leaf == nic.leaf));
        if !fits || !cabled {
            found.push(Violation::NicUnusable(name.clone(), nic.device.clone(), nic.rail));
        }
        if held.rails.has(nic.rail) {
            found.push(Violation::NicHeld(name.clone(), nic.rail));
        }
    }
}

/// CPUs and memory, against what the server's agent reports and what other jobs hold of them.
fn host(shape: NodeShape<'_>, place: &NodePlace, have: &Inventory, held: Host, found: &mut Vec<Violation>) {
    let (placed, asked) = (place.cpus, shape.cpus);
    if placed != asked || placed > 0 && u64::from(held.cpus) + u64::from(placed) > have.cpus.into() {
        let (node, total) = (place.node.clone(), have.cpus);
        found.push(Violation::Cpus { node, placed, asked, held: held.cpus, total });
    }
    let (placed, asked) = (place.memory_bytes, shape.memory);
    if placed != asked || placed > 0 && held.memory.saturating_add(placed) > have.memory_bytes {
        let (node, total) = (place.node.clone(), have.memory_bytes);
        found.push(Violation::Memory { node, placed, asked, held: held.memory, total });
    }
}

/// What the server's agent says now, against what is demanded and who is there.
fn isolated(snapshot: &Snapshot, tenant: &TenantName, place: &NodePlace, found: &mut Vec<Violation>) {
    let topology = snapshot.topology();
    let Some((ix, server)) = topology.index(&place.node).and_then(|ix| Some((ix, topology.server(ix)?)))
    else {
        return;
    };
    let states = server.inventory.isolation.states();
    let gives = |wanted: IsolationFeature| states.iter().any(|state| state.feature == wanted && state.active);
    let demanded = snapshot.tenant(tenant).isolation.demands();
    let missing: IsolationSet = demanded.iter().filter(|feature| !gives(*feature)).collect();
    if !missing.is_empty() {
        found.push(Violation::Isolation { node: place.node.clone(), missing });
    }
    let others = snapshot.capacity_index().tenants_on(ix).keys().any(|other| *other != tenant);
    if others && !gives(IsolationFeature::UidPerAttempt) {
        found.push(Violation::Tenants(place.node.clone()));
    }
}

fn ranks(spec: &JobSpec, placement: &Placement, found: &mut Vec<Violation>) {
    let nodes: BTreeMap<&NodeName, (usize, &NodePlace)> =
        placement.nodes.iter().enumerate().map(|(at, place)| (&place.node, (at, place))).collect();
    // Of each rank the node that it should be on, and its number there.
    let seats = (0..placement.nodes.len()).flat_map(|node| {
        let ranks = spec.shape_at(u32::try_from(node).unwrap_or(u32::MAX)).ranks.max(1);
        (0..ranks).map(move |local| (node, local))
    });
    let seats: Vec<(usize, u32)> = seats.collect();
    if placement.ranks.len() != seats.len() {
        let rank = u32::try_from(placement.ranks.len()).unwrap_or(u32::MAX);
        found.push(Violation::Ranks { rank, why: "the number of ranks is not nodes x ranks per node" });
    }
    for (at, rank) in placement.ranks.iter().enumerate() {
        let mut wrong = |why| found.push(Violation::Ranks { rank: rank.rank, why });
        let seat = seats.get(at).copied();
        let Some((index, place)) = nodes.get(&rank.node) else {
            wrong("its node is not in the gang");
            continue;
        };
        if rank.rank as usize != at || seat != Some((*index, rank.local_rank)) {
            wrong("ranks are not in the order of the nodes");
        }
        if rank.gpus.iter().any(|gpu| !place.gpus.contains(gpu)) {
            wrong("it has a GPU that the job does not hold on its node");
        }
        let nic = place
            .nics
            .iter()
            .any(|nic| nic.device == rank.nic && nic.rail == rank.rail && nic.leaf == rank.leaf);
        let none = placement.rails.is_empty() && rank.nic.is_empty();
        if !(nic || none) {
            wrong("its NIC is not one that the job holds on its node");
        }
    }
}
