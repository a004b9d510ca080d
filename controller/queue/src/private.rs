//! Guarantees by usable shape: for each a private cluster beside the real one.
//!
//! A tenant with a guarantee has a cluster of just that, in which its jobs run as if it were alone: the same code, in
//! virtual time. A job that runs there has a right to run in the real cluster, whoever must yield; so no job ever waits
//! longer than it would in the private cluster. What a job really took is known by the time it ends there, because it
//! started no later in the real cluster.
//!
//! Each node of a private cluster is bound to a real one, whole pods to pods, so that all rights fit side by side. Nodes
//! in which nobody exercises a right change places freely, so that who runs elsewhere already, or finds room, stays.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_scheduler::{Gate, NodeSet, Placer, Snapshot};
use controller_topology::NodeIx;
use proto_model::{
    Fabric, Inventory, JobUid, Leaf, LinkGroup, Names, NodeName, Placement, Rail, Shape, TenantName,
    Timestamp,
};

use crate::{
    book::Book,
    defs::{Act, Budget, Policy, TenantDef},
    entry::{Entry, State},
    ledger::Past,
};

/// Jobs that have ended in the real cluster and not in a private one, per tenant; the oldest are forgotten beyond that,
/// which only gives rights earlier.
const GHOSTS: usize = 20_000;

/// What a private cluster is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Nodes of each whole pod.
    pub pods: Vec<u32>,
    /// Whole nodes beside them.
    pub nodes: u32,
    /// GPUs of one more node, of which there are so many.
    pub gpus: u32,
    /// What each node is like.
    pub inventory: Arc<Inventory>,
    /// Rails of the fabric.
    pub rails: u32,
}

impl Site {
    /// The cluster. Its nodes are numbered in the order of `pods`, then `nodes`, then the node with `gpus`; whole nodes
    /// beside pods are each in a pod of their own, for nothing is promised of where they lie.
    #[must_use]
    pub fn cluster(&self) -> Snapshot {
        let single = self.nodes + u32::from(self.gpus > 0);
        let sizes: Vec<u32> = self.pods.iter().copied().chain((0..single).map(|_| 1)).collect();
        let mut fabric = Fabric::default();
        fabric.rails.extend((0..self.rails).map(|index| Rail { index, name: format!("r{index}") }));
        let mut first = 0;
        for (pod, size) in sizes.iter().enumerate() {
            let names = Names::of((first..first + size).map(name_text));
            first += size;
            for nic in self.inventory.nics.iter().filter(|nic| nic.rail < self.rails) {
                let leaf = format!("p{pod:05}-{}", nic.rail);
                let pod = format!("p{pod:05}");
                if fabric.leaves.last().is_none_or(|last| last.name != leaf) {
                    fabric.leaves.push(Leaf { name: leaf.clone(), rail: nic.rail, pod, ..Leaf::default() });
                }
                let (nodes, nic) = (names.clone(), nic.device.clone());
                fabric.link_groups.push(LinkGroup {
                    nodes,
                    nic,
                    leaf,
                    speed_mbps: 1,
                    ..LinkGroup::default()
                });
            }
        }
        let mut snapshot = Snapshot::new(Some(&fabric));
        let small = Arc::new(Inventory {
            gpus: self.inventory.gpus.iter().take(self.gpus as usize).cloned().collect(),
            ..self.inventory.as_ref().clone()
        });
        for node in 0..first {
            let inventory = if self.gpus > 0 && node + 1 == first { &small } else { &self.inventory };
            if let Ok(name) = NodeName::new(name_text(node)) {
                snapshot.set_node(&name, inventory, Gate::default());
            }
        }
        snapshot
    }

    /// How many nodes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.pods.iter().sum::<u32>() + self.nodes + u32::from(self.gpus > 0)) as usize
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In which of the whole pods a node is.
    fn pod(&self, node: usize) -> Option<usize> {
        let mut first = 0;
        self.pods.iter().position(|size| {
            first += *size as usize;
            node < first
        })
    }
}

