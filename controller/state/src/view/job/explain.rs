//! The whole reason why a job waits: who holds what it waits for, and the least that would let it start now.

use std::collections::BTreeMap;

use controller_queue::{Budget, QueueState};
use controller_scheduler::{Need, NodeSet, Placer, QueueFacts, WithheldNodes, explain};
use controller_topology::NodeIx;
use proto_model::{
    Eta, JobHold, JobId, JobUid, Phase, Reason, ReasonCode, ReservationNodes, Thing, Timestamp, many,
};

pub use controller_scheduler::{Change, Relaxation, reasons::term_text};

use crate::{rows::job::JobEntry, tables::state::State, view::job::schedule::requeue_causes};

/// So many jobs may wait for each question to be answered by a forecast of its own.
pub const PREDICTED: usize = 4096;

/// Causes that say that a job has no place on what there is at the moment, or by its limits: nobody knows when it will have one.
const NO_PLACE: [ReasonCode; 6] = [
    ReasonCode::GangShape,
    ReasonCode::NodeShape,
    ReasonCode::NodeNotReady,
    ReasonCode::NodeUnschedulable,
    ReasonCode::QuotaTooSmall,
    ReasonCode::RailDrained,
];

/// So many jobs may wait for lists of jobs to be answered by a forecast.
const LISTED: usize = 512;
/// Jobs ahead of one are counted so far.
const AHEAD: usize = 10_000;

/// What is told of a waiting job beside what is stored of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prospect {
    /// When it will probably start.
    pub eta: Option<Eta>,
    /// Why it waits, beside what is stored of that.
    pub reasons: Vec<Reason>,
    /// What is stored of that.
    pub stored: Vec<Reason>,
    /// Who holds it: nobody knows when a job that somebody holds will start.
    pub holds: Vec<JobHold>,
    /// It does not wait any more.
    pub left: bool,
}

/// A job that holds what another one waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The name of the job, with its tenant.
    pub id: JobId,
    /// Nodes that the other could have if it ended.
    pub nodes: u32,
    /// When its time is over, where that is known.
    pub until: Option<Timestamp>,
}

/// What stands in the way of a job that waits, beyond its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Detail {
    /// Nodes of the cluster.
    pub nodes: u32,
    /// Nodes that the job could choose from now.
    pub free: u32,
    /// The most nodes, up to what it asks, that a gang of its kind could have now.
    pub reach: u32,
    /// Who holds what it waits for, those with the most nodes first.
    pub holders: Vec<Holding>,
    /// How many more hold something that `holders` leaves out.
    pub holders_omitted: u32,
    /// The least that would have to be given up for it to start now.
    pub relaxations: Vec<Relaxation>,
    /// When it will probably start.
    pub eta: Option<Eta>,
}

impl State {
    /// What stands in the way of a waiting job.
    pub fn detail(&self, entry: &JobEntry, eta: Option<Eta>, now: Timestamp) -> Detail {
        let (job, snapshot) = (&entry.job, &self.index.snapshot);
        let mut need = Need::of(&job.id.tenant, &job.spec, snapshot);
        // An elastic job starts with the least that it takes.
        need.nodes = job.spec.gang.min_nodes.clamp(1, need.nodes.max(1));
        let reserved = self.reserved(entry, now);
        let kept: Vec<WithheldNodes<'_>> =
            reserved.iter().map(|(thing, nodes)| WithheldNodes { thing, nodes }).collect();
        let tenant = snapshot.tenant(&job.id.tenant);
        let quota = tenant.quota.map(|quota| u64::from(quota).saturating_sub(tenant.held));
        let facts = QueueFacts { kept: &kept, quota };
        let found = explain(snapshot, &mut Placer::default(), &need, &facts, self.holders());
        let holding = |holder: controller_scheduler::Holder<JobUid>| {
            let entry = self.base.jobs.get(&holder.job)?;
            let spec = &entry.job.spec;
            let length = spec.expected.or(spec.time_limit);
            let until = entry.job.status.started.zip(length).map(|(started, length)| started.plus(length));
            Some(Holding { id: entry.job.id.clone(), nodes: holder.nodes, until })
        };
        Detail {
            nodes: found.nodes,
            free: found.free,
            reach: found.reach,
            holders: found.holders.into_iter().filter_map(holding).collect(),
            holders_omitted: found.holders_omitted,
            relaxations: found.relaxations,
            eta,
        }
    }

    /// When a waiting job will probably start. Of a very long queue what the last look at it said, since a forecast looks at
    /// all jobs and the controller does nothing else meanwhile.
    pub fn predicted(&self, uid: JobUid, now: Timestamp) -> Option<Eta> {
        let known = self.index.queue_state.eta(uid);
        if self.index.queue_state.waiting() > PREDICTED && known.is_some() {
            return known;
        }
        let (mut queue_state, mut snapshot) = (self.index.queue_state.clone(), self.index.snapshot.clone());
        let budget = Budget { jobs: self.config.pass_limit, starts: usize::MAX };
        queue_state.plan(&mut snapshot, &mut Placer::default(), now, budget);
        queue_state.forecast(&mut snapshot, &mut Placer::default(), now);
        queue_state.eta(uid)
    }

