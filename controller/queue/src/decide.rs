//! One pass over the queue: in its order every job gets its planned start, and those that start now do.

use std::{collections::BTreeMap, sync::Arc};

use controller_scheduler::{Choice, Need, Placer, RailNeed, Snapshot, Time, Within};
use controller_topology::NodeIx;
use proto_model::{Backfill, Eta, JobUid, Promise, Timestamp};

use crate::{
    defs::{Act, Budget},
    empty::Empty,
    entry::Entry,
    forecast::band,
    foresee::Foresight,
    ground::Ground,
    line::TenantQueue,
    plan::PlanRequest,
    start::Try,
    tables::{GuaranteeClusters, QueueState},
    turn::PassOrder,
    why::{WaitCause, WaitReasons},
};

use crate::pass::{Outcome, Pass, PassPurpose};

impl QueueState {
    /// What is to be done now. The snapshot is as the cluster is; it is changed meanwhile and put back.
    pub fn pass(
        &mut self,
        snapshot: &mut Snapshot,
        placer: &mut Placer,
        now: Timestamp,
        budget: Budget,
    ) -> Vec<Act> {
        self.find_nodes(snapshot);
        self.keep_guarantees(snapshot, now);
        self.check(snapshot, placer, now, budget, PassPurpose::Event)
    }

    /// Only looks, at all that wait: what each is promised. What a pass would do is not done.
    pub fn plan(&mut self, snapshot: &mut Snapshot, placer: &mut Placer, now: Timestamp, budget: Budget) {
        let (marks, next) = (self.marks.clone(), self.cache.next);
        self.find_nodes(snapshot);
        self.keep_guarantees(snapshot, now);
        self.check(snapshot, placer, now, budget, PassPurpose::Uncut);
        self.restore(marks);
        self.cache.next = next;
    }

    /// A pass without any short cut; a test compares.
    #[cfg(test)]
    pub(crate) fn pass_uncut(
        &mut self,
        snapshot: &mut Snapshot,
        placer: &mut Placer,
        now: Timestamp,
    ) -> Vec<Act> {
        self.find_nodes(snapshot);
        self.keep_guarantees(snapshot, now);
        self.check(snapshot, placer, now, Budget::ALL, PassPurpose::Uncut)
    }

    pub(crate) fn check(
        &mut self,
        snapshot: &mut Snapshot,
        placer: &mut Placer,
        now: Timestamp,
        budget: Budget,
        check: PassPurpose,
    ) -> Vec<Act> {
        let mut ground = std::mem::take(&mut self.cache.ground);
        Ground::update(&mut ground, snapshot);
        let mut empty = std::mem::take(&mut self.cache.empty);
        empty.update(&ground);
        let rails = snapshot.topology().rails();
        let stuck = check == PassPurpose::Event && self.is_stuck(&ground);
        let turn = (!stuck).then(|| PassOrder::new(self, &mut ground, rails, now, budget));
        let turn = turn.filter(|turn| check != PassPurpose::Event || !turn.is_idle(self));
        // Where nobody can start or make room nothing needs to be planned.
        let found = if let Some(turn) = turn {
            let fore = || Foresight::new(self, &ground, rails, &turn.list, now).starts(now);
            let foreseen = if check == PassPurpose::Forecast { fore() } else { BTreeMap::new() };
            let mut pass = Pass::new(self, &ground, snapshot, placer, now, budget, check);
            pass.foreseen = foreseen;
            pass.search.empty = empty;
            pass.run(turn);
            pass.finish()
        } else {
            Found { privates: self.marks.privates.clone(), empty, ..Found::default() }
        };
        let Found { acts, seen, next, privates, empty } = found;
        (self.cache.ground, self.cache.empty) = (ground, empty);
        self.marks.privates = privates;
        self.cache.next = next.into_iter().chain(self.next_time(now)).min();
        self.cache.seen.extend(seen);
        acts
    }

