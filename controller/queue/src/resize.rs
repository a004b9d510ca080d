//! Elastic jobs that change their size: they grow when nobody waits, and give up what they do not need for jobs that wait.
//!
//! Each change is a restart, so that one that has just started is let run for [`crate::Policy::grow_after`] first, and a
//! change is made only where both sides of it were found a place.

use std::{collections::BTreeMap, sync::Arc};

use controller_scheduler::{Hidden, Need};
use controller_topology::NodeIx;
use proto_model::{JobUid, Reason, ReasonCode, Thing};

use crate::{
    defs::Act,
    entry::Entry,
    pass::Pass,
    plan::{Limited, PlanRequest},
    preempt::{Victims, hold, release},
    start::{fitting, picks},
    why::{WaitCause, WaitReasons},
};

/// Sizes that are tried for one job.
const SIZES: usize = 8;

impl<'a> Pass<'a> {
    /// Nobody waits for room: an elastic job that has run for some time goes on with more nodes, one per pass.
    pub(crate) fn grow(&mut self) {
        let Some(after) = self.queue_state.policy.grow_after else { return };
        let queue_state = self.queue_state;
        let mut quiet = None;
        for entry in queue_state.small.iter().filter_map(|uid| queue_state.running.get(uid)) {
            let Some(run) = entry.run().filter(|_| entry.min_nodes < entry.need.nodes) else { continue };
            let held = entry.nodes_held();
            let old = run.started.plus(after);
            if old > self.now {
                self.wake(old);
                continue;
            }
            if !*quiet.get_or_insert_with(|| self.is_quiet()) {
                return;
            }
            let Some(nodes) = self.larger(entry, held) else { continue };
            let message =
                format!("nobody waits for room, and there is some for {nodes} nodes in place of {held}");
            let reasons = vec![Reason::new(ReasonCode::Grown, message).count(nodes as usize)];
            let (grace, signal) = (entry.grace, entry.preemption.signal);
            self.outcome.acts.push(Act::Grow { uid: entry.uid, nodes, grace, signal, reasons });
            return;
        }
    }

    /// Whether no waiting job is one that could use room.
    fn is_quiet(&self) -> bool {
        let seen: BTreeMap<JobUid, &WaitReasons> =
            self.outcome.seen.iter().map(|(uid, why)| (*uid, why)).collect();
        let never = |cause: &WaitCause| cause.is_final() || matches!(cause, WaitCause::Shape(_));
        let waits = |entry: &Arc<Entry>| {
            let why = seen.get(&entry.uid).copied().or_else(|| self.queue_state.seen(entry.uid));
            let fits = entry.min_nodes.saturating_add(entry.need.spares) <= self.plan.open;
            fits && entry.hold.is_empty() && !why.is_some_and(|why| why.causes.iter().any(never))
        };
        self.outcome.acts.is_empty()
            && !self.queue_state.waiting.values().flat_map(BTreeMap::values).any(waits)
    }

    /// With how many nodes a running job could go on, if that is worth a restart: a quarter more at least.
    fn larger(&mut self, entry: &'a Arc<Entry>, held: u32) -> Option<u32> {
        let line = self.line(entry)?;
        let quotas = self.quotas(entry, &line);
        let desired = self.desired(entry, 1, quotas);
        let most = self.plan.most(&desired).saturating_add(held).min(entry.need.nodes);
        let least = held.saturating_add(held.div_ceil(4));
        if fitting(entry, most) < least {
            return None;
        }
        release(self, entry);
        let forbidden = self.forbidden(entry, desired.length);
        let nodes = self.largest(entry, most, least, &forbidden);
        hold(self, entry);
        nodes
    }

    /// The most nodes within bounds for which there is a place.
    fn largest(&mut self, entry: &Entry, most: u32, least: u32, forbidden: &[NodeIx]) -> Option<u32> {
        let hidden = Hidden::of(self.snapshot.capacity_index(), forbidden.iter().copied());
        let mut nodes = fitting(entry, most);
        for _ in 0..SIZES {
            if nodes < least || nodes == 0 {
                return None;
            }
            let need = Need { nodes, ..entry.need.clone() };
            if self.search.placer.choose(
                self.snapshot.capacity_index(),
                &need,
                Some(&hidden),
                &mut self.search.choice,
            ) {
                return Some(nodes);
            }
            nodes = fitting(entry, nodes.saturating_sub(nodes.div_ceil(8)));
        }
        None
    }

    /// One elastic job of the same priority goes on with fewer nodes. True if there is one that helps.
    pub(crate) fn shrink_equal(
        &mut self,
        equals: &Victims<'a>,
        entry: &Entry,
        desired: &PlanRequest,
        short: &[(Limited, i32)],
        why: &mut WaitReasons,
    ) -> bool {
        for victim in equals.cheapest() {
            let Some(nodes) = self.beside(entry, victim, desired, short) else { continue };
            let held = victim.nodes_held();
            let words =
                |job: &str, _| format!("goes on with {nodes} of {held} nodes, so that {job} can start");
            let reasons = vec![Reason::about(ReasonCode::Shrunk, &Thing::Job(entry.id.clone()), words)];
            let (grace, signal) = (victim.grace, victim.preemption.signal);
            why.causes.push(WaitCause::Yielding(vec![victim.uid]));
            self.begun.yielding.insert(victim.uid);
            self.count_as_free(victim);
            self.outcome.acts.push(Act::Shrink {
                victim: victim.uid,
                nodes,
                by: entry.uid,
                grace,
                signal,
                reasons,
            });
            return true;
        }
        false
    }

    /// With how many nodes an elastic job can go on beside one that starts as soon as it has stopped. What the other gets
    /// is promised to it then.
    fn beside(
        &mut self,
        entry: &Entry,
        victim: &'a Arc<Entry>,
        desired: &PlanRequest,
        short: &[(Limited, i32)],
    ) -> Option<u32> {
        let mut most = victim.nodes_held().checked_sub(1)?;
        for (whose, missing) in short {
            if !matches!(whose, Limited::Queue(..)) || !whose.counts(self.queue_state, victim) {
                return None;
            }
            let missing = u32::try_from(*missing).unwrap_or(u32::MAX);
            most = most.min(victim.nodes_held().saturating_sub(missing.div_ceil(victim.need.gpus.max(1))));
        }
        if fitting(victim, most) < victim.min_nodes || !Victims::lets_start(self, &[victim], desired) {
            return None;
        }
        release(self, victim);
        let forbidden = self.forbidden(entry, desired.length);
        let hidden = Hidden::of(self.snapshot.capacity_index(), forbidden.iter().copied());
        let need = Need { nodes: desired.nodes - entry.need.spares, ..entry.need.clone() };
        let starts = self.search.placer.choose(
            self.snapshot.capacity_index(),
            &need,
            Some(&hidden),
            &mut self.search.choice,
        );
        let taken: Vec<NodeIx> = picks(&self.search.choice).iter().map(|(node, _)| *node).collect();
        let length = self.queue_state.length(victim);
        let others = [self.forbidden(victim, length), taken.clone()].concat();
        let nodes = if starts { self.largest(victim, most, victim.min_nodes, &others) } else { None };
        hold(self, victim);
        if nodes.is_some() {
            self.begun.promised.extend(taken);
        }
        nodes
    }
}
