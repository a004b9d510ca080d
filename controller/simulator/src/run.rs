//! The event loop: submits, ends and stops in virtual time, a pass after each moment, every placement proved.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

use controller_scheduler::Snapshot;
use proto_model::{Placement, Timestamp};

use crate::{
    policy::{Act, Scheduler},
    proof::flaws,
    series::{Gauge, Series},
    site::{Site, fewest_pods},
    workload::{SimJob, Workload},
};

/// Violations that are shown in full; the rest is only counted.
pub const REPORTED: usize = 20;

/// How a job fared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// When it started, for the last time; `None`: never.
    pub start: Option<Timestamp>,
    /// When it ended; `None`: it never did.
    pub end: Option<Timestamp>,
    /// How long it was queued, in all.
    pub wait: Duration,
    /// Servers that it ran on.
    pub nodes: u32,
    /// Rails that it held.
    pub rails: u32,
    /// Pods that these servers are in.
    pub pods: u32,
    /// Weighted cut of its ring, see [`crate::cut`].
    pub cut: u64,
    /// How often it was stopped and queued again.
    pub restarts: u32,
    /// The fewest pods that it would have needed on the empty cluster.
    pub fewest: u32,
    /// The fewest pods that it would have needed as the cluster was when it started.
    pub fewest_then: u32,
}

/// What one scheduler did with a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Name of the scheduler.
    pub policy: &'static str,
    /// A row for each job, in the order of the workload.
    pub rows: Vec<Row>,
    /// What was in use over the time of the submits.
    pub series: Series,
    /// Placements that were proved.
    pub proved: u64,
    /// Violations that the proof found.
    pub violations: u64,
    /// The first of these violations, in words.
    pub reported: Vec<String>,
    /// Passes over the queue.
    pub passes: u64,
    /// When the last job ended.
    pub end: Timestamp,
}

/// What is seen of a run while it runs.
pub trait Watch {
    /// Called with the number of jobs that have ended so far.
    fn ended(&mut self, jobs: usize);
}

/// Nobody watches: progress is not shown.
impl Watch for () {
    fn ended(&mut self, _: usize) {}
}

/// Events in the order in which they are handled at one moment: what frees before what asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The job of this number of restarts has run to its end.
    Ended(usize, u32),
    /// The grace period of a job that is stopped has passed.
    Stopped(usize, u32),
}

struct Running {
    placement: Box<Placement>,
    /// Servers by index with the GPUs taken there.
    taken: Vec<(usize, u32)>,
    /// Number of servers that it runs on.
    nodes: u32,
    since: Timestamp,
    stopping: bool,
}

struct Loop<'a> {
    jobs: &'a [SimJob],
    snapshot: Snapshot,
    rows: Vec<Row>,
    queued: Vec<Timestamp>,
    /// What is left of each on as many servers as it wants: on fewer it takes longer, by as much as they are fewer.
    left: Vec<Duration>,
    running: BTreeMap<usize, Running>,
    events: BinaryHeap<Reverse<(Timestamp, Event)>>,
    /// The pod of each server that is on all rails.
    pods: Vec<Option<usize>>,
    /// Free GPUs by server, idle servers on all rails by pod, and all GPUs of idle servers.
    free: Vec<u32>,
    /// GPUs that each server has in all.
    whole: Vec<u32>,
    idle: Vec<u32>,
    gauge: Gauge,
    series: Series,
    empty: Vec<u32>,
    ended: usize,
    proved: u64,
    violations: u64,
    reported: Vec<String>,
}

