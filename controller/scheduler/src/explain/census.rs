//! Every node looked at once: which constraints keep it from the gang.

use std::collections::BTreeMap;

use controller_topology::{NodeIx, RailSet};
use proto_model::IsolationFeature;

use super::cause::{Cause, WithheldNodes};
use crate::{
    capacity::{Allocated, Gate},
    capacity_index::{Filter, Models, Record, Traits},
    place::{Need, RailNeed},
    snapshot::Snapshot,
};

/// Nodes that a constraint keeps away, and those that nothing else keeps away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tally {
    /// All that do not fulfil it.
    pub lost: u32,
    /// Those that fulfil everything else.
    pub alone: u32,
}

/// How many nodes each constraint keeps from the gang, over all nodes of the cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Census {
    /// Nodes of the cluster.
    pub(crate) nodes: u32,
    /// Those that the gang could have.
    pub(crate) free: u32,
    /// Constraints that keep a node away at least, in the order of [`Cause`].
    pub(crate) causes: Vec<(Cause, Tally)>,
    /// Nodes that nothing keeps away but what jobs hold there, as a bitmap by index.
    pub(crate) busy: Vec<u64>,
}

/// Numbers of the constraints that every need has; others follow.
mod fixed {
    pub(super) const EXCLUDED: usize = 0;
    pub(super) const UNSCHEDULABLE: usize = 1;
    pub(super) const NOT_READY: usize = 2;
    pub(super) const AWAY: usize = 3;
    pub(super) const DRAINING: usize = 4;
    pub(super) const GPU_SHAPE: usize = 5;
    pub(super) const GPUS_HELD: usize = 6;
    pub(super) const HELD_ALONE: usize = 7;
    pub(super) const SHARED: usize = 8;
    pub(super) const FEW_MISSING: usize = 9;
    pub(super) const FEW_DOWN: usize = 10;
    pub(super) const FEW_HELD: usize = 11;
    pub(super) const OTHER_TENANT: usize = 12;
    pub(super) const MODEL: usize = 13;
    pub(super) const MODEL_UNKNOWN: usize = 14;
    pub(super) const RAIL_DRAINED: usize = 15;
    /// Of CPUs, then of memory: not reported, too few, held.
    pub(super) const CPUS: usize = 16;
    pub(super) const MEMORY: usize = 19;
    pub(super) const ISOLATION: usize = 22;
    pub(super) const RAILS: usize = ISOLATION + proto_model::IsolationFeature::ALL.len();
}

/// In the order of their numbers.
const HOST: [Cause; 6] = [
    Cause::CpusUnknown,
    Cause::CpuShape,
    Cause::CpusHeld,
    Cause::MemoryUnknown,
    Cause::MemoryShape,
    Cause::MemoryHeld,
];

/// A set of nodes as a bitmap by index.
pub(crate) fn bitmap(slots: usize, nodes: impl Iterator<Item = NodeIx>) -> Vec<u64> {
    let mut set = vec![0_u64; slots.div_ceil(64)];
    for node in nodes {
        if let Some(word) = set.get_mut(node.index() / 64) {
            *word |= 1 << (node.index() % 64);
        }
    }
    set
}

pub(crate) fn has(set: &[u64], node: NodeIx) -> bool {
    set.get(node.index() / 64).is_some_and(|word| word >> (node.index() % 64) & 1 == 1)
}

/// One census at work.
struct Count<'a> {
    need: &'a Need,
    tallies: Vec<Tally>,
    /// Causes of the node at hand: how many, and the last.
    hits: u32,
    last: usize,
    /// Some of them is not about what jobs hold.
    lasting: bool,
}

