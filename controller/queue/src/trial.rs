//! A bare replay: jobs of known length go through a [`QueueState`] in virtual time, every start and every pass is proved. For
//! tests and figures of the queue; the simulator does more.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_scheduler::{Host, Placer, Snapshot};
use controller_topology::RailSet;
use proto_model::{Eta, JobUid, Placement, Timestamp};

use crate::{
    check::{check, check_rights},
    defs::{Act, Budget},
    delays::{Delays, Watch, delays},
    entry::{Entry, State},
    ledger::Past,
    tables::QueueState,
};

/// Passes at one time at most: each but the first because the one before has stopped somebody without grace.
const PASSES: usize = 32;

/// A job with what it will really take.
#[derive(Debug, Clone)]
pub struct TrialJob {
    /// As it is submitted.
    pub entry: Entry,
    /// How long it runs if nobody stops it.
    pub length: Duration,
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// When each of its attempts started.
    pub starts: Vec<Timestamp>,
    /// The nodes of the last start.
    pub nodes: usize,
    /// When it ended; `None` if it did not.
    pub end: Option<Timestamp>,
    /// When it was first planned to start, at its submit.
    pub planned: Option<Timestamp>,
    /// The same with its band.
    pub reported: Option<Eta>,
}

/// A replay under way.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The queue state that is replayed.
    pub queue_state: QueueState,
    /// The cluster, with what jobs hold at the moment.
    pub snapshot: Snapshot,
    /// What became of every job.
    pub rows: BTreeMap<JobUid, Row>,
    /// What the proofs found; empty if all is well.
    pub faults: Vec<String>,
    /// Asks for a plan of all jobs at every submit.
    pub forecasts: bool,
    /// Looks at every start for whom it delays: of jobs that take nodes of one pool whole.
    pub watched: Option<Watch>,
    /// The delays that `watched` found.
    pub delays: Delays,
    /// Ends when this job has started.
    until: Option<JobUid>,
    placer: Placer,
    lengths: BTreeMap<JobUid, Duration>,
    ends: BTreeSet<(Timestamp, JobUid)>,
    /// Jobs that are being stopped, and that wait again then.
    stops: BTreeSet<(Timestamp, JobUid)>,
}

impl Trial {
    /// A cluster with a queue.
    #[must_use]
    pub fn new(queue_state: QueueState, snapshot: Snapshot) -> Self {
        Self {
            queue_state,
            snapshot,
            rows: BTreeMap::new(),
            faults: Vec::new(),
            forecasts: false,
            watched: None,
            delays: Delays::default(),
            until: None,
            placer: Placer::default(),
            lengths: BTreeMap::new(),
            ends: BTreeSet::new(),
            stops: BTreeSet::new(),
        }
    }

    /// Replays jobs, which must be in the order of their submits, to the last end, or to the time at which nothing
    /// happens any more.
    pub fn run(&mut self, jobs: &[TrialJob]) {
        self.run_until(jobs, Timestamp(u64::MAX));
    }

    /// The same up to a time.
    pub fn run_until(&mut self, jobs: &[TrialJob], until: Timestamp) {
        let mut jobs = jobs.iter().peekable();
        let mut idle = 0;
        loop {
            let submit = jobs.peek().map(|job| job.entry.submitted);
            let own =
                [self.ends.first(), self.stops.first()].into_iter().flatten().map(|(time, _)| *time).min();
            let Some(now) = [submit, own, self.queue_state.next_check()].into_iter().flatten().min() else {
                return;
            };
            if now > until {
                return;
            }
            // Only looks: they end when nothing comes of them.
            idle = if submit == Some(now) || own == Some(now) { 0 } else { idle + 1 };
            if idle > 10_000 {
                return;
            }
            self.end_jobs(now);
            let mut new = Vec::new();
            while let Some(job) = jobs.next_if(|job| job.entry.submitted <= now) {
                self.lengths.insert(job.entry.uid, job.length);
                self.rows.entry(job.entry.uid).or_default();
                self.queue_state.set_job(job.entry.uid, Some(Arc::new(job.entry.clone())));
                new.push(job.entry.uid);
            }
            self.pass(now);
            if self.until.and_then(|uid| self.rows.get(&uid)).is_some_and(|row| !row.starts.is_empty()) {
                return;
            }
            if self.forecasts && !new.is_empty() {
                self.queue_state.forecast(&mut self.snapshot, &mut self.placer, now);
                for uid in new {
                    self.queue_state.reported(uid);
                    let eta = self.queue_state.eta(uid);
                    if let Some(row) = self.rows.get_mut(&uid) {
                        row.planned = eta.map(|eta| eta.start).or(row.starts.first().copied());
                        row.reported = eta;
                    }
                }
            }
        }
    }

    /// When a job would start if those that are here took so long from now on, and these came.
    #[must_use]
    pub fn would_start(
        &self,
        uid: JobUid,
        now: Timestamp,
        coming: &[TrialJob],
        length: &dyn Fn(&Entry) -> Duration,
    ) -> Option<Timestamp> {
        let mut trial = Self { forecasts: false, until: Some(uid), ends: BTreeSet::new(), ..self.clone() };
        trial.rows.remove(&uid);
        for entry in self.queue_state.jobs() {
            let length = length(entry);
            trial.lengths.insert(entry.uid, length);
            if let Some(run) = entry.run().filter(|run| run.ending.is_none()) {
                trial
                    .ends
                    .insert((run.started.plus(length).max(now.plus(Duration::from_millis(1))), entry.uid));
            }
        }
        trial.run(coming);
        trial.rows.get(&uid)?.starts.first().copied()
    }

