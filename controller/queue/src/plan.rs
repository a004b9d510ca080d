//! What will be free when: the profile that planned starts are taken from.
//!
//! Jobs that want nodes whole count nodes; the others count GPUs on nodes that are broken into. Alike nodes may change
//! places, so counting them is exact; jobs that must stay in one pod, or that ask for some nodes only, have rows of
//! their own beside that.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use controller_scheduler::{Filter, Need, RailNeed, Snapshot, Within};
use controller_topology::{NodeIx, RailSet};
use proto_model::{JobId, QueueName, TenantName, Timestamp};

use crate::{
    book::Book,
    entry::Entry,
    grid::{Grid, Row},
    reserve::Kept,
};

/// Behind the last step.
const NEVER: usize = usize::MAX;

/// A node, as the plan sees it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Node {
    pub(crate) gpus: u32,
    pub(crate) usable: RailSet,
    /// From this step on it is whole; [`NEVER`]: never.
    pub(crate) whole_at: usize,
    pub(crate) pod: u32,
    pub(crate) block: u32,
    /// Takes jobs.
    pub(crate) open: bool,
}

/// Nodes that can serve jobs that ask alike.
#[derive(Debug, Clone)]
struct Class {
    gpus: u32,
    rails: RailNeed,
    filter: Arc<Filter>,
    exclude: Vec<NodeIx>,
    /// `None`: all nodes that take jobs.
    rest: Option<(Vec<bool>, Row)>,
    nodes: u32,
}

/// Rows by pod, or by block.
#[derive(Debug, Clone, Default)]
struct Places {
    rows: Vec<Row>,
    most: Vec<u32>,
}

/// A limit of a queue, a tenant or an array over time.
#[derive(Debug, Clone)]
struct Quota {
    /// What may still be taken.
    left: Row,
    /// What it counts: GPUs, or jobs.
    gpus: bool,
    limit: u64,
}

/// Whose limit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limited {
    Queue(TenantName, Option<QueueName>),
    Jobs(TenantName),
    Array(JobId),
}

/// What one job asks of the plan.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    /// Spares too.
    pub(crate) nodes: u32,
    pub(crate) gpus: u32,
    pub(crate) whole: bool,
    pub(crate) class: usize,
    pub(crate) within: Within,
    pub(crate) quotas: Vec<usize>,
    pub(crate) length: Duration,
    /// Not before this step.
    pub(crate) from: usize,
}

impl Wish {
    fn amount(&self) -> i32 {
        i32::try_from(u64::from(self.nodes) * u64::from(self.gpus)).unwrap_or(i32::MAX)
    }

    fn count(&self) -> i32 {
        i32::try_from(self.nodes).unwrap_or(i32::MAX)
    }
}

/// Who asks alike cannot start earlier than the one before: where the search may begin.
type Hint = BTreeMap<(usize, u32, u32, Within, Vec<usize>), (Duration, usize)>;

/// The profile.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) grid: Grid,
    pub(crate) nodes: Vec<Node>,
    /// GPUs of the largest node.
    pub(crate) node_gpus: u32,
    pub(crate) rails: u32,
    pub(crate) open: u32,
    whole: Row,
    loose: Row,
    classes: Vec<Class>,
    pods: Option<Places>,
    blocks: Option<Places>,
    quotas: Vec<Quota>,
    quota_of: BTreeMap<Limited, usize>,
    hints: Hint,
}

/// What a job runs on, with the end of it as a step.
struct Held<'a> {
    nodes: &'a [(NodeIx, u32)],
    end: usize,
}

