//! Repairs by example, and against every way there is on small clusters.

use std::collections::{BTreeMap, BTreeSet};

use controller_topology::RailSet;
use proptest::prelude::*;
use proto_model::{CommandSpec, Gang, JobSpec, NodeName, Placement, TenantName, Work};

use super::{FailureScope, RepairRequest, Repaired, Sources, prove_repair, repair};
use crate::{
    Choice, Gate, Group, Need, NodeSet, Pattern, Pick, Placer, RailNeed, Snapshot, Within, World,
    rankmap::{self, placement},
    world::{self, inventory},
};

const RAILS: u32 = 3;

fn name(n: usize) -> NodeName {
    NodeName::new(format!("n{n:02}")).unwrap()
}

fn tenant() -> TenantName {
    TenantName::new("t").unwrap()
}

/// Node n stands in pod and block `places[n]`, has two GPUs, and the rails of `down[n]` are down.
fn cluster(places: &[(u8, u8)], down: &[u8]) -> Snapshot {
    let fabric = world::fabric(RAILS, places, name);
    let mut snapshot = Snapshot::new(Some(&fabric));
    for at in 0..places.len() {
        snapshot.set_node(
            &name(at),
            &inventory(2, 0b111, down.get(at).copied().unwrap_or(0)),
            Gate::default(),
        );
    }
    snapshot
}

fn spec(nodes: u32) -> JobSpec {
    let work = Work::Command(CommandSpec {
        argv: vec!["x".into()],
        env: BTreeMap::new(),
        env_from: Vec::new(),
        working_dir: String::new(),
    });
    JobSpec::new(Gang::new(nodes, 2, 2), work)
}

fn all() -> RailNeed {
    RailNeed::Exactly(RailSet::first(RAILS))
}

/// Places a gang and holds it.
fn place(snapshot: &mut Snapshot, need: &Need) -> Option<Placement> {
    let mut choice = Choice::default();
    if !Placer::default().choose(snapshot.capacity_index(), need, None, &mut choice) {
        return None;
    }
    let placement = placement(snapshot, &spec(need.nodes), &choice);
    snapshot.hold(&tenant(), &placement);
    Some(placement)
}

fn request<'a>(
    need: &'a Need,
    placement: &'a Placement,
    lost: &'a BTreeMap<NodeName, FailureScope>,
    sources: Sources,
    kept: &'a NodeSet,
) -> RepairRequest<'a> {
    RepairRequest { need, placement, lost, sources, kept }
}

const ANY: Sources = Sources { spares: true, free: true };
const SPARES: Sources = Sources { spares: true, free: false };

fn names(placement: &Placement) -> Vec<&str> {
    placement.nodes.iter().map(|place| place.node.as_str()).collect()
}

#[test]
fn a_spare_stands_in_and_nobody_else_moves() {
    let mut snapshot = cluster(&[(0, 0); 6], &[]);
    let need = Need { spares: 1, ..Need::plain(4, 2, all()) };
    let placed = place(&mut snapshot, &need).unwrap();
    assert_eq!((placed.nodes.len(), placed.spares.len()), (4, 1));
    let lost = [(placed.nodes[1].node.clone(), FailureScope::Node)].into();
    let kept = NodeSet::default();
    let request = request(&need, &placed, &lost, SPARES, &kept);
    let repaired = repair(&snapshot, &mut Placer::default(), &request).unwrap();
    assert_eq!(repaired.swaps.len(), 1);
    assert!(repaired.swaps[0].spare && repaired.placement.spares.is_empty());
    assert_eq!(repaired.placement.nodes[1].node, placed.spares[0].node);
    let ranks: Vec<u32> = repaired.placement.ranks.iter().map(|rank| rank.rank).collect();
    assert_eq!(ranks, (0..8).collect::<Vec<_>>());
    for at in [0, 2, 3] {
        assert_eq!(repaired.placement.nodes[at], placed.nodes[at]);
    }
    // A second one finds no spare; from the free node it would.
    let second: BTreeMap<_, _> =
        placed.nodes[..2].iter().map(|place| (place.node.clone(), FailureScope::Node)).collect();
    let request = RepairRequest { lost: &second, ..request };
    let refused = repair(&snapshot, &mut Placer::default(), &request).unwrap_err();
    assert!(refused.reasons[0].message.contains("1 of its spares"), "{:?}", refused.reasons);
    let healed =
        repair(&snapshot, &mut Placer::default(), &RepairRequest { sources: ANY, ..request }).unwrap();
    assert_eq!(healed.swaps.iter().filter(|swap| swap.spare).count(), 1);
}

