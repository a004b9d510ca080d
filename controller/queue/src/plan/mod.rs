//! What will be free when: the profile that planned starts are taken from.
//!
//! Jobs that want nodes whole count nodes; the others count GPUs on nodes that are broken into. Whoever asks for more CPUs or
//! memory than come with its GPUs is planned on whole nodes, and starts beside others where the placer finds room. Alike nodes may change
//! places, so counting them is exact; jobs that must stay in one pod, or that ask for some nodes only, have rows of
//! their own beside that.

mod fit;
mod license;
mod limit;
mod long_jobs;
mod loose;

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use controller_scheduler::{Need, Within};
use controller_topology::NodeIx;
use loose::{Loose, TenantAt};
use proto_model::{ClassUser, JobId, LicenseName, QueueName, TenantName, Timestamp};

use crate::{
    entry::Entry,
    grid::{Grid, NEVER},
    ground::{Ground, Kind},
    measure::Measure,
    reserve::ActiveReservations,
    row::Row,
    tables::{QueueState, Taken},
};

pub(crate) use fit::Short;

/// A node, as the plan sees it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Node {
    pub(crate) gpus: u32,
    /// From this step on it is whole; [`NEVER`]: never.
    pub(crate) whole_at: usize,
    pub(crate) pod: u32,
    pub(crate) block: u32,
    /// Whether the node takes jobs.
    pub(crate) open: bool,
    /// Cannot keep two tenants apart.
    apart: bool,
    owner: Owner,
}

/// Whose jobs are on a node that is for one tenant at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Owner {
    #[default]
    Nobody,
    One(TenantAt),
    /// Several tenants, from a time when it could keep them apart: it is for none of them.
    Several,
}

/// Nodes that can serve jobs that ask alike.
#[derive(Debug, Clone)]
struct Class {
    kind: Kind,
    /// `None`: all nodes that take jobs.
    rest: Option<Row>,
}

/// Rows by pod, or by block.
#[derive(Debug, Clone, Default)]
struct Places {
    rows: Vec<Row>,
    most: Vec<u32>,
}

/// A limit of a queue, a tenant, an array, a user or long small jobs over time, or a license.
#[derive(Debug, Clone)]
struct Quota {
    /// What may still be taken.
    left: Row,
    /// What it counts: GPUs; or jobs, or licenses, of which desired state says how many.
    gpus: bool,
    limit: u64,
}

/// What a limit is set for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limited {
    Queue(TenantName, Option<QueueName>),
    Jobs(TenantName),
    Array(JobId),
    /// Jobs of a user in a service class, and the GPUs that they hold.
    UserJobs(ClassUser),
    UserGpus(ClassUser),
    /// Of the whole cluster.
    License(LicenseName),
    /// Small jobs of the whole cluster that may run for long.
    LongJobs,
}

/// What one job asks of the plan.
#[derive(Debug, Clone)]
pub(crate) struct PlanRequest {
    /// Nodes that the job asks for, spares included.
    pub(crate) nodes: u32,
    /// Those of them that are spares: they need not be in the same place as the rest.
    pub(crate) spares: u32,
    /// Of each node; of a gang of components the fewest of any.
    pub(crate) gpus: u32,
    /// The plan counts whole nodes for it.
    pub(crate) whole: bool,
    /// Nobody fits beside it.
    pub(crate) alone: bool,
    pub(crate) class: usize,
    /// Of a gang of components: classes of which it takes so many nodes at least.
    pub(crate) parts: Rc<[(usize, i32)]>,
    /// Of a gang of components: the GPUs that it takes.
    pub(crate) gpus_in_all: Option<i32>,
    pub(crate) within: Within,
    pub(crate) quotas: Rc<[usize]>,
    /// Which of those are licenses, and how many of each.
    pub(crate) licenses: Vec<(usize, i32)>,
    /// Who asks, where that matters.
    pub(crate) tenant: Option<TenantAt>,
    pub(crate) length: Duration,
    /// Not before this step.
    pub(crate) from: usize,
    /// The plan has too little for it, as far as it can count: see [`Measure::may_share_nodes`].
    pub(crate) on_shared_nodes: bool,
}

