//! The least that would have to be given up for a gang to start now.

use std::{collections::BTreeMap, sync::Arc};

use controller_topology::RailSet;
use proto_model::{Group, Taint, Term, Toleration, Within};

use super::{
    cause::{Cause, QueueFacts},
    census::Census,
    reach::{Bounds, Fields},
};
use crate::{
    capacity_index::Filter,
    choice::Choice,
    place::{Hidden, Need, Placer, RailNeed},
    snapshot::Snapshot,
};

/// Constraints that are relaxed together at most.
const TOGETHER: usize = 4;

/// Needs that are counted for one explanation at most.
const COUNTED: usize = 400;

/// Relaxations that are given at most.
const GIVEN: usize = 16;

/// Taints, terms and groups that are thought away at most, each.
const EACH: usize = 8;

/// One constraint of a gang that is relaxed, with what was asked and what would be enough.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// A gang of fewer nodes.
    Nodes {
        /// Nodes that the gang asks for.
        from: u32,
        /// The most nodes with which it could start now.
        to: u32,
    },
    /// Fewer GPUs on each node.
    Gpus {
        /// GPUs that it asks for on each node.
        from: u32,
        /// The most GPUs a node with which it could start now.
        to: u32,
    },
    /// So many rails, whichever are common to all nodes.
    Rails {
        /// Rails that it asks for.
        from: u32,
        /// The most rails with which it could start now.
        to: u32,
    },
    /// A wider part of the fabric that the gang may spread over.
    Within {
        /// What the gang must stay within.
        from: Within,
        /// The narrowest confinement with which it could start now.
        to: Within,
    },
    /// These groups may be split.
    Split(Group),
    /// Others may share its nodes.
    Share,
    /// One more taint tolerated.
    Tolerate(Taint),
    /// One condition on labels less.
    Drop(Term),
    /// GPUs of any model.
    AnyModel,
    /// No CPUs of its own.
    NoCpus {
        /// Asked for, on each node.
        from: u32,
    },
    /// No memory of its own.
    NoMemory {
        /// Asked for on each node, in bytes.
        from: u64,
    },
    /// No node excluded, nor any named as the only ones.
    Include {
        /// Some are named as the only ones.
        named: bool,
    },
    /// Drained rails where nothing else is left.
    Drained,
    /// A gang of fewer spare nodes.
    Spares {
        /// Spare nodes that it asks for.
        from: u32,
        /// The most spare nodes with which it could start now.
        to: u32,
    },
    /// More quota for the tenant.
    Quota {
        /// GPUs that the quota would have to be larger by.
        more: u64,
    },
}

/// Changes that together let the gang start.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Relaxation {
    /// What is given up in all, in thousandths of what was asked.
    pub amount: u64,
    /// The changes, each of another constraint; all of them are needed.
    pub changes: Vec<Change>,
}

/// GPUs that a gang takes in all.
pub(crate) fn asked(need: &Need) -> u64 {
    (u64::from(need.nodes) + u64::from(need.spares)) * u64::from(need.gpus)
}

/// Amounts in a unit of which all shares are multiples: sums are exact, and rounded once. A node less and what the quota
/// needs less for it weigh the same; with each rounded for itself one set of equal ones would look smaller.
pub(super) struct Scale {
    /// A constraint given up as a whole.
    whole: u128,
}

impl Scale {
    pub(super) fn of(need: &Need) -> Self {
        // Beyond any cluster the shares are rounded down.
        const MOST: u128 = u128::MAX >> 16;
        let counts = [need.nodes, need.gpus, need.rail_count(), need.spares].map(u64::from);
        let counts = counts.into_iter().chain([asked(need)]).map(|count| u128::from(count.max(1)));
        Self { whole: counts.fold(1000, u128::saturating_mul).min(MOST) }
    }

    /// A part of what was asked of one kind.
    pub(super) fn share(&self, part: u64, of: u64) -> u128 {
        u128::from(part).saturating_mul(self.whole / u128::from(of.max(1)))
    }

    pub(super) fn thousandths(&self, amount: u128) -> u64 {
        u64::try_from(amount.div_ceil(self.whole / 1000)).unwrap_or(u64::MAX)
    }
}

/// One constraint that can be relaxed, in steps from the smallest on.
#[derive(Debug, Clone)]
enum Knob {
    Nodes { unit: u32 },
    Gpus,
    Rails,
    Within,
    Split(Group),
    Share,
    Tolerate(Taint),
    Drop(Term),
    AnyModel,
    NoCpus,
    NoMemory,
    Include,
    Drained,
    Spares,
    Quota,
}

