//! Reading the state: resources, plans, explanations, the topology, health.

use std::{ops::Bound, sync::Arc};

use controller_topology::RailSet;
use proto_model::{
    Fabric, IsolationPolicy, Job, JobId, JobName, JobUid, Node, NodeName, Phase, Reason, Tenant, TenantName,
    Timestamp,
};

use crate::tables::state::State;

/// What one job holds on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The name of the job, with its tenant.
    pub id: JobId,
    /// The identity of the job; a name alone may have been another job's before.
    pub uid: JobUid,
    /// Indices of the GPUs.
    pub gpus: Vec<u32>,
    /// Device names of NICs.
    pub nics: Vec<String>,
    /// CPUs that are its alone.
    pub cpus: u32,
    /// Bytes of main memory that are its alone.
    pub memory_bytes: u64,
}

/// What a tenant uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantUsage {
    /// GPUs that its placed jobs hold.
    pub gpus_used: u64,
    /// Jobs that have not ended.
    pub jobs_active: u32,
    /// Bytes of the store that its jobs are counted with, ended ones included.
    pub stored_bytes: u64,
    /// How much isolation its jobs must have.
    pub isolation: IsolationPolicy,
}

impl State {
    /// A job by name.
    #[must_use]
    pub fn job(&self, id: &JobId) -> Option<&Arc<Job>> {
        self.job_by_uid(self.index.names.get(id)?)
    }

    /// A job by identity.
    #[must_use]
    pub fn job_by_uid(&self, uid: &JobUid) -> Option<&Arc<Job>> {
        self.base.jobs.get(uid).map(|entry| &entry.job)
    }

    /// How many jobs are in each phase, in the order of [`Phase::ALL`].
    #[must_use]
    pub fn phases(&self) -> [i64; Phase::ALL.len()] {
        self.index.phases
    }

    /// All jobs, by tenant and name, after the given one.
    pub fn jobs(&self, after: Option<&JobId>) -> impl Iterator<Item = &Arc<Job>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.index.names.range((from, Bound::Unbounded)).filter_map(|(_, uid)| self.job_by_uid(uid))
    }

    /// A tenant's jobs by name, after the given one.
    pub fn jobs_of<'a>(
        &'a self,
        tenant: &'a TenantName,
        after: Option<&'a JobId>,
    ) -> impl Iterator<Item = &'a Arc<Job>> {
        let first = JobName::new("0").ok().map(|name| JobId { tenant: tenant.clone(), name });
        let from = match (after, first) {
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(first)) => Bound::Included(first),
            (None, None) => Bound::Unbounded,
        };
        let rows = self.index.names.range((from, Bound::Unbounded));
        rows.take_while(move |(id, _)| id.tenant == *tenant).filter_map(|(_, uid)| self.job_by_uid(uid))
    }

    /// A node.
    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<&Arc<Node>> {
        self.base.nodes.get(name)
    }

    /// All nodes by name, after the given one.
    pub fn nodes(&self, after: Option<&NodeName>) -> impl Iterator<Item = &Arc<Node>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.base.nodes.range::<NodeName, _>((from, Bound::Unbounded)).map(|(_, node)| node)
    }

    /// When a node's agent was last heard by this controller; `None` if never since its start.
    #[must_use]
    pub fn last_heard(&self, name: &NodeName) -> Option<Timestamp> {
        self.base.links.get(name).map(|link| link.heard)
    }

    /// The connection on which a node's agent is heard now.
    #[must_use]
    pub fn session(&self, name: &NodeName) -> Option<u64> {
        self.base.links.get(name)?.session
    }

    /// What jobs hold on a node.
    #[must_use]
    pub fn holds(&self, name: &NodeName) -> Vec<Hold> {
        let Some(jobs) = self.index.holds.get(name) else { return Vec::new() };
        let hold = |(uid, position): (&JobUid, &u32)| {
            let job = self.job_by_uid(uid)?;
            let place = job.status.placement.as_ref()?.nodes.get(*position as usize)?;
            let nics = place.nics.iter().map(|nic| nic.device.clone()).collect();
            let (id, gpus) = (job.id.clone(), place.gpus.clone());
            Some(Hold { id, uid: *uid, gpus, nics, cpus: place.cpus, memory_bytes: place.memory_bytes })
        };
        jobs.iter().filter_map(hold).collect()
    }

    /// A tenant.
    #[must_use]
    pub fn tenant(&self, name: &TenantName) -> Option<&Arc<Tenant>> {
        self.base.tenants.get(name)
    }

    /// All tenants by name, after the given one.
    pub fn tenants(&self, after: Option<&TenantName>) -> impl Iterator<Item = &Arc<Tenant>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.base.tenants.range::<TenantName, _>((from, Bound::Unbounded)).map(|(_, tenant)| tenant)
    }

    /// What a tenant uses.
    #[must_use]
    pub fn usage(&self, tenant: &TenantName) -> TenantUsage {
        let jobs = self.index.tenants.get(tenant).copied().unwrap_or_default();
        TenantUsage {
            gpus_used: self.index.snapshot.tenant(tenant).held,
            jobs_active: jobs.active,
            stored_bytes: jobs.bytes,
            isolation: self.isolation(tenant),
        }
    }

    /// How much isolation a tenant's jobs must have: the stricter of the cluster's and its own setting.
    #[must_use]
    pub fn isolation(&self, tenant: &TenantName) -> IsolationPolicy {
        let tenant = self.base.tenants.get(tenant);
        tenant.map_or(IsolationPolicy::BestEffort, |tenant| tenant.isolation.max(self.config.isolation))
    }

    /// The fabric document.
    #[must_use]
    pub fn fabric(&self) -> Option<&Arc<Fabric>> {
        self.base.fabric.as_ref()
    }

    /// What differs between the fabric document and the nodes' inventories.
    #[must_use]
    pub fn findings(&self) -> Vec<Reason> {
        self.index.snapshot.topology().findings()
    }

    /// Rails of a node's NICs that are up and well, and that the fabric cuts off: not cabled there, a cable or a leaf that is
    /// known to be down, or another leaf heard.
    #[must_use]
    pub fn rails_cut(&self, name: &NodeName) -> RailSet {
        let topology = self.index.snapshot.topology();
        let Some(server) = topology.index(name).and_then(|ix| topology.server(ix)) else {
            return RailSet::EMPTY;
        };
        let well = |nic: &&proto_model::Nic| nic.up && server.inventory.is_fit(&nic.device);
        let up: RailSet = server.inventory.nics.iter().filter(well).map(|nic| nic.rail).collect();
        up.without(server.usable)
    }
}
