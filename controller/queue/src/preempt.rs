//! Who yields: the cheapest set of running jobs that makes room, and none that would not help.
//!
//! The price of a job is the work that is lost, in GPU-seconds since it was last saved, and what its restart costs: the
//! time that its user says for all its GPUs, and a second per rank.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_scheduler::{Hidden, Need};
use controller_topology::NodeIx;
use proto_model::{JobUid, Timestamp, Within};

use crate::{
    entry::Entry,
    pass::Pass,
    plan::{Limited, PlanRequest},
    tables::QueueState,
};

/// Running jobs that are thought of for one job at most, the cheapest first.
const THOUGHT_OF: usize = 512;

/// Places that are tried for a job that must stay in one.
const PLACES: usize = 16;

/// Elastic jobs of equal priority that are thought of for one job.
const EQUALS: usize = 16;

/// Tries to do with fewer.
const SPARED: usize = 32;

/// What stopping a job now costs, in GPU-seconds.
#[must_use]
pub fn price(entry: &Entry, now: Timestamp) -> u64 {
    let Some(run) = entry.run() else { return 0 };
    let mut lost = now.since(run.saved.unwrap_or(run.started));
    if let Some(every) = entry.preemption.checkpoint_every {
        lost = lost.min(every);
    }
    let lost = lost + entry.preemption.restart_cost.unwrap_or_default();
    let ranks = run.placement.ranks.len() as u64;
    lost.as_secs().saturating_mul(run.gpus().max(1)).saturating_add(ranks)
}

/// What a job asks of those that yield to it: a gang, and room within limits that are used up.
pub(crate) struct Claim<'a> {
    pub(crate) need: &'a Need,
    /// Nodes that it must not have.
    pub(crate) forbidden: &'a [NodeIx],
    /// Limits, and how much of each is missing.
    pub(crate) short: &'a [(Limited, i32)],
}

impl Claim<'_> {
    /// Whether stopping these frees enough of every limit.
    fn is_met(&self, queue_state: &QueueState, gone: &[&Arc<Entry>]) -> bool {
        self.short.iter().all(|(whose, missing)| {
            let counts = gone.iter().filter(|victim| whose.counts(queue_state, victim));
            let freed = counts.fold(0_i32, |sum, victim| sum.saturating_add(whose.amount(victim)));
            freed >= *missing
        })
    }

    /// Whether stopping a job frees something of a limit that is used up.
    fn is_helped_by(&self, queue_state: &QueueState, victim: &Entry) -> bool {
        self.short.iter().any(|(whose, _)| whose.counts(queue_state, victim))
    }
}

/// Running jobs that may be stopped for one that waits.
pub(crate) struct Victims<'a> {
    list: Vec<(u64, &'a Arc<Entry>)>,
}

impl<'a> Victims<'a> {
    /// Those of lower priority that may be stopped; and, for a queue below its guarantee, those of queues of the same
    /// tenant that hold more than theirs.
    pub(crate) fn for_priority(pass: &Pass<'a>, entry: &Entry, reclaim: bool) -> Self {
        let policy = &pass.queue_state.policy;
        let preempts = policy.preemption && pass.queue_state.preempts(entry);
        let may = |victim: &Entry| {
            let lower = preempts
                && victim.priority < entry.priority
                && victim.preemption.preemptible
                && victim.preempted < policy.preemptions_max;
            let borrowed = reclaim
                && victim.id.tenant == entry.id.tenant
                && victim.queue != entry.queue
                && pass.over_guarantee(victim);
            (lower || borrowed) && !pass.queue_state.marks.privates.has_right(victim.uid)
        };
        Self::of(pass, may)
    }

    /// Elastic ones of equal priority that run with more nodes than they need, and have run for some time.
    pub(crate) fn stretched(pass: &mut Pass<'a>, entry: &Entry) -> Self {
        let queue_state = pass.queue_state;
        let preempts = queue_state.policy.preemption && queue_state.preempts(entry);
        let Some(after) = queue_state.policy.grow_after.filter(|_| preempts) else {
            return Self { list: Vec::new() };
        };
        let may = |victim: &Entry| victim.priority == entry.priority && victim.is_stretched();
        let old = |victim: &Entry| victim.run().map(|run| run.started.plus(after));
        let now = pass.now;
        let elastic = queue_state.running.values().filter(|victim| may(victim));
        let soon = elastic.filter_map(|victim| old(victim)).filter(|time| *time > now).min();
        soon.into_iter().for_each(|time| pass.wake(time));
        let rights = &queue_state.marks.privates;
        Self::of(pass, |victim| {
            may(victim) && old(victim).is_some_and(|time| time <= now) && !rights.has_right(victim.uid)
        })
    }

