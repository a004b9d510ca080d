//! Why a gang cannot start now: every constraint in its way, who holds what it waits for, and the least that would have
//! to be given up for it to start.
//!
//! What complete means here, and what the tests compare with brute force:
//! 1. **Nodes.** A constraint on single nodes (a label, a taint, an exclusion, GPUs, a rail, a gate, nodes kept for
//!    others) is named if and only if a node does not fulfil it. Its count is the number of such nodes, each constraint
//!    by itself, so that a node is counted under every one of its causes. `alone` is the number of nodes that the
//!    constraint alone keeps away: without it the gang could choose from exactly so many nodes more. Of GPUs, of CPUs, of
//!    memory, and of rails where any will do, a node has one cause, the one that lasts longest: missing, then down, then held.
//! 2. **The gang.** The reach of a need is the most nodes, up to what it asks, that a gang with the same groups, spares
//!    and confinement could have now. A constraint on the gang as a whole (confinement to a pod or leaves, a required
//!    group, spares, common rails) is named if and only if there is a set of the other such constraints without which
//!    thinking this one away too makes the reach larger. Its count is the largest such gain in nodes; `alone` is the gain
//!    when it alone is thought away.
//! 3. **Relaxations.** Each was tried by really placing the gang with it. A set of changes is as small as can be: no set
//!    of fewer changes helps, and of each set that helps the amounts are the least. The amount of a change is the share
//!    of what was asked that is given up, in thousandths: a requirement that is dropped counts a thousand.

mod alike;
mod cause;
mod census;
mod components;
mod reach;
mod relax;
#[cfg(test)]
mod tests;

use controller_topology::NodeIx;

use crate::{
    place::{Need, Placer},
    snapshot::Snapshot,
};

pub(crate) use alike::summary;
pub use alike::{Explanation, HOLDERS, Holder};
pub use cause::{Blocker, Cause, QueueFacts, WithheldNodes};
pub use census::Tally;
pub use relax::{Change, Relaxation};

/// Explains why a gang cannot start. `holders` are the jobs that hold something, with their nodes.
pub fn explain<J: Ord, N: IntoIterator<Item = NodeIx>>(
    snapshot: &Snapshot,
    placer: &mut Placer,
    need: &Need,
    facts: &QueueFacts<'_>,
    holders: impl IntoIterator<Item = (J, N)>,
) -> Explanation<J> {
    if need.components.is_empty() {
        alike::explain(snapshot, placer, need, facts, holders)
    } else {
        components::explain(snapshot, placer, need, facts, holders)
    }
}
