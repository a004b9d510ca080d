//! Gangs whose nodes are all alike: every constraint of nodes and of the gang, who holds what, and what would help.

use crate::Blocker;
use crate::Cause;
use crate::QueueFacts;
use crate::WithheldNodes;
use crate::explain::relax;
use std::cmp::Reverse;

use controller_topology::NodeIx;
use proto_model::Within;

use super::{
    census::{self, Census, Tally},
    reach::{Bounds, Fields},
    relax::Relaxation,
};
use crate::{
    place::{Hidden, Need, Placer, RailNeed},
    snapshot::Snapshot,
};

/// A job that holds what the gang waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder<J> {
    /// The job that holds something.
    pub job: J,
    /// Nodes on which it holds something, and which nothing but what jobs hold there keeps from the gang.
    pub nodes: u32,
}

/// Why a gang cannot start now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation<J> {
    /// Nodes of the cluster.
    pub nodes: u32,
    /// Nodes that the gang could choose from.
    pub free: u32,
    /// The most nodes, up to what it asks, that a gang of this kind could have now.
    pub reach: u32,
    /// Whether nothing stands in its way.
    pub starts: bool,
    /// Every constraint in its way.
    pub blockers: Vec<Blocker>,
    /// Who holds what it waits for, those with the most nodes first.
    pub holders: Vec<Holder<J>>,
    /// Holders that are not in the list, by their number; 0 if it is complete.
    pub holders_omitted: u32,
    /// The least that would have to be given up, the smallest amount first; empty if nothing short of waiting helps, or
    /// if nothing needs to.
    pub relaxations: Vec<Relaxation>,
}

/// Jobs that are named as holders at most.
pub const HOLDERS: usize = 64;

/// What [`summary`] gives: the nodes of the cluster, those that are free for the gang, its reach, and its
/// blockers.
pub(crate) struct ExplainSummary {
    pub(crate) nodes: u32,
    pub(crate) free: u32,
    pub(crate) reach: u32,
    pub(crate) blockers: Vec<Blocker>,
}

