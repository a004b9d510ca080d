//! One look at the queue: in its order every job gets its planned start, and those that start now do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_scheduler::{Choice, Hidden, Need, NodeSet, Placer, Snapshot, rankmap};
use controller_topology::NodeIx;
use proto_model::{CommandSpec, Eta, Gang, JobSpec, JobUid, Placement, Reason, TenantName, Timestamp, Work};

use crate::{
    book::Book,
    defs::{Act, Budget},
    entry::Entry,
    order::Order,
    plan::{Plan, Wish},
    preempt::Victims,
    private::Privates,
    reserve::Kept,
    why::{Cause, Why},
};

/// Smaller gangs of an elastic job that are tried.
const SIZES: usize = 8;

/// Tries to make room in one pass.
const ROOMS: usize = 4;

impl Book {
    /// What is to be done now. The snapshot is as the cluster is; it is changed meanwhile and put back.
    pub fn pass(
        &mut self,
        snapshot: &mut Snapshot,
        placer: &mut Placer,
        now: Timestamp,
        budget: Budget,
    ) -> Vec<Act> {
        self.keep_guarantees(snapshot, now);
        self.look(snapshot, placer, now, budget, true)
    }

    /// Only looks: when every waiting job will probably start, and why it waits. What a pass would do is not done.
    pub fn forecast(&mut self, snapshot: &mut Snapshot, placer: &mut Placer, now: Timestamp) -> Vec<Act> {
        let marks = self.marks.clone();
        self.keep_guarantees(snapshot, now);
        let acts = self.look(snapshot, placer, now, Budget::ALL, false);
        self.restore(marks);
        acts
    }

    fn look(
        &mut self,
        snapshot: &mut Snapshot,
        placer: &mut Placer,
        now: Timestamp,
        budget: Budget,
        brief: bool,
    ) -> Vec<Act> {
        self.find_nodes(snapshot);
        let mut pass = Pass::new(self, snapshot, placer, now, budget, brief);
        pass.run();
        let Found { acts, seen, next, privates } = pass.finish();
        self.marks.privates = privates;
        self.cache.next = next;
        self.cache.seen.extend(seen);
        acts
    }

    /// The numbers of the nodes on which jobs run.
    fn find_nodes(&mut self, snapshot: &Snapshot) {
        let topology = snapshot.topology();
        let cluster = (topology.len(), topology.slots());
        if self.cache.cluster != cluster {
            self.cache.nodes.clear();
            self.cache.cluster = cluster;
        }
        for uid in &self.running {
            if self.cache.nodes.contains_key(uid) {
                continue;
            }
            let Some(run) = self.jobs.get(uid).and_then(|entry| entry.run()) else { continue };
            let places = run.placement.nodes.iter().chain(&run.placement.spares);
            let nodes: Vec<(NodeIx, u32)> = places
                .filter_map(|place| {
                    let gpus = u32::try_from(place.gpus.len()).unwrap_or(u32::MAX);
                    Some((topology.index(&place.node)?, gpus))
                })
                .collect();
            self.cache.nodes.insert(*uid, nodes.into());
        }
    }
}

/// What a pass has found.
pub(crate) struct Pass<'a> {
    pub(crate) book: &'a Book,
    pub(crate) snapshot: &'a mut Snapshot,
    pub(crate) placer: &'a mut Placer,
    pub(crate) now: Timestamp,
    budget: Budget,
    /// It ends when nothing more can start.
    brief: bool,
    pub(crate) kept: Kept<'a>,
    pub(crate) plan: Plan,
    acts: Vec<Act>,
    seen: Vec<(JobUid, Why)>,
    next: Option<Timestamp>,
    /// What was started, to be put back.
    held: Vec<(TenantName, Placement)>,
    pub(crate) choice: Choice,
    /// Jobs that ask alike fail alike, while nothing is freed; with the reservations that were in their way.
    failed: BTreeSet<(Need, usize)>,
    starts: usize,
    rooms: usize,
    /// Who yields in this pass.
    pub(crate) yielding: BTreeSet<JobUid>,
    /// Nodes that are bound to guarantees.
    bound: NodeSet,
    /// The private clusters; what they are bound to may change.
    pub(crate) privates: Privates,
    /// GPUs of queues and tenants that jobs that start in this pass hold.
    more: BTreeMap<(TenantName, Option<proto_model::QueueName>), u64>,
}

