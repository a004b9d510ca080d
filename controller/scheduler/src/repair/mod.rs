//! Which nodes take the place of those that failed: the healthy ranks stay where they are.
//!
//! Contracts:
//! 1. Every rank of a healthy node keeps its node, GPUs and number. A replacement takes over the ranks of the node that
//!    it replaces.
//! 2. The job's own spares first, then free nodes. Among those the choice that adds the fewest pods, then the one with
//!    the least weighted cut: a node of the same leaves cuts nothing more. Exact up to [`CHECKS`] partial choices, then
//!    the best that was found.
//! 3. What the gang asked for holds again: rails, GPUs, filter, `within` and required groups. [`prove_repair`] shares no
//!    code with the choice, and every repair is proved before it is given back.
//! 4. Where it cannot be done, every reason is given, and the next best: the gang on fewer rails.

mod assign;
mod gang;
mod prove;
mod request;
mod stock;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use assign::{Assigned, Seats};
use controller_topology::RailSet;
use gang::{Gang, Known};
use proto_model::{NodePlace, Placement, RankPlace, Reason, ReasonCode};
use stock::Stock;

use crate::{
    capacity_index::Pick,
    place::{Need, Placer},
    rankmap,
    snapshot::Snapshot,
};

pub use assign::CHECKS;
pub use prove::{RepairFlaw, prove_repair};
pub use request::{FailureScope, Irreparable, RepairRequest, Repaired, Sources, Swap};

/// Replaces what a gang has lost.
///
/// # Errors
/// [`Irreparable`] says why it cannot be done on all of its rails, and what can be done.
pub fn repair(
    snapshot: &Snapshot,
    placer: &mut Placer,
    request: &RepairRequest<'_>,
) -> Result<Repaired, Box<Irreparable>> {
    let rails: RailSet = request.placement.rails.iter().copied().collect();
    let known = Known::of(snapshot, request);
    match remediate(snapshot, placer, request, &known, rails) {
        Ok(repaired) => Ok(repaired),
        Err(reasons) => {
            let fewer_rails = fewer(snapshot, placer, request, &known, rails).map(Box::new);
            Err(Box::new(Irreparable { reasons, fewer_rails }))
        }
    }
}

/// The gang on fewer rails: without those that were lost where that moves nobody and is one, else without the one that
/// is best done without, else without all that were lost.
fn fewer(
    snapshot: &Snapshot,
    placer: &mut Placer,
    request: &RepairRequest<'_>,
    known: &Known,
    rails: RailSet,
) -> Option<Repaired> {
    let lost = known.nodes.iter().fold(RailSet::EMPTY, |set, (_, loss)| match loss {
        None | Some(FailureScope::Node) => set,
        Some(FailureScope::Rails(rails)) => set.or(*rails),
    });
    let lost = lost.and(rails);
    let less = |dropped: RailSet| closed(snapshot, request, rails.without(dropped));
    // A gang of several nodes needs a rail.
    let enough = |rails: RailSet| request.placement.nodes.len() < 2 || !rails.is_empty();
    let mut all = None;
    if !lost.is_empty() && enough(less(lost)) {
        all = remediate(snapshot, placer, request, known, less(lost)).ok();
        if all.as_ref().is_some_and(|all| lost.len() == 1 && all.swaps.is_empty()) {
            return all;
        }
    }
    let one_less = rails.iter().map(|rail| less(RailSet::EMPTY.with(rail))).filter(|less| enough(*less));
    let mut best: Option<((usize, u32, u64), Repaired)> = None;
    for less in one_less {
        if let Ok(repaired) = remediate(snapshot, placer, request, known, less) {
            let key = (repaired.swaps.len(), repaired.placement.pods, repaired.placement.cut);
            if best.as_ref().is_none_or(|(least, _)| key < *least) {
                best = Some((key, repaired));
            }
        }
    }
    best.map(|(_, repaired)| repaired).or(all)
}

/// Those of some rails with which every node of the gang whose NICs were found on each other's rails keeps whole what was swapped: a
/// NIC that the job keeps under one name must not be free for others under another.
fn closed(snapshot: &Snapshot, request: &RepairRequest<'_>, mut rails: RailSet) -> RailSet {
    let topology = snapshot.topology();
    let server = |place: &NodePlace| topology.index(&place.node).and_then(|ix| topology.server(ix));
    let remapped = request.placement.nodes.iter().filter(|place| place.remapped);
    let mut names: Vec<RailSet> = Vec::new();
    for (place, server) in remapped.filter_map(|place| Some((place, server(place)?))) {
        for nic in &place.nics {
            let own = server.inventory.nics.iter().find(|own| own.device == nic.device);
            names.extend(own.map(|own| RailSet::EMPTY.with(own.rail).with(nic.rail)));
        }
    }
    while let Some(torn) = names.iter().find(|pair| !rails.covers(**pair) && !rails.and(**pair).is_empty()) {
        rails = rails.without(*torn);
    }
    rails
}

/// The names that a healthy node's NICs have in its job.
fn rename(place: &mut NodePlace, ranks: &mut [RankPlace], before: &NodePlace) {
    for nic in &mut place.nics {
        if let Some(named) = before.nics.iter().find(|named| named.device == nic.device) {
            place.remapped |= nic.rail != named.rail;
            (nic.rail, nic.leaf) = (named.rail, named.leaf.clone());
        }
    }
    place.nics.sort_by_key(|nic| nic.rail);
    for rank in ranks {
        if let Some(nic) = place.nics.iter().find(|nic| nic.device == rank.nic) {
            (rank.rail, rank.leaf) = (nic.rail, nic.leaf.clone());
        }
    }
}

