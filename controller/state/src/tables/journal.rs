//! What has changed since the last commit: how it is taken back, and what it means for the store.

use std::{collections::BTreeSet, sync::Arc};

use proto_model::JobUid;

use crate::{
    rows::{
        job::JobEntry,
        schedules::{ScheduleEntry, ScheduleKey},
        write::{Key, Write},
    },
    tables::state::{Own, Row, Seen, State, Undo},
};

impl State {
    /// The writes of all steps since the last commit are durable, at this revision of the store.
    pub fn commit(&mut self, revision: u64) {
        self.journal.undo.clear();
        self.base.chains.close_rows();
        for (key, deleted) in self.journal.written.drain(..) {
            if matches!(key, Key::Audit(..) | Key::Delivery(..) | Key::AttachedWrite(_)) {
                continue;
            }
            if deleted {
                self.versions.remove(&key);
            } else {
                self.versions.insert(key, revision);
            }
        }
    }

    /// They are not: the state is exactly as it was at the last commit.
    pub fn rollback(&mut self) {
        self.undo_to(0);
        self.journal.written.clear();
    }

    /// Whether steps since the last commit have changed anything, stored or not.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        !self.journal.undo.is_empty()
    }

    /// Puts a row into its table; the journal can undo it.
    pub fn put<R: Row>(&mut self, row: Arc<R>) {
        self.set(&row.key(), Some(row));
    }

    /// Takes a row out of its table; the journal can undo it.
    pub fn remove<R: Row>(&mut self, key: &R::Key) {
        self.set::<R>(key, None);
    }

    /// Puts a row into its table, or takes it out; the journal can undo it.
    pub fn set<R: Row>(&mut self, key: &R::Key, new: Option<Arc<R>>) {
        let old = self.swap(key, new);
        self.journal.undo.push(R::undo(key.clone(), old));
    }

    /// The same without a note, for what is loaded or taken back.
    pub(crate) fn swap<R: Row>(&mut self, key: &R::Key, new: Option<Arc<R>>) -> Option<Arc<R>> {
        let old = R::table_mut(&mut self.base).swap(key, new.clone());
        R::follow(self, key, old.as_ref(), new.as_ref());
        old
    }

    /// Notes how to undo what was changed by hand.
    pub(crate) fn note(&mut self, own: Own) {
        self.journal.undo.push(Undo::Own(own));
    }

    /// Takes back all changes behind a mark: the length of the log at that time. Marks nest.
    pub fn undo_to(&mut self, mark: usize) {
        while self.journal.undo.len() > mark {
            let Some(own) = self.journal.undo.pop().and_then(|undo| undo.take_back(self)) else { continue };
            match own {
                Own::Fabric(old) => drop(self.swap_fabric(old)),
                Own::Qos(old) => self.base.qos = old,
                Own::QosRun(old) => {
                    let (run, check) = *old;
                    self.swap_qos_run(run);
                    self.base.qos_check = check;
                }
                Own::SwitchRollout(old) => self.base.switch_rollout = old,
                Own::SwitchRun(old) => {
                    let (run, check) = *old;
                    self.swap_switch_run(run);
                    self.base.switch_check = check;
                }
                Own::SwitchPlans(old) => self.base.switch_plans = old,
                Own::SwitchView(name, old) => drop(self.swap_switch_view(&name, old.map(|view| *view))),
                Own::Proving(old) => (self.base.proving, self.base.prove_check) = *old,
                Own::Job(uid, old) => drop(self.swap_job(uid, old.map(|entry| *entry))),
                Own::Link(name, old) => drop(self.swap_link(&name, old)),
                Own::View(key, old) => drop(self.swap_view(key, old.map(|view| *view))),
                Own::JobSchedule(key, old) => drop(self.swap_job_schedule(key, old.map(|entry| *entry))),
                Own::Schedule(old) => self.base.schedule = *old,
                Own::Chain(log, old) => self.base.chains[log] = *old,
                Own::Audit(key, old) => drop(self.swap_audit(key, old)),
                Own::Marks(old) => self.index.queue_state.restore(*old),
            }
        }
    }

    /// What the changes since `mark` mean for the store; each key once.
    #[must_use]
    pub fn writes_since(&self, mark: usize) -> Vec<Write> {
        let mut writes = Vec::new();
        let mut seen = Seen::default();
        let (mut jobs, mut schedules, mut audit) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut qos, mut fabric, mut switches) = (false, false, false);
        for undo in &self.journal.undo[mark..] {
            writes.extend(seen.write(&self.base, undo));
            let Undo::Own(own) = undo else { continue };
            match own {
                Own::Job(uid, old) if jobs.insert(*uid) => self.job_writes(*uid, old.as_deref(), &mut writes),
                Own::JobSchedule(key, old) if schedules.insert(key) => {
                    writes.extend(self.schedule_write(key, old.as_deref()));
                }
                Own::Audit(key, old) if audit.insert(*key) => {
                    writes.extend(self.audit_write(*key, old.is_some()));
                }
                Own::Qos(_) if !qos => {
                    qos = true;
                    writes.extend(self.base.qos.clone().map(Write::PutQos));
                }
                Own::SwitchRollout(_) if !switches => {
                    switches = true;
                    writes.extend(self.base.switch_rollout.clone().map(Write::PutSwitchRollout));
                }
                Own::Fabric(old) if !fabric => {
                    fabric = true;
                    writes.extend(self.fabric_write(old.is_some()));
                }
                _ => {}
            }
        }
        writes
    }

    fn schedule_write(&self, key: &ScheduleKey, old: Option<&ScheduleEntry>) -> Option<Write> {
        match (old, self.base.schedules.get(key)) {
            (Some(old), Some(new)) if Arc::ptr_eq(&old.schedule, &new.schedule) => None,
            (_, Some(new)) => Some(Write::PutSchedule(Arc::clone(&new.schedule))),
            (Some(_), None) => Some(Write::DeleteSchedule(key.0.clone(), key.1.clone())),
            (None, None) => None,
        }
    }

    fn fabric_write(&self, was: bool) -> Option<Write> {
        let deleted = was.then_some(Write::DeleteFabric);
        self.base.fabric.clone().map(Write::PutFabric).or(deleted)
    }

    fn job_writes(&self, uid: JobUid, old: Option<&JobEntry>, writes: &mut Vec<Write>) {
        let new = self.base.jobs.get(&uid);
        match (old, new) {
            (Some(old), Some(new)) if Arc::ptr_eq(&old.job, &new.job) => {}
            (_, Some(new)) => writes.push(Write::PutJob(Arc::clone(&new.job))),
            (Some(old), None) => writes.push(Write::DeleteJob(old.job.id.clone())),
            (None, None) => {}
        }
        let (before, after) =
            (old.and_then(|old| old.attempt.as_ref()), new.and_then(|new| new.attempt.as_ref()));
        match (before, after) {
            (Some(before), Some(after)) if Arc::ptr_eq(before, after) => {}
            (_, Some(after)) => writes.push(Write::PutAttempt(Arc::clone(after))),
            (Some(_), None) => writes.push(Write::DeleteAttempt(uid)),
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proto_model::{License, LicenseName, TenantName, Timestamp};

    use super::*;
    use crate::{Config, Stored, rows::records::RestingName};

    fn empty() -> State {
        State::load(Config::default(), 1, Timestamp(0), Stored::default()).unwrap()
    }

    fn license(name: &str, total: u32) -> Arc<License> {
        let (uid, description) = (name.to_owned(), String::new());
        let name = LicenseName::new(name).unwrap();
        Arc::new(License { name, uid, generation: 1, created: Timestamp(0), description, total })
    }

    #[test]
    fn changes_of_several_tables_are_taken_back_to_a_mark_and_marks_nest() {
        let mut state = empty();
        let (a, b) = (license("a", 1), license("b", 2));
        state.put(Arc::clone(&a));
        let one = state.clone();
        let mark = state.journal.undo.len();
        let name = TenantName::new("red").unwrap();
        state.put(Arc::new(RestingName { name: name.clone(), uid: String::new(), deleted: Timestamp(1) }));
        state.put(license("a", 7));
        let (two, inner) = (state.clone(), state.journal.undo.len());
        state.remove::<License>(&a.name);
        state.remove::<RestingName>(&name);
        state.put(b);
        assert!(!state.same(&two) && state.base.licenses.len() == 1);
        state.undo_to(inner);
        assert!(state.same(&two));
        state.undo_to(mark);
        assert!(state.same(&one));
        state.rollback();
        assert!(state.same(&empty()) && !state.is_dirty());
    }

    #[test]
    fn each_row_is_written_once_as_it_is_now_and_the_same_row_not_at_all() {
        let mut state = empty();
        let (a, b) = (license("a", 1), license("b", 2));
        state.put(Arc::clone(&a));
        state.put(Arc::clone(&b));
        state.commit(1);
        let newer = license("a", 3);
        state.put(license("a", 2));
        state.remove::<License>(&b.name);
        state.put(Arc::clone(&newer));
        state.put(license("c", 9));
        state.remove::<License>(&license("c", 9).name);
        let writes = state.writes_since(0);
        assert_eq!(writes, [Write::PutLicense(newer), Write::DeleteLicense(b.name.clone())]);
        assert!(state.journal.undo[0].is_change(&state.base));
        state.put(a);
        state.put(b);
        assert_eq!(state.writes_since(0), []);
        assert!(!state.journal.undo[0].is_change(&state.base));
    }
}