    /// What is told of jobs in lists; of those that do not wait only that. Of a long queue it is what the last look at it said.
    #[must_use]
    pub fn prospects(&self, ids: &[JobId], now: Timestamp) -> Vec<Prospect> {
        let waiting = |id: &JobId| {
            let entry = self.base.jobs.get(self.index.names.get(id)?)?;
            (entry.job.status.phase == Phase::Pending).then_some(entry)
        };
        let unknown = |entry: &JobEntry| {
            entry.job.status.holds.is_empty() && self.index.queue_state.eta(entry.job.uid).is_none()
        };
        let queue_state = &self.index.queue_state;
        let ask = queue_state.waiting() <= LISTED && ids.iter().filter_map(waiting).any(unknown);
        let forecast = ask.then(|| {
            let (mut queue_state, mut snapshot) = (queue_state.clone(), self.index.snapshot.clone());
            queue_state.forecast(&mut snapshot, &mut Placer::default(), now);
            queue_state
        });
        let queue_state = forecast.as_ref().unwrap_or(queue_state);
        let left = || Prospect { left: true, ..Prospect::default() };
        let prospect = |id| waiting(id).map_or_else(left, |entry| self.prospect(queue_state, entry));
        ids.iter().map(prospect).collect()
    }

    fn prospect(&self, queue_state: &QueueState, entry: &JobEntry) -> Prospect {
        let (uid, reported) = (entry.job.uid, &entry.job.status.reasons);
        let (eta, holds) = (queue_state.eta(uid), entry.job.status.holds.clone());
        // Why its last attempt ended is no cause of waiting.
        if reported.len() > requeue_causes(entry).len() {
            // What was stored may be from before a server closed, and names the begin time or the other job alone, also of one that will
            // have no place then: why there is no expected start is told beside it, unless it is told already.
            let said = reported.iter().any(|reason| NO_PLACE.contains(&reason.code));
            let open_ended = eta.is_none() && entry.job.status.holds.is_empty() && !said;
            let mut more = if open_ended { queue_state.why(uid) } else { Vec::new() };
            more.retain(|reason| reported.iter().all(|known| known.code != reason.code));
            return Prospect { eta, reasons: more, stored: reported.clone(), holds, left: false };
        }
        let mut reasons = queue_state.why(uid);
        if reasons.is_empty() {
            let ahead = self.index.queue.range(..entry.key()).take(AHEAD).count();
            let more = if ahead == AHEAD { " or more" } else { "" };
            let are = if ahead == 1 { "is" } else { "are" };
            let message = format!("{}{more} {are} ahead of it in the queue", many(ahead, "job"));
            reasons.push(Reason::new(ReasonCode::Queued, message).count(ahead));
        }
        Prospect { eta, reasons, stored: reported.clone(), holds, left: false }
    }

    /// Nodes by the jobs that hold something there.
    fn holders(&self) -> BTreeMap<JobUid, Vec<NodeIx>> {
        let mut holders: BTreeMap<JobUid, Vec<NodeIx>> = BTreeMap::new();
        let mut servers = self.index.snapshot.topology().servers().peekable();
        // Both are in the order of names.
        for (name, jobs) in &self.index.holds {
            while servers.next_if(|(_, server)| server.name < *name).is_some() {}
            let Some((node, _)) = servers.next_if(|(_, server)| server.name == *name) else { continue };
            for uid in jobs.keys() {
                holders.entry(*uid).or_default().push(node);
            }
        }
        let topology = self.index.snapshot.topology();
        for (name, jobs) in &self.index.spares {
            let Some(node) = topology.index(name) else { continue };
            for uid in jobs {
                holders.entry(*uid).or_default().push(node);
            }
        }
        holders
    }

    /// Named nodes of reservations that are in force and not the job's.
    fn reserved(&self, entry: &JobEntry, now: Timestamp) -> Vec<(Thing, NodeSet)> {
        let topology = self.index.snapshot.topology();
        let spec = &entry.job.spec;
        let in_force = self.base.reservations.values().filter(|reservation| {
            let over = reservation.start.plus(reservation.duration);
            reservation.start <= now && now < over && spec.reservation.as_ref() != Some(&reservation.name)
        });
        let named = in_force.filter_map(|reservation| match &reservation.nodes {
            ReservationNodes::Names(names) => {
                let nodes = names.iter().filter_map(|name| topology.index(name)).collect();
                let (name, tenants) = (reservation.name.clone(), reservation.tenants.clone());
                Some((Thing::Reservation { name, tenants, maintenance: reservation.maintenance }, nodes))
            }
            ReservationNodes::Count { .. } => None,
        });
        named.collect()
    }
}