impl Plan {
    /// The profile of what runs.
    pub(crate) fn new(
        book: &Book,
        snapshot: &Snapshot,
        kept: &Kept<'_>,
        now: Timestamp,
        forecast: bool,
    ) -> Self {
        let ends = book.running.iter().filter_map(|uid| Some(book.end(book.jobs.get(uid)?, now)));
        let grid = Grid::new(now, book.policy.step, ends);
        let grid = if forecast { grid.rounding_to_nearest() } else { grid };
        let steps = grid.len();
        let mut nodes = vec![Node::default(); snapshot.topology().slots()];
        let (mut node_gpus, mut open) = (0, 0);
        let mut idle_gpus = vec![0_u32; nodes.len()];
        for (ix, server, capacity) in snapshot.nodes() {
            let (pod, block) = snapshot.yard().place(ix).unwrap_or_default();
            let gpus = capacity.gpus.count_ones();
            let is_open = capacity.gate.is_open();
            node_gpus = node_gpus.max(gpus);
            open += u32::from(is_open);
            let busy = capacity.held != controller_scheduler::Held::default();
            let whole_at = if busy { NEVER } else { 0 };
            let rails = server.usable.without(capacity.held.rails);
            if busy && (!rails.is_empty() || server.usable.is_empty()) {
                idle_gpus[ix.index()] = capacity.free_gpus().count_ones();
            }
            nodes[ix.index()] = Node { gpus, usable: server.usable, whole_at, pod, block, open: is_open };
        }
        let runs: Vec<Held<'_>> = book
            .running
            .iter()
            .filter_map(|uid| {
                let entry = book.jobs.get(uid)?;
                let nodes = book.cache.nodes.get(uid)?;
                Some(Held { nodes, end: grid.floor(book.end(entry, now)) })
            })
            .collect();
        let mut plan = Self {
            grid,
            nodes,
            node_gpus: node_gpus.max(1),
            rails: snapshot.topology().rails(),
            open,
            whole: Row::filled(0, steps),
            loose: Row::filled(0, steps),
            classes: Vec::new(),
            pods: None,
            blocks: None,
            quotas: Vec::new(),
            quota_of: BTreeMap::new(),
            hints: BTreeMap::new(),
        };
        plan.fill(&runs, &idle_gpus, kept);
        plan
    }

    fn fill(&mut self, runs: &[Held<'_>], idle_gpus: &[u32], kept: &Kept<'_>) {
        for run in runs {
            for (node, _) in run.nodes {
                if let Some(node) = self.nodes.get_mut(node.index()) {
                    let end = if node.whole_at == NEVER { 0 } else { node.whole_at };
                    node.whole_at = end.max(run.end);
                }
            }
        }
        for run in runs {
            for (node, gpus) in run.nodes {
                if let Some(node) = self.nodes.get(node.index()).filter(|node| node.open) {
                    self.loose.note(run.end, node.whole_at, signed(*gpus));
                }
            }
        }
        let mut row = std::mem::take(&mut self.whole);
        let windows = !kept.rows.is_empty();
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.open) {
            self.loose.note(0, node.whole_at, signed(idle_gpus[at]));
            if windows {
                self.note_node(at, node.whole_at, kept, &mut row);
            } else {
                row.note(node.whole_at, NEVER, 1);
            }
        }
        self.whole = row;
        self.whole.sum_up();
        self.loose.sum_up();
    }

    /// A node is whole from a step on, but for the windows in which it is kept.
    fn note_node(&self, at: usize, whole_at: usize, kept: &Kept<'_>, row: &mut Row) {
        row.note(whole_at, NEVER, 1);
        for (start, end) in kept.windows(NodeIx::at(at)) {
            let from = self.grid.floor(start).max(whole_at);
            row.note(from, self.grid.ceil(end), -1);
        }
    }

    /// Whether a job takes its nodes whole: nobody fits beside it.
    pub(crate) fn is_whole(&self, need: &Need) -> bool {
        need.exclusive
            || need.gpus >= self.node_gpus
            || (self.rails > 0 && need.rail_count() >= self.rails)
            || need.gpus == 0 && need.nodes > 1
    }

