//! Hashes of tiers that do not repeat each other.

use std::collections::BTreeSet;

use super::hash::{Family, Fields, Flow, Hash};
use super::udp;
use proto_random::Random;

/// Flows that are tried.
const FLOWS: u32 = 65_536;

/// A hash for each tier, from the lowest up: the first differs from the second in the bits that it takes, and then in the polynomial.
/// Seeds differ too, although with these hashes that alone would change nothing.
#[must_use]
pub fn plan(family: Family, fields: Fields, tiers: usize, seed: u64) -> Vec<Hash> {
    let mut random = Random::new(seed);
    let algorithms = family.algorithms();
    let hash = |tier: usize| Hash {
        algorithm: algorithms[tier / 2 % algorithms.len()],
        seed: (random.word() & 0xFFFF) as u16,
        // Half of the 16 bits each.
        offset: if tier.is_multiple_of(2) { 0 } else { 8 },
        fields,
    };
    (0..tiers).map(hash).collect()
}

/// How many of `links` of the second switch carry any of the flows that the first one sends over one of its `links`, 0 to 1: the
/// least share over all links of the first. 1 is as it should be; `1 / links` means that the tiers hash alike.
#[must_use]
pub fn reached(first: &Hash, second: &Hash, links: usize, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let mut used = vec![BTreeSet::new(); links];
    for _ in 0..FLOWS {
        let bits = random.word();
        let flow = Flow {
            source: 0x0A00_0000 | (bits & 0xFFF) as u32,
            target: 0x0A01_0000 | (bits >> 12 & 0xFFF) as u32,
            port: udp::FIRST | (bits >> 24 & 0x3FFF) as u16,
            qpn: (bits >> 40 & 0xFF_FFFF) as u32,
        };
        used[first.pick(&flow, links)].insert(second.pick(&flow, links));
    }
    let least = used.iter().map(BTreeSet::len).min().unwrap_or(0);
    f64::from(u32::try_from(least).unwrap_or(0)) / f64::from(u32::try_from(links.max(1)).unwrap_or(1))
}