/// What one try at a start led to.
enum Try {
    Started,
    /// It would take from what is planned.
    Planned,
    /// No gang.
    Scattered,
}

impl<'a> Pass<'a> {
    fn new(
        book: &'a Book,
        snapshot: &'a mut Snapshot,
        placer: &'a mut Placer,
        now: Timestamp,
        budget: Budget,
        brief: bool,
    ) -> Self {
        let kept = Kept::new(book, snapshot, now);
        let plan = Plan::new(book, snapshot, &kept, now, !brief);
        Self {
            bound: book.marks.privates.bound_nodes(),
            privates: book.marks.privates.clone(),
            book,
            snapshot,
            placer,
            now,
            budget,
            brief,
            kept,
            plan,
            acts: Vec::new(),
            seen: Vec::new(),
            next: None,
            held: Vec::new(),
            choice: Choice::default(),
            failed: BTreeSet::new(),
            starts: 0,
            rooms: 0,
            yielding: BTreeSet::new(),
            more: BTreeMap::new(),
        }
    }

    fn run(&mut self) {
        let book = self.book;
        let entitled = if book.policy.reclaim { book.marks.privates.entitled(book) } else { BTreeSet::new() };
        let size = (u64::from(self.pod_size()), u64::from(self.plan.node_gpus));
        let mut order = Order::new(book, entitled, self.now, size);
        let lowest = self.lowest_running();
        let mut ahead = 0;
        while ahead < self.budget.jobs
            && let Some(entry) = order.next()
        {
            let mut why = Why { ahead, looked: self.now, ..Why::default() };
            ahead += 1;
            let started = self.one(entry, order.is_entitled(entry.uid), &mut why);
            if !started {
                if self.brief && why.eta.is_none() {
                    why.eta = book.cache.seen.get(&entry.uid).and_then(|old| old.eta);
                }
                self.seen.push((entry.uid, why));
            }
            let nothing = self.plan.free_now() == (0, 0) || self.starts >= self.budget.starts;
            if self.brief && nothing && lowest >= entry.priority && self.kept.rows.is_empty() {
                break;
            }
        }
        self.wake_for_reservations();
        if let Some(time) = book.marks.privates.next_event() {
            self.wake(time);
        }
        if ahead == 0 || self.acts.is_empty() && book.waiting.is_empty() {
            self.grow();
        }
    }

    /// The lowest priority of a running job that may be stopped for a higher one.
    fn lowest_running(&self) -> i32 {
        if !self.book.policy.preemption {
            return i32::MAX;
        }
        let jobs = self.book.running.iter().filter_map(|uid| self.book.jobs.get(uid));
        jobs.filter(|entry| entry.preemption.preemptible)
            .map(|entry| entry.priority)
            .min()
            .unwrap_or(i32::MAX)
    }

    fn pod_size(&self) -> u32 {
        let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
        if !self.book.queues.is_empty() {
            for node in self.plan.nodes.iter().filter(|node| node.gpus > 0) {
                *sizes.entry(node.pod).or_default() += 1;
            }
        }
        sizes.into_values().max().unwrap_or(0)
    }

    fn wake(&mut self, time: Timestamp) {
        if time > self.now {
            self.next = Some(self.next.map_or(time, |next| next.min(time)));
        }
    }

    fn wake_for_reservations(&mut self) {
        let times: Vec<Timestamp> =
            self.kept.rows.values().flat_map(|(def, _)| [def.start, def.end()]).collect();
        times.into_iter().for_each(|time| self.wake(time));
    }

