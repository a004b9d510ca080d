//! The decision where a gang goes: a pure function of the capacity index and of what is asked.

mod any;
mod bound;
mod components;
pub(crate) mod cut;
mod fit;
mod groups;
mod improve;
mod need;
mod pick;
mod rails;
mod request;
mod ring;
mod sieve;
mod spread;
#[cfg(test)]
mod tests;

use crate::Choice;
use crate::Time;
use crate::place::request::FEW;
use crate::place::request::LARGE;
use crate::place::request::NEAR;
use any::Search;
use controller_topology::{NodeIx, RailSet};
use fit::Fitter;

use crate::{
    capacity::GPUS_MAX,
    capacity_index::{CapacityIndex, Record, WORD},
    place::request::FitRequest,
    view::{Idle, Profile, View, Views},
};

pub use cut::{ACROSS_LEAVES, ACROSS_PODS};
pub use need::{Arrange, ComponentNeed, Group, Need, Pattern, RailNeed, Within};

#[cfg(test)]
pub(crate) use cut::cut;
pub(crate) use rails::Masks;
pub(crate) use request::Take;

/// Nodes that must not be chosen, by place; for one capacity index at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hidden(Vec<(u32, u64)>);

impl Hidden {
    /// Hides these nodes of the capacity index.
    pub fn of(capacity_index: &CapacityIndex, nodes: impl Iterator<Item = NodeIx>) -> Self {
        let mut hidden = Self::default();
        hidden.add(capacity_index, nodes);
        hidden
    }

    fn add(&mut self, capacity_index: &CapacityIndex, nodes: impl Iterator<Item = NodeIx>) {
        for record in nodes.filter_map(|node| capacity_index.record(node)) {
            let (word, bit) = (record.slot / WORD, 1 << (record.slot % WORD));
            match self.0.last_mut() {
                Some((last, mask)) if *last == word => *mask |= bit,
                _ => self.0.push((word, bit)),
            }
        }
    }
}

/// Makes choices. It holds only what can be had again from the capacity index, and vectors that are used again, so that a
/// decision allocates nothing: two placers choose alike, whatever they did before.
#[derive(Debug, Default)]
pub struct Placer {
    views: Views,
    fitter: Fitter,
    picker: pick::Picker,
    masks: rails::Masks,
    any: any::AnyRails,
    /// Whether the last attempt for any rails has found the best ones itself.
    settled: bool,
    /// Any rails are looked for one set at a time, for comparison.
    #[cfg(test)]
    one_by_one: bool,
    hidden: Hidden,
    undo: Vec<(u32, u64)>,
    /// For the nodes as they are without drained rails.
    undrained: Option<Box<Placer>>,
}

/// A placer is a cache: all are equal, and a copy begins with nothing.
impl Clone for Placer {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Placer {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Placer {
    /// The best gang, in `choice`. False, and nothing of use in `choice`, if there is none.
    pub fn choose(
        &mut self,
        capacity_index: &CapacityIndex,
        need: &Need,
        hidden: Option<&Hidden>,
        choice: &mut Choice,
    ) -> bool {
        self.choose_at(capacity_index, need, hidden, Time::Now, choice)
    }

    /// The same as if it were another time.
    pub fn choose_at(
        &mut self,
        capacity_index: &CapacityIndex,
        need: &Need,
        hidden: Option<&Hidden>,
        time: Time,
        choice: &mut Choice,
    ) -> bool {
        if need.nodes == 0
            || need.uneven_groups().next().is_some()
            || (need.nodes > 1 && need.rail_count() == 0)
        {
            return false;
        }
        self.hidden.0.clear();
        if let Some(hidden) = hidden {
            self.hidden.0.extend_from_slice(&hidden.0);
        }
        self.hidden.add(capacity_index, need.barred(capacity_index));
        if time == Time::Now {
            self.hidden.add(capacity_index, capacity_index.closed_to(need.tenant.as_ref()));
        }
        if time != Time::Healed
            && let Some(undrained) = capacity_index.undrained()
        {
            let mut other = self.undrained.take().unwrap_or_default();
            other.hidden.clone_from(&self.hidden);
            let found = other.choose_on(undrained, need, time, choice);
            self.undrained = Some(other);
            if found || need.filter.avoid_drained.is_some() {
                return found;
            }
        }
        self.choose_on(capacity_index, need, time, choice)
    }

