//! One decision, a whole pass over the queue, and what a waiting job keeps for itself.

use std::{cmp::Reverse, collections::BTreeMap};

use proto_model::{JobId, JobSpec, JobUid, Placement, Reason, ReasonCode, TenantName, Timestamp, many};

use crate::{
    choice::{Choice, Time},
    place::{Hidden, Need, Placer},
    rankmap::placement,
    reasons::{infeasible, not_now},
    snapshot::{NodeSet, Snapshot},
};

/// The order of the queue: priority, then age, then identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueKey {
    /// The job's priority: a higher one goes first.
    pub priority: Reverse<i32>,
    /// When the job was submitted: of the same priority the older one goes first.
    pub submitted: Timestamp,
    /// So that no two are equal.
    pub uid: JobUid,
}

/// A job that wants a place.
#[derive(Debug, Clone, Copy)]
pub struct GangRequest<'a> {
    /// Its place in the queue.
    pub key: QueueKey,
    /// The job's tenant and name.
    pub id: &'a JobId,
    /// What it asks for.
    pub spec: &'a JobSpec,
    /// Not to be placed earlier, and why: a requeued job backs off.
    pub not_before: Option<Timestamp>,
}

/// What becomes of a job now.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// The job starts now, with this placement.
    Place(Box<Placement>),
    /// The job waits, for these reasons.
    Wait(Wait),
}

/// Why a job waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wait {
    /// Every cause; first those for which it could never start.
    pub reasons: Vec<Reason>,
    /// How many of `reasons` say that it could never start.
    pub never: usize,
    /// It could never start on this cluster as it is described now.
    pub infeasible: bool,
    /// Its tenant's quota is a cause, and may end without anybody's doing.
    pub quota: bool,
    /// Missing capacity is a cause, and may end without anybody's doing.
    pub capacity: bool,
    /// It backs off; when it may be tried again.
    pub until: Option<Timestamp>,
}

impl Wait {
    /// Adds causes that are about capacity: those that may end by themselves behind the others.
    fn add(&mut self, reasons: Vec<Reason>, infeasible: bool) {
        if infeasible {
            let count = reasons.len();
            self.reasons.splice(self.never..self.never, reasons);
            self.never += count;
        } else {
            self.reasons.extend(reasons);
        }
        self.infeasible |= infeasible;
        self.capacity |= !infeasible;
    }

    /// Whether it would wait even if there were room.
    fn is_blocked(&self) -> bool {
        self.infeasible || self.quota || self.until.is_some()
    }

    fn never(&mut self, reason: Reason) {
        self.reasons.insert(self.never, reason);
        self.never += 1;
        self.infeasible = true;
    }
}

/// Nodes that are kept for the first job that waits for capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The job's place in the queue.
    pub key: QueueKey,
    /// The job that the nodes are kept for.
    pub id: JobId,
    /// The nodes that no later job may take.
    pub nodes: NodeSet,
}

/// Who stands in the way of jobs behind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blocked {
    /// The first job that waits for capacity.
    pub head: Option<Reservation>,
    /// Per tenant the first job that waits for quota.
    pub tenants: BTreeMap<TenantName, (QueueKey, JobId)>,
}

/// A pass over the queue in its order. Between two decisions the snapshot may only lose capacity.
#[derive(Debug, Clone, Default)]
pub struct Pass {
    blocked: Blocked,
    /// Jobs that ask alike fail alike while nothing is freed.
    failed: BTreeMap<Need, (Vec<Reason>, bool)>,
    summary: bool,
    placer: Placer,
    choice: Choice,
    /// The nodes that the first blocked job keeps, once they were looked up.
    kept: Option<Hidden>,
}

impl Pass {
    /// From here on only whether a job starts is asked, not every reason why it waits: the rest of a long queue.
    pub fn be_summary(&mut self) {
        self.summary = true;
    }

    /// A pass that goes on behind jobs that were looked at before, or a single look at one job.
    #[must_use]
    pub fn resume(blocked: Blocked) -> Self {
        Self { blocked, ..Self::default() }
    }

    /// The same with a placer that remembers what it saw.
    #[must_use]
    pub fn with_placer(mut self, placer: Placer) -> Self {
        self.placer = placer;
        self
    }

    /// Ends the pass, and gives the placer back.
    #[must_use]
    pub fn into_parts(self) -> (Blocked, Placer) {
        (self.blocked, self.placer)
    }

    /// Who stands in the way now.
    #[must_use]
    pub fn blocked(&self) -> &Blocked {
        &self.blocked
    }

    /// Ends the pass and gives what kept jobs waiting in it.
    #[must_use]
    pub fn into_blocked(self) -> Blocked {
        self.blocked
    }

