//! Rounds of every size of gang.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::{Budget, Gang, Pair, plan};

fn ends(pair: &Pair) -> (u32, u32) {
    (pair.first.min(pair.second), pair.first.max(pair.second))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn rounds_are_disjoint_and_enough(nodes in 2_u32..=512, seed: u64, partners in 1_u32..12) {
        let gang = Gang::new(nodes, [0, 1]);
        let budget = Budget { partners, rounds_min: 1 };
        let drawn = plan(&gang, seed, budget);
        prop_assert_eq!(&drawn, &plan(&gang, seed, budget), "the same seed gives the same rounds");
        let mut met: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for round in &drawn.rounds {
            let mut busy = BTreeSet::new();
            for pair in round {
                prop_assert!(pair.first < nodes && pair.second < nodes && pair.first != pair.second);
                prop_assert!(busy.insert(pair.first) && busy.insert(pair.second), "a node is in two pairs");
                *met.entry(ends(pair)).or_default() += 1;
            }
            prop_assert_eq!(round.len() as u32, nodes / 2);
        }
        prop_assert!(met.values().all(|times| *times == 1), "nobody meets twice");
        for node in 0..nodes {
            let turns = drawn.turns(node);
            let least = partners.min(nodes - 1);
            prop_assert!(turns.len() as u32 >= least, "node {} has {} of {}", node, turns.len(), least);
            prop_assert!(turns.is_sorted_by_key(|turn| turn.round));
        }
        let firsts = (0..nodes).filter(|node| drawn.turns(*node).iter().any(|turn| turn.first));
        prop_assert!(partners < 6 || nodes < 4 || firsts.count() * 2 > nodes as usize, "the work is shared");
    }
}

#[test]
fn small_gangs_meet_completely_and_two_meet_again() {
    for nodes in 2..=9 {
        let drawn = plan(&Gang::new(nodes, [0]), 7, Budget::default());
        let met: BTreeSet<(u32, u32)> = drawn.rounds.iter().flatten().map(ends).collect();
        assert_eq!(met.len() as u32, nodes * (nodes - 1) / 2, "{nodes} nodes");
    }
    assert_eq!(plan(&Gang::new(2, [0]), 7, Budget::default()).rounds.len(), 3);
    assert!(plan(&Gang::new(1, [0]), 7, Budget::default()).rounds.is_empty());
    assert!(plan(&Gang::new(4, []), 7, Budget::default()).rounds.is_empty());
    assert_eq!(plan(&Gang::new(512, [0]), 7, Budget::default()).rounds.len(), 8);
}

#[test]
fn every_round_has_its_time_and_so_has_what_comes_before() {
    for (nodes, ms) in [(1, 0), (2, 5_200), (3, 5_200), (4, 5_200), (8, 9_200), (9, 11_200), (512, 10_200)] {
        let plan = plan(&Gang::new(nodes, 0..2), 3, Budget::default());
        assert_eq!(plan.limit().as_millis(), ms, "{nodes} nodes, {} rounds", plan.rounds.len());
    }
}
