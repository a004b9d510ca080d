//! Can lossless traffic wait for itself? A proof that it cannot, under any one or two failures, or the cycle of buffers in which it does.
//!
//! A switch that may not drop stops its neighbour; who is stopped fills its own buffer and stops the next. A packet that came over
//! the link a -> b and leaves over b -> c holds a buffer of the first while it waits for the second: that is a dependency, and without a
//! cycle of dependencies there is no deadlock (Dally and Seitz, 1987; for PFC: Hu et al., "Deadlocks in Datacenter Networks", HotNets
//! 2016, and "Tagger", CoNEXT 2017). Routes that go up and then down give none, whatever fails. A route with a valley, down and
//! up again, may.
//!
//! Failures that are alike are one case: switches with the same neighbours are interchangeable, so that a two-tier fabric of any size has a dozen
//! cases ([`orbit`]). A case is first looked at with all its alike switches drawn as one: where that has no cycle, the fabric has none.
//! Where it has one, the fabric is looked at as it is.

mod bench;
mod case;
mod depend;
mod fabric;
mod graph;
mod orbit;
mod prune;
mod routes;
#[cfg(test)]
mod tests;

pub use bench::{Clos, Run};
pub use fabric::{BadFabric, Fabric, Failure, StaticRoute, Switch};
pub use graph::SwitchTurn;
pub use prune::Prune;
pub use routes::Routing;

use case::Network;
use orbit::Classes;

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Failures at the same time, at most 2.
    pub failures: u8,
    /// Cases that are looked at, at most.
    pub cases: u64,
}

impl Default for Limits {
    /// Two failures, two million cases.
    fn default() -> Self {
        Limits { failures: 2, cases: 2_000_000 }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// No set of so many failures gives a cycle.
    Proof(Proof),
    /// These failures give this cycle.
    Cycle(Box<Cycle>),
    /// There are more cases than the limit; those that were looked at have no cycle.
    Undecided(Proof),
}

/// How much a proof covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// Sets of failures, the empty one included.
    pub covered: u64,
    /// Of them unlike each other, and looked at.
    pub checked: u64,
    /// No route of any case goes down and up again: no further failure would change the answer either.
    pub valley_free: bool,
}

/// A cycle of buffers that wait for each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// What has failed.
    pub failures: Vec<Failure>,
    /// Links in their order, as (from, to); each waits for the next, the last for the first.
    pub links: Vec<(usize, usize)>,
    /// What to forbid so that there is none.
    pub prune: Prune,
    /// Cases that were looked at.
    pub checked: u64,
}

/// Looks at every set of failures, the smallest first.
#[must_use]
pub fn prove(fabric: &Fabric, routing: Routing, limits: Limits) -> Answer {
    let classes = Classes::of(fabric);
    let mut proof = Proof { covered: fabric.failure_sets(limits.failures), checked: 0, valley_free: true };
    for failures in orbit::cases(fabric, &classes, limits.failures) {
        if proof.checked == limits.cases {
            return Answer::Undecided(proof);
        }
        proof.checked += 1;
        let drawn = depend::graph(&orbit::quotient(fabric, &classes, &failures), routing);
        proof.valley_free &= !drawn.has_valley;
        if drawn.graph.cycle().is_none() {
            continue;
        }
        let whole = depend::graph(&Network::of(fabric, &failures), routing);
        let Some(links) = whole.graph.cycle() else { continue };
        let prune = prune::smallest(&whole.graph, fabric);
        return Answer::Cycle(Box::new(Cycle { failures, links, prune, checked: proof.checked }));
    }
    Answer::Proof(proof)
}

impl Cycle {
    /// The cycle in words, with names.
    #[must_use]
    pub fn describe(&self, fabric: &Fabric) -> String {
        let name = |switch: usize| fabric.switches()[switch].name.as_str();
        let failed = self.failures.iter().map(|failure| match failure {
            Failure::Link(link) => {
                let (a, b) = fabric.links()[*link];
                format!("the link {} - {}", name(a), name(b))
            }
            Failure::Switch(switch) => format!("switch {}", name(*switch)),
        });
        let failed: Vec<String> = failed.collect();
        let failed = if failed.is_empty() { "nothing".to_owned() } else { failed.join(" and ") };
        let links: Vec<String> =
            self.links.iter().map(|(from, to)| format!("{} -> {}", name(*from), name(*to))).collect();
        format!(
            "with {failed} failed, buffers wait in a cycle: {}; {}",
            links.join(", "),
            self.prune.describe(fabric)
        )
    }
}
