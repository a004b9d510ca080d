//! An independent proof of what a pass says: it shares no code with the choice, and looks only at the tables and at what
//! is held, job by job.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{ClassUser, JobUid, LicenseName, LongJobLimit, QueueName, TenantName, Timestamp};
use thiserror::Error;

use crate::{
    defs::Act,
    entry::{Entry, State},
    tables::QueueState,
};

/// What is wrong with what a pass says.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Breach {
    /// No such job, or it does not wait.
    #[error("job {0} is to start and does not wait")]
    NotWaiting(JobUid),
    /// No such job, or it does not run, or it is being ended.
    #[error("job {0} is to be stopped and does not run")]
    NotRunning(JobUid),
    /// Twice in one pass.
    #[error("job {0} is started or stopped twice")]
    Twice(JobUid),
    /// It must not start yet.
    #[error("job {0} starts although it is held or its time has not come")]
    TooEarly(JobUid),
    /// More nodes than it wants, or fewer than it needs.
    #[error("job {uid} gets {nodes} nodes")]
    Size {
        /// The job of the wrong size.
        uid: JobUid,
        /// Nodes that the job gets.
        nodes: usize,
    },
    /// A tenant or queue that is not known.
    #[error("job {0} has no tenant or no queue")]
    Homeless(JobUid),
    /// A tenant or one of its queues would hold too much.
    #[error("tenant {tenant}, queue {queue:?} would hold {held} GPUs of {limit}")]
    Limit {
        /// The tenant whose limit is exceeded.
        tenant: TenantName,
        /// Which queue; `None`: the tenant itself.
        queue: Option<QueueName>,
        /// GPUs that would be held, with those of the jobs that start.
        held: u64,
        /// What it may hold.
        limit: u32,
    },
    /// More jobs of a tenant, or elements of an array, than may run at a time.
    #[error("{running} jobs of {whose} would run, {limit} may")]
    Count {
        /// The tenant or the array.
        whose: String,
        /// Jobs that would run, with those that start.
        running: usize,
        /// Jobs that may run at a time.
        limit: u32,
    },
    /// A user would hold too much in a service class.
    #[error("user {} would hold {held} GPUs of {limit} in service class {}", .user.user, .user.class)]
    User {
        /// The user, and the service class whose limit is exceeded.
        user: ClassUser,
        /// GPUs that the user would hold in the service class, with those of the jobs that start.
        held: u64,
        /// What the user may hold.
        limit: u32,
    },
    /// More of a license would be held than there are.
    #[error("{held} of {total} licenses {name} would be held")]
    License {
        /// The license of which too many would be held.
        name: LicenseName,
        /// Licenses that would be held, with those of the jobs that start.
        held: u64,
        /// How many there are.
        total: u32,
    },
    /// Small jobs that may run for long would hold too much together.
    #[error("long jobs would hold {held} GPUs of {} (limit {limit})", .limit.gpus)]
    LongJobs {
        /// GPUs that they would hold, with those of the jobs that start.
        held: u64,
        /// What they are, and what they may hold.
        limit: LongJobLimit,
    },
    /// A job is stopped that may not be stopped for that one.
    #[error("job {victim} is stopped for job {by}, which has no claim on what it holds")]
    Unjust {
        /// The job that is stopped.
        victim: JobUid,
        /// The job that the other one is stopped for.
        by: JobUid,
    },
    /// A job with a right to run neither runs nor starts, and nobody is being stopped for it.
    #[error("job {0} has a right to run and nothing is done")]
    Denied(JobUid),
    /// A node that is reserved for others.
    #[error("job {uid} starts on node {node}, which is kept from {start} on")]
    Reserved {
        /// The job that starts there.
        uid: JobUid,
        /// The node, by its name.
        node: String,
        /// When the reservation of the node begins.
        start: Timestamp,
    },
}