impl Owner {
    fn with(self, tenant: TenantAt) -> Self {
        match self {
            Self::Nobody => Self::One(tenant),
            Self::One(other) if other == tenant => self,
            _ => Self::Several,
        }
    }
}

impl Node {
    /// Who can have what is free beside those that are there: anybody (`Some(None)`), one tenant, or nobody.
    fn owner(&self) -> Option<Option<TenantAt>> {
        match self.owner {
            _ if !self.apart => Some(None),
            Owner::One(tenant) => Some(Some(tenant)),
            // Nobody known is there, and still it is held.
            Owner::Nobody | Owner::Several => None,
        }
    }
}

impl PlanRequest {
    /// GPUs that it takes of all its nodes together.
    pub(crate) fn amount(&self) -> i32 {
        if let Some(gpus) = self.gpus_in_all {
            return gpus;
        }
        i32::try_from(u64::from(self.nodes) * u64::from(self.gpus)).unwrap_or(i32::MAX)
    }

    fn count(&self) -> i32 {
        i32::try_from(self.nodes).unwrap_or(i32::MAX)
    }

    /// Nodes that must be in one place, where the job asks for that.
    fn together(&self) -> u32 {
        self.nodes.saturating_sub(self.spares)
    }

    fn count_together(&self) -> i32 {
        i32::try_from(self.together()).unwrap_or(i32::MAX)
    }
}

/// Who asks alike cannot start earlier than the one before: where the search may begin.
type Hint = BTreeMap<HintKey, (Duration, usize)>;
type HintKey = (
    (usize, Rc<[(usize, i32)]>),
    (u32, u32),
    i32,
    Within,
    (Rc<[usize]>, Vec<(usize, i32)>),
    Option<TenantAt>,
);

/// What is known of all who ask for idle nodes: so many for so long are not to be had before a step, whoever asks. It holds as
/// long as the plan only takes.
#[derive(Debug, Clone, Default)]
struct Bounds(Vec<Bound>);

#[derive(Debug, Clone, Copy)]
struct Bound {
    nodes: i32,
    length: Duration,
    step: usize,
}

impl Bounds {
    /// More are not kept: the look at them would take longer than the search that it saves.
    const MOST: usize = 64;

    /// Where the search for so many for so long may begin.
    fn from(&self, nodes: i32, length: Duration) -> usize {
        let less = self.0.iter().filter(|bound| bound.nodes <= nodes && bound.length <= length);
        less.map(|bound| bound.step).max().unwrap_or(0)
    }

    fn add(&mut self, new: Bound) {
        let says_no_less =
            |old: &Bound| old.nodes <= new.nodes && old.length <= new.length && old.step >= new.step;
        if new.step == 0 || self.0.iter().any(says_no_less) {
            return;
        }
        self.0.retain(|old| !(new.nodes <= old.nodes && new.length <= old.length && new.step >= old.step));
        if self.0.len() < Self::MOST {
            self.0.push(new);
        }
    }
}

/// The profile: what is free at each step, over all nodes and in each part that jobs ask for.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) grid: Grid,
    pub(crate) nodes: Vec<Node>,
    /// Where the step from which on a node is whole is in [`Plan::ends`], by node: side by side, because each class counts them.
    end_of_node: Vec<u32>,
    /// GPUs of the largest node.
    pub(crate) node_gpus: u32,
    pub(crate) measure: Measure,
    pub(crate) open: u32,
    /// Nodes that take jobs, by the GPUs that nobody held when this was made.
    free: BTreeMap<u32, u32>,
    /// The steps from which on nodes are whole, in no order: most nodes share theirs with others, and are counted by it.
    ends: Vec<usize>,
    /// It is for a forecast, and reckons with what is likely, not with what is allowed.
    pub(crate) forecast: bool,
    /// GPUs that jobs can hold at most: of all nodes, whether they take jobs or not, and of nodes that are gone.
    pub(crate) most_gpus: u64,
    whole: Row,
    loose: Loose,
    classes: Vec<Class>,
    pods: Option<Places>,
    blocks: Option<Places>,
    quotas: Vec<Quota>,
    quota_of: BTreeMap<Limited, usize>,
    /// Of gangs whose nodes are all alike, which most are.
    no_parts: Rc<[(usize, i32)]>,
    hints: Hint,
    bounds: Bounds,
    /// Something that was held has been counted as free.
    freed: bool,
    /// Jobs that wait have their place in it.
    kept: bool,
    /// When the first of those that run, or have started since, ends, or a reservation does.
    next_end: usize,
}