    /// One job. True if it starts.
    fn one(&mut self, entry: &'a Arc<Entry>, entitled: bool, why: &mut Why) -> bool {
        let not_before = entry.not_before.filter(|time| *time > self.now);
        if let Some(time) = not_before {
            why.causes.push(Cause::NotBefore(time));
            self.wake(time);
        }
        if !entry.hold.is_empty() {
            why.causes.push(Cause::Held);
        }
        let Some(path) = self.book.path(entry) else {
            let tenant = self.book.tenants.contains_key(&entry.id.tenant);
            why.causes.push(if tenant { Cause::QueueUnknown } else { Cause::TenantUnknown });
            return false;
        };
        let mut wish = self.wish(entry, entry.min_nodes);
        wish.quotas = self.plan.limits(self.book, entry, &path, self.now);
        wish.from = not_before.map_or(0, |time| self.plan.grid.ceil(time));
        why.causes.extend(self.plan.never(&wish).map(Cause::LimitTooSmall));
        let nodes = self.plan.class_nodes(wish.class);
        if nodes < wish.nodes {
            why.causes.push(Cause::Shape(nodes));
        }
        if entry.reservation.is_some() {
            return self.reserved(entry, &wish, why);
        }
        if why.is_final() || nodes < wish.nodes {
            return false;
        }
        self.plan.need_places(wish.within, &self.kept);
        if !entry.hold.is_empty() {
            self.held_back(entry, &wish, why);
            return false;
        }
        if entitled && not_before.is_none() {
            return self.start_entitled(entry, wish, why);
        }
        let grown = if not_before.is_none() { self.grown(entry, &wish) } else { wish.clone() };
        let planned = self.plan.earliest(&grown);
        match planned {
            Some((0, _)) if not_before.is_none() => {
                if self.starts >= self.budget.starts {
                    why.causes.push(Cause::Later);
                } else {
                    match self.start(entry, &grown, why) {
                        Try::Started => return true,
                        Try::Planned => why.causes.push(Cause::Planned),
                        Try::Scattered => why.causes.push(Cause::Scattered),
                    }
                }
            }
            _ => self.say(entry, &path, &wish, why),
        }
        let planned = if self.make_room(entry, &wish, planned.map(|(step, _)| step), why) {
            self.plan.earliest(&wish)
        } else {
            planned
        };
        self.plan_for(entry, &wish, planned, why);
        false
    }

    /// Puts the job into the plan, and says when it will start.
    pub(crate) fn plan_for(
        &mut self,
        entry: &Entry,
        wish: &Wish,
        planned: Option<(usize, Option<usize>)>,
        why: &mut Why,
    ) {
        let Some((step, place)) = planned else { return };
        self.plan.take(wish, step, place);
        // What did not start now although the plan has room for it waits for the next end at least.
        why.eta = Some(self.eta(entry, self.plan.grid.start(step)));
    }

    fn eta(&self, entry: &Entry, start: Timestamp) -> Eta {
        let wait = start.since(self.now);
        let [low, middle, high] = self.book.marks.ledger.error(&entry.id.tenant);
        let at = |part: u32| self.now.plus(wait * part / 1000);
        Eta { start: at(middle), earliest: at(low.min(middle)), latest: at(high.max(middle)) }
    }

    /// A job that is held: it could start when those that it waits for have come so far.
    fn held_back(&mut self, entry: &Entry, wish: &Wish, why: &mut Why) {
        let mut latest = None;
        for uid in &entry.after {
            let Some(other) = self.book.jobs.get(uid) else { continue };
            let end = if other.run().is_some() {
                Some(self.book.end(other, self.now))
            } else {
                let seen = self.seen.iter().rev().find(|(seen, _)| seen == uid).map(|(_, why)| why.eta);
                let eta = seen.unwrap_or_else(|| self.book.eta(*uid));
                eta.map(|eta| eta.start.plus(self.book.length(other)))
            };
            latest = latest.max(end);
        }
        if let Some(time) = latest {
            let wish = Wish { from: self.plan.grid.floor(time).max(wish.from), ..wish.clone() };
            why.eta = self.plan.earliest(&wish).map(|(step, _)| self.eta(entry, self.plan.grid.start(step)));
        }
    }

    fn wish(&mut self, entry: &Entry, nodes: u32) -> Wish {
        let whole = self.plan.is_whole(&entry.need);
        Wish {
            nodes: nodes + entry.need.spares,
            gpus: entry.need.gpus,
            whole,
            class: self.plan.class(&entry.need, self.snapshot, &self.kept),
            within: entry.need.within,
            quotas: Vec::new(),
            length: self.book.length(entry),
            from: 0,
        }
    }

