//! What the nodes are and what of them is free, kept between passes and brought up to date from the capacity index's log. It is a
//! function of the snapshot alone: throwing it away changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_scheduler::{Allocated, ComponentNeed, Filter, Host, Mark, Need, RailNeed, Snapshot, Traits};
use controller_topology::{NodeIx, RailSet};

use crate::measure::Measure;

/// Kinds of asking that are kept at most; beyond that all are looked up anew.
const KINDS: usize = 64;

/// One node, with what of it is free.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plot {
    pub(crate) gpus: u32,
    /// CPUs and memory that the node has.
    host: Host,
    /// GPUs that nobody holds.
    pub(crate) free: u32,
    /// GPUs that are held and that the node does not report any more: it joined anew, or one broke.
    lost: u32,
    /// Those of them that others can have beside whoever holds something here; 0 where nobody does.
    pub(crate) loose: u32,
    pub(crate) usable: RailSet,
    pub(crate) pod: u32,
    pub(crate) block: u32,
    /// Whether the node takes jobs.
    pub(crate) open: bool,
    /// Whether any job holds something on the node.
    pub(crate) busy: bool,
    /// Cannot keep two tenants apart.
    pub(crate) apart: bool,
    traits: Option<Arc<Traits>>,
}

impl Plot {
    fn of(snapshot: &Snapshot, ix: NodeIx) -> Self {
        let Some(server) = snapshot.topology().server(ix) else { return Self::default() };
        let capacity = snapshot.capacity(ix);
        let (pod, block) = snapshot.capacity_index().place(ix).unwrap_or_default();
        let busy = capacity.held != Allocated::default();
        let free = capacity.free_gpus().count_ones();
        let rails = server.usable.without(capacity.held.rails);
        let beside = busy && (!rails.is_empty() || server.usable.is_empty());
        Self {
            gpus: capacity.gpus.count_ones(),
            host: capacity.host,
            free,
            lost: (capacity.held.gpus & !capacity.gpus).count_ones(),
            loose: if beside { free } else { 0 },
            usable: server.usable,
            pod,
            block,
            open: capacity.gate.is_open(),
            busy,
            apart: snapshot.capacity_index().is_apart(ix),
            traits: snapshot.capacity_index().traits(ix).cloned(),
        }
    }

    /// Whether a gang on these rails could have it at a position in rank order if nobody else held anything.
    pub(crate) fn serves(&self, need: &Need, position: usize, rails: RailSet) -> bool {
        let (gpus, host, filter) = match need.component_at(position) {
            Some(component) => (component.gpus, component.host, &component.filter),
            None => (need.gpus, need.host, &need.filter),
        };
        self.offers((gpus, host, filter), |usable| usable.covers(rails))
    }

    /// Whether it has what a job asks of a node, if nobody else held anything.
    fn offers(&self, (gpus, host, filter): (u32, Host, &Filter), rails: impl Fn(RailSet) -> bool) -> bool {
        let traits =
            |traits: &Arc<Traits>| filter.admits(traits) && rails(filter.rails_of(traits, self.usable));
        self.open
            && self.gpus >= gpus
            && self.host.covers(host)
            && rails(self.usable)
            && self.traits.as_ref().is_some_and(traits)
    }

    /// Whether somebody is on it who holds none of its GPUs, nor wants it alone.
    fn is_unbroken(&self) -> bool {
        self.open && self.busy && self.gpus > 0 && self.free == self.gpus
    }

    /// Whether it is the same node, whatever is held there.
    fn is_same(&self, other: &Self) -> bool {
        let traits = match (&self.traits, &other.traits) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        let place = |plot: &Self| (plot.pod, plot.block);
        traits
            && (self.gpus, self.usable, self.open) == (other.gpus, other.usable, other.open)
            && self.host == other.host
            && place(self) == place(other)
    }
}

/// Jobs that ask alike of a node. The few nodes that a job excludes do not make a kind: the choice of nodes knows them.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    gpus: u32,
    rails: RailNeed,
    host: Host,
    filter: Arc<Filter>,
    /// The only nodes that they may have.
    only: Option<Arc<[NodeIx]>>,
    /// Where its nodes are not all alike: a node that can be of any of them serves.
    components: Vec<ComponentNeed>,
    /// Which nodes can serve them, busy or not.
    pub(crate) fits: Arc<Vec<bool>>,
    /// How many those are.
    pub(crate) nodes: u32,
    /// How many of them nobody holds anything of.
    pub(crate) idle: u32,
}