/// Runs a workload through a scheduler.
pub fn run(
    site: &Site,
    workload: &Workload,
    scheduler: &mut dyn Scheduler,
    watch: &mut dyn Watch,
) -> Outcome {
    let jobs = &workload.jobs[..];
    let mut this = Loop::new(site, workload);
    let (mut next, mut passes, mut now) = (0, 0, Timestamp(0));
    loop {
        let submit = jobs.get(next).map(|job| job.submit);
        let event = this.events.peek().map(|Reverse((at, _))| *at);
        let Some(due) = [submit, event].into_iter().flatten().min() else { break };
        // Time alone may change a decision, but not after all is over.
        let at = scheduler.next_check().filter(|check| *check > now).map_or(due, |check| check.min(due));
        this.series.until(at, &this.gauge);
        now = at;
        while let Some(Reverse((_, event))) =
            this.events.peek().filter(|Reverse((time, _))| *time == at).copied()
        {
            this.events.pop();
            this.event(event, now, scheduler);
        }
        while jobs.get(next).is_some_and(|job| job.submit == at) {
            this.submit(next, now, scheduler);
            next += 1;
        }
        let acts = scheduler.pass(&mut this.snapshot, jobs, now);
        passes += 1;
        for what in scheduler.breaches() {
            this.reported(format!("at {now}: {what}"));
        }
        for act in acts {
            this.act(act, now, scheduler);
        }
        watch.ended(this.ended);
    }
    scheduler.over(now);
    let Loop { rows, mut series, proved, violations, reported, gauge, .. } = this;
    series.until(Timestamp(u64::MAX), &gauge);
    Outcome { policy: scheduler.name(), rows, series, proved, violations, reported, passes, end: now }
}

impl<'a> Loop<'a> {
    fn new(site: &Site, workload: &'a Workload) -> Self {
        let jobs = &workload.jobs[..];
        let mut snapshot = site.snapshot.clone();
        for tenant in &workload.tenants {
            let all = u32::try_from(site.gpus()).unwrap_or(u32::MAX);
            snapshot.set_quota(tenant, Some(all));
        }
        let slots = site.spots.iter().map(|spot| spot.node.index() + 1).max().unwrap_or(0);
        let (mut free, mut pods) = (vec![0; slots], vec![None; slots]);
        for spot in &site.spots {
            free[spot.node.index()] = site.gpus_of(spot);
            pods[spot.node.index()] = spot.full.then_some(spot.pod as usize);
        }
        let window = jobs.last().map_or(Timestamp(0), |job| job.submit);
        let gauge = Gauge { busy: 0, free: site.gpus(), idle: site.gpus(), queued: 0 };
        Self {
            jobs,
            snapshot,
            rows: vec![Row::default(); jobs.len()],
            queued: vec![Timestamp(0); jobs.len()],
            left: jobs.iter().map(|job| job.run).collect(),
            running: BTreeMap::new(),
            events: BinaryHeap::new(),
            pods,
            whole: free.clone(),
            free,
            idle: site.nodes_by_pod(),
            gauge,
            series: Series::new(window),
            empty: site.nodes_by_pod(),
            ended: 0,
            proved: 0,
            violations: 0,
            reported: Vec::new(),
        }
    }

    fn submit(&mut self, job: usize, now: Timestamp, scheduler: &mut dyn Scheduler) {
        self.queued[job] = now;
        self.gauge.queued += self.jobs[job].gpus();
        scheduler.submit(job, self.jobs, now);
    }

    fn event(&mut self, event: Event, now: Timestamp, scheduler: &mut dyn Scheduler) {
        let (job, restarts) = match event {
            Event::Ended(job, restarts) | Event::Stopped(job, restarts) => (job, restarts),
        };
        // It was stopped before its end, or ended before it was stopped.
        if self.rows[job].restarts != restarts {
            return;
        }
        let Some(running) = self.running.remove(&job) else { return };
        let of = &self.jobs[job];
        self.snapshot.release(&of.id.tenant, &running.placement);
        self.change(&running.taken, false);
        let whole = matches!(event, Event::Ended(..));
        scheduler.end(job, self.jobs, now, whole);
        if whole {
            self.rows[job].end = Some(now);
            self.ended += 1;
            return;
        }
        let done = now.since(running.since);
        let policy = &of.spec.preemption;
        let lost = match policy.checkpoint_every {
            Some(every) if !every.is_zero() => {
                Duration::from_millis((done.as_millis() % every.as_millis()) as u64)
            }
            _ => done,
        };
        let kept = times(done.saturating_sub(lost), running.nodes, of.nodes());
        self.left[job] = self.left[job].saturating_sub(kept) + policy.restart_cost.unwrap_or_default();
        self.rows[job].restarts += 1;
        self.submit(job, now, scheduler);
    }

    fn act(&mut self, act: Act, now: Timestamp, scheduler: &dyn Scheduler) {
        match act {
            Act::Start { job, placement } => self.start(job, placement, now, scheduler),
            Act::Preempt { job, grace } => {
                if let Some(running) = self.running.get_mut(&job).filter(|running| !running.stopping) {
                    running.stopping = true;
                    self.events
                        .push(Reverse((now.plus(grace), Event::Stopped(job, self.rows[job].restarts))));
                }
            }
        }
    }