fn name_text(node: u32) -> String {
    format!("v{node:06}")
}

/// The number of a private cluster's node.
fn number(name: &NodeName) -> Option<usize> {
    name.as_str().strip_prefix('v')?.parse().ok()
}

/// A job of the real cluster as it is now; `None` if it is gone.
type Touched = (JobUid, Option<Arc<Entry>>);

/// One tenant's private cluster.
#[derive(Debug, Clone, PartialEq)]
struct Private {
    site: Site,
    snapshot: Snapshot,
    placer: Placer,
    book: Book,
    /// How long jobs took that are gone from the real cluster.
    took: BTreeMap<JobUid, Duration>,
    /// When those of them end here that have started here.
    ends: BTreeSet<(Timestamp, JobUid)>,
    /// Jobs that are gone from the real cluster and wait here.
    ghosts: BTreeSet<JobUid>,
}

/// All private clusters, with what their nodes are bound to.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Privates {
    rows: BTreeMap<TenantName, Arc<Private>>,
    /// How long the last try of a job took.
    tries: Arc<BTreeMap<JobUid, Duration>>,
    bound: Arc<Bound>,
    /// For what they were made.
    made: Arc<(BTreeMap<TenantName, Shape>, usize, usize)>,
}

/// Which real node stands for which private one.
#[derive(Debug, Clone, PartialEq, Default)]
struct Bound {
    nodes: BTreeMap<TenantName, Vec<NodeIx>>,
    owners: BTreeMap<NodeIx, (TenantName, usize)>,
}

impl Private {
    fn new(site: Site, policy: &Policy, tenant: &TenantName, book: &Book) -> Self {
        let policy = Policy { reclaim: false, grow_after: None, ..policy.clone() };
        let mut own = Book::new(policy);
        let def = book.tenants.get(tenant).cloned().unwrap_or_default();
        own.set_tenant(tenant, Some(TenantDef { guaranteed: Shape::default(), ..def }));
        for ((of, name), def) in book.queues.iter().filter(|((of, _), _)| of == tenant) {
            own.set_queue(of, name, Some(def.clone()));
        }
        Self {
            snapshot: site.cluster(),
            site,
            placer: Placer::default(),
            book: own,
            took: BTreeMap::new(),
            ends: BTreeSet::new(),
            ghosts: BTreeSet::new(),
        }
    }

    /// Brings it to a time: what ends before it ends at its own time, and what that lets start starts then.
    fn advance(&mut self, now: Timestamp, touched: &[Touched], tries: &BTreeMap<JobUid, Duration>) {
        loop {
            let end = self.ends.first().map(|(time, _)| *time);
            let time = [end, self.book.next_look()].into_iter().flatten().min();
            let Some(time) = time.filter(|time| *time < now) else { break };
            self.end_until(time);
            self.pass(time);
        }
        let ended = self.end_until(now);
        let looked = self.book.next_look().is_some_and(|time| time <= now);
        let mut changed = ended || looked;
        for (uid, entry) in touched {
            changed |= self.touch(*uid, entry.as_ref(), tries.get(uid).copied(), now);
        }
        changed |= self.end_until(now);
        if changed {
            self.pass(now);
        }
    }

    /// What has changed of a job in the real cluster.
    fn touch(
        &mut self,
        uid: JobUid,
        entry: Option<&Arc<Entry>>,
        took: Option<Duration>,
        now: Timestamp,
    ) -> bool {
        let here = self.book.job(uid).cloned();
        match (here, entry) {
            (None, Some(entry)) => {
                let entry = Entry { preempted: 0, ..entry.waiting() };
                self.book.set_job(uid, Some(Arc::new(entry)));
                true
            }
            (Some(here), Some(entry)) if here.run().is_none() => {
                let not_before = if took.is_none() { entry.not_before } else { here.not_before };
                if here.hold == entry.hold && here.not_before == not_before && here.priority == entry.priority
                {
                    return false;
                }
                let (hold, priority) = (entry.hold.clone(), entry.priority);
                self.book.set_job(
                    uid,
                    Some(Arc::new(Entry { hold, not_before, priority, ..here.as_ref().clone() })),
                );
                true
            }
            (Some(here), None) => {
                let Some(took) = took else {
                    // It went without ever running.
                    self.drop_job(&here);
                    return true;
                };
                self.took.insert(uid, took);
                match here.run() {
                    Some(run) => {
                        self.ends.insert((run.started.plus(took).max(now), uid));
                    }
                    None => {
                        self.ghosts.insert(uid);
                        if self.ghosts.len() > GHOSTS
                            && let Some(oldest) = self.ghosts.pop_first()
                            && let Some(oldest) = self.book.job(oldest).cloned()
                        {
                            self.drop_job(&oldest);
                        }
                    }
                }
                false
            }
            _ => false,
        }
    }