impl Kind {
    pub(crate) fn is_of(&self, need: &Need) -> bool {
        let filter = || Arc::ptr_eq(&self.filter, &need.filter) || self.filter == need.filter;
        self.gpus == need.gpus
            && self.rails == need.rails
            && self.host == need.host
            && filter()
            && self.only == need.only
            && self.components == need.components
    }

    fn admits(&self, ix: usize, plot: &Plot) -> bool {
        if self.only.as_ref().is_some_and(|only| only.binary_search(&NodeIx::at(ix)).is_err()) {
            return false;
        }
        let rails = |rails: RailSet| match self.rails {
            RailNeed::Exactly(need) => rails.covers(need),
            RailNeed::Any(count) => rails.len() >= count,
        };
        if self.components.is_empty() {
            return plot.offers((self.gpus, self.host, &self.filter), rails);
        }
        self.components.iter().any(|one| plot.offers((one.gpus, one.host, &one.filter), rails))
    }
}

/// All nodes, with the numbers over all of them that every pass needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ground {
    mark: Option<Mark>,
    /// Changes whenever nodes do, whatever is held there; the first number, when nothing of what was known holds.
    pub(crate) version: (u64, u64),
    pub(crate) plots: Vec<Plot>,
    kinds: Vec<Kind>,
    /// GPUs of the largest node.
    pub(crate) node_gpus: u32,
    /// CPUs and memory that come with each GPU where they are fewest, of nodes that take jobs and report theirs.
    share: Host,
    /// Nodes that somebody is on without any of their GPUs.
    unbroken: u32,
    /// Nodes that take jobs.
    pub(crate) open: u32,
    /// Nodes that take jobs and cannot keep two tenants apart.
    pub(crate) apart: u32,
    /// GPUs of all nodes, whether they take jobs or not.
    pub(crate) gpus: u64,
    /// GPUs that are held where no node reports them any more.
    lost: u64,
    /// Nodes with GPUs of the largest pod.
    largest_pod: u32,
    /// Nodes that take jobs by the GPUs that nobody holds.
    free: BTreeMap<u32, u32>,
    /// Nodes on which others can have GPUs beside whoever holds something.
    pub(crate) loose: BTreeSet<usize>,
}

impl Ground {
    /// Brings it to what the snapshot is.
    pub(crate) fn update(this: &mut Arc<Self>, snapshot: &Snapshot) {
        let capacity_index = snapshot.capacity_index();
        let same = this.plots.len() == snapshot.topology().slots();
        let changed = this.mark.filter(|_| same).and_then(|mark| capacity_index.changed_since(mark));
        match changed {
            Some(nodes) if nodes.is_empty() => {}
            Some(nodes) => {
                let ground = Arc::make_mut(this);
                let mut others = false;
                for ix in nodes {
                    others |= ground.refresh(snapshot, ix);
                }
                if others {
                    ground.count();
                }
            }
            None => {
                let version = (this.version.0 + 1, 0);
                *this = Arc::new(Self { version, ..Self::of(snapshot) });
            }
        }
        if this.mark != Some(capacity_index.mark()) {
            Arc::make_mut(this).mark = Some(capacity_index.mark());
        }
    }

