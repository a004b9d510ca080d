//! What follows from a change of a row: indices that are functions of the tables.

use std::sync::Arc;

use controller_queue::{ClassDef, Entry, QueueDef, ReservationDef, TenantDef};
use controller_scheduler::Gate;
use proto_model::{
    Drain, DrainTarget, Health, JobUid, License, LicenseName, Node, NodeName, Queue, QueueName, RequestId,
    Reservation, ReservationName, ServiceClass, ServiceClassName, Tenant, TenantName,
};

use crate::{
    rows::{
        decisions::DecisionRow,
        node::taints,
        records::{RequestRecord, TokenRecord},
        usage::{UsageKey, UsageRecord},
    },
    tables::state::State,
};

/// Whether two states of a node differ for the scheduler in their gates at most.
fn looks_alike(a: &Node, b: &Node) -> bool {
    let quarantined = a.quarantined.is_some() == b.quarantined.is_some();
    quarantined && (&a.inventory, &a.labels, &a.taints) == (&b.inventory, &b.labels, &b.taints)
}

impl State {
    /// Which rails of nodes are drained follows.
    pub(crate) fn follow_drain(
        &mut self,
        target: &DrainTarget,
        old: Option<&Arc<Drain>>,
        new: Option<&Arc<Drain>>,
    ) {
        if old.is_some() != new.is_some() {
            match target {
                DrainTarget::Port { node, .. } => self.index_drained(node),
                DrainTarget::Rail(_) | DrainTarget::Leaf(_) => self.index_all_drained(),
            }
        }
    }

    /// Claims and the scheduler's view of the node follow.
    pub(crate) fn follow_node(&mut self, name: &NodeName, old: Option<&Arc<Node>>, new: Option<&Arc<Node>>) {
        self.index.claims.swap(name, old, new);
        let gate = self.gate(name);
        let rails = self.index.snapshot.topology().rails();
        let moved = old.is_some() != new.is_some();
        match new {
            Some(node) if old.is_some_and(|old| looks_alike(old, node)) => {
                self.index.snapshot.set_gate(name, gate);
            }
            Some(node) => {
                self.index.snapshot.set_labelled(name, &node.inventory, gate, &node.labels, &taints(node));
            }
            None => self.index.snapshot.remove_node(name),
        }
        self.index_drained(name);
        if moved || self.index.snapshot.topology().rails() != rails {
            self.cluster_changed(rails);
        }
    }

    /// Policy, quota and isolation follow.
    pub(crate) fn follow_tenant(
        &mut self,
        name: &TenantName,
        _old: Option<&Arc<Tenant>>,
        new: Option<&Arc<Tenant>>,
    ) {
        self.index.queue_state.set_tenant(name, new.map(|tenant| TenantDef::of(tenant)));
        self.index.snapshot.set_quota(name, new.map(|tenant| tenant.quota.gpus));
        let isolation = self.isolation(name);
        if self.index.snapshot.tenant(name).isolation != isolation {
            self.index.snapshot.set_isolation(name, isolation);
            self.ask_anew(name);
        }
    }

    /// The policy follows.
    pub(crate) fn follow_queue(
        &mut self,
        (tenant, name): &(TenantName, QueueName),
        _old: Option<&Arc<Queue>>,
        new: Option<&Arc<Queue>>,
    ) {
        self.index.queue_state.set_queue(tenant, name, new.map(|queue| QueueDef::of(queue)));
    }

    /// The policy follows.
    pub(crate) fn follow_class(
        &mut self,
        name: &ServiceClassName,
        _old: Option<&Arc<ServiceClass>>,
        new: Option<&Arc<ServiceClass>>,
    ) {
        self.index.queue_state.set_class(name, new.map(|class| ClassDef::of(class)));
    }

    /// The policy follows.
    pub(crate) fn follow_license(
        &mut self,
        name: &LicenseName,
        _old: Option<&Arc<License>>,
        new: Option<&Arc<License>>,
    ) {
        self.index.queue_state.set_license(name, new.map(|license| license.total));
    }

    /// The policy follows.
    pub(crate) fn follow_reservation(
        &mut self,
        name: &ReservationName,
        _old: Option<&Arc<Reservation>>,
        new: Option<&Arc<Reservation>>,
    ) {
        self.index.queue_state.set_reservation(name, new.map(|one| ReservationDef::of(one)));
    }