    /// As many nodes as an elastic job can have now.
    fn grown(&self, entry: &Entry, wish: &Wish) -> Wish {
        if entry.min_nodes >= entry.need.nodes {
            return wish.clone();
        }
        let most = self.plan.most(wish).saturating_sub(entry.need.spares);
        let nodes = fitting(entry, most.min(entry.need.nodes)).max(entry.min_nodes);
        Wish { nodes: nodes + entry.need.spares, ..wish.clone() }
    }

    /// Every cause for which a job does not start now.
    fn say(&self, entry: &Entry, path: &[Option<proto_model::QueueName>], wish: &Wish, why: &mut Why) {
        let before = why.causes.len();
        let tenant = &entry.id.tenant;
        let asked = entry.gpus(entry.min_nodes);
        for queue in path {
            let Some(limit) = self.book.limit(tenant, queue.as_ref()).map(u64::from) else { continue };
            let held = self.held_by(tenant, queue.as_ref());
            if held + asked > limit && asked <= limit {
                why.causes.push(Cause::Limit { queue: queue.clone(), held, limit });
            }
        }
        let running = |matches: &dyn Fn(&Entry) -> bool| {
            let jobs = self.book.running.iter().filter_map(|uid| self.book.jobs.get(uid));
            u32::try_from(jobs.filter(|other| matches(other)).count()).unwrap_or(u32::MAX)
        };
        if let Some(limit) = self.book.tenants.get(tenant).and_then(|def| def.jobs)
            && running(&|other| other.id.tenant == *tenant) >= limit
        {
            why.causes.push(Cause::Jobs(limit));
        }
        if let Some(group) = entry.array.as_ref().filter(|group| group.at_once > 0)
            && running(&|other| other.array.as_ref() == Some(group)) >= group.at_once
        {
            why.causes.push(Cause::AtOnce(group.at_once));
        }
        let (quota, room) = self.plan.room(wish);
        if !quota && why.causes.len() == before {
            why.causes.push(Cause::LimitAhead);
        }
        let (nodes, gpus) = self.plan.free_now();
        if room {
            if quota && why.causes.is_empty() {
                why.causes.push(Cause::Planned);
            }
        } else {
            let count = |value: i32| u32::try_from(value).unwrap_or(0);
            why.causes.push(Cause::Capacity { nodes: count(nodes), gpus: count(gpus) });
        }
        let in_the_way = self.kept.in_the_way(entry, self.now, wish.length);
        why.causes.extend(in_the_way.map(|(name, _)| Cause::Reserved(name.clone())));
    }

    /// GPUs that a queue, with those below it, or a tenant holds.
    fn held_by(&self, tenant: &TenantName, queue: Option<&proto_model::QueueName>) -> u64 {
        let inside = |entry: &&Arc<Entry>| {
            entry.id.tenant == *tenant
                && (queue.is_none()
                    || self.book.path(entry).is_some_and(|path| path.iter().any(|at| at.as_ref() == queue)))
        };
        let jobs = self.book.running.iter().filter_map(|uid| self.book.jobs.get(uid));
        let held: u64 =
            jobs.filter(inside).filter_map(|entry| entry.run()).map(crate::entry::Run::gpus).sum();
        held + self.more.get(&(tenant.clone(), queue.cloned())).copied().unwrap_or(0)
    }

    /// Nodes that a job must not have, because it would run into what is kept for others.
    pub(crate) fn forbidden(&self, entry: &Entry, length: Duration) -> Vec<NodeIx> {
        let length = entry.limit.unwrap_or(length).max(length);
        self.kept.in_the_way(entry, self.now, length).flat_map(|(_, nodes)| nodes.iter()).collect()
    }

