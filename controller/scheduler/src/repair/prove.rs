//! An independent proof of a repair: shares no code with its choice, and looks only at names, inventories and leaves.

use std::collections::BTreeSet;

use controller_topology::{NodeIx, RailSet};
use proto_model::{IsolationFeature, NodeName, NodePlace, Within};
use thiserror::Error;

use super::request::{FailureScope, RepairRequest, Repaired};
use crate::{capacity::Allocated, host::Host, place::Need, proof::World, snapshot::Snapshot};

/// What is wrong with a repair.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RepairFlaw {
    /// The gang has another size.
    #[error("nodes now: {now}, before: {before}")]
    Size {
        /// Nodes of the gang before the repair.
        before: usize,
        /// Nodes of the gang after the repair.
        now: usize,
    },
    /// A rank of a healthy node moved, or got other GPUs.
    #[error("rank {0} of a healthy node was touched")]
    Touched(u32),
    /// What was lost is still used.
    #[error("lost node '{0}' is still used")]
    Lost(NodeName),
    /// A node twice, or a node that is also a spare.
    #[error("node '{0}' is used twice")]
    Twice(NodeName),
    /// A replacement that is not free, or not what was asked for.
    #[error("node '{node}' cannot stand in: {why}")]
    Unfit {
        /// The node that was chosen as replacement.
        node: NodeName,
        /// What it lacks, or who holds it.
        why: &'static str,
    },
    /// A node is not on exactly the rails of the gang, or the rails are not a part of what they were.
    #[error("node '{0}' is not on exactly the gang's rails")]
    Rails(NodeName),
    /// The nodes do not reach one another.
    #[error("the gang is not aligned on rails {0}")]
    Misaligned(RailSet),
    /// The gang or a group is no longer in one place.
    #[error("ranks {first} to {last} are not in one place ({within:?})")]
    Apart {
        /// The first node, in rank order.
        first: usize,
        /// The last node, in rank order.
        last: usize,
        /// Where they should stay.
        within: Within,
    },
}

/// Proves a repair against the snapshot, in which the gang still holds all its nodes, the failed ones too.
///
/// # Errors
/// Every flaw.
pub fn prove_repair(
    snapshot: &Snapshot,
    request: &RepairRequest<'_>,
    repaired: &Repaired,
) -> Result<(), Vec<RepairFlaw>> {
    let (old, new) = (request.placement, &repaired.placement);
    let mut flaws = Vec::new();
    if (new.nodes.len(), new.ranks.len()) != (old.nodes.len(), old.ranks.len()) {
        flaws.push(RepairFlaw::Size { before: old.nodes.len(), now: new.nodes.len() });
        return Err(flaws);
    }
    let rails: RailSet = new.rails.iter().copied().collect();
    let was: RailSet = old.rails.iter().copied().collect();
    let lost = |name: &NodeName| match request.lost.get(name) {
        None => false,
        Some(FailureScope::Node) => true,
        Some(FailureScope::Rails(gone)) => !gone.and(rails).is_empty(),
    };
    let mut swapped = BTreeSet::new();
    for (at, (before, now)) in old.nodes.iter().zip(&new.nodes).enumerate() {
        if lost(&now.node) {
            flaws.push(RepairFlaw::Lost(now.node.clone()));
        }
        if before.node != now.node {
            swapped.insert(&now.node);
            fit(snapshot, request, rails, (now, &request.need.at(at)), &mut flaws);
        }
        if !now.nics.iter().map(|nic| nic.rail).eq(rails.iter()) || !was.covers(rails) {
            flaws.push(RepairFlaw::Rails(now.node.clone()));
        }
    }
    for (before, now) in old.ranks.iter().zip(&new.ranks) {
        let moved = (before.rank, before.local_rank) != (now.rank, now.local_rank);
        let same = before.node == now.node && before.gpus == now.gpus;
        if moved || (!same && !lost(&before.node)) {
            flaws.push(RepairFlaw::Touched(before.rank));
        }
    }
    let topology = snapshot.topology();
    let nodes: Vec<Option<NodeIx>> = new.nodes.iter().map(|place| topology.index(&place.node)).collect();
    let spares = new.spares.iter().map(|place| topology.index(&place.node));
    // By number, then by name for those that have none.
    let mut all: Vec<(Option<NodeIx>, &str)> = (nodes.iter().copied().chain(spares))
        .zip(new.nodes.iter().chain(&new.spares))
        .map(|(node, place)| (node, if node.is_some() { "" } else { place.node.as_str() }))
        .collect();
    all.sort_unstable();
    for (node, name) in all.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]) {
        let server = node.and_then(|node| topology.server(node)).map(|server| server.name.clone());
        flaws.extend(server.or_else(|| NodeName::new(name).ok()).map(RepairFlaw::Twice));
    }
    let known: Vec<NodeIx> = nodes.iter().flatten().copied().collect();
    // A gang that stays on all of its rails with what was not reported lost is as aligned as it was.
    if !swapped.is_empty() && !topology.aligned(&known, rails) {
        flaws.push(RepairFlaw::Misaligned(rails));
    }
    together(snapshot, request, rails, &nodes, &mut flaws);
    if flaws.is_empty() { Ok(()) } else { Err(flaws) }
}

