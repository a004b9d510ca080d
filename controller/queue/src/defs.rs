//! What administrators say: tenants, queues, reservations, and the numbers of the policy.

use std::{collections::BTreeSet, time::Duration};

use proto_model::{
    Backfill, LongJobLimit, NodeName, Objective, Queue, QueueName, Reason, Reservation, ReservationNodes,
    ServiceClass, Shape, Tenant, TenantName, Timestamp,
};

/// A tenant: the root of its queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantDef {
    /// GPUs that its jobs hold at most, borrowed ones too; `None`: as many as are free.
    pub limit: Option<u32>,
    /// Jobs that run at a time at most; `None`: any number.
    pub jobs: Option<u32>,
    /// What it can always have.
    pub guaranteed: Shape,
    /// Share of what is free, against the other tenants'; at least 1.
    pub weight: u32,
}

impl TenantDef {
    /// What its document says.
    #[must_use]
    pub fn of(tenant: &Tenant) -> Self {
        let quota = &tenant.quota;
        Self {
            limit: Some(quota.gpus),
            jobs: None,
            guaranteed: quota.guaranteed,
            weight: quota.weight.max(1),
        }
    }
}

impl Default for TenantDef {
    fn default() -> Self {
        Self { limit: None, jobs: None, guaranteed: Shape::default(), weight: 1 }
    }
}

/// A queue within a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDef {
    /// `None`: right below the tenant.
    pub parent: Option<QueueName>,
    /// What its jobs can always have within the tenant's part.
    pub guaranteed: Shape,
    /// GPUs that its jobs hold at most; `None`: as many as are free.
    pub limit: Option<u32>,
    /// Share against its siblings; at least 1.
    pub weight: u32,
    /// What the order of its waiting jobs is for; `None`: as the queue above it, at last as [`Policy::objective`] says.
    pub objective: Option<Objective>,
}

impl Default for QueueDef {
    fn default() -> Self {
        Self { parent: None, guaranteed: Shape::default(), limit: None, weight: 1, objective: None }
    }
}

impl QueueDef {
    /// What its document says.
    #[must_use]
    pub fn of(queue: &Queue) -> Self {
        let Queue { parent, guaranteed, limit, weight, objective, .. } = queue;
        Self {
            parent: parent.clone(),
            guaranteed: *guaranteed,
            limit: *limit,
            weight: (*weight).max(1),
            objective: *objective,
        }
    }
}

/// What a service class limits, and what rights its jobs have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassDef {
    /// Jobs of one user that run at a time at most; `None`: any number.
    pub jobs: Option<u32>,
    /// GPUs that they hold at most; `None`: as many as are free.
    pub gpus: Option<u32>,
    /// Jobs of lower priority may be stopped for its jobs.
    pub preempts: bool,
}

impl ClassDef {
    /// What its document says.
    #[must_use]
    pub fn of(class: &ServiceClass) -> Self {
        let (user, preempts) = (class.user, class.preemption.preempts);
        Self { jobs: user.jobs_running, gpus: user.gpus, preempts }
    }
}

/// Nodes that are kept for somebody, or for maintenance, for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationDef {
    /// The nodes that are reserved.
    pub nodes: ReservedNodes,
    /// When the reservation begins.
    pub start: Timestamp,
    /// How long the reservation lasts, from its start.
    pub duration: Duration,
    /// Whose jobs may run there meanwhile.
    pub tenants: BTreeSet<TenantName>,
    /// No job at all runs there.
    pub maintenance: bool,
    /// What the reservation is for, as text for people; may be empty.
    pub reason: String,
}

/// The nodes of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservedNodes {
    /// These nodes, by name.
    Names(BTreeSet<NodeName>),
    /// So many, in so many pods at most.
    Count {
        /// The number of nodes; the scheduler chooses which.
        nodes: u32,
        /// The most pods that the nodes may be in; 0: any number.
        pods_at_most: u32,
    },
}

impl ReservationDef {
    /// What its document says.
    #[must_use]
    pub fn of(reservation: &Reservation) -> Self {
        let nodes = match &reservation.nodes {
            ReservationNodes::Names(names) => ReservedNodes::Names(names.iter().cloned().collect()),
            ReservationNodes::Count { nodes, pods_at_most } => {
                ReservedNodes::Count { nodes: *nodes, pods_at_most: *pods_at_most }
            }
        };
        Self {
            nodes,
            start: reservation.start,
            duration: reservation.duration,
            tenants: reservation.tenants.iter().cloned().collect(),
            maintenance: reservation.maintenance,
            reason: reservation.reason.clone(),
        }
    }