/// Every constraint of nodes and gang, without who holds what and what would help.
pub(crate) fn summary(snapshot: &Snapshot, need: &Need, kept: &[WithheldNodes<'_>]) -> ExplainSummary {
    let capacity_index = snapshot.capacity_index();
    let hidden = Hidden::of(capacity_index, kept.iter().flat_map(|kept| kept.nodes.iter()));
    let fields = Fields::of(&mut Placer::default(), capacity_index, need, Some(&hidden));
    let reach = fields.reach(capacity_index, need, &Bounds::of(need));
    let census = Census::of(snapshot, need, kept);
    let mut blockers = nodes(&census);
    blockers.extend(gang(snapshot, need, &fields));
    ExplainSummary { nodes: census.nodes, free: census.free, reach, blockers }
}

pub(crate) fn nodes(census: &Census) -> Vec<Blocker> {
    let named = |(cause, tally): &(Cause, Tally)| Blocker {
        cause: cause.clone(),
        lost: tally.lost,
        alone: tally.alone,
    };
    census.causes.iter().map(named).collect()
}

pub(crate) fn gang(snapshot: &Snapshot, need: &Need, fields: &Fields) -> Vec<Blocker> {
    let capacity_index = snapshot.capacity_index();
    let mut causes: Vec<Cause> = Vec::new();
    if need.within < Within::Fabric {
        causes.push(Cause::Confined(need.within));
    }
    let groups = need.groups.iter().filter(|group| group.required && group.within < Within::Fabric);
    causes.extend(groups.filter(|group| group.size > 1).map(|group| Cause::Grouped(*group)));
    let split = match need.rails {
        RailNeed::Any(_) => true,
        RailNeed::Exactly(rails) => capacity_index.is_split(rails),
    };
    if split && need.nodes + need.spares > 1 {
        causes.push(Cause::Aligned);
    }
    if need.spares > 0 {
        causes.push(Cause::Spares);
    }
    // Far more groups than a job may have.
    causes.truncate(8);
    let without = |set: u32| -> u32 {
        let gone = |at: usize| set >> at & 1 == 1;
        let mut less = need.clone();
        let mut bounds = Bounds { aligned: true, ..Bounds::of(need) };
        for (at, cause) in causes.iter().enumerate().filter(|(at, _)| gone(*at)) {
            match cause {
                Cause::Confined(_) => bounds.within = Within::Fabric,
                Cause::Grouped(group) => {
                    if let Some(here) = less.groups.iter_mut().find(|other| *other == group) {
                        here.required = false;
                    }
                }
                Cause::Aligned => bounds.aligned = false,
                _ if gone(at) => bounds.spares = 0,
                _ => {}
            }
        }
        let units = Bounds::of(&less);
        (bounds.leaf_unit, bounds.pod_unit) = (units.leaf_unit, units.pod_unit);
        fields.reach(capacity_index, need, &bounds)
    };
    let reaches: Vec<u32> = (0..1_u32 << causes.len()).map(without).collect();
    let gain = |set: usize, at: usize| reaches[set | 1 << at].saturating_sub(reaches[set]);
    let blocker = |(at, cause): (usize, &Cause)| {
        let lost = (0..reaches.len()).filter(|set| set >> at & 1 == 0).map(|set| gain(set, at)).max();
        let lost = lost.filter(|lost| *lost > 0)?;
        Some(Blocker { cause: cause.clone(), lost, alone: gain(0, at) })
    };
    causes.iter().enumerate().filter_map(blocker).collect()
}

/// Who holds nodes that the gang could have if they ended.
pub(crate) fn who<J: Ord, N: IntoIterator<Item = NodeIx>>(
    census: &Census,
    holders: impl IntoIterator<Item = (J, N)>,
) -> (Vec<Holder<J>>, u32) {
    let mut found: Vec<Holder<J>> = holders
        .into_iter()
        .filter_map(|(job, nodes)| {
            let nodes = nodes.into_iter().filter(|node| census::has(&census.busy, *node)).count();
            (nodes > 0).then(|| Holder { job, nodes: u32::try_from(nodes).unwrap_or(u32::MAX) })
        })
        .collect();
    let order =
        |a: &Holder<J>, b: &Holder<J>| Reverse(a.nodes).cmp(&Reverse(b.nodes)).then(a.job.cmp(&b.job));
    let omitted = found.len().saturating_sub(HOLDERS);
    if omitted > 0 {
        found.select_nth_unstable_by(HOLDERS - 1, order);
        found.truncate(HOLDERS);
    }
    found.sort_unstable_by(order);
    (found, u32::try_from(omitted).unwrap_or(u32::MAX))
}

/// Explains why a gang of nodes that are all alike cannot start. `holders` are the jobs that hold something, with their nodes.
pub(super) fn explain<J: Ord, N: IntoIterator<Item = NodeIx>>(
    snapshot: &Snapshot,
    placer: &mut Placer,
    need: &Need,
    facts: &QueueFacts<'_>,
    holders: impl IntoIterator<Item = (J, N)>,
) -> Explanation<J> {
    let capacity_index = snapshot.capacity_index();
    let census = Census::of(snapshot, need, facts.kept);
    let hidden = Hidden::of(capacity_index, facts.kept.iter().flat_map(|kept| kept.nodes.iter()));
    let fields = Fields::of(placer, capacity_index, need, Some(&hidden));
    let mut blockers = nodes(&census);
    let reach = fields.reach(capacity_index, need, &Bounds::of(need));
    blockers.extend(gang(snapshot, need, &fields));
    let short = facts.quota.map_or(0, |left| relax::asked(need).saturating_sub(left));
    if short > 0 {
        let lost = u32::try_from(short).unwrap_or(u32::MAX);
        blockers.push(Blocker { cause: Cause::Quota, lost, alone: 0 });
    }
    let starts = short == 0 && reach == need.nodes;
    let (holders, holders_omitted) = if starts { (Vec::new(), 0) } else { who(&census, holders) };
    let relaxations =
        if starts { Vec::new() } else { relax::relaxations(snapshot, placer, need, facts, &hidden, &census) };
    Explanation {
        nodes: census.nodes,
        free: census.free,
        reach,
        starts,
        blockers,
        holders,
        holders_omitted,
        relaxations,
    }
}