#[test]
fn the_same_leaves_then_the_same_pod_then_another() {
    // Two blocks in pod 0, one in pod 1.
    let places = [(0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (1, 0), (1, 0)];
    let mut snapshot = cluster(&places, &[]);
    let need = Need::plain(3, 2, all());
    let placed = place(&mut snapshot, &need).unwrap();
    assert_eq!(names(&placed), ["n00", "n01", "n02"]);
    let lost = [(name(1), FailureScope::Node)].into();
    let kept = NodeSet::default();
    let near =
        repair(&snapshot, &mut Placer::default(), &request(&need, &placed, &lost, ANY, &kept)).unwrap();
    assert_eq!((names(&near.placement), near.placement.cut), (vec!["n00", "n03", "n02"], 2));
    let kept: NodeSet = [3, 4].into_iter().map(|at| snapshot.topology().index(&name(at)).unwrap()).collect();
    let far = repair(&snapshot, &mut Placer::default(), &request(&need, &placed, &lost, ANY, &kept)).unwrap();
    assert_eq!((names(&far.placement), far.placement.pods), (vec!["n00", "n05", "n02"], 2));
    let inside = Need { within: Within::Pod, ..need };
    let refused = repair(&snapshot, &mut Placer::default(), &request(&inside, &placed, &lost, ANY, &kept));
    let codes: Vec<String> =
        refused.unwrap_err().reasons.iter().map(|reason| reason.code.to_string()).collect();
    assert!(codes.contains(&"RepairPlace".to_owned()), "{codes:?}");
}

#[test]
fn a_lost_rail_is_moved_away_from_or_done_without() {
    let mut snapshot = cluster(&[(0, 0); 3], &[]);
    let need = Need::plain(3, 2, all());
    let placed = place(&mut snapshot, &need).unwrap();
    let lost = [(name(1), FailureScope::Rails([1].into_iter().collect()))].into();
    let kept = NodeSet::default();
    let refused = repair(&snapshot, &mut Placer::default(), &request(&need, &placed, &lost, ANY, &kept));
    let fewer = refused.unwrap_err().fewer_rails.unwrap();
    assert_eq!((fewer.placement.rails.as_slice(), fewer.swaps.len()), ([0, 2].as_slice(), 0));
    assert!(fewer.placement.nodes.iter().all(|place| place.nics.len() == 2));
    assert_eq!(fewer.rails_dropped, [1].into_iter().collect());
    // With a node that has all rails free, the gang moves there.
    let mut snapshot = cluster(&[(0, 0); 4], &[]);
    let placed = place(&mut snapshot, &need).unwrap();
    let moved =
        repair(&snapshot, &mut Placer::default(), &request(&need, &placed, &lost, ANY, &kept)).unwrap();
    assert_eq!((moved.swaps.len(), moved.rails_dropped), (1, RailSet::EMPTY));
}

/// NICs that were found on each other's rails are kept together, or left together: under the other's name one of them would be free.
#[test]
fn fewer_rails_do_not_tear_apart_what_was_swapped() {
    let mut snapshot = cluster(&[(0, 0); 3], &[]);
    let need = Need::plain(3, 2, all());
    let placed = place(&mut snapshot, &need).unwrap();
    assert_eq!(placed.rails, [0, 1, 2]);
    let mut swapped = placed.clone();
    let place = &mut swapped.nodes[2];
    for (at, rail) in [(0, 1), (1, 0)] {
        (place.nics[at].rail, place.nics[at].leaf) = (rail, placed.nodes[2].nics[rail as usize].leaf.clone());
    }
    place.nics.sort_by_key(|nic| nic.rail);
    place.remapped = true;
    let kept = NodeSet::default();
    for (lost, left) in [(0, vec![2]), (1, vec![2]), (2, vec![0, 1])] {
        let loss = [(name(1), FailureScope::Rails([lost].into_iter().collect()))].into();
        let request = request(&need, &swapped, &loss, ANY, &kept);
        let refused = repair(&snapshot, &mut Placer::default(), &request);
        let fewer = refused.unwrap_err().fewer_rails.unwrap();
        assert_eq!((&fewer.placement.rails, fewer.swaps.len()), (&left, 0));
        let own = |at: usize| fewer.placement.nodes[at].nics.iter().map(|nic| nic.device.as_str());
        let (sound, crossed): (Vec<&str>, Vec<&str>) = (own(0).collect(), own(2).collect());
        match lost {
            2 => {
                assert_eq!((&sound[..], &crossed[..]), (&["mlx5_0", "mlx5_1"][..], &["mlx5_1", "mlx5_0"][..]))
            }
            _ => assert_eq!((&sound[..], &crossed[..]), (&["mlx5_2"][..], &["mlx5_2"][..])),
        }
        assert_eq!(fewer.placement.nodes[2].remapped, lost == 2);
        let nics = &fewer.placement.nodes[2].nics;
        for rank in fewer.placement.ranks.iter().filter(|rank| rank.node == fewer.placement.nodes[2].node) {
            let has = |nic: &&proto_model::NicPlace| {
                nic.device == rank.nic && nic.rail == rank.rail && nic.leaf == rank.leaf
            };
            assert_eq!(nics.iter().filter(has).count(), 1, "{rank:?}");
        }
    }
}

#[derive(Debug, Clone)]
struct Case {
    places: Vec<(u8, u8)>,
    down: Vec<u8>,
    need: Need,
    busy: Vec<bool>,
    lost: u32,
    kept: u32,
    sources: Sources,
}

fn case() -> impl Strategy<Value = Case> {
    let size = 5_usize..10;
    size.prop_flat_map(|n| {
        let group = prop_oneof![
            2 => Just(None),
            1 => Just(Some((2, Within::Pod))),
            1 => Just(Some((2, Within::Leaves))),
        ];
        let pattern = prop_oneof![Just(Pattern::Ring), Just(Pattern::AllToAll), Just(Pattern::Pipeline(2))];
        let within = prop_oneof![3 => Just(Within::Fabric), 1 => Just(Within::Pod)];
        (
            prop::collection::vec((0_u8..3, 0_u8..2), n),
            prop::collection::vec(prop_oneof![4 => Just(0_u8), 1 => 0_u8..8], n),
            (1_u32..3, group, pattern, within, 0_u32..3),
            prop::collection::vec(prop::bool::weighted(0.15), n),
            any::<u32>(),
            any::<u32>(),
            (any::<bool>(), prop::bool::weighted(0.8)),
        )
            .prop_map(
                |(places, down, (half, group, pattern, within, spares), busy, lost, kept, sources)| {
                    let groups = group.map(|(size, within)| Group { size, within, required: true });
                    let need = Need {
                        groups: groups.into_iter().collect(),
                        pattern,
                        within,
                        spares,
                        ..Need::plain(half * 2, 2, all())
                    };
                    let sources = Sources { spares: sources.0, free: sources.1 };
                    Case { places, down, need, busy, lost, kept: kept & lost.rotate_left(9), sources }
                },
            )
    })
}

/// What a repair costs, by counting every connection: free nodes, pods, cut.
fn price(snapshot: &Snapshot, need: &Need, repaired: &Repaired) -> (usize, usize, u64) {
    let topology = snapshot.topology();
    let at: Vec<_> = repaired.placement.nodes.iter().map(|p| topology.index(&p.node).unwrap()).collect();
    let pod = |n: usize| topology.server(at[n]).unwrap().pod;
    let leaf = |n: usize| World::leaf(snapshot, at[n], 0);
    let weight = |a: usize, b: usize| match (leaf(a) == leaf(b), pod(a) == pod(b)) {
        (true, _) => 0,
        (_, true) => 1,
        _ => 4,
    };
    let n = at.len();
    let pairs = || (0..n).flat_map(|a| (0..a).map(move |b| (a, b)));
    let cut: u64 = match need.pattern {
        Pattern::Ring => (0..n).map(|a| weight(a, (a + 1) % n)).sum(),
        Pattern::AllToAll => pairs().map(|(a, b)| weight(a, b)).sum(),
        Pattern::Pipeline(size) => {
            let size = size as usize;
            pairs().filter(|(a, b)| a / size == b / size || a - b == size).map(|(a, b)| weight(a, b)).sum()
        }
    };
    let pods: BTreeSet<_> = (0..n).map(pod).collect();
    (repaired.swaps.iter().filter(|swap| !swap.spare).count(), pods.len(), cut)
}

/// Every way to fill the lost places, proved one by one; what the best costs.
fn brute(snapshot: &Snapshot, request: &RepairRequest<'_>, nodes: usize) -> Option<(usize, usize, u64)> {
    let topology = snapshot.topology();
    let open: Vec<usize> = (0..request.placement.nodes.len())
        .filter(|at| request.lost.contains_key(&request.placement.nodes[*at].node))
        .collect();
    let rails: RailSet = request.placement.rails.iter().copied().collect();
    let mut best = None;
    let mut digits = vec![0; open.len()];
    loop {
        let mut placement = request.placement.clone();
        let mut swaps = Vec::new();
        for (at, digit) in open.iter().zip(&digits) {
            let pick = Pick { node: topology.index(&name(*digit)).unwrap(), gpus: 0b11 };
            placement.nodes[*at] = rankmap::node(topology, pick, rails, crate::Host::NONE).unwrap();
            let ranks = rankmap::ranks_of(topology, pick, rails, 2, *at as u32 * 2);
            placement.ranks[at * 2..at * 2 + 2].clone_from_slice(&ranks);
            let (old, new) = (request.placement.nodes[*at].node.clone(), name(*digit));
            let spare = request.placement.spares.iter().any(|spare| spare.node == new);
            swaps.push(super::Swap { position: *at as u32, old, new, spare });
        }
        placement.spares.retain(|spare| !swaps.iter().any(|swap| swap.new == spare.node));
        let spares_lost = Vec::new();
        let repaired = Repaired { placement, swaps, spares_lost, rails_dropped: RailSet::EMPTY };
        if prove_repair(snapshot, request, &repaired) == Ok(()) {
            let price = price(snapshot, request.need, &repaired);
            best = Some(best.map_or(price, |best: (usize, usize, u64)| best.min(price)));
        }
        let Some(at) = (0..digits.len()).find(|at| digits[*at] + 1 < nodes) else { return best };
        digits[..at].fill(0);
        digits[at] += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn as_good_as_any_way_there_is(case in case()) {
        let mut snapshot = cluster(&case.places, &case.down);
        for (at, busy) in case.busy.iter().enumerate() {
            if *busy {
                snapshot.set_gate(&name(at), Gate { unschedulable: true, ..Gate::default() });
            }
        }
        let Some(placed) = place(&mut snapshot, &case.need) else { return Ok(()) };
        let bit = |set: u32, at: usize| set >> at & 1 == 1;
        let gang: Vec<NodeName> = placed.nodes.iter().chain(&placed.spares).map(|p| p.node.clone()).collect();
        let lost: BTreeMap<NodeName, FailureScope> = gang.iter().enumerate().filter(|(at, _)| bit(case.lost, *at)).take(3)
            .map(|(at, node)| (node.clone(), if bit(case.lost, at + 12) { FailureScope::Node } else { FailureScope::Rails(RailSet::first(1)) }))
            .collect();
        let kept: NodeSet = (0..case.places.len()).filter(|at| bit(case.kept, *at))
            .map(|at| snapshot.topology().index(&name(at)).unwrap()).collect();
        let request = request(&case.need, &placed, &lost, case.sources, &kept);
        let best = brute(&snapshot, &request, case.places.len());
        match repair(&snapshot, &mut Placer::default(), &request) {
            Ok(repaired) => {
                let price = price(&snapshot, &case.need, &repaired);
                prop_assert_eq!(prove_repair(&snapshot, &request, &repaired), Ok(()));
                prop_assert_eq!((repaired.placement.pods as usize, repaired.placement.cut), (price.1, price.2));
                prop_assert_eq!(Some(price), best);
            }
            Err(refused) => {
                prop_assert_eq!(None, best, "{:?}", refused.reasons);
                prop_assert!(!refused.reasons.is_empty());
                if let Some(fewer) = refused.fewer_rails {
                    prop_assert_eq!(prove_repair(&snapshot, &request, &fewer), Ok(()));
                    prop_assert!(fewer.placement.rails.len() < placed.rails.len());
                }
            }
        }
    }
}
