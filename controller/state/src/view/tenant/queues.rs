//! What queues use, and whether they fit into what is above them.

use std::sync::Arc;

use proto_model::{Job, Queue, QueueName, Quota, Shape, TenantName};

use crate::{
    error::{nearest::invalid, refusal::CoreError},
    tables::state::State,
    view::tenant::documents::{MAX_DEPTH, Sizes, in_words},
};

/// What a queue uses, with those within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueUsage {
    /// GPUs that its placed jobs hold.
    pub gpus_used: u64,
    /// Its jobs that have not ended.
    pub jobs_active: u32,
}

impl State {
    /// Jobs of a queue itself that have not ended.
    pub fn jobs_in<'a>(
        &'a self,
        tenant: &'a TenantName,
        name: &'a QueueName,
    ) -> impl Iterator<Item = &'a Arc<Job>> {
        let own = move |job: &&Arc<Job>| {
            job.spec.queue.as_ref() == Some(name)
                && job.id.tenant == *tenant
                && !job.status.phase.is_terminal()
        };
        self.base.jobs.values().map(|entry| &entry.job).filter(own)
    }

    /// What a queue uses, with those within it.
    #[must_use]
    pub fn queue_usage(&self, tenant: &TenantName, name: &QueueName) -> QueueUsage {
        let mut usage = QueueUsage::default();
        let mut inside = vec![name];
        let mut at = 0;
        while let Some(parent) = inside.get(at).copied() {
            at += 1;
            let children = self.queues_of(tenant).filter(|queue| queue.parent.as_ref() == Some(parent));
            inside.extend(children.map(|queue| &queue.name));
        }
        for job in self.base.jobs.values().map(|entry| &entry.job) {
            let own = job.spec.queue.as_ref().is_some_and(|queue| inside.contains(&queue));
            if !own || job.id.tenant != *tenant || job.status.phase.is_terminal() {
                continue;
            }
            usage.jobs_active += 1;
            if let Some(placement) = job.status.placement.as_ref().filter(|_| job.status.phase.holds()) {
                let places = placement.nodes.iter().chain(&placement.spares);
                usage.gpus_used += places.map(|place| place.gpus.len() as u64).sum::<u64>();
            }
        }
        usage
    }

    /// Its parents are there, and it is not among them.
    ///
    /// # Errors
    /// A parent is missing, or the queue would be within itself or too deep.
    pub fn check_parents(&self, queue: &Queue) -> Result<(), CoreError> {
        let mut path = vec![queue.name.clone()];
        let mut parent = queue.parent.clone();
        while let Some(name) = parent.take() {
            path.push(name.clone());
            if name == queue.name {
                let path: Vec<&str> = path.iter().map(QueueName::as_str).collect();
                return invalid(
                    "spec.parent",
                    format!("the queue would be within itself: {}", path.join(" in ")),
                );
            }
            if path.len() > MAX_DEPTH {
                return invalid("spec.parent", format!("queues are at most {MAX_DEPTH} deep"));
            }
            let Some(above) = self.queue(&queue.tenant, &name) else {
                return Err(self.no_queue(&queue.tenant, &name));
            };
            parent = above.parent.clone();
        }
        Ok(())
    }

    /// What is guaranteed to queues side by side is part of what is guaranteed above them.
    ///
    /// # Errors
    /// It does not fit into what is above it, or what is within it does not fit.
    pub fn check_guarantee(&self, queue: &Queue, quota: Quota) -> Result<(), CoreError> {
        let sizes = Sizes::of(self.index.snapshot.topology());
        let above = match &queue.parent {
            Some(parent) => self.queue(&queue.tenant, parent).map(|parent| parent.guaranteed),
            None => Some(quota.guaranteed),
        };
        let (above, owner) = (above.unwrap_or_default(), queue.parent.as_ref());
        let side = self.guaranteed_in(&queue.tenant, owner, Some(&queue.name));
        if !sizes.fits(side.iter().copied().chain([queue.guaranteed]), above) {
            let what = match owner {
                Some(parent) => format!("queue '{parent}'"),
                None => format!("tenant '{}'", queue.tenant),
            };
            let text = format!(
                "{} do not fit into the {} that {what} is guaranteed, beside its other queues",
                in_words(queue.guaranteed),
                in_words(above)
            );
            return invalid("spec.guaranteed", text);
        }
        let within = self.guaranteed_in(&queue.tenant, Some(&queue.name), None);
        if !sizes.fits(within, queue.guaranteed) {
            let text = format!("{} are less than its queues are guaranteed", in_words(queue.guaranteed));
            return invalid("spec.guaranteed", text);
        }
        if let Some(limit) = queue.limit.filter(|limit| u64::from(*limit) < sizes.gpus(queue.guaranteed)) {
            let gpus = sizes.gpus(queue.guaranteed);
            let text = format!("{limit} GPUs are less than the {gpus} that are guaranteed");
            return invalid("spec.limit", text);
        }
        Ok(())
    }

    fn guaranteed_in(
        &self,
        tenant: &TenantName,
        parent: Option<&QueueName>,
        but: Option<&QueueName>,
    ) -> Vec<Shape> {
        let own = |queue: &&Arc<Queue>| queue.parent.as_ref() == parent && Some(&queue.name) != but;
        self.queues_of(tenant).filter(own).map(|queue| queue.guaranteed).collect()
    }

    /// What tenants are guaranteed is there, and each has room for what its queues are.
    ///
    /// # Errors
    /// The quota has no weight, or its guarantee fits neither the cluster nor the tenant's queues.
    pub fn check_quota(&self, name: &TenantName, quota: Quota) -> Result<(), CoreError> {
        if quota.weight == 0 {
            return invalid("spec.quota.weight", "must be at least 1");
        }
        let old = self.base.tenants.get(name).map(|tenant| tenant.quota);
        if old.is_some_and(|old| old.guaranteed == quota.guaranteed && old.gpus <= quota.gpus) {
            return Ok(());
        }
        let field = "spec.quota.guaranteed";
        let (asked, sizes) = (quota.guaranteed, Sizes::of(self.index.snapshot.topology()));
        let others = self.base.tenants.values().filter(|tenant| tenant.name != *name);
        let others = others.map(|tenant| tenant.quota.guaranteed);
        if !asked.is_empty() && !sizes.fits(others.chain([asked]), sizes.all) {
            let (asked, all) = (in_words(asked), in_words(sizes.all));
            let text =
                format!("{asked} are more than the cluster ({all}) has beside other tenants' guarantees");
            return invalid(field, text);
        }
        if sizes.gpus(asked) > u64::from(quota.gpus) {
            let (gpus, most) = (sizes.gpus(asked), quota.gpus);
            let text = format!("{} are {gpus} GPUs, more than the quota of {most}", in_words(asked));
            return invalid(field, text);
        }
        if !sizes.fits(self.guaranteed_in(name, None, None), asked) {
            return invalid(field, format!("{} are less than its queues are guaranteed", in_words(asked)));
        }
        Ok(())
    }
}