    /// Tries to start a job now: first where no guarantee is bound, then anywhere.
    fn start(&mut self, entry: &'a Arc<Entry>, wish: &Wish, why: &mut Why) -> Try {
        let forbidden = self.forbidden(entry, wish.length);
        let mut nodes = wish.nodes - entry.need.spares;
        let mut last = Try::Scattered;
        for _ in 0..SIZES {
            let need = Need { nodes, ..entry.need.clone() };
            let wish = Wish { nodes: nodes + need.spares, ..wish.clone() };
            let rounds: &[bool] = if self.bound.is_empty() { &[false] } else { &[true, false] };
            for apart in rounds {
                let mut hidden = forbidden.clone();
                if *apart {
                    hidden.extend(self.bound.iter());
                }
                match self.start_beside(entry, &need, &wish, hidden) {
                    Try::Started => return Try::Started,
                    other => last = other,
                }
            }
            let smaller = fitting(entry, nodes.saturating_sub(nodes.div_ceil(8)));
            if smaller < entry.min_nodes || nodes <= entry.min_nodes {
                break;
            }
            nodes = smaller.max(entry.min_nodes);
        }
        if !forbidden.is_empty() {
            let in_the_way = self.kept.in_the_way(entry, self.now, wish.length);
            why.causes.extend(in_the_way.map(|(name, _)| Cause::Reserved(name.clone())));
        }
        last
    }

    /// Tries to start a job beside some nodes.
    fn start_beside(&mut self, entry: &'a Arc<Entry>, need: &Need, wish: &Wish, hidden: Vec<NodeIx>) -> Try {
        let key = (need.clone(), hidden.len());
        let mut hidden = hidden;
        if self.failed.contains(&key) {
            return Try::Scattered;
        }
        for round in 0..4 {
            let nodes = Hidden::of(self.snapshot.yard(), hidden.iter().copied());
            if !self.placer.choose(self.snapshot.yard(), need, Some(&nodes), &mut self.choice) {
                if round == 0 {
                    self.failed.insert(key);
                    return Try::Scattered;
                }
                return Try::Planned;
            }
            let picks = picks(&self.choice);
            match self.plan.allows(&picks, wish) {
                Ok(()) => {
                    self.begin(entry, wish, &picks);
                    return Try::Started;
                }
                Err(Some(pod)) => {
                    let inside = |(_, node): &(usize, &crate::plan::Node)| node.pod == pod;
                    let nodes = self.plan.nodes.iter().enumerate().filter(inside);
                    hidden.extend(nodes.map(|(at, _)| NodeIx::at(at)));
                }
                // A node would be broken into that is planned for somebody: rather one that is broken into already.
                Err(None) if !wish.whole && round == 0 => {
                    let idle = |(_, node): &(usize, &crate::plan::Node)| node.whole_at == 0;
                    let nodes = self.plan.nodes.iter().enumerate().filter(idle);
                    hidden.extend(nodes.map(|(at, _)| NodeIx::at(at)));
                }
                Err(None) => return Try::Planned,
            }
        }
        Try::Planned
    }

    /// The job starts on what was chosen.
    pub(crate) fn begin(&mut self, entry: &'a Arc<Entry>, wish: &Wish, picks: &[(NodeIx, u32)]) {
        let nodes = u32::try_from(self.choice.nodes.len()).unwrap_or(u32::MAX);
        let gang = Gang::new(nodes, entry.need.gpus, entry.ranks_per_node);
        let work = CommandSpec { argv: Vec::new(), env: BTreeMap::new(), working_dir: String::new() };
        let spec = JobSpec::new(gang, Work::Command(work));
        let mut placement = rankmap::placement(self.snapshot, &spec, &self.choice);
        placement.reasons = vec![self.why_here(&placement)];
        self.snapshot.hold(&entry.id.tenant, &placement);
        self.plan.occupy(picks, wish);
        self.starts += 1;
        for queue in self.book.path(entry).into_iter().flatten() {
            *self.more.entry((entry.id.tenant.clone(), queue)).or_default() += entry.gpus(nodes);
        }
        self.held.push((entry.id.tenant.clone(), placement.clone()));
        self.acts.push(Act::Start { uid: entry.uid, placement });
    }

    fn why_here(&self, placement: &Placement) -> Reason {
        let (nodes, pods, cut) = (placement.nodes.len(), placement.pods, placement.cut);
        let place = if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
        let rails: Vec<String> = placement.rails.iter().map(u32::to_string).collect();
        let rails = rails.join(",");
        Reason::new(
            "BestFit",
            format!(
                "{nodes} nodes in {place}, the best fit of those that are free; a cut of {cut}; every node has a NIC that is up on each of rails {rails}"
            ),
        )
        .count(nodes)
    }

    pub(crate) fn may_start(&self) -> bool {
        self.starts < self.budget.starts
    }