impl Count<'_> {
    fn hit(&mut self, cause: usize, held: bool) {
        self.tallies[cause].lost += 1;
        self.hits += 1;
        self.last = cause;
        self.lasting |= !held;
    }

    /// A node that takes no new job at the moment: every cause of it.
    fn closed(&mut self, gate: &Gate) {
        for (cause, yes) in [
            (fixed::UNSCHEDULABLE, gate.unschedulable),
            (fixed::NOT_READY, gate.not_ready),
            (fixed::AWAY, gate.away && !gate.not_ready),
            (fixed::DRAINING, gate.draining),
        ] {
            if yes {
                self.hit(cause, false);
            }
        }
    }

    /// CPUs or memory: the cause that lasts longest.
    fn host<T: PartialOrd + Default>(&mut self, first: usize, asked: T, has: T, free: T) {
        if free >= asked {
        } else if has == T::default() {
            self.hit(first, false);
        } else if has < asked {
            self.hit(first + 1, false);
        } else {
            self.hit(first + 2, true);
        }
    }

    /// Of `undrained` rails it may be.
    fn node(&mut self, record: &Record, undrained: RailSet) {
        let need = self.need;
        if record.gpus.count_ones() < need.gpus {
            self.hit(fixed::GPU_SHAPE, false);
        } else if (record.gpus & !record.held.gpus).count_ones() < need.gpus {
            self.hit(fixed::GPUS_HELD, true);
        }
        let (asked, has, free) = (need.host, record.host, record.host.without(record.held.host));
        self.host(fixed::CPUS, asked.cpus, has.cpus, free.cpus);
        self.host(fixed::MEMORY, asked.memory, has.memory, free.memory);
        if record.held.whole {
            self.hit(fixed::HELD_ALONE, true);
        }
        if need.exclusive && record.held != Allocated::default() {
            self.hit(fixed::SHARED, true);
        }
        let free = record.usable.without(record.held.rails);
        match need.rails {
            RailNeed::Any(count) => {
                if record.present.len() < count {
                    self.hit(fixed::FEW_MISSING, false);
                } else if record.usable.len() < count {
                    self.hit(fixed::FEW_DOWN, false);
                } else if undrained.len() < count {
                    self.hit(fixed::RAIL_DRAINED, false);
                } else if free.len() < count {
                    self.hit(fixed::FEW_HELD, true);
                } else if free.and(undrained).len() < count {
                    // The end of a job removes this cause as well.
                    self.hit(fixed::RAIL_DRAINED, true);
                }
            }
            RailNeed::Exactly(rails) if free.covers(rails) => {}
            RailNeed::Exactly(rails) => {
                let mut each = |rails: RailSet, kind: usize| {
                    for rail in rails.iter() {
                        self.hit(fixed::RAILS + rail as usize * 3 + kind, kind == 2);
                    }
                };
                each(rails.without(record.present), 0);
                each(rails.and(record.present).without(record.usable), 1);
                each(rails.and(record.usable).and(record.held.rails), 2);
            }
        }
    }
}

/// What of a class of nodes, beside labels and taints, keeps a job away.
fn of_class(filter: &Filter, traits: &Traits, hits: &mut Vec<usize>) {
    let missing = filter.isolation.without(traits.isolation);
    hits.extend(missing.iter().map(|feature| fixed::ISOLATION + feature as usize));
    if !filter.drained(traits).is_empty() {
        hits.push(fixed::RAIL_DRAINED);
    }
    match filter.models(traits) {
        Models::Asked => {}
        Models::Others => hits.push(fixed::MODEL),
        Models::Unknown => hits.push(fixed::MODEL_UNKNOWN),
    }
}

