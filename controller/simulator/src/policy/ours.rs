//! The production scheduler in virtual time: the controller's own queue over the controller's own placement.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use controller_queue::{Budget, Entry, Past, QueueState, State, TenantDef, check};
use controller_scheduler::{Placer, Snapshot};
use controller_topology::NodeIx;
use proto_model::{Eta, JobUid, Placement, Shape, TenantName, Timestamp};

use super::scheduler::{Act, Rules, Scheduler};
use crate::{
    log::Recorder,
    proof::Claim,
    site::Site,
    trace::Shares,
    workload::{SimJob, Workload},
};

/// The production scheduler in virtual time: `controller-queue` over `controller-scheduler`.
pub struct Ours<'a> {
    queue_state: QueueState,
    placer: Placer,
    by_uid: BTreeMap<JobUid, usize>,
    budget: Budget,
    /// GPUs that nobody holds.
    free: u64,
    /// Nobody can ever be stopped or made smaller for another: where nothing is free there is nothing to decide.
    is_plain: bool,
    /// What the queue's own independent proof found.
    breaches: Vec<String>,
    /// With the servers, for their names.
    log: Option<(Recorder<'a>, Snapshot)>,
    predicted: Option<Predicted>,
}

/// The starts that waiting jobs were promised when they came.
struct Predicted {
    /// One job of so many is noted.
    every: usize,
    /// Those that came and were not noted yet.
    new: Vec<(usize, JobUid)>,
    reported: Vec<Promise>,
}

/// The start that a waiting job was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// Index of the job in the workload.
    pub job: usize,
    /// When it was promised.
    pub at: Timestamp,
    /// Its start, with the band.
    pub eta: Eta,
}

impl<'a> Ours<'a> {
    /// With its tenants, and nothing queued.
    #[must_use]
    pub fn new(site: &Site, workload: &Workload, rules: &Rules) -> Self {
        let mut queue_state = QueueState::new(rules.queueing());
        for (tenant, def) in tenants(site, workload) {
            queue_state.set_tenant(tenant, Some(def));
        }
        for ((tenant, queue), def) in &workload.shares.queues {
            queue_state.set_queue(tenant, queue, Some(def.clone()));
        }
        Self {
            queue_state,
            placer: Placer::default(),
            by_uid: workload.jobs.iter().enumerate().map(|(at, job)| (job.uid, at)).collect(),
            // A step that starts fewer than may start goes on with its next one at once.
            budget: Budget { jobs: rules.depth, starts: usize::MAX },
            free: site.gpus(),
            is_plain: is_plain(workload),
            breaches: Vec::new(),
            log: None,
            predicted: None,
        }
    }

    /// One job of so many that wait after the moment at which they came is noted with the start that it is promised; see
    /// [`Self::reported`].
    pub fn predict(&mut self, every: usize) {
        self.predicted = Some(Predicted { every: every.max(1), new: Vec::new(), reported: Vec::new() });
    }

    /// What jobs were promised, in the order in which they came.
    #[must_use]
    pub fn reported(&self) -> &[Promise] {
        self.predicted.as_ref().map_or(&[], |predicted| &predicted.reported)
    }

    /// Tells those that came and still wait; what is to be done now is thought done.
    fn report(&mut self, snapshot: &mut Snapshot, acts: &[Act], jobs: &[SimJob], now: Timestamp) {
        let Some(predicted) = &mut self.predicted else { return };
        let new = std::mem::take(&mut predicted.new);
        let waits = |uid: &JobUid| self.queue_state.job(*uid).is_some_and(|entry| entry.run().is_none());
        let new: Vec<(usize, JobUid)> = new.into_iter().filter(|(_, uid)| waits(uid)).collect();
        if new.is_empty() {
            return;
        }
        let starts = || {
            acts.iter().filter_map(|act| match act {
                Act::Start { job, placement } => Some((&jobs[*job].id.tenant, placement)),
                Act::Preempt { .. } => None,
            })
        };
        starts().for_each(|(tenant, placement)| snapshot.hold(tenant, placement));
        self.queue_state.forecast(snapshot, &mut self.placer, now);
        starts().for_each(|(tenant, placement)| snapshot.release(tenant, placement));
        for (job, uid) in new {
            self.queue_state.reported(uid);
            let Some(eta) = self.queue_state.eta(uid) else { continue };
            if let Some(predicted) = &mut self.predicted {
                predicted.reported.push(Promise { job, at: now, eta });
            }
        }
    }

