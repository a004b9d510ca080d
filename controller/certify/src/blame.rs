//! Which end of bad pairs is to blame.

use std::collections::{BTreeMap, BTreeSet};

/// Pairs of one rail, and whether something is wrong with each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ballot {
    pub(crate) pairs: Vec<(u32, u32, bool)>,
}

/// Whom a ballot names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Blamed {
    /// Node -> its bad pairs, and its pairs, of those that no other named node explains.
    pub(crate) nodes: BTreeMap<u32, (u32, u32)>,
    /// Bad pairs that no named node explains.
    pub(crate) open: Vec<(u32, u32)>,
}

impl Ballot {
    /// How many nodes are in its pairs.
    pub(crate) fn nodes(&self) -> usize {
        self.pairs.iter().flat_map(|(a, b, _)| [*a, *b]).collect::<BTreeSet<u32>>().len()
    }

    /// How many of its pairs are bad.
    pub(crate) fn bad(&self) -> usize {
        self.pairs.iter().filter(|(.., bad)| *bad).count()
    }
}

/// A node is named if it is in at least two pairs and more than half of them are bad. Who is named explains its pairs: they no
/// longer speak against the others, so the worst is named first. Without a single good pair nobody is named: then it is not a node.
pub(crate) fn blame(ballot: &Ballot) -> Blamed {
    let mut left = ballot.pairs.clone();
    let mut blamed = Blamed::default();
    while ballot.bad() < ballot.pairs.len() {
        let mut counts: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for (a, b, bad) in &left {
            for end in [a, b] {
                let (wrong, all) = counts.entry(*end).or_default();
                *wrong += u32::from(*bad);
                *all += 1;
            }
        }
        let guilty = counts.into_iter().filter(|(_, (bad, all))| *all >= 2 && bad * 2 > *all);
        // By share, then by number; the lower position if nothing else decides.
        let worst = guilty.reduce(|worst, next| {
            let ((_, (bad, all)), (_, (next_bad, next_all))) = (worst, next);
            let (share, next_share) = (bad * next_all, next_bad * all);
            if next_share > share || next_share == share && next_bad > bad { next } else { worst }
        });
        let Some((node, count)) = worst else { break };
        blamed.nodes.insert(node, count);
        left.retain(|(a, b, _)| *a != node && *b != node);
    }
    blamed.open = left.into_iter().filter(|(.., bad)| *bad).map(|(a, b, _)| (a, b)).collect();
    blamed
}

#[cfg(test)]
mod tests {
    use super::{Ballot, blame};

    fn named(pairs: &[(u32, u32, bool)]) -> (Vec<u32>, usize) {
        let blamed = blame(&Ballot { pairs: pairs.to_vec() });
        (blamed.nodes.into_keys().collect(), blamed.open.len())
    }

    #[test]
    fn the_common_end_is_named() {
        assert_eq!(named(&[(0, 1, true), (0, 2, true), (1, 2, false)]), (vec![0], 0));
        assert_eq!(named(&[(0, 1, true)]), (vec![], 1), "of two, nobody");
        assert_eq!(named(&[(0, 1, true), (0, 2, false), (1, 2, false)]), (vec![], 1), "one pair is noise");
        assert_eq!(named(&[]), (vec![], 0));
        assert_eq!(named(&[(0, 1, true), (0, 2, true), (1, 2, true)]), (vec![], 3), "it is no node");
    }

    #[test]
    fn partners_of_the_guilty_are_not() {
        // 0 and 1 are bad; 2 met both, and 3.
        let pairs = [(0, 1, true), (0, 2, true), (1, 2, true), (0, 3, true), (1, 3, true), (2, 3, false)];
        assert_eq!(named(&pairs), (vec![0, 1], 0));
    }
}
