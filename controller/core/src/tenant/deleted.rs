//! What was deleted and can be brought back for a time: a tenant with what went along, and the fabric document. What comes back is applied
//! anew by the rules of today, so a tenant has another uid, and whatever was issued for the old one stays refused.

use std::{fmt, sync::Arc};

use proto_model::{
    Fabric, JobSchedule, Queue, Reason, ReasonCode, Reservation, ScheduleProgress, ServiceClass, Tenant,
    TenantName, Timestamp, Webhook,
};

use crate::{
    error::CoreError,
    event::{Key, Output, Reply, Write},
    job::schedules::ScheduleEntry,
    state::{State, journal::Undo},
    step::Step,
    tenant::documents::nearest,
};

/// Bytes of what is kept of a tenant at most: it is one value of the store.
const ROOM: u64 = 512 * 1024;
/// What a queue, a reservation or a class is counted with, and a webhook.
const SMALL: u64 = 512;
const WEBHOOK: u64 = 4096;
/// What a schedule is counted with beside what its user wrote.
const SCHEDULE: u64 = 2048;

/// Which deleted thing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeletedKey {
    /// The fabric document of this name.
    Fabric(String),
    /// The tenant of this name.
    Tenant(TenantName),
}

impl fmt::Display for DeletedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fabric(name) => write!(f, "fabric/{name}"),
            Self::Tenant(name) => write!(f, "tenant/{name}"),
        }
    }
}

/// Something that was deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct Tombstone {
    /// What.
    pub key: DeletedKey,
    /// When.
    pub deleted: Timestamp,
    /// Who has asked for it.
    pub by: String,
    /// What is kept of it.
    pub content: DeletedContent,
}

/// What is kept of something that was deleted.
#[derive(Debug, Clone, PartialEq)]
pub enum DeletedContent {
    /// The document.
    Fabric(Arc<Fabric>),
    /// The tenant, and what went along.
    Tenant(Box<DeletedTenant>),
}

/// What is kept of a tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct DeletedTenant {
    /// It.
    pub tenant: Arc<Tenant>,
    /// Its queues, each behind the one that it is within.
    pub queues: Vec<Arc<Queue>>,
    /// Its schedules.
    pub schedules: Vec<Arc<JobSchedule>>,
    /// Its webhooks. They hold secrets.
    pub webhooks: Vec<Arc<Webhook>>,
    /// Reservations that it had a share in, with itself alone.
    pub reservations: Vec<Arc<Reservation>>,
    /// Service classes that named it, with its own members alone.
    pub classes: Vec<Arc<ServiceClass>>,
    /// Documents that were too many to be kept.
    pub left_out: u32,
}

/// What has come back.
#[derive(Debug, Clone, PartialEq)]
pub struct Restored {
    /// It, as it was kept.
    pub tombstone: Arc<Tombstone>,
    /// What of it has not come back, and why.
    pub notes: Vec<String>,
}

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