    /// The same with what is hidden already.
    fn choose_on(
        &mut self,
        capacity_index: &CapacityIndex,
        need: &Need,
        time: Time,
        choice: &mut Choice,
    ) -> bool {
        if !need.components.is_empty() {
            return self.choose_components(capacity_index, need, time, choice);
        }
        let attempt = Attempt { capacity_index, need, rails: need.rails, time, beat: None };
        match need.rails {
            RailNeed::Exactly(_) => self.attempt(&attempt, choice),
            RailNeed::Any(count) => {
                let best = self.best_rails(&attempt, count, choice);
                best.is_some_and(|rails| {
                    choice.rails == rails
                        || self.attempt(&Attempt { rails: RailNeed::Exactly(rails), ..attempt }, choice)
                })
            }
        }
    }

    /// How many nodes fulfil what is asked of one on these rails now; of a gang of components, of one of the component that most can be of.
    pub fn free(
        &mut self,
        capacity_index: &CapacityIndex,
        need: &Need,
        rails: RailSet,
        hidden: Option<&Hidden>,
    ) -> u64 {
        if !need.components.is_empty() {
            let parts = (0..need.components.len()).map(|at| need.of_components(|other| other == at));
            return parts.map(|part| self.free(capacity_index, &part, rails, hidden)).max().unwrap_or(0);
        }
        let mut need = Need { rails: RailNeed::Exactly(rails), ..need.clone() };
        need.name_avoided(rails);
        self.check(capacity_index, &need, hidden, |_| ())
    }

    /// Shows which nodes fulfil what is asked of one, and says how many.
    pub(crate) fn check(
        &mut self,
        capacity_index: &CapacityIndex,
        need: &Need,
        hidden: Option<&Hidden>,
        show: impl FnOnce(&View),
    ) -> u64 {
        let mut hidden = hidden.cloned().unwrap_or_default();
        hidden.add(
            capacity_index,
            need.barred(capacity_index).chain(capacity_index.closed_to(need.tenant.as_ref())),
        );
        match capacity_index.undrained().filter(|_| need.filter.avoid_drained.is_some()) {
            Some(undrained) => {
                self.undrained.get_or_insert_default().check_on(undrained, need, &hidden, show)
            }
            None => self.check_on(capacity_index, need, &hidden, show),
        }
    }

    fn check_on(
        &mut self,
        capacity_index: &CapacityIndex,
        need: &Need,
        hidden: &Hidden,
        show: impl FnOnce(&View),
    ) -> u64 {
        let idle = if need.exclusive { Idle::Only } else { Idle::Either };
        let view = self.views.of(capacity_index, &Profile::of(need, need.rails, idle));
        self.undo.clear();
        view.hide(capacity_index, &hidden.0, &mut self.undo);
        show(view);
        let free = view.pods().total();
        view.show(capacity_index, &self.undo);
        free
    }

    /// The rails that let the gang live in the fewest pods with the least cut; among those the ones that most nodes
    /// offer; then the lowest.
    fn best_rails(&mut self, any: &Attempt<'_>, count: u32, choice: &mut Choice) -> Option<RailSet> {
        // Nodes with enough rails of any kind: no set of rails can do better than on all of those.
        self.settled = false;
        if !self.attempt(any, choice) {
            return None;
        }
        if self.settled {
            return Some(choice.rails);
        }
        let least = order(any.need, choice.pods, choice.cut + choice.cut / NEAR);
        self.find_sets(any.capacity_index, any.time, count);
        let masks = std::mem::take(&mut self.masks);
        let mut best: Option<((u32, u64), RailSet)> = None;
        // The larger the gang, the less it matters, and the longer a look takes.
        let attempts = if any.need.nodes > LARGE { FEW } else { masks.sets().len() };
        for (rails, _) in masks.sets().iter().take(attempts) {
            // Room for spares comes before the cut: what has it is not known by the cut alone.
            let packed = any.need.arrange == Arrange::Pack && any.need.spares == 0;
            let beat = best.filter(|((pods, _), _)| packed && *pods == 1).map(|((_, cut), _)| cut);
            if !self.attempt(&Attempt { rails: RailNeed::Exactly(*rails), beat, ..*any }, choice) {
                continue;
            }
            let found = order(any.need, choice.pods, choice.cut);
            if best.is_none_or(|(best, _)| found < best) {
                best = Some((found, *rails));
                if found.0 == least.0 && found.1 <= least.1 {
                    break;
                }
            }
        }
        self.masks = masks;
        best.map(|(_, rails)| rails)
    }