fn fit(
    snapshot: &Snapshot,
    request: &RepairRequest<'_>,
    rails: RailSet,
    (place, need): (&NodePlace, &Need),
    flaws: &mut Vec<RepairFlaw>,
) {
    let mut wrong = |why| flaws.push(RepairFlaw::Unfit { node: place.node.clone(), why });
    let topology = snapshot.topology();
    let Some((ix, server)) = topology.index(&place.node).and_then(|ix| Some((ix, topology.server(ix)?)))
    else {
        wrong("it is not in the cluster");
        return;
    };
    let capacity = snapshot.capacity(ix);
    let spare = request.placement.spares.iter().find(|spare| spare.node == place.node);
    // What the job holds on its own spare does not stand in its way.
    let held = match spare {
        Some(spare) => capacity.held.without(Allocated::of(spare, request.placement.exclusive)),
        None => capacity.held,
    };
    let gpus = place.gpus.iter().filter(|gpu| **gpu < 64).fold(0_u64, |set, gpu| set | 1 << gpu);
    if !capacity.gate.is_open() {
        wrong("it takes no new jobs");
    }
    if gpus.count_ones() != need.gpus || gpus & !capacity.gpus != 0 || gpus & held.gpus != 0 {
        wrong("its GPUs are not free, or not as many as were asked for");
    }
    let host = Host { cpus: place.cpus, memory: place.memory_bytes };
    if host != need.host || !capacity.host.without(held.host).covers(host) {
        wrong("its CPUs or its memory are not free, or not as much as was asked for");
    }
    if !server.usable.covers(rails) || !held.rails.and(rails).is_empty() {
        wrong("a rail of the gang is down or held there");
    }
    if held.whole || (need.exclusive && held != Allocated::default()) {
        wrong("one of two jobs wants it alone");
    }
    let allowed = if spare.is_some() { request.sources.spares } else { request.sources.free };
    if !allowed {
        wrong("the job does not let such nodes stand in");
    }
    if spare.is_none() && (request.kept.has(ix) || need.bars(ix)) {
        wrong("it is kept for others, or excluded");
    }
    let traits = World::node(snapshot, ix).map(|seen| seen.traits);
    let admitted = traits.is_some_and(|traits| {
        need.filter.selector.iter().all(|term| term.holds(&traits.labels))
            && traits.taints.iter().all(|taint| need.filter.tolerations.iter().any(|t| t.covers(taint)))
            && traits.gpu_kinds.iter().all(|kind| {
                let models = &need.filter.gpu_models;
                let any = models.is_empty() && !(need.filter.whole_gpus && kind.partition);
                any || models.iter().any(|model| model.is(kind))
            })
    });
    if spare.is_none() && !admitted {
        wrong("its labels, its taints or its GPUs' model do not fit");
    }
    let gives = |feature| traits.is_some_and(|traits| traits.isolation.has(feature));
    if need.filter.isolation.iter().any(|feature| !gives(feature)) {
        wrong("it does not give the isolation that the job must have");
    }
    let others = need.tenant.as_ref().is_some_and(|tenant| World::has_others(snapshot, ix, tenant));
    if others && !gives(IsolationFeature::UidPerAttempt) {
        wrong("it runs another tenant's job and cannot keep the two apart");
    }
}

fn together(
    snapshot: &Snapshot,
    request: &RepairRequest<'_>,
    rails: RailSet,
    nodes: &[Option<NodeIx>],
    flaws: &mut Vec<RepairFlaw>,
) {
    let pod = |node: NodeIx| snapshot.topology().server(node).and_then(|server| server.pod);
    let leaf = |node: NodeIx, rail: u32| World::leaf(snapshot, node, rail);
    let leaves = |a: NodeIx, b: NodeIx| rails.iter().all(|rail| leaf(a, rail) == leaf(b, rail));
    let groups = request.need.groups.iter().filter(|group| group.required && group.size > 0);
    let groups = groups.map(|group| (group.size as usize, group.within));
    for (size, within) in groups.chain([(nodes.len().max(1), request.need.within)]) {
        for (at, group) in nodes.chunks(size).enumerate() {
            let group: Vec<NodeIx> = group.iter().flatten().copied().collect();
            let same = match within {
                Within::Fabric => true,
                Within::Pod => group.windows(2).all(|pair| pod(pair[0]) == pod(pair[1])),
                Within::Leaves => {
                    group.windows(2).all(|pair| pod(pair[0]) == pod(pair[1]) && leaves(pair[0], pair[1]))
                }
            };
            if !same {
                let first = at * size;
                flaws.push(RepairFlaw::Apart { first, last: first + size - 1, within });
            }
        }
    }
}
