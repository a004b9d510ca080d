//! A job as the queue sees it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use controller_scheduler::{ComponentNeed, Need, Snapshot};
use proto_model::{
    ClassUser, Component, Job, JobId, JobUid, LicenseName, Placement, Preemption, QueueName, Reason,
    ReservationName, Timestamp,
};

/// Everything that the policy looks at in one job that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The job's identity, which is never used again.
    pub uid: JobUid,
    /// The job's tenant and name.
    pub id: JobId,
    /// What it asks for, with as many nodes as it wants.
    pub need: Need,
    /// With so few nodes it starts too; the number it wants unless it is elastic.
    pub min_nodes: u32,
    /// For the rank map.
    pub ranks_per_node: u32,
    /// For the rank map of a gang whose nodes are not all alike: those of `need`, in the same order.
    pub components: Arc<[Component]>,
    /// Which of the tenant's queues; `None`: the tenant itself.
    pub queue: Option<QueueName>,
    /// Of which service class, and of which of its users; `None`: of none.
    pub class: Option<ClassUser>,
    /// How many of which licenses it holds while it runs, whatever its number of nodes.
    pub licenses: BTreeMap<LicenseName, u32>,
    /// The job's priority: a higher one goes first.
    pub priority: i32,
    /// When the job was submitted: of equal priority and share the older one goes first.
    pub submitted: Timestamp,
    /// Begin time, or the end of a back-off.
    pub not_before: Option<Timestamp>,
    /// How long it will probably run.
    pub expected: Option<Duration>,
    /// How long it may run.
    pub limit: Option<Duration>,
    /// Only inside this reservation.
    pub reservation: Option<ReservationName>,
    /// The array that it is an element of.
    pub array: Option<ArrayGroup>,
    /// Causes for which it must not start whatever room there is, for example dependencies. Empty: none.
    pub hold: Vec<Reason>,
    /// The jobs that those causes are about, so that its start can be forecast.
    pub after: Vec<JobUid>,
    /// People hold it: nobody knows when that ends.
    pub open_ended: bool,
    /// How it may be stopped for another.
    pub preemption: Preemption,
    /// Between signal and kill.
    pub grace: Duration,
    /// How often it was stopped for another.
    pub preempted: u32,
    /// It gave up room for another job: it goes on with so many nodes at most. `None`: with as many as there are.
    pub cap: Option<u32>,
    /// Whether it waits or runs, and what it holds while it runs.
    pub state: State,
}

/// One with a rank for each of its GPUs.
fn component(need: &ComponentNeed) -> Component {
    Component {
        name: need.name.clone(),
        nodes: need.nodes,
        gpus_per_node: need.gpus,
        ranks_per_node: need.gpus.max(1),
        cpus_per_node: need.host.cpus,
        memory_per_node: need.host.memory,
        gpu_models: need.filter.gpu_models.clone(),
    }
}

/// Elements of one array, of which so many run at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArrayGroup {
    /// The tenant and name of the array.
    pub array: JobId,
    /// Elements that may run at a time; 0: any number.
    pub at_once: u32,
}

/// Where a job is in its life, as far as the queue cares.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// It wants a place.
    Waiting,
    /// It runs, and holds this.
    Running(Run),
}

/// What a running job holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The nodes, GPUs and rails that it holds.
    pub placement: Arc<Placement>,
    /// Since when it holds that.
    pub started: Timestamp,
    /// It is being ended: what it holds is free by then.
    pub ending: Option<Timestamp>,
    /// When it last saved its work, where that is known.
    pub saved: Option<Timestamp>,
}