    /// Sets of so many rails that are worth an attempt, into `masks`.
    fn find_sets(&mut self, capacity_index: &CapacityIndex, time: Time, count: u32) {
        match time {
            Time::Now => self.masks.candidates(count, capacity_index.offers()),
            Time::Ended => {
                let open = capacity_index.records().filter(|record| record.open);
                self.masks.candidates(count, open.map(|record| (record.usable, 1)));
            }
            Time::Healed => {
                self.masks.candidates(count, capacity_index.records().map(|record| (record.present, 1)))
            }
        }
    }

    fn attempt(&mut self, attempt: &Attempt<'_>, choice: &mut Choice) -> bool {
        let Attempt { capacity_index, need, rails, time, .. } = *attempt;
        let idle = if need.exclusive { Idle::Only } else { Idle::Either };
        let mut profile = Profile::of(need, rails, idle);
        if time != Time::Now {
            let mut view = View::assumed(capacity_index, &profile, |record| could(record, need, rails, time));
            return self.on_view(attempt, &mut view, choice);
        }
        let mut views = std::mem::take(&mut self.views);
        let mut found = false;
        // One node: rather a node that is broken into already, the one with the least left.
        if need.nodes == 1 && !need.exclusive && need.spares == 0 && capacity_index.has_broken(need.gpus) {
            profile.idle = Idle::Never;
            found = match need.rails {
                RailNeed::Exactly(_) => self.tightest(attempt, &mut views, profile.clone(), choice),
                // Each set of rails is tried, which is enough work.
                RailNeed::Any(_) => self.on_view(attempt, views.of(capacity_index, &profile), choice),
            };
            profile.idle = Idle::Either;
        }
        found = found || self.on_view(attempt, views.of(capacity_index, &profile), choice);
        self.views = views;
        found
    }

    /// One node of those that are broken into: the fewer GPUs would be left there, the better, wherever it stands.
    fn tightest(
        &mut self,
        attempt: &Attempt<'_>,
        views: &mut Views,
        mut profile: Profile,
        choice: &mut Choice,
    ) -> bool {
        let mut left = views.of(attempt.capacity_index, &profile).pods().total();
        profile.idle = Idle::Exactly;
        while left > 0 && profile.gpus <= GPUS_MAX {
            let view = views.of(attempt.capacity_index, &profile);
            let here = view.pods().total();
            if here > 0 && self.on_view(attempt, view, choice) {
                return true;
            }
            left = left.saturating_sub(here);
            profile.gpus += 1;
        }
        false
    }

    fn on_view(&mut self, attempt: &Attempt<'_>, view: &mut View, choice: &mut Choice) -> bool {
        if let RailNeed::Exactly(rails) = attempt.rails
            && attempt.need.nodes + attempt.need.spares > 1
            && let Some(islands) = attempt.capacity_index.islands(rails)
        {
            return self.on_islands(attempt, view, &islands, choice);
        }
        self.on_all(attempt, view, choice)
    }

    /// On the best of several sets of nodes that do not reach one another.
    fn on_islands(
        &mut self,
        attempt: &Attempt<'_>,
        view: &mut View,
        islands: &[Vec<(u32, u64)>],
        choice: &mut Choice,
    ) -> bool {
        let own = self.hidden.clone();
        let rank = |choice: &Choice| order(attempt.need, choice.pods, choice.cut);
        let mut best: Option<Choice> = None;
        for outside in islands {
            self.hidden.0.truncate(own.0.len());
            self.hidden.0.extend_from_slice(outside);
            if self.on_all(attempt, view, choice)
                && best.as_ref().is_none_or(|best| rank(choice) < rank(best))
            {
                best = Some(choice.clone());
            }
        }
        self.hidden = own;
        let found = best.is_some();
        if let Some(best) = best {
            *choice = best;
        }
        found
    }

