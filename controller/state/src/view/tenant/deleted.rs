//! What is kept of a tenant that is about to be deleted, and what can be brought back.

use std::sync::Arc;

use proto_model::{JobSchedule, Queue, Reservation, ServiceClass, Tenant, TenantName, Timestamp};

use crate::{
    rows::{
        deleted::{DeletedKey, DeletedTenant, Tombstone},
        write::Key,
    },
    tables::state::State,
};

/// Bytes of what is kept of a tenant at most: it is one value of the store.
const ROOM: u64 = 512 * 1024;

/// What a queue, a reservation or a class is counted with, and a webhook.
const SMALL: u64 = 512;

const WEBHOOK: u64 = 4096;

/// What a schedule is counted with beside what its user wrote.
const SCHEDULE: u64 = 2048;

fn bytes(schedule: &JobSchedule) -> u64 {
    SCHEDULE + schedule.job.written_bytes(&schedule.labels)
}

/// How much more is kept.
struct Left {
    bytes: u64,
    left_out: u32,
}

impl Left {
    /// What fits, in its order; what does not is counted.
    fn keep<T>(&mut self, all: Vec<Arc<T>>, size: impl Fn(&T) -> u64) -> Vec<Arc<T>> {
        let mut kept = Vec::new();
        for one in all {
            let size = size(&one);
            if self.left_out == 0 && size <= self.bytes {
                self.bytes -= size;
                kept.push(one);
            } else {
                self.left_out += 1;
            }
        }
        kept
    }
}

impl State {
    /// What is kept of a tenant that is about to be deleted.
    pub fn content_of(&self, tenant: &Arc<Tenant>) -> DeletedTenant {
        let name = &tenant.name;
        let mut left = Left { bytes: ROOM, left_out: 0 };
        let queues = left.keep(self.parents_first(name), |_| SMALL);
        let webhooks = left.keep(self.webhooks_of(name).cloned().collect(), |_| WEBHOOK);
        let own = |one: &&Arc<Reservation>| one.tenants.contains(name);
        let share =
            |one: &Arc<Reservation>| Arc::new(Reservation { tenants: vec![name.clone()], ..(**one).clone() });
        let reservations = self.base.reservations.values().filter(own).map(share).collect();
        let reservations = left.keep(reservations, |_| SMALL);
        let classes = self.base.classes.values().filter_map(|class| share_of(class, name)).collect();
        let classes = left.keep(classes, |_| SMALL);
        let schedules = left.keep(self.job_schedules_of(name).cloned().collect(), bytes);
        let (tenant, left_out) = (Arc::clone(tenant), left.left_out);
        DeletedTenant { tenant, queues, schedules, webhooks, reservations, classes, left_out }
    }

    fn parents_first(&self, tenant: &TenantName) -> Vec<Arc<Queue>> {
        let depth = |queue: &Arc<Queue>| {
            let mut parent = queue.parent.clone();
            // Queues are never within themselves.
            std::iter::from_fn(|| {
                let above = self.queue(tenant, &parent.take()?)?;
                parent.clone_from(&above.parent);
                Some(())
            })
            .count()
        };
        let mut queues: Vec<Arc<Queue>> = self.queues_of(tenant).cloned().collect();
        queues.sort_by_cached_key(|queue| (depth(queue), queue.name.clone()));
        queues
    }

    /// When the next of them is over.
    pub fn tombstone_due(&self) -> Option<Timestamp> {
        let first = self.base.tombstones.values().map(|one| one.deleted).min();
        first.map(|first| first.plus(self.config.undelete_for))
    }

    /// What can be brought back, the newest first.
    #[must_use]
    pub fn deleted(&self) -> Vec<Arc<Tombstone>> {
        let mut all: Vec<Arc<Tombstone>> = self.base.tombstones.values().cloned().collect();
        all.sort_by(|a, b| b.deleted.cmp(&a.deleted).then_with(|| a.key.cmp(&b.key)));
        all
    }

    /// Its version and that of what comes back, for the audit log.
    pub fn version_of_deleted(&self, key: &DeletedKey) -> u64 {
        self.version(&Key::Tombstone(key.clone())).unwrap_or(0)
    }
}

/// A class with the members alone that are of this tenant.
fn share_of(class: &Arc<ServiceClass>, tenant: &TenantName) -> Option<Arc<ServiceClass>> {
    let mut share = (**class).clone();
    let members = &mut share.members;
    members.tenants.retain(|name| name == tenant);
    members.queues.retain(|(name, _)| name == tenant);
    members.users.retain(|(name, _)| name == tenant);
    members.roles.clear();
    let some = !(members.tenants.is_empty() && members.queues.is_empty() && members.users.is_empty());
    some.then(|| Arc::new(share))
}
