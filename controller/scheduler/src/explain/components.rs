//! Gangs whose nodes are not all alike: what stands in the way of the component that lacks most.

use controller_topology::NodeIx;

use super::{
    alike::{Explanation, explain as explain_alike},
    cause::{Blocker, Cause, QueueFacts},
};
use crate::{
    choice::Choice,
    place::{Hidden, Need, Placer},
    snapshot::Snapshot,
};

/// Explains the component of which the fewest of its nodes can be had; where each could have all of its own, the one with the fewest to
/// choose from. What would help is not looked for: it would be said of fields that such a job does not have.
pub(super) fn explain<J: Ord, N: IntoIterator<Item = NodeIx>>(
    snapshot: &Snapshot,
    placer: &mut Placer,
    need: &Need,
    facts: &QueueFacts<'_>,
    holders: impl IntoIterator<Item = (J, N)>,
) -> Explanation<J> {
    let capacity_index = snapshot.capacity_index();
    let hidden = Hidden::of(capacity_index, facts.kept.iter().flat_map(|kept| kept.nodes.iter()));
    let fits = placer.choose(capacity_index, need, Some(&hidden), &mut Choice::default());
    let asked = need.gpus_in_all(need.nodes);
    let short = facts.quota.map_or(0, |left| asked.saturating_sub(left));
    let part = |at: usize| need.of_components(|other| other == at);
    let facts = QueueFacts { quota: None, ..*facts };
    let lacks = |at: &usize| {
        let nobody: [(u8, [NodeIx; 0]); 0] = [];
        let found = explain_alike(snapshot, placer, &part(*at), &facts, nobody);
        let missing = need.components[*at].nodes.saturating_sub(found.reach);
        (std::cmp::Reverse(missing), found.free.saturating_sub(need.components[*at].nodes))
    };
    let worst = (0..need.components.len()).min_by_key(lacks).unwrap_or(0);
    let mut found = explain_alike(snapshot, placer, &part(worst), &facts, holders);
    found.relaxations.clear();
    found.starts = fits && short == 0;
    if short > 0 {
        let lost = u32::try_from(short).unwrap_or(u32::MAX);
        found.blockers.push(Blocker { cause: Cause::Quota, lost, alone: 0 });
    }
    found
}