    fn drop_job(&mut self, entry: &Entry) {
        if let Some(run) = entry.run() {
            self.snapshot.release(&entry.id.tenant, &run.placement);
            self.ends.retain(|(_, uid)| *uid != entry.uid);
        }
        self.book.set_job(entry.uid, None);
        self.took.remove(&entry.uid);
        self.ghosts.remove(&entry.uid);
    }

    /// Ends what ends by a time. True if anything did.
    fn end_until(&mut self, time: Timestamp) -> bool {
        let mut any = false;
        while let Some((end, uid)) = self.ends.first().copied().filter(|(end, _)| *end <= time) {
            self.ends.pop_first();
            if let Some(entry) = self.book.job(uid).cloned() {
                if let Some(past) = Past::of(&entry, end, true) {
                    self.book.remember(&past);
                }
                self.drop_job(&entry);
            }
            any = true;
        }
        any
    }

    /// Starts and stops what its own pass says, at once.
    fn pass(&mut self, now: Timestamp) {
        // A stop without grace makes room at once; so often at most at one time.
        for _ in 0..16 {
            let acts = self.book.pass(&mut self.snapshot, &mut self.placer, now, Budget::ALL);
            let mut stopped = false;
            for act in acts {
                match act {
                    Act::Start { uid, placement } => self.start(uid, placement, now),
                    Act::Preempt { victim, .. } | Act::Shrink { victim, .. } => {
                        self.stop(victim);
                        stopped = true;
                    }
                    Act::Grow { .. } => {}
                }
            }
            if !stopped {
                return;
            }
        }
    }

    fn start(&mut self, uid: JobUid, placement: Placement, now: Timestamp) {
        let Some(entry) = self.book.job(uid).cloned() else { return };
        self.snapshot.hold(&entry.id.tenant, &placement);
        self.book.set_job(uid, Some(Arc::new(entry.running(Arc::new(placement), now))));
        if let Some(took) = self.took.get(&uid) {
            self.ends.insert((now.plus(*took), uid));
            self.ghosts.remove(&uid);
        }
    }

    fn stop(&mut self, uid: JobUid) {
        let Some(entry) = self.book.job(uid).cloned() else { return };
        if let Some(run) = entry.run() {
            self.snapshot.release(&entry.id.tenant, &run.placement);
            self.ends.retain(|(_, other)| *other != uid);
            if self.took.contains_key(&uid) {
                self.ghosts.insert(uid);
            }
            let waiting = Entry { preempted: entry.preempted + 1, ..entry.waiting() };
            self.book.set_job(uid, Some(Arc::new(waiting)));
        }
    }

    /// Nodes on which a job runs here.
    fn nodes_of(&self, uid: JobUid) -> Vec<usize> {
        let run = self.book.job(uid).and_then(|entry| entry.run().cloned());
        let places = run.map(|run| run.placement);
        places
            .iter()
            .flat_map(|placement| placement.nodes.iter().chain(&placement.spares))
            .filter_map(|place| number(&place.node))
            .collect()
    }
}

impl Privates {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn remember(&mut self, past: &Past) {
        if self.rows.contains_key(&past.id.tenant) {
            Arc::make_mut(&mut self.tries).insert(past.uid, past.ended.since(past.started));
        }
    }

