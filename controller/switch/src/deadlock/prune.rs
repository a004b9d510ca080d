//! The least to forbid so that no buffers wait in a cycle.

use std::collections::BTreeSet;

use super::fabric::Fabric;
use super::graph::{Graph, SwitchTurn};

/// A list of turns is given up to this length; beyond it the rule is.
const TURNS: usize = 8;
/// Waits that are looked at in search of a shorter list, at most: so many in all graphs of the search together.
const WAITS: usize = 200_000_000;

/// What to forbid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prune {
    /// These turns alone.
    Turns {
        /// The turns.
        turns: Vec<SwitchTurn>,
        /// No shorter list does it.
        is_smallest: bool,
    },
    /// At every switch: what came from above in a lossless class never goes up again. More turns than can be listed would be needed.
    UpDownRule,
}

/// Finds the shortest list of turns without which the graph has no cycle: of any cycle one turn must go. Cycles that share no turn say how long
/// it is at least.
pub(super) fn smallest(graph: &Graph, fabric: &Fabric) -> Prune {
    let mut core = graph.core();
    let Some(least) = apart(&core) else { return Prune::UpDownRule };
    let mut looks = u32::try_from(WAITS / (core.size() + 1)).unwrap_or(u32::MAX).min(20_000);
    for most in least..=TURNS {
        let mut forbidden = BTreeSet::new();
        if search(&mut core, fabric, &mut forbidden, most, &mut looks) {
            return Prune::Turns { turns: forbidden.into_iter().collect(), is_smallest: looks > 0 };
        }
        if looks == 0 {
            break;
        }
    }
    Prune::UpDownRule
}

/// How many cycles there are that share no turn, as far as they are found; `None` if more than could be pruned one by one.
fn apart(graph: &Graph) -> Option<usize> {
    let mut left = graph.clone();
    let mut count = 0;
    while let Some(cycle) = left.turns() {
        count += 1;
        if count > TURNS {
            return None;
        }
        cycle.into_iter().for_each(|turn| left.permit(turn, false));
    }
    Some(count)
}

fn search(
    graph: &mut Graph,
    fabric: &Fabric,
    forbidden: &mut BTreeSet<SwitchTurn>,
    most: usize,
    looks: &mut u32,
) -> bool {
    let Some(cycle) = graph.turns() else { return true };
    if forbidden.len() == most || *looks == 0 {
        return false;
    }
    *looks -= 1;
    // A turn from above back up is what no route should have: it is tried first.
    let tier = |switch: usize| fabric.switches()[switch].tier;
    let valley = |turn: &SwitchTurn| tier(turn.from) > tier(turn.at) && tier(turn.to) > tier(turn.at);
    let mut turns = cycle;
    turns.sort_by_key(|turn| !valley(turn));
    for turn in turns {
        forbidden.insert(turn);
        graph.permit(turn, false);
        if search(graph, fabric, forbidden, most, looks) {
            return true;
        }
        forbidden.remove(&turn);
        graph.permit(turn, true);
    }
    false
}

impl Prune {
    /// What to do, in words, with names.
    #[must_use]
    pub fn describe(&self, fabric: &Fabric) -> String {
        let name = |switch: usize| fabric.switches()[switch].name.as_str();
        match self {
            Prune::Turns { turns, .. } => {
                let each = |turn: &SwitchTurn| {
                    format!("{}: from {} to {}", name(turn.at), name(turn.from), name(turn.to))
                };
                let turns: Vec<String> = turns.iter().map(each).collect();
                format!("forbid lossless traffic to turn at {}", turns.join("; at "))
            }
            Prune::UpDownRule => {
                "route up and then down only: lossless traffic that comes from above never goes up again"
                    .to_owned()
            }
        }
    }
}