impl Knob {
    /// How many steps there are.
    fn steps(&self, need: &Need) -> u32 {
        match self {
            Self::Nodes { unit } => (need.nodes - 1) / unit,
            Self::Gpus => need.gpus.saturating_sub(1),
            Self::Rails => {
                let any = u32::from(matches!(need.rails, RailNeed::Exactly(_)));
                (need.rail_count() + any).saturating_sub(u32::from(need.nodes > 1))
            }
            Self::Within if need.within == Within::Leaves => 2,
            Self::Spares => need.spares,
            _ => 1,
        }
    }

    /// Relaxes it by so many steps.
    fn turn(&self, steps: u32, need: &mut Need) {
        match self {
            Self::Nodes { unit } => need.nodes -= steps * unit,
            Self::Gpus => need.gpus -= steps,
            Self::Rails => {
                need.rails = match need.rails {
                    RailNeed::Any(count) => RailNeed::Any(count - steps),
                    RailNeed::Exactly(rails) => RailNeed::Any(rails.len() + 1 - steps),
                };
                need.name_avoided(RailSet::EMPTY);
            }
            Self::Within => {
                need.within =
                    if steps == 1 && need.within == Within::Leaves { Within::Pod } else { Within::Fabric }
            }
            Self::Split(group) => {
                if let Some(here) = need.groups.iter_mut().find(|other| *other == group) {
                    here.required = false;
                }
            }
            Self::Share => need.exclusive = false,
            Self::Tolerate(taint) => {
                let more = Toleration { key: Some(taint.key.clone()), value: Some(taint.value.clone()) };
                let mut filter = Filter::clone(&need.filter);
                filter.tolerations.push(more);
                need.filter = Arc::new(filter);
            }
            Self::Drop(term) => {
                let mut filter = Filter::clone(&need.filter);
                filter.selector.retain(|other| other != term);
                need.filter = Arc::new(filter);
            }
            Self::AnyModel => {
                let mut filter = Filter::clone(&need.filter);
                filter.gpu_models.clear();
                need.filter = Arc::new(filter);
            }
            Self::NoCpus => need.host.cpus = 0,
            Self::NoMemory => need.host.memory = 0,
            Self::Include => {
                need.exclude.clear();
                need.only = None;
            }
            Self::Drained => {
                need.filter = Arc::new(Filter { avoid_drained: None, ..Filter::clone(&need.filter) });
            }
            Self::Spares => need.spares -= steps,
            Self::Quota => {}
        }
    }

    /// What so many steps give up.
    fn amount(&self, steps: u32, need: &Need, short: u64, scale: &Scale) -> u128 {
        let share = |part: u64, of: u64| scale.share(part, of);
        match self {
            Self::Nodes { unit } => share(u64::from(steps * unit), need.nodes.into()),
            Self::Gpus => share(steps.into(), need.gpus.into()),
            Self::Rails => {
                // That any will do is the smallest of steps.
                let any = u32::from(matches!(need.rails, RailNeed::Exactly(_)));
                share((steps - any).into(), need.rail_count().into()) + share(any.into(), 1000)
            }
            Self::Spares => share(steps.into(), need.spares.into()),
            Self::Within => share(steps.into(), 1),
            Self::Quota => share(short, asked(need)),
            _ => share(1, 1),
        }
    }

    fn change(&self, steps: u32, need: &Need, short: u64) -> Change {
        let mut less = need.clone();
        self.turn(steps, &mut less);
        match self {
            Self::Nodes { .. } => Change::Nodes { from: need.nodes, to: less.nodes },
            Self::Gpus => Change::Gpus { from: need.gpus, to: less.gpus },
            Self::Rails => Change::Rails { from: need.rail_count(), to: less.rail_count() },
            Self::Within => Change::Within { from: need.within, to: less.within },
            Self::Split(group) => Change::Split(*group),
            Self::Share => Change::Share,
            Self::Tolerate(taint) => Change::Tolerate(taint.clone()),
            Self::Drop(term) => Change::Drop(term.clone()),
            Self::AnyModel => Change::AnyModel,
            Self::NoCpus => Change::NoCpus { from: need.host.cpus },
            Self::NoMemory => Change::NoMemory { from: need.host.memory },
            Self::Include => Change::Include { named: need.only.is_some() },
            Self::Drained => Change::Drained,
            Self::Spares => Change::Spares { from: need.spares, to: less.spares },
            Self::Quota => Change::Quota { more: short },
        }
    }
}