    /// When something happens in a private cluster by itself.
    pub(crate) fn next_event(&self) -> Option<Timestamp> {
        let times = self
            .rows
            .values()
            .flat_map(|row| [row.ends.first().map(|(time, _)| *time), row.book.next_look()]);
        times.flatten().min()
    }

    /// Jobs that wait and have a right to run.
    pub(crate) fn entitled(&self, book: &Book) -> BTreeSet<JobUid> {
        let jobs = self.rows.values().flat_map(|row| row.book.running.iter().copied());
        jobs.filter(|uid| {
            book.jobs.get(uid).is_some_and(|entry| entry.state == State::Waiting && entry.hold.is_empty())
        })
        .collect()
    }

    /// Whether a job has a right to run.
    pub(crate) fn has_right(&self, uid: JobUid) -> bool {
        self.rows.values().any(|row| row.book.running.contains(&uid))
    }

    /// Every real node that stands for a private one.
    pub(crate) fn bound_nodes(&self) -> NodeSet {
        self.bound.owners.keys().copied().collect()
    }

    /// The real nodes on which a job has a right to run, and with how many, without spares.
    pub(crate) fn target(&self, tenant: &TenantName, uid: JobUid) -> Option<(Vec<NodeIx>, u32)> {
        let row = self.rows.get(tenant)?;
        let count = row.book.job(uid)?.nodes_held();
        let bound = self.bound.nodes.get(tenant)?;
        let nodes =
            row.nodes_of(uid).into_iter().map(|at| bound.get(at).copied()).collect::<Option<Vec<_>>>()?;
        Some((nodes, count))
    }

    /// Private nodes where a right is exercised, by a job that has not ended in the real cluster.
    fn in_use(&self, tenant: &TenantName, but: JobUid, book: &Book) -> BTreeSet<usize> {
        let Some(row) = self.rows.get(tenant) else { return BTreeSet::new() };
        let jobs = row.book.running.iter().filter(|uid| **uid != but && book.jobs.contains_key(uid));
        jobs.flat_map(|uid| row.nodes_of(*uid)).collect()
    }

    /// Binds the private nodes of a job to these real ones, if that takes nobody's right. True if it did.
    pub(crate) fn bind(
        &mut self,
        tenant: &TenantName,
        uid: JobUid,
        real: &BTreeSet<NodeIx>,
        book: &Book,
    ) -> bool {
        let Some(row) = self.rows.get(tenant) else { return false };
        let site = row.site.clone();
        let private: BTreeSet<usize> = row.nodes_of(uid).into_iter().collect();
        let Some(nodes) = self.bound.nodes.get(tenant) else { return false };
        let now: BTreeSet<NodeIx> = private.iter().filter_map(|at| nodes.get(*at).copied()).collect();
        if now == *real {
            return true;
        }
        if private.len() != real.len() {
            return false;
        }
        // Only nodes of one kind change places: single ones with single ones, those of a pod within it.
        let kind = |owner: &TenantName, at: usize| self.rows.get(owner).and_then(|row| row.site.pod(at));
        let free: Vec<NodeIx> = real.difference(&now).copied().collect();
        let from: Vec<usize> = private
            .iter()
            .copied()
            .filter(|at| nodes.get(*at).is_none_or(|node| !real.contains(node)))
            .collect();
        if free.len() != from.len() || site.gpus > 0 && private.contains(&(site.len() - 1)) {
            return false;
        }
        let mut used: BTreeMap<TenantName, BTreeSet<usize>> = BTreeMap::new();
        for (at, node) in from.iter().zip(&free) {
            let own = site.pod(*at);
            let fits = match self.bound.owners.get(node) {
                None => own.is_none(),
                Some((owner, other)) => {
                    let used = used.entry(owner.clone()).or_insert_with(|| self.in_use(owner, uid, book));
                    let same = match (own, kind(owner, *other)) {
                        (None, None) => self
                            .rows
                            .get(owner)
                            .is_some_and(|row| row.site.gpus == 0 || *other + 1 < row.site.len()),
                        (Some(own), Some(other)) => owner == tenant && own == other,
                        _ => false,
                    };
                    same && !used.contains(other)
                }
            };
            if !fits {
                return false;
            }
        }
        let bound = Arc::make_mut(&mut self.bound);
        for (at, node) in from.into_iter().zip(free) {
            bound.swap(tenant, at, node);
        }
        true
    }

