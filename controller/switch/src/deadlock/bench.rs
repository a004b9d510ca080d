//! Fabrics of a given size, and what proving them takes: row F3.

use super::{Answer, Fabric, Limits, Routing, StaticRoute, Switch, prove};

/// A fabric of two tiers in which every leaf has a link to every spine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clos {
    /// Leaves of each rail.
    pub leaves: usize,
    /// Spines of each rail.
    pub spines: usize,
    /// Rails, each with leaves and spines of its own.
    pub rails: usize,
}

impl Clos {
    /// The fabric. With `valley`, a static route of spine 0 of rail 0 to leaf 0 goes over leaf 1, and one of spine 1 to leaf 1 over leaf 0: traffic goes down,
    /// up and down again.
    #[must_use]
    pub fn fabric(self, valley: bool) -> Option<Fabric> {
        let (mut switches, mut links) = (Vec::new(), Vec::new());
        for rail in 0..self.rails {
            let first = switches.len();
            let leaf = |leaf| Switch { name: format!("r{rail}-leaf{leaf}"), tier: 0, serves: true };
            let spine = |spine| Switch { name: format!("r{rail}-spine{spine}"), tier: 1, serves: false };
            switches.extend((0..self.leaves).map(leaf));
            switches.extend((0..self.spines).map(spine));
            let spines = (0..self.spines).map(|spine| first + self.leaves + spine);
            links.extend(spines.flat_map(|spine| (0..self.leaves).map(move |leaf| (first + leaf, spine))));
        }
        let spine = self.leaves;
        let planted = [
            StaticRoute { at: spine, to: 0, over: 1 },
            StaticRoute { at: spine + 1, to: 1, over: 0 },
            StaticRoute { at: 1, to: 0, over: spine + 1 },
            StaticRoute { at: 0, to: 1, over: spine },
        ];
        let routes = if valley { planted.to_vec() } else { Vec::new() };
        Fabric::new(switches, &links, routes).ok()
    }
}

/// What one run says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The proof, or the cycle.
    pub answer: Answer,
    /// The cycle in words, where there is one.
    pub description: Option<String>,
}

impl Run {
    /// Proves a fabric of two tiers under all single and double failures.
    #[must_use]
    pub fn of(size: Clos, valley: bool, routing: Routing) -> Option<Run> {
        let fabric = size.fabric(valley)?;
        let answer = prove(&fabric, routing, Limits::default());
        let description = match &answer {
            Answer::Cycle(cycle) => Some(cycle.describe(&fabric)),
            Answer::Proof(_) | Answer::Undecided(_) => None,
        };
        Some(Run { answer, description })
    }
}