    /// Who asks so is known from now on.
    pub(crate) fn learn<'a>(this: &mut Arc<Self>, needs: impl Iterator<Item = &'a Need>) {
        for need in needs {
            if this.kind(need).is_none() {
                let kind = this.kind_of(need);
                let ground = Arc::make_mut(this);
                if ground.kinds.len() >= KINDS {
                    ground.kinds.clear();
                }
                ground.kinds.push(kind);
            }
        }
    }

    fn of(snapshot: &Snapshot) -> Self {
        let slots = 0..snapshot.topology().slots();
        let plots = slots.map(|at| Plot::of(snapshot, NodeIx::at(at))).collect();
        let mut ground = Self { plots, ..Self::default() };
        ground.count();
        ground
    }

    /// Looks at one node again. True if it is another one than before, whatever is held there.
    fn refresh(&mut self, snapshot: &Snapshot, ix: NodeIx) -> bool {
        let new = Plot::of(snapshot, ix);
        let Some(plot) = self.plots.get_mut(ix.index()) else { return true };
        let old = std::mem::replace(plot, new);
        let new = &self.plots[ix.index()];
        self.lost = self.lost - u64::from(old.lost) + u64::from(new.lost);
        self.unbroken = self.unbroken - u32::from(old.is_unbroken()) + u32::from(new.is_unbroken());
        if new.loose > 0 {
            self.loose.insert(ix.index());
        } else if old.loose > 0 {
            self.loose.remove(&ix.index());
        }
        if !old.is_same(new) {
            for kind in &mut self.kinds {
                let fits = kind.admits(ix.index(), new);
                Arc::make_mut(&mut kind.fits)[ix.index()] = fits;
            }
            return true;
        }
        if old.busy != new.busy {
            for kind in self.kinds.iter_mut().filter(|kind| kind.fits[ix.index()]) {
                if new.busy { kind.idle -= 1 } else { kind.idle += 1 }
            }
        }
        if new.open && old.free != new.free {
            if let Some(count) = self.free.get_mut(&old.free) {
                *count -= 1;
            }
            *self.free.entry(new.free).or_default() += 1;
        }
        false
    }

    /// Counts everything anew that is kept over all nodes, after nodes have changed.
    fn count(&mut self) {
        self.version.1 += 1;
        let open = || self.plots.iter().filter(|plot| plot.open);
        self.node_gpus = self.plots.iter().map(|plot| plot.gpus).max().unwrap_or(0).max(1);
        self.share = share(open());
        self.unbroken = number(open().filter(|plot| plot.is_unbroken()).count());
        self.open = number(open().count());
        self.apart = number(open().filter(|plot| plot.apart).count());
        self.gpus = self.plots.iter().map(|plot| u64::from(plot.gpus)).sum();
        self.lost = self.plots.iter().map(|plot| u64::from(plot.lost)).sum();
        let mut pods: BTreeMap<u32, u32> = BTreeMap::new();
        for plot in self.plots.iter().filter(|plot| plot.gpus > 0) {
            *pods.entry(plot.pod).or_default() += 1;
        }
        self.largest_pod = pods.into_values().max().unwrap_or(0);
        let mut free = BTreeMap::new();
        for plot in open() {
            *free.entry(plot.free).or_default() += 1;
        }
        self.free = free;
        let plots = self.plots.iter().enumerate();
        self.loose = plots.filter(|(_, plot)| plot.loose > 0).map(|(at, _)| at).collect();
        let plots = &self.plots;
        for kind in &mut self.kinds {
            (kind.nodes, kind.idle) = sizes(plots, &kind.fits);
        }
    }

    /// The kind of a job, if it is known.
    pub(crate) fn kind(&self, need: &Need) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.is_of(need))
    }

    /// The kind of a job, looked up anew.
    pub(crate) fn kind_of(&self, need: &Need) -> Kind {
        let mut kind = Kind {
            gpus: need.gpus,
            rails: need.rails,
            host: need.host,
            filter: Arc::clone(&need.filter),
            only: need.only.clone(),
            components: need.components.clone(),
            fits: Arc::default(),
            nodes: 0,
            idle: 0,
        };
        let fits: Vec<bool> = self.plots.iter().enumerate().map(|(at, plot)| kind.admits(at, plot)).collect();
        (kind.nodes, kind.idle) = sizes(&self.plots, &fits);
        kind.fits = Arc::new(fits);
        kind
    }

    /// What decides which jobs take nodes whole, in a fabric of so many rails.
    pub(crate) fn measure(&self, rails: u32) -> Measure {
        Measure { gpus: self.node_gpus.max(1), rails, share: self.share, unbroken: self.unbroken > 0 }
    }

    /// GPUs that can be held at most: those there are, and those that are held and gone.
    pub(crate) fn most_gpus(&self) -> u64 {
        self.gpus + self.lost
    }

    /// Nodes with GPUs of the largest pod.
    pub(crate) fn largest_pod(&self) -> u32 {
        self.largest_pod
    }

    /// Nodes that take jobs by the GPUs that nobody holds.
    pub(crate) fn free(&self) -> &BTreeMap<u32, u32> {
        &self.free
    }

    /// Nodes that take jobs and have so many free GPUs.
    pub(crate) fn with_free(&self, gpus: u32) -> u32 {
        self.free.range(gpus..).map(|(_, count)| *count).sum()
    }
}

/// CPUs and memory that come with each GPU where they are fewest.
fn share<'a>(plots: impl Iterator<Item = &'a Plot>) -> Host {
    let (mut cpus, mut memory) = (None, None);
    for plot in plots.filter(|plot| plot.gpus > 0) {
        let of = |has: u64| (has > 0).then_some(has / u64::from(plot.gpus));
        let least = |known: Option<u64>, here: Option<u64>| known.into_iter().chain(here).min();
        cpus = least(cpus, of(plot.host.cpus.into()));
        memory = least(memory, of(plot.host.memory));
    }
    Host { cpus: cpus.and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(0), memory: memory.unwrap_or(0) }
}

fn sizes(plots: &[Plot], fits: &[bool]) -> (u32, u32) {
    let fitting = || plots.iter().zip(fits).filter(|(_, fits)| **fits);
    (number(fitting().count()), number(fitting().filter(|(plot, _)| !plot.busy).count()))
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