    /// What becomes of one job. If it is placed, the caller holds the placement in the snapshot before the next one.
    pub fn decide(&mut self, snapshot: &Snapshot, ask: &GangRequest<'_>, now: Timestamp) -> Decision {
        let mut wait = Wait::default();
        self.quota(snapshot, ask, &mut wait);
        if let Some(until) = ask.not_before.filter(|until| *until > now) {
            wait.until = Some(until);
            let message =
                || format!("the job was requeued and is tried again in {} ms", until.since(now).as_millis());
            self.say(&mut wait, || Reason::new(ReasonCode::RequeueBackoff, message()).since(now));
        }
        let need = Need::of(&ask.id.tenant, ask.spec, snapshot).as_asked(snapshot.capacity_index());
        // What failed for one ahead fails for one behind: capacity only shrinks, and only more nodes are kept.
        let in_order = self.blocked.head.as_ref().is_none_or(|head| head.key < ask.key);
        if let Some((reasons, infeasible)) = self.failed.get(&need).filter(|_| in_order) {
            wait.add(if self.summary { Vec::new() } else { reasons.clone() }, *infeasible);
        } else if !(self.summary && self.is_settled(ask, &wait)) {
            if !self.choose(snapshot, &need, in_order) {
                self.no_room(snapshot, &need, in_order, &mut wait);
            } else if !wait.is_blocked() {
                let mut placement = placement(snapshot, ask.spec, &self.choice);
                placement.reasons = self.why(snapshot, &need, &placement);
                return Decision::Place(Box::new(placement));
            }
        }
        self.note(snapshot, ask, &need, &wait);
        Decision::Wait(wait)
    }

    /// Why one job could never start, whoever else is there; empty if it could.
    pub fn never(&mut self, snapshot: &Snapshot, ask: &GangRequest<'_>) -> Vec<Reason> {
        let mut wait = Wait::default();
        self.quota(snapshot, ask, &mut wait);
        wait.reasons.truncate(wait.never);
        let need = Need::of(&ask.id.tenant, ask.spec, snapshot).as_asked(snapshot.capacity_index());
        if !self.choose(snapshot, &need, true) {
            wait.reasons.extend(infeasible(snapshot, &need, &mut self.placer));
        }
        wait.reasons
    }

    /// Whether there is a gang now, in `choice`.
    fn choose(&mut self, snapshot: &Snapshot, need: &Need, in_order: bool) -> bool {
        let capacity_index = snapshot.capacity_index();
        if let Some(head) = self.blocked.head.as_ref().filter(|_| in_order)
            && self.kept.is_none()
        {
            self.kept = Some(Hidden::of(capacity_index, head.nodes.iter()));
        }
        let kept = self.kept.as_ref().filter(|_| in_order);
        self.placer.choose(capacity_index, need, kept, &mut self.choice)
    }

    fn no_room(&mut self, snapshot: &Snapshot, need: &Need, in_order: bool, wait: &mut Wait) {
        let mut reasons = infeasible(snapshot, need, &mut self.placer);
        let infeasible = !reasons.is_empty();
        if !infeasible {
            let kept = self.blocked.head.as_ref().filter(|_| in_order).map(|head| (&head.nodes, &head.id));
            reasons = not_now(snapshot, need, kept);
            if reasons.is_empty() {
                // Counting says that there is room, and no way to lie in it was found.
                let message = if need.components.is_empty() {
                    "there are nodes enough, no way was found to lay the gang out on them"
                } else {
                    "there are nodes enough for each component by itself, not for all of them together"
                };
                reasons.push(Reason::new(ReasonCode::GangCapacity, message));
            }
        }
        if in_order {
            self.failed.insert(need.clone(), (reasons.clone(), infeasible));
        }
        wait.add(reasons, infeasible);
    }

    fn quota(&self, snapshot: &Snapshot, ask: &GangRequest<'_>, wait: &mut Wait) {
        let asked = ask.spec.gpus(ask.spec.gang.nodes);
        let tenant = &ask.id.tenant;
        let used = snapshot.tenant(tenant);
        let scope = || format!("tenant/{tenant}");
        let Some(quota) = used.quota else {
            let unknown = Reason::new(ReasonCode::TenantUnknown, format!("there is no tenant '{tenant}'"));
            wait.never(unknown.scope(scope()));
            return;
        };
        if asked == 0 {
            return;
        }
        if asked > u64::from(quota) {
            let message = format!(
                "the job asks for {} in all, the quota of tenant '{tenant}' is {quota}",
                many(asked, "GPU")
            );
            wait.never(Reason::new(ReasonCode::QuotaTooSmall, message).scope(scope()));
        } else if used.held + asked > u64::from(quota) {
            wait.quota = true;
            let count = usize::try_from(used.held + asked - u64::from(quota)).unwrap_or(usize::MAX);
            let held = used.held;
            let message = || {
                let quota = many(quota, "GPU");
                format!("tenant '{tenant}' holds {held} of its {quota}, the job asks for {asked}")
            };
            self.say(wait, || Reason::new(ReasonCode::QuotaExceeded, message()).count(count).scope(scope()));
        } else if let Some((_, ahead)) = self.blocked.tenants.get(tenant).filter(|(key, _)| *key < ask.key) {
            wait.quota = true;
            let message =
                || format!("job '{ahead}' of the same tenant is ahead and waits for the tenant's quota");
            self.say(wait, || Reason::new(ReasonCode::QuotaAhead, message()).scope(format!("job/{ahead}")));
        }
    }

