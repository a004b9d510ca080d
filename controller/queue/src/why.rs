//! Why a job waits: every cause that the queue knows. Causes about single nodes come from the scheduler.

use proto_model::{
    Eta, JobUid, LicenseName, LongJobLimit, QueueName, ReasonCode, ReservationName, Timestamp,
};

/// What was found of a waiting job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WaitReasons {
    /// When it will probably start; `None` while that cannot be said, and for jobs that can never start.
    pub eta: Option<Eta>,
    /// Jobs that were looked at before it.
    pub ahead: usize,
    /// Every cause for which it waits.
    pub causes: Vec<WaitCause>,
    /// When it was looked at.
    pub checked: Timestamp,
}

/// One cause, for which a job does not start now.
#[derive(Debug, Clone, PartialEq)]
pub enum WaitCause {
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
        /// The queue whose limit it is; `None`: the tenant's.
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
    /// So many jobs of its user run in its service class as may.
    UserJobs(u32),
    /// Its user holds too much in its service class for it now.
    UserGpus {
        /// GPUs that the user's jobs of the class hold.
        held: u64,
        /// GPUs that they may hold.
        limit: u64,
    },
    /// Too few of a license are free for it.
    License {
        /// The license of which too few are free.
        name: LicenseName,
        /// Those that jobs hold, jobs that start now too.
        held: u64,
        /// How many there are.
        total: u32,
        /// How many it asks for.
        asked: u32,
    },
    /// Small jobs that may run for long, as it may, hold too much together for it now.
    LongJobs {
        /// GPUs that they hold, those of jobs that start now too.
        held: u64,
        /// What they are, and what they may hold.
        limit: LongJobLimit,
    },
    /// Jobs ahead of it in the same queue will use what the limit leaves.
    LimitAhead,
    /// The cluster has so few nodes that would do, busy or not.
    Shape(u32),
    /// It would have no place even if no job ran: nodes that take jobs are too few in one place, on the same rails, or beside its
    /// spares.
    Never,
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

impl WaitCause {
    /// Whether it stays as long as nobody changes something.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::TenantUnknown
                | Self::QueueUnknown
                | Self::LimitTooSmall(_)
                | Self::Never
                | Self::ReservationUnknown
                | Self::ReservationClosed
        ) || matches!(self, Self::License { total, asked, .. } if asked > total)
    }

    /// The stable code of the cause, as [`Reason`] has it.
    #[must_use]
    pub fn code(&self) -> ReasonCode {
        match self {
            Self::Held => ReasonCode::Held,
            Self::NotBefore(_) => ReasonCode::NotBefore,
            Self::TenantUnknown => ReasonCode::TenantUnknown,
            Self::QueueUnknown => ReasonCode::QueueUnknown,
            Self::LimitTooSmall(_) => ReasonCode::QuotaTooSmall,
            Self::Limit { .. } => ReasonCode::QuotaExceeded,
            Self::Jobs(_) => ReasonCode::TenantJobs,
            Self::AtOnce(_) => ReasonCode::ArrayLimit,
            Self::UserJobs(_) => ReasonCode::ServiceClassJobs,
            Self::UserGpus { .. } => ReasonCode::ServiceClassGpus,
            Self::License { .. } => ReasonCode::License,
            Self::LongJobs { .. } => ReasonCode::LongJobs,
            Self::LimitAhead => ReasonCode::QuotaAhead,
            Self::Shape(_) => ReasonCode::NodeShape,
            Self::Never => ReasonCode::GangShape,
            Self::Capacity { .. } => ReasonCode::GangCapacity,
            Self::Planned => ReasonCode::PlannedAhead,
            Self::Scattered => ReasonCode::Scattered,
            Self::Reserved(_) => ReasonCode::ReservationInTheWay,
            Self::ReservationUnknown => ReasonCode::ReservationUnknown,
            Self::ReservationAhead(_) => ReasonCode::ReservationNotBegun,
            Self::ReservationClosed => ReasonCode::ReservationClosed,
            Self::Yielding(_) => ReasonCode::PreemptionUnderWay,
            Self::Later => ReasonCode::AboutToStart,
            Self::Refused(_) => ReasonCode::PlacementRefused,
        }
    }
}

impl WaitReasons {
    /// Whether it could never start as things are described now.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.causes.iter().any(WaitCause::is_final)
    }
}
