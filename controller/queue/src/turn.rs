//! Whose turn it is: the waiting jobs in their order, and which of them could start or make room at all.
//!
//! Most events free nothing that anybody could have. What a job needs at the least is compared with what is free in the
//! cluster, before anything is planned: behind the last job that could start a pass decides nothing.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use proto_model::{JobUid, Timestamp};

use crate::{
    defs::Budget,
    entry::{Entry, Run},
    ground::Ground,
    measure::Measure,
    order::Order,
    plan::Plan,
    tables::QueueState,
};

impl QueueState {
    /// Whether surely nobody who waits could start or make room, and nobody who runs could grow: known from what they need at
    /// the least, without a look at each.
    pub(crate) fn is_stuck(&self, ground: &Ground) -> bool {
        if self.may_grow() || !self.marks.privates.is_empty() {
            return false;
        }
        let Some(((highest, ..), _)) = self.waiting.first_key_value() else { return true };
        let lower = self.lowest_yielding().is_some_and(|lowest| lowest < highest.0);
        let guaranteed = self.policy.reclaim && self.queues.values().any(|def| !def.guaranteed.is_empty());
        let full = |(gpus, nodes): &(u32, u32)| *gpus > 0 && ground.with_free(*gpus) < *nodes;
        !lower && !guaranteed && self.shapes.keys().all(full)
    }

    /// Whether a running job may get more nodes.
    fn may_grow(&self) -> bool {
        self.policy.grow_after.is_some() && !self.small.is_empty()
    }

    /// The next time at which a waiting job may begin, or a reservation begins or ends.
    pub(crate) fn next_time(&self, now: Timestamp) -> Option<Timestamp> {
        let after = (now.plus(Duration::from_millis(1)), JobUid::ordered(Timestamp(0), 0, [0; 8]));
        let begin = self.begins.range(after..).next().map(|(time, _)| *time);
        let kept = self.reservations.values().flat_map(|def| [def.start, def.end()]);
        kept.filter(|time| *time > now).chain(begin).min()
    }
}

/// The waiting jobs of one look at the queue.
pub(crate) struct PassOrder<'a> {
    /// The jobs that are looked at, in the order of the queue.
    pub(crate) list: Vec<&'a Arc<Entry>>,
    /// Those with a right to run, which go first.
    pub(crate) entitled: BTreeSet<JobUid>,
    /// Where in the list those are that could start or make room, and those of `new`; the rest can do nothing.
    chances: Vec<usize>,
    /// So many of the first of them still can, as far as the plan is known.
    left: usize,
    /// Jobs that must not start yet, and whose reasons are not known yet.
    new: BTreeSet<JobUid>,
}

impl<'a> PassOrder<'a> {
    /// `rails` is how many the fabric has.
    pub(crate) fn new(
        queue_state: &'a QueueState,
        ground: &mut Arc<Ground>,
        rails: u32,
        now: Timestamp,
        budget: Budget,
    ) -> Self {
        let entitled = if queue_state.policy.reclaim {
            queue_state.marks.privates.entitled(queue_state)
        } else {
            BTreeSet::new()
        };
        let pod = if queue_state.queues.is_empty() { 0 } else { ground.largest_pod() };
        let size = (u64::from(pod), u64::from(ground.node_gpus));
        let mut order = Order::new(queue_state, entitled, now, size);
        let mut list = Vec::new();
        while list.len() < budget.jobs
            && let Some(entry) = order.next()
        {
            list.push(entry);
        }
        let entitled = order.entitled;
        Ground::learn(ground, list.iter().map(|entry| &entry.need));
        let rates = Rates {
            queue_state,
            measure: ground.measure(rails),
            ground,
            now,
            ending: ending(queue_state, now),
        };
        let waits = |entry: &Entry| !entry.hold.is_empty() || entry.not_before.is_some_and(|time| time > now);
        let new =
            list.iter().filter(|entry| waits(entry) && !queue_state.cache.seen.contains_key(&entry.uid));
        let new: BTreeSet<JobUid> = new.map(|entry| entry.uid).collect();
        let chances = (0..list.len()).filter(|at| {
            let entry = list[*at];
            entitled.contains(&entry.uid) || new.contains(&entry.uid) || rates.could_act(entry)
        });
        let chances: Vec<usize> = chances.collect();
        Self { left: chances.len(), chances, list, entitled, new }
    }

    /// Nobody could start, make room, or grow.
    pub(crate) fn is_idle(&self, queue_state: &QueueState) -> bool {
        let guaranteed = !queue_state.marks.privates.is_empty();
        self.chances.is_empty() && !self.list.is_empty() && !guaranteed && !queue_state.may_grow()
    }

    /// Whether somebody from a place in the list on could still start or make room. What is planned for those ahead is
    /// taken from the plan and only then given back when somebody is stopped: who does not fit now does not fit later.
    pub(crate) fn goes_on(&mut self, at: usize, queue_state: &QueueState, plan: &Plan, lowest: i32) -> bool {
        if plan.was_freed() {
            self.left = self.chances.len();
        }
        while let Some(last) = self.left.checked_sub(1).map(|last| self.chances[last]) {
            if last < at {
                return false;
            }
            let entry = self.list[last];
            let sure = plan.was_freed()
                || self.entitled.contains(&entry.uid)
                || self.new.contains(&entry.uid)
                || entry.reservation.is_some()
                || lowest < entry.priority
                || entry.queue.is_some();
            if sure || plan.could_start(entry, queue_state.length(entry)) {
                return true;
            }
            self.left -= 1;
        }
        false
    }
}

/// Nodes of jobs that should have ended: the plan counts them as free.
fn ending(queue_state: &QueueState, now: Timestamp) -> u32 {
    let due = queue_state.ending.iter().take_while(|(time, _)| *time <= now);
    let held = |run: &Run| run.placement.nodes.len() + run.placement.spares.len();
    let nodes: usize = due.filter_map(|(_, uid)| Some(held(queue_state.running.get(uid)?.run()?))).sum();
    u32::try_from(nodes).unwrap_or(u32::MAX)
}

/// What waiting jobs are measured by.
struct Rates<'a> {
    queue_state: &'a QueueState,
    ground: &'a Ground,
    measure: Measure,
    now: Timestamp,
    ending: u32,
}

impl Rates<'_> {
    /// False only if a job can surely neither start now nor make room.
    fn could_act(&self, entry: &Entry) -> bool {
        if !entry.hold.is_empty() || entry.not_before.is_some_and(|time| time > self.now) {
            return false;
        }
        let lower = self.queue_state.lowest_yielding().is_some_and(|lowest| lowest < entry.priority);
        // Who waits for its own reservation starts by other rules, and a queue may claim its guarantee.
        if lower || entry.reservation.is_some() || self.has_guarantee(entry) {
            return true;
        }
        let nodes = entry.min_nodes + entry.need.spares;
        if self.measure.is_whole(&entry.need) && !self.measure.may_share_nodes(&entry.need) {
            self.ground.kind(&entry.need).is_none_or(|kind| kind.idle + self.ending >= nodes)
        } else {
            self.ground.with_free(entry.need.least_gpus()) + self.ending >= nodes
        }
    }

    fn has_guarantee(&self, entry: &Entry) -> bool {
        let Some(queue) = entry.queue.as_ref().filter(|_| self.queue_state.policy.reclaim) else {
            return false;
        };
        let def = self.queue_state.queues.get(&(entry.id.tenant.clone(), queue.clone()));
        def.is_some_and(|def| !def.guaranteed.is_empty())
    }
}
