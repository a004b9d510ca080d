//! Jobs in their table, and the indices that follow them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_queue::Entry;
use proto_model::{Job, JobId, JobName, JobUid, Phase, ReasonCode, Timestamp};

use crate::{
    index::{all::Due, arrays::array_of, classes::count_class, figures::count_figures, runs::count_run},
    rows::{job::JobEntry, write::Key},
    tables::state::State,
};

/// What the end of an attempt takes beside its grace.
const END_TAKES: Duration = Duration::from_secs(5);

fn is_same_to_queue(a: &JobEntry, b: &JobEntry) -> bool {
    let attempt = match (&a.attempt, &b.attempt) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    };
    attempt && Arc::ptr_eq(&a.job, &b.job) && (a.held, a.due, a.cap) == (b.held, b.due, b.cap)
}

/// Neighbours that are alike, each by the second one's name.
fn alike(entries: &[(JobEntry, u64)], are: impl Fn(&Job, &Job) -> bool) -> impl Iterator<Item = JobId> {
    entries.windows(2).filter_map(move |pair| match pair {
        [(one, _), (other, _)] if are(&one.job, &other.job) => Some(other.job.id.clone()),
        _ => None,
    })
}

/// Takes a job out of a set, and an empty set out of the map.
fn forget<K: Ord>(map: &mut BTreeMap<K, BTreeSet<JobUid>>, key: &K, uid: &JobUid) {
    if let Some(set) = map.get_mut(key) {
        set.remove(uid);
        if set.is_empty() {
            map.remove(key);
        }
    }
}

/// Those that a job which was never tried waits for.
fn awaited(job: &Job) -> BTreeSet<JobId> {
    if job.status.phase != Phase::Pending || job.status.attempt > 1 {
        return BTreeSet::new();
    }
    let names = job.spec.after.iter().map(|dependency| dependency.job.clone());
    names.map(|name| JobId { tenant: job.id.tenant.clone(), name }).collect()
}

impl State {
    /// Takes in all jobs of a store at once: trees of millions are built from sorted rows, not key by key. The jobs whose name or uid is
    /// another's too are returned; then the state is of no use.
    pub fn load_entries(&mut self, mut entries: Vec<(JobEntry, u64)>) -> BTreeSet<JobId> {
        let id = |entry: &JobEntry| entry.job.id.clone();
        self.index.names = entries.iter().map(|(entry, _)| (id(entry), entry.job.uid)).collect();
        let mut versions: BTreeMap<Key, u64> =
            entries.iter().map(|(entry, version)| (Key::Job(id(entry)), *version)).collect();
        self.versions.append(&mut versions);
        for (entry, _) in &entries {
            self.swap_due(&Due::Job(entry.job.uid), None, entry.due);
            self.index_but_name(entry);
            if let Some(queued) = self.queue_entry(entry) {
                self.index.queue_state.set_job(entry.job.uid, Some(queued));
            }
        }
        let mut twice = BTreeSet::new();
        if self.index.names.len() < entries.len() {
            entries.sort_by(|(a, _), (b, _)| a.job.id.cmp(&b.job.id));
            twice.extend(alike(&entries, |a, b| a.id == b.id));
        }
        entries.sort_by_key(|(entry, _)| entry.job.uid);
        twice.extend(alike(&entries, |a, b| a.uid == b.uid));
        self.base.jobs = entries.into_iter().map(|(entry, _)| (entry.job.uid, entry)).collect();
        twice
    }

    /// A job as the queue's policy sees it; `None` once it has ended.
    pub fn queue_entry(&self, entry: &JobEntry) -> Option<Arc<Entry>> {
        let job = &entry.job;
        if job.status.phase.is_terminal() {
            return None;
        }
        let mut wanted = Entry::of(job, &self.index.snapshot);
        if job.status.phase == Phase::Pending {
            wanted.not_before = entry.due.or(wanted.not_before);
            wanted.cap = entry.cap;
            if entry.held {
                wanted.hold.clone_from(&job.status.reasons);
                let id = |name: &JobName| JobId { tenant: job.id.tenant.clone(), name: name.clone() };
                // When people let go nobody knows.
                wanted.open_ended = !job.status.holds.is_empty();
                // What it was to wait for may have come to pass, and something else still holds it.
                let waits = wanted.hold.iter().any(|cause| cause.code == ReasonCode::Dependency);
                let after = job.spec.after.iter().filter(|_| waits && !wanted.open_ended);
                wanted.after =
                    after.filter_map(|other| self.index.names.get(&id(&other.job)).copied()).collect();
            }
        }
        if let (controller_queue::State::Running(run), Some(attempt)) = (&mut wanted.state, &entry.attempt) {
            run.started = attempt.since;
            run.ending = attempt.ending.as_ref().map(|ending| ending.since.plus(ending.grace + END_TAKES));
        }
        Some(Arc::new(wanted))
    }

    fn index(&mut self, entry: &JobEntry) {
        self.index.names.insert(entry.job.id.clone(), entry.job.uid);
        self.index_but_name(entry);
    }