    fn start(&mut self, job: usize, placement: Box<Placement>, now: Timestamp, scheduler: &dyn Scheduler) {
        let of = &self.jobs[job];
        self.proved += 1;
        if self.running.contains_key(&job) || self.rows[job].end.is_some() {
            self.flaw(job, now, "it is started twice".to_owned());
            return;
        }
        for what in flaws(&self.snapshot, &scheduler.claim(of), &placement) {
            self.flaw(job, now, what);
        }
        let nodes = u32::try_from(placement.nodes.len()).unwrap_or(u32::MAX);
        let restarts = {
            let row = &mut self.rows[job];
            row.fewest = fewest_pods(&self.empty, nodes).unwrap_or(0);
            row.fewest_then = fewest_pods(&self.idle, nodes).unwrap_or(0);
            if nodes == 1 {
                // A part of a server is in one pod, idle servers or not.
                row.fewest_then = 1;
            }
            row.start = Some(now);
            row.wait += now.since(self.queued[job]);
            row.nodes = nodes;
            row.rails = u32::try_from(placement.rails.len()).unwrap_or(u32::MAX);
            row.pods = placement.pods;
            row.restarts
        };
        self.rows[job].cut = self.cut(&placement);
        let index = |name| self.snapshot.topology().index(name);
        let taken = placement.nodes.iter().filter_map(|place| {
            Some((index(&place.node)?.index(), u32::try_from(place.gpus.len()).unwrap_or(0)))
        });
        let taken: Vec<(usize, u32)> = taken.collect();
        self.snapshot.hold(&of.id.tenant, &placement);
        self.gauge.queued = self.gauge.queued.saturating_sub(of.gpus());
        self.change(&taken, true);
        let takes = times(self.left[job], of.nodes(), nodes);
        self.events.push(Reverse((now.plus(takes), Event::Ended(job, restarts))));
        self.running.insert(job, Running { placement, taken, nodes, since: now, stopping: false });
    }

    fn flaw(&mut self, job: usize, now: Timestamp, what: String) {
        self.reported(format!("at {now}, job {}: {what}", self.jobs[job].id));
    }

    fn reported(&mut self, what: String) {
        self.violations += 1;
        if self.reported.len() < REPORTED {
            self.reported.push(what);
        }
    }

    /// Takes GPUs on servers, or gives them back, and keeps the sums.
    fn change(&mut self, taken: &[(usize, u32)], take: bool) {
        for (at, gpus) in taken {
            let Some(free) = self.free.get_mut(*at) else { continue };
            let whole = self.whole[*at];
            let was_idle = *free == whole;
            *free = if take { free.saturating_sub(*gpus) } else { (*free + gpus).min(whole) };
            let is_idle = *free == whole;
            let (gpus, all) = (u64::from(*gpus), u64::from(whole));
            if take {
                self.gauge.busy += gpus;
                self.gauge.free = self.gauge.free.saturating_sub(gpus);
            } else {
                self.gauge.busy = self.gauge.busy.saturating_sub(gpus);
                self.gauge.free += gpus;
            }
            if was_idle != is_idle {
                self.gauge.idle =
                    if is_idle { self.gauge.idle + all } else { self.gauge.idle.saturating_sub(all) };
                if let Some(pod) = self.pods[*at] {
                    self.idle[pod] =
                        if is_idle { self.idle[pod] + 1 } else { self.idle[pod].saturating_sub(1) };
                }
            }
        }
    }

    /// The weighted cut of a ring through the servers in rank order.
    fn cut(&self, placement: &Placement) -> u64 {
        let leaf = |at: usize| {
            let place = &placement.nodes[at];
            (&place.pod, place.nics.iter().map(|nic| &nic.leaf).collect::<Vec<_>>())
        };
        let count = placement.nodes.len();
        if count < 2 {
            return 0;
        }
        (0..count).map(|at| crate::cut::weight(&leaf(at), &leaf((at + 1) % count))).sum()
    }
}

/// A time by a ratio of servers.
fn times(time: Duration, by: u32, per: u32) -> Duration {
    if by == per {
        return time;
    }
    let millis = time.as_millis() * u128::from(by) / u128::from(per.max(1));
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}
