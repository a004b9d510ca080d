//! What will be free when: the profile that planned starts are taken from.
//!
//! Jobs that want nodes whole count nodes; the others count GPUs on nodes that are broken into. Alike nodes may change
//! places, so counting them is exact; jobs that must stay in one pod, or that ask for some nodes only, have rows of
//! their own beside that.

mod fit;
mod limit;

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

/// Nodes that can serve jobs that ask alike. The few nodes that a job excludes do not make a class: the choice of nodes
/// knows them.
#[derive(Debug, Clone)]
struct Class {
    gpus: u32,
    rails: RailNeed,
    filter: Arc<Filter>,
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
    /// It is for a forecast, and reckons with what is likely, not with what is allowed.
    pub(crate) forecast: bool,
    /// GPUs that jobs can hold at most: of all nodes, whether they take jobs or not, and of nodes that are gone.
    pub(crate) most_gpus: u64,
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
        let end =
            |entry: &Entry| if forecast { book.predicted_end(entry, now) } else { book.end(entry, now) };
        let ends = book.running.iter().filter_map(|uid| Some(end(book.jobs.get(uid)?)));
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
                Some(Held { nodes, end: grid.floor(end(entry)) })
            })
            .collect();
        let mut most_gpus: u64 = nodes.iter().map(|node| u64::from(node.gpus)).sum();
        for uid in &book.running {
            let run = book.jobs.get(uid).and_then(|entry| entry.run());
            let known = book
                .cache
                .nodes
                .get(uid)
                .map_or(0, |nodes| nodes.iter().map(|(_, gpus)| u64::from(*gpus)).sum());
            most_gpus += run.map_or(0, crate::entry::Run::gpus).saturating_sub(known);
        }
        let mut plan = Self {
            grid,
            nodes,
            node_gpus: node_gpus.max(1),
            rails: snapshot.topology().rails(),
            open,
            forecast,
            most_gpus,
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
        let same =
            |class: &Class| class.gpus == gpus && class.rails == need.rails && class.filter == need.filter;
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
        self.classes.push(Class { gpus, rails: need.rails, filter: Arc::clone(&need.filter), rest, nodes });
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
}

pub(crate) fn signed(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