    /// The same; what it is given and what it decides goes to a log.
    #[must_use]
    pub fn logged(site: &Site, workload: &Workload, rules: &Rules, mut log: Recorder<'a>) -> Self {
        let mut ours = Self::new(site, workload, rules);
        for (tenant, def) in tenants(site, workload) {
            log.tenant(Timestamp(0), tenant, Some(&def));
        }
        for ((tenant, queue), def) in &workload.shares.queues {
            log.queue(Timestamp(0), tenant, queue, Some(def));
        }
        ours.log = Some((log, site.snapshot.clone()));
        ours
    }

    /// A running job is stopped and waits again, to go on with so many servers at most.
    fn stop(&mut self, uid: JobUid, grace: Duration, cap: Option<u32>, now: Timestamp, acts: &mut Vec<Act>) {
        let Some(job) = self.by_uid.get(&uid).copied() else { return };
        self.running(uid, |entry| {
            entry.cap = cap;
            if let State::Running(run) = &mut entry.state {
                run.ending = Some(now.plus(grace));
            }
        });
        acts.push(Act::Preempt { job, grace });
    }

    fn running(&mut self, uid: JobUid, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.queue_state.job(uid) {
            let mut entry = Entry::clone(entry);
            change(&mut entry);
            self.queue_state.set_job(uid, Some(Arc::new(entry)));
        }
    }
}

/// Whether no job can be stopped for another, or change its size.
fn is_plain(workload: &Workload) -> bool {
    let plain = |job: &SimJob| {
        let spec = &job.spec;
        spec.priority == 0 && !spec.preemption.preemptible && !spec.gang.is_elastic()
    };
    let Shares { tenants, queues } = &workload.shares;
    let own = tenants.values().map(|def| def.guaranteed).chain(queues.values().map(|def| def.guaranteed));
    workload.jobs.iter().all(plain) && own.into_iter().all(Shape::is_empty)
}

/// What the trace says of tenants; of those of which it says nothing each may hold the whole cluster.
fn tenants<'j>(site: &Site, workload: &'j Workload) -> BTreeMap<&'j TenantName, TenantDef> {
    let limit = Some(u32::try_from(site.gpus()).unwrap_or(u32::MAX));
    let usual = TenantDef { limit, ..TenantDef::default() };
    let known = &workload.shares.tenants;
    let all = workload.tenants.iter().chain(known.keys());
    all.map(|tenant| (tenant, known.get(tenant).unwrap_or(&usual).clone())).collect()
}

/// A job as the queue takes it.
#[must_use]
pub fn entry(job: &SimJob, now: Timestamp) -> Entry {
    let plain = Entry::plain(job.uid, job.id.clone(), job.desired.clone(), now);
    Entry {
        ranks_per_node: job.spec.gang.ranks_per_node,
        min_nodes: job.spec.gang.min_nodes.clamp(1, job.spec.gang.nodes.max(1)),
        queue: job.spec.queue.clone(),
        priority: job.spec.priority,
        expected: job.spec.expected,
        limit: job.spec.time_limit,
        preemption: job.spec.preemption,
        grace: job.spec.preemption.grace.unwrap_or(job.spec.grace_period),
        ..plain
    }
}

fn gpus(placement: &Placement) -> u64 {
    placement.nodes.iter().map(|place| place.gpus.len() as u64).sum()
}

