//! What is remembered of jobs that have ended: how long they ran, for plans, and what they used, for fair shares.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use proto_model::{JobId, JobUid, QueueName, TenantName, Timestamp};

use crate::{defs::Policy, entry::Entry};

/// Jobs of one tenant and size whose lengths are kept.
const KEPT: usize = 32;

/// Jobs whose estimates are compared with what came.
const RATIOS: usize = 128;

/// Fewer of them say nothing.
const FEW: usize = 8;

/// Jobs that have ended of which it is kept when they came.
const ARRIVALS: usize = 1024;

/// Periods of a half-life in which use is added up.
const PERIODS: u64 = 16;

/// Half-lives after which use is forgotten.
const FORGOTTEN: u64 = 12;

/// One attempt of a job that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// The identity of the job.
    pub uid: JobUid,
    /// The job's tenant and name.
    pub id: JobId,
    /// The queue that the job was in; `None`: in none.
    pub queue: Option<QueueName>,
    /// GPUs that it held.
    pub gpus: u64,
    /// Nodes that it held.
    pub nodes: u32,
    /// The priority of the job.
    pub priority: i32,
    /// When the job was submitted.
    pub submitted: Timestamp,
    /// When the attempt started.
    pub started: Timestamp,
    /// When the attempt ended.
    pub ended: Timestamp,
    /// Its user's own estimate or limit, if there was one.
    pub estimate: Option<Duration>,
    /// It ran to its own end: its length says something of the next one's.
    pub whole: bool,
}

impl Past {
    /// Of a running job that ends now. `None` if it does not run.
    #[must_use]
    pub fn of(entry: &Entry, ended: Timestamp, whole: bool) -> Option<Self> {
        let run = entry.run()?;
        Some(Self {
            uid: entry.uid,
            id: entry.id.clone(),
            queue: entry.queue.clone(),
            gpus: run.gpus(),
            nodes: entry.nodes_held(),
            priority: entry.priority,
            submitted: entry.submitted,
            started: run.started,
            ended,
            estimate: entry.expected.or(entry.limit),
            whole,
        })
    }
}

/// GPU-milliseconds that were used, by the number of the period.
type Periods = Arc<BTreeMap<u64, u64>>;

/// Lengths of past jobs and use of tenants. A value: copies are cheap.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ledger {
    /// Per tenant and size (a power of two of GPUs), in the order of their ends.
    lengths: BTreeMap<(TenantName, u32), Arc<Recent<Duration>>>,
    /// What came, in thousandths of what was estimated: per tenant and size, per tenant, and of all.
    ratios: BTreeMap<(Option<TenantName>, Option<u32>), Arc<Ratios>>,
    /// The last jobs that have ended, in the order of their ends.
    gone: Arc<VecDeque<Arc<Past>>>,
    /// Of jobs that came before this some are forgotten.
    known: Timestamp,
    /// Per tenant and queue GPU-milliseconds by period.
    used: BTreeMap<(TenantName, Option<QueueName>), Periods>,
}

fn size(gpus: u64) -> u32 {
    gpus.max(1).ilog2()
}

/// The last values, and three of them in their order: one of the low ones, the middle one, one of the high ones.
#[derive(Debug, Clone, PartialEq, Default)]
struct Recent<T> {
    values: Vec<T>,
    parts: [T; 3],
}

impl<T: Copy + Ord + Default> Recent<T> {
    fn push(&mut self, value: T, most: usize) {
        if self.values.len() >= most {
            self.values.remove(0);
        }
        self.values.push(value);
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        self.parts = [1, 5, 9].map(|tenth| sorted[(sorted.len() - 1) * tenth / 10]);
    }
}

/// The last ratios, also in their order; a low one, the mean, a high one.
#[derive(Debug, Clone, PartialEq, Default)]
struct Ratios {
    values: VecDeque<u32>,
    sorted: Vec<u32>,
    parts: [u32; 3],
}

impl Ratios {
    fn push(&mut self, value: u32) {
        if self.values.len() >= RATIOS {
            self.values.pop_front();
        }
        self.values.push_back(value);
        self.sorted = self.values.iter().copied().collect();
        self.sorted.sort_unstable();
        let tenth = |tenth: usize| self.sorted[(self.sorted.len() - 1) * tenth / 10];
        self.parts = [tenth(1), mean(&self.sorted), tenth(9)];
    }
}

