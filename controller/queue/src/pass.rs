//! What one pass over the queue knows and has found so far.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use controller_scheduler::{Choice, Need, NodeSet, Placer, Snapshot};
use controller_topology::NodeIx;
use proto_model::{JobUid, QueueName, TenantName, Timestamp};

use crate::{
    defs::{Act, Budget},
    empty::Empty,
    entry::Entry,
    ground::Ground,
    line::{TenantQueue, TenantQueues},
    plan::{Plan, PlanRequest},
    reserve::ActiveReservations,
    tables::{GuaranteeClusters, QueueState},
    why::WaitReasons,
};

/// GPUs by tenant, and by its queues; `None`: the tenant itself.
pub(crate) type Amounts = BTreeMap<TenantName, BTreeMap<Option<QueueName>, u64>>;

/// For what the queue is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PassPurpose {
    /// To decide: it ends where nobody further behind could start or make room.
    Event,
    /// To decide, with everybody looked at.
    Uncut,
    /// For a forecast: nothing is done, and every job gets its reasons.
    Forecast,
}

/// The placer, with what this pass has learned from it.
pub(crate) struct Search<'a> {
    pub(crate) placer: &'a mut Placer,
    pub(crate) choice: Choice,
    /// Jobs that ask alike fail alike, while nothing is freed; with the reservations that were in their way.
    pub(crate) failed: BTreeSet<(Need, usize)>,
    /// Jobs that the placer has a gang for and that would take from what is planned: those that ask alike would too.
    pub(crate) passed_over: BTreeSet<Need>,
    /// Who would have a place if no job ran.
    pub(crate) empty: Empty,
}

impl<'a> Search<'a> {
    fn new(placer: &'a mut Placer) -> Self {
        let (failed, passed_over) = (BTreeSet::new(), BTreeSet::new());
        Self { placer, choice: Choice::default(), failed, passed_over, empty: Empty::default() }
    }
}

/// What is to be done, and what was found of those that wait on.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) acts: Vec<Act>,
    pub(crate) seen: Vec<(JobUid, WaitReasons)>,
    /// When time alone may change something.
    pub(crate) next: Option<Timestamp>,
}

/// What starts in this pass, and what is given up for it.
#[derive(Default)]
pub(crate) struct Begun<'a> {
    pub(crate) starts: usize,
    pub(crate) rooms: usize,
    /// Jobs that start in this pass.
    pub(crate) jobs: Vec<&'a Arc<Entry>>,
    /// What was started, to be put back.
    pub(crate) held: Vec<(TenantName, Choice)>,
    /// Who yields in this pass.
    pub(crate) yielding: BTreeSet<JobUid>,
    /// Nodes on which jobs that room is made for will start.
    pub(crate) promised: Vec<NodeIx>,
}

/// What guarantees keep.
pub(crate) struct Guarantees {
    /// Nodes that are bound to guarantees.
    pub(crate) bound: NodeSet,
    /// The private clusters; what they are bound to may change.
    pub(crate) privates: GuaranteeClusters,
}

/// What tenants and their queues hold.
pub(crate) struct Holdings<'a> {
    /// GPUs of queues and tenants that running jobs hold.
    pub(crate) held_before: Amounts,
    /// GPUs of queues and tenants that jobs that start in this pass hold.
    pub(crate) more: Amounts,
    /// What jobs of one tenant and queue have in common.
    pub(crate) lines: TenantQueues<'a>,
}

