//! Why a job waits, in words for people.

use proto_model::{Reason, ReasonCode, ReservationName, Thing, Timestamp, human, many, size};

use crate::{
    entry::Entry,
    tables::QueueState,
    why::{WaitCause, WaitReasons},
};

impl WaitReasons {
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

impl WaitCause {
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
            Self::LongJobs { held, limit } => {
                let missing = (held + entry.gpus(entry.min_nodes)).saturating_sub(u64::from(limit.gpus));
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
            Self::LongJobs { held, limit } => {
                let (all, small) = (many(limit.gpus, "GPU"), many(limit.below_gpus, "GPU"));
                format!(
                    "jobs of fewer than {small} that may run for {} or longer hold {held} of the {all} that they may hold together, and the job, \
                     which is one, asks for {gpus}",
                    human(limit.length)
                )
            }
            Self::LimitAhead => {
                "jobs ahead of it will use what its queue, its user in the service class or long jobs may still hold"
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
