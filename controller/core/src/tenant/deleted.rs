//! What was deleted and can be brought back for a time: a tenant with what went along, and the fabric document. What comes back is applied
//! anew by the rules of today, so a tenant has another uid, and whatever was issued for the old one stays refused.

use std::sync::Arc;

use controller_state::{
    CoreError, DeletedContent, DeletedKey, DeletedTenant, ScheduleEntry, Tombstone, error::nearest::nearest,
};
use proto_model::{
    Fabric, JobSchedule, Reason, ReasonCode, Reservation, ScheduleProgress, ServiceClass, Tenant, TenantName,
};

use crate::{
    context::Step,
    event::{Output, Reply, Restored},
};

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
                self.state.remove::<Tombstone>(&oldest);
            }
        }
        let (deleted, by) = (self.now, self.who.clone());
        let tombstone = Tombstone { key: key.clone(), deleted, by, content };
        self.state.put(Arc::new(tombstone));
    }

    /// What is kept for longer than it is to be goes, a bounded number at a time; how many went.
    pub(crate) fn purge_tombstones(&mut self, limit: usize) -> usize {
        let over = self.state.base.tombstones.values().filter(|one| self.is_over(one));
        let over: Vec<DeletedKey> = over.take(limit).map(|one| one.key.clone()).collect();
        over.iter().for_each(|key| self.state.remove::<Tombstone>(key));
        over.len()
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
        self.state.remove::<Tombstone>(key);
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
            self.state.put(Arc::new(joined));
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
                    self.state.put(Arc::new(joined));
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
