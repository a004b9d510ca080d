//! The numbers of tenants and their queues, for metrics: what their jobs hold, ask for and wait for.
//!
//! Counted as jobs change, like the other indices, so that telling them costs nothing by the number of jobs. A cluster can have more
//! tenants and queues than a time series database wants series: those that have been there longest go by their names, the others
//! together as [`OTHER`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proto_model::{Phase, QueueName, Reason, ReasonCode, TenantName, Timestamp};

pub use crate::index::figures::Figure;

use crate::{rows::job::Transition, tables::state::State};

/// Tenants that go by their names.
pub const MAX_TENANTS: usize = 200;
/// Queues that go by their names.
pub const MAX_QUEUES: usize = 500;
/// All that have no series of their own.
pub const OTHER: &str = "other";
/// The jobs of a tenant that are in none of its queues.
pub const NO_QUEUE: &str = "-";

/// Who goes by its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Named {
    tenants: BTreeSet<TenantName>,
    queues: BTreeSet<(TenantName, QueueName)>,
}

impl Named {
    /// The name under which a tenant is counted.
    #[must_use]
    pub fn tenant<'a>(&self, tenant: &'a TenantName) -> &'a str {
        if self.tenants.contains(tenant) { tenant.as_str() } else { OTHER }
    }

    /// The names under which a queue of a tenant is counted, or the jobs that are in none.
    #[must_use]
    pub fn queue<'a>(&self, tenant: &'a TenantName, queue: Option<&'a QueueName>) -> [&'a str; 2] {
        let name = self.tenant(tenant);
        match queue {
            None => [name, NO_QUEUE],
            Some(_) if name == OTHER => [OTHER, OTHER],
            Some(queue) if self.queues.contains(&(tenant.clone(), queue.clone())) => [name, queue.as_str()],
            Some(_) => [name, OTHER],
        }
    }
}

/// All numbers of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// Under these names all that follows is counted.
    pub named: Named,
    /// By tenant; a tenant without jobs has zeros.
    pub tenants: BTreeMap<String, Figure>,
    /// By tenant and queue; a queue without jobs has zeros.
    pub queues: BTreeMap<[String; 2], Figure>,
}

/// What a job's change of phase means for the numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The name of the tenant.
    pub tenant: TenantName,
    /// Where it waited.
    pub queue: Option<QueueName>,
    /// What of a job's life has happened.
    pub what: Move,
}

/// What counts of a job's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Its ranks are told to run; at the first attempt with the time since it was submitted.
    Started(Option<Duration>),
    /// It is stopped to make room for others.
    Preempted,
}

/// The first so many, by when they were made.
fn oldest<N: Ord>(mut all: Vec<(Timestamp, N)>, most: usize) -> BTreeSet<N> {
    if all.len() > most {
        all.select_nth_unstable(most);
        all.truncate(most);
    }
    all.into_iter().map(|(_, name)| name).collect()
}

impl State {
    /// Who goes by its name now. It changes where tenants or queues are made or removed.
    #[must_use]
    pub fn named(&self) -> Named {
        let tenants = self.base.tenants.values().map(|tenant| (tenant.created, tenant.name.clone()));
        let queues = self.base.queues.values();
        let queues = queues.map(|queue| (queue.created, (queue.tenant.clone(), queue.name.clone())));
        Named {
            tenants: oldest(tenants.collect(), MAX_TENANTS),
            queues: oldest(queues.collect(), MAX_QUEUES),
        }
    }

    /// The numbers of all tenants and queues.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let named = self.named();
        let mut tenants: BTreeMap<String, Figure> = BTreeMap::new();
        let mut queues: BTreeMap<[String; 2], Figure> = BTreeMap::new();
        for tenant in self.base.tenants.keys() {
            tenants.entry(named.tenant(tenant).to_owned()).or_default();
        }
        for (tenant, queue) in self.base.queues.keys() {
            queues.entry(named.queue(tenant, Some(queue)).map(str::to_owned)).or_default();
        }
        for ((tenant, queue), figure) in &self.index.figures {
            let own = tenants.entry(named.tenant(tenant).to_owned()).or_default();
            *own = own.plus(*figure);
            let own = queues.entry(named.queue(tenant, queue.as_ref()).map(str::to_owned)).or_default();
            *own = own.plus(*figure);
        }
        Figures { named, tenants, queues }
    }

    /// What a change of phase that was stepped now means for the numbers; `None` for most.
    #[must_use]
    pub fn moved(&self, transition: &Transition, now: Timestamp) -> Option<Moved> {
        let job = self.job_by_uid(&transition.uid)?;
        let status = &job.status;
        let what = match transition.to {
            Phase::Running => {
                let first = transition.attempt == 1;
                Move::Started(first.then(|| now.since(status.submitted)))
            }
            Phase::Recovering => {
                let yields = |reason: &Reason| {
                    reason.code == ReasonCode::Preempted || reason.code == ReasonCode::PreemptedForPriority
                };
                status.reasons.iter().any(yields).then_some(Move::Preempted)?
            }
            _ => return None,
        };
        Some(Moved { tenant: job.id.tenant.clone(), queue: job.spec.queue.clone(), what })
    }
}
