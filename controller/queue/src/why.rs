//! Why a job waits: every cause that the queue knows. Causes about single nodes come from the scheduler.

use proto_model::{
    Eta, JobUid, LicenseName, QueueName, Reason, ReasonCode, ReservationName, Thing, Timestamp, many, size,
};

use crate::{entry::Entry, queue_state::QueueState};

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

    /// The cause as a reason that the status of the waiting job shows.
    fn reason(&self, queue_state: &QueueState, entry: &Entry, checked: Timestamp) -> Reason {
        if let Self::Reserved(name) = self {
            return in_the_way(self.code(), queue_state, name);
        }
        let reason = Reason::new(self.code(), self.message(entry, checked)).count(self.count(entry));
        match self.scope(entry) {
            Some(scope) => reason.scope(scope),
            None => reason,
        }
    }

    /// How many objects it concerns; 0 where counting makes no sense.
    fn count(&self, entry: &Entry) -> usize {
        match self {
            Self::Limit { held, limit, .. } | Self::UserGpus { held, limit } => {
                let missing = (held + entry.gpus(entry.min_nodes)).saturating_sub(*limit);
                usize::try_from(missing).unwrap_or(usize::MAX)
            }
            Self::Shape(nodes) | Self::Capacity { nodes, .. } => {
                entry.min_nodes.saturating_sub(*nodes) as usize
            }
            Self::License { held, total, asked, .. } => {
                let missing = (held + u64::from(*asked)).saturating_sub(u64::from(*total));
                usize::try_from(missing).unwrap_or(usize::MAX)
            }
            Self::Yielding(victims) => victims.len(),
            _ => 0,
        }
    }

    /// What it is about, where that is not the job itself.
    fn scope(&self, entry: &Entry) -> Option<String> {
        let tenant = &entry.id.tenant;
        match self {
            Self::TenantUnknown
            | Self::QueueUnknown
            | Self::LimitTooSmall(_)
            | Self::Jobs(_)
            | Self::LimitAhead
            | Self::Limit { queue: None, .. } => Some(format!("tenant/{tenant}")),
            Self::Limit { queue: Some(queue), .. } => Some(format!("queue/{tenant}/{queue}")),
            Self::UserJobs(_) | Self::UserGpus { .. } => {
                entry.class.as_ref().map(|user| format!("service-class/{}", user.class))
            }
            Self::License { name, .. } => Some(format!("license/{name}")),
            Self::AtOnce(_) => entry.array.as_ref().map(|group| format!("job/{}", group.array)),
            _ => None,
        }
    }

    /// The cause in one sentence for people.
    fn message(&self, entry: &Entry, checked: Timestamp) -> String {
        let (tenant, nodes) = (&entry.id.tenant, many(entry.min_nodes, "node"));
        let gpus = entry.gpus(entry.min_nodes);
        let ahead = |time: &Timestamp| time.since(checked).as_secs();
        match self {
            Self::Held => "the job is held".to_owned(),
            Self::NotBefore(time) => format!("the job is not to start within the next {} s", ahead(time)),
            Self::TenantUnknown => format!("there is no tenant '{tenant}'"),
            Self::QueueUnknown => {
                let queue = entry.queue.as_ref().map_or("", |queue| queue.as_str());
                format!("queue '{queue}' of tenant '{tenant}', or one that it is part of, does not exist")
            }
            Self::LimitTooSmall(limit) => {
                let gpus = many(gpus, "GPU");
                format!("the job asks for {gpus} in all, its tenant, its queue or its user may hold {limit}")
            }
            Self::Limit { held, limit, .. } => {
                let (scope, limit) = (self.scope(entry).unwrap_or_default(), many(*limit, "GPU"));
                format!("{scope} holds {held} of its {limit}, the job asks for {gpus}")
            }
            Self::Jobs(limit) => {
                format!("running of tenant '{tenant}': {}, more may not", many(*limit, "job"))
            }
            Self::AtOnce(limit) => {
                format!("running of the array: {}, more may not at a time", many(*limit, "element"))
            }
            Self::UserJobs(limit) => {
                let (user, class) = user_and_class(entry);
                let limit = many(*limit, "job");
                format!(
                    "running of '{user}' in service class '{class}': {limit}, more may not at a time (user.jobsRunning)"
                )
            }
            Self::UserGpus { held, limit } => {
                let (user, class) = user_and_class(entry);
                let limit = many(*limit, "GPU");
                format!(
                    "'{user}' holds {held} of {limit} in service class '{class}' (user.gpus), the job asks for {gpus}"
                )
            }
            Self::LimitAhead => {
                "jobs ahead of it will use what its queue, or its user in the service class, may still hold"
                    .to_owned()
            }
            Self::Shape(have) => too_few(entry, *have, &nodes),
            Self::Capacity { nodes: free, gpus: loose } => {
                let (each, free) = (each(entry), many(*free, "node"));
                let loose = many(*loose, "GPU");
                format!(
                    "the job asks for {nodes} with {each}; free: {free} as a whole, and {loose} on others"
                )
            }
            Self::License { .. } => self.of_license(),
            Self::Yielding(victims) => format!("being stopped for it: {}", many(victims.len(), "job")),
            Self::ReservationAhead(start) => format!("the job's reservation begins in {} s", ahead(start)),
            Self::Scattered if !entry.need.host.is_none() => {
                "enough is free, but not near enough together, not on the same rails, or not beside the CPUs and the memory that \
                 the job asks for"
                    .to_owned()
            }
            Self::Refused(why) => why.clone(),
            other => other.fixed().map_or_else(|| other.code().to_string(), str::to_owned),
        }
    }

    /// Of a license, why there are too few.
    fn of_license(&self) -> String {
        let Self::License { name, held, total, asked } = self else { return String::new() };
        if asked > total {
            return format!("license {name}: the job asks for {asked}, there are {total} in all");
        }
        let use_now = format!("license {name}: {held} of {total} in use, the job asks for {asked}");
        if held + u64::from(*asked) > u64::from(*total) {
            use_now
        } else {
            format!("{use_now}, and jobs ahead of it are planned to hold the rest before it would end")
        }
    }

    /// What needs no figures.
    fn fixed(&self) -> Option<&'static str> {
        Some(match self {
            Self::Planned => {
                "there is room, but jobs ahead of it are planned to start there before it would end"
            }
            Self::Never => {
                "even without any job the nodes that take jobs would not be near enough together, or not on the same rails"
            }
            Self::Scattered => "enough is free, but not near enough together or not on the same rails",
            Self::ReservationUnknown => "there is no such reservation",
            Self::ReservationClosed => "the job's reservation is not for its tenant, or is over",
            Self::Later => "the job's turn comes with the next look at the queue",
            _ => return None,
        })
    }
}

