//! When a job fits, and what it takes then.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use controller_topology::NodeIx;
use proto_model::Within;

use super::{Plan, Wish, signed};
use crate::{entry::Entry, grid::Row, ground::Ground};

/// Nodes that are lost from the same step on, by what they are counted in.
#[derive(Default)]
struct Alike {
    since: usize,
    classes: Vec<i32>,
    pods: BTreeMap<usize, i32>,
    blocks: BTreeMap<usize, i32>,
}

impl Plan {
    /// Nodes that a gang could have over a time from now on, if it takes them whole.
    pub(crate) fn most(&self, wish: &Wish) -> u32 {
        let end = self.grid.end_now(wish.length);
        let mut most = self.whole.least(0, end);
        if let Some(row) = &self.classes[wish.class].rest {
            most = most.min(row.least(0, end));
        }
        for quota in wish.quotas.iter().map(|at| &self.quotas[*at]).filter(|quota| quota.gpus) {
            most = most.min(quota.left.least(0, end) / signed(wish.gpus).max(1));
        }
        if let Some(places) = self.places(wish.within) {
            let here = places.rows.iter().map(|row| row.least(0, end)).max().unwrap_or(0);
            most = most.min(here.saturating_add(signed(wish.spares)));
        }
        u32::try_from(most).unwrap_or(0)
    }

    /// The last step of a range in which there is too little; places aside.
    pub(super) fn last_miss(&self, wish: &Wish, from: usize, to: usize) -> Option<usize> {
        let miss = if wish.whole {
            self.whole.last_below(from, to, wish.count())
        } else {
            let (amount, gpus) = (wish.amount(), signed(self.node_gpus));
            (from..to.min(self.whole.len())).rev().find(|step| {
                let loose = self.loose.at(wish.tenant, *step);
                self.whole.at(*step).saturating_mul(gpus).saturating_add(loose) < amount
            })
        };
        let class = match &self.classes[wish.class].rest {
            Some(row) if wish.whole => row.last_below(from, to, wish.count()),
            _ => None,
        };
        let quota = |at: &usize| self.quotas[*at].left.last_below(from, to, self.share(*at, wish));
        wish.quotas.iter().filter_map(quota).chain(miss).chain(class).max()
    }

    /// The first step in which the job fits for its whole length, and in which place if it must stay in one.
    pub(crate) fn earliest(&mut self, wish: &Wish) -> Option<(usize, Option<usize>)> {
        let nodes = (wish.nodes, wish.spares);
        let key = (wish.class, nodes, wish.gpus, wish.within, Rc::clone(&wish.quotas), wish.tenant);
        let hint =
            self.hints.get(&key).filter(|(length, _)| *length <= wish.length).map_or(0, |(_, step)| *step);
        let from = wish.from.max(hint);
        let found = match self.places(wish.within) {
            None => self.first_fit(wish, from, None).map(|step| (step, None)),
            Some(places) => {
                // No place has room before the whole cluster has.
                let from = self.first_fit(wish, from, None)?;
                let mut best: Option<(usize, Option<usize>)> = None;
                for (place, row) in places.rows.iter().enumerate() {
                    if places.most[place] < wish.together() {
                        continue;
                    }
                    let until = best.map_or(self.grid.len(), |(step, _)| step);
                    // Most places have too little at any time that counts.
                    if row.most(from, until) < wish.count_together() {
                        continue;
                    }
                    if let Some(step) = self.first_fit_until(wish, from, Some(row), until) {
                        best = Some((step, Some(place)));
                        if step == from {
                            break;
                        }
                    }
                }
                best
            }
        };
        if let Some((step, _)) = found
            && wish.from == 0
            && self.hints.get(&key).is_none_or(|(length, _)| *length >= wish.length)
        {
            self.hints.insert(key, (wish.length, step));
        }
        found
    }

    pub(super) fn first_fit(&self, wish: &Wish, from: usize, place: Option<&Row>) -> Option<usize> {
        self.first_fit_until(wish, from, place, self.grid.len())
    }

    pub(super) fn first_fit_until(
        &self,
        wish: &Wish,
        from: usize,
        place: Option<&Row>,
        until: usize,
    ) -> Option<usize> {
        let mut step = from;
        while step < until {
            // Most steps ahead are full: those are passed over by a look at each.
            if place.is_some_and(|row| row.at(step) < wish.count_together()) || self.is_short(wish, step) {
                step += 1;
                continue;
            }
            let end = self.grid.end(step, wish.length);
            let miss = self.last_miss(wish, step, end);
            let here = place.and_then(|row| row.last_below(step, end, wish.count_together()));
            match miss.max(here) {
                None => return Some(step),
                Some(miss) => step = miss + 1,
            }
        }
        None
    }