    /// The number of the class of such jobs.
    pub(crate) fn class(&mut self, need: &Need, snapshot: &Snapshot, kept: &Kept<'_>) -> usize {
        let gpus = if need.exclusive { need.gpus } else { need.gpus.min(self.node_gpus) };
        let same = |class: &Class| {
            class.gpus == gpus
                && class.rails == need.rails
                && class.filter == need.filter
                && class.exclude == need.exclude
        };
        if let Some(at) = self.classes.iter().position(same) {
            return at;
        }
        let fits: Vec<bool> = (self.nodes.iter().enumerate())
            .map(|(at, node)| {
                let rails = match need.rails {
                    RailNeed::Exactly(rails) => node.usable.covers(rails),
                    RailNeed::Any(count) => node.usable.len() >= count,
                };
                let ix = NodeIx::at(at);
                node.open
                    && rails
                    && node.gpus >= need.gpus
                    && !need.exclude.contains(&ix)
                    && snapshot.yard().traits(ix).is_some_and(|traits| need.filter.admits(traits))
            })
            .collect();
        let nodes = u32::try_from(fits.iter().filter(|fits| **fits).count()).unwrap_or(u32::MAX);
        let rest = (nodes < self.open).then(|| {
            let mut row = Row::filled(0, self.grid.len());
            for (at, _) in fits.iter().enumerate().filter(|(_, fits)| **fits) {
                // What others hold of it by then is not known any more; what is planned for alike jobs is.
                self.note_node(at, self.nodes[at].whole_at, kept, &mut row);
            }
            row.sum_up();
            (fits, row)
        });
        self.classes.push(Class {
            gpus,
            rails: need.rails,
            filter: Arc::clone(&need.filter),
            exclude: need.exclude.clone(),
            rest,
            nodes,
        });
        self.classes.len() - 1
    }

    /// Nodes that a class has, busy or not.
    pub(crate) fn class_nodes(&self, class: usize) -> u32 {
        self.classes[class].nodes
    }

    fn places(&self, within: Within) -> Option<&Places> {
        match within {
            Within::Fabric => None,
            Within::Pod => self.pods.as_ref(),
            Within::Leaves => self.blocks.as_ref(),
        }
    }

