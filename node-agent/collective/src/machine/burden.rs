//! Which rails of this node are slow, by what they carry: the stripes give each rail what it can take.
//!
//! A link is slow because of either end. In a ring a node sends to one peer and hears from another, so a port at a tenth of its
//! rate makes three nodes see something: the one before sends little over that rail, the one after hears little, and the
//! node itself does both. So a rail is slow here if little goes out *and* little comes in. Where a node exchanges with several peers, one
//! of them cannot make the whole rail look slow, and either direction is enough.

use crate::units::{Node, Rail};

/// A rail that carries less than the best of its node by less than this factor is as good: loads are uneven.
const SLOW: f64 = 2.0;
/// Bytes that the best rail must have carried in a direction between two checks for the others to be compared with it.
const REPORTING: u64 = 512 << 10;
/// A peer counts if it has at least this part of what the busiest has.
const COUNTS: u64 = 4;

/// One direction between two checks.
#[derive(Debug, Clone, Default)]
struct Direction {
    rails: Vec<u64>,
    peers: Vec<u64>,
}

impl Direction {
    fn add(&mut self, rail: usize, peer: usize, bytes: u64) {
        self.rails[rail] += bytes;
        self.peers[peer] += bytes;
    }

    fn best(&self) -> u64 {
        self.rails.iter().copied().max().unwrap_or(0)
    }

    /// Whether so much went over it that its rails can be compared.
    fn reports(&self) -> bool {
        self.best() >= REPORTING
    }

    /// Whether it was an exchange with more than one peer.
    fn is_wide(&self) -> bool {
        let most = self.peers.iter().copied().max().unwrap_or(0);
        self.peers.iter().filter(|p| **p * COUNTS > most).count() > 1
    }

    /// What a rail carried of what the best did; 1 if that is not much less.
    fn share(&self, rail: usize) -> f64 {
        let share = self.rails[rail] as f64 / self.best().max(1) as f64;
        if share * SLOW < 1.0 { share } else { 1.0 }
    }
}

/// What the rails carried.
#[derive(Debug, Clone, Default)]
pub struct Burden {
    /// Of each link, by peer and rail: what it had carried out and in at the last check.
    known: Vec<[u64; 2]>,
    /// What each rail counts for, of 1.
    weights: Vec<f64>,
}

impl Burden {
    /// Reads what every link has carried by now.
    pub fn check(&mut self, rails: usize, nodes: usize, carried: impl Fn(Rail, Node) -> [u64; 2]) {
        self.known.resize(rails * nodes, [0; 2]);
        self.weights.resize(rails, 1.0);
        let empty = Direction { rails: vec![0; rails], peers: vec![0; nodes] };
        let mut directions = [empty.clone(), empty];
        for (at, known) in self.known.iter_mut().enumerate() {
            let (peer, rail) = (at / rails, at % rails);
            let now = carried(rail as Rail, peer as Node);
            for ((direction, now), known) in directions.iter_mut().zip(now).zip(*known) {
                // A new life counts from zero.
                direction.add(rail, peer, if now < known { now } else { now - known });
            }
            *known = now;
        }
        let [out, inward] = &directions;
        if !out.reports() || !inward.reports() {
            return;
        }
        for (rail, weight) in self.weights.iter_mut().enumerate() {
            let (sent, heard) = (out.share(rail), inward.share(rail));
            let slow = match (sent < 1.0, heard < 1.0) {
                (true, true) => true,
                (true, false) => out.is_wide(),
                (false, true) => inward.is_wide(),
                (false, false) => false,
            };
            let fresh = if slow { sent.min(heard) } else { 1.0 };
            // Slow for a while: the noise of single checks is evened out.
            *weight = if *weight < 1.0 && fresh < 1.0 { f64::midpoint(*weight, fresh) } else { fresh };
        }
    }

    /// What a rail counts for: 1, or its share of what the best rail carries if it is slow.
    pub fn weight(&self, rail: Rail) -> f64 {
        self.weights.get(usize::from(rail)).copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const MIB: u64 = 1 << 20;

    /// Weights of four rails after one look at node 1 of four that has carried so much, by (rail, peer).
    fn weights(carried: &[((Rail, Node), [u64; 2])]) -> Vec<f64> {
        let carried: BTreeMap<_, _> = carried.iter().copied().collect();
        let mut burden = Burden::default();
        burden.check(4, 4, |rail, peer| carried.get(&(rail, peer)).copied().unwrap_or_default());
        (0..4).map(|rail| burden.weight(rail)).collect()
    }

    /// A node in a ring: sends to 2 and hears from 0, rail 3 as given.
    fn ring(sent: u64, heard: u64) -> Vec<f64> {
        let of = |rail: Rail| if rail == 3 { (sent, heard) } else { (10 * MIB, 10 * MIB) };
        let links = (0..4).flat_map(|rail| [((rail, 2), [of(rail).0, 0]), ((rail, 0), [0, of(rail).1])]);
        weights(&links.collect::<Vec<_>>())
    }

    #[test]
    fn in_a_ring_the_slow_node_is_the_one_that_sends_and_hears_little() {
        assert_eq!(ring(10 * MIB, 10 * MIB), [1.0; 4]);
        assert_eq!(ring(6 * MIB, 6 * MIB), [1.0; 4], "a little less is not slow");
        assert_eq!(ring(MIB, MIB), [1.0, 1.0, 1.0, 0.1]);
        assert_eq!(ring(MIB, 10 * MIB), [1.0; 4], "the next node is slow");
        assert_eq!(ring(10 * MIB, MIB), [1.0; 4], "the one before is slow");
    }

    #[test]
    fn where_all_exchange_either_direction_is_enough_and_one_peer_is_not() {
        let with = |slow: fn(Rail, Node) -> [u64; 2]| {
            let links = (0..4).flat_map(|rail| [0, 2, 3].map(|peer| ((rail, peer), slow(rail, peer))));
            weights(&links.collect::<Vec<_>>())
        };
        assert_eq!(
            with(|rail, _| if rail == 1 { [MIB, 10 * MIB] } else { [10 * MIB; 2] }),
            [1.0, 0.1, 1.0, 1.0]
        );
        assert_eq!(
            with(|rail, _| if rail == 1 { [10 * MIB, MIB] } else { [10 * MIB; 2] }),
            [1.0, 0.1, 1.0, 1.0]
        );
        assert_eq!(
            with(|rail, peer| if (rail, peer) == (1, 2) { [MIB; 2] } else { [10 * MIB; 2] }),
            [1.0; 4]
        );
    }

    #[test]
    fn little_traffic_says_nothing_and_a_new_life_counts_from_zero() {
        let mut burden = Burden::default();
        let mut check = |rail_0: [u64; 2], others: [u64; 2]| {
            burden.check(4, 2, |rail, peer| match (rail, peer) {
                (_, 1) => [0; 2],
                (0, _) => rail_0,
                _ => others,
            });
            burden.weight(0)
        };
        assert_eq!(check([100, 100], [1000, 1000]), 1.0);
        assert_eq!(check([MIB + 100; 2], [10 * MIB + 1000; 2]), 0.1);
        assert_eq!(check([MIB + 200; 2], [10 * MIB + 2000; 2]), 0.1, "as before");
        assert_eq!(check([11 * MIB + 200; 2], [20 * MIB + 2000; 2]), 1.0);
        assert_eq!(check([10 * MIB; 2], [30 * MIB + 2000; 2]), 1.0, "a new life");
    }
}