/// What can be relaxed of this need here: only what is in the way, or may be.
fn knobs(snapshot: &Snapshot, need: &Need, facts: &QueueFacts<'_>, census: &Census) -> Vec<Knob> {
    let unit = need.groups.iter().map(|group| group.size).max().unwrap_or(1).max(1);
    let rails = snapshot.topology().rails();
    let named = |cause: &dyn Fn(&Cause) -> bool| census.causes.iter().any(|(other, _)| cause(other));
    let rail = |cause: &Cause| {
        matches!(
            cause,
            Cause::RailMissing(_)
                | Cause::RailDown(_)
                | Cause::RailHeld(_)
                | Cause::RailDrained
                | Cause::HeldAlone
        )
    };
    let split = |need: &Need| {
        matches!(need.rails, RailNeed::Any(_)) || snapshot.capacity_index().is_split(RailSet::first(rails))
    };
    let mut knobs = vec![Knob::Nodes { unit }];
    let quota = facts.quota.is_some_and(|left| asked(need) > left);
    if named(&|cause| matches!(cause, Cause::GpuShape | Cause::GpusHeld)) || quota {
        knobs.push(Knob::Gpus);
    }
    if named(&rail) || split(need) || need.rail_count() > rails {
        knobs.push(Knob::Rails);
    }
    if need.within < Within::Fabric {
        knobs.push(Knob::Within);
    }
    let groups = need.groups.iter().filter(|group| group.required && group.within < Within::Fabric);
    knobs.extend(groups.filter(|group| group.size > 1).take(EACH).map(|group| Knob::Split(*group)));
    if named(&|cause| *cause == Cause::Shared) {
        knobs.push(Knob::Share);
    }
    let mut taints: Vec<_> =
        census.causes.iter().filter(|(cause, _)| matches!(cause, Cause::Taint(_))).collect();
    taints.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.lost));
    knobs.extend(taints.into_iter().take(EACH).filter_map(|(cause, _)| match cause {
        Cause::Taint(taint) => Some(Knob::Tolerate(taint.clone())),
        _ => None,
    }));
    let terms = census.causes.iter().filter_map(|(cause, _)| match cause {
        Cause::Label(term) => Some(Knob::Drop(term.clone())),
        _ => None,
    });
    knobs.extend(terms.take(EACH));
    let of_model = named(&|cause| matches!(cause, Cause::GpuModel | Cause::GpuModelUnknown));
    if of_model && !need.filter.gpu_models.is_empty() {
        knobs.push(Knob::AnyModel);
    }
    if named(&|cause| matches!(cause, Cause::CpuShape | Cause::CpusHeld | Cause::CpusUnknown)) {
        knobs.push(Knob::NoCpus);
    }
    if named(&|cause| matches!(cause, Cause::MemoryShape | Cause::MemoryHeld | Cause::MemoryUnknown)) {
        knobs.push(Knob::NoMemory);
    }
    if named(&|cause| *cause == Cause::Excluded) {
        knobs.push(Knob::Include);
    }
    if need.filter.avoid_drained.is_some() && snapshot.has_drained() {
        knobs.push(Knob::Drained);
    }
    if need.spares > 0 {
        knobs.push(Knob::Spares);
    }
    if quota {
        knobs.push(Knob::Quota);
    }
    knobs.retain(|knob| knob.steps(need) > 0);
    knobs
}

/// The search for the smallest sets.
struct Search<'a> {
    snapshot: &'a Snapshot,
    placer: &'a mut Placer,
    need: &'a Need,
    facts: &'a QueueFacts<'a>,
    hidden: &'a Hidden,
    scale: Scale,
    knobs: Vec<Knob>,
    counted: usize,
    /// What was counted of needs that ask alike of a node.
    fields: BTreeMap<Need, Fields>,
}

/// The relaxations with the fewest changes, each with the least amounts, the smallest first.
pub(crate) fn relaxations(
    snapshot: &Snapshot,
    placer: &mut Placer,
    need: &Need,
    facts: &QueueFacts<'_>,
    hidden: &Hidden,
    census: &Census,
) -> Vec<Relaxation> {
    let knobs = knobs(snapshot, need, facts, census);
    let (scale, fields) = (Scale::of(need), BTreeMap::new());
    let mut search = Search { snapshot, placer, need, facts, hidden, scale, knobs, counted: 0, fields };
    let mut found: Vec<(Relaxation, Need)> = Vec::new();
    for size in 1..=TOGETHER.min(search.knobs.len()) {
        let mut sets = Vec::new();
        subsets(search.knobs.len(), size, 0, &mut Vec::new(), &mut sets);
        for set in sets {
            found.extend(search.least(&set));
        }
        // What was counted is tried.
        found.retain(|(_, need)| {
            search.placer.choose(snapshot.capacity_index(), need, Some(hidden), &mut Choice::default())
        });
        if !found.is_empty() || search.counted >= COUNTED {
            break;
        }
    }
    let mut relaxations: Vec<Relaxation> = found.into_iter().map(|(relaxation, _)| relaxation).collect();
    relaxations.sort();
    relaxations.truncate(GIVEN);
    relaxations
}