    /// Rows by place are made when the first job needs them.
    pub(crate) fn need_places(&mut self, within: Within, kept: &Kept<'_>) {
        if within == Within::Fabric || self.places(within).is_some() {
            return;
        }
        let place = |node: &Node| if within == Within::Pod { node.pod } else { node.block } as usize;
        let count = self.nodes.iter().map(|node| place(node) + 1).max().unwrap_or(0);
        let mut places = Places { rows: vec![Row::filled(0, self.grid.len()); count], most: vec![0; count] };
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.open) {
            self.note_node(at, node.whole_at, kept, &mut places.rows[place(node)]);
            places.most[place(node)] += 1;
        }
        places.rows.iter_mut().for_each(Row::sum_up);
        match within {
            Within::Pod => self.pods = Some(places),
            Within::Leaves => self.blocks = Some(places),
            Within::Fabric => {}
        }
    }

    /// The limits that concern a job, and whether one of them forbids it for ever.
    pub(crate) fn limits(
        &mut self,
        book: &Book,
        entry: &Entry,
        path: &[Option<QueueName>],
        now: Timestamp,
    ) -> Vec<usize> {
        let tenant = &entry.id.tenant;
        let all = u64::from(self.open) * u64::from(self.node_gpus);
        let mut list = Vec::new();
        for queue in path {
            if let Some(limit) =
                book.limit(tenant, queue.as_ref()).map(u64::from).filter(|limit| *limit < all)
            {
                list.push(self.limit(book, Limited::Queue(tenant.clone(), queue.clone()), limit, now));
            }
        }
        if let Some(jobs) = book.tenants.get(tenant).and_then(|def| def.jobs) {
            list.push(self.limit(book, Limited::Jobs(tenant.clone()), u64::from(jobs), now));
        }
        if let Some(group) = entry.array.as_ref().filter(|group| group.at_once > 0) {
            list.push(self.limit(book, Limited::Array(group.array.clone()), u64::from(group.at_once), now));
        }
        list
    }

    fn limit(&mut self, book: &Book, whose: Limited, limit: u64, now: Timestamp) -> usize {
        if let Some(at) = self.quota_of.get(&whose) {
            return *at;
        }
        let gpus = matches!(whose, Limited::Queue(..));
        let mut left = Row::filled(0, self.grid.len());
        left.note(0, NEVER, i32::try_from(limit).unwrap_or(i32::MAX));
        for entry in book.running.iter().filter_map(|uid| book.jobs.get(uid)) {
            let Some(run) = entry.run() else { continue };
            let counts = match &whose {
                Limited::Queue(tenant, queue) => {
                    entry.id.tenant == *tenant
                        && (queue.is_none() || book.path(entry).is_some_and(|path| path.contains(queue)))
                }
                Limited::Jobs(tenant) => entry.id.tenant == *tenant,
                Limited::Array(array) => entry.array.as_ref().is_some_and(|group| group.array == *array),
            };
            if counts {
                let amount = if gpus { run.gpus() } else { 1 };
                let end = self.grid.floor(book.end(entry, now));
                // Who is just ending holds until it has ended.
                left.note(0, end.max(1), -i32::try_from(amount).unwrap_or(i32::MAX));
            }
        }
        left.sum_up();
        self.quotas.push(Quota { left, gpus, limit });
        self.quota_of.insert(whose, self.quotas.len() - 1);
        self.quotas.len() - 1
    }

    fn share(&self, quota: usize, wish: &Wish) -> i32 {
        if self.quotas[quota].gpus { wish.amount() } else { 1 }
    }

    /// The limits that a job could never keep.
    pub(crate) fn never<'a>(&'a self, wish: &'a Wish) -> impl Iterator<Item = u64> + 'a {
        wish.quotas.iter().filter_map(|quota| {
            let Quota { limit, .. } = self.quotas[*quota];
            (i64::from(self.share(*quota, wish)) > i64::try_from(limit).unwrap_or(i64::MAX)).then_some(limit)
        })
    }

    /// Whether the limits leave room for the job now, and whether the cluster does.
    pub(crate) fn room(&self, wish: &Wish) -> (bool, bool) {
        let quota =
            wish.quotas.iter().all(|quota| self.quotas[*quota].left.at(0) >= self.share(*quota, wish));
        let alone = Wish { quotas: Vec::new(), length: Duration::ZERO, ..wish.clone() };
        (quota, self.last_miss(&alone, 0, 1).is_none())
    }

    /// What is free now.
    pub(crate) fn free_now(&self) -> (i32, i32) {
        (self.whole.at(0), self.loose.at(0))
    }

    /// Nodes that a gang could have over a time from now on, if it takes them whole.
    pub(crate) fn most(&self, wish: &Wish) -> u32 {
        let end = self.grid.end_now(wish.length);
        let mut most = self.whole.least(0, end);
        if let Some((_, row)) = &self.classes[wish.class].rest {
            most = most.min(row.least(0, end));
        }
        for quota in wish.quotas.iter().map(|at| &self.quotas[*at]).filter(|quota| quota.gpus) {
            most = most.min(quota.left.least(0, end) / signed(wish.gpus).max(1));
        }
        if let Some(places) = self.places(wish.within) {
            most = most.min(places.rows.iter().map(|row| row.least(0, end)).max().unwrap_or(0));
        }
        u32::try_from(most).unwrap_or(0)
    }

    /// The last step of a range in which there is too little; places aside.
    fn last_miss(&self, wish: &Wish, from: usize, to: usize) -> Option<usize> {
        let miss = if wish.whole {
            self.whole.last_below(from, to, wish.count())
        } else {
            let (amount, gpus) = (wish.amount(), signed(self.node_gpus));
            (from..to.min(self.whole.len())).rev().find(|step| {
                self.whole.at(*step).saturating_mul(gpus).saturating_add(self.loose.at(*step)) < amount
            })
        };
        let class = match &self.classes[wish.class].rest {
            Some((_, row)) if wish.whole => row.last_below(from, to, wish.count()),
            _ => None,
        };
        let quota = |at: &usize| self.quotas[*at].left.last_below(from, to, self.share(*at, wish));
        wish.quotas.iter().filter_map(quota).chain(miss).chain(class).max()
    }

    /// The first step in which the job fits for its whole length, and in which place if it must stay in one.
    pub(crate) fn earliest(&mut self, wish: &Wish) -> Option<(usize, Option<usize>)> {
        let key = (wish.class, wish.nodes, wish.gpus, wish.within, wish.quotas.clone());
        let hint =
            self.hints.get(&key).filter(|(length, _)| *length <= wish.length).map_or(0, |(_, step)| *step);
        let from = wish.from.max(hint);
        let found = match self.places(wish.within) {
            None => self.first_fit(wish, from, None).map(|step| (step, None)),
            Some(places) => {
                let mut best: Option<(usize, Option<usize>)> = None;
                for (place, row) in places.rows.iter().enumerate() {
                    if places.most[place] < wish.nodes {
                        continue;
                    }
                    let until = best.map_or(self.grid.len(), |(step, _)| step);
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

    fn first_fit(&self, wish: &Wish, from: usize, place: Option<&Row>) -> Option<usize> {
        self.first_fit_until(wish, from, place, self.grid.len())
    }

    fn first_fit_until(&self, wish: &Wish, from: usize, place: Option<&Row>, until: usize) -> Option<usize> {
        let mut step = from;
        while step < until {
            let end = self.grid.end(step, wish.length);
            let miss = self.last_miss(wish, step, end);
            let here = place.and_then(|row| row.last_below(step, end, wish.count()));
            match miss.max(here) {
                None => return Some(step),
                Some(miss) => step = miss + 1,
            }
        }
        None
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
        if let Some((_, row)) = &mut self.classes[wish.class].rest {
            row.add(step, end, -wish.count());
        }
        let places = match wish.within {
            Within::Fabric => None,
            Within::Pod => self.pods.as_mut(),
            Within::Leaves => self.blocks.as_mut(),
        };
        if let Some((places, place)) = places.zip(place) {
            places.rows[place].add(step, end, -wish.count());
        }
    }

    pub(crate) fn take_quota(&mut self, wish: &Wish, step: usize, end: usize) {
        for at in &wish.quotas {
            let share = self.share(*at, wish);
            self.quotas[*at].left.add(step, end, -share);
        }
    }

    /// GPUs come from nodes that are broken into already; then nodes are broken into.
    fn take_loose(&mut self, wish: &Wish, step: usize, end: usize) {
        let (amount, gpus) = (wish.amount(), signed(self.node_gpus));
        for step in step..end.min(self.grid.len()) {
            let loose = self.loose.get_mut(step);
            *loose -= amount;
            if *loose < 0 {
                let broken = (-*loose + gpus - 1) / gpus;
                *loose += broken * gpus;
                *self.whole.get_mut(step) -= broken;
            }
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

    /// A job holds these nodes from now on.
    pub(crate) fn occupy(&mut self, picks: &[(NodeIx, u32)], wish: &Wish) {
        let end = self.grid.end_now(wish.length);
        self.take_quota(wish, 0, end);
        self.hold(picks, wish.whole, 0, end);
    }

    /// These nodes are held for a range of steps, longer than was thought so far.
    fn hold(&mut self, picks: &[(NodeIx, u32)], whole: bool, from: usize, end: usize) {
        let mut idle = 0;
        for (ix, gpus) in picks {
            let Some(node) = self.nodes.get_mut(ix.index()) else { continue };
            let was = node.whole_at;
            node.whole_at = was.max(end);
            let (node, since) = (*node, was.max(from));
            let left = if whole { 0 } else { signed(node.gpus.saturating_sub(*gpus)) };
            self.loose.add(from, was.min(end), -signed(*gpus));
            if since == from && left == 0 {
                idle += 1;
            } else {
                self.whole.add(since, end, -1);
                self.loose.add(since, end, left);
            }
            for class in &mut self.classes {
                if let Some((fits, row)) = &mut class.rest
                    && fits.get(ix.index()) == Some(&true)
                {
                    row.add(since, end, -1);
                }
            }
            let places = [(&mut self.pods, node.pod), (&mut self.blocks, node.block)];
            for (places, at) in places {
                if let Some(row) = places.as_mut().and_then(|places| places.rows.get_mut(at as usize)) {
                    row.add(since, end, -1);
                }
            }
        }
        self.whole.add(from, end, -idle);
    }

    /// Nodes come free earlier than was thought, from a step on.
    pub(crate) fn free(&mut self, nodes: impl Iterator<Item = NodeIx>, from: usize) {
        for ix in nodes {
            let Some(node) = self.nodes.get_mut(ix.index()).filter(|node| node.open) else { continue };
            let was = std::mem::replace(&mut node.whole_at, from);
            let node = *node;
            self.whole.add(from, was, 1);
            for class in &mut self.classes {
                if let Some((fits, row)) = &mut class.rest
                    && fits.get(ix.index()) == Some(&true)
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
}

pub(crate) fn signed(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