/// Proves the acts of a pass against the tables, which a pass does not change; before anything is done.
///
/// # Errors
/// Every breach.
pub fn check(queue_state: &QueueState, acts: &[Act], now: Timestamp) -> Result<(), Vec<Breach>> {
    let mut found = Vec::new();
    let mut touched = BTreeSet::new();
    let mut starting: Vec<(&Entry, u64)> = Vec::new();
    for act in acts {
        match act {
            Act::Start { uid, placement } => {
                once(&mut touched, *uid, &mut found);
                let entry = queue_state.jobs.get(uid).filter(|entry| entry.state == State::Waiting);
                let Some(entry) = entry else {
                    found.push(Breach::NotWaiting(*uid));
                    continue;
                };
                let early = entry.not_before.is_some_and(|time| time > now) || !entry.hold.is_empty();
                if early {
                    found.push(Breach::TooEarly(*uid));
                }
                let nodes = placement.nodes.len();
                if nodes < entry.min_nodes as usize || nodes > entry.need.nodes as usize {
                    found.push(Breach::Size { uid: *uid, nodes });
                }
                reserved(
                    queue_state,
                    entry,
                    placement.nodes.iter().map(|place| place.node.as_str()),
                    now,
                    &mut found,
                );
                let places = placement.nodes.iter().chain(&placement.spares);
                starting.push((entry, places.map(|place| place.gpus.len() as u64).sum()));
            }
            Act::Preempt { victim, by, .. } => {
                once(&mut touched, *victim, &mut found);
                stopped(queue_state, *victim, *by, &mut found);
            }
            Act::Shrink { victim, by, nodes, .. } => {
                once(&mut touched, *victim, &mut found);
                shrunk(queue_state, *victim, *by, *nodes, &mut found);
            }
            Act::Grow { uid, .. } => once(&mut touched, *uid, &mut found),
        }
    }
    limits(queue_state, &starting, &mut found);
    counts(queue_state, &starting, &mut found);
    users(queue_state, &starting, &mut found);
    licenses(queue_state, &starting, &mut found);
    long_jobs(queue_state, &starting, &mut found);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Proves that whoever has a right to run does, or that somebody is being stopped for it. For a pass that was not cut
/// short.
///
/// # Errors
/// Every job that is denied its right.
pub fn check_rights(queue_state: &QueueState, acts: &[Act]) -> Result<(), Vec<Breach>> {
    let served = |uid: JobUid| {
        acts.iter().any(|act| match act {
            Act::Start { uid: started, .. } => *started == uid,
            Act::Preempt { by, .. } | Act::Shrink { by, .. } => *by == uid,
            Act::Grow { .. } => false,
        })
    };
    // What is being stopped may be what it waits for; the pass after that is proved too.
    let stopped = acts.iter().any(|act| matches!(act, Act::Preempt { .. } | Act::Shrink { .. }));
    let ending =
        stopped || queue_state.jobs.values().any(|entry| entry.run().is_some_and(|run| run.ending.is_some()));
    let denied: Vec<Breach> = queue_state
        .jobs
        .values()
        .filter(|entry| {
            entry.state == State::Waiting && entry.hold.is_empty() && queue_state.has_right(entry.uid)
        })
        .filter(|entry| !served(entry.uid) && !ending && has_licenses(queue_state, acts, entry))
        .map(|entry| Breach::Denied(entry.uid))
        .collect();
    if denied.is_empty() { Ok(()) } else { Err(denied) }
}

fn once(touched: &mut BTreeSet<JobUid>, uid: JobUid, found: &mut Vec<Breach>) {
    if !touched.insert(uid) {
        found.push(Breach::Twice(uid));
    }
}

fn stopped(queue_state: &QueueState, victim: JobUid, by: JobUid, found: &mut Vec<Breach>) {
    let entry =
        queue_state.jobs.get(&victim).filter(|entry| entry.run().is_some_and(|run| run.ending.is_none()));
    let (Some(entry), Some(by_entry)) = (entry, queue_state.jobs.get(&by)) else {
        found.push(Breach::NotRunning(victim));
        return;
    };
    let lower =
        entry.priority < by_entry.priority && entry.preemption.preemptible && preempts(queue_state, by_entry);
    let by_right = queue_state.has_right(by);
    let siblings = entry.id.tenant == by_entry.id.tenant && entry.queue != by_entry.queue;
    let guaranteed = by_entry.queue.as_ref().is_some_and(|queue| {
        let def = queue_state.queues.get(&(by_entry.id.tenant.clone(), queue.clone()));
        def.is_some_and(|def| !def.guaranteed.is_empty())
    });
    if !(lower || by_right || siblings && guaranteed) {
        found.push(Breach::Unjust { victim, by });
    }
}

/// Whether others may be stopped for a job.
fn preempts(queue_state: &QueueState, entry: &Entry) -> bool {
    let class = entry.class.as_ref().and_then(|user| queue_state.classes.get(&user.class));
    class.is_none_or(|class| class.preempts)
}

/// An elastic job gives up what it does not need; for a job of equal priority too.
fn shrunk(queue_state: &QueueState, victim: JobUid, by: JobUid, nodes: u32, found: &mut Vec<Breach>) {
    if let (Some(entry), Some(by_entry)) = (queue_state.jobs.get(&victim), queue_state.jobs.get(&by)) {
        let held = entry.run().map_or(0, |run| run.placement.nodes.len());
        if nodes < entry.min_nodes || nodes as usize >= held {
            found.push(Breach::Size { uid: victim, nodes: nodes as usize });
        }
        let ends = entry.run().is_none_or(|run| run.ending.is_some());
        if entry.priority == by_entry.priority && !ends && preempts(queue_state, by_entry) {
            return;
        }
    }
    stopped(queue_state, victim, by, found);
}

/// Adds up anew, job by job, what every tenant and queue holds.
fn limits(queue_state: &QueueState, starting: &[(&Entry, u64)], found: &mut Vec<Breach>) {
    let mut held: BTreeMap<(TenantName, Option<QueueName>), (u64, bool)> = BTreeMap::new();
    let running = queue_state.jobs.values().filter_map(|entry| {
        let run = entry.run()?;
        let places = run.placement.nodes.iter().chain(&run.placement.spares);
        Some((entry.as_ref(), places.map(|place| place.gpus.len() as u64).sum::<u64>(), false))
    });
    let all = running.chain(starting.iter().map(|(entry, gpus)| (*entry, *gpus, true)));
    for (entry, gpus, starts) in all {
        let tenant = &entry.id.tenant;
        if starts && !queue_state.tenants.contains_key(tenant) {
            found.push(Breach::Homeless(entry.uid));
        }
        let mut queue = entry.queue.clone();
        for _ in 0..64 {
            let row = held.entry((tenant.clone(), queue.clone())).or_default();
            row.0 += gpus;
            row.1 |= starts && gpus > 0;
            let Some(name) = queue else { break };
            match queue_state.queues.get(&(tenant.clone(), name)) {
                Some(def) => queue = def.parent.clone(),
                None => {
                    if starts {
                        found.push(Breach::Homeless(entry.uid));
                    }
                    queue = None;
                }
            }
        }
    }
    for ((tenant, queue), (held, starts)) in held {
        let limit = match &queue {
            None => queue_state.tenants.get(&tenant).and_then(|def| def.limit),
            Some(name) => queue_state.queues.get(&(tenant.clone(), name.clone())).and_then(|def| def.limit),
        };
        if let Some(limit) = limit.filter(|limit| starts && held > u64::from(*limit)) {
            found.push(Breach::Limit { tenant, queue, held, limit });
        }
    }
}

fn counts(queue_state: &QueueState, starting: &[(&Entry, u64)], found: &mut Vec<Breach>) {
    let mut tenants: BTreeMap<&TenantName, (usize, bool)> = BTreeMap::new();
    let mut arrays: BTreeMap<&proto_model::JobId, (usize, u32, bool)> = BTreeMap::new();
    let running =
        queue_state.jobs.values().filter(|entry| entry.run().is_some()).map(|entry| (entry.as_ref(), false));
    for (entry, starts) in running.chain(starting.iter().map(|(entry, _)| (*entry, true))) {
        let row = tenants.entry(&entry.id.tenant).or_default();
        (row.0, row.1) = (row.0 + 1, row.1 | starts);
        if let Some(group) = entry.array.as_ref().filter(|group| group.at_once > 0) {
            let row = arrays.entry(&group.array).or_default();
            *row = (row.0 + 1, group.at_once, row.2 | starts);
        }
    }
    for (tenant, (running, starts)) in tenants {
        if let Some(limit) = queue_state.tenants.get(tenant).and_then(|def| def.jobs)
            && starts
            && running > limit as usize
        {
            found.push(Breach::Count { whose: format!("tenant {tenant}"), running, limit });
        }
    }
    for (array, (running, limit, starts)) in arrays {
        if starts && running > limit as usize {
            found.push(Breach::Count { whose: format!("array {array}"), running, limit });
        }
    }
}

/// Adds up anew, job by job, what every user of a service class has.
fn users(queue_state: &QueueState, starting: &[(&Entry, u64)], found: &mut Vec<Breach>) {
    let mut users: BTreeMap<&ClassUser, (usize, u64, bool, bool)> = BTreeMap::new();
    let running = queue_state.jobs.values().filter_map(|entry| {
        let run = entry.run()?;
        let places = run.placement.nodes.iter().chain(&run.placement.spares);
        Some((entry.as_ref(), places.map(|place| place.gpus.len() as u64).sum::<u64>(), false))
    });
    for (entry, gpus, starts) in running.chain(starting.iter().map(|(entry, gpus)| (*entry, *gpus, true))) {
        let Some(user) = &entry.class else { continue };
        let row = users.entry(user).or_default();
        *row = (row.0 + 1, row.1 + gpus, row.2 | starts, row.3 | (starts && gpus > 0));
    }
    for (user, (running, held, starts, takes)) in users {
        let Some(class) = queue_state.classes.get(&user.class) else { continue };
        let whose = format!("user {} in service class {}", user.user, user.class);
        if let Some(limit) = class.jobs.filter(|limit| starts && running > *limit as usize) {
            found.push(Breach::Count { whose, running, limit });
        }
        if let Some(limit) = class.gpus.filter(|limit| takes && held > u64::from(*limit)) {
            found.push(Breach::User { user: user.clone(), held, limit });
        }
    }
}

/// Adds up anew, job by job, what small jobs that may run for long hold; who has a right to its nodes starts whatever they hold.
fn long_jobs(queue_state: &QueueState, starting: &[(&Entry, u64)], found: &mut Vec<Breach>) {
    let Some(limit) = queue_state.policy.long_jobs else { return };
    let is_long = |entry: &Entry| {
        let asked = entry.gpus(entry.need.nodes);
        asked < u64::from(limit.below_gpus) && entry.limit.is_none_or(|time| time >= limit.length)
    };
    let (mut held, mut starts) = (0, false);
    for entry in queue_state.jobs.values().filter(|entry| is_long(entry)) {
        let Some(run) = entry.run() else { continue };
        let places = run.placement.nodes.iter().chain(&run.placement.spares);
        held += places.map(|place| place.gpus.len() as u64).sum::<u64>();
    }
    for (_, gpus) in starting.iter().filter(|(entry, _)| is_long(entry) && !queue_state.has_right(entry.uid))
    {
        held += gpus;
        starts = true;
    }
    if starts && held > u64::from(limit.gpus) {
        found.push(Breach::LongJobs { held, limit });
    }
}

/// How many of each license running jobs hold together, with those that start.
fn held<'a>(
    queue_state: &'a QueueState,
    starting: impl Iterator<Item = &'a Entry>,
) -> BTreeMap<&'a LicenseName, (u64, bool)> {
    let mut held: BTreeMap<&LicenseName, (u64, bool)> = BTreeMap::new();
    let running = queue_state.jobs.values().filter(|entry| entry.run().is_some());
    let running = running.map(|entry| (entry.as_ref(), false));
    for (entry, starts) in running.chain(starting.map(|entry| (entry, true))) {
        for (name, count) in &entry.licenses {
            let row = held.entry(name).or_default();
            *row = (row.0 + u64::from(*count), row.1 | (starts && *count > 0));
        }
    }
    held
}

