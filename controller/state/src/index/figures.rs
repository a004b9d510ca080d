//! What the jobs of tenants and queues hold and wait for.

use std::collections::BTreeMap;

use proto_model::{Job, Phase, QueueName, TenantName};

/// What some jobs hold and wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figure {
    /// Jobs that wait.
    pub waiting: u64,
    /// GPUs that they ask for.
    pub gpus_asked: u64,
    /// Jobs that hold a place.
    pub placed: u64,
    /// GPUs that they hold.
    pub gpus_held: u64,
}

impl Figure {
    /// One job's; nothing once it has ended.
    pub fn of(job: &Job) -> Self {
        let status = &job.status;
        let waits = status.phase == Phase::Pending;
        let held = status.placement.as_ref().filter(|_| status.phase.holds());
        let places = held.iter().flat_map(|placement| placement.nodes.iter().chain(&placement.spares));
        Self {
            waiting: u64::from(waits),
            gpus_asked: if waits { job.spec.gpus(job.spec.gang.nodes) } else { 0 },
            placed: u64::from(status.phase.holds()),
            gpus_held: places.map(|place| place.gpus.len() as u64).sum(),
        }
    }

    /// The sum of two.
    pub fn plus(self, other: Self) -> Self {
        Self {
            waiting: self.waiting.saturating_add(other.waiting),
            gpus_asked: self.gpus_asked.saturating_add(other.gpus_asked),
            placed: self.placed.saturating_add(other.placed),
            gpus_held: self.gpus_held.saturating_add(other.gpus_held),
        }
    }

    fn less(self, other: Self) -> Self {
        Self {
            waiting: self.waiting.saturating_sub(other.waiting),
            gpus_asked: self.gpus_asked.saturating_sub(other.gpus_asked),
            placed: self.placed.saturating_sub(other.placed),
            gpus_held: self.gpus_held.saturating_sub(other.gpus_held),
        }
    }
}

type QueueKey = (TenantName, Option<QueueName>);

/// Those of every queue that has jobs which have not ended.
pub type FigureIndex = BTreeMap<QueueKey, Figure>;

/// Counts a job, or counts it no more.
pub fn count_figures(figures: &mut FigureIndex, job: &Job, add: bool) {
    let own = Figure::of(job);
    if own == Figure::default() {
        return;
    }
    let place = (job.id.tenant.clone(), job.spec.queue.clone());
    let figure = figures.get(&place).copied().unwrap_or_default();
    let figure = if add { figure.plus(own) } else { figure.less(own) };
    if figure == Figure::default() {
        figures.remove(&place);
    } else {
        figures.insert(place, figure);
    }
}
