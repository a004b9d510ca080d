//! Groups that must stay together, beside groups of a pipeline and groups that only should.

use super::*;

/// A cluster of so many free nodes per pod and block.
fn cluster(pods: &[Vec<u32>]) -> Ledger {
    let mut sites = Vec::new();
    for (pod, blocks) in (0..).zip(pods) {
        for (block, count) in (0..).zip(blocks) {
            let site = plain(pod, block);
            sites.extend((0..*count).map(|_| site.clone()));
        }
    }
    Ledger::new(&sites)
}

/// Whether a gang finds a place, which is proved.
fn placed(ledger: &Ledger, need: &Need) -> bool {
    let mut choice = Choice::default();
    let found = Placer::default().choose(ledger.snapshot.capacity_index(), need, None, &mut choice);
    assert!(!found || prove(ledger, need, &choice) == Ok(()), "{need:?}: {choice:?}");
    found
}

/// Two groups of two would each be cut in half where a pipeline's groups of three are kept whole.
#[test]
fn required_groups_come_before_groups_of_a_pipeline() {
    let ledger = cluster(&[vec![3, 5]]);
    let mut need = Need::plain(6, 4, RailNeed::Exactly(RailSet::first(RAILS)));
    need.groups = vec![Group { size: 2, within: Within::Leaves, required: true }];
    need.pattern = Pattern::Pipeline(3);
    assert!(placed(&ledger, &need));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(4_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the pattern, and whatever is only desired: together, and placed if a ring would be.
    #[test]
    fn required_groups_stay_together(
        pods in prop::collection::vec(prop::collection::vec(0_u32..8, 1..5), 1..4),
        size in 2_u32..6,
        within in prop_oneof![1 => Just(Within::Pod), 2 => Just(Within::Leaves)],
        desired in prop_oneof![3 => Just(None), 1 => (1_u32..4, within()).prop_map(Some)],
        groups in 1_u32..8,
        pattern in prop_oneof![
            1 => Just(Pattern::Ring), 1 => Just(Pattern::AllToAll), 4 => (0_u32..13).prop_map(Pattern::Pipeline)
        ],
        spread in prop::bool::weighted(0.1),
    ) {
        let ledger = cluster(&pods);
        let mut need = Need::plain(groups * size, 4, RailNeed::Exactly(RailSet::first(RAILS)));
        need.groups = vec![Group { size, within, required: true }];
        if let Some((times, within)) = desired {
            need.nodes *= times;
            need.groups.push(Group { size: size * times, within, required: false });
        }
        need.arrange = if spread { Arrange::Spread } else { Arrange::Pack };
        let plain = Need { pattern: Pattern::Ring, ..need.clone() };
        need.pattern = pattern;
        prop_assert_eq!(placed(&ledger, &need), placed(&ledger, &plain));
    }
}

/// The same with groups that fit those of the pipeline, however the room is parted.
#[test]
fn required_groups_stay_together_in_small_pipelines() {
    let mut state = 1_u32;
    let mut below = |end: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % end
    };
    let mut placed = 0;
    for round in 0..400 {
        let site = |pod, block| plain(pod, block);
        let mut sites = Vec::new();
        for (pod, block) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            sites.extend((0..below(8)).map(|_| site(pod, block)));
        }
        if sites.is_empty() {
            continue;
        }
        let size = [2, 4, 8][below(3) as usize];
        let mut need = Need::plain(size * (1 + below(3)), 4, RailNeed::Exactly(RailSet::first(RAILS)));
        need.pattern = [Pattern::Pipeline(size), Pattern::Pipeline(4), Pattern::AllToAll][below(3) as usize];
        let within = [Within::Pod, Within::Leaves][below(2) as usize];
        need.groups = vec![Group { size, within, required: true }];
        let ledger = Ledger::new(&sites);
        let mut choice = Choice::default();
        if Placer::default().choose(ledger.snapshot.capacity_index(), &need, None, &mut choice) {
            placed += 1;
            assert_eq!(prove(&ledger, &need, &choice), Ok(()), "round {round}: {need:?}");
        }
    }
    assert!(placed > 100, "{placed}");
}