    fn index_but_name(&mut self, entry: &JobEntry) {
        let job = &entry.job;
        let status = &job.status;
        let jobs = self.index.tenants.entry(job.id.tenant.clone()).or_default();
        jobs.all += 1;
        jobs.bytes += job.footprint();
        jobs.active += u32::from(!status.phase.is_terminal());
        self.index.phases[status.phase as usize] += 1;
        count_figures(&mut self.index.figures, job, true);
        count_class(&mut self.index.classes, job, true);
        count_run(&mut self.index.runs, job, true);
        if status.phase == proto_model::Phase::Pending {
            let latest = job.spec.latest_start();
            self.index.due.extend(latest.map(|time| (time, Due::LatestStart(job.uid))));
            self.index.waiting += 1;
            if !entry.held {
                self.index.queue.insert(entry.key());
            }
        }
        if let Some(ended) = self.ended(job) {
            self.index.ended.insert((ended, job.uid));
        }
        if !status.phase.is_terminal() && job.spec.placement.names_nodes() {
            self.index.excluding.insert(job.uid);
        }
        for id in awaited(job) {
            self.index.dependents.entry(id).or_default().insert(job.uid);
        }
        if let Some((array, at)) = array_of(job) {
            self.index.arrays.entry(array).or_default().change(at, entry, true);
        }
        if let Some(placement) = status.placement.as_ref().filter(|_| status.phase.holds()) {
            self.index.holding.insert(job.uid);
            self.index.snapshot.hold(&job.id.tenant, placement);
            for (at, place) in placement.nodes.iter().enumerate() {
                let at = u32::try_from(at).unwrap_or(u32::MAX);
                self.index.holds.entry(place.node.clone()).or_default().insert(job.uid, at);
            }
            for place in &placement.spares {
                self.index.spares.entry(place.node.clone()).or_default().insert(job.uid);
            }
        }
    }

    /// When a job has ended that is not kept for ever.
    fn ended(&self, job: &Job) -> Option<Timestamp> {
        let ends = self.config.ended_retention.is_some() && job.status.phase.is_terminal();
        ends.then_some(job.status.ended).flatten()
    }

    fn unindex(&mut self, entry: &JobEntry) {
        let job = &entry.job;
        let status = &job.status;
        self.index.names.remove(&job.id);
        self.index.phases[status.phase as usize] -= 1;
        count_figures(&mut self.index.figures, job, false);
        count_class(&mut self.index.classes, job, false);
        count_run(&mut self.index.runs, job, false);
        if let Some(jobs) = self.index.tenants.get_mut(&job.id.tenant) {
            jobs.all -= 1;
            jobs.bytes -= job.footprint();
            jobs.active -= u32::from(!status.phase.is_terminal());
            if jobs.all == 0 {
                self.index.tenants.remove(&job.id.tenant);
            }
        }
        if status.phase == proto_model::Phase::Pending {
            if let Some(time) = job.spec.latest_start() {
                self.index.due.remove(&(time, Due::LatestStart(job.uid)));
            }
            self.index.waiting -= 1;
            self.index.queue.remove(&entry.key());
        }
        if let Some(ended) = self.ended(job) {
            self.index.ended.remove(&(ended, job.uid));
        }
        self.index.excluding.remove(&job.uid);
        for id in awaited(job) {
            forget(&mut self.index.dependents, &id, &job.uid);
        }
        if let Some((array, at)) = array_of(job)
            && let Some(elements) = self.index.arrays.get_mut(&array)
        {
            elements.change(at, entry, false);
            if elements.by_index.is_empty() {
                self.index.arrays.remove(&array);
            }
        }
        if let Some(placement) = status.placement.as_ref().filter(|_| status.phase.holds()) {
            self.index.holding.remove(&job.uid);
            self.index.snapshot.release(&job.id.tenant, placement);
            for place in &placement.nodes {
                if let Some(jobs) = self.index.holds.get_mut(&place.node) {
                    jobs.remove(&job.uid);
                    if jobs.is_empty() {
                        self.index.holds.remove(&place.node);
                    }
                }
            }
            for place in &placement.spares {
                forget(&mut self.index.spares, &place.node, &job.uid);
            }
        }
    }

    pub(crate) fn swap_job(&mut self, uid: JobUid, new: Option<JobEntry>) -> Option<JobEntry> {
        let old = self.base.jobs.remove(&uid);
        let due = |entry: &Option<JobEntry>| entry.as_ref().and_then(|entry| entry.due);
        self.swap_due(&Due::Job(uid), due(&old), due(&new));
        let same = |a: &JobEntry, b: &JobEntry| {
            let (one, other) = (&a.job.status, &b.job.status);
            let alike = one.phase == other.phase
                && one.attempt == other.attempt
                && one.started.is_some() == other.started.is_some()
                && one.holds.is_empty() == other.holds.is_empty()
                && Arc::ptr_eq(&a.job.spec, &b.job.spec)
                && a.job.labels == b.job.labels;
            a.held == b.held && (Arc::ptr_eq(&a.job, &b.job) || alike)
        };
        if !matches!((&old, &new), (Some(old), Some(new)) if same(old, new)) {
            if let Some(old) = &old {
                self.unindex(old);
            }
            if let Some(new) = &new {
                self.index(new);
            }
        }
        if !matches!((&old, &new), (Some(old), Some(new)) if is_same_to_queue(old, new)) {
            let entry = new.as_ref().and_then(|new| self.queue_entry(new));
            if entry.is_some() || old.is_some() {
                self.index.queue_state.set_job(uid, entry);
            }
        }
        if let Some(new) = new {
            self.base.jobs.insert(uid, new);
        }
        old
    }
}