impl Step<'_> {
    /// Keeps what is about to be deleted; the oldest makes room where there are many.
    pub(crate) fn keep_deleted(&mut self, key: DeletedKey, content: DeletedContent) {
        let (keep, most) = (self.state.config.undelete_for, self.state.config.undelete_max);
        if keep.is_zero() || most == 0 {
            return;
        }
        if !self.state.base.tombstones.contains_key(&key) && self.state.base.tombstones.len() >= most {
            let oldest = self.state.base.tombstones.values().min_by_key(|one| (one.deleted, one.key.clone()));
            if let Some(oldest) = oldest.map(|one| one.key.clone()) {
                self.state.set_tombstone(&oldest, None);
            }
        }
        let (deleted, by) = (self.now, self.who.clone());
        let tombstone = Tombstone { key: key.clone(), deleted, by, content };
        self.state.set_tombstone(&key, Some(Arc::new(tombstone)));
    }

    /// What is kept for longer than it is to be goes, a bounded number at a time.
    pub(crate) fn purge_tombstones(&mut self, limit: usize) {
        let over = self.state.base.tombstones.values().filter(|one| self.is_over(one));
        let over: Vec<DeletedKey> = over.take(limit).map(|one| one.key.clone()).collect();
        over.iter().for_each(|key| self.state.set_tombstone(key, None));
    }

    fn is_over(&self, tombstone: &Tombstone) -> bool {
        tombstone.deleted.plus(self.state.config.undelete_for) <= self.now
    }

    /// Brings back what was deleted, by the rules that hold for whoever applies it now.
    pub(crate) fn undelete(&mut self, key: &DeletedKey, dry_run: bool) -> Result<Reply, CoreError> {
        let mark = self.state.journal.undo.len();
        let found = self.state.base.tombstones.get(key).filter(|one| !self.is_over(one)).cloned();
        let Some(tombstone) = found else {
            let names: Vec<String> = self.state.base.tombstones.keys().map(ToString::to_string).collect();
            let nearest = nearest(&key.to_string(), names.iter());
            return Err(CoreError::NotDeleted { what: key.to_string(), nearest });
        };
        let mut notes = Vec::new();
        match &tombstone.content {
            DeletedContent::Fabric(fabric) => self.undelete_fabric(key, fabric)?,
            DeletedContent::Tenant(kept) => self.undelete_tenant(key, kept, &mut notes)?,
        }
        self.state.set_tombstone(key, None);
        if dry_run {
            self.state.undo_to(mark);
            self.out = Output::default();
        }
        Ok(Reply::Undeleted(Restored { tombstone, notes }))
    }

    fn undelete_fabric(&mut self, key: &DeletedKey, fabric: &Arc<Fabric>) -> Result<(), CoreError> {
        if let Some(there) = &self.state.base.fabric {
            let by = format!("fabric '{}'", there.name);
            return Err(CoreError::TakenSince { what: key.to_string(), by });
        }
        self.apply_fabric((**fabric).clone(), true, false).map(drop)
    }

    fn undelete_tenant(
        &mut self,
        key: &DeletedKey,
        kept: &DeletedTenant,
        notes: &mut Vec<String>,
    ) -> Result<(), CoreError> {
        let Tenant { name, description, quota, isolation, .. } = (*kept.tenant).clone();
        if self.state.base.tenants.contains_key(&name) {
            let by = format!("another tenant '{name}'");
            return Err(CoreError::TakenSince { what: key.to_string(), by });
        }
        self.release_name(&name);
        self.apply_tenant(name.clone(), description, quota, isolation, false)?;
        for queue in &kept.queues {
            self.apply_queue((**queue).clone(), false)?;
        }
        for webhook in &kept.webhooks {
            self.apply_webhook((**webhook).clone(), false)?;
        }
        for schedule in &kept.schedules {
            self.undelete_schedule(schedule, quota.schedules)?;
        }
        for class in &kept.classes {
            self.join_class(class, notes);
        }
        for reservation in &kept.reservations {
            self.join_reservation(reservation, &name, notes);
        }
        if kept.left_out > 0 {
            notes.push(format!("{} of its documents were too many to be kept", kept.left_out));
        }
        Ok(())
    }

    /// Nothing starts by itself because a tenant has come back.
    fn undelete_schedule(&mut self, schedule: &JobSchedule, quota: u32) -> Result<(), CoreError> {
        self.room_for_schedule(&schedule.tenant, quota)?;
        let message = "its tenant was deleted and brought back; whoever applies it lets it go on";
        let progress = ScheduleProgress {
            checked_until: self.now,
            last_left_out: Some(Reason::new(ReasonCode::Undeleted, message).since(self.now)),
            ..ScheduleProgress::default()
        };
        let (uid, created) = (self.random_uid(), self.now);
        let schedule =
            JobSchedule { uid, created, generation: 1, suspended: true, progress, ..schedule.clone() };
        let key = (schedule.tenant.clone(), schedule.name.clone());
        self.state.set_job_schedule(key, Some(ScheduleEntry::waiting(Arc::new(schedule))));
        Ok(())
    }

    /// A class names the tenant again, where it still names some of that kind: an open one stays open.
    fn join_class(&mut self, share: &ServiceClass, notes: &mut Vec<String>) {
        let there = self.state.base.classes.get(&share.name).filter(|there| there.uid == share.uid).cloned();
        let Some(there) = there else {
            notes.push(format!("service class '{}' is no more", share.name));
            return;
        };
        let mut joined = (*there).clone();
        let (members, own) = (&mut joined.members, &share.members);
        if !members.tenants.is_empty() {
            members.tenants.extend(own.tenants.iter().cloned());
        }
        if !members.queues.is_empty() {
            members.queues.extend(own.queues.iter().cloned());
        }
        if !members.users.is_empty() {
            members.users.extend(own.users.iter().cloned());
        }
        if joined != *there {
            joined.generation += 1;
            self.state.set_class(&share.name, Some(Arc::new(joined)));
        }
    }

    /// The tenant has its share again; one that nobody else had a share in went with the tenant, and comes back if it still can.
    fn join_reservation(&mut self, share: &Reservation, name: &TenantName, notes: &mut Vec<String>) {
        let what = format!("reservation '{}'", share.name);
        if share.end() <= self.now {
            notes.push(format!("{what} is over"));
            return;
        }
        match self.state.reservation(&share.name).cloned() {
            Some(there) if there.uid == share.uid && !there.tenants.is_empty() => {
                let mut joined = (*there).clone();
                if !joined.tenants.contains(name) {
                    joined.tenants.push(name.clone());
                    joined.generation += 1;
                    self.state.set_reservation(&share.name, Some(Arc::new(joined)));
                }
            }
            Some(_) => notes.push(format!("{what} is another one now")),
            None => {
                let mark = self.state.journal.undo.len();
                if let Err(error) = self.apply_reservation(share.clone(), false) {
                    self.state.undo_to(mark);
                    notes.push(format!("{what} cannot be made: {error}"));
                }
            }
        }
    }
}