    /// Brings all private clusters to a time.
    fn advance(&mut self, book: &Book, touched: &BTreeSet<JobUid>, now: Timestamp) {
        let mut by_tenant: BTreeMap<&TenantName, Vec<Touched>> = BTreeMap::new();
        let mut gone = Vec::new();
        for uid in touched {
            match book.jobs.get(uid) {
                Some(entry) => {
                    by_tenant.entry(&entry.id.tenant).or_default().push((*uid, Some(Arc::clone(entry))));
                }
                None => gone.push(*uid),
            }
        }
        let tries = Arc::clone(&self.tries);
        for (tenant, row) in &mut self.rows {
            let mut list = by_tenant.remove(tenant).unwrap_or_default();
            list.extend(gone.iter().filter(|uid| row.book.job(**uid).is_some()).map(|uid| (*uid, None)));
            let due = row.ends.first().is_some_and(|(time, _)| *time <= now)
                || row.book.next_look().is_some_and(|time| time <= now);
            if due || !list.is_empty() {
                Arc::make_mut(row).advance(now, &list, &tries);
            }
        }
        if !gone.is_empty() && gone.iter().any(|uid| self.tries.contains_key(uid)) {
            let tries = Arc::make_mut(&mut self.tries);
            tries.retain(|uid, _| !gone.contains(uid));
        }
    }
}

impl Bound {
    /// A private node changes places with whatever is bound to a real one.
    fn swap(&mut self, tenant: &TenantName, at: usize, node: NodeIx) {
        let Some(old) = self.nodes.get(tenant).and_then(|nodes| nodes.get(at)).copied() else { return };
        match self.owners.insert(node, (tenant.clone(), at)) {
            Some((owner, other)) => {
                if let Some(nodes) = self.nodes.get_mut(&owner) {
                    nodes[other] = old;
                }
                self.owners.insert(old, (owner, other));
            }
            None => {
                self.owners.remove(&old);
            }
        }
        if let Some(nodes) = self.nodes.get_mut(tenant) {
            nodes[at] = node;
        }
    }
}

impl Book {
    /// What a tenant's private cluster is made of, once a pass has made it; a test compares with it.
    #[must_use]
    pub fn site(&self, tenant: &TenantName) -> Option<&Site> {
        self.marks.privates.rows.get(tenant).map(|row| &row.site)
    }

    /// Whether a job has a right to run, by its tenant's guarantee.
    #[must_use]
    pub fn has_right(&self, uid: JobUid) -> bool {
        self.marks.privates.has_right(uid)
    }

    /// Brings the private clusters up to date.
    pub(crate) fn keep_guarantees(&mut self, snapshot: &Snapshot, now: Timestamp) {
        let shapes: BTreeMap<TenantName, Shape> = self
            .tenants
            .iter()
            .filter(|(_, def)| self.policy.reclaim && !def.guaranteed.is_empty())
            .map(|(tenant, def)| (tenant.clone(), def.guaranteed))
            .collect();
        if shapes.is_empty() && self.marks.privates.is_empty() {
            return;
        }
        let topology = snapshot.topology();
        let made = (shapes, topology.len(), topology.slots());
        if *self.marks.privates.made != made {
            let mut privates = Privates::default();
            let sites = bind_all(&made.0, snapshot, &mut privates);
            for (tenant, site) in sites {
                let row = Private::new(site, &self.policy, &tenant, self);
                privates.rows.insert(tenant, Arc::new(row));
            }
            privates.made = Arc::new(made);
            self.marks.privates = privates;
            self.cache.touched.extend(self.jobs.keys().copied());
        }
        let touched = std::mem::take(&mut self.cache.touched);
        let mut privates = std::mem::take(&mut self.marks.privates);
        privates.advance(self, &touched, now);
        self.keep_where_they_run(&mut privates, snapshot);
        self.marks.privates = privates;
    }

