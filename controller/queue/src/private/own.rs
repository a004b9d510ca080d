//! One private cluster: the queue's own code in virtual time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_scheduler::Placer;
use proto_model::{JobUid, Placement, Shape, TenantName, Timestamp};

use super::site::{Site, number};
use crate::{
    defs::{Act, Budget, Policy, TenantDef},
    entry::Entry,
    ledger::Past,
    tables::{Private, QueueState},
};

/// Jobs that have ended in the real cluster and not in a private one, per tenant; the oldest are forgotten beyond that,
/// which only gives rights earlier.
const GHOSTS: usize = 20_000;

/// A job of the real cluster as it is now; `None` if it is gone.
pub(super) type Touched = (JobUid, Option<Arc<Entry>>);

/// Whether a job asks for what it asked for.
fn asks_alike(a: &Entry, b: &Entry) -> bool {
    let order = |entry: &Entry| (entry.priority, entry.min_nodes, entry.limit);
    order(a) == order(b) && a.queue == b.queue && a.need == b.need && a.licenses == b.licenses
}

impl Private {
    pub(super) fn new(site: Site, policy: &Policy, tenant: &TenantName, queue_state: &QueueState) -> Self {
        let policy = Policy { reclaim: false, grow_after: None, long_jobs: None, ..policy.clone() };
        let mut own = QueueState::new(policy);
        let def = queue_state.tenants.get(tenant).cloned().unwrap_or_default();
        own.set_tenant(tenant, Some(TenantDef { guaranteed: Shape::default(), ..def }));
        for ((of, name), def) in queue_state.queues.iter().filter(|((of, _), _)| of == tenant) {
            own.set_queue(of, name, Some(def.clone()));
        }
        for (name, def) in &queue_state.classes {
            own.set_class(name, Some(*def));
        }
        for (name, total) in queue_state.licenses.totals() {
            own.set_license(name, Some(total));
        }
        Self {
            snapshot: site.cluster(),
            site,
            placer: Placer::default(),
            queue_state: own,
            took: BTreeMap::new(),
            ends: BTreeSet::new(),
            ghosts: BTreeSet::new(),
        }
    }

    /// Brings it to a time: what ends before it ends at its own time, and what that lets start starts then.
    pub(super) fn advance(
        &mut self,
        now: Timestamp,
        touched: &[Touched],
        attempts: &BTreeMap<JobUid, Duration>,
    ) {
        loop {
            let end = self.ends.first().map(|(time, _)| *time);
            let time = [end, self.queue_state.next_check()].into_iter().flatten().min();
            let Some(time) = time.filter(|time| *time < now) else { break };
            self.end_until(time);
            self.pass(time);
        }
        let ended = self.end_until(now);
        let checked = self.queue_state.next_check().is_some_and(|time| time <= now);
        let mut changed = ended || checked;
        for (uid, entry) in touched {
            changed |= self.touch(*uid, entry.as_ref(), attempts.get(uid).copied(), now);
        }
        changed |= self.end_until(now);
        if changed {
            self.pass(now);
        }
    }

    /// What has changed of a job in the real cluster.
    pub(super) fn touch(
        &mut self,
        uid: JobUid,
        entry: Option<&Arc<Entry>>,
        took: Option<Duration>,
        now: Timestamp,
    ) -> bool {
        let here = self.queue_state.job(uid).cloned();
        match (here, entry) {
            (None, Some(entry)) => {
                let entry = Entry { preempted: 0, ..entry.waiting() };
                self.queue_state.set_job(uid, Some(Arc::new(entry)));
                true
            }
            (Some(here), Some(entry)) if here.run().is_none() => {
                let not_before = if took.is_none() { entry.not_before } else { here.not_before };
                if here.hold == entry.hold && here.not_before == not_before && asks_alike(&here, entry) {
                    return false;
                }
                let entry = Entry { not_before, preempted: here.preempted, cap: here.cap, ..entry.waiting() };
                self.queue_state.set_job(uid, Some(Arc::new(entry)));
                true
            }
            // It has its place here, and asks for something else before it has one there.
            (Some(here), Some(entry)) if entry.run().is_none() && !asks_alike(&here, entry) => {
                self.drop_job(&here);
                let entry = Entry { preempted: 0, ..entry.waiting() };
                self.queue_state.set_job(uid, Some(Arc::new(entry)));
                true
            }
            (Some(here), None) => {
                let Some(took) = took else {
                    // It went without ever running.
                    self.drop_job(&here);
                    return true;
                };
                self.took.insert(uid, took);
                match here.run() {
                    Some(run) => {
                        self.ends.insert((run.started.plus(took).max(now), uid));
                    }
                    None => {
                        self.ghosts.insert(uid);
                        if self.ghosts.len() > GHOSTS
                            && let Some(oldest) = self.ghosts.pop_first()
                            && let Some(oldest) = self.queue_state.job(oldest).cloned()
                        {
                            self.drop_job(&oldest);
                        }
                    }
                }
                false
            }
            _ => false,
        }
    }

