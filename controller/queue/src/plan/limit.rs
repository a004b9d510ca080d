//! Limits of tenants, queues, arrays and users of service classes over time. Licenses are one more kind: see `license.rs`.

use proto_model::{QueueName, TenantName, Timestamp};

use super::{Limited, Plan, PlanRequest, Quota, signed};
use crate::{entry::Entry, grid::NEVER, row::Row, tables::QueueState};

#[cfg(test)]
use crate::plant::{self, Bug};

impl Plan {
    /// The limits that concern all jobs of a tenant in one of its queues.
    pub(crate) fn limits(
        &mut self,
        queue_state: &QueueState,
        tenant: &TenantName,
        path: &[Option<QueueName>],
        now: Timestamp,
    ) -> Vec<usize> {
        let mut list = Vec::new();
        for queue in path {
            // One that can never be reached need not be planned for.
            let limit = queue_state.limit(tenant, queue.as_ref()).map(u64::from);
            #[cfg(test)]
            let limit = limit
                .filter(|_| !plant::is(if queue.is_none() { Bug::TenantLimit } else { Bug::QueueLimit }));
            if let Some(limit) = limit.filter(|limit| *limit < self.most_gpus) {
                list.push(self.limit(queue_state, Limited::Queue(tenant.clone(), queue.clone()), limit, now));
            }
        }
        let jobs = queue_state.tenants.get(tenant).and_then(|def| def.jobs);
        #[cfg(test)]
        let jobs = jobs.filter(|_| !plant::is(Bug::JobsLimit));
        if let Some(jobs) = jobs {
            list.push(self.limit(queue_state, Limited::Jobs(tenant.clone()), u64::from(jobs), now));
        }
        list
    }

    /// The limit of the array that a job is an element of.
    pub(crate) fn array_limit(
        &mut self,
        queue_state: &QueueState,
        entry: &Entry,
        now: Timestamp,
    ) -> Option<usize> {
        let group = entry.array.as_ref().filter(|group| group.at_once > 0);
        #[cfg(test)]
        let group = group.filter(|_| !plant::is(Bug::ArrayLimit));
        group.map(|group| {
            self.limit(queue_state, Limited::Array(group.array.clone()), u64::from(group.at_once), now)
        })
    }

    /// The limits of a job's user in its service class.
    pub(crate) fn class_limits(
        &mut self,
        queue_state: &QueueState,
        entry: &Entry,
        now: Timestamp,
    ) -> Vec<usize> {
        let Some((user, def)) = queue_state.class(entry) else { return Vec::new() };
        let jobs = def.jobs.map(|limit| (Limited::UserJobs(user.clone()), limit));
        let gpus = def.gpus.map(|limit| (Limited::UserGpus(user.clone()), limit));
        let limits = jobs.into_iter().chain(gpus);
        limits.map(|(whose, limit)| self.limit(queue_state, whose, u64::from(limit), now)).collect()
    }

    pub(super) fn limit(
        &mut self,
        queue_state: &QueueState,
        whose: Limited,
        limit: u64,
        now: Timestamp,
    ) -> usize {
        if let Some(at) = self.quota_of.get(&whose) {
            return *at;
        }
        let gpus = matches!(whose, Limited::Queue(..) | Limited::UserGpus(_) | Limited::LongJobs);
        let mut left = Row::default();
        left.note(0, NEVER, i32::try_from(limit).unwrap_or(i32::MAX));
        let all = whose.tenant().is_none().then(|| queue_state.running_all()).into_iter().flatten();
        let own = whose.tenant().into_iter().flat_map(|tenant| queue_state.running_of(tenant));
        for (entry, held) in all.chain(own) {
            #[cfg(test)]
            if plant::is(Bug::Running) {
                continue;
            }
            if whose.counts(queue_state, entry) {
                let amount = if gpus { *held } else { 1 };
                let end = self.held_until(queue_state, entry, now);
                left.note(0, end, -i32::try_from(amount).unwrap_or(i32::MAX));
            }
        }
        left.sum_up();
        self.keep_limit(whose, Quota { left, gpus, limit })
    }

    /// Adds a limit that the plan does not have yet, and gives its number.
    pub(super) fn keep_limit(&mut self, whose: Limited, quota: Quota) -> usize {
        self.quotas.push(quota);
        self.quota_of.insert(whose, self.quotas.len() - 1);
        self.quotas.len() - 1
    }

    /// The step from which on a running job holds nothing. Who is just ending holds until it has ended.
    pub(super) fn held_until(&self, queue_state: &QueueState, entry: &Entry, now: Timestamp) -> usize {
        let end =
            if self.forecast { queue_state.predicted_end(entry, now) } else { queue_state.end(entry, now) };
        self.grid.floor(end).max(1)
    }