/// Adds up anew, job by job, what is held of every license. Where there are fewer than that since, nothing more starts.
fn licenses(queue_state: &QueueState, starting: &[(&Entry, u64)], found: &mut Vec<Breach>) {
    for (name, (held, starts)) in held(queue_state, starting.iter().map(|(entry, _)| *entry)) {
        let total = queue_state.licenses.total(name);
        if starts && held > u64::from(total) {
            found.push(Breach::License { name: name.clone(), held, total });
        }
    }
}

/// Whether all licenses that a job asks for are there for it, although others with a right to run get theirs first: a
/// guarantee is of nodes alone.
fn has_licenses(queue_state: &QueueState, acts: &[Act], entry: &Entry) -> bool {
    if entry.licenses.is_empty() {
        return true;
    }
    let first = queue_state.jobs.values().map(AsRef::as_ref).filter(|other| {
        let starts = |act: &Act| matches!(act, Act::Start { uid, .. } if *uid == other.uid);
        let waits = other.state == State::Waiting && other.uid != entry.uid;
        waits && (queue_state.has_right(other.uid) || acts.iter().any(starts))
    });
    let held = held(queue_state, first);
    entry.licenses.iter().all(|(name, count)| {
        let taken = held.get(name).map_or(0, |(held, _)| *held);
        taken + u64::from(*count) <= u64::from(queue_state.licenses.total(name))
    })
}

/// Nodes that are named in a reservation are not taken by a job whose limit reaches into it.
fn reserved<'a>(
    queue_state: &QueueState,
    entry: &Entry,
    nodes: impl Iterator<Item = &'a str>,
    now: Timestamp,
    found: &mut Vec<Breach>,
) {
    let nodes: Vec<&str> = nodes.collect();
    let end = entry.limit.map(|limit| now.plus(limit));
    for (name, def) in &queue_state.reservations {
        let over = def.end() <= now || end.is_some_and(|end| end <= def.start);
        if over || end.is_none() && def.start > now || entry.reservation.as_ref() == Some(name) {
            continue;
        }
        let crate::defs::ReservedNodes::Names(names) = &def.nodes else { continue };
        for node in nodes.iter().filter(|node| names.iter().any(|name| name.as_str() == **node)) {
            found.push(Breach::Reserved { uid: entry.uid, node: (*node).to_owned(), start: def.start });
        }
    }
}
