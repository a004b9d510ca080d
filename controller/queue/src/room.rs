//! Making room: jobs that yield to others, and elastic ones that take what nobody wants.

use std::sync::Arc;

use proto_model::{JobUid, Reason};

use crate::{
    defs::Act,
    entry::Entry,
    pass::Pass,
    plan::Wish,
    preempt::Victims,
    start::fitting,
    why::{Cause, Why},
};

/// Tries to make room in one pass.
const ROOMS: usize = 4;

impl<'a> Pass<'a> {
    /// Stops jobs of lower priority for this one, if it would otherwise wait. True if so.
    pub(crate) fn make_room(
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
        if self.lowest >= entry.priority && !reclaim {
            return false;
        }
        if !self.may_start() {
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
        // What its tenant or queue may not hold more of is given back by jobs of the same tenant or queue.
        let short = self.plan.short_of(wish);
        let Some(chosen) = victims.choose(self, entry, wish, &forbidden, &short) else { return false };
        self.promised.extend(crate::start::picks(&self.choice).iter().map(|(node, _)| *node));
        self.stop(entry, &chosen, "PreemptedForPriority", why);
        true
    }

    /// Jobs are stopped for another; from the end of their grace on what they hold counts as free.
    pub(crate) fn stop(&mut self, entry: &Entry, chosen: &[JobUid], code: &'static str, why: &mut Why) {
        why.causes.push(Cause::Yielding(chosen.to_vec()));
        for uid in chosen {
            let Some(victim) = self.book.jobs.get(uid) else { continue };
            self.yielding.insert(*uid);
            let message = match code {
                "MovedToGuarantee" => "moved to the nodes that its tenant's guarantee is bound to".to_owned(),
                "Reclaimed" => {
                    format!("its nodes were borrowed; the guarantee of job '{}' needs them", entry.id)
                }
                _ => format!("stopped for job '{}' of priority {}", entry.id, entry.priority),
            };
            let reasons = vec![Reason::new(code, message).scope(format!("job/{}", entry.id))];
            let (grace, signal) = (victim.grace, victim.preemption.signal);
            let from = self.plan.grid.floor(self.now.plus(grace));
            if let Some(nodes) = self.book.cache.nodes.get(uid) {
                self.plan.free(nodes.iter().map(|(node, _)| *node), from);
            }
            self.plan.free_limits(self.book, victim, from, self.now);
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
    pub(crate) fn shrunk(&self, entry: &Entry, victim: &Entry, held: u32) -> u32 {
        let wanted = held.saturating_sub(entry.min_nodes + entry.need.spares);
        fitting(victim, wanted).max(victim.min_nodes)
    }

    /// Whether the job's queue holds less than its guarantee within the tenant.
    pub(crate) fn under_guarantee(&self, entry: &Entry) -> bool {
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
    pub(crate) fn grow(&mut self) {
        let Some(after) = self.book.policy.grow_after else { return };
        let book = self.book;
        for entry in book.running.values() {
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
}