    pub(super) fn drop_job(&mut self, entry: &Entry) {
        if let Some(run) = entry.run() {
            self.snapshot.release(&entry.id.tenant, &run.placement);
            self.ends.retain(|(_, uid)| *uid != entry.uid);
        }
        self.queue_state.set_job(entry.uid, None);
        self.took.remove(&entry.uid);
        self.ghosts.remove(&entry.uid);
    }

    /// Ends what ends by a time. True if anything did.
    pub(super) fn end_until(&mut self, time: Timestamp) -> bool {
        let mut any = false;
        while let Some((end, uid)) = self.ends.first().copied().filter(|(end, _)| *end <= time) {
            self.ends.pop_first();
            if let Some(entry) = self.queue_state.job(uid).cloned() {
                if let Some(past) = Past::of(&entry, end, true) {
                    self.queue_state.remember(&past);
                }
                self.drop_job(&entry);
            }
            any = true;
        }
        any
    }

    /// Starts and stops what its own pass says, at once.
    pub(super) fn pass(&mut self, now: Timestamp) {
        // A stop without grace makes room at once; so often at most at one time.
        for _ in 0..16 {
            let acts = self.queue_state.pass(&mut self.snapshot, &mut self.placer, now, Budget::ALL);
            let mut stopped = false;
            for act in acts {
                match act {
                    Act::Start { uid, placement } => self.start(uid, placement, now),
                    Act::Preempt { victim, .. } | Act::Shrink { victim, .. } => {
                        self.stop(victim);
                        stopped = true;
                    }
                    Act::Grow { .. } => {}
                }
            }
            if !stopped {
                return;
            }
        }
    }

    pub(super) fn start(&mut self, uid: JobUid, placement: Placement, now: Timestamp) {
        let Some(entry) = self.queue_state.job(uid).cloned() else { return };
        self.snapshot.hold(&entry.id.tenant, &placement);
        self.queue_state.set_job(uid, Some(Arc::new(entry.running(Arc::new(placement), now))));
        if let Some(took) = self.took.get(&uid) {
            self.ends.insert((now.plus(*took), uid));
            self.ghosts.remove(&uid);
        }
    }

    pub(super) fn stop(&mut self, uid: JobUid) {
        let Some(entry) = self.queue_state.job(uid).cloned() else { return };
        if let Some(run) = entry.run() {
            self.snapshot.release(&entry.id.tenant, &run.placement);
            self.ends.retain(|(_, other)| *other != uid);
            if self.took.contains_key(&uid) {
                self.ghosts.insert(uid);
            }
            let waiting = Entry { preempted: entry.preempted + 1, ..entry.waiting() };
            self.queue_state.set_job(uid, Some(Arc::new(waiting)));
        }
    }

    /// Nodes on which a job runs here.
    pub(super) fn nodes_of(&self, uid: JobUid) -> Vec<usize> {
        let run = self.queue_state.job(uid).and_then(|entry| entry.run().cloned());
        let places = run.map(|run| run.placement);
        places
            .iter()
            .flat_map(|placement| placement.nodes.iter().chain(&placement.spares))
            .filter_map(|place| number(&place.node))
            .collect()
    }
}