/// Replaces what was lost, on these rails.
fn remediate(
    snapshot: &Snapshot,
    placer: &mut Placer,
    request: &RepairRequest<'_>,
    known: &Known,
    rails: RailSet,
) -> Result<Repaired, Vec<Reason>> {
    let gang = Gang::of(snapshot, request, known, rails)?;
    if let Some(reason) = several_components(request.need, &gang.open) {
        return Err(vec![reason]);
    }
    let stock = Stock::of(snapshot, placer, request, rails, &gang);
    let seats = Seats::of(snapshot.capacity_index(), request.need, &gang);
    let Some(assigned) = assign::assign(snapshot.capacity_index(), seats, &stock, rails) else {
        return Err(stock.reasons(snapshot, request, &gang));
    };
    let repaired = gang.with(snapshot, request, rails, &assigned, &stock);
    match prove_repair(snapshot, request, &repaired) {
        Ok(()) => Ok(repaired),
        Err(flaws) => {
            let text: Vec<String> = flaws.iter().map(ToString::to_string).collect();
            let message = format!("a replacement was found and refused by its proof: {}", text.join("; "));
            Err(vec![Reason::new(ReasonCode::RepairUnproved, message).count(flaws.len())])
        }
    }
}

impl Gang {
    /// The new placement: only what was lost differs.
    fn with(
        &self,
        snapshot: &Snapshot,
        request: &RepairRequest<'_>,
        rails: RailSet,
        assigned: &Assigned,
        stock: &Stock,
    ) -> Repaired {
        let topology = snapshot.topology();
        let old: RailSet = request.placement.rails.iter().copied().collect();
        let mut placement = Placement { repaired: true, ..request.placement.clone() };
        let mut swaps = Vec::new();
        placement.rails.retain(|rail| rails.has(*rail));
        (placement.pods, placement.cut) = (assigned.pods, assigned.cut);
        let fresh: BTreeMap<usize, Pick> =
            self.open.iter().copied().zip(assigned.picks.iter().map(|taken| stock.pick(*taken))).collect();
        // Whoever takes a place takes over the ranks there.
        let ranks: Vec<std::ops::Range<usize>> = ranks_by_node(request.placement);
        for at in 0..placement.nodes.len() {
            let new = fresh.get(&at).copied();
            // On other rails a healthy node's ranks may need another NIC; their node and GPUs stay.
            let Some(pick) = new.or(if rails == old { None } else { self.seats[at].0 }) else { continue };
            let host = request.need.component_at(at).map_or(request.need.host, |component| component.host);
            let Some(mut place) = rankmap::node(topology, pick, rails, host) else { continue };
            let position = u32::try_from(at).unwrap_or(u32::MAX);
            let own = ranks.get(at).cloned().unwrap_or(0..0);
            let (first, count) = (own.start, u32::try_from(own.len()).unwrap_or(u32::MAX));
            let first = u32::try_from(first).unwrap_or(u32::MAX);
            let mut ranks = rankmap::ranks_of(topology, pick, rails, count, first);
            if new.is_none() && placement.nodes[at].remapped {
                rename(&mut place, &mut ranks, &placement.nodes[at]);
            }
            if let Some(slots) = placement.ranks.get_mut(own)
                && slots.len() == ranks.len()
            {
                slots.clone_from_slice(&ranks);
            }
            let before = std::mem::replace(&mut placement.nodes[at], place);
            if new.is_some() {
                let (old, new) = (before.node, placement.nodes[at].node.clone());
                let spare = request.placement.spares.iter().any(|spare| spare.node == new);
                swaps.push(Swap { position, old, new, spare });
            }
        }
        let gone = |place: &NodePlace| {
            self.spares_lost.contains(&place.node) || swaps.iter().any(|swap| swap.new == place.node)
        };
        placement.spares.retain(|place| !gone(place));
        for spare in &mut placement.spares {
            spare.nics.retain(|nic| rails.has(nic.rail));
        }
        Repaired {
            placement,
            swaps,
            spares_lost: self.spares_lost.clone(),
            rails_dropped: old.without(rails),
        }
    }
}

/// Of each node of a gang, in rank order, where its ranks stand.
fn ranks_by_node(placement: &Placement) -> Vec<std::ops::Range<usize>> {
    let mut end = 0;
    let runs = placement.ranks.chunk_by(|a, b| a.node == b.node);
    runs.map(|run| {
        let start = end;
        end += run.len();
        start..end
    })
    .collect()
}

/// Why nodes of a gang of components cannot be replaced together: those of one component are, whatever the others are like.
fn several_components(need: &Need, open: &[usize]) -> Option<Reason> {
    let names: std::collections::BTreeSet<&str> =
        open.iter().filter_map(|at| Some(need.component_at(*at)?.name.as_str())).collect();
    (names.len() > 1).then(|| {
        let named = names.into_iter().collect::<Vec<_>>().join(", ");
        let message =
            format!("nodes of several components ({named}) are lost; those of one at a time are replaced");
        Reason::new(ReasonCode::RepairComponents, message).count(open.len())
    })
}