fn mean(values: &[u32]) -> u32 {
    let sum: u64 = values.iter().map(|value| u64::from(*value)).sum();
    u32::try_from(sum / (values.len() as u64).max(1)).unwrap_or(u32::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Ledger {
    /// Adds an ended attempt to the lengths of past jobs and to its tenant's use.
    pub(crate) fn remember(&mut self, past: &Past, policy: &Policy) {
        let tenant = &past.id.tenant;
        let length = past.ended.since(past.started);
        let period = millis(policy.half_life).max(PERIODS) / PERIODS;
        let used = self.used.entry((tenant.clone(), past.queue.clone())).or_default();
        let used = Arc::make_mut(used);
        *used.entry(past.ended.0 / period).or_default() += past.gpus.saturating_mul(millis(length));
        let oldest = (past.ended.0 / period).saturating_sub(PERIODS * FORGOTTEN);
        while used.first_key_value().is_some_and(|(period, _)| *period < oldest) {
            used.pop_first();
        }
        if past.whole {
            let lengths = self.lengths.entry((tenant.clone(), size(past.gpus))).or_default();
            Arc::make_mut(lengths).push(length, KEPT);
            if let Some(estimate) = past.estimate.filter(|estimate| !estimate.is_zero()) {
                let ratio = millis(length).saturating_mul(1000) / millis(estimate).max(1);
                let ratio = u32::try_from(ratio.min(4000)).unwrap_or(4000);
                let size = size(past.gpus);
                for key in [(Some(tenant), Some(size)), (Some(tenant), None), (None, None)] {
                    let ratios = self.ratios.entry((key.0.cloned(), key.1)).or_default();
                    Arc::make_mut(ratios).push(ratio);
                }
            }
        }
        let gone = Arc::make_mut(&mut self.gone);
        gone.push_back(Arc::new(past.clone()));
        if gone.len() > ARRIVALS
            && let Some(oldest) = gone.pop_front()
        {
            self.known = self.known.max(oldest.submitted);
        }
    }

    /// Since when all arrivals are known, and the last attempts of jobs that have ended.
    pub(crate) fn arrivals(&self) -> (Timestamp, impl Iterator<Item = &Past>) {
        (self.known, self.gone.iter().map(Arc::as_ref))
    }

    /// Of jobs of this tenant and size, of the tenant's, or of all: the nearest of which there are enough.
    fn ratios(&self, tenant: &TenantName, gpus: u64) -> Option<&Ratios> {
        let keys = [(Some(tenant.clone()), Some(size(gpus))), (Some(tenant.clone()), None), (None, None)];
        let least = [4 * FEW, FEW, FEW];
        let known = keys.iter().zip(least).filter_map(|(key, least)| Some((self.ratios.get(key)?, least)));
        known
            .filter(|(ratios, least)| ratios.values.len() >= *least)
            .map(|(ratios, _)| ratios.as_ref())
            .next()
    }

    /// The mean, in thousandths of the estimate, of what those took that took longer than this. `None`: there were none.
    pub(crate) fn later_than(&self, tenant: &TenantName, gpus: u64, part: u32) -> Option<u32> {
        let Some(ratios) = self.ratios(tenant, gpus) else { return Some(1000) };
        let later = &ratios.sorted[ratios.sorted.partition_point(|value| *value <= part)..];
        (!later.is_empty()).then(|| mean(later))
    }

    /// The median length of a tenant's last jobs of this size; of any size if there was none.
    #[must_use]
    pub fn length(&self, tenant: &TenantName, gpus: u64) -> Option<Duration> {
        let wanted = size(gpus);
        let of = |size: u32| self.lengths.get(&(tenant.clone(), size));
        let near = (0..16).flat_map(|off| [wanted.checked_sub(off), Some(wanted + off)]).flatten();
        near.filter_map(of).next().map(|lengths| lengths.parts[1])
    }

    /// One of what those took that took longer than this: which, `dice` says. `None`: there were none.
    pub(crate) fn draw(&self, tenant: &TenantName, gpus: u64, part: u32, dice: u64) -> Option<u32> {
        let Some(ratios) = self.ratios(tenant, gpus) else { return Some(1000) };
        let later = &ratios.sorted[ratios.sorted.partition_point(|value| *value <= part)..];
        let at = dice.checked_rem(later.len() as u64)?;
        later.get(usize::try_from(at).ok()?).copied()
    }

    /// What estimates turned out to be for a tenant's jobs of this size, as thousandths of them: a low one, the mean and a
    /// high one. Where nothing is known: half, all and one and a half.
    #[must_use]
    pub fn error(&self, tenant: &TenantName, gpus: u64) -> [u32; 3] {
        self.ratios(tenant, gpus).map_or([500, 1000, 1500], |ratios| ratios.parts)
    }

    /// GPU-seconds that a tenant or one of its queues has used, by jobs that have ended; older use counts less.
    #[must_use]
    pub fn used(
        &self,
        tenant: &TenantName,
        queue: Option<&QueueName>,
        now: Timestamp,
        policy: &Policy,
    ) -> f64 {
        let half = millis(policy.half_life).max(PERIODS);
        let period = half / PERIODS;
        let Some(used) = self.used.get(&(tenant.clone(), queue.cloned())) else { return 0.0 };
        let decayed = |(at, amount): (&u64, &u64)| {
            let age = now.0.saturating_sub(at.saturating_mul(period)) as f64 / half as f64;
            *amount as f64 / 1000.0 * (-age).exp2()
        };
        used.iter().map(decayed).sum()
    }
}
