//! What administrators do: tenants, the fabric, nodes, join tokens.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use proto_model::{
    Health, IsolationPolicy, Node, NodeName, Observed, QueueName, Quota, Reason, ReasonCode, Reservation,
    Tenant, TenantName, ValuesKind,
};

use crate::{
    attempt::Blame,
    deleted::{DeletedContent, DeletedKey},
    documents::nearest,
    error::CoreError,
    event::{Key, NodeChange, Reply, ToNode},
    quarantine::is_drained,
    records::{RestingName, TokenRecord},
    state::{Link, State},
    step::Step,
};

/// What goes with a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantImpact {
    /// Jobs that have ended; their records and logs go.
    pub jobs: usize,
    /// Its queues.
    pub queues: usize,
    /// Its schedules of jobs.
    pub schedules: usize,
    /// Its webhooks.
    pub webhooks: usize,
    /// Its secrets.
    pub secrets: usize,
    /// Its configs.
    pub configs: usize,
    /// Reservations that it has a share in.
    pub reservations: usize,
}

impl TenantImpact {
    fn of(state: &State, name: &TenantName) -> Self {
        let reserved = |found: &&Arc<Reservation>| found.tenants.contains(name);
        Self {
            jobs: state
                .index
                .tenants
                .get(name)
                .map_or(0, |jobs| jobs.all.saturating_sub(jobs.active) as usize),
            queues: state.queues_of(name).count(),
            schedules: state.job_schedules_of(name).count(),
            webhooks: state.webhooks_of(name).count(),
            secrets: state.values_of(name).filter(|one| one.id.kind == ValuesKind::Secret).count(),
            configs: state.values_of(name).filter(|one| one.id.kind == ValuesKind::Config).count(),
            reservations: state.base.reservations.values().filter(reserved).count(),
        }
    }
}

