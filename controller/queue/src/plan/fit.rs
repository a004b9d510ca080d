//! When a job fits, and what it takes then.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use controller_topology::NodeIx;
use proto_model::Within;

use super::{Bound, Bounds, Node, Plan, PlanRequest, TenantAt, end_of, signed};
use crate::{
    entry::Entry,
    grid::NEVER,
    ground::Ground,
    row::{Row, Sum},
};

/// Where a job would take from what is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short {
    /// Among all nodes of the cluster.
    Nodes,
    /// Among the nodes of this pod, by its number.
    Pod(u32),
    /// Of nodes on the same leaves.
    Block(u32),
    /// Of nodes that some jobs ask for.
    Class(usize),
}

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
    pub(crate) fn most(&self, desired: &PlanRequest) -> u32 {
        let end = self.grid.end_now(desired.length);
        let mut most = self.whole.least(0, end);
        if let Some(row) = &self.classes[desired.class].rest {
            most = most.min(row.least(0, end));
        }
        for quota in desired.quotas.iter().map(|at| &self.quotas[*at]).filter(|quota| quota.gpus) {
            most = most.min(quota.left.least(0, end) / signed(desired.gpus).max(1));
        }
        if let Some(places) = self.places(desired.within) {
            let here = places.rows.iter().map(|row| row.least(0, end)).max().unwrap_or(0);
            most = most.min(here.saturating_add(signed(desired.spares)));
        }
        u32::try_from(most).unwrap_or(0)
    }

    /// What there is for a job that does not take its nodes whole: all GPUs that are free.
    fn gpus(&self, tenant: Option<TenantAt>) -> Sum<'_> {
        self.loose.with(tenant, &self.whole, signed(self.node_gpus))
    }

    /// The end of the last part of a range in which there is too little; places and idle nodes aside.
    fn last_miss(&self, desired: &PlanRequest, from: usize, to: usize) -> Option<usize> {
        let nodes = if desired.whole {
            let miss = |class: usize, count: i32| {
                let row = self.classes[class].rest.as_ref();
                row.and_then(|row| row.last_below(from, to, count))
            };
            let parts = desired.parts.iter().filter_map(|(class, count)| miss(*class, *count));
            miss(desired.class, desired.count()).max(if desired.parts.is_empty() {
                None
            } else {
                parts.max()
            })
        } else {
            self.gpus(desired.tenant).last_below(from, to, desired.amount())
        };
        let quota = |at: &usize| self.quotas[*at].left.last_below(from, to, self.share(*at, desired));
        desired.quotas.iter().filter_map(quota).chain(nodes).max()
    }

    /// Where the search for a start may begin: not before there are so many idle nodes for so long, which others that ask for as
    /// much need not look for again.
    fn search_from(&mut self, desired: &PlanRequest, from: usize) -> Option<usize> {
        let known = self.bounds.from(desired.count(), desired.length);
        if !desired.whole || known < from {
            return Some(from);
        }
        let step =
            self.whole.first_fit(known, desired.count(), |step| self.grid.end(step, desired.length))?;
        self.bounds.add(Bound { nodes: desired.count(), length: desired.length, step });
        Some(step.max(from))
    }

    /// The first step in which the job fits for its whole length, and in which place if it must stay in one.
    pub(crate) fn earliest(&mut self, desired: &PlanRequest) -> Option<(usize, Option<usize>)> {
        let nodes = (desired.nodes, desired.spares);
        let limits = (Rc::clone(&desired.quotas), desired.licenses.clone());
        let class = (desired.class, Rc::clone(&desired.parts));
        let key = (class, nodes, desired.amount(), desired.within, limits, desired.tenant);
        let hint =
            self.hints.get(&key).filter(|(length, _)| *length <= desired.length).map_or(0, |(_, step)| *step);
        let from = self.search_from(desired, desired.from.max(hint))?;
        let found = match self.places(desired.within) {
            None => self.first_fit(desired, from, None).map(|step| (step, None)),
            Some(places) => {
                // No place has room before the whole cluster has.
                let from = self.first_fit(desired, from, None)?;
                let mut best: Option<(usize, Option<usize>)> = None;
                for (place, row) in places.rows.iter().enumerate() {
                    if places.most[place] < desired.together() {
                        continue;
                    }
                    let until = best.map_or(NEVER, |(step, _)| step);
                    // Most places have too little at any time that counts.
                    if row.most(from, until) < desired.count_together() {
                        continue;
                    }
                    if let Some(step) = self.first_fit_until(desired, from, Some(row), until) {
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
            && desired.from == 0
            && self.hints.get(&key).is_none_or(|(length, _)| *length >= desired.length)
        {
            self.hints.insert(key, (desired.length, step));
        }
        found
    }

    pub(super) fn first_fit(&self, desired: &PlanRequest, from: usize, place: Option<&Row>) -> Option<usize> {
        self.first_fit_until(desired, from, place, NEVER)
    }

    pub(super) fn first_fit_until(
        &self,
        desired: &PlanRequest,
        from: usize,
        place: Option<&Row>,
        until: usize,
    ) -> Option<usize> {
        let end = |step| self.grid.end(step, desired.length);
        let mut step = from;
        while step < until {
            // The place by itself first: its row is short, and mostly the one that has least.
            if let Some(row) = place {
                step = row.first_fit(step, desired.count_together(), end)?;
            }
            // Most of the time ahead is full: that is passed over.
            let room = match desired.whole {
                true => self.whole.first_fit(step, desired.count(), end),
                false => self.gpus(desired.tenant).first_with(step, desired.amount()),
            }?;
            if room > step {
                step = room;
                // Without a place nothing else is known of this step either.
                if place.is_some() {
                    continue;
                }
            }
            match self.last_miss(desired, step, end(step)) {
                None => return (step < until).then_some(step),
                Some(enough) => step = enough,
            }
        }
        None
    }

    /// Whether one step alone has too little; limits and classes aside.
    pub(super) fn is_short(&self, desired: &PlanRequest, step: usize) -> bool {
        if desired.whole {
            return self.whole.at(step) < desired.count();
        }
        self.gpus(desired.tenant).at(step) < desired.amount()
    }

    /// A job will hold what it asks for from a step on.
    pub(crate) fn take(&mut self, desired: &PlanRequest, step: usize, place: Option<usize>) {
        self.kept = true;
        let end = self.grid.end(step, desired.length);
        self.take_quota(desired, step, end);
        if !desired.whole {
            self.take_loose(desired, step, end);
            return;
        }
        self.whole.add(step, end, -desired.count());
        for (class, count) in desired.parts.iter().copied().chain([(desired.class, desired.count())]) {
            if let Some(row) = &mut self.classes[class].rest {
                row.add(step, end, -count);
            }
        }
        let places = match desired.within {
            Within::Fabric => None,
            Within::Pod => self.pods.as_mut(),
            Within::Leaves => self.blocks.as_mut(),
        };
        if let Some((places, place)) = places.zip(place) {
            // Where the spares will be is not known.
            places.rows[place].add(step, end, -desired.count_together());
        }
    }

    /// GPUs come from nodes that are broken into already; then nodes are broken into.
    pub(super) fn take_loose(&mut self, desired: &PlanRequest, step: usize, end: usize) {
        let mut broken = Vec::new();
        self.loose.take(desired.tenant, (step, end), (desired.amount(), signed(self.node_gpus)), &mut broken);
        for (from, to, nodes) in broken {
            self.whole.add(from, to, -nodes);
        }
    }

    /// Whether these nodes can be taken from now on without taking from what is planned: a node that would be whole
    /// again within the time is not any more. If not, where there is too little.
    pub(crate) fn allows(&self, picks: &[(NodeIx, u32)], desired: &PlanRequest) -> Result<(), Short> {
        let end = self.grid.end_now(desired.length);
        let mut lost: Vec<(usize, NodeIx, &Node)> = Vec::with_capacity(picks.len());
        for (at, _) in picks {
            let Some(node) = self.nodes.get(at.index()) else { return Err(Short::Nodes) };
            if node.whole_at < end {
                lost.push((node.whole_at, *at, node));
            }
        }
        lost.sort_unstable_by_key(|(from, ..)| *from);
        // So many are gone from the first of them on, until there are more.
        let fits = |row: &Row, which: &mut dyn Iterator<Item = usize>| {
            let (mut count, mut which) = (0, which.peekable());
            while let Some(from) = which.next() {
                count += 1;
                let to = which.peek().copied().unwrap_or(end);
                if row.last_below(from, to, count).is_some() {
                    return false;
                }
            }
            true
        };
        if !fits(&self.whole, &mut lost.iter().map(|(from, ..)| *from)) {
            return Err(Short::Nodes);
        }
        for (places, of, short) in [
            (&self.pods, (|node| node.pod) as fn(&Node) -> u32, Short::Pod as fn(u32) -> Short),
            (&self.blocks, |node| node.block, Short::Block),
        ] {
            let Some(places) = places else { continue };
            let used: BTreeSet<u32> = lost.iter().map(|(.., node)| of(node)).collect();
            for place in used {
                let here = lost.iter().filter(|(.., node)| of(node) == place);
                if let Some(row) = places.rows.get(place as usize)
                    && !fits(row, &mut here.map(|(from, ..)| *from))
                {
                    return Err(short(place));
                }
            }
        }
        for (at, class) in self.classes.iter().enumerate() {
            let here = lost.iter().filter(|(_, node, _)| class.kind.fits.get(node.index()) == Some(&true));
            if let Some(row) = &class.rest
                && !fits(row, &mut here.map(|(from, ..)| *from))
            {
                return Err(Short::Class(at));
            }
        }
        Ok(())
    }

    /// Nodes that somebody is on.
    pub(crate) fn used_nodes(&self) -> impl Iterator<Item = NodeIx> {
        let nodes = self.nodes.iter().enumerate().filter(|(_, node)| node.whole_at > 0);
        nodes.map(|(at, _)| NodeIx::at(at))
    }

    /// The nodes of what is short.
    pub(crate) fn nodes_of(&self, short: Short) -> impl Iterator<Item = NodeIx> {
        let inside = move |(at, node): &(usize, &Node)| match short {
            Short::Nodes => false,
            Short::Pod(pod) => node.pod == pod,
            Short::Block(block) => node.block == block,
            Short::Class(class) => self.classes[class].kind.fits.get(*at) == Some(&true),
        };
        self.nodes.iter().enumerate().filter(inside).map(|(at, _)| NodeIx::at(at))
    }

    /// The same for a job for which the rows said that there is too little: what it takes of nodes that others are on must be
    /// left over by all that is planned, and so must what it takes of its class.
    pub(crate) fn allows_on_shared_nodes(
        &self,
        picks: &[(NodeIx, u32)],
        desired: &PlanRequest,
        ground: &Ground,
    ) -> bool {
        let end = self.grid.end_now(desired.length);
        let class = &self.classes[desired.class];
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
                *loose.entry(node.whole_at.min(end)).or_default() += signed(*gpus);
            }
        }
        if class.rest.as_ref().is_some_and(|row| idle > 0 && row.last_below(0, end, idle).is_some()) {
            return false;
        }
        let mut taken: i32 = loose.values().sum();
        let mut from = 0;
        for (to, gpus) in loose {
            if self.loose.all(desired.tenant).last_below(from, to, taken).is_some() {
                return false;
            }
            (from, taken) = (to, taken - gpus);
        }
        self.allows(picks, desired).is_ok()
    }

    /// A job holds these nodes from now on.
    pub(crate) fn occupy(&mut self, picks: &[(NodeIx, u32)], desired: &PlanRequest) {
        let end = self.grid.end_now(desired.length);
        self.next_end = self.next_end.min(end);
        self.take_quota(desired, 0, end);
        self.hold(picks, desired, 0, end);
    }

    /// These nodes are held for a range of steps, longer than was thought so far.
    fn hold(&mut self, picks: &[(NodeIx, u32)], desired: &PlanRequest, from: usize, end: usize) {
        let mut idle = 0;
        let new = end_of(&mut self.ends, end);
        let mut alike = Alike { classes: vec![0; self.classes.len()], ..Alike::default() };
        self.measure.unbroken |= desired.gpus == 0 && !desired.alone;
        for (ix, gpus) in picks {
            let Some(node) = self.nodes.get_mut(ix.index()) else { continue };
            let was = node.whole_at;
            if was < end {
                (node.whole_at, self.end_of_node[ix.index()]) = (end, new);
            }
            let (node, since) = (*node, was.max(from));
            let owner = desired.tenant.filter(|_| node.apart);
            let left = if desired.alone { 0 } else { signed(node.gpus.saturating_sub(*gpus)) };
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
        self.next_end = self.next_end.min(from.max(1));
        let new = end_of(&mut self.ends, from);
        for ix in nodes {
            self.freed = true;
            let Some(node) = self.nodes.get_mut(ix.index()).filter(|node| node.open) else { continue };
            let was = std::mem::replace(&mut node.whole_at, from);
            self.end_of_node[ix.index()] = new;
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
        self.forget_bounds();
    }

    /// Something is free that was not: who asks may start earlier than was known.
    pub(super) fn forget_bounds(&mut self) {
        self.hints.clear();
        self.bounds = Bounds::default();
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
        if !self.measure.is_whole(need) {
            let (amount, gpus) = (signed(nodes).saturating_mul(signed(need.gpus)), signed(self.node_gpus));
            let tenant = self.loose.known(need.tenant.as_ref());
            return self.loose.with(tenant, &self.whole, gpus).last_below(0, end, amount).is_none();
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

    /// Whether a job that waits has its place.
    pub(crate) fn keeps_any(&self) -> bool {
        self.kept
    }

    /// When something ends, if anything does.
    pub(crate) fn next_end(&self) -> Option<usize> {
        (self.next_end < NEVER).then_some(self.next_end)
    }

    /// From here on nothing changes any more, as far as the plan knows.
    pub(crate) fn last_change(&self) -> usize {
        self.whole.last_change()
    }

    /// What is free now.
    pub(crate) fn free_now(&self) -> (i32, i32) {
        (self.whole.at(0), self.loose.at(None, 0))
    }
}