    fn on_all(&mut self, attempt: &Attempt<'_>, view: &mut View, choice: &mut Choice) -> bool {
        let Attempt { capacity_index, need, rails, time, beat } = *attempt;
        let Self { fitter, picker, masks, any, settled, hidden, undo, .. } = self;
        undo.clear();
        view.hide(capacity_index, &hidden.0, undo);
        let enough = view.pods().total() >= u64::from(need.nodes) + u64::from(need.spares);
        let several = need.nodes > 1 || need.spares > 0;
        let sparing = time == Time::Now && !need.exclusive && several && capacity_index.has_broken(need.gpus);
        let ask = FitRequest { beat, sparing, ..ask(need) };
        let fit = enough.then(|| fitter.fit(capacity_index, view, &ask)).flatten();
        if let Some(fit) = fit {
            (choice.pods, choice.cut) = (fit.pods, fit.cut);
            (choice.host, choice.exclusive) = (need.host, need.exclusive);
            choice.hosts.clear();
            choice.rails = RailSet::EMPTY;
            if let RailNeed::Exactly(rails) = rails {
                choice.rails = rails;
                picker.pick(capacity_index, view, need, time, &fitter.takes, choice);
            } else if let RailNeed::Any(count) = rails
                && time == Time::Now
            {
                #[cfg(test)]
                if self.one_by_one {
                    view.show(capacity_index, undo);
                    return true;
                }
                masks.candidates(count, capacity_index.offers());
                let search = Search { capacity_index, ask: &ask, sets: masks.sets(), least: fit };
                if let Some((rails, fit)) = any.settle(&search, view, fitter) {
                    (choice.rails, choice.pods, choice.cut, *settled) = (rails, fit.pods, fit.cut, true);
                    any.hide(capacity_index, view, &fitter.takes, rails);
                    picker.pick(capacity_index, view, need, time, &fitter.takes, choice);
                    any.show(capacity_index, view);
                }
            }
        }
        view.show(capacity_index, undo);
        fit.is_some()
    }
}

/// Whether a node could be one of a gang's at a time that is not now; what the filter says aside.
fn could(record: &Record, need: &Need, rails: RailNeed, time: Time) -> bool {
    let here = if time == Time::Healed { record.present } else { record.usable };
    let offers = match rails {
        RailNeed::Exactly(rails) => here.covers(rails),
        RailNeed::Any(count) => here.len() >= count,
    };
    offers
        && (time == Time::Healed || record.open)
        && record.gpus.count_ones() >= need.gpus
        && record.host.covers(need.host)
}

/// One attempt at one set of rails, or at a bound for all sets of so many.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    capacity_index: &'a CapacityIndex,
    need: &'a Need,
    rails: RailNeed,
    time: Time,
    /// What it must cut less than in one pod to be of use, if anything was found in one.
    beat: Option<u64>,
}

/// What is better is less: fewer pods, or more where the gang wants to lie apart; then the cut.
fn order(need: &Need, pods: u32, cut: u64) -> (u32, u64) {
    match need.arrange {
        Arrange::Pack => (pods, cut),
        Arrange::Spread => (u32::MAX - pods, cut),
    }
}

fn ask(need: &Need) -> FitRequest {
    let group = match need.pattern {
        Pattern::Pipeline(size) if size > 0 && need.nodes.is_multiple_of(size) => size,
        _ => 1,
    };
    FitRequest {
        nodes: need.nodes,
        leaf_unit: need.unit(Within::Leaves, true),
        pod_unit: need.unit(Within::Pod, true),
        leaf_preferred: need.unit(Within::Leaves, false).max(group),
        pod_preferred: need.unit(Within::Pod, false).max(group),
        within: need.within,
        arrange: need.arrange,
        pattern: need.pattern,
        spares: need.spares,
        beat: None,
        sparing: false,
    }
}