    /// A job of a reservation: on its nodes only, and only while it lasts.
    fn reserved(&mut self, entry: &'a Arc<Entry>, wish: &Wish, why: &mut Why) -> bool {
        let row = entry.reservation.as_ref().and_then(|name| self.kept.rows.get(name));
        let Some((def, nodes)) = row else {
            let known =
                entry.reservation.as_ref().is_some_and(|name| self.book.reservations.contains_key(name));
            why.causes.push(if known { Cause::ReservationClosed } else { Cause::ReservationUnknown });
            return false;
        };
        if def.maintenance || !def.tenants.contains(&entry.id.tenant) {
            why.causes.push(Cause::ReservationClosed);
            return false;
        }
        why.eta = Some(self.eta(entry, def.start.max(self.now)));
        if def.start > self.now {
            why.causes.push(Cause::ReservationAhead(def.start));
        }
        if !why.causes.is_empty() {
            return false;
        }
        let inside = |at: &NodeIx| !nodes.has(*at);
        let hidden: Vec<NodeIx> = (0..self.plan.nodes.len()).map(NodeIx::at).filter(inside).collect();
        let (quota, _) = self.plan.room(wish);
        if quota && self.may_start() {
            let hidden = Hidden::of(self.snapshot.yard(), hidden.iter().copied());
            let need = Need { nodes: wish.nodes - entry.need.spares, ..entry.need.clone() };
            if self.placer.choose(self.snapshot.yard(), &need, Some(&hidden), &mut self.choice) {
                let picks = picks(&self.choice);
                self.begin(entry, wish, &picks);
                return true;
            }
        }
        let free = nodes.iter().filter(|ix| self.plan.nodes[ix.index()].whole_at == 0).count();
        why.causes.push(Cause::Capacity { nodes: u32::try_from(free).unwrap_or(u32::MAX), gpus: 0 });
        false
    }

    /// Stops jobs of lower priority for this one, if it would otherwise wait. True if so.
    fn make_room(
        &mut self,
        entry: &'a Arc<Entry>,
        wish: &Wish,
        planned: Option<usize>,
        why: &mut Why,
    ) -> bool {
        let policy = &self.book.policy;
        let reclaim = self.under_guarantee(entry);
        if !(policy.preemption || reclaim)
            || self.rooms >= ROOMS
            || entry.not_before.is_some_and(|time| time > self.now)
        {
            return false;
        }
        let (quota, _) = self.plan.room(wish);
        if !quota || !self.may_start() {
            return false;
        }
        let victims = Victims::for_priority(self, entry, reclaim);
        // Who would start as soon as anybody could have made room waits.
        let soon = victims.longest_grace(self.book);
        if victims.is_empty()
            || planned.is_some_and(|step| step > 0 && self.plan.grid.start(step) <= self.now.plus(soon))
        {
            return false;
        }
        self.rooms += 1;
        let forbidden = self.forbidden(entry, wish.length);
        let Some(chosen) = victims.choose(self, entry, wish, &forbidden) else { return false };
        self.stop(entry, &chosen, "PreemptedForPriority", why);
        true
    }

    /// Jobs are stopped for another; from the end of their grace on what they hold counts as free.
    pub(crate) fn stop(&mut self, entry: &Entry, chosen: &[JobUid], code: &'static str, why: &mut Why) {
        why.causes.push(Cause::Yielding(chosen.to_vec()));
        for uid in chosen {
            let Some(victim) = self.book.jobs.get(uid) else { continue };
            self.yielding.insert(*uid);
            let message = format!("stopped for job '{}' of priority {}", entry.id, entry.priority);
            let reasons = vec![Reason::new(code, message).scope(format!("job/{}", entry.id))];
            let (grace, signal) = (victim.grace, victim.preemption.signal);
            let from = self.plan.grid.floor(self.now.plus(grace));
            if let Some(nodes) = self.book.cache.nodes.get(uid) {
                self.plan.free(nodes.iter().map(|(node, _)| *node), from);
            }
            let held = victim.nodes_held();
            let act = if victim.min_nodes < held && code == "PreemptedForPriority" {
                let nodes = self.shrunk(entry, victim, held);
                Act::Shrink { victim: *uid, nodes, by: entry.uid, grace, signal, reasons }
            } else {
                Act::Preempt { victim: *uid, by: entry.uid, grace, signal, reasons }
            };
            self.acts.push(act);
        }
    }

