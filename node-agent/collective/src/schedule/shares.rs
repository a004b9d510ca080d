//! How much each node reduces in a direct all-reduce, so that nodes of unequal capacity end at the same time.
//!
//! With the share w of the S bytes a node ships its contributions to the rest, (1-w)S, and its results to n-1 peers,
//! (n-1)wS; it fetches as much. So its time is (1 + (n-2)w)S/c at capacity c. Equal times T with shares that sum to 1 give
//! w = (Tc/S - 1)/(n-2) with T = (2n-2)S/sum(c). A node too weak for a share above 0 gets none: its time is S/c, and the others
//! share with T = (n-2+m)S/sum(c of those m). As long as nobody is left out, or the one left out is the last to end, no schedule is
//! faster: every node must ship S, and all together 2(n-1)S. With two nodes the share has no influence on the time.

use std::ops::Range;

use crate::order;

/// Bytes that a share is a whole number of (but for the last): all dtypes' sizes divide it.
const UNIT: usize = 64;

/// The range of the bytes that each node reduces, by its capacity in any unit (0 counts as less than any). Ranges follow
/// each other without a gap and are aligned to 64 bytes. Of equal capacities they are [`order::blocks`].
#[must_use]
pub fn shares(bytes: usize, capacity: &[u16]) -> Vec<Range<usize>> {
    let nodes = capacity.len();
    if nodes <= 2 || capacity.iter().all(|c| *c == capacity[0]) {
        return order::blocks(bytes, nodes);
    }
    let weights = weights(capacity);
    let total: u128 = weights.iter().sum();
    let units = bytes.div_ceil(UNIT) as u128;
    let mut before = 0;
    let mut edge = |weight: u128| {
        let start = before;
        before += weight;
        let at = |sum: u128| ((units * sum / total) as usize * UNIT).min(bytes);
        at(start)..at(before)
    };
    weights.iter().map(|&w| edge(w)).collect()
}

/// Shares of three or more nodes as integers in proportion; not all of them are 0.
fn weights(capacity: &[u16]) -> Vec<u128> {
    let nodes = capacity.len() as u128;
    let mut shares: Vec<bool> = capacity.iter().map(|&c| c > 0).collect();
    loop {
        let sharing = || capacity.iter().zip(&shares).filter(|(_, s)| **s).map(|(&c, _)| u128::from(c));
        let (count, sum) = (sharing().count() as u128, sharing().sum::<u128>());
        // w = ((n-2+m)c - sum) / ((n-2)sum); the divisor is common to all.
        let weight = |c: u16| ((nodes - 2 + count) * u128::from(c)).checked_sub(sum);
        let weak = (0..capacity.len()).filter(|&i| shares[i] && weight(capacity[i]).is_none());
        let weak: Vec<usize> = weak.collect();
        if weak.is_empty() {
            let of = |(&c, &shares): (&u16, &bool)| if shares { weight(c).unwrap_or(0) } else { 0 };
            return capacity.iter().zip(&shares).map(of).collect();
        }
        weak.into_iter().for_each(|i| shares[i] = false);
    }
}

