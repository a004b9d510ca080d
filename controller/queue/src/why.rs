//! Why a job waits: every cause that the queue knows. Causes about single nodes are the scheduler's to tell.

use proto_model::{Eta, JobUid, QueueName, Reason, ReservationName, Timestamp};

use crate::{book::Book, defs::ReservationDef, entry::Entry};

/// What was found of a waiting job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Why {
    /// When it will probably start; `None` while that cannot be said, and for jobs that can never start.
    pub eta: Option<Eta>,
    /// Jobs that were looked at before it.
    pub ahead: usize,
    /// Every cause.
    pub causes: Vec<Cause>,
    /// When it was looked at.
    pub looked: Timestamp,
}

/// One cause, for which a job does not start now.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// Its own list says so.
    Held,
    /// Not before this time.
    NotBefore(Timestamp),
    /// Its tenant is not known.
    TenantUnknown,
    /// Its queue, or one above it, is not known.
    QueueUnknown,
    /// It asks for more than a limit will ever allow.
    LimitTooSmall(u64),
    /// A queue, or the tenant (`None`), holds too much for it now.
    Limit {
        /// Whose limit.
        queue: Option<QueueName>,
        /// GPUs that it holds, those of jobs that start now too.
        held: u64,
        /// GPUs that it may hold.
        limit: u64,
    },
    /// So many of its tenant's jobs run as may.
    Jobs(u32),
    /// So many elements of its array run as may.
    AtOnce(u32),
    /// Jobs ahead of it in the same queue will use what the limit leaves.
    LimitAhead,
    /// The cluster has so few nodes that would do, busy or not.
    Shape(u32),
    /// Too little is free.
    Capacity {
        /// Nodes that are free as a whole.
        nodes: u32,
        /// GPUs that are free on other nodes.
        gpus: u32,
    },
    /// There is room, but jobs ahead of it are planned for it before it would end.
    Planned,
    /// Enough is free, but not in one place, or not with the rails that it asks for.
    Scattered,
    /// It would run into this reservation.
    Reserved(ReservationName),
    /// Its own reservation is not known.
    ReservationUnknown,
    /// Its own reservation has not begun.
    ReservationAhead(Timestamp),
    /// Its own reservation is not for its tenant, or is for maintenance.
    ReservationClosed,
    /// Jobs are being stopped for it.
    Yielding(Vec<JobUid>),
    /// This look at the queue has started as many jobs as it may.
    Later,
    /// It was to start, and whoever carries that out has found the placement to be wrong.
    Refused(String),
}

