//! Gangs whose nodes are not all alike: each set of places is tried, and in it every node for every component.

use std::collections::{BTreeMap, BTreeSet};

use controller_topology::{NodeIx, RailSet};
use proto_model::IsolationFeature;

use super::gives;
use crate::{
    place::{Need, Within},
    proof::World,
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