impl Entry {
    /// What the documents say of a job; causes that hold it back, back-off and a running end are the caller's to add.
    #[must_use]
    pub fn of(job: &Job, snapshot: &Snapshot) -> Self {
        let (spec, status) = (&job.spec, &job.status);
        let state = match &status.placement {
            Some(placement) if status.phase.holds() => State::Running(Run {
                placement: Arc::clone(placement),
                started: status.started.unwrap_or(status.submitted),
                ending: None,
                saved: None,
            }),
            _ => State::Waiting,
        };
        let array = status.array.as_ref().map(|place| ArrayGroup {
            array: JobId { tenant: job.id.tenant.clone(), name: place.array.clone() },
            at_once: spec.array.as_ref().map_or(0, |array| array.at_once),
        });
        Self {
            uid: job.uid,
            id: job.id.clone(),
            need: Need::of(&job.id.tenant, spec, snapshot),
            min_nodes: spec.gang.min_nodes.clamp(1, spec.gang.nodes.max(1)),
            ranks_per_node: spec.gang.ranks_per_node,
            components: spec.components.clone().into(),
            queue: spec.queue.clone(),
            class: spec
                .service_class
                .as_ref()
                .map(|class| ClassUser::of(class, &job.id.tenant, status.submitter.as_ref())),
            licenses: spec.licenses.clone(),
            priority: spec.priority,
            submitted: status.submitted,
            not_before: spec.begin,
            expected: spec.expected,
            limit: spec.time_limit,
            reservation: spec.reservation.clone(),
            array,
            hold: Vec::new(),
            after: Vec::new(),
            open_ended: false,
            preemption: spec.preemption,
            grace: spec.stop_grace(),
            preempted: status.preempted,
            cap: None,
            state,
        }
    }

    /// A plain job that waits; for traces and tests.
    #[must_use]
    pub fn plain(uid: JobUid, id: JobId, need: Need, submitted: Timestamp) -> Self {
        Self {
            uid,
            id,
            min_nodes: need.nodes,
            ranks_per_node: need.gpus.max(1),
            components: need.components.iter().map(component).collect(),
            need,
            queue: None,
            class: None,
            licenses: BTreeMap::new(),
            priority: 0,
            submitted,
            not_before: None,
            expected: None,
            limit: None,
            reservation: None,
            array: None,
            hold: Vec::new(),
            after: Vec::new(),
            open_ended: false,
            preemption: Preemption::of_priority(0),
            grace: Duration::ZERO,
            preempted: 0,
            cap: None,
            state: State::Waiting,
        }
    }

    /// GPUs that it holds, spares too, if it runs on so many nodes.
    #[must_use]
    pub fn gpus(&self, nodes: u32) -> u64 {
        self.need.gpus_in_all(nodes)
    }

    /// What it holds, if it runs.
    #[must_use]
    pub fn run(&self) -> Option<&Run> {
        match &self.state {
            State::Running(run) => Some(run),
            State::Waiting => None,
        }
    }

    /// Nodes that it runs on; 0 if it waits.
    #[must_use]
    pub fn nodes_held(&self) -> u32 {
        self.run().map_or(0, |run| u32::try_from(run.placement.nodes.len()).unwrap_or(u32::MAX))
    }

    /// The most nodes with which it starts now.
    #[must_use]
    pub fn most_nodes(&self) -> u32 {
        self.cap.unwrap_or(u32::MAX).max(self.min_nodes).min(self.need.nodes)
    }

    /// Whether it runs with more nodes than it needs.
    #[must_use]
    pub fn is_stretched(&self) -> bool {
        self.nodes_held() > self.min_nodes
    }

    /// The same job waiting.
    #[must_use]
    pub fn waiting(&self) -> Self {
        Self { state: State::Waiting, ..self.clone() }
    }

    /// The same job running.
    #[must_use]
    pub fn running(&self, placement: Arc<Placement>, started: Timestamp) -> Self {
        Self { state: State::Running(Run { placement, started, ending: None, saved: None }), ..self.clone() }
    }
}

impl Run {
    /// Nodes that it holds, spares too.
    pub(crate) fn nodes(&self) -> usize {
        self.placement.nodes.len() + self.placement.spares.len()
    }

    /// GPUs that it holds.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        self.placement.nodes.iter().chain(&self.placement.spares).map(|place| place.gpus.len() as u64).sum()
    }
}