impl Cause {
    /// Whether time alone does not mend it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::TenantUnknown
                | Self::QueueUnknown
                | Self::LimitTooSmall(_)
                | Self::ReservationUnknown
                | Self::ReservationClosed
        )
    }

    /// Its stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Held => "Held",
            Self::NotBefore(_) => "NotBefore",
            Self::TenantUnknown => "TenantUnknown",
            Self::QueueUnknown => "QueueUnknown",
            Self::LimitTooSmall(_) => "QuotaTooSmall",
            Self::Limit { .. } => "QuotaExceeded",
            Self::Jobs(_) => "TenantJobs",
            Self::AtOnce(_) => "ArrayLimit",
            Self::LimitAhead => "QuotaAhead",
            Self::Shape(_) => "NodeShape",
            Self::Capacity { .. } => "GangCapacity",
            Self::Planned => "PlannedAhead",
            Self::Scattered => "Scattered",
            Self::Reserved(_) => "ReservationInTheWay",
            Self::ReservationUnknown => "ReservationUnknown",
            Self::ReservationAhead(_) => "ReservationNotBegun",
            Self::ReservationClosed => "ReservationClosed",
            Self::Yielding(_) => "PreemptionUnderWay",
            Self::Later => "AboutToStart",
            Self::Refused(_) => "PlacementRefused",
        }
    }

    /// About one job.
    fn reason(&self, book: &Book, entry: &Entry, looked: Timestamp) -> Reason {
        let tenant = &entry.id.tenant;
        let (nodes, gpus) = (entry.min_nodes, entry.gpus(entry.min_nodes));
        let queue = entry.queue.as_ref().map_or("", |queue| queue.as_str());
        let ahead = |time: &Timestamp| time.since(looked).as_secs();
        let reason = |message: String| Reason::new(self.code(), message);
        let of_tenant = |reason: Reason| reason.scope(format!("tenant/{tenant}"));
        match self {
            Self::Held => reason("the job is held".to_owned()),
            Self::NotBefore(time) => reason(format!("the job is not to start within the next {} s", ahead(time))),
            Self::TenantUnknown => of_tenant(reason(format!("there is no tenant '{tenant}'"))),
            Self::QueueUnknown => of_tenant(reason(format!(
                "queue '{queue}' of tenant '{tenant}', or one that it is part of, does not exist"
            ))),
            Self::LimitTooSmall(limit) => of_tenant(reason(format!(
                "the job asks for {gpus} GPUs in all, its tenant or queue may hold {limit}"
            ))),
            Self::Limit { queue, held, limit } => {
                let scope = queue.as_ref().map_or_else(|| format!("tenant/{tenant}"), |name| format!("queue/{tenant}/{name}"));
                let missing = usize::try_from((held + gpus).saturating_sub(*limit)).unwrap_or(usize::MAX);
                reason(format!("{scope} holds {held} of its {limit} GPUs, the job asks for {gpus}"))
                    .count(missing)
                    .scope(scope)
            }
            Self::Jobs(limit) => of_tenant(reason(format!("{limit} jobs of tenant '{tenant}' run, more may not"))),
            Self::AtOnce(limit) => {
                let scope = entry.array.as_ref().map_or(String::new(), |group| format!("job/{}", group.array));
                reason(format!("{limit} elements of the array run, more may not at a time")).scope(scope)
            }
            Self::LimitAhead => of_tenant(reason(
                "jobs ahead of it in the same queue will use what the queue may still hold".to_owned(),
            )),
            Self::Shape(have) => reason(format!(
                "the job asks for {nodes} nodes, {have} nodes that take jobs have what it asks of each"
            ))
            .count(nodes.saturating_sub(*have) as usize),
            Self::Capacity { nodes: free, gpus: loose } => reason(format!(
                "the job asks for {nodes} nodes with {} GPUs, {free} nodes are free as a whole and {loose} GPUs on others",
                entry.need.gpus
            ))
            .count(nodes.saturating_sub(*free) as usize),
            Self::Planned => reason(
                "there is room, but jobs ahead of it are planned to start there before it would end".to_owned(),
            ),
            Self::Scattered => reason(
                "enough is free, but not near enough together or not on the same rails".to_owned(),
            ),
            Self::Reserved(name) => {
                // What it is for is told to those that it is for, and of a maintenance.
                let told = |def: &&ReservationDef| def.maintenance || def.tenants.contains(tenant);
                let def = book.reservations.get(name).filter(told);
                let what = def.map_or(String::new(), |def| format!(" ({})", def.reason));
                reason(format!("the job would run into reservation '{name}'{what}"))
                    .scope(format!("reservation/{name}"))
            }
            Self::ReservationUnknown => reason("there is no such reservation".to_owned()),
            Self::ReservationAhead(start) => {
                reason(format!("the job's reservation begins in {} s", ahead(start)))
            }
            Self::ReservationClosed => {
                reason("the job's reservation is not for its tenant, or is over".to_owned())
            }
            Self::Yielding(victims) => {
                reason(format!("{} jobs are being stopped for it", victims.len())).count(victims.len())
            }
            Self::Later => reason("the job's turn comes with the next look at the queue".to_owned()),
            Self::Refused(why) => reason(why.clone()),
        }
    }
}

impl Why {
    /// Whether it could never start as things are described now.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.causes.iter().any(Cause::is_final)
    }

    /// The causes in words.
    #[must_use]
    pub fn reasons(&self, book: &Book, entry: &Entry) -> Vec<Reason> {
        let mut reasons = Vec::new();
        for cause in &self.causes {
            match cause {
                Cause::Held => reasons.extend(entry.hold.iter().cloned()),
                cause => reasons.push(cause.reason(book, entry, self.looked)),
            }
        }
        reasons
    }
}
