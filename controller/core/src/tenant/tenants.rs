//! What administrators do with tenants: applied, deleted, and how long a name rests before another tenant may have it.

use std::sync::Arc;

use controller_state::{
    CoreError, DeletedContent, DeletedKey, Key, RestingName, error::nearest::nearest,
    view::tenant::tenants::TenantImpact,
};
use proto_model::{IsolationPolicy, Queue, QueueName, Quota, Reservation, Tenant, TenantName};

use crate::{context::Step, event::Reply};

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
            self.state.put(Arc::clone(&tenant));
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
            self.state.remove::<Queue>(&(name.clone(), queue));
        }
        self.forget_schedules(name);
        self.forget_webhooks(name)?;
        self.forget_values(name);
        self.leave_reservations(name);
        self.leave_classes(name)?;
        self.rest_name(name)?;
        self.state.remove::<Tenant>(name);
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
        over.iter().for_each(|name| self.state.remove::<RestingName>(name));
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
        self.state.put(Arc::new(resting));
        Ok(())
    }

    pub(crate) fn release_name(&mut self, name: &TenantName) -> Reply {
        if self.state.base.resting.contains_key(name) {
            self.state.remove::<RestingName>(name);
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
            self.state.set(&reservation.name, left);
        }
    }
}