/// What a pass has found.
pub(crate) struct Pass<'a> {
    pub(crate) queue_state: &'a QueueState,
    pub(crate) snapshot: &'a mut Snapshot,
    pub(crate) now: Timestamp,
    pub(crate) budget: Budget,
    pub(crate) check: PassPurpose,
    /// Starts that are likelier than those of the plan.
    pub(crate) foreseen: BTreeMap<JobUid, [Timestamp; 3]>,
    pub(crate) kept: ActiveReservations<'a>,
    pub(crate) ground: &'a Ground,
    pub(crate) plan: Plan,
    pub(crate) search: Search<'a>,
    pub(crate) outcome: Outcome,
    pub(crate) begun: Begun<'a>,
    pub(crate) guarantees: Guarantees,
    pub(crate) holdings: Holdings<'a>,
    /// A job that waits for nodes has its place in the plan: with EASY backfill no other one gets one.
    pub(crate) first_kept: bool,
    /// The lowest priority of a running job that may be stopped for a higher one.
    pub(crate) lowest: i32,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(
        queue_state: &'a QueueState,
        ground: &'a Ground,
        snapshot: &'a mut Snapshot,
        placer: &'a mut Placer,
        now: Timestamp,
        budget: Budget,
        check: PassPurpose,
    ) -> Self {
        let kept = ActiveReservations::new(queue_state, snapshot, now);
        let plan = Plan::new(
            queue_state,
            (ground, snapshot.topology().rails()),
            &kept,
            now,
            check == PassPurpose::Forecast,
        );
        let privates = queue_state.marks.privates.clone();
        Self {
            queue_state,
            snapshot,
            now,
            budget,
            check,
            foreseen: BTreeMap::new(),
            kept,
            ground,
            plan,
            search: Search::new(placer),
            outcome: Outcome::default(),
            begun: Begun::default(),
            guarantees: Guarantees { bound: privates.bound_nodes(), privates },
            holdings: Holdings {
                held_before: held(queue_state),
                more: BTreeMap::new(),
                lines: TenantQueues::default(),
            },
            first_kept: false,
            lowest: i32::MAX,
        }
    }

    pub(crate) fn pod_size(&self) -> u32 {
        if self.queue_state.queues.is_empty() { 0 } else { self.ground.largest_pod() }
    }

    pub(crate) fn wake(&mut self, time: Timestamp) {
        if time > self.now {
            self.outcome.next = Some(self.outcome.next.map_or(time, |next| next.min(time)));
        }
    }

    pub(crate) fn desired(&mut self, entry: &Entry, nodes: u32, quotas: Rc<[usize]>) -> PlanRequest {
        let measure = self.plan.measure;
        PlanRequest {
            nodes: nodes + entry.need.spares,
            spares: entry.need.spares,
            gpus: entry.need.least_gpus(),
            whole: measure.is_whole(&entry.need),
            alone: measure.is_alone(&entry.need),
            class: self.plan.class(&entry.need, self.ground, &self.kept),
            parts: self.plan.parts(&entry.need, self.ground, &self.kept),
            gpus_in_all: (!entry.need.components.is_empty())
                .then(|| i32::try_from(entry.need.gpus_in_all(nodes)).unwrap_or(i32::MAX)),
            tenant: self.plan.tenant(&entry.need),
            within: entry.need.within,
            licenses: self.plan.licenses_of(entry),
            quotas,
            length: if self.check == PassPurpose::Forecast {
                self.queue_state.predicted(entry, self.now)
            } else {
                self.queue_state.length(entry)
            },
            from: 0,
            on_shared_nodes: false,
        }
    }

    /// GPUs that a queue, with those below it, or a tenant holds.
    pub(crate) fn held_by(&self, tenant: &TenantName, queue: &Option<QueueName>) -> u64 {
        let held = |map: &Amounts| map.get(tenant).and_then(|own| own.get(queue)).copied().unwrap_or(0);
        held(&self.holdings.held_before) + held(&self.holdings.more)
    }

    pub(crate) fn may_start(&self) -> bool {
        self.begun.starts < self.budget.starts
    }

    /// The line of a job; `None` if its queue, one above it or its tenant is not known.
    pub(crate) fn line(&mut self, entry: &'a Entry) -> Option<Rc<TenantQueue>> {
        let key = (&entry.id.tenant, entry.queue.as_ref());
        if let Some(line) = self.holdings.lines.lines.get(&key) {
            return line.clone();
        }
        let line = self.queue_state.path(entry).map(|path| {
            let quotas = self.plan.limits(self.queue_state, &entry.id.tenant, &path, self.now).into();
            Rc::new(TenantQueue { path, quotas })
        });
        self.holdings.lines.lines.insert(key, line.clone());
        line
    }

    /// The limits that concern a job of a line.
    pub(crate) fn quotas(&mut self, entry: &Entry, line: &TenantQueue) -> Rc<[usize]> {
        let array = self.plan.array_limit(self.queue_state, entry, self.now);
        let class = self.plan.class_limits(self.queue_state, entry, self.now);
        let licenses = self.plan.license_limits(self.queue_state, entry, self.now);
        let long = self.plan.long_job_limit(self.queue_state, entry, self.now);
        if array.is_none() && class.is_empty() && licenses.is_empty() && long.is_none() {
            return Rc::clone(&line.quotas);
        }
        line.quotas.iter().copied().chain(array).chain(class).chain(licenses).chain(long).collect()
    }

    /// What estimates of jobs like this one turned out to be.
    pub(crate) fn error(&self, entry: &'a Entry) -> [u32; 3] {
        let size = entry.gpus(entry.need.nodes).max(1).ilog2();
        let mut errors = self.holdings.lines.errors.borrow_mut();
        *errors.entry((&entry.id.tenant, size)).or_insert_with(|| self.queue_state.error(entry))
    }
}

/// GPUs that every tenant and queue, with those below it, holds.
fn held(queue_state: &QueueState) -> Amounts {
    let mut held = Amounts::new();
    for ((tenant, queue), sum) in &queue_state.sums {
        for queue in queue_state.path_of(tenant, queue.as_ref()).unwrap_or_else(|| vec![None]) {
            *held.entry(tenant.clone()).or_default().entry(queue).or_default() += sum.gpus;
        }
    }
    held
}