    /// The cheapest of them.
    pub(crate) fn cheapest(&self) -> Vec<&'a Arc<Entry>> {
        self.list.iter().take(EQUALS).map(|(_, victim)| *victim).collect()
    }

    pub(crate) fn of(pass: &Pass<'a>, may: impl Fn(&Entry) -> bool) -> Self {
        let jobs = pass.queue_state.running.values();
        let mut list: Vec<(u64, &Arc<Entry>)> = jobs
            .filter(|victim| {
                let running = victim.run().is_some_and(|run| run.ending.is_none());
                running && !pass.begun.yielding.contains(&victim.uid) && may(victim)
            })
            .map(|victim| (price(victim, pass.now), victim))
            .collect();
        // The cheapest per GPU first.
        list.sort_by_key(|(price, victim)| {
            let gpus = victim.run().map_or(1, |run| run.gpus().max(1));
            (price.saturating_mul(1000) / gpus, victim.uid)
        });
        list.truncate(THOUGHT_OF);
        Self { list }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The cheapest set that was found, wherever; where, is in the pass's choice.
    pub(crate) fn greedy_anywhere(&self, pass: &mut Pass<'a>, need: &Need) -> Option<Vec<&'a Arc<Entry>>> {
        let list: Vec<&Arc<Entry>> = self.list.iter().map(|(_, victim)| *victim).collect();
        self.greedy(pass, &Claim { need, forbidden: &[], short: &[] }, &list)
    }

    /// The cheapest ones that hold so many GPUs together.
    pub(crate) fn worth(&self, gpus: u64) -> Option<Vec<JobUid>> {
        let mut sum = 0;
        let mut enough = self.list.iter().take_while(|(_, victim)| {
            let more = sum < gpus;
            sum += victim.run().map_or(0, crate::entry::Run::gpus);
            more
        });
        let list: Vec<JobUid> = enough.by_ref().map(|(_, victim)| victim.uid).collect();
        (sum >= gpus).then_some(list)
    }

    /// The cheapest ones that give back what is missing of every limit.
    pub(crate) fn filling(&self, queue_state: &QueueState, short: &[(Limited, i32)]) -> Option<Vec<JobUid>> {
        let mut missing: Vec<(&Limited, i32)> =
            short.iter().map(|(whose, missing)| (whose, *missing)).collect();
        let mut found = Vec::new();
        for (_, victim) in &self.list {
            let mut helps = false;
            for (whose, left) in
                missing.iter_mut().filter(|(whose, left)| *left > 0 && whose.counts(queue_state, victim))
            {
                *left = left.saturating_sub(whose.amount(victim));
                helps = true;
            }
            if helps {
                found.push(victim.uid);
            }
        }
        missing.iter().all(|(_, left)| *left <= 0).then_some(found)
    }

    /// Of those that are just being stopped the longest time that this may take; of the others their grace.
    pub(crate) fn longest_grace(&self, queue_state: &QueueState) -> Duration {
        let step = queue_state.policy.step;
        self.list.iter().map(|(_, victim)| victim.grace).max().unwrap_or_default() + step
    }

    /// The cheapest set that was found, if stopping it lets the job start as soon as they have ended.
    pub(crate) fn choose(
        &self,
        pass: &mut Pass<'a>,
        entry: &Entry,
        desired: &PlanRequest,
        forbidden: &[NodeIx],
        short: &[(Limited, i32)],
    ) -> Option<Vec<JobUid>> {
        let need = Need { nodes: desired.nodes - entry.need.spares, ..entry.need.clone() };
        let claim = Claim { need: &need, forbidden, short };
        let mut best: Option<(u64, Vec<&Arc<Entry>>)> = None;
        for list in self.by_place(pass, &need) {
            let list = self.helpful_first(pass.queue_state, &claim, list);
            if let Some(found) = self.greedy(pass, &claim, &list) {
                let cost = found.iter().map(|victim| price(victim, pass.now)).sum();
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, found));
                }
            }
        }
        let (_, found) = best?;
        Self::lets_start(pass, &found, desired).then(|| found.iter().map(|victim| victim.uid).collect())
    }

    /// Whether a job can start as soon as these have ended: what they hold must not be planned for somebody ahead.
    pub(crate) fn lets_start(pass: &Pass<'a>, gone: &[&'a Arc<Entry>], desired: &PlanRequest) -> bool {
        let mut plan = pass.plan.clone();
        let mut latest = 0;
        for victim in gone {
            let from = plan.grid.floor(pass.now.plus(victim.grace));
            latest = latest.max(from);
            if let Some(nodes) = pass.queue_state.cache.nodes.get(&victim.uid) {
                plan.free(nodes.iter().map(|(node, _)| *node), from);
            }
            plan.free_limits(pass.queue_state, victim, from, pass.now);
        }
        plan.earliest(desired).is_some_and(|(step, _)| step <= latest + 1)
    }

    /// Of a job that must stay in one place the victims by place, the places with the cheapest ones first.
    fn by_place(&self, pass: &Pass<'a>, need: &Need) -> Vec<Vec<&'a Arc<Entry>>> {
        if need.within == Within::Fabric {
            return vec![self.list.iter().map(|(_, victim)| *victim).collect()];
        }
        let mut places: BTreeMap<u32, (u64, Vec<&'a Arc<Entry>>)> = BTreeMap::new();
        for (price, victim) in &self.list {
            let Some(nodes) = pass.queue_state.cache.nodes.get(&victim.uid) else { continue };
            let place = |node: &NodeIx| pass.plan.nodes.get(node.index()).map(|node| node.pod);
            let mut pods: Vec<u32> = nodes.iter().filter_map(|(node, _)| place(node)).collect();
            pods.sort_unstable();
            pods.dedup();
            for pod in pods {
                let (sum, list) = places.entry(pod).or_default();
                *sum += price;
                list.push(victim);
            }
        }
        let mut places: Vec<(u64, Vec<&'a Arc<Entry>>)> = places.into_values().collect();
        places.sort_by_key(|(sum, list)| (*sum, list.first().map(|victim| victim.uid)));
        places.truncate(PLACES);
        places.into_iter().map(|(_, list)| list).collect()
    }

    /// Where a limit is used up those that count there go first, those elsewhere too: without them nothing helps.
    fn helpful_first(
        &self,
        queue_state: &QueueState,
        claim: &Claim<'_>,
        list: Vec<&'a Arc<Entry>>,
    ) -> Vec<&'a Arc<Entry>> {
        if claim.short.is_empty() {
            return list;
        }
        let (mut first, rest): (Vec<_>, Vec<_>) =
            list.into_iter().partition(|victim| claim.is_helped_by(queue_state, victim));
        let here: BTreeSet<JobUid> = first.iter().map(|victim| victim.uid).collect();
        let elsewhere = self.list.iter().map(|(_, victim)| *victim);
        first.extend(
            elsewhere.filter(|victim| !here.contains(&victim.uid) && claim.is_helped_by(queue_state, victim)),
        );
        first.extend(rest);
        first
    }

    /// Takes the cheapest ones until there is a gang, then spares those without which there is one too.
    fn greedy(
        &self,
        pass: &mut Pass<'a>,
        claim: &Claim<'_>,
        list: &[&'a Arc<Entry>],
    ) -> Option<Vec<&'a Arc<Entry>>> {
        let hidden = Hidden::of(pass.snapshot.capacity_index(), claim.forbidden.iter().copied());
        let mut gone: Vec<&'a Arc<Entry>> = Vec::new();
        let (mut found, mut freed) = (false, 0_u64);
        let mut next = 1_u64;
        for victim in list {
            release(pass, victim);
            gone.push(victim);
            freed += u64::from(victim.nodes_held());
            // For large gangs not every single one is worth an attempt.
            if (freed >= next || gone.len() == list.len()) && claim.is_met(pass.queue_state, &gone) {
                found = pass.search.placer.choose(
                    pass.snapshot.capacity_index(),
                    claim.need,
                    Some(&hidden),
                    &mut pass.search.choice,
                );
                if found {
                    break;
                }
                next = freed + freed / 8 + 1;
            }
        }
        if found {
            self.spare(pass, claim, &hidden, &mut gone);
            // Once more for all that are left, so that the choice is the last one that was found.
            found = pass.search.placer.choose(
                pass.snapshot.capacity_index(),
                claim.need,
                Some(&hidden),
                &mut pass.search.choice,
            );
        }
        for victim in &gone {
            hold(pass, victim);
        }
        found.then_some(gone)
    }

    fn spare(&self, pass: &mut Pass<'a>, claim: &Claim<'_>, hidden: &Hidden, gone: &mut Vec<&'a Arc<Entry>>) {
        // Those on none of the nodes first, as far as the limits do without them.
        let taken: BTreeSet<NodeIx> =
            pass.search.choice.nodes.iter().chain(&pass.search.choice.spares).map(|pick| pick.node).collect();
        let queue_state = pass.queue_state;
        gone.retain(|victim| {
            let nodes = queue_state.cache.nodes.get(&victim.uid);
            let helps = nodes.is_some_and(|nodes| nodes.iter().any(|(node, _)| taken.contains(node)));
            let keep = helps || claim.is_helped_by(queue_state, victim);
            if !keep {
                hold(pass, victim);
            }
            keep
        });
        // Then the dearest that can be done without.
        let mut order: Vec<(u64, JobUid)> =
            gone.iter().map(|victim| (price(victim, pass.now), victim.uid)).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        for (_, uid) in order.into_iter().take(SPARED) {
            let Some(at) = gone.iter().position(|victim| victim.uid == uid) else { continue };
            let victim = gone.remove(at);
            if claim.is_met(queue_state, gone) {
                hold(pass, victim);
                if pass.search.placer.choose(
                    pass.snapshot.capacity_index(),
                    claim.need,
                    Some(hidden),
                    &mut pass.search.choice,
                ) {
                    continue;
                }
                release(pass, victim);
            }
            gone.insert(at, victim);
        }
    }
}

pub(crate) fn release(pass: &mut Pass<'_>, victim: &Entry) {
    if let Some(run) = victim.run() {
        pass.snapshot.release(&victim.id.tenant, &run.placement);
    }
}

pub(crate) fn hold(pass: &mut Pass<'_>, victim: &Entry) {
    if let Some(run) = victim.run() {
        pass.snapshot.hold(&victim.id.tenant, &run.placement);
    }
}
