//! What was held in an interval, summed over tenants, queues, users or jobs. Whole milliseconds times what was held: sums of parts are the sum
//! of the whole.

use std::collections::BTreeMap;

use proto_model::{JobId, JobUid, QueueName, TenantName, Timestamp};

use crate::rows::usage::{UsageEnd, UsageRecord};

/// How much was held for how long, each in milliseconds times what was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageAmount {
    /// Milliseconds that attempts held anything.
    pub held_ms: u64,
    /// Of servers, spares included.
    pub node_ms: u64,
    /// Of GPUs.
    pub gpu_ms: u64,
    /// Of NICs.
    pub nic_ms: u64,
    /// Of rails of gangs, however many servers these had.
    pub rail_ms: u64,
    /// Of CPUs that were theirs alone.
    pub cpu_ms: u64,
    /// Of `gpu_ms` what passed before all ranks had been started.
    pub startup_gpu_ms: u64,
}

impl UsageAmount {
    /// What an attempt held within an interval; the interval's end is no part of it.
    #[must_use]
    pub fn of(record: &UsageRecord, since: Timestamp, until: Timestamp) -> Self {
        let held_ms = record.held_ms(since, until);
        let held = record.held;
        let nodes = u64::from(held.nodes) + u64::from(held.spares);
        let startup = record.held_ms(since, until.min(record.started.unwrap_or(record.ended)));
        Self {
            held_ms,
            node_ms: held_ms.saturating_mul(nodes),
            gpu_ms: held_ms.saturating_mul(held.gpus),
            nic_ms: held_ms.saturating_mul(held.nics),
            rail_ms: held_ms.saturating_mul(u64::from(held.rails)),
            cpu_ms: held_ms.saturating_mul(held.cpus),
            startup_gpu_ms: startup.saturating_mul(held.gpus),
        }
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.held_ms, other.held_ms),
            (&mut self.node_ms, other.node_ms),
            (&mut self.gpu_ms, other.gpu_ms),
            (&mut self.nic_ms, other.nic_ms),
            (&mut self.rail_ms, other.rail_ms),
            (&mut self.cpu_ms, other.cpu_ms),
            (&mut self.startup_gpu_ms, other.startup_gpu_ms),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
    }
}

/// What is summed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageBy {
    /// Tenants, by their uids.
    Tenant,
    /// Queues of tenants.
    Queue,
    /// Users of tenants, by who submitted.
    User,
    /// Jobs, by their uids.
    Job,
}

/// Attempts that are alike in what is summed over; what is not summed over is `None`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageGroup {
    /// The tenant by its name.
    pub tenant: TenantName,
    /// The uid of the tenant.
    pub tenant_uid: String,
    /// The queue; also `None` for the tenant itself.
    pub queue: Option<QueueName>,
    /// The user; also `None` where that is not known.
    pub user: Option<String>,
    /// The job.
    pub job: Option<(JobId, JobUid)>,
}

impl UsageGroup {
    fn of(record: &UsageRecord, by: UsageBy) -> Self {
        let submitter = record.submitter.as_ref().filter(|_| by == UsageBy::User);
        Self {
            tenant: record.id.tenant.clone(),
            tenant_uid: record.tenant_uid.clone(),
            queue: record.queue.clone().filter(|_| by == UsageBy::Queue),
            user: submitter.map(|submitter| submitter.user.clone()),
            job: (by == UsageBy::Job).then(|| (record.id.clone(), record.uid)),
        }
    }
}

/// The sum of some attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageSum {
    /// How many attempts.
    pub attempts: u64,
    /// Those of them that still hold.
    pub running: u64,
    /// What they held.
    pub amount: UsageAmount,
}

impl UsageSum {
    fn add(&mut self, record: &UsageRecord, amount: &UsageAmount) {
        self.attempts += 1;
        self.running += u64::from(record.end == UsageEnd::Running);
        self.amount.add(amount);
    }
}

/// More groups than are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyGroups;

/// Sums that are being made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSums {
    by: UsageBy,
    interval: (Timestamp, Timestamp),
    groups: BTreeMap<UsageGroup, UsageSum>,
    total: UsageSum,
}

impl UsageSums {
    /// Groups of one sum at most.
    pub const GROUPS: usize = 100_000;

    /// Of nothing yet.
    #[must_use]
    pub fn new(by: UsageBy, since: Timestamp, until: Timestamp) -> Self {
        Self { by, interval: (since, until), groups: BTreeMap::new(), total: UsageSum::default() }
    }

    /// Adds an attempt.
    ///
    /// # Errors
    /// It would be one group too many.
    pub fn add(&mut self, record: &UsageRecord) -> Result<(), TooManyGroups> {
        let amount = UsageAmount::of(record, self.interval.0, self.interval.1);
        let group = UsageGroup::of(record, self.by);
        if self.groups.len() >= Self::GROUPS && !self.groups.contains_key(&group) {
            return Err(TooManyGroups);
        }
        self.groups.entry(group).or_default().add(record, &amount);
        self.total.add(record, &amount);
        Ok(())
    }

    /// Of everything that was added.
    #[must_use]
    pub fn total(&self) -> UsageSum {
        self.total
    }

    /// So many groups, those with the most GPU time first, and how many are left out.
    #[must_use]
    pub fn largest(self, limit: usize) -> (Vec<(UsageGroup, UsageSum)>, usize) {
        let mut groups: Vec<(UsageGroup, UsageSum)> = self.groups.into_iter().collect();
        // Those that are equal stay in the order of their names.
        groups.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.amount.gpu_ms));
        let left_out = groups.len().saturating_sub(limit);
        groups.truncate(limit);
        (groups, left_out)
    }
}
