//! Placements of a given size, by chance and chosen: row F8.

use proto_random::Random;

use super::choose::{BadChoice, Demand, Fanout, by_chance, choose};
use super::hash::{Family, Fields, Flow};
use super::{tiers, udp};

/// What the slowest of the flows gets of its line, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Mean over the runs, with the ports that Linux gives.
    pub chance: f64,
    /// The least over the runs, with the ports that are chosen.
    pub chosen: f64,
}

/// Flows at line rate between leaves: each of `servers` servers of every leaf sends to one of the next leaf.
///
/// # Errors
/// [`BadChoice`] of [`choose()`].
pub fn spread(
    family: Family,
    leaves: usize,
    servers: usize,
    uplinks: usize,
    runs: u32,
    seed: u64,
) -> Result<Spread, BadChoice> {
    let mut random = Random::new(seed);
    let (mut chance, mut chosen) = (0.0, 1.0_f64);
    for run in 0..runs {
        let hashes = tiers::plan(family, Fields::FiveTuple, 2, seed.wrapping_add(u64::from(run)));
        let fanout = Fanout { spines: uplinks, cables: 1, leaf: hashes[0], spine: hashes[1] };
        let mut demands = Vec::with_capacity(leaves * servers);
        for from in 0..leaves {
            let to = (from + 1) % leaves;
            for server in 0..servers {
                let address = |leaf: usize| 0x0A00_0000 | ((leaf as u32) << 10) | server as u32;
                let (local, remote) =
                    ((random.word() & 0xFF_FFFF) as u32, (random.word() & 0xFF_FFFF) as u32);
                let port = udp::of_label(udp::label_of(local, remote));
                let flow = Flow { source: address(from), target: address(to), port, qpn: remote };
                demands.push(Demand { flow, from, to });
            }
        }
        chance += by_chance(&demands, &fanout).slowest() / f64::from(runs);
        chosen = chosen.min(choose(&demands, &fanout)?.1.slowest());
    }
    Ok(Spread { chance, chosen })
}