impl State {
    /// What is kept of a tenant that is about to be deleted.
    pub(crate) fn content_of(&self, tenant: &Arc<Tenant>) -> DeletedTenant {
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

    fn set_tombstone(&mut self, key: &DeletedKey, new: Option<Arc<Tombstone>>) {
        let old = self.swap_tombstone(key, new);
        self.journal.undo.push(Undo::Tombstone(key.clone(), old));
    }

    pub(crate) fn swap_tombstone(
        &mut self,
        key: &DeletedKey,
        new: Option<Arc<Tombstone>>,
    ) -> Option<Arc<Tombstone>> {
        match new {
            Some(new) => self.base.tombstones.insert(key.clone(), new),
            None => self.base.tombstones.remove(key),
        }
    }

    /// What is stored.
    pub(crate) fn load_tombstones(&mut self, stored: Vec<Arc<Tombstone>>) {
        for tombstone in stored {
            self.swap_tombstone(&tombstone.key.clone(), Some(tombstone));
        }
    }

    /// What the changes since `mark` mean for the store.
    pub(crate) fn tombstone_writes(&self, mark: usize, writes: &mut Vec<Write>) {
        let mut seen = std::collections::BTreeSet::new();
        for undo in &self.journal.undo[mark..] {
            let Undo::Tombstone(key, old) = undo else { continue };
            if !seen.insert(key) {
                continue;
            }
            match self.base.tombstones.get(key) {
                Some(new) => writes.push(Write::PutTombstone(Arc::clone(new))),
                None if old.is_some() => writes.push(Write::DeleteTombstone(key.clone())),
                None => {}
            }
        }
    }

    /// When the next of them is over.
    pub(crate) fn tombstone_due(&self) -> Option<Timestamp> {
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
    pub(crate) fn version_of_deleted(&self, key: &DeletedKey) -> u64 {
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
