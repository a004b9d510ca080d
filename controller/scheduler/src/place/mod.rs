//! The decision where a gang goes: a pure function of the yard and of what is asked.

mod cut;
mod fit;
mod groups;
mod need;
mod pick;
mod rails;
mod spread;
#[cfg(test)]
mod tests;

use controller_topology::{NodeIx, RailSet};

pub use cut::{ACROSS_LEAVES, ACROSS_PODS};
pub use need::{Arrange, Group, Need, Pattern, RailNeed, Within};

use crate::{
    view::{Idle, Profile, View, Views},
    yard::{Pick, Record, WORD, Yard},
};
use fit::{Ask, Fitter, Take};

/// A chosen gang.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// The rails in use.
    pub rails: RailSet,
    /// The nodes in rank order, so that neighbours in rank are neighbours in the fabric.
    pub nodes: Vec<Pick>,
    /// Nodes that are held idle for it.
    pub spares: Vec<Pick>,
    /// Nobody else is let onto its nodes.
    pub exclusive: bool,
    /// How many pods.
    pub pods: u32,
    /// The weighted cut of its traffic, see [`ACROSS_LEAVES`] and [`ACROSS_PODS`].
    pub cut: u64,
}

/// As of when nodes count as free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// Now.
    Now,
    /// When all jobs have ended, of nodes that take jobs.
    Ended,
    /// When besides all nodes take jobs and every NIC is up.
    Healed,
}

/// Nodes that must not be chosen, by place; for one yard at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hidden(Vec<(u32, u64)>);

impl Hidden {
    /// These nodes.
    pub fn of(yard: &Yard, nodes: impl Iterator<Item = NodeIx>) -> Self {
        let mut hidden = Self::default();
        hidden.add(yard, nodes);
        hidden
    }

    fn add(&mut self, yard: &Yard, nodes: impl Iterator<Item = NodeIx>) {
        for record in nodes.filter_map(|node| yard.record(node)) {
            let (word, bit) = (record.slot / WORD, 1 << (record.slot % WORD));
            match self.0.last_mut() {
                Some((last, mask)) if *last == word => *mask |= bit,
                _ => self.0.push((word, bit)),
            }
        }
    }
}

/// Makes choices. It holds only what can be had again from the yard, and vectors that are used again, so that a
/// decision allocates nothing: two placers choose alike, whatever they did before.
#[derive(Debug, Default)]
pub struct Placer {
    views: Views,
    fitter: Fitter,
    picker: pick::Picker,
    masks: rails::Masks,
    hidden: Hidden,
    undo: Vec<(u32, u64)>,
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
    pub fn choose(&mut self, yard: &Yard, need: &Need, hidden: Option<&Hidden>, choice: &mut Choice) -> bool {
        self.choose_at(yard, need, hidden, Time::Now, choice)
    }

    /// The same as if it were another time.
    pub fn choose_at(
        &mut self,
        yard: &Yard,
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
        self.hidden.add(yard, need.exclude.iter().copied());
        match need.rails {
            RailNeed::Exactly(rails) => self.with_rails(yard, need, rails, time, choice),
            RailNeed::Any(count) => {
                let best = self.best_rails(yard, need, count, time, choice);
                best.is_some_and(|rails| {
                    choice.pods == 1 && choice.rails == rails
                        || self.with_rails(yard, need, rails, time, choice)
                })
            }
        }
    }

    /// How many nodes fulfil what is asked of one on these rails now.
    pub fn free(&mut self, yard: &Yard, need: &Need, rails: RailSet, hidden: Option<&Hidden>) -> u64 {
        let idle = if need.exclusive { Idle::Only } else { Idle::Either };
        let filter = std::sync::Arc::clone(&need.filter);
        let view = self.views.of(yard, &Profile { gpus: need.gpus, rails, idle, filter });
        let mut hidden = hidden.cloned().unwrap_or_default();
        hidden.add(yard, need.exclude.iter().copied());
        view.hide(yard, &hidden.0, &mut self.undo);
        let free = view.pods().total();
        view.show(yard, &self.undo);
        free
    }