fn subsets(of: usize, size: usize, from: usize, so_far: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
    if so_far.len() == size {
        all.push(so_far.clone());
        return;
    }
    for at in from..of {
        so_far.push(at);
        subsets(of, size, at + 1, so_far, all);
        so_far.pop();
    }
}

impl Search<'_> {
    /// The need with each of these knobs turned so far.
    fn turned(&self, set: &[usize], steps: &[u32]) -> Need {
        let mut need = self.need.clone();
        for (knob, steps) in set.iter().zip(steps) {
            self.knobs[*knob].turn(*steps, &mut need);
        }
        need
    }

    /// GPUs that the quota lacks for it.
    fn short(&self, need: &Need) -> u64 {
        self.facts.quota.map_or(0, |left| asked(need).saturating_sub(left))
    }

    fn starts(&mut self, set: &[usize], steps: &[u32]) -> bool {
        let need = self.turned(set, steps);
        let more = set.iter().any(|knob| matches!(self.knobs[*knob], Knob::Quota));
        if !more && self.short(&need) > 0 {
            return false;
        }
        if need.nodes > 1 && need.rail_count() == 0 {
            return false;
        }
        // What is asked of one node says what is counted; the rest is sums over that.
        let part = Need {
            nodes: need.nodes.min(2),
            spares: need.spares.min(1),
            within: Within::Fabric,
            groups: Vec::new(),
            ..need.clone()
        };
        if !self.fields.contains_key(&part) {
            self.counted += 1;
            let fields = Fields::of(self.placer, self.snapshot.capacity_index(), &part, Some(self.hidden));
            self.fields.insert(part.clone(), fields);
        }
        let reach = |fields: &Fields| fields.reach(self.snapshot.capacity_index(), &need, &Bounds::of(&need));
        self.fields.get(&part).is_some_and(|fields| reach(fields) == need.nodes)
    }

    /// The least amounts by which these knobs together help, if they do. The last one with many steps is halved, those
    /// before it are gone through.
    fn least(&mut self, set: &[usize]) -> Option<(Relaxation, Need)> {
        if self.counted >= COUNTED {
            return None;
        }
        let most: Vec<u32> = set.iter().map(|knob| self.knobs[*knob].steps(self.need)).collect();
        if !self.starts(set, &most) {
            return None;
        }
        // The one with the most steps is the one that is halved.
        let halved = (0..set.len()).max_by_key(|at| most[*at])?;
        let mut best: Option<(u128, Vec<u32>)> = None;
        let mut steps = vec![1; set.len()];
        loop {
            steps[halved] = most[halved];
            if self.starts(set, &steps) {
                let (mut low, mut high) = (1, most[halved]);
                while low < high {
                    steps[halved] = low + (high - low) / 2;
                    if self.starts(set, &steps) { high = steps[halved] } else { low = steps[halved] + 1 }
                }
                steps[halved] = high;
                let amount = self.amount(set, &steps);
                if best.as_ref().is_none_or(|(least, _)| amount < *least) {
                    best = Some((amount, steps.clone()));
                }
            }
            let next = (0..set.len()).find(|at| *at != halved && steps[*at] < most[*at]);
            let Some(next) = next.filter(|_| self.counted < COUNTED) else { break };
            for (at, steps) in steps.iter_mut().enumerate().take(next) {
                if at != halved {
                    *steps = 1;
                }
            }
            steps[next] += 1;
        }
        let (amount, steps) = best?;
        let need = self.turned(set, &steps);
        let short = self.short(&need);
        let pairs = set.iter().zip(&steps);
        let changes = pairs.map(|(knob, steps)| self.knobs[*knob].change(*steps, self.need, short)).collect();
        Some((Relaxation { amount: self.scale.thousandths(amount), changes }, need))
    }

    fn amount(&self, set: &[usize], steps: &[u32]) -> u128 {
        let short = self.short(&self.turned(set, steps));
        let amount =
            |(knob, steps): (&usize, &u32)| self.knobs[*knob].amount(*steps, self.need, short, &self.scale);
        set.iter().zip(steps).map(amount).fold(0, u128::saturating_add)
    }
}