    /// Whether room would change nothing, neither for the job nor for those behind it.
    fn is_settled(&self, ask: &GangRequest<'_>, wait: &Wait) -> bool {
        let ahead = self.blocked.tenants.get(&ask.id.tenant).is_some_and(|(key, _)| *key < ask.key);
        wait.infeasible || wait.until.is_some() || (wait.quota && ahead)
    }

    fn say(&self, wait: &mut Wait, reason: impl FnOnce() -> Reason) {
        if !self.summary {
            wait.reasons.push(reason());
        }
    }

    /// Remembers who stands in the way of those behind.
    fn note(&mut self, snapshot: &Snapshot, ask: &GangRequest<'_>, need: &Need, wait: &Wait) {
        if wait.infeasible || wait.until.is_some() {
            return;
        }
        if wait.quota {
            let first = self.blocked.tenants.get(&ask.id.tenant).is_none_or(|(key, _)| ask.key < *key);
            if first {
                self.blocked.tenants.insert(ask.id.tenant.clone(), (ask.key, ask.id.clone()));
            }
        } else if wait.capacity
            && self.blocked.head.as_ref().is_none_or(|head| ask.key < head.key)
            && self.placer.choose_at(snapshot.capacity_index(), need, None, Time::Ended, &mut self.choice)
        {
            // The nodes to keep for a job that must wait for others to end: a gang that it could have if they were
            // idle, of nodes that take jobs, the freest first. If waiting for ends alone cannot help, nothing idles.
            let nodes: NodeSet = self.choice.nodes.iter().map(|pick| pick.node).collect();
            self.blocked.head = Some(Reservation { key: ask.key, id: ask.id.clone(), nodes });
            self.failed.clear();
            self.kept = None;
        }
    }

    /// The reasons for a placement that this pass chose, with the free nodes that it could choose from.
    fn why(&mut self, snapshot: &Snapshot, need: &Need, placement: &Placement) -> Vec<Reason> {
        let free = self.placer.free(snapshot.capacity_index(), need, self.choice.rails, self.kept.as_ref());
        why(snapshot, need, placement, usize::try_from(free).unwrap_or(usize::MAX))
    }
}

/// The reasons for a placement that is the best of so many `candidates`, which are free nodes.
fn why(snapshot: &Snapshot, need: &Need, placement: &Placement, candidates: usize) -> Vec<Reason> {
    let pods: std::collections::BTreeSet<&str> =
        placement.nodes.iter().map(|node| node.pod.as_str()).collect();
    let rails: controller_topology::RailSet = placement.rails.iter().copied().collect();
    let place = if snapshot.topology().has_document() {
        format!("in the fewest pods possible: {}", pods.into_iter().collect::<Vec<_>>().join(", "))
    } else {
        "in the one pod of a cluster without fabric document".to_owned()
    };
    let nics = match rails.len() {
        0 => "the job asks for no rails".to_owned(),
        1 => format!("every node has a NIC that is up on rail {rails}"),
        _ => format!("every node has a NIC that is up on each of rails {rails}"),
    };
    let message = format!("{} of {}, {place}; {nics}", need.nodes, many(candidates, "free node"));
    let best = Reason::new(ReasonCode::BestFit, message).count(candidates);
    std::iter::once(best).chain(drained_reason(snapshot, placement)).collect()
}

/// `DrainedRails`: that a placement uses rails that are drained, on how many nodes, and which on the first of them.
#[must_use]
pub fn drained_reason(snapshot: &Snapshot, placement: &Placement) -> Option<Reason> {
    if !snapshot.has_drained() {
        return None;
    }
    let rails: controller_topology::RailSet = placement.rails.iter().copied().collect();
    let mut ports = placement.nodes.iter().filter_map(|place| {
        let drained = snapshot.drained(&place.node).and(rails);
        (!drained.is_empty()).then_some((&place.node, drained))
    });
    let (node, drained) = ports.next()?;
    let count = ports.count();
    let others = match count {
        0 => String::new(),
        _ => format!(" and on {}", many(count, "other node")),
    };
    let what = if drained.len() == 1 { "rail" } else { "rails" };
    let message =
        format!("no gang without drained rails can be had: {what} {drained} drained on {node}{others}");
    Some(Reason::new(ReasonCode::DrainedRails, message).count(count + 1))
}

/// Decides for every job of a queue, which must be in its order. Pure: the snapshot is not changed.
#[must_use]
pub fn solve(snapshot: &Snapshot, queue: &[GangRequest<'_>], now: Timestamp) -> Vec<Decision> {
    let mut snapshot = snapshot.clone();
    let mut pass = Pass::default();
    queue
        .iter()
        .map(|ask| {
            let decision = pass.decide(&snapshot, ask, now);
            if let Decision::Place(placement) = &decision {
                snapshot.hold(&ask.id.tenant, placement);
            }
            decision
        })
        .collect()
}