    /// When it is over.
    #[must_use]
    pub fn end(&self) -> Timestamp {
        self.start.plus(self.duration)
    }
}

/// The numbers of the policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Tenants that used less of late go first among jobs of equal priority; false: only age counts.
    pub fair_share: bool,
    /// Large jobs have a head start: among jobs of equal priority and share a job goes as if it had been submitted
    /// earlier, by this for every doubling of its GPUs. So a small job lets pass only those larger ones that came at
    /// most this times the doublings between the two after it: nobody starves. Zero: only age counts.
    pub head_start: Duration,
    /// What the order of waiting jobs is for where no queue says it; `None`: by age. The head start counts for that and for
    /// [`Objective::MeanWait`].
    pub objective: Option<Objective>,
    /// What small jobs that may run for long hold together at most, so that large ones start within days; `None`: any number of GPUs.
    /// Who has a right to nodes by its tenant's guarantee starts whatever they hold.
    pub long_jobs: Option<LongJobLimit>,
    /// Use counts half after this time.
    pub half_life: Duration,
    /// Who may start before jobs that wait ahead of it.
    pub backfill: Backfill,
    /// The width of the first steps of a forecast; further ahead they are wider, at most a thirty-second of the way. What is
    /// planned is not rounded.
    pub step: Duration,
    /// How long a job runs of which nothing is known.
    pub unknown: Duration,
    /// Jobs may be stopped for others.
    pub preemption: bool,
    /// A job is stopped so often at most for jobs of higher priority.
    pub preemptions_max: u32,
    /// Guarantees are kept by stopping jobs that run on borrowed quota.
    pub reclaim: bool,
    /// Running elastic jobs that have run so long since they started grow when room is left and nobody waits, and shrink
    /// for waiting jobs of the same priority. `None`: never.
    pub grow_after: Option<Duration>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            fair_share: true,
            head_start: Duration::ZERO,
            objective: None,
            long_jobs: None,
            half_life: Duration::from_secs(7 * 24 * 3600),
            backfill: Backfill::Conservative,
            step: Duration::from_secs(10),
            unknown: Duration::from_secs(3600),
            preemption: true,
            preemptions_max: 8,
            reclaim: true,
            grow_after: Some(Duration::from_secs(1800)),
        }
    }
}

/// How much one pass may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Waiting jobs that are looked at, in their order.
    pub jobs: usize,
    /// Jobs that are started.
    pub starts: usize,
}

impl Budget {
    /// No bound: the whole queue.
    pub const ALL: Self = Self { jobs: usize::MAX, starts: usize::MAX };

    /// What one event gets: the first jobs of the queue. Those further behind are looked at when one of these has
    /// started, or by a pass over all that the caller makes every now and then.
    pub const EVENT: Self = Self { jobs: 128, starts: usize::MAX };

    /// What the controller's pass over the whole queue gets where its configuration says nothing else, at most once in
    /// [`Self::PAUSE`]; what is left over of starts is its next step's.
    pub const STEP: Self = Self { jobs: 4096, starts: 16 };

    /// Between two passes over more than the first jobs of the queue.
    pub const PAUSE: Duration = Duration::from_secs(1);
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// A waiting job starts here.
    Start {
        /// The job that starts.
        uid: proto_model::JobUid,
        /// Where, with the reasons why there.
        placement: proto_model::Placement,
    },
    /// A running job is stopped and waits again.
    Preempt {
        /// The job that is stopped.
        victim: proto_model::JobUid,
        /// The job that it makes room for.
        by: proto_model::JobUid,
        /// Between signal and kill.
        grace: Duration,
        /// What its ranks get first.
        signal: i32,
        /// Why it is stopped, as the victim's status shows it.
        reasons: Vec<Reason>,
    },
    /// A running elastic job goes on with fewer nodes, to make room.
    Shrink {
        /// The job that gives nodes up.
        victim: proto_model::JobUid,
        /// With how many nodes.
        nodes: u32,
        /// The job that it makes room for.
        by: proto_model::JobUid,
        /// Between signal and kill.
        grace: Duration,
        /// What its ranks get first.
        signal: i32,
        /// Why it goes on with fewer nodes, as its status shows it.
        reasons: Vec<Reason>,
    },
    /// A running elastic job goes on with more nodes: there is room and nobody waits.
    Grow {
        /// The job that gets more nodes.
        uid: proto_model::JobUid,
        /// With how many nodes.
        nodes: u32,
        /// Between signal and kill.
        grace: Duration,
        /// What its ranks get first.
        signal: i32,
        /// Why it gets more nodes, as its status shows it.
        reasons: Vec<Reason>,
    },
}
