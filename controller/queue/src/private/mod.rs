//! Guarantees by usable shape: for each a private cluster beside the real one.
//!
//! A tenant with a guarantee has a cluster of just that, in which its jobs run as if it were alone: the same code, in
//! virtual time. A job that runs there has a right to run in the real cluster, whoever must yield; so no job ever waits
//! longer than it would in the private cluster. What a job really took is known by the time it ends there, because it
//! started no later in the real cluster.
//!
//! Each node of a private cluster is bound to a real one, whole pods to pods, so that all rights fit side by side. Nodes
//! in which nobody exercises a right change places freely, so that who runs elsewhere already, or finds room, stays.

pub(crate) mod bound;
mod own;
pub(crate) mod site;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_scheduler::{NodeSet, Snapshot};
use controller_topology::NodeIx;
use proto_model::{JobUid, LicenseName, ServiceClassName, Shape, TenantName, Timestamp};

use self::{bound::bind_all, own::Touched};
use crate::{
    defs::ClassDef,
    entry::State,
    ledger::Past,
    tables::{GuaranteeClusters, Private, QueueState},
};

pub use self::site::Site;

impl GuaranteeClusters {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn remember(&mut self, past: &Past) {
        if self.rows.contains_key(&past.id.tenant) {
            Arc::make_mut(&mut self.attempts).insert(past.uid, past.ended.since(past.started));
        }
    }

    /// When something happens in a private cluster by itself.
    pub(crate) fn next_event(&self) -> Option<Timestamp> {
        let times = self
            .rows
            .values()
            .flat_map(|row| [row.ends.first().map(|(time, _)| *time), row.queue_state.next_check()]);
        times.flatten().min()
    }

    /// Jobs that wait and have a right to run.
    pub(crate) fn entitled(&self, queue_state: &QueueState) -> BTreeSet<JobUid> {
        let jobs = self.rows.values().flat_map(|row| row.queue_state.running.keys().copied());
        jobs.filter(|uid| {
            queue_state
                .jobs
                .get(uid)
                .is_some_and(|entry| entry.state == State::Waiting && entry.hold.is_empty())
        })
        .collect()
    }

    /// Whether a job has a right to run.
    pub(crate) fn has_right(&self, uid: JobUid) -> bool {
        self.rows.values().any(|row| row.queue_state.running.contains_key(&uid))
    }

    /// Jobs that have a right to run.
    pub(crate) fn rights(&self) -> Vec<JobUid> {
        self.rows.values().flat_map(|row| row.queue_state.running.keys().copied()).collect()
    }

    /// Whether a real node stands for a private one.
    pub(crate) fn is_bound(&self, node: NodeIx) -> bool {
        self.bound.owners.contains_key(&node)
    }

    /// Real nodes that stand for those of other tenants' whole pods: nobody changes places with single ones of them.
    pub(crate) fn pods_of_others(&self, tenant: &TenantName) -> Vec<NodeIx> {
        let whole = |(node, (owner, at)): (&NodeIx, &(TenantName, usize))| {
            let pod = self.rows.get(owner)?.site.pod(*at);
            (owner != tenant && pod.is_some()).then_some(*node)
        };
        self.bound.owners.iter().filter_map(whole).collect()
    }

    /// A service class comes, changes or goes.
    pub(crate) fn set_class(&mut self, name: &ServiceClassName, def: Option<ClassDef>) {
        for row in self.rows.values_mut() {
            Arc::make_mut(row).queue_state.set_class(name, def);
        }
    }

    /// So many licenses there are from now on.
    pub(crate) fn set_license(&mut self, name: &LicenseName, total: Option<u32>) {
        for row in self.rows.values_mut() {
            Arc::make_mut(row).queue_state.set_license(name, total);
        }
    }

    /// Every real node that stands for a private one.
    pub(crate) fn bound_nodes(&self) -> NodeSet {
        self.bound.owners.keys().copied().collect()
    }

