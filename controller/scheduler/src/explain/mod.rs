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

mod census;
mod components;
mod reach;
mod relax;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use controller_topology::NodeIx;
use proto_model::{Group, IsolationFeature, Taint, Term, Thing, Within};

pub(crate) use census::Census;
pub use census::Tally;
use reach::{Bounds, Fields};
pub use relax::{Change, Relaxation};

use crate::{
    place::{Hidden, Need, Placer, RailNeed},
    snapshot::{NodeSet, Snapshot},
};

/// Jobs that are named as holders at most.
pub const HOLDERS: usize = 64;

/// A constraint that stands in a gang's way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The node has too few GPUs.
    GpuShape,
    /// Jobs hold too many of its GPUs.
    GpusHeld,
    /// The node has too few CPUs.
    CpuShape,
    /// Jobs hold too many of its CPUs.
    CpusHeld,
    /// Its agent does not report its CPUs, so that it has none to give.
    CpusUnknown,
    /// The node has too little memory.
    MemoryShape,
    /// Jobs hold too much of its memory.
    MemoryHeld,
    /// Its agent does not report its memory, so that it has none to give.
    MemoryUnknown,
    /// A job that wants nobody beside it holds the node.
    HeldAlone,
    /// The job wants nobody beside it, and somebody is there.
    Shared,
    /// Another tenant's job is there, and the node cannot keep the two apart.
    OtherTenant,
    /// The node does not give this, and the job must have it.
    Isolation(IsolationFeature),
    /// No cabled NIC on this rail; `None`: on too many rails.
    RailMissing(Option<u32>),
    /// The NIC of this rail is down; `None`: too many are.
    RailDown(Option<u32>),
    /// A job holds the NIC of this rail; `None`: of too many rails.
    RailHeld(Option<u32>),
    /// A rail that the job would use there is drained, or too many are, and it does not want drained ones.
    RailDrained,
    /// An administrator closed the node.
    Unschedulable,
    /// The node is not heard from.
    NotReady,
    /// Its agent is not connected.
    Away,
    /// It still ends processes of an older attempt.
    Draining,
    /// A condition on labels.
    Label(Term),
    /// Its GPUs are not all of models that will do, or it has none.
    GpuModel,
    /// Of some of its GPUs nobody knows the model.
    GpuModelUnknown,
    /// A taint that the job does not tolerate.
    Taint(Taint),
    /// The job does not want these nodes.
    Excluded,
    /// Nodes kept for others: a reservation, a maintenance window, a job ahead.
    Withheld(Thing),
    /// The gang must stay in one place.
    Confined(Within),
    /// Groups of the gang must not be split.
    Grouped(Group),
    /// All nodes must share their rails, and reach one another on them.
    Aligned,
    /// Nodes that are to idle beside the gang.
    Spares,
    /// The tenant's quota, in GPUs.
    Quota,
}

impl Cause {
    /// Whether it is about what jobs hold: an end of jobs removes it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(
            self,
            Self::GpusHeld
                | Self::CpusHeld
                | Self::MemoryHeld
                | Self::HeldAlone
                | Self::Shared
                | Self::OtherTenant
                | Self::RailHeld(_)
        )
    }

    /// Whether it is about the gang as a whole, not about single nodes.
    #[must_use]
    pub fn is_of_gang(&self) -> bool {
        matches!(self, Self::Confined(_) | Self::Grouped(_) | Self::Aligned | Self::Spares)
    }
}

/// A constraint with its counts; see the module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocker {
    /// The constraint that is in the way.
    pub cause: Cause,
    /// Nodes that it costs; GPUs for a quota.
    pub lost: u32,
    /// Nodes that it alone costs.
    pub alone: u32,
}

/// Free nodes that are not for this job.
#[derive(Debug, Clone, Copy)]
pub struct WithheldNodes<'a> {
    /// The job or reservation that they are withheld for.
    pub thing: &'a Thing,
    /// The nodes that are withheld.
    pub nodes: &'a NodeSet,
}

/// What the queue knows and the snapshot does not.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueFacts<'a> {
    /// Nodes kept for others.
    pub kept: &'a [WithheldNodes<'a>],
    /// GPUs that the tenant may still take; `None`: it may take any number.
    pub quota: Option<u64>,
}

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

/// Explains why a gang cannot start. `holders` are the jobs that hold something, with their nodes.
pub fn explain<J: Ord, N: IntoIterator<Item = NodeIx>>(
    snapshot: &Snapshot,
    placer: &mut Placer,
    need: &Need,
    facts: &QueueFacts<'_>,
    holders: impl IntoIterator<Item = (J, N)>,
) -> Explanation<J> {
    if !need.components.is_empty() {
        return components::explain(snapshot, placer, need, facts, holders);
    }
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

fn nodes(census: &Census) -> Vec<Blocker> {
    let named = |(cause, tally): &(Cause, Tally)| Blocker {
        cause: cause.clone(),
        lost: tally.lost,
        alone: tally.alone,
    };
    census.causes.iter().map(named).collect()
}

fn gang(snapshot: &Snapshot, need: &Need, fields: &Fields) -> Vec<Blocker> {
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
fn who<J: Ord, N: IntoIterator<Item = NodeIx>>(
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
