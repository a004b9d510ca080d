//! What the queue knows: its tables with their indices, and beside them the private clusters of guarantees, which have such tables of their own.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_scheduler::{Placer, Snapshot};
use controller_topology::NodeIx;
use proto_model::{JobUid, QueueName, ReservationName, ServiceClassName, Shape, TenantName, Timestamp};

use crate::{
    bands::Bands,
    defs::{ClassDef, Policy, QueueDef, ReservationDef, TenantDef},
    empty::Empty,
    entry::Entry,
    ground::Ground,
    ledger::Ledger,
    licenses::Licenses,
    private::{bound::Bound, site::Site},
    why::WaitReasons,
};

/// Waiting jobs that stand in one row: by age.
pub(crate) type FifoKey = (Reverse<i32>, TenantName, Option<QueueName>);

/// The nodes of a running job by number, with their GPUs, as far as they are known.
pub(crate) type Taken<'a> = Option<&'a [(NodeIx, u32)]>;

/// What passes and ends of jobs change: a value, cheap to copy and to put back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Marks {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) privates: GuaranteeClusters,
    pub(crate) bands: Arc<Bands>,
}

/// Jobs that wait or run, and by what rules.
#[derive(Debug, Clone, Default)]
pub struct QueueState {
    pub(crate) policy: Policy,
    pub(crate) jobs: BTreeMap<JobUid, Arc<Entry>>,
    pub(crate) tenants: BTreeMap<TenantName, TenantDef>,
    pub(crate) queues: BTreeMap<(TenantName, QueueName), QueueDef>,
    pub(crate) classes: BTreeMap<ServiceClassName, ClassDef>,
    pub(crate) reservations: BTreeMap<ReservationName, ReservationDef>,
    /// How many licenses there are, and who holds them.
    pub(crate) licenses: Licenses,
    pub(crate) marks: Marks,
    // Indices.
    pub(crate) waiting: BTreeMap<FifoKey, BTreeMap<(Timestamp, JobUid), Arc<Entry>>>,
    pub(crate) running: BTreeMap<JobUid, Arc<Entry>>,
    /// The same by tenant, with the GPUs that each holds: they are counted once, for a placement is long.
    pub(crate) running_of: BTreeMap<TenantName, BTreeMap<JobUid, (Arc<Entry>, u64)>>,
    /// How many waiting jobs need so many GPUs on so many nodes, spares too, at the least.
    pub(crate) shapes: BTreeMap<(u32, u32), u32>,
    /// Waiting jobs that are not to start before a time.
    pub(crate) begins: BTreeSet<(Timestamp, JobUid)>,
    /// Jobs that are being ended, by the time at which what they hold is free.
    pub(crate) ending: BTreeSet<(Timestamp, JobUid)>,
    /// How many running jobs give way to those of a priority above this one.
    pub(crate) yielding: BTreeMap<i32, u32>,
    /// Running jobs that want more nodes than they have.
    pub(crate) small: BTreeSet<JobUid>,
    /// What jobs of a tenant, in one of its queues or in none, hold.
    pub(crate) sums: BTreeMap<(TenantName, Option<QueueName>), Sum>,
    pub(crate) cache: Cache,
}

/// What running jobs hold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sum {
    pub(crate) gpus: u64,
    pub(crate) jobs: u32,
}

/// What can be had again: it decides nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cache {
    /// All nodes, as the last pass found them.
    pub(crate) ground: Arc<Ground>,
    /// What was found of waiting jobs when they were looked at last.
    pub(crate) seen: BTreeMap<JobUid, WaitReasons>,
    /// Nodes of running jobs by number, with their GPUs.
    pub(crate) nodes: BTreeMap<JobUid, Arc<[(NodeIx, u32)]>>,
    /// Nodes and slots of the topology that this was found with; when either number changes, it is found
    /// anew.
    pub(crate) cluster: (usize, usize),
    /// Jobs that changed since the private clusters were brought up to date.
    pub(crate) touched: BTreeSet<JobUid>,
    /// When time alone may change something.
    pub(crate) next: Option<Timestamp>,
    /// Who would have a place if no job ran.
    pub(crate) empty: Empty,
    /// What the last forecast said before it was corrected, and when.
    pub(crate) raw: BTreeMap<JobUid, (Timestamp, Timestamp)>,
}

/// Equal in all that decides.
impl PartialEq for QueueState {
    fn eq(&self, other: &Self) -> bool {
        self.policy == other.policy
            && self.jobs == other.jobs
            && self.tenants == other.tenants
            && self.queues == other.queues
            && self.classes == other.classes
            && self.reservations == other.reservations
            && self.licenses == other.licenses
            && self.marks == other.marks
            && self.waiting == other.waiting
            && self.running == other.running
            && self.running_of == other.running_of
            && self.shapes == other.shapes
            && self.begins == other.begins
            && self.sums == other.sums
            && self.ending == other.ending
            && self.yielding == other.yielding
            && self.small == other.small
    }
}

/// One tenant's private cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Private {
    pub(crate) site: Site,
    pub(crate) snapshot: Snapshot,
    pub(crate) placer: Placer,
    pub(crate) queue_state: QueueState,
    /// How long jobs took that are gone from the real cluster.
    pub(crate) took: BTreeMap<JobUid, Duration>,
    /// When those of them end here that have started here.
    pub(crate) ends: BTreeSet<(Timestamp, JobUid)>,
    /// Jobs that are gone from the real cluster and wait here.
    pub(crate) ghosts: BTreeSet<JobUid>,
}

/// All private clusters, with what their nodes are bound to.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct GuaranteeClusters {
    pub(crate) rows: BTreeMap<TenantName, Arc<Private>>,
    /// How long the last attempt of a job took.
    pub(crate) attempts: Arc<BTreeMap<JobUid, Duration>>,
    pub(crate) bound: Arc<Bound>,
    /// For what they were made.
    pub(crate) made: Arc<(BTreeMap<TenantName, Shape>, usize, usize)>,
}