    fn end_jobs(&mut self, now: Timestamp) {
        while let Some((time, uid)) = self.ends.first().copied().filter(|(time, _)| *time <= now) {
            self.ends.pop_first();
            self.give_back(uid, time, true);
            self.queue_state.set_job(uid, None);
            if let Some(row) = self.rows.get_mut(&uid) {
                row.end = Some(time);
            }
        }
        while let Some((time, uid)) = self.stops.first().copied().filter(|(time, _)| *time <= now) {
            self.stops.pop_first();
            if let Some(entry) = self.give_back(uid, time, false) {
                let waiting = Entry { preempted: entry.preempted + 1, ..entry.waiting() };
                self.queue_state.set_job(uid, Some(Arc::new(waiting)));
            }
        }
    }

    fn give_back(&mut self, uid: JobUid, time: Timestamp, whole: bool) -> Option<Arc<Entry>> {
        let entry = Arc::clone(self.queue_state.job(uid)?);
        if let Some(past) = Past::of(&entry, time, whole) {
            self.queue_state.remember(&past);
        }
        if let Some(run) = entry.run() {
            self.snapshot.release(&entry.id.tenant, &run.placement);
        }
        Some(entry)
    }

    fn pass(&mut self, now: Timestamp) {
        let mut stopped = Vec::new();
        for _ in 0..PASSES {
            let acts = self.queue_state.pass(&mut self.snapshot, &mut self.placer, now, Budget::ALL);
            if let Err(breaches) = check(&self.queue_state, &acts, now) {
                self.faults.extend(breaches.iter().map(|breach| format!("{now}: {breach}")));
            }
            if let Err(breaches) = check_rights(&self.queue_state, &acts) {
                self.faults.extend(breaches.iter().map(|breach| format!("{now}: {breach}")));
            }
            if let Some(watch) = self.watched {
                delays(&self.queue_state, &acts, now, watch, &mut self.delays);
            }
            let mut again = false;
            stopped.clear();
            for act in acts {
                if let Act::Preempt { victim, by, reasons, .. } | Act::Shrink { victim, by, reasons, .. } =
                    &act
                {
                    let code = reasons.first().map_or("", |reason| reason.code.as_str());
                    stopped.push(format!("{victim} for {by} ({code})"));
                }
                match act {
                    Act::Start { uid, placement } => self.start(uid, placement, now),
                    Act::Preempt { victim: uid, grace, .. } | Act::Grow { uid, grace, .. } => {
                        again |= grace.is_zero();
                        self.stop(uid, grace, None, now);
                    }
                    Act::Shrink { victim, nodes, grace, .. } => {
                        again |= grace.is_zero();
                        self.stop(victim, grace, Some(nodes), now);
                    }
                }
            }
            if !again {
                return;
            }
            self.end_jobs(now);
        }
        self.faults.push(format!("{now}: jobs are stopped without end, at last {}", stopped.join(", ")));
    }

    fn start(&mut self, uid: JobUid, placement: Placement, now: Timestamp) {
        let Some(entry) = self.queue_state.job(uid).cloned() else { return };
        for (position, place) in placement.nodes.iter().chain(&placement.spares).enumerate() {
            let own = entry.need.component_at(position).map_or(entry.need.host, |component| component.host);
            let held = self.snapshot.held(&place.node);
            let gpus = place.gpus.iter().fold(0, |set, gpu| set | 1_u64 << (gpu % 64));
            let rails: RailSet = place.nics.iter().map(|nic| nic.rail).collect();
            if held.gpus & gpus != 0 || !held.rails.and(rails).is_empty() || held.whole {
                self.faults.push(format!("{now}: job {uid} starts on {}, which is held", place.node));
            }
            let asked = Host { cpus: place.cpus, memory: place.memory_bytes };
            let free =
                self.snapshot.topology().index(&place.node).map(|at| self.snapshot.capacity(at).free_host());
            if !free.is_some_and(|free| free.covers(asked)) || asked != own {
                self.faults.push(format!(
                    "{now}: job {uid} starts on {}, which has not its CPUs or memory",
                    place.node
                ));
            }
            let (topology, tenant) = (self.snapshot.topology(), entry.need.tenant.as_ref());
            let closed =
                |at| tenant.is_some_and(|tenant| self.snapshot.capacity_index().is_closed_to(at, tenant));
            if topology.index(&place.node).is_some_and(closed) {
                self.faults.push(format!("{now}: job {uid} starts on {} beside another tenant", place.node));
            }
        }
        self.snapshot.hold(&entry.id.tenant, &placement);
        let nodes = placement.nodes.len();
        let running = Entry { cap: None, ..entry.running(Arc::new(placement), now) };
        self.queue_state.set_job(uid, Some(Arc::new(running)));
        let length = self.lengths.get(&uid).copied().unwrap_or_default();
        self.ends.insert((now.plus(length), uid));
        let row = self.rows.entry(uid).or_default();
        row.starts.push(now);
        row.nodes = nodes;
    }

    fn stop(&mut self, uid: JobUid, grace: Duration, cap: Option<u32>, now: Timestamp) {
        let Some(entry) = self.queue_state.job(uid).cloned() else { return };
        let State::Running(run) = &entry.state else { return };
        let end = now.plus(grace);
        self.ends.retain(|(time, other)| *other != uid || *time <= end);
        if !self.ends.iter().any(|(_, other)| *other == uid) {
            self.stops.insert((end, uid));
        }
        let run = crate::entry::Run { ending: Some(end), ..run.clone() };
        let stopped = Entry { state: State::Running(run), cap, ..entry.as_ref().clone() };
        self.queue_state.set_job(uid, Some(Arc::new(stopped)));
    }
}