    /// Who runs already when its right begins stays, if nodes can change places so.
    fn keep_where_they_run(&self, privates: &mut Privates, snapshot: &Snapshot) {
        let rights: Vec<(TenantName, JobUid)> = (privates.rows.iter())
            .flat_map(|(tenant, row)| row.book.running.iter().map(|uid| (tenant.clone(), *uid)))
            .collect();
        for (tenant, uid) in rights {
            if let Some(run) = self.jobs.get(&uid).and_then(|entry| entry.run()) {
                let topology = snapshot.topology();
                let places = run.placement.nodes.iter().chain(&run.placement.spares);
                let real: BTreeSet<NodeIx> = places.filter_map(|place| topology.index(&place.node)).collect();
                privates.bind(&tenant, uid, &real, self);
            }
        }
    }
}

/// Binds all guarantees to real nodes: whole pods first, the largest ones, then nodes, from pods that are broken into.
fn bind_all(
    shapes: &BTreeMap<TenantName, Shape>,
    snapshot: &Snapshot,
    privates: &mut Privates,
) -> Vec<(TenantName, Site)> {
    let topology = snapshot.topology();
    let mut pods: BTreeMap<u32, Vec<NodeIx>> = BTreeMap::new();
    let mut largest: Option<(usize, Arc<Inventory>)> = None;
    for (ix, server) in topology.servers() {
        if let Some((pod, _)) = snapshot.yard().place(ix) {
            pods.entry(pod).or_default().push(ix);
        }
        if largest.as_ref().is_none_or(|(gpus, _)| server.inventory.gpus.len() > *gpus) {
            largest = Some((server.inventory.gpus.len(), Arc::clone(&server.inventory)));
        }
    }
    let Some((node_gpus, inventory)) = largest else { return Vec::new() };
    let mut pods: Vec<Vec<NodeIx>> = pods.into_values().collect();
    pods.sort_by_key(|pod| std::cmp::Reverse(pod.len()));
    let mut pods = pods.into_iter();
    let mut sites = Vec::new();
    let mut bound: BTreeMap<TenantName, Vec<NodeIx>> = BTreeMap::new();
    for (tenant, shape) in shapes {
        let own: Vec<Vec<NodeIx>> = pods.by_ref().take(shape.pods as usize).collect();
        let extra = shape.gpus as usize / node_gpus.max(1);
        let site = Site {
            pods: own.iter().map(|pod| u32::try_from(pod.len()).unwrap_or(u32::MAX)).collect(),
            nodes: shape.nodes + u32::try_from(extra).unwrap_or(0),
            gpus: shape.gpus % u32::try_from(node_gpus.max(1)).unwrap_or(1),
            inventory: Arc::clone(&inventory),
            rails: topology.rails(),
        };
        bound.insert(tenant.clone(), own.into_iter().flatten().collect());
        sites.push((tenant.clone(), site));
    }
    let mut rest = pods.flatten();
    for (tenant, site) in &mut sites {
        let nodes = bound.entry(tenant.clone()).or_default();
        let wanted = site.len() - nodes.len();
        nodes.extend(rest.by_ref().take(wanted));
        // A guarantee that is larger than the cluster is cut.
        let missing = site.len() - nodes.len();
        if missing > 0 {
            let small = usize::from(site.gpus > 0).min(missing);
            if small > 0 {
                site.gpus = 0;
            }
            site.nodes = site.nodes.saturating_sub(u32::try_from(missing - small).unwrap_or(u32::MAX));
        }
    }
    let owners = bound.iter().flat_map(|(tenant, nodes)| {
        nodes.iter().enumerate().map(move |(at, node)| (*node, (tenant.clone(), at)))
    });
    privates.bound = Arc::new(Bound { owners: owners.collect(), nodes: bound });
    sites.retain(|(_, site)| !site.is_empty());
    sites
}