    /// When it expires, and how many there are of a tenant, follow.
    pub(crate) fn follow_request(
        &mut self,
        key: &(TenantName, RequestId),
        old: Option<&Arc<RequestRecord>>,
        new: Option<&Arc<RequestRecord>>,
    ) {
        let at = |record: &RequestRecord| (record.time, key.0.clone(), key.1.clone());
        if let Some(record) = new {
            self.index.request_times.insert(at(record));
        }
        if let Some(record) = old.filter(|_| new.is_none()) {
            self.index.request_times.remove(&at(record));
        }
        let count = self.index.request_counts.entry(key.0.clone()).or_default();
        *count += usize::from(new.is_some());
        *count -= usize::from(old.is_some());
        if *count == 0 {
            self.index.request_counts.remove(&key.0);
        }
    }

    /// When it expires follows.
    pub(crate) fn follow_token(
        &mut self,
        hash: &[u8; 32],
        old: Option<&Arc<TokenRecord>>,
        new: Option<&Arc<TokenRecord>>,
    ) {
        if let Some(old) = old {
            self.index.token_times.remove(&(old.expires, *hash));
        }
        if let Some(new) = new {
            self.index.token_times.insert((new.expires, *hash));
        }
    }

    /// Which rows have records of a job follows.
    pub(crate) fn follow_decisions(
        &mut self,
        seq: &u64,
        old: Option<&Arc<DecisionRow>>,
        new: Option<&Arc<DecisionRow>>,
    ) {
        for record in old.iter().flat_map(|row| &row.records) {
            self.index.decisions -= 1;
            if let Some(rows) = self.index.decided.get_mut(&record.id) {
                rows.remove(seq);
                if rows.is_empty() {
                    self.index.decided.remove(&record.id);
                }
            }
        }
        for record in new.iter().flat_map(|row| &row.records) {
            self.index.decisions += 1;
            self.index.decided.entry(record.id.clone()).or_default().insert(*seq);
        }
    }

    /// When records ended follows.
    pub(crate) fn follow_usage(
        &mut self,
        _key: &UsageKey,
        old: Option<&Arc<UsageRecord>>,
        new: Option<&Arc<UsageRecord>>,
    ) {
        old.into_iter().for_each(|record| self.index.usage.change(record, false));
        new.into_iter().for_each(|record| self.index.usage.change(record, true));
    }

    pub(crate) fn index_all_drained(&mut self) {
        let nodes: Vec<NodeName> = self.base.nodes.keys().cloned().collect();
        nodes.iter().for_each(|node| self.index_drained(node));
    }

    /// Placing knows which rails of a node are drained.
    pub(crate) fn index_drained(&mut self, node: &NodeName) {
        let drained = self.ports_drained(node);
        if self.index.snapshot.drained(node) != drained {
            self.index.snapshot.set_drained(node, drained);
            self.index.queue_state.nodes_changed();
        }
    }

    /// What a tenant's jobs ask of a node is something else now.
    pub(crate) fn ask_anew(&mut self, tenant: &TenantName) {
        let own = self.base.jobs.values().filter(|entry| entry.job.id.tenant == *tenant);
        let entries: Vec<(JobUid, Arc<Entry>)> =
            own.filter_map(|entry| Some((entry.job.uid, self.queue_entry(entry)?))).collect();
        for (uid, entry) in entries {
            self.index.queue_state.set_job(uid, Some(entry));
        }
    }

    /// Numbers of nodes and of rails may mean something else now.
    pub(crate) fn cluster_changed(&mut self, rails: u32) {
        self.index.queue_state.nodes_changed();
        let all = self.index.snapshot.topology().rails() != rails;
        let uids: Vec<JobUid> = if all {
            self.base.jobs.keys().copied().collect()
        } else {
            self.index.excluding.iter().copied().collect()
        };
        for uid in uids {
            let entry = self.base.jobs.get(&uid).and_then(|entry| self.queue_entry(entry));
            if entry.is_some() {
                self.index.queue_state.set_job(uid, entry);
            }
        }
    }

    /// Why a node takes no new job at the moment.
    pub(crate) fn gate(&self, name: &NodeName) -> Gate {
        let node = self.base.nodes.get(name);
        let link = self.base.links.get(name);
        Gate {
            unschedulable: node.is_some_and(|node| node.unschedulable || node.is_quarantined()),
            not_ready: node.is_some_and(|node| node.health == Health::NotReady),
            away: link.is_none_or(|link| link.session.is_none()),
            draining: link.is_some_and(|link| !link.foreign.is_empty()),
        }
    }
}
