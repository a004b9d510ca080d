//! Gangs whose nodes are not all alike: each set of places is tried, and in it every node for every component.

use std::collections::{BTreeMap, BTreeSet};

use controller_topology::{NodeIx, RailSet};
use proto_model::IsolationFeature;

use crate::{
    capacity::Allocated,
    capacity_index::Filter,
    host::Host,
    place::{Need, Within},
    proof::{Seen, World},
};

/// A pod, and in it leaves, by number.
type Spot = (Option<u32>, Vec<Option<u32>>);

/// The fewest pods in which the gang has a place on some rails; `None` if it has none.
pub(super) fn fewest_pods(world: &impl World, nodes: &[NodeIx], need: &Need, rails: RailSet) -> Option<u32> {
    let mut spots: BTreeMap<Spot, Vec<Vec<bool>>> = BTreeMap::new();
    for node in nodes {
        let Some(seen) = world.node(*node) else { continue };
        let alone = !seen.traits.isolation.has(IsolationFeature::UidPerAttempt);
        let others = need.tenant.as_ref().is_some_and(|tenant| world.has_others(*node, tenant));
        if need.bars(*node) || alone && others {
            continue;
        }
        let components = need.components.iter();
        let could =
            components.map(|one| gives(&seen, need, (one.gpus, one.host, &one.filter), rails)).collect();
        let leaves = rails.iter().map(|rail| world.leaf(*node, rail)).collect();
        spots.entry((seen.pod, leaves)).or_default().push(could);
    }
    let spots: Vec<(Spot, Vec<Vec<bool>>)> = spots.into_iter().collect();
    let sets = 1..1_u32 << spots.len();
    let room = |set: &u32| {
        let here = || spots.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1).map(|(_, spot)| spot);
        let pods: BTreeSet<Option<u32>> = here().map(|((pod, _), _)| *pod).collect();
        let near = match need.within {
            Within::Fabric => true,
            Within::Pod => pods.len() == 1,
            Within::Leaves => here().count() == 1,
        };
        let nodes: Vec<&Vec<bool>> = here().flat_map(|(_, nodes)| nodes).collect();
        (near && fits(&nodes, need)).then(|| u32::try_from(pods.len()).unwrap_or(u32::MAX))
    };
    sets.filter_map(|set| room(&set)).min()
}

/// Whether every seat of every component gets a node of its own: each seat looks for one, and who has one makes room if it can (Kuhn 1955).
fn fits(nodes: &[&Vec<bool>], need: &Need) -> bool {
    let seats = need.components.iter().enumerate();
    let seats: Vec<usize> = seats.flat_map(|(at, one)| std::iter::repeat_n(at, one.nodes as usize)).collect();
    let mut sits: Vec<Option<usize>> = vec![None; nodes.len()];
    (0..seats.len()).all(|seat| seat_down(seat, &seats, nodes, &mut sits, &mut vec![false; nodes.len()]))
}

fn seat_down(
    seat: usize,
    seats: &[usize],
    nodes: &[&Vec<bool>],
    sits: &mut [Option<usize>],
    seen: &mut [bool],
) -> bool {
    for at in 0..nodes.len() {
        if !nodes[at][seats[seat]] || std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let free = match sits[at] {
            None => true,
            Some(other) => seat_down(other, seats, nodes, sits, seen),
        };
        if free {
            sits[at] = Some(seat);
            return true;
        }
    }
    false
}

/// Whether a node has what is asked of each: GPUs, CPUs and memory, and what the filter says.
pub(crate) fn gives(
    seen: &Seen<'_>,
    need: &Need,
    (gpus, host, filter): (u32, Host, &Filter),
    rails: RailSet,
) -> bool {
    let tolerated = |taint: &proto_model::Taint| {
        filter.tolerations.iter().any(|toleration| {
            toleration.key.as_ref().is_none_or(|key| *key == taint.key)
                && toleration.value.as_ref().is_none_or(|value| *value == taint.value)
        })
    };
    seen.open
        && !seen.held.whole
        && !(need.exclusive && seen.held != Allocated::default())
        && (seen.gpus & !seen.held.gpus).count_ones() >= gpus
        && (host.cpus == 0 || seen.held.host.cpus + host.cpus <= seen.host.cpus)
        && (host.memory == 0 || seen.held.host.memory + host.memory <= seen.host.memory)
        && rails.iter().all(|rail| seen.usable.has(rail) && !seen.held.rails.has(rail))
        && (filter.avoid_drained.is_none() || rails.iter().all(|rail| !seen.traits.drained.has(rail)))
        && filter.selector.iter().all(|term| term.holds(&seen.traits.labels))
        && seen.traits.taints.iter().all(tolerated)
        && of_models(seen, filter)
        && filter.isolation.iter().all(|feature| seen.traits.isolation.has(feature))
}

/// Whether all GPUs are of models that will do, and there are some; without models, whether all are whole where that is asked for.
pub(crate) fn of_models(seen: &Seen<'_>, filter: &Filter) -> bool {
    let kinds = &seen.traits.gpu_kinds;
    if filter.gpu_models.is_empty() {
        return !(filter.whole_gpus && kinds.iter().any(|kind| kind.partition));
    }
    let right = kinds.iter().filter(|kind| filter.gpu_models.iter().any(|model| model.is(kind))).count();
    !kinds.is_empty() && right == kinds.len()
}