    /// With how many nodes an elastic job can go on beside the one that it makes room for.
    fn shrunk(&self, entry: &Entry, victim: &Entry, held: u32) -> u32 {
        let wanted = held.saturating_sub(entry.min_nodes + entry.need.spares);
        fitting(victim, wanted).max(victim.min_nodes)
    }

    /// Whether the job's queue holds less than its guarantee within the tenant.
    fn under_guarantee(&self, entry: &Entry) -> bool {
        let Some(queue) = &entry.queue else { return false };
        let tenant = &entry.id.tenant;
        let Some(def) = self.book.queues.get(&(tenant.clone(), queue.clone())) else { return false };
        if def.guaranteed.is_empty() || !self.book.policy.reclaim {
            return false;
        }
        let size = (u64::from(self.pod_size()), u64::from(self.plan.node_gpus));
        let guaranteed = crate::order::gpus_of(def.guaranteed, size.0, size.1);
        self.held_by(tenant, Some(queue)) + entry.gpus(entry.min_nodes) <= guaranteed
    }

    /// Whether a queue holds more than its guarantee by what this job holds.
    pub(crate) fn over_guarantee(&self, entry: &Entry) -> bool {
        let tenant = &entry.id.tenant;
        let guaranteed = entry.queue.as_ref().map_or(0, |queue| {
            let size = (u64::from(self.pod_size()), u64::from(self.plan.node_gpus));
            let def = self.book.queues.get(&(tenant.clone(), queue.clone()));
            def.map_or(0, |def| crate::order::gpus_of(def.guaranteed, size.0, size.1))
        });
        let gpus = entry.run().map_or(0, crate::entry::Run::gpus);
        entry.queue.is_none() || self.held_by(tenant, entry.queue.as_ref()) >= guaranteed + gpus
    }

    /// Nobody waits: an elastic job that has run for some time goes on with more nodes, one per pass.
    fn grow(&mut self) {
        let Some(after) = self.book.policy.grow_after else { return };
        let book = self.book;
        for entry in book.running.iter().filter_map(|uid| book.jobs.get(uid)) {
            let Some(run) = entry.run() else { continue };
            let held = entry.nodes_held();
            let old = run.started.plus(after);
            if held >= entry.need.nodes || run.ending.is_some() {
                continue;
            }
            if old > self.now {
                self.wake(old);
                continue;
            }
            let wish = self.wish(entry, 1);
            let most = self.plan.most(&wish).saturating_add(held).min(entry.need.nodes);
            let nodes = fitting(entry, most);
            // A restart must be worth it: a quarter more at least.
            if nodes < held + held.div_ceil(4) {
                continue;
            }
            let message = format!("nobody waits and there is room for {nodes} nodes in place of {held}");
            let reasons = vec![Reason::new("Grown", message).count(nodes as usize)];
            let (grace, signal) = (entry.grace, entry.preemption.signal);
            self.acts.push(Act::Grow { uid: entry.uid, nodes, grace, signal, reasons });
            return;
        }
    }

    /// Puts the snapshot back.
    fn finish(self) -> Found {
        for (tenant, placement) in self.held.iter().rev() {
            self.snapshot.release(tenant, placement);
        }
        Found { acts: self.acts, seen: self.seen, next: self.next, privates: self.privates }
    }
}

/// What is left of a pass.
struct Found {
    acts: Vec<Act>,
    seen: Vec<(JobUid, Why)>,
    next: Option<Timestamp>,
    privates: Privates,
}

/// The nodes of a choice with their GPUs.
pub(crate) fn picks(choice: &Choice) -> Vec<(NodeIx, u32)> {
    choice.nodes.iter().chain(&choice.spares).map(|pick| (pick.node, pick.gpus.count_ones())).collect()
}

/// The most nodes up to some that an elastic job can run on: whole groups of all sizes.
pub(crate) fn fitting(entry: &Entry, nodes: u32) -> u32 {
    let unit = entry.need.groups.iter().map(|group| group.size.max(1)).max().unwrap_or(1);
    nodes - nodes % unit
}