    /// The numbers of the nodes on which jobs run.
    pub(crate) fn find_nodes(&mut self, snapshot: &Snapshot) {
        let topology = snapshot.topology();
        let cluster = (topology.len(), topology.slots());
        if self.cache.cluster != cluster {
            self.cache.nodes.clear();
            self.cache.cluster = cluster;
        }
        if self.cache.nodes.len() == self.running.len() {
            return;
        }
        for (uid, entry) in &self.running {
            if self.cache.nodes.contains_key(uid) {
                continue;
            }
            let Some(run) = entry.run() else { continue };
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

impl<'a> Pass<'a> {
    fn run(&mut self, mut turn: PassOrder<'a>) {
        let queue_state = self.queue_state;
        if queue_state.policy.reclaim {
            self.move_astray();
        }
        self.lowest = queue_state.lowest_yielding().unwrap_or(i32::MAX);
        let mut ahead = 0;
        while let Some(entry) = turn.list.get(ahead).copied() {
            // Behind the last one that could act nothing is decided any more; the first is always looked at.
            let goes_on = self.begun.starts < self.budget.starts
                && turn.goes_on(ahead, queue_state, &self.plan, self.lowest);
            if self.check == PassPurpose::Event && ahead > 0 && !goes_on {
                break;
            }
            let mut why = WaitReasons { ahead, checked: self.now, ..WaitReasons::default() };
            ahead += 1;
            let started = self.one(entry, turn.entitled.contains(&entry.uid), &mut why);
            if !started {
                let old = queue_state.cache.seen.get(&entry.uid).and_then(|old| old.eta);
                let never = why.is_final();
                match (&mut why.eta, old) {
                    (Some(eta), Some(old)) if self.check == PassPurpose::Forecast => {
                        eta.promised_as(&old, self.now)
                    }
                    (None, old) if self.check != PassPurpose::Forecast && !never => why.eta = old,
                    _ => {}
                }
                self.outcome.seen.push((entry.uid, why));
            } else if self.check == PassPurpose::Forecast && queue_state.eta(entry.uid).is_none() {
                // It waits until a pass sees what this look has seen, and nothing else is known of it.
                why.eta = Some(Eta::estimate(self.now, self.now, self.now));
                why.causes.push(WaitCause::Later);
                self.outcome.seen.push((entry.uid, why));
            }
        }
        if let Some(time) = queue_state.marks.privates.next_event() {
            self.wake(time);
        }
        self.grow();
    }

    /// One job. True if it starts.
    fn one(&mut self, entry: &'a Arc<Entry>, entitled: bool, why: &mut WaitReasons) -> bool {
        let not_before = entry.not_before.filter(|time| *time > self.now);
        if let Some(time) = not_before {
            why.causes.push(WaitCause::NotBefore(time));
            self.wake(time);
        }
        if !entry.hold.is_empty() {
            why.causes.push(WaitCause::Held);
        }
        let Some(line) = self.line(entry) else {
            let tenant = self.queue_state.tenants.contains_key(&entry.id.tenant);
            why.causes.push(if tenant { WaitCause::QueueUnknown } else { WaitCause::TenantUnknown });
            return false;
        };
        let quotas = self.quotas(entry, &line);
        let mut desired = self.desired(entry, entry.min_nodes, quotas);
        desired.from = not_before.map_or(0, |time| self.plan.grid.ceil(time));
        why.causes.extend(self.plan.never(&desired).map(WaitCause::LimitTooSmall));
        why.causes.extend(self.queue_state.too_few_licenses(entry));
        let nodes = self.plan.class_nodes(desired.class);
        let few = |(class, count): &(usize, i32)| crate::plan::signed(self.plan.class_nodes(*class)) < *count;
        let too_few = nodes < desired.nodes || desired.parts.iter().any(few);
        if too_few {
            why.causes.push(WaitCause::Shape(nodes));
        }
        if entry.reservation.is_some() {
            return self.reserved(entry, &desired, why);
        }
        if why.is_final() || too_few {
            return false;
        }
        self.plan.need_places(desired.within, &self.kept);
        if !entry.hold.is_empty() {
            self.held_back(entry, &desired, why);
            return false;
        }
        // A guarantee is of nodes: who waits for a license has no more right to it than others.
        if entitled && not_before.is_none() && self.plan.has_licenses(&desired) {
            return self.start_entitled(entry, desired, why);
        }
        if !self.fits_empty(entry, &desired) {
            why.causes.push(WaitCause::Never);
            return false;
        }
        let grown = if not_before.is_none() { self.grown(entry, &desired) } else { desired.clone() };
        let mut planned = self.plan.earliest(&grown);
        match planned {
            Some((0, _)) if not_before.is_none() => {
                if self.begun.starts >= self.budget.starts {
                    why.causes.push(WaitCause::Later);
                } else {
                    match self.start(entry, &grown, why) {
                        Try::Started => return true,
                        Try::Planned => why.causes.push(WaitCause::Planned),
                        Try::Scattered => why.causes.push(WaitCause::Scattered),
                    }
                }
            }
            _ if not_before.is_none() && self.start_on_shared_nodes(entry, &desired) => return true,
            _ => self.say(entry, &line, &desired, why),
        }
        if self.make_room(entry, &desired, planned.map(|(step, _)| step), why) {
            planned = self.plan.earliest(&desired);
        } else if matches!(why.causes.last(), Some(WaitCause::Scattered | WaitCause::Planned))
            && planned.is_some_and(|(step, _)| step == 0)
        {
            planned = self.when_something_ends(&desired);
        }
        self.plan_for(entry, &desired, planned, why);
        false
    }

    /// Puts the job into the plan, and says when it will start.
    pub(crate) fn plan_for(
        &mut self,
        entry: &'a Entry,
        desired: &PlanRequest,
        planned: Option<(usize, Option<usize>)>,
        why: &mut WaitReasons,
    ) {
        let Some((step, place)) = planned else {
            // Behind all that is planned: not before the last step, as far as can be seen.
            let last = self.plan.grid.start(self.plan.last_change());
            why.eta = Some(Eta::estimate(last, last, Timestamp(u64::MAX)));
            return;
        };
        let kept = self.keep(entry, desired, (step, place));
        let mut eta = self.eta(entry, self.plan.grid.start(step));
        if let Some((step, promise)) = kept.filter(|_| self.check != PassPurpose::Forecast) {
            (eta.planned, eta.promise) = (Some(self.plan.grid.start(step)), promise);
        }
        why.eta = Some(eta);
    }

    /// Keeps a place in the plan for a job that waits, if its backfill wants that: from when on, and what that promises.
    fn keep(
        &mut self,
        entry: &Entry,
        desired: &PlanRequest,
        (mut step, mut place): (usize, Option<usize>),
    ) -> Option<(usize, Promise)> {
        let promise = match self.queue_state.policy.backfill {
            // A forecast is no promise, and the nearer to what will be the more of them have a place.
            _ if self.check == PassPurpose::Forecast => Promise::Estimate,
            Backfill::Conservative => Promise::Conservative,
            Backfill::Easy => {
                // Who waits for its limits or its time, not for nodes or licenses, is in nobody's way.
                let entitled = self.guarantees.privates.target(&entry.id.tenant, entry.uid).is_some();
                if !entitled && (self.first_kept || desired.from > 0 || !self.plan.is_within_limits(desired))
                {
                    return None;
                }
                self.first_kept |= !entitled;
                Promise::Easy
            }
            Backfill::Slack(slack) => {
                let until = self.plan.grid.ceil(entry.submitted.plus(slack));
                if until > step
                    && let Some((later, there)) =
                        self.plan.earliest(&PlanRequest { from: until.max(desired.from), ..desired.clone() })
                    && later == until
                {
                    (step, place) = (later, there);
                }
                Promise::Slack
            }
        };
        self.plan.take(desired, step, place);
        Some((step, if self.plan.grid.is_exact() { promise } else { Promise::Estimate }))
    }

    /// When a job fits, as far as the plan can count, for which the placer has no gang now: not before something ends.
    fn when_something_ends(&mut self, desired: &PlanRequest) -> Option<(usize, Option<usize>)> {
        let from = self.plan.next_end()?;
        self.plan.earliest(&PlanRequest { from: from.max(desired.from), ..desired.clone() })
    }

    /// Whether the placer would have a gang for a job if no job ran. Where counting nodes has said all, it is not asked.
    fn fits_empty(&mut self, entry: &Entry, desired: &PlanRequest) -> bool {
        let (need, capacity_index) = (&entry.need, self.snapshot.capacity_index());
        let counted = match need.rails {
            RailNeed::Exactly(rails) => !capacity_index.is_split(rails),
            RailNeed::Any(_) => false,
        };
        let counted = counted
            && need.groups.is_empty()
            && need.spares == 0
            && need.within == Within::Fabric
            && (entry.min_nodes == 1 || need.rail_count() > 0);
        // How many nodes there are for each component and for all of them is counted, not for every two of three or more.
        let counted = counted
            && match need.components.len() {
                0 => true,
                1..=3 => need.exclude.is_empty() && need.only.is_none(),
                _ => false,
            };
        // Each node that it excludes may be one of those that are counted.
        let nodes = self.plan.class_nodes(desired.class) as usize;
        if counted && nodes >= desired.nodes as usize + need.exclude.len() {
            return true;
        }
        if let Some(fits) = self.search.empty.known(entry.uid) {
            return fits;
        }
        // A forecast decides nothing.
        if self.check == PassPurpose::Forecast {
            return true;
        }
        let need = Need { nodes: entry.min_nodes, tenant: None, ..need.clone() };
        let (placer, choice) = (&mut self.search.placer, Choice::default());
        self.search.empty.find(entry.uid, need, self.ground, |need| {
            let mut choice = choice;
            placer.choose_at(capacity_index, need, None, Time::Ended, &mut choice).then_some(choice)
        })
    }

    pub(crate) fn eta(&self, entry: &'a Entry, start: Timestamp) -> Eta {
        if let Some([earliest, start, latest]) = self.foreseen.get(&entry.uid).copied()
            && earliest < latest
        {
            return Eta::estimate(start, earliest, latest);
        }
        let start = self.foreseen.get(&entry.uid).map_or(start, |[_, start, _]| *start);
        band(self.error(entry), start, self.now, self.check == PassPurpose::Forecast)
    }

    /// A job that is held: it could start when those that it waits for have come so far, when its array has a turn for it, and
    /// when its time has come. Those of an array wait one behind the other.
    fn held_back(&mut self, entry: &'a Entry, desired: &PlanRequest, why: &mut WaitReasons) {
        if entry.open_ended {
            return;
        }
        let mut latest = None;
        for uid in &entry.after {
            let Some(other) = self.queue_state.jobs.get(uid) else { continue };
            let end = if other.run().is_some() {
                Some(self.queue_state.end(other, self.now))
            } else if self.begun.jobs.iter().any(|begun| begun.uid == *uid) {
                Some(self.now.plus(self.queue_state.length(other)))
            } else {
                let seen =
                    self.outcome.seen.iter().rev().find(|(seen, _)| seen == uid).map(|(_, why)| why.eta);
                let eta = seen.unwrap_or_else(|| self.queue_state.eta(*uid));
                eta.map(|eta| eta.start.plus(self.queue_state.length(other)))
            };
            latest = latest.max(end);
        }
        // The job that it waits for is not known any more, or nobody can say when it ends. Turns of arrays are forecasts only.
        let turn = entry.array.as_ref().is_some_and(|group| group.at_once > 0);
        let timed = entry.after.is_empty() && (turn || entry.not_before.is_some());
        if latest.is_none() && !(timed && self.check == PassPurpose::Forecast) {
            return;
        }
        let from = latest.map_or(desired.from, |time| self.plan.grid.floor(time).max(desired.from));
        let desired = PlanRequest { from, ..desired.clone() };
        let Some((step, place)) = self.plan.earliest(&desired) else { return };
        why.eta = Some(self.eta(entry, self.plan.grid.start(step)));
        if self.check == PassPurpose::Forecast && entry.array.is_some() {
            self.plan.take(&desired, step, place);
        }
    }

    /// Every cause for which a job does not start now.
    fn say(&self, entry: &Entry, line: &TenantQueue, desired: &PlanRequest, why: &mut WaitReasons) {
        let before = why.causes.len();
        let tenant = &entry.id.tenant;
        let asked = entry.gpus(entry.min_nodes);
        for queue in &line.path {
            let Some(limit) = self.queue_state.limit(tenant, queue.as_ref()).map(u64::from) else { continue };
            let held = self.held_by(tenant, queue);
            if held + asked > limit && asked <= limit {
                why.causes.push(WaitCause::Limit { queue: queue.clone(), held, limit });
            }
        }
        let running = |matches: &dyn Fn(&Entry) -> bool| {
            let jobs = self.queue_state.running.values().chain(self.begun.jobs.iter().copied());
            u32::try_from(jobs.filter(|other| matches(other)).count()).unwrap_or(u32::MAX)
        };
        if let Some(limit) = self.queue_state.tenants.get(tenant).and_then(|def| def.jobs)
            && running(&|other| other.id.tenant == *tenant) >= limit
        {
            why.causes.push(WaitCause::Jobs(limit));
        }
        if let Some(group) = entry.array.as_ref().filter(|group| group.at_once > 0)
            && running(&|other| other.array.as_ref() == Some(group)) >= group.at_once
        {
            why.causes.push(WaitCause::AtOnce(group.at_once));
        }
        if let Some((user, def)) = self.queue_state.class(entry) {
            let own = |other: &Entry| other.class.as_ref() == Some(user);
            if let Some(limit) = def.jobs.filter(|limit| running(&own) >= *limit) {
                why.causes.push(WaitCause::UserJobs(limit));
            }
            let of =
                self.queue_state.running_of(tenant).filter(|(other, _)| own(other)).map(|(_, gpus)| *gpus);
            let begun =
                self.begun.jobs.iter().filter(|other| own(other)).map(|other| other.gpus(other.min_nodes));
            let held = of.chain(begun).sum::<u64>();
            if let Some(limit) =
                def.gpus.map(u64::from).filter(|limit| held + asked > *limit && asked <= *limit)
            {
                why.causes.push(WaitCause::UserGpus { held, limit });
            }
        }
        self.say_long_jobs(entry, asked, why);
        self.say_licenses(entry, desired, why);
        let (quota, room) = self.plan.room(desired);
        if !quota && why.causes.len() == before {
            why.causes.push(WaitCause::LimitAhead);
        }
        let (nodes, gpus) = self.plan.free_now();
        if room {
            if quota && why.causes.is_empty() {
                why.causes.push(if self.plan.keeps_any() {
                    WaitCause::Planned
                } else {
                    WaitCause::Scattered
                });
            }
        } else {
            let count = |value: i32| u32::try_from(value).unwrap_or(0);
            why.causes.push(WaitCause::Capacity { nodes: count(nodes), gpus: count(gpus) });
        }
        let in_the_way = self.kept.in_the_way(entry, self.now, desired.length);
        why.causes.extend(in_the_way.map(|(name, _)| WaitCause::Reserved(name.clone())));
    }

    /// Puts the snapshot back.
    fn finish(self) -> Found {
        for (tenant, choice) in self.begun.held.iter().rev() {
            self.snapshot.release_choice(tenant, choice);
        }
        let Self { outcome: Outcome { acts, seen, next }, search, guarantees, .. } = self;
        Found { acts, seen, next, privates: guarantees.privates, empty: search.empty }
    }
}

/// What is left of a pass.
#[derive(Default)]
struct Found {
    acts: Vec<Act>,
    seen: Vec<(JobUid, WaitReasons)>,
    next: Option<Timestamp>,
    privates: GuaranteeClusters,
    empty: Empty,
}
