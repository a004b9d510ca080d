//! What the jobs of service classes use, by user.

use std::collections::BTreeMap;

use proto_model::{ClassUser, Job, Phase, ServiceClassName};

/// What jobs of a class use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassUse {
    /// Jobs that wait.
    pub waiting: u32,
    /// Jobs that hold a place.
    pub running: u32,
    /// GPUs that they hold.
    pub gpus: u64,
}

impl ClassUse {
    /// What one job uses; nothing once it has ended.
    pub fn of(job: &Job) -> Self {
        let status = &job.status;
        let held = status.placement.as_ref().filter(|_| status.phase.holds());
        let places = held.iter().flat_map(|placement| placement.nodes.iter().chain(&placement.spares));
        Self {
            waiting: u32::from(status.phase == Phase::Pending),
            running: u32::from(status.phase.holds()),
            gpus: places.map(|place| place.gpus.len() as u64).sum(),
        }
    }

    /// The sum with another one, or the difference; never below zero.
    pub fn change(self, other: Self, add: bool) -> Self {
        let count = |a: u32, b: u32| if add { a.saturating_add(b) } else { a.saturating_sub(b) };
        Self {
            waiting: count(self.waiting, other.waiting),
            running: count(self.running, other.running),
            gpus: if add { self.gpus + other.gpus } else { self.gpus.saturating_sub(other.gpus) },
        }
    }
}

/// What the jobs of every class use, by user.
pub type ClassUses = BTreeMap<ServiceClassName, BTreeMap<ClassUser, ClassUse>>;

/// Counts a job of a class, or counts it no more.
pub fn count_class(uses: &mut ClassUses, job: &Job, add: bool) {
    let Some(class) = &job.spec.service_class else { return };
    let own = ClassUse::of(job);
    if own == ClassUse::default() {
        return;
    }
    let key = ClassUser::of(class, &job.id.tenant, job.status.submitter.as_ref());
    let users = uses.entry(class.clone()).or_default();
    let used = users.get(&key).copied().unwrap_or_default().change(own, add);
    if used == ClassUse::default() {
        users.remove(&key);
    } else {
        users.insert(key, used);
    }
    if users.is_empty() {
        uses.remove(class);
    }
}