    /// The rails that let the gang live in the fewest pods; among those the ones that most nodes offer; then the lowest.
    fn best_rails(
        &mut self,
        yard: &Yard,
        need: &Need,
        count: u32,
        time: Time,
        choice: &mut Choice,
    ) -> Option<RailSet> {
        let mut masks = std::mem::take(&mut self.masks);
        match time {
            Time::Now => masks.candidates(count, yard.offers()),
            Time::Ended => {
                let open = yard.records().filter(|record| record.open);
                masks.candidates(count, open.map(|record| (record.usable, 1)));
            }
            Time::Healed => masks.candidates(count, yard.records().map(|record| (record.present, 1))),
        }
        let mut best: Option<(u32, RailSet)> = None;
        for (rails, _) in masks.sets() {
            if self.with_rails(yard, need, *rails, time, choice)
                && best.is_none_or(|(pods, _)| choice.pods < pods)
            {
                best = Some((choice.pods, *rails));
                if choice.pods == 1 {
                    break;
                }
            }
        }
        self.masks = masks;
        best.map(|(_, rails)| rails)
    }

    fn with_rails(
        &mut self,
        yard: &Yard,
        need: &Need,
        rails: RailSet,
        time: Time,
        choice: &mut Choice,
    ) -> bool {
        let idle = if need.exclusive { Idle::Only } else { Idle::Either };
        let mut profile =
            Profile { gpus: need.gpus, rails, idle, filter: std::sync::Arc::clone(&need.filter) };
        if time != Time::Now {
            let wanted = |record: &Record| match time {
                Time::Healed => record.present.covers(rails) && record.gpus.count_ones() >= need.gpus,
                _ => record.open && record.usable.covers(rails) && record.gpus.count_ones() >= need.gpus,
            };
            let mut view = View::assumed(yard, &profile, wanted);
            return self.on_view(yard, need, rails, time, &mut view, choice);
        }
        let mut views = std::mem::take(&mut self.views);
        let mut found = false;
        // One node: rather a node that is broken into already.
        if need.nodes == 1 && !need.exclusive && need.spares == 0 {
            profile.idle = Idle::Never;
            found = self.on_view(yard, need, rails, time, views.of(yard, &profile), choice);
            profile.idle = Idle::Either;
        }
        found = found || self.on_view(yard, need, rails, time, views.of(yard, &profile), choice);
        self.views = views;
        found
    }

    fn on_view(
        &mut self,
        yard: &Yard,
        need: &Need,
        rails: RailSet,
        time: Time,
        view: &mut View,
        choice: &mut Choice,
    ) -> bool {
        if need.nodes + need.spares > 1
            && let Some(islands) = yard.islands(rails)
        {
            return self.on_islands(yard, need, rails, time, (view, &islands), choice);
        }
        self.on_all(yard, need, rails, time, view, choice)
    }

    /// On the best of several sets of nodes that do not reach one another.
    fn on_islands(
        &mut self,
        yard: &Yard,
        need: &Need,
        rails: RailSet,
        time: Time,
        (view, islands): (&mut View, &[Vec<(u32, u64)>]),
        choice: &mut Choice,
    ) -> bool {
        let own = self.hidden.clone();
        let mut best = None;
        for outside in islands {
            self.hidden.0.truncate(own.0.len());
            self.hidden.0.extend_from_slice(outside);
            if self.on_all(yard, need, rails, time, view, choice)
                && best.as_ref().is_none_or(|best: &Choice| (choice.pods, choice.cut) < (best.pods, best.cut))
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

    fn on_all(
        &mut self,
        yard: &Yard,
        need: &Need,
        rails: RailSet,
        time: Time,
        view: &mut View,
        choice: &mut Choice,
    ) -> bool {
        let Self { fitter, picker, hidden, undo, .. } = self;
        view.hide(yard, &hidden.0, undo);
        let enough = view.pods().total() >= u64::from(need.nodes) + u64::from(need.spares);
        let fit = enough.then(|| fitter.fit(yard, view, &ask(need))).flatten();
        if let Some(fit) = fit {
            choice.rails = rails;
            choice.exclusive = need.exclusive;
            (choice.pods, choice.cut) = (fit.pods, fit.cut);
            picker.pick(yard, view, need, time, &fitter.takes, choice);
        }
        view.show(yard, undo);
        fit.is_some()
    }
}

fn ask(need: &Need) -> Ask {
    let group = match need.pattern {
        Pattern::Pipeline(size) if size > 0 && need.nodes.is_multiple_of(size) => size,
        _ => 1,
    };
    Ask {
        nodes: need.nodes,
        leaf_unit: need.unit(Within::Leaves, true),
        pod_unit: need.unit(Within::Pod, true),
        leaf_wish: need.unit(Within::Leaves, false).max(group),
        pod_wish: need.unit(Within::Pod, false).max(group),
        within: need.within,
        arrange: need.arrange,
        pattern: need.pattern,
        spares: need.spares,
    }
}