    /// Whether one step alone has too little; limits and classes aside.
    pub(super) fn is_short(&self, wish: &Wish, step: usize) -> bool {
        let whole = self.whole.at(step);
        if wish.whole {
            return whole < wish.count();
        }
        let loose = self.loose.at(wish.tenant, step);
        whole.saturating_mul(signed(self.node_gpus)).saturating_add(loose) < wish.amount()
    }

    /// A job will hold what it wishes from a step on.
    pub(crate) fn take(&mut self, wish: &Wish, step: usize, place: Option<usize>) {
        let end = self.grid.end(step, wish.length);
        self.take_quota(wish, step, end);
        if !wish.whole {
            self.take_loose(wish, step, end);
            return;
        }
        self.whole.add(step, end, -wish.count());
        if let Some(row) = &mut self.classes[wish.class].rest {
            row.add(step, end, -wish.count());
        }
        let places = match wish.within {
            Within::Fabric => None,
            Within::Pod => self.pods.as_mut(),
            Within::Leaves => self.blocks.as_mut(),
        };
        if let Some((places, place)) = places.zip(place) {
            // Where the spares will be is not known.
            places.rows[place].add(step, end, -wish.count_together());
        }
    }

    /// GPUs come from nodes that are broken into already; then nodes are broken into.
    pub(super) fn take_loose(&mut self, wish: &Wish, step: usize, end: usize) {
        let (amount, gpus) = (wish.amount(), signed(self.node_gpus));
        for step in step..end.min(self.grid.len()) {
            let broken = self.loose.take(wish.tenant, step, amount, gpus);
            *self.whole.get_mut(step) -= broken;
        }
    }

    /// Whether these nodes can be taken from now on without taking from what is planned: a node that would be whole
    /// again within the time is not any more. If not, the pod in which there is too little, if that is known.
    pub(crate) fn allows(&self, picks: &[(NodeIx, u32)], wish: &Wish) -> Result<(), Option<u32>> {
        let end = self.grid.end_now(wish.length);
        let mut lost: BTreeMap<usize, i32> = BTreeMap::new();
        let mut by_pod: BTreeMap<u32, i32> = BTreeMap::new();
        for (node, _) in picks {
            let Some(node) = self.nodes.get(node.index()) else { return Err(None) };
            if node.whole_at < end {
                *lost.entry(node.whole_at).or_default() += 1;
                *by_pod.entry(node.pod).or_default() += 1;
            }
        }
        let mut count = 0;
        let mut steps = lost.iter().peekable();
        while let Some((from, more)) = steps.next() {
            count += more;
            let to = steps.peek().map_or(end, |(next, _)| **next);
            if self.whole.last_below(*from, to, count).is_some() {
                return Err(None);
            }
        }
        if let Some(pods) = &self.pods {
            for (pod, count) in by_pod {
                if pods.rows.get(pod as usize).is_some_and(|row| row.last_below(0, end, count).is_some()) {
                    return Err(Some(pod));
                }
            }
        }
        Ok(())
    }

    /// The same for a job for which the rows said that there is too little: what it takes of nodes that others are on must be
    /// left over by all that is planned, and so must what it takes of its class.
    pub(crate) fn allows_on_shared_nodes(
        &self,
        picks: &[(NodeIx, u32)],
        wish: &Wish,
        ground: &Ground,
    ) -> bool {
        let end = self.grid.end_now(wish.length);
        let class = &self.classes[wish.class];
        // GPUs by the step until which they are taken of a node that others are on.
        let (mut loose, mut idle): (BTreeMap<usize, i32>, i32) = (BTreeMap::new(), 0);
        for (at, gpus) in picks {
            let Some((node, plot)) = self.nodes.get(at.index()).zip(ground.plots.get(at.index())) else {
                return false;
            };
            if node.whole_at == 0 {
                idle += 1;
            } else if plot.loose > 0 || !plot.busy {
                // Others are counted in no row, and so promised to nobody.
                *loose.entry(node.whole_at.min(end).min(self.grid.len())).or_default() += signed(*gpus);
            }
        }
        if class.rest.as_ref().is_some_and(|row| idle > 0 && row.last_below(0, end, idle).is_some()) {
            return false;
        }
        let mut taken: i32 = loose.values().sum();
        let mut from = 0;
        for (to, gpus) in loose {
            if (from..to).any(|step| self.loose.at(wish.tenant, step) < taken) {
                return false;
            }
            (from, taken) = (to, taken - gpus);
        }
        self.allows(picks, wish).is_ok()
    }

    /// A job holds these nodes from now on.
    pub(crate) fn occupy(&mut self, picks: &[(NodeIx, u32)], wish: &Wish) {
        let end = self.grid.end_now(wish.length);
        self.take_quota(wish, 0, end);
        self.hold(picks, wish, 0, end);
    }

