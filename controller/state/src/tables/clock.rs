//! When the core must look again, and what is looked at first.

use proto_model::Timestamp;

use crate::{
    config::Config,
    index::all::Due,
    rows::{job::JobEntry, node::Link, schedules::ScheduleEntry, write::Key},
    tables::state::State,
};

impl State {
    /// This controller's fencing number.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The limits.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The store's revision of a resource's last change; `Some(0)` while a change waits for its commit.
    #[must_use]
    pub fn version(&self, key: &Key) -> Option<u64> {
        if let Some(deleted) = self.journal.pending(key) {
            return (!deleted).then_some(0);
        }
        self.versions.get(key).copied()
    }

    /// When the core wants a [`crate::Event::Tick`]; a time that has passed means at once.
    #[must_use]
    pub fn next_tick(&self) -> Option<Timestamp> {
        let index = &self.index;
        let mut owners = index.tenants.keys().chain(index.request_counts.keys());
        let orphans = owners.any(|tenant| !self.base.tenants.contains_key(tenant));
        let schedule = &self.base.schedule;
        let now = (schedule.wanted || orphans || self.usage_over().is_some()).then_some(Timestamp::default());
        let requests = index.request_times.first().map(|(time, ..)| time.plus(self.config.request_retention));
        let tokens = index.token_times.first().map(|(time, _)| *time);
        let kept = self.config.ended_retention;
        let ended = kept.and_then(|kept| index.ended.first().map(|(time, _)| time.plus(kept)));
        let kept = self.config.usage_retention;
        let usage = kept.and_then(|kept| index.usage.all.first().map(|(time, ..)| time.plus(kept)));
        let base = &self.base;
        let checks =
            [schedule.check, base.qos_check, base.switch_check, base.prove_check, self.tombstone_due()];
        let rest = [now, index.due.first().map(|(time, _)| *time), requests, tokens, ended, usage];
        checks.into_iter().chain(rest).flatten().min()
    }

    /// How much one step does from now on, in place of what the configuration says: deadlines of one Tick, placements of
    /// one look at the queue. For a loop whose store does not take the writes of a whole step at once.
    pub fn set_pace(&mut self, due_limit: usize, pass_places: usize) {
        (self.config.due_limit, self.config.pass_places) = (due_limit, pass_places);
    }

    /// The queue shall be looked at again, because the last look was cut short.
    pub fn want_pass(&mut self) {
        self.base.schedule.wanted = true;
    }

    /// What is due first, if anything is, is looked at again at `until`, so that what cannot be stored does not keep up the rest. Only
    /// between commits: it changes nothing that is stored, and is not undone. True if there was
    /// something.
    pub fn postpone_first(&mut self, now: Timestamp, until: Timestamp) -> bool {
        match self.index.due.first().filter(|(time, _)| *time <= now).cloned() {
            Some((_, Due::Job(uid))) => {
                if let Some(entry) = self.base.jobs.get(&uid).cloned() {
                    self.swap_job(uid, Some(JobEntry { due: Some(until), ..entry }));
                }
            }
            Some((time, due @ Due::LatestStart(_))) => {
                self.index.due.remove(&(time, due.clone()));
                self.index.due.insert((until, due));
            }
            Some((_, Due::Node(name))) => {
                if let Some(link) = self.base.links.get(&name).cloned() {
                    self.swap_link(&name, Some(Link { due: Some(until), ..link }));
                }
            }
            Some((_, Due::Schedule(tenant, name))) => {
                let key = (tenant, name);
                if let Some(entry) = self.base.schedules.get(&key).cloned() {
                    self.swap_job_schedule(key, Some(ScheduleEntry { due: Some(until), ..entry }));
                }
            }
            None => return false,
        }
        true
    }

    /// Whether two states would decide alike from here on; for tests of undo and of reloading.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.epoch == other.epoch
            && self.base == other.base
            && self.index == other.index
            && self.versions == other.versions
    }
}