    /// The real nodes on which a job has a right to run, and with how many, without spares.
    pub(crate) fn target(&self, tenant: &TenantName, uid: JobUid) -> Option<(Vec<NodeIx>, u32)> {
        let row = self.rows.get(tenant)?;
        let count = row.queue_state.job(uid)?.nodes_held();
        let bound = self.bound.nodes.get(tenant)?;
        let nodes =
            row.nodes_of(uid).into_iter().map(|at| bound.get(at).copied()).collect::<Option<Vec<_>>>()?;
        Some((nodes, count))
    }

    /// Private nodes where a right is exercised, by a job that has not ended in the real cluster.
    fn in_use(&self, tenant: &TenantName, but: JobUid, queue_state: &QueueState) -> BTreeSet<usize> {
        let Some(row) = self.rows.get(tenant) else { return BTreeSet::new() };
        let jobs =
            row.queue_state.running.keys().filter(|uid| **uid != but && queue_state.jobs.contains_key(uid));
        jobs.flat_map(|uid| row.nodes_of(*uid)).collect()
    }

    /// Binds the private nodes of a job to these real ones, if that takes nobody's right. True if it did.
    pub(crate) fn bind(
        &mut self,
        tenant: &TenantName,
        uid: JobUid,
        real: &BTreeSet<NodeIx>,
        queue_state: &QueueState,
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
        // Whoever shares one of its nodes would be left behind.
        let own_use = self.in_use(tenant, uid, queue_state);
        if from.iter().any(|at| own_use.contains(at)) {
            return false;
        }
        // Nor does anybody else with a right who runs there have to go.
        let there = |other: &JobUid| {
            let nodes = queue_state.cache.nodes.get(other);
            *other != uid && nodes.is_some_and(|nodes| nodes.iter().any(|(node, _)| free.contains(node)))
        };
        if self.rights().iter().any(there) {
            return false;
        }
        let mut used: BTreeMap<TenantName, BTreeSet<usize>> = BTreeMap::new();
        for (at, node) in from.iter().zip(&free) {
            let own = site.pod(*at);
            let fits = match self.bound.owners.get(node) {
                None => own.is_none(),
                Some((owner, other)) => {
                    let used =
                        used.entry(owner.clone()).or_insert_with(|| self.in_use(owner, uid, queue_state));
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
    fn advance(&mut self, queue_state: &QueueState, touched: &BTreeSet<JobUid>, now: Timestamp) {
        let mut by_tenant: BTreeMap<&TenantName, Vec<Touched>> = BTreeMap::new();
        let mut gone = Vec::new();
        for uid in touched {
            match queue_state.jobs.get(uid) {
                Some(entry) => {
                    by_tenant.entry(&entry.id.tenant).or_default().push((*uid, Some(Arc::clone(entry))));
                }
                None => gone.push(*uid),
            }
        }
        let attempts = Arc::clone(&self.attempts);
        for (tenant, row) in &mut self.rows {
            let mut list = by_tenant.remove(tenant).unwrap_or_default();
            list.extend(
                gone.iter().filter(|uid| row.queue_state.job(**uid).is_some()).map(|uid| (*uid, None)),
            );
            let due = row.ends.first().is_some_and(|(time, _)| *time <= now)
                || row.queue_state.next_check().is_some_and(|time| time <= now);
            if due || !list.is_empty() {
                Arc::make_mut(row).advance(now, &list, &attempts);
            }
        }
        if !gone.is_empty() && gone.iter().any(|uid| self.attempts.contains_key(uid)) {
            let attempts = Arc::make_mut(&mut self.attempts);
            attempts.retain(|uid, _| !gone.contains(uid));
        }
    }
}

impl QueueState {
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
            let mut privates = GuaranteeClusters::default();
            let (sites, bound) = bind_all(&made.0, snapshot);
            privates.bound = Arc::new(bound);
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
    fn keep_where_they_run(&self, privates: &mut GuaranteeClusters, snapshot: &Snapshot) {
        let rights: Vec<(TenantName, JobUid)> = (privates.rows.iter())
            .flat_map(|(tenant, row)| row.queue_state.running.keys().map(|uid| (tenant.clone(), *uid)))
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
