//! Who measures whom: rounds of a tournament, each of disjoint pairs.
//!
//! All rounds are a 1-factorisation of the complete graph by the circle method (Kirkman 1847): everybody meets everybody once. Large
//! gangs take a few of them, drawn by the seed, so that each node is measured against enough others to be distinguished from them.

use std::{net::IpAddr, time::Duration};

use proto_model::{NodeName, RoundPart, SERIES_ROUNDS};

use proto_random::Random;

/// Who is to be certified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gang {
    /// Number of nodes of the gang.
    pub nodes: u32,
    /// The rails that the job uses, by number.
    pub rails: Vec<u32>,
    /// The leaf of each node on each of `rails`, in their order; nothing where no fabric says so.
    pub leaves: Vec<Vec<Option<u32>>>,
    /// The address of each node on each of `rails`, in their order, that the others are given; nothing where that is not known.
    pub addresses: Vec<Vec<Option<IpAddr>>>,
    /// Names of the nodes, for people.
    pub names: Vec<NodeName>,
}

impl Gang {
    /// A gang of which no leaf is known.
    #[must_use]
    pub fn new(nodes: u32, rails: impl IntoIterator<Item = u32>) -> Self {
        Self {
            nodes,
            rails: rails.into_iter().collect(),
            leaves: Vec::new(),
            addresses: Vec::new(),
            names: Vec::new(),
        }
    }

    /// The leaf that serves this node on this rail.
    #[must_use]
    pub fn leaf(&self, node: u32, rail: u32) -> Option<u32> {
        *self.leaves.get(node as usize)?.get(self.place(rail)?)?
    }

    /// The address at which the others reach this node on this rail.
    #[must_use]
    pub fn address(&self, node: u32, rail: u32) -> Option<IpAddr> {
        *self.addresses.get(node as usize)?.get(self.place(rail)?)?
    }

    fn place(&self, rail: u32) -> Option<usize> {
        self.rails.iter().position(|known| *known == rail)
    }

    /// The node as messages name it: by name, or else by its position in the gang.
    #[must_use]
    pub fn name(&self, node: u32) -> String {
        self.names
            .get(node as usize)
            .map_or_else(|| format!("node {node} of the gang"), |name| format!("node '{name}'"))
    }
}

/// How much a gang may measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Partners of each node at most. Of eight, a fault at a quarter of all nodes leaves one good partner and more to all
    /// but 2 in 100,000 of the others.
    pub partners: u32,
    /// In gangs so small that there are fewer rounds than this, rounds are repeated.
    pub rounds_min: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self { partners: 8, rounds_min: 3 }
    }
}

/// Two nodes that measure each other; the first one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// Sends first, and reports.
    pub first: u32,
    /// The node that answers and sends second.
    pub second: u32,
}

/// For nodes to find each other before the first round: kernels learn addresses, and one whose question is lost asks again after a
/// second. A node of which a rail is dead or swapped hears nothing there, and takes all of it.
const WARM: Duration = Duration::from_millis(1200);
/// How long one round may take: a node waits so long for a partner that is not there.
const ROUND: Duration = Duration::from_secs(1);

/// Rounds of disjoint pairs; each pair measures all rails at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The number of the first round.
    pub first: u32,
    /// The rounds, each with its pairs; no node is in two pairs of a round.
    pub rounds: Vec<Vec<Pair>>,
}

impl Plan {
    /// The same as a later series: 1 is the second one.
    #[must_use]
    pub fn series(self, series: u32) -> Self {
        Self { first: series.saturating_mul(SERIES_ROUNDS), ..self }
    }

    /// All rounds with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &Vec<Pair>)> {
        (self.first..).zip(&self.rounds)
    }

    /// What one node does, in order.
    #[must_use]
    pub fn turns(&self, node: u32) -> Vec<RoundPart> {
        let turn = |(round, pairs): (u32, &Vec<Pair>)| {
            let pair = pairs.iter().find(|pair| pair.first == node || pair.second == node)?;
            let first = pair.first == node;
            Some(RoundPart { round, peer: if first { pair.second } else { pair.first }, first })
        };
        self.numbered().filter_map(turn).collect()
    }

    /// How long nodes may take for all of it, so that every round has its time although everything before it was waited for in vain.
    /// A pair that meets at the end of the last round has as long again.
    #[must_use]
    pub fn limit(&self) -> Duration {
        let rounds = u32::try_from(self.rounds.len()).unwrap_or(u32::MAX);
        if rounds == 0 { Duration::ZERO } else { WARM + ROUND.saturating_mul(rounds.saturating_add(1)) }
    }

    /// How many pairs there are in all rounds.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.rounds.iter().map(Vec::len).sum()
    }
}

/// The rounds for a gang. The same seed gives the same rounds. A gang of one has none.
#[must_use]
pub fn plan(gang: &Gang, seed: u64, budget: Budget) -> Plan {
    if gang.nodes < 2 || gang.rails.is_empty() {
        return Plan::default();
    }
    let mut random = Random::new(seed);
    let odd = gang.nodes % 2;
    // Who is paired with the seat beyond the last node has nobody in that round.
    let seats = gang.nodes + odd;
    let mut nodes: Vec<u32> = (0..gang.nodes).collect();
    shuffle(&mut nodes, &mut random);
    let mut all: Vec<u32> = (0..seats - 1).collect();
    shuffle(&mut all, &mut random);
    // Everybody sits out once in all rounds of an odd gang.
    all.truncate((budget.partners.max(1) + odd) as usize);
    let wanted = all.len().max(budget.rounds_min as usize);
    let rounds = all.iter().cycle().take(wanted).enumerate();
    Plan { first: 0, rounds: rounds.map(|(at, round)| pairs(&nodes, seats, *round, at)).collect() }
}

/// One round of the circle method. Who begins changes from pair to pair and from round to round.
fn pairs(nodes: &[u32], seats: u32, round: u32, at: usize) -> Vec<Pair> {
    let circle = seats - 1;
    let seat = |seat: u32| nodes.get(seat as usize).copied();
    let pair = |step: u32| {
        let (a, b) = match step {
            0 => (round, circle),
            _ => ((round + step) % circle, (round + circle - step) % circle),
        };
        let (first, second) = (seat(a)?, seat(b)?);
        let turned = (step as usize + at) % 2 == 1;
        Some(if turned { Pair { first: second, second: first } } else { Pair { first, second } })
    };
    (0..seats / 2).filter_map(pair).collect()
}

fn shuffle(values: &mut [u32], random: &mut Random) {
    for last in (1..values.len()).rev() {
        values.swap(last, random.below(last as u64 + 1) as usize);
    }
}