impl Scheduler for Ours<'_> {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn submit(&mut self, job: usize, jobs: &[SimJob], now: Timestamp) {
        let of = &jobs[job];
        // Who was stopped keeps its age.
        let entry = match self.queue_state.job(of.uid) {
            Some(entry) => Entry { preempted: entry.preempted + 1, ..entry.waiting() },
            None => entry(of, of.submit),
        };
        if let Some((log, snapshot)) = &mut self.log {
            log.job(now, &entry, snapshot);
        }
        if let Some(predicted) =
            self.predicted.as_mut().filter(|predicted| job.is_multiple_of(predicted.every))
            && entry.preempted == 0
        {
            predicted.new.push((job, of.uid));
        }
        self.queue_state.set_job(of.uid, Some(Arc::new(entry)));
    }

    fn end(&mut self, job: usize, jobs: &[SimJob], now: Timestamp, whole: bool) {
        let uid = jobs[job].uid;
        if let Some((log, _)) = &mut self.log {
            log.end(now, uid, whole);
        }
        let entry = self.queue_state.job(uid);
        self.free += entry.and_then(|entry| entry.run()).map_or(0, |run| gpus(&run.placement));
        let past = entry.and_then(|entry| Past::of(entry, now, whole));
        if let Some(past) = past {
            self.queue_state.remember(&past);
        }
        if whole {
            self.queue_state.set_job(uid, None);
        }
    }

    fn node(&mut self, node: NodeIx, open: bool, now: Timestamp) {
        if let Some((log, snapshot)) = &mut self.log
            && let Some(server) = snapshot.topology().server(node)
        {
            log.node(now, server.name.as_str(), open);
        }
        self.queue_state.nodes_changed();
    }

    fn breaches(&mut self) -> Vec<String> {
        std::mem::take(&mut self.breaches)
    }

    fn claim<'j>(&self, job: &'j SimJob) -> Claim<'j> {
        let need = std::borrow::Cow::Borrowed(&job.desired);
        let claim = Claim { need, ..Claim::from(job) };
        // Of an elastic job any number of servers is right that the queue allows, which the queue's own proof looks at.
        if job.spec.gang.is_elastic() { Claim { spec: None, ..claim } } else { claim }
    }

    fn next_check(&self) -> Option<Timestamp> {
        self.queue_state.next_check()
    }

    fn over(&mut self, now: Timestamp) {
        if let Some((log, _)) = &mut self.log {
            log.close(now);
        }
    }

    fn pass(&mut self, snapshot: &mut Snapshot, jobs: &[SimJob], now: Timestamp) -> Vec<Act> {
        let acts = self.decide(snapshot, now);
        self.report(snapshot, &acts, jobs, now);
        acts
    }
}

impl Ours<'_> {
    fn decide(&mut self, snapshot: &mut Snapshot, now: Timestamp) -> Vec<Act> {
        // Every job of a trace takes GPUs.
        if self.free == 0 && self.is_plain {
            return Vec::new();
        }
        let decided = self.queue_state.pass(snapshot, &mut self.placer, now, self.budget);
        if let Some((log, _)) = &mut self.log {
            log.pass(now, self.budget.jobs, &decided);
        }
        if !decided.is_empty()
            && let Err(breaches) = check::check(&self.queue_state, &decided, now)
        {
            self.breaches.extend(breaches.iter().map(ToString::to_string));
        }
        let mut acts = Vec::new();
        for act in decided {
            match act {
                controller_queue::Act::Start { uid, placement } => {
                    let Some(job) = self.by_uid.get(&uid).copied() else { continue };
                    let held = Arc::new(placement.clone());
                    self.free = self.free.saturating_sub(gpus(&placement));
                    self.running(uid, |entry| *entry = Entry { cap: None, ..entry.running(held, now) });
                    acts.push(Act::Start { job, placement: Box::new(placement) });
                }
                controller_queue::Act::Preempt { victim: uid, grace, .. }
                | controller_queue::Act::Grow { uid, grace, .. } => {
                    self.stop(uid, grace, None, now, &mut acts)
                }
                controller_queue::Act::Shrink { victim, nodes, grace, .. } => {
                    self.stop(victim, grace, Some(nodes), now, &mut acts);
                }
            }
        }
        acts
    }
}