impl Census {
    /// Looks at every node.
    pub(crate) fn of(snapshot: &Snapshot, need: &Need, kept: &[WithheldNodes<'_>]) -> Self {
        let (capacity_index, slots) = (snapshot.capacity_index(), snapshot.topology().slots());
        let rails = RailSet::MAX as usize;
        let first_kept = fixed::RAILS + rails * 3;
        let first_term = first_kept + kept.len();
        let first_taint = first_term + need.filter.selector.len();
        // Labels and taints once per class.
        let mut taints = BTreeMap::new();
        let mut classes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (class, traits) in capacity_index.classes().used() {
            let terms = need.filter.selector.iter().enumerate();
            let mut hits: Vec<usize> = terms
                .filter(|(_, term)| !term.holds(&traits.labels))
                .map(|(at, _)| first_term + at)
                .collect();
            for taint in need.filter.untolerated(traits) {
                let next = first_taint + taints.len();
                hits.push(*taints.entry(taint.clone()).or_insert(next));
            }
            of_class(&need.filter, traits, &mut hits);
            if !hits.is_empty() {
                classes.insert(class, hits);
            }
        }
        let excluded = bitmap(slots, need.barred(capacity_index));
        let keeps: Vec<Vec<u64>> = kept.iter().map(|kept| bitmap(slots, kept.nodes.iter())).collect();
        let tallies = vec![Tally::default(); first_taint + taints.len()];
        let mut count = Count { need, tallies, hits: 0, last: 0, lasting: false };
        let mut census = Self { busy: vec![0; slots.div_ceil(64)], ..Self::default() };
        for (node, record) in capacity_index.records_by_node() {
            census.nodes += 1;
            (count.hits, count.lasting) = (0, false);
            for cause in classes.get(&record.class).into_iter().flatten() {
                count.hit(*cause, false);
            }
            if has(&excluded, node) {
                count.hit(fixed::EXCLUDED, false);
            }
            if !record.open {
                count.closed(&snapshot.capacity(node).gate);
            }
            for (at, set) in keeps.iter().enumerate() {
                if has(set, node) {
                    count.hit(first_kept + at, false);
                }
            }
            if need.tenant.as_ref().is_some_and(|tenant| capacity_index.is_closed_to(node, tenant)) {
                count.hit(fixed::OTHER_TENANT, true);
            }
            count.node(
                record,
                need.filter.rails_of(capacity_index.classes().traits(record.class), record.usable),
            );
            match count.hits {
                0 => census.free += 1,
                1 => count.tallies[count.last].alone += 1,
                _ => {}
            }
            if count.hits > 0 && !count.lasting {
                census.busy[node.index() / 64] |= 1 << (node.index() % 64);
            }
        }
        census.name(need, kept, &taints, &count.tallies);
        census
    }

    /// Names what was counted.
    fn name(
        &mut self,
        need: &Need,
        kept: &[WithheldNodes<'_>],
        taints: &BTreeMap<crate::Taint, usize>,
        tallies: &[Tally],
    ) {
        let first_kept = fixed::RAILS + RailSet::MAX as usize * 3;
        let rail = |at: usize| u32::try_from((at - fixed::RAILS) / 3).unwrap_or(u32::MAX);
        let cause = |at: usize| match at {
            fixed::EXCLUDED => Some(Cause::Excluded),
            fixed::UNSCHEDULABLE => Some(Cause::Unschedulable),
            fixed::NOT_READY => Some(Cause::NotReady),
            fixed::AWAY => Some(Cause::Away),
            fixed::DRAINING => Some(Cause::Draining),
            fixed::GPU_SHAPE => Some(Cause::GpuShape),
            fixed::GPUS_HELD => Some(Cause::GpusHeld),
            fixed::HELD_ALONE => Some(Cause::HeldAlone),
            fixed::SHARED => Some(Cause::Shared),
            fixed::FEW_MISSING => Some(Cause::RailMissing(None)),
            fixed::FEW_DOWN => Some(Cause::RailDown(None)),
            fixed::FEW_HELD => Some(Cause::RailHeld(None)),
            fixed::OTHER_TENANT => Some(Cause::OtherTenant),
            fixed::RAIL_DRAINED => Some(Cause::RailDrained),
            fixed::MODEL => Some(Cause::GpuModel),
            fixed::MODEL_UNKNOWN => Some(Cause::GpuModelUnknown),
            at if at < fixed::ISOLATION => HOST.get(at - fixed::CPUS).cloned(),
            at if at < fixed::RAILS => {
                IsolationFeature::ALL.get(at - fixed::ISOLATION).map(|feature| Cause::Isolation(*feature))
            }
            at if at < first_kept => Some(match (at - fixed::RAILS) % 3 {
                0 => Cause::RailMissing(Some(rail(at))),
                1 => Cause::RailDown(Some(rail(at))),
                _ => Cause::RailHeld(Some(rail(at))),
            }),
            at if at < first_kept + kept.len() => Some(Cause::Withheld(kept[at - first_kept].thing.clone())),
            at => {
                let term = need.filter.selector.get(at - first_kept - kept.len());
                term.map(|term| Cause::Label(term.clone()))
            }
        };
        let by_number: BTreeMap<usize, &crate::Taint> =
            taints.iter().map(|(taint, number)| (*number, taint)).collect();
        for (at, tally) in tallies.iter().enumerate().filter(|(_, tally)| tally.lost > 0) {
            let named = by_number.get(&at).map(|taint| Cause::Taint((*taint).clone()));
            if let Some(cause) = named.or_else(|| cause(at)) {
                self.causes.push((cause, *tally));
            }
        }
        self.causes.sort();
    }
}