/// What a job runs on, with the end of it as a step.
struct Occupancy<'a> {
    nodes: &'a [(NodeIx, u32)],
    tenant: Option<&'a TenantName>,
    end: usize,
}

impl Plan {
    /// The profile of what runs.
    pub(crate) fn new(
        queue_state: &QueueState,
        (ground, rails): (&Ground, u32),
        kept: &ActiveReservations<'_>,
        now: Timestamp,
        forecast: bool,
    ) -> Self {
        let end = |entry: &Entry| {
            if forecast { queue_state.predicted_end(entry, now) } else { queue_state.end(entry, now) }
        };
        let ends: Vec<(Timestamp, &Entry, Taken<'_>)> =
            queue_state.runs().map(|(entry, nodes)| (end(entry), entry.as_ref(), nodes)).collect();
        let times = ends.iter().map(|(end, ..)| *end);
        let grid = if forecast {
            Grid::coarse(now, queue_state.policy.step, times)
        } else {
            Grid::exact(now, times)
        };
        let node = |plot: &crate::ground::Plot| {
            let whole_at = if plot.busy { NEVER } else { 0 };
            Node {
                gpus: plot.gpus,
                whole_at,
                pod: plot.pod,
                block: plot.block,
                open: plot.open,
                apart: plot.apart,
                owner: Owner::Nobody,
            }
        };
        let nodes = ground.plots.iter().map(node).collect();
        let end_of_node = ground.plots.iter().map(|plot| u32::from(plot.busy)).collect();
        let mut most_gpus = ground.most_gpus();
        let mut runs = Vec::with_capacity(ends.len());
        for (end, entry, nodes) in ends {
            let known = nodes.unwrap_or_default();
            // A placement is long: it is gone through only where some of its nodes are gone.
            if let Some(run) = entry.run().filter(|run| run.nodes() > known.len()) {
                let here = known.iter().map(|(_, gpus)| u64::from(*gpus)).sum();
                most_gpus += run.gpus().saturating_sub(here);
            }
            if let Some(nodes) = nodes {
                let tenant = entry.need.tenant.as_ref();
                runs.push(Occupancy { nodes, tenant, end: grid.floor(end) });
            }
        }
        let mut plan = Self {
            grid,
            nodes,
            end_of_node,
            node_gpus: ground.node_gpus.max(1),
            measure: ground.measure(rails),
            open: ground.open,
            free: ground.free().clone(),
            ends: vec![0, NEVER],
            forecast,
            most_gpus,
            whole: Row::default(),
            loose: Loose::new(ground.apart > 0),
            classes: Vec::new(),
            pods: None,
            blocks: None,
            quotas: Vec::new(),
            quota_of: BTreeMap::new(),
            no_parts: Rc::from([]),
            hints: BTreeMap::new(),
            bounds: Bounds::default(),
            freed: false,
            kept: false,
            next_end: NEVER,
        };
        let windows = kept.rows.values().map(|(def, _)| plan.grid.ceil(def.end()));
        let ends = runs.iter().map(|run| run.end).filter(|end| *end > 0);
        plan.next_end = ends.chain(windows).min().unwrap_or(NEVER);
        plan.fill(&runs, ground, kept);
        plan
    }

    fn fill(&mut self, runs: &[Occupancy<'_>], ground: &Ground, kept: &ActiveReservations<'_>) {
        for run in runs {
            let tenant = self.loose.tenant(run.tenant);
            let at = end_of(&mut self.ends, run.end);
            for (ix, _) in run.nodes {
                if let Some(node) = self.nodes.get_mut(ix.index()) {
                    if let Some(tenant) = tenant.filter(|_| node.apart) {
                        node.owner = node.owner.with(tenant);
                    }
                    // Several jobs may be there: it is whole when the last of them has ended.
                    if node.whole_at == NEVER || node.whole_at < run.end {
                        (node.whole_at, self.end_of_node[ix.index()]) = (run.end, at);
                    }
                }
            }
        }
        for run in runs {
            for (node, gpus) in run.nodes {
                let node = self.nodes.get(node.index()).filter(|node| node.open);
                if let Some((node, owner)) = node.and_then(|node| Some((node, node.owner()?))) {
                    self.loose.note(owner, run.end, node.whole_at, signed(*gpus));
                }
            }
        }
        for at in &ground.loose {
            if let Some((node, plot)) =
                self.nodes.get(*at).zip(ground.plots.get(*at)).filter(|(node, _)| node.open)
                && let Some(owner) = node.owner()
            {
                self.loose.note(owner, 0, node.whole_at, signed(plot.loose));
            }
        }
        let open: Vec<bool> = self.nodes.iter().map(|node| node.open).collect();
        self.whole = self.row_of(&open, kept);
        self.loose.sum_up();
    }

    /// Some of the nodes over time: those for which `some`, by node, is true.
    fn row_of(&self, some: &[bool], kept: &ActiveReservations<'_>) -> Row {
        if kept.rows.is_empty() {
            let mut counts = vec![0; self.ends.len()];
            for (end, some) in self.end_of_node.iter().zip(some) {
                if let Some(count) = counts.get_mut(*end as usize) {
                    *count += i32::from(*some);
                }
            }
            let changes = self.ends.iter().copied().zip(counts);
            return Row::of(changes.filter(|(end, count)| *end < NEVER && *count > 0).collect());
        }
        let mut row = Row::default();
        let some = self.nodes.iter().enumerate().zip(some).filter(|(_, some)| **some);
        some.for_each(|((at, node), _)| self.note_node(at, node.whole_at, kept, &mut row));
        row.sum_up();
        row
    }

    /// A node is whole from a step on, but for the windows in which it is kept.
    fn note_node(&self, at: usize, whole_at: usize, kept: &ActiveReservations<'_>, row: &mut Row) {
        row.note(whole_at, NEVER, 1);
        for (start, end) in kept.windows(NodeIx::at(at)) {
            let from = self.grid.floor(start).max(whole_at);
            row.note(from, self.grid.ceil(end), -1);
        }
    }

    /// Whether the plan may say that there is too little for a job that the placer has a gang for: see
    /// [`Measure::may_share_nodes`].
    pub(crate) fn may_fit_on_shared_nodes(&self, need: &Need, nodes: u32) -> bool {
        self.measure.may_share_nodes(need)
            && self.free.range(need.least_gpus()..).map(|(_, count)| *count).sum::<u32>() >= nodes
    }

    /// The number of who asks, where it matters who does.
    pub(crate) fn tenant(&mut self, need: &Need) -> Option<TenantAt> {
        self.loose.tenant(need.tenant.as_ref())
    }

    /// The number of the class of such jobs.
    pub(crate) fn class(&mut self, need: &Need, ground: &Ground, kept: &ActiveReservations<'_>) -> usize {
        if let Some(at) = self.classes.iter().position(|class| class.kind.is_of(need)) {
            return at;
        }
        let kind = ground.kind(need).cloned().unwrap_or_else(|| ground.kind_of(need));
        // What others hold of it by then is not known any more; what is planned for alike jobs is.
        let rest = (kind.nodes < self.open).then(|| self.row_of(&kind.fits, kept));
        self.classes.push(Class { kind, rest });
        self.classes.len() - 1
    }

    /// Of a gang of components the classes of some of them together, with how many nodes those have: a gang has its nodes where any of its
    /// components together have theirs (Hall 1935). Of more than three only each by itself is looked at.
    pub(crate) fn parts(
        &mut self,
        need: &Need,
        ground: &Ground,
        kept: &ActiveReservations<'_>,
    ) -> Rc<[(usize, i32)]> {
        let count = need.components.len();
        if count == 0 {
            return Rc::clone(&self.no_parts);
        }
        let some = |set: &u32| count <= 3 || set.is_power_of_two();
        let sets: Vec<u32> = (1..(1_u32 << count).saturating_sub(1)).filter(some).collect();
        let part = |set: u32| need.of_components(|at| set >> at & 1 == 1);
        let parts = sets.into_iter().map(|set| {
            let part = part(set);
            (self.class(&part, ground, kept), signed(part.nodes))
        });
        parts.collect()
    }

    /// Nodes that a class has, busy or not.
    pub(crate) fn class_nodes(&self, class: usize) -> u32 {
        self.classes[class].kind.nodes
    }

    fn places(&self, within: Within) -> Option<&Places> {
        match within {
            Within::Fabric => None,
            Within::Pod => self.pods.as_ref(),
            Within::Leaves => self.blocks.as_ref(),
        }
    }

    /// Rows by place are made when the first job needs them.
    pub(crate) fn need_places(&mut self, within: Within, kept: &ActiveReservations<'_>) {
        if within == Within::Fabric || self.places(within).is_some() {
            return;
        }
        let place = |node: &Node| if within == Within::Pod { node.pod } else { node.block } as usize;
        let count = self.nodes.iter().map(|node| place(node) + 1).max().unwrap_or(0);
        let mut most = vec![0_u32; count];
        for node in self.nodes.iter().filter(|node| node.open) {
            most[place(node)] += 1;
        }
        let open = || self.nodes.iter().enumerate().filter(|(_, node)| node.open);
        let rows = if kept.rows.is_empty() {
            let list = |most: &u32| Vec::with_capacity(*most as usize);
            let mut changes: Vec<Vec<(usize, i32)>> = most.iter().map(list).collect();
            for (_, node) in open().filter(|(_, node)| node.whole_at < NEVER) {
                let changes = &mut changes[place(node)];
                match changes.last_mut() {
                    Some((end, count)) if *end == node.whole_at => *count += 1,
                    _ => changes.push((node.whole_at, 1)),
                }
            }
            changes.into_iter().map(Row::of).collect()
        } else {
            let mut rows = vec![Row::default(); count];
            open().for_each(|(at, node)| self.note_node(at, node.whole_at, kept, &mut rows[place(node)]));
            rows.iter_mut().for_each(Row::sum_up);
            rows
        };
        let places = Places { rows, most };
        match within {
            Within::Pod => self.pods = Some(places),
            Within::Leaves => self.blocks = Some(places),
            Within::Fabric => {}
        }
    }
}

/// Where a step is among some; it is put there.
fn end_of(ends: &mut Vec<usize>, step: usize) -> u32 {
    let at = match ends.last() {
        Some(last) if *last == step => ends.len() - 1,
        _ => {
            ends.push(step);
            ends.len() - 1
        }
    };
    u32::try_from(at).unwrap_or(u32::MAX)
}

pub(crate) fn signed(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_for_those_who_ask_for_as_much_for_as_long() {
        let hours = |count: u64| Duration::from_secs(3600 * count);
        let mut bounds = Bounds::default();
        for (nodes, length, step) in [(4, 2, 10), (2, 1, 7), (8, 3, 9), (4, 2, 12), (1, 1, 0)] {
            bounds.add(Bound { nodes, length: hours(length), step });
        }
        let from = |nodes, length| bounds.from(nodes, hours(length));
        assert_eq!((from(4, 2), from(9, 9), from(3, 9), from(9, 1)), (12, 12, 7, 7));
        assert_eq!((from(1, 9), from(2, 0)), (0, 0));
        // What a stronger one says already is not kept.
        assert_eq!(bounds.0.len(), 2);
        let many = (0..1000).map(|at| Bound { nodes: 1000 - at, length: hours(9), step: 2000 - at as usize });
        many.for_each(|bound| bounds.add(bound));
        assert!(bounds.0.len() <= Bounds::MOST);
    }
}
