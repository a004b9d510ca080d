//! The fewest steps, against a search through all of them.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use crate::moves::{Cable, Step, fewest};

/// Applies the steps under the rules; says whether every cable that belongs somewhere is there.
fn remediated(ports: &[usize], cables: &[Cable], steps: &[Step]) -> bool {
    let mut at: Vec<Option<usize>> = cables.iter().map(|cable| Some(cable.at)).collect();
    for step in steps {
        let (cable, to) = match *step {
            Step::Move(cable, to) => {
                assert!(at[cable].is_some_and(|from| from != to), "it hangs, or is there: {step:?}");
                (cable, Some(to))
            }
            Step::Unplug(cable) => {
                assert!(at[cable].is_some(), "it hangs: {step:?}");
                (cable, None)
            }
            Step::Plug(cable, to) => {
                assert!(at[cable].is_none(), "it does not hang: {step:?}");
                (cable, Some(to))
            }
        };
        at[cable] = to;
        for (bin, ports) in ports.iter().enumerate() {
            assert!(
                at.iter().filter(|at| **at == Some(bin)).count() <= *ports,
                "bin {bin} overflows at {step:?}"
            );
        }
    }
    cables.iter().zip(at).all(|(cable, at)| cable.to.is_none() || cable.to == at)
}

/// The length of a shortest sequence, by breadth-first search.
fn shortest(ports: &[usize], cables: &[Cable]) -> usize {
    let start: Vec<Option<usize>> = cables.iter().map(|cable| Some(cable.at)).collect();
    let done =
        |at: &[Option<usize>]| cables.iter().zip(at).all(|(cable, at)| cable.to.is_none() || cable.to == *at);
    let mut far: BTreeMap<Vec<Option<usize>>, usize> = BTreeMap::from([(start.clone(), 0)]);
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        let steps = far[&at];
        if done(&at) {
            return steps;
        }
        for cable in 0..cables.len() {
            for to in std::iter::once(None).chain((0..ports.len()).map(Some)) {
                let full = |bin: usize| at.iter().filter(|other| **other == Some(bin)).count() >= ports[bin];
                if to == at[cable] || to.is_some_and(full) {
                    continue;
                }
                let mut next = at.clone();
                next[cable] = to;
                if !far.contains_key(&next) {
                    far.insert(next.clone(), steps + 1);
                    queue.push_back(next);
                }
            }
        }
    }
    panic!("it cannot be mended")
}

#[test]
fn swaps_cost_three_chains_what_they_are_long() {
    let cable = |at, to| Cable { at, to: Some(to) };
    assert_eq!(fewest(&[1, 1], &[cable(0, 1), cable(1, 0)]).len(), 3);
    assert_eq!(fewest(&[1, 1, 1], &[cable(0, 1), cable(1, 2)]), [Step::Move(1, 2), Step::Move(0, 1)]);
    assert_eq!(fewest(&[2, 1], &[cable(0, 1), cable(1, 0)]).len(), 2, "a free port saves a step");
    let stranger = Cable { at: 1, to: None };
    assert_eq!(fewest(&[1, 1], &[cable(0, 1), stranger]), [Step::Unplug(1), Step::Move(0, 1)]);
    assert_eq!(fewest(&[1, 1], &[cable(0, 0), stranger]), []);
}

fn problem() -> impl Strategy<Value = (Vec<usize>, Vec<Cable>)> {
    let cables = prop::collection::vec((0usize..4, prop::option::weighted(0.85, 0usize..4)), 1..6);
    (prop::collection::vec(0usize..2, 4), cables).prop_map(|(spare, cables)| {
        let cables: Vec<Cable> = cables.into_iter().map(|(at, to)| Cable { at, to }).collect();
        let ports = (0..4).map(|bin| {
            let held = cables.iter().filter(|cable| cable.at == bin).count();
            let belong = cables.iter().filter(|cable| cable.to == Some(bin)).count();
            held.max(belong) + spare[bin]
        });
        (ports.collect(), cables)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn no_sequence_is_shorter((ports, cables) in problem()) {
        let steps = fewest(&ports, &cables);
        prop_assert!(remediated(&ports, &cables, &steps), "{:?}", steps);
        prop_assert_eq!(steps.len(), shortest(&ports, &cables), "{:?}", steps);
    }

    #[test]
    fn permutations_cost_their_wrong_cables_and_their_cycles(seed in prop::collection::vec(any::<u32>(), 2..200)) {
        // One port per bin, all taken: cycles of two and more cost one step more than they are long.
        let mut to: Vec<usize> = (0..seed.len()).collect();
        to.sort_by_key(|at| seed[*at]);
        let cables: Vec<Cable> = to.iter().enumerate().map(|(at, to)| Cable { at, to: Some(*to) }).collect();
        let (mut seen, mut cycles) = (vec![false; to.len()], 0);
        for first in 0..to.len() {
            cycles += usize::from(!seen[first] && to[first] != first);
            let mut at = first;
            while !seen[at] {
                seen[at] = true;
                at = to[at];
            }
        }
        let wrong = to.iter().enumerate().filter(|(at, to)| at != *to).count();
        let steps = fewest(&vec![1; to.len()], &cables);
        prop_assert!(remediated(&vec![1; to.len()], &cables, &steps));
        prop_assert_eq!(steps.len(), wrong + cycles);
    }
}
