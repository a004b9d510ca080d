//! Making room: jobs that yield to others.

use std::sync::Arc;

use proto_model::{JobUid, Reason, ReasonCode, Thing};

use crate::{
    defs::Act,
    entry::Entry,
    pass::Pass,
    plan::PlanRequest,
    preempt::Victims,
    start::fitting,
    why::{WaitCause, WaitReasons},
};

/// Tries to make room in one pass.
const ROOMS: usize = 4;

impl<'a> Pass<'a> {
    /// Stops jobs of lower priority for this one, if it would otherwise wait. True if so.
    pub(crate) fn make_room(
        &mut self,
        entry: &'a Arc<Entry>,
        desired: &PlanRequest,
        planned: Option<usize>,
        why: &mut WaitReasons,
    ) -> bool {
        let policy = &self.queue_state.policy;
        let reclaim = self.under_guarantee(entry);
        let preempts = policy.preemption && self.queue_state.preempts(entry);
        if !(preempts || reclaim)
            || self.begun.rooms >= ROOMS
            || entry.not_before.is_some_and(|time| time > self.now)
        {
            return false;
        }
        if self.lowest >= entry.priority && !reclaim {
            return false;
        }
        if !self.may_start() {
            return false;
        }
        let victims = Victims::for_priority(self, entry, reclaim);
        let equals = Victims::stretched(self, entry);
        // Who would start as soon as anybody could have made room waits.
        let soon = victims.longest_grace(self.queue_state).max(equals.longest_grace(self.queue_state));
        if victims.is_empty() && equals.is_empty()
            || planned.is_some_and(|step| step > 0 && self.plan.grid.start(step) <= self.now.plus(soon))
        {
            return false;
        }
        self.begun.rooms += 1;
        let forbidden = self.forbidden(entry, desired.length);
        // What its tenant or queue may not hold more of is given back by jobs of the same tenant or queue.
        let short = self.plan.short_of(desired);
        let Some(chosen) = victims.choose(self, entry, desired, &forbidden, &short) else {
            return self.shrink_equal(&equals, entry, desired, &short, why);
        };
        self.begun.promised.extend(crate::start::picks(&self.search.choice).iter().map(|(node, _)| *node));
        self.stop(entry, &chosen, ReasonCode::PreemptedForPriority, why);
        true
    }

    /// Jobs are stopped for another; from the end of their grace on what they hold counts as free.
    pub(crate) fn stop(&mut self, entry: &Entry, chosen: &[JobUid], code: ReasonCode, why: &mut WaitReasons) {
        why.causes.push(WaitCause::Yielding(chosen.to_vec()));
        let mut left = self.left(entry, chosen);
        for uid in chosen {
            let Some(victim) = self.queue_state.jobs.get(uid) else { continue };
            self.begun.yielding.insert(*uid);
            let words = |job: &str, _| match &code {
                ReasonCode::MovedToGuarantee => {
                    "moved to the nodes that its tenant's guarantee is bound to".to_owned()
                }
                ReasonCode::Reclaimed => {
                    format!("its nodes were borrowed; the guarantee of {job} needs them")
                }
                _ => format!("stopped for {job} of priority {}", entry.priority),
            };
            let reasons = vec![Reason::about(code.clone(), &Thing::Job(entry.id.clone()), words)];
            let (grace, signal) = (victim.grace, victim.preemption.signal);
            self.count_as_free(victim);
            let held = victim.nodes_held();
            let nodes = fitting(victim, left.min(held.saturating_sub(1)));
            let act = if nodes >= victim.min_nodes
                && victim.is_stretched()
                && code == ReasonCode::PreemptedForPriority
            {
                left -= nodes;
                Act::Shrink { victim: *uid, nodes, by: entry.uid, grace, signal, reasons }
            } else {
                Act::Preempt { victim: *uid, by: entry.uid, grace, signal, reasons }
            };
            self.outcome.acts.push(act);
        }
    }

    /// From the end of its grace on what a job holds counts as free.
    pub(crate) fn count_as_free(&mut self, victim: &Entry) {
        let from = self.plan.grid.floor(self.now.plus(victim.grace));
        if let Some(nodes) = self.queue_state.cache.nodes.get(&victim.uid) {
            self.plan.free(nodes.iter().map(|(node, _)| *node), from);
        }
        self.plan.free_limits(self.queue_state, victim, from, self.now);
    }

    /// Nodes that are left to elastic jobs among those that yield, beside the job that they make room for.
    fn left(&self, entry: &Entry, chosen: &[JobUid]) -> u32 {
        let held =
            chosen.iter().filter_map(|uid| self.queue_state.jobs.get(uid)).map(|victim| victim.nodes_held());
        let free = u32::try_from(self.plan.free_now().0).unwrap_or(0);
        held.fold(free, u32::saturating_add).saturating_sub(entry.min_nodes + entry.need.spares)
    }

    /// Whether the job's queue holds less than its guarantee within the tenant.
    pub(crate) fn under_guarantee(&self, entry: &Entry) -> bool {
        let Some(queue) = &entry.queue else { return false };
        let tenant = &entry.id.tenant;
        let Some(def) = self.queue_state.queues.get(&(tenant.clone(), queue.clone())) else { return false };
        if def.guaranteed.is_empty() || !self.queue_state.policy.reclaim {
            return false;
        }
        let size = (u64::from(self.pod_size()), u64::from(self.plan.node_gpus));
        let guaranteed = crate::order::gpus_of(def.guaranteed, size.0, size.1);
        self.held_by(tenant, &entry.queue) + entry.gpus(entry.min_nodes) <= guaranteed
    }

    /// Whether a queue holds more than its guarantee by what this job holds.
    pub(crate) fn over_guarantee(&self, entry: &Entry) -> bool {
        let tenant = &entry.id.tenant;
        let guaranteed = entry.queue.as_ref().map_or(0, |queue| {
            let size = (u64::from(self.pod_size()), u64::from(self.plan.node_gpus));
            let def = self.queue_state.queues.get(&(tenant.clone(), queue.clone()));
            def.map_or(0, |def| crate::order::gpus_of(def.guaranteed, size.0, size.1))
        });
        let gpus = entry.run().map_or(0, crate::entry::Run::gpus);
        entry.queue.is_none() || self.held_by(tenant, &entry.queue) >= guaranteed + gpus
    }
}