/// Bytes that the busiest node ships, counted at full capacity 1024: what it ships, times 1024, by its capacity.
#[must_use]
pub fn load(bytes: usize, shares: &[Range<usize>], capacity: &[u16]) -> u64 {
    let others = shares.len().saturating_sub(1) as u128;
    let of = |(share, &c): (&Range<usize>, &u16)| {
        let ships = (bytes - share.len()) as u128 + others * share.len() as u128;
        ships * 1024 / u128::from(c.max(1))
    };
    let busiest = if others == 0 { 0 } else { shares.iter().zip(capacity).map(of).max().unwrap_or(0) };
    u64::try_from(busiest).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: usize = 1 << 30;

    /// Time in units of the healthy one, in the fluid model.
    fn slowdown(capacity: &[u16]) -> f64 {
        let n = capacity.len() as f64;
        let healthy = 2.0 * (n - 1.0) / n * BYTES as f64;
        load(BYTES, &shares(BYTES, capacity), capacity) as f64 / healthy
    }

    /// No schedule can be faster: every node ships S, and all together 2(n-1)S. In units of the healthy time.
    fn bound(capacity: &[u16]) -> f64 {
        let n = capacity.len() as f64;
        let least = f64::from(*capacity.iter().min().unwrap()) / 1024.0;
        let sum = capacity.iter().map(|&c| f64::from(c) / 1024.0).sum::<f64>();
        (1.0 / least).max(2.0 * (n - 1.0) / sum) / (2.0 * (n - 1.0) / n)
    }

    #[test]
    fn one_weak_node_costs_what_the_bound_says() {
        for (nodes, rails, failed, want) in [
            (4, 4, 1, 1.067),
            (8, 4, 1, 1.032),
            (4, 8, 1, 1.032),
            (16, 8, 1, 1.008),
            (16, 8, 4, 1.067),
            (2, 4, 1, 1.333),
        ] {
            let mut capacity = vec![1024u16; nodes];
            capacity[nodes / 2] = 1024 / rails * (rails - failed);
            let took = slowdown(&capacity);
            assert!((took - want).abs() < 0.001, "{nodes} nodes, {failed} of {rails} rails: {took:.4}");
            assert!(took <= bound(&capacity) * 1.0001);
        }
    }

    #[test]
    fn equal_capacities_give_the_order_blocks() {
        for bytes in [0, 1, 64, 1000, 1 << 20] {
            for nodes in 1..20 {
                for capacity in [1, 700, 1024] {
                    assert_eq!(shares(bytes, &vec![capacity; nodes]), order::blocks(bytes, nodes));
                }
            }
        }
        assert_eq!(shares(1000, &[0, 0, 0]), order::blocks(1000, 3));
    }

    #[test]
    fn a_node_too_weak_reduces_nothing() {
        let shares = shares(6400, &[1024, 10, 1024, 1024]);
        assert!(shares[1].is_empty());
        assert_eq!(shares.iter().map(Range::len).sum::<usize>(), 6400);
        assert!((slowdown(&[1024, 256, 1024, 1024]) - bound(&[1024, 256, 1024, 1024])).abs() < 0.001);
    }

    proptest! {
        /// Exact, aligned, in order; and as fast as the bound where nobody is so much weaker that it is left out and others
        /// would be idle while it ends.
        #[test]
        fn shares_are_exact_and_optimal(capacity in prop::collection::vec(1u16..=1024, 3..40), bytes in 0usize..100_000) {
            let cut = shares(bytes, &capacity);
            prop_assert_eq!((cut[0].start, cut[capacity.len() - 1].end), (0, bytes));
            prop_assert!(cut.windows(2).all(|w| w[0].end == w[1].start && (w[1].start % 64 == 0 || w[1].start == bytes)));
            let none_left_out = shares(BYTES, &capacity).iter().all(|s| !s.is_empty());
            let took = slowdown(&capacity);
            prop_assert!(took >= bound(&capacity) * 0.9999);
            if none_left_out {
                prop_assert!(took <= bound(&capacity) * 1.0001, "{} > {}", took, bound(&capacity));
            }
        }

        /// Left-out nodes end when their S bytes are shipped, the others together when theirs are, whichever is later.
        #[test]
        fn weak_nodes_cost_no_more_than_their_own_time(capacity in prop::collection::vec(prop_oneof![1u16..100, 900u16..=1024], 3..20)) {
            let cut = shares(BYTES, &capacity);
            let n = capacity.len() as f64;
            let sharing: Vec<f64> = (0..capacity.len()).filter(|&i| !cut[i].is_empty()).map(|i| f64::from(capacity[i]) / 1024.0).collect();
            let least = f64::from(*capacity.iter().min().unwrap()) / 1024.0;
            let together = (n - 2.0 + sharing.len() as f64) / sharing.iter().sum::<f64>();
            let want = together.max(1.0 / least) / (2.0 * (n - 1.0) / n);
            prop_assert!((slowdown(&capacity) - want).abs() < want * 0.0001);
        }
    }
}
