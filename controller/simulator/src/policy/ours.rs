//! The production scheduler in virtual time: the controller's own queue over the controller's own placement.

use std::{collections::BTreeMap, sync::Arc};

use controller_queue::{Book, Budget, Entry, Past, State, TenantDef, check};
use controller_scheduler::{Placer, Snapshot};
use controller_topology::NodeIx;
use proto_model::{JobUid, TenantName, Timestamp};

use super::{Act, Rules, Scheduler};
use crate::{log::Recorder, proof::Claim, site::Site, workload::SimJob};

/// Jobs that one pass looks at.
pub const DEPTH: usize = 256;

/// `controller-queue` over `controller-scheduler`.
pub struct Ours<'a> {
    book: Book,
    placer: Placer,
    by_uid: BTreeMap<JobUid, usize>,
    budget: Budget,
    /// GPUs that nobody holds.
    free: u64,
    /// What the queue's own independent proof found.
    breaches: Vec<String>,
    /// With the servers, for their names.
    log: Option<(Recorder<'a>, Snapshot)>,
}

impl<'a> Ours<'a> {
    /// With its tenants, and nothing queued.
    #[must_use]
    pub fn new(site: &Site, jobs: &[SimJob], rules: &Rules) -> Self {
        let mut book = Book::new(policy(rules));
        let limit = Some(u32::try_from(site.gpus()).unwrap_or(u32::MAX));
        let tenants: std::collections::BTreeSet<&TenantName> =
            jobs.iter().map(|job| &job.id.tenant).collect();
        for tenant in tenants {
            book.set_tenant(tenant, Some(TenantDef { limit, ..TenantDef::default() }));
        }
        let by_uid = jobs.iter().enumerate().map(|(at, job)| (job.uid, at)).collect();
        let budget = Budget { jobs: DEPTH, starts: usize::MAX };
        let placer = Placer::default();
        Self { book, placer, by_uid, budget, free: site.gpus(), breaches: Vec::new(), log: None }
    }

    /// The same; what it is told and what it decides goes to a log.
    #[must_use]
    pub fn logged(site: &Site, jobs: &[SimJob], rules: &Rules, mut log: Recorder<'a>) -> Self {
        let mut ours = Self::new(site, jobs, rules);
        for (tenant, def) in tenants(site, jobs) {
            log.tenant(Timestamp(0), tenant, Some(&def));
        }
        ours.log = Some((log, site.snapshot.clone()));
        ours
    }

    fn running(&mut self, uid: JobUid, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.book.job(uid) {
            let mut entry = Entry::clone(entry);
            change(&mut entry);
            self.book.set_job(uid, Some(Arc::new(entry)));
        }
    }
}

/// The numbers of the policy in simulations. Jobs of traces may not be stopped, have no guarantee and are not elastic:
/// what looks for somebody to stop, or to grow, finds nobody, and is left out.
#[must_use]
pub fn policy(rules: &Rules) -> controller_queue::Policy {
    controller_queue::Policy {
        preemption: false,
        reclaim: false,
        grow_after: None,
        fair_share: false,
        head_start: rules.head_start,
        ..controller_queue::Policy::default()
    }
}

/// Every tenant may hold the whole cluster.
fn tenants<'j>(site: &Site, jobs: &'j [SimJob]) -> BTreeMap<&'j TenantName, TenantDef> {
    let limit = Some(u32::try_from(site.gpus()).unwrap_or(u32::MAX));
    let def = || TenantDef { limit, ..TenantDef::default() };
    jobs.iter().map(|job| (&job.id.tenant, def())).collect()
}

/// A job as the queue takes it.
#[must_use]
pub fn entry(job: &SimJob, now: Timestamp) -> Entry {
    let plain = Entry::plain(job.uid, job.id.clone(), job.wish.clone(), now);
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

impl Scheduler for Ours<'_> {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn submit(&mut self, job: usize, jobs: &[SimJob], now: Timestamp) {
        let of = &jobs[job];
        // Who was stopped keeps its age.
        let entry = match self.book.job(of.uid) {
            Some(entry) => Entry { preempted: entry.preempted + 1, ..entry.waiting() },
            None => entry(of, of.submit),
        };
        if let Some((log, snapshot)) = &mut self.log {
            log.job(now, &entry, snapshot);
        }
        self.book.set_job(of.uid, Some(Arc::new(entry)));
    }

    fn end(&mut self, job: usize, jobs: &[SimJob], now: Timestamp, whole: bool) {
        let uid = jobs[job].uid;
        if let Some((log, _)) = &mut self.log {
            log.end(now, uid, whole);
        }
        self.free += jobs[job].gpus();
        let past = self.book.job(uid).and_then(|entry| Past::of(entry, now, whole));
        if let Some(past) = past {
            self.book.remember(&past);
        }
        if whole {
            self.book.set_job(uid, None);
        }
    }

    fn node(&mut self, node: NodeIx, open: bool, now: Timestamp) {
        if let Some((log, snapshot)) = &mut self.log
            && let Some(server) = snapshot.topology().server(node)
        {
            log.node(now, server.name.as_str(), open);
        }
        self.book.nodes_changed();
    }

    fn breaches(&mut self) -> Vec<String> {
        std::mem::take(&mut self.breaches)
    }

    fn claim<'j>(&self, job: &'j SimJob) -> Claim<'j> {
        Claim { need: std::borrow::Cow::Borrowed(&job.wish), ..Claim::from(job) }
    }

    fn next_look(&self) -> Option<Timestamp> {
        self.book.next_look()
    }

    fn over(&mut self, now: Timestamp) {
        if let Some((log, _)) = &mut self.log {
            log.close(now);
        }
    }

    fn pass(&mut self, snapshot: &mut Snapshot, _: &[SimJob], now: Timestamp) -> Vec<Act> {
        // Every job of a trace takes GPUs, and nobody is stopped for another: there is nothing to decide.
        if self.free == 0 {
            return Vec::new();
        }
        let decided = self.book.pass(snapshot, &mut self.placer, now, self.budget);
        if let Some((log, _)) = &mut self.log {
            log.pass(now, self.budget.jobs, &decided);
        }
        if !decided.is_empty()
            && let Err(breaches) = check::check(&self.book, &decided, now)
        {
            self.breaches.extend(breaches.iter().map(ToString::to_string));
        }
        let mut acts = Vec::new();
        for act in decided {
            match act {
                controller_queue::Act::Start { uid, placement } => {
                    let Some(job) = self.by_uid.get(&uid).copied() else { continue };
                    let held = Arc::new(placement.clone());
                    let gpus = placement.nodes.iter().map(|place| place.gpus.len() as u64).sum();
                    self.free = self.free.saturating_sub(gpus);
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