    /// The limits that leave too little for a job now, with what is missing: GPUs, jobs, or licenses.
    pub(crate) fn short_of(&self, desired: &PlanRequest) -> Vec<(Limited, i32)> {
        let missing = |at: usize| self.share(at, desired).saturating_sub(self.quotas[at].left.at(0));
        let limits = self.quota_of.iter().filter(|(_, at)| desired.quotas.contains(at));
        limits.map(|(whose, at)| (whose.clone(), missing(*at))).filter(|(_, missing)| *missing > 0).collect()
    }

    /// A running job ends earlier than was thought: what it holds of limits is free from a step on.
    pub(crate) fn free_limits(
        &mut self,
        queue_state: &QueueState,
        entry: &Entry,
        from: usize,
        now: Timestamp,
    ) {
        let until = self.held_until(queue_state, entry, now);
        for (whose, at) in &self.quota_of {
            if whose.counts(queue_state, entry) {
                self.quotas[*at].left.add(from.max(1), until, whose.amount(entry));
            }
        }
        self.forget_bounds();
        self.freed = true;
    }

    pub(super) fn share(&self, quota: usize, desired: &PlanRequest) -> i32 {
        if self.quotas[quota].gpus { desired.amount() } else { desired.license(quota).unwrap_or(1) }
    }

    /// The limits that a job could never keep; licenses aside.
    pub(crate) fn never<'a>(&'a self, desired: &'a PlanRequest) -> impl Iterator<Item = u64> + 'a {
        desired.quotas.iter().filter(|quota| desired.license(**quota).is_none()).filter_map(|quota| {
            let Quota { limit, .. } = self.quotas[*quota];
            (i64::from(self.share(*quota, desired)) > i64::try_from(limit).unwrap_or(i64::MAX))
                .then_some(limit)
        })
    }

    /// Whether the limits leave room for the job now, and whether the cluster does.
    pub(crate) fn room(&self, desired: &PlanRequest) -> (bool, bool) {
        let quota =
            desired.quotas.iter().all(|quota| self.quotas[*quota].left.at(0) >= self.share(*quota, desired));
        let mut classes = desired.parts.iter().copied().chain([(desired.class, desired.count())]);
        let enough = |(class, count): (usize, i32)| {
            self.classes[class].rest.as_ref().is_none_or(|row| row.at(0) >= count)
        };
        let room = !self.is_short(desired, 0) && (!desired.whole || classes.all(enough));
        (quota, room)
    }

    /// Whether the limits leave room for the job from now to its end, beside all that is planned.
    pub(crate) fn quota_through(&self, desired: &PlanRequest) -> bool {
        let end = self.grid.end_now(desired.length);
        let short = |at: &usize| self.quotas[*at].left.last_below(0, end, self.share(*at, desired)).is_some();
        !desired.quotas.iter().any(short)
    }

    pub(crate) fn take_quota(&mut self, desired: &PlanRequest, step: usize, end: usize) {
        #[cfg(test)]
        if plant::is(Bug::Started) {
            return;
        }
        for at in desired.quotas.iter() {
            let share = self.share(*at, desired);
            self.quotas[*at].left.add(step, end, -share);
        }
    }
}

impl Limited {
    /// Whose jobs alone count here; `None`: everybody's.
    fn tenant(&self) -> Option<&TenantName> {
        match self {
            Self::Queue(tenant, _) | Self::Jobs(tenant) => Some(tenant),
            Self::Array(array) => Some(&array.tenant),
            Self::UserJobs(user) | Self::UserGpus(user) => Some(&user.tenant),
            Self::License(_) | Self::LongJobs => None,
        }
    }

    /// Whether it is a user's, in a service class.
    pub(crate) fn is_of_user(&self) -> bool {
        matches!(self, Self::UserJobs(_) | Self::UserGpus(_))
    }

    /// Whether what a job holds counts here.
    pub(crate) fn counts(&self, queue_state: &QueueState, entry: &Entry) -> bool {
        match self {
            Self::Queue(tenant, queue) => {
                entry.id.tenant == *tenant
                    && (queue.is_none() || queue_state.path(entry).is_some_and(|path| path.contains(queue)))
            }
            Self::Jobs(tenant) => entry.id.tenant == *tenant,
            Self::Array(array) => entry.array.as_ref().is_some_and(|group| group.array == *array),
            Self::UserJobs(user) | Self::UserGpus(user) => entry.class.as_ref() == Some(user),
            Self::License(name) => entry.licenses.contains_key(name),
            Self::LongJobs => queue_state.long_limit(entry).is_some(),
        }
    }

    /// How much a running job counts here, if it does.
    pub(crate) fn amount(&self, entry: &Entry) -> i32 {
        match self {
            Self::Queue(..) | Self::UserGpus(_) | Self::LongJobs => {
                i32::try_from(entry.run().map_or(0, crate::entry::Run::gpus)).unwrap_or(i32::MAX)
            }
            Self::Jobs(_) | Self::Array(_) | Self::UserJobs(_) => 1,
            Self::License(name) => entry.licenses.get(name).map_or(0, |count| signed(*count)),
        }
    }
}