    /// These nodes are held for a range of steps, longer than was thought so far.
    fn hold(&mut self, picks: &[(NodeIx, u32)], wish: &Wish, from: usize, end: usize) {
        let mut idle = 0;
        let mut alike = Alike { classes: vec![0; self.classes.len()], ..Alike::default() };
        for (ix, gpus) in picks {
            let Some(node) = self.nodes.get_mut(ix.index()) else { continue };
            let was = node.whole_at;
            node.whole_at = was.max(end);
            let (node, since) = (*node, was.max(from));
            let owner = wish.tenant.filter(|_| node.apart);
            let left = if wish.whole { 0 } else { signed(node.gpus.saturating_sub(*gpus)) };
            self.loose.add(owner, from, was.min(end), -signed(*gpus));
            if since == from && left == 0 {
                idle += 1;
            } else {
                self.whole.add(since, end, -1);
                self.loose.add(owner, since, end, left);
            }
            if alike.since != since {
                self.lose(&mut alike, end);
                alike.since = since;
            }
            for (class, count) in self.classes.iter().zip(&mut alike.classes) {
                *count += i32::from(class.rest.is_some() && class.kind.fits.get(ix.index()) == Some(&true));
            }
            for (places, at, counts) in
                [(&self.pods, node.pod, &mut alike.pods), (&self.blocks, node.block, &mut alike.blocks)]
            {
                if places.is_some() {
                    *counts.entry(at as usize).or_default() += 1;
                }
            }
        }
        self.lose(&mut alike, end);
        self.whole.add(from, end, -idle);
    }

    /// Nodes that are lost from the same step on leave the rows of their classes and places together.
    fn lose(&mut self, alike: &mut Alike, end: usize) {
        let since = alike.since;
        for (class, count) in self.classes.iter_mut().zip(&mut alike.classes) {
            let count = std::mem::take(count);
            if let Some(row) = class.rest.as_mut().filter(|_| count > 0) {
                row.add(since, end, -count);
            }
        }
        for (places, counts) in [(&mut self.pods, &mut alike.pods), (&mut self.blocks, &mut alike.blocks)] {
            for (at, count) in std::mem::take(counts) {
                if let Some(row) = places.as_mut().and_then(|places| places.rows.get_mut(at)) {
                    row.add(since, end, -count);
                }
            }
        }
    }

    /// Nodes come free earlier than was thought, from a step on.
    pub(crate) fn free(&mut self, nodes: impl Iterator<Item = NodeIx>, from: usize) {
        for ix in nodes {
            self.freed = true;
            let Some(node) = self.nodes.get_mut(ix.index()).filter(|node| node.open) else { continue };
            let was = std::mem::replace(&mut node.whole_at, from);
            let node = *node;
            self.whole.add(from, was, 1);
            for class in &mut self.classes {
                if let Some(row) = &mut class.rest
                    && class.kind.fits.get(ix.index()) == Some(&true)
                {
                    row.add(from, was, 1);
                }
            }
            let places = [(&mut self.pods, node.pod), (&mut self.blocks, node.block)];
            for (places, at) in places {
                if let Some(row) = places.as_mut().and_then(|places| places.rows.get_mut(at as usize)) {
                    row.add(from, was, 1);
                }
            }
        }
        self.hints.clear();
    }

    /// Whether anything that was counted as held has been counted as free since.
    pub(crate) fn was_freed(&self) -> bool {
        self.freed
    }

    /// False only if a job that takes so long surely cannot start now, with the least that it takes.
    pub(crate) fn could_start(&self, entry: &Entry, length: Duration) -> bool {
        #[cfg(test)]
        if crate::plant::is(crate::plant::Bug::Chances) {
            return false;
        }
        let (need, nodes) = (&entry.need, entry.min_nodes.saturating_add(entry.need.spares));
        if self.may_fit_on_shared_nodes(need, nodes) {
            return true;
        }
        let end = self.grid.end_now(length);
        if !self.is_whole(need) {
            let (amount, gpus) = (signed(nodes).saturating_mul(signed(need.gpus)), signed(self.node_gpus));
            let tenant = self.loose.known(need.tenant.as_ref());
            let loose = |step| self.loose.at(tenant, step);
            let here = |step| self.whole.at(step).saturating_mul(gpus).saturating_add(loose(step));
            return (0..end.min(self.whole.len())).all(|step| here(step) >= amount);
        }
        let count = signed(nodes);
        if self.whole.at(0) < count || self.whole.least(0, end) < count {
            return false;
        }
        let class = self.classes.iter().find(|class| class.kind.is_of(need));
        if let Some(row) = class.and_then(|class| class.rest.as_ref())
            && row.least(0, end) < count
        {
            return false;
        }
        let together = signed(entry.min_nodes);
        let fits = |row: &Row| row.at(0) >= together && row.least(0, end) >= together;
        self.places(need.within).is_none_or(|places| places.rows.iter().any(fits))
    }

    /// What is free now.
    pub(crate) fn free_now(&self) -> (i32, i32) {
        (self.whole.at(0), self.loose.at(None, 0))
    }
}