/// That too few nodes have what a job asks of them.
fn too_few(entry: &Entry, have: u32, asked: &str) -> String {
    if entry.components.is_empty() {
        let verb = if have == 1 { "has" } else { "have" };
        return format!(
            "the job asks for {asked}, of those that take jobs {have} {verb} what it asks of each"
        );
    }
    let components = many(entry.components.len(), "component");
    format!(
        "the job asks for {asked} of {components}, of those that take jobs too few have what a component asks of each"
    )
}

/// What a job asks of each node.
fn each(entry: &Entry) -> String {
    if !entry.components.is_empty() {
        let each = entry
            .components
            .iter()
            .map(|one| format!("{} with {}", one.nodes, many(one.gpus_per_node, "GPU")));
        return format!("what its components ask for ({})", each.collect::<Vec<_>>().join(", "));
    }
    let (gpus, host) = (many(entry.need.gpus, "GPU"), entry.need.host);
    match (host.cpus, host.memory) {
        (0, 0) => gpus,
        (cpus, 0) => format!("{gpus} and {}", many(cpus, "CPU")),
        (0, memory) => format!("{gpus} and {} of memory", size(memory)),
        (cpus, memory) => format!("{gpus}, {} and {} of memory", many(cpus, "CPU"), size(memory)),
    }
}

/// Whose limit in which service class.
fn user_and_class(entry: &Entry) -> (&str, &str) {
    entry.class.as_ref().map_or(("", ""), |user| (user.user.as_str(), user.class.as_str()))
}

/// Says which reservation it is, and what for, only to those that it is for, and of a maintenance.
fn in_the_way(code: ReasonCode, queue_state: &QueueState, name: &ReservationName) -> Reason {
    let def = queue_state.reservations.get(name);
    let tenants = def.map_or_else(Vec::new, |def| def.tenants.iter().cloned().collect());
    let maintenance = def.is_some_and(|def| def.maintenance);
    let what = def.map_or(String::new(), |def| format!(" ({})", def.reason));
    let thing = Thing::Reservation { name: name.clone(), tenants, maintenance };
    Reason::about(code, &thing, |reservation, named| {
        format!("the job would run into {reservation}{}", if named { &what } else { "" })
    })
}

impl WaitReasons {
    /// Whether it could never start as things are described now.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.causes.iter().any(WaitCause::is_final)
    }

    /// The causes in words.
    #[must_use]
    pub fn reasons(&self, queue_state: &QueueState, entry: &Entry) -> Vec<Reason> {
        let mut reasons = Vec::new();
        for cause in &self.causes {
            match cause {
                WaitCause::Held => reasons.extend(entry.hold.iter().cloned()),
                cause => reasons.push(cause.reason(queue_state, entry, self.checked)),
            }
        }
        reasons
    }
}
