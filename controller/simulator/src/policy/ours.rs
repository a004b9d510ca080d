//! The production scheduler in virtual time: the controller's own queue over the controller's own placement.

use std::{collections::BTreeMap, sync::Arc};

use controller_queue::{Book, Budget, Entry, Past, State, TenantDef};
use controller_scheduler::{Placer, Snapshot};
use controller_topology::NodeIx;
use proto_model::{JobUid, TenantName, Timestamp};

use super::{Act, Scheduler};
use crate::{site::Site, workload::SimJob};

/// Jobs that one pass looks at.
pub const DEPTH: usize = 256;

/// `controller-queue` over `controller-scheduler`.
pub struct Ours {
    book: Book,
    placer: Placer,
    by_uid: BTreeMap<JobUid, usize>,
    budget: Budget,
}

impl Ours {
    /// With its tenants, and nothing queued.
    #[must_use]
    pub fn new(site: &Site, jobs: &[SimJob]) -> Self {
        let mut book = Book::new(controller_queue::Policy::default());
        let limit = Some(u32::try_from(site.gpus()).unwrap_or(u32::MAX));
        let tenants: std::collections::BTreeSet<&TenantName> =
            jobs.iter().map(|job| &job.id.tenant).collect();
        for tenant in tenants {
            book.set_tenant(tenant, Some(TenantDef { limit, ..TenantDef::default() }));
        }
        let by_uid = jobs.iter().enumerate().map(|(at, job)| (job.uid, at)).collect();
        let budget = Budget { jobs: DEPTH, starts: usize::MAX };
        Self { book, placer: Placer::default(), by_uid, budget }
    }

    fn running(&mut self, uid: JobUid, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.book.job(uid) {
            let mut entry = Entry::clone(entry);
            change(&mut entry);
            self.book.set_job(uid, Some(Arc::new(entry)));
        }
    }
}

/// A job as the queue takes it.
#[must_use]
pub fn entry(job: &SimJob, now: Timestamp) -> Entry {
    let plain = Entry::plain(job.uid, job.id.clone(), job.need.clone(), now);
    Entry {
        ranks_per_node: job.spec.gang.ranks_per_node,
        priority: job.spec.priority,
        expected: job.spec.expected,
        limit: job.spec.time_limit,
        preemption: job.spec.preemption,
        grace: job.spec.preemption.grace.unwrap_or(job.spec.grace_period),
        ..plain
    }
}

impl Scheduler for Ours {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn submit(&mut self, job: usize, jobs: &[SimJob], _: Timestamp) {
        let of = &jobs[job];
        // Who was stopped keeps its age.
        let entry = match self.book.job(of.uid) {
            Some(entry) => Entry { preempted: entry.preempted + 1, ..entry.waiting() },
            None => entry(of, of.submit),
        };
        self.book.set_job(of.uid, Some(Arc::new(entry)));
    }

    fn end(&mut self, job: usize, jobs: &[SimJob], now: Timestamp, whole: bool) {
        let uid = jobs[job].uid;
        let past = self.book.job(uid).and_then(|entry| Past::of(entry, now, whole));
        if let Some(past) = past {
            self.book.remember(&past);
        }
        if whole {
            self.book.set_job(uid, None);
        }
    }

    fn node(&mut self, _: NodeIx, _: bool, _: Timestamp) {
        self.book.nodes_changed();
    }

    fn next_look(&self) -> Option<Timestamp> {
        self.book.next_look()
    }

    fn pass(&mut self, snapshot: &mut Snapshot, _: &[SimJob], now: Timestamp) -> Vec<Act> {
        let mut acts = Vec::new();
        for act in self.book.pass(snapshot, &mut self.placer, now, self.budget) {
            match act {
                controller_queue::Act::Start { uid, placement } => {
                    let Some(job) = self.by_uid.get(&uid).copied() else { continue };
                    let held = Arc::new(placement.clone());
                    self.running(uid, |entry| *entry = entry.running(held, now));
                    acts.push(Act::Start { job, placement: Box::new(placement) });
                }
                controller_queue::Act::Preempt { victim, grace, .. } => {
                    let Some(job) = self.by_uid.get(&victim).copied() else { continue };
                    self.running(victim, |entry| {
                        if let State::Running(run) = &mut entry.state {
                            run.ending = Some(now.plus(grace));
                        }
                    });
                    acts.push(Act::Preempt { job, grace });
                }
                // Jobs of traces are not elastic.
                controller_queue::Act::Shrink { .. } | controller_queue::Act::Grow { .. } => {}
            }
        }
        acts
    }
}