impl Step<'_> {
    pub(crate) fn apply_tenant(
        &mut self,
        name: TenantName,
        description: String,
        quota: Quota,
        isolation: IsolationPolicy,
        dry_run: bool,
    ) -> Result<Reply, CoreError> {
        self.state.check_quota(&name, quota)?;
        let base = &self.state.base;
        let old = base.tenants.get(&name).cloned();
        let tenant = match &old {
            Some(old) if (&old.description, old.quota, old.isolation) == (&description, quota, isolation) => {
                Arc::clone(old)
            }
            Some(old) => {
                let generation = old.generation + 1;
                Arc::new(Tenant { description, quota, isolation, generation, ..(**old).clone() })
            }
            None => {
                let limit = self.state.config.max_tenants;
                if base.tenants.len() >= limit {
                    return Err(CoreError::Full {
                        what: "tenants",
                        limit,
                        remedy: "delete some that are not used",
                    });
                }
                self.name_is_free(&name)?;
                // One transaction would change the old tenant's key instead of making a new one.
                if self.state.journal.pending(&Key::Tenant(name.clone())) == Some(true) {
                    return Err(CoreError::TenantLeaving { tenant: name });
                }
                // Jobs of an earlier tenant of that name must not become this one's.
                if let Some(jobs) = self.state.index.tenants.get(&name) {
                    return Err(CoreError::TenantBusy { tenant: name, jobs: jobs.all });
                }
                // Nor its request ids: they would tell of its jobs.
                if self.state.index.request_counts.contains_key(&name) {
                    return Err(CoreError::TenantLeaving { tenant: name });
                }
                let uid = self.random_uid();
                Arc::new(Tenant {
                    name: name.clone(),
                    uid,
                    generation: 1,
                    created: self.now,
                    description,
                    quota,
                    isolation,
                })
            }
        };
        let changed = old.is_none_or(|old| !Arc::ptr_eq(&old, &tenant));
        if changed && !dry_run {
            // A tenant that lives has its name, and rests none.
            self.release_name(&name);
            self.state.set_tenant(&name, Some(Arc::clone(&tenant)));
            self.request_scheduling_pass();
        }
        Ok(Reply::Tenant(tenant))
    }

    /// The tenant's ended jobs follow in later ticks, a bounded part of them in each.
    pub(crate) fn delete_tenant(
        &mut self,
        name: &TenantName,
        uid: Option<&str>,
        dry_run: bool,
    ) -> Result<Reply, CoreError> {
        let Some(tenant) = self.state.base.tenants.get(name) else {
            let nearest = nearest(name.as_str(), self.state.base.tenants.keys());
            return Err(CoreError::TenantUnknown { tenant: name.clone(), nearest });
        };
        if uid.is_some_and(|uid| uid != tenant.uid) {
            return Err(CoreError::TenantReplaced { tenant: name.clone() });
        }
        let before = self.state.journal.undo.len();
        let impact = TenantImpact::of(self.state, name);
        let jobs = self.state.index.tenants.get(name).map_or(0, |jobs| jobs.active);
        if jobs > 0 {
            return Err(CoreError::TenantBusy { tenant: name.clone(), jobs });
        }
        let kept = self.state.content_of(&Arc::clone(tenant));
        let queues: Vec<QueueName> = self.state.queues_of(name).map(|queue| queue.name.clone()).collect();
        for queue in queues {
            self.state.set_queue((name.clone(), queue), None);
        }
        self.forget_schedules(name);
        self.forget_webhooks(name)?;
        self.forget_values(name);
        self.leave_reservations(name);
        self.leave_classes(name)?;
        self.rest_name(name)?;
        self.state.set_tenant(name, None);
        self.keep_deleted(DeletedKey::Tenant(name.clone()), DeletedContent::Tenant(Box::new(kept)));
        if dry_run {
            self.state.undo_to(before);
        }
        Ok(Reply::TenantDeleted(impact))
    }

    fn name_is_free(&self, name: &TenantName) -> Result<(), CoreError> {
        let Some(resting) = self.state.base.resting.get(name) else { return Ok(()) };
        let until = resting.deleted.plus(self.state.config.name_rest);
        if until <= self.now { Ok(()) } else { Err(CoreError::NameResting { tenant: name.clone(), until }) }
    }

    /// The name of a tenant that ends rests. Names whose time is over make room.
    fn rest_name(&mut self, name: &TenantName) -> Result<(), CoreError> {
        let (rest, limit) = (self.state.config.name_rest, self.state.config.max_resting);
        let over = |resting: &&Arc<RestingName>| resting.deleted.plus(rest) <= self.now;
        let purged = self.state.config.purge_limit;
        let over: Vec<TenantName> =
            self.state.base.resting.values().filter(over).take(purged).map(|one| one.name.clone()).collect();
        over.iter().for_each(|name| self.state.set_resting(name, None));
        let Some(tenant) = self.state.base.tenants.get(name).filter(|_| !rest.is_zero()) else {
            return Ok(());
        };
        if self.state.base.resting.len() >= limit {
            return Err(CoreError::Full {
                what: "names of deleted tenants",
                limit,
                remedy: "wait until some have rested, or let the controller keep them for a shorter time",
            });
        }
        let (uid, deleted) = (tenant.uid.clone(), self.now);
        let resting = RestingName { name: name.clone(), uid, deleted };
        self.state.set_resting(name, Some(Arc::new(resting)));
        Ok(())
    }

    pub(crate) fn release_name(&mut self, name: &TenantName) -> Reply {
        if self.state.base.resting.contains_key(name) {
            self.state.set_resting(name, None);
        }
        Reply::Done
    }

    /// A later tenant of that name must not come into what was reserved for this one.
    fn leave_reservations(&mut self, tenant: &TenantName) {
        let of = |found: &&Arc<Reservation>| found.tenants.contains(tenant);
        let found: Vec<Arc<Reservation>> =
            self.state.base.reservations.values().filter(of).cloned().collect();
        for reservation in found {
            let mut left = (*reservation).clone();
            left.tenants.retain(|other| other != tenant);
            left.generation += 1;
            let nobody = left.tenants.is_empty() && !left.maintenance;
            let left = if nobody { None } else { Some(Arc::new(left)) };
            self.state.set_reservation(&reservation.name, left);
        }
    }

    pub(crate) fn update_node(
        &mut self,
        name: &NodeName,
        change: NodeChange,
        if_version: u64,
    ) -> Result<Reply, CoreError> {
        let node = self.state.base.nodes.get(name).cloned();
        let node = node.ok_or_else(|| CoreError::NodeNotFound { node: name.clone() })?;
        let current = self.state.version(&Key::Node(name.clone())).unwrap_or(0);
        if if_version != 0 && if_version != current {
            return Err(CoreError::Conflict { what: format!("node '{name}'"), asked: if_version, current });
        }
        let mut wanted = (*node).clone();
        if let Some((unschedulable, reason)) = change.unschedulable {
            (wanted.unschedulable, wanted.unschedulable_reason) = (unschedulable, reason);
        }
        wanted.labels = change.labels.unwrap_or(wanted.labels);
        wanted.taints = change.taints.unwrap_or(wanted.taints);
        if wanted == *node {
            return Ok(Reply::Node(node));
        }
        wanted.generation += 1;
        let leaves = is_drained(&wanted) && !is_drained(&node);
        let node = Arc::new(wanted);
        self.state.set_node(name, Some(Arc::clone(&node)));
        if leaves {
            self.leave(name);
        }
        self.request_scheduling_pass();
        Ok(Reply::Node(node))
    }

    pub(crate) fn delete_node(
        &mut self,
        name: &NodeName,
        force: bool,
        uid: Option<&str>,
    ) -> Result<Reply, CoreError> {
        let Some(node) = self.state.base.nodes.get(name).cloned() else {
            return Err(CoreError::NodeNotFound { node: name.clone() });
        };
        if uid.is_some_and(|uid| uid != node.uid) {
            return Err(CoreError::NodeReplaced { node: name.clone() });
        }
        let holds = self.state.index.holds.get(name).cloned().unwrap_or_default();
        if !force && !holds.is_empty() {
            let jobs =
                holds.keys().filter_map(|uid| Some(self.state.base.jobs.get(uid)?.job.id.clone())).collect();
            return Err(CoreError::NodeBusy { node: name.clone(), jobs });
        }
        self.push(name, ToNode::Close { reason: "the node was deleted".to_owned() });
        self.state.set_link(name, None);
        self.state.set_node(name, None);
        self.release_claims(name, &node);
        // Join tokens of a deleted server bring nobody back, spent or not.
        self.withdraw_tokens(name);
        self.forget_drains_of(name);
        for (uid, position) in holds {
            let Some(entry) = self.entry(uid) else { continue };
            let ending = entry.attempt.as_ref().is_some_and(|attempt| attempt.ending.is_some());
            self.vouched(uid, position);
            if !ending {
                let message =
                    format!("an administrator deleted node '{name}' and vouched that nothing runs there");
                let cause = Reason::new(ReasonCode::NodeDeleted, message)
                    .scope(format!("node/{name}"))
                    .since(self.now);
                self.fail(uid, Blame::Infrastructure, vec![cause]);
            }
            self.refresh_reasons(uid);
            self.assess(uid);
        }
        self.request_scheduling_pass();
        Ok(Reply::Done)
    }

    /// The administrator has confirmed the end of a node's part in the node's place.
    fn vouched(&mut self, uid: proto_model::JobUid, position: u32) {
        let key = (uid, position);
        let old = self.state.base.views.get(&key).cloned();
        let mut view = old.unwrap_or_else(|| crate::observe::fresh_view(Observed::Ended));
        view.state = Observed::Ended;
        self.state.set_view(key, Some(view));
    }

    pub(crate) fn create_token(
        &mut self,
        node: NodeName,
        hash: [u8; 32],
        lifetime: Option<Duration>,
    ) -> Result<Reply, CoreError> {
        let config = &self.state.config;
        let (limit, longest) = (config.max_tokens, config.token_lifetime_max);
        if self.state.base.tokens.len() >= limit {
            return Err(CoreError::Full {
                what: "join tokens",
                limit,
                remedy: "use them, or wait until they expire",
            });
        }
        let lifetime = lifetime.unwrap_or(longest);
        if lifetime > longest || lifetime.is_zero() {
            let message = format!("must be more than 0 and at most {} s", longest.as_secs());
            return Err(CoreError::Invalid { field: "lifetime", message });
        }
        let record = Arc::new(TokenRecord { hash, node, expires: self.now.plus(lifetime), used_by: None });
        self.state.set_token(hash, Some(Arc::clone(&record)));
        Ok(Reply::Token(record))
    }

    pub(crate) fn withdraw_tokens(&mut self, node: &NodeName) -> Reply {
        let tokens = self.state.base.tokens.iter();
        let hashes: Vec<_> = tokens.filter(|(_, token)| token.node == *node).map(|(hash, _)| *hash).collect();
        hashes.into_iter().for_each(|hash| self.state.set_token(hash, None));
        Reply::Done
    }

    pub(crate) fn join(&mut self, node: NodeName, hash: [u8; 32], csr: [u8; 32]) -> Result<Reply, CoreError> {
        let record = self.state.base.tokens.get(&hash).filter(|record| record.expires > self.now).cloned();
        let record = record.ok_or_else(|| CoreError::TokenInvalid { node: node.clone() })?;
        if record.node != node {
            return Err(CoreError::TokenForOther { node });
        }
        if record.used_by.is_some_and(|used| used != csr) {
            return Err(CoreError::TokenUsed { node });
        }
        let limit = self.state.config.max_nodes;
        let known = self.state.base.nodes.get(&node).cloned();
        if known.is_none() && self.state.base.nodes.len() >= limit {
            return Err(CoreError::Full { what: "nodes", limit, remedy: "delete nodes that are gone" });
        }
        if record.used_by.is_none() {
            let used = TokenRecord { used_by: Some(csr), ..(*record).clone() };
            self.state.set_token(hash, Some(Arc::new(used)));
        }
        if let Some(known) = known {
            return Ok(Reply::Node(known));
        }
        let joined = Arc::new(Node {
            name: node.clone(),
            uid: self.random_uid(),
            generation: 1,
            created: self.now,
            unschedulable: false,
            unschedulable_reason: String::new(),
            labels: BTreeMap::new(),
            taints: BTreeSet::new(),
            quarantined: None,
            strikes: Vec::new(),
            quarantine: Vec::new(),
            provisional: BTreeSet::new(),
            inventory: Arc::default(),
            health: Health::NotReady,
            health_since: self.now,
            reasons: vec![Reason::new(
                ReasonCode::NotHeard,
                "the node has joined; its agent has not connected yet",
            )],
            agent_version: String::new(),
        });
        self.state.set_node(&node, Some(Arc::clone(&joined)));
        self.state.set_link(&node, Some(Link::absent(self.now, None)));
        Ok(Reply::Node(joined))
    }
}
