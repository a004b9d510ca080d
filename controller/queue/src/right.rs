//! Jobs with a right to run: they start where their guarantee is bound, or where there is room, and whoever has no right
//! there yields.

use std::{collections::BTreeSet, sync::Arc};

use controller_scheduler::{Hidden, Need};
use controller_topology::NodeIx;
use proto_model::{JobUid, ReasonCode};

use crate::{
    entry::Entry,
    pass::Pass,
    plan::PlanRequest,
    preempt::{Victims, hold, price, release},
    start::picks,
    why::{WaitCause, WaitReasons},
};

impl<'a> Pass<'a> {
    /// True if it starts.
    pub(crate) fn start_entitled(
        &mut self,
        entry: &'a Arc<Entry>,
        mut desired: PlanRequest,
        why: &mut WaitReasons,
    ) -> bool {
        let Some((target, nodes)) = self.guarantees.privates.target(&entry.id.tenant, entry.uid) else {
            return false;
        };
        let need = Need { nodes, ..entry.need.clone() };
        desired.nodes = nodes + entry.need.spares;
        if !self.may_start() {
            why.causes.push(WaitCause::Later);
            return false;
        }
        let long = self.plan.without_long_jobs(&mut desired);
        let (quota, _) = self.plan.room(&desired);
        if quota
            && (self.on_target(entry, &need, &desired, &target) || self.elsewhere(entry, &need, &desired))
        {
            long.into_iter().for_each(|limit| self.plan.count_long_job(limit, &desired));
            return true;
        }
        let chosen =
            if quota { self.who_yields(entry, &need, &target) } else { self.own_yield(entry, &desired) };
        let ending = self.ending_on(&target);
        match chosen {
            Some(chosen) if !chosen.is_empty() => self.stop(entry, &chosen, ReasonCode::Reclaimed, why),
            _ if ending.is_empty() => why.causes.push(WaitCause::Scattered),
            _ => why.causes.push(WaitCause::Yielding(ending)),
        }
        if let Some((target, _)) = self.guarantees.privates.target(&entry.id.tenant, entry.uid) {
            self.begun.promised.extend(target);
        }
        let planned = self.plan.earliest(&desired);
        self.plan_for(entry, &desired, planned, why);
        false
    }

    /// Whoever runs on nodes that are bound to others when its right begins moves to its own at once: if it waited
    /// until the others want theirs, its end, and what waits for that, would be later than alone.
    pub(crate) fn move_astray(&mut self) {
        let queue_state = self.queue_state;
        for uid in queue_state.marks.privates.rights() {
            let Some(entry) = queue_state.jobs.get(&uid) else { continue };
            let runs = entry.run().is_some_and(|run| run.ending.is_none());
            if runs && self.is_astray(entry) {
                self.stop(entry, &[uid], ReasonCode::MovedToGuarantee, &mut WaitReasons::default());
            }
        }
    }

    /// Everything but some nodes.
    fn all_but(&self, nodes: &[NodeIx]) -> Hidden {
        let nodes: BTreeSet<NodeIx> = nodes.iter().copied().collect();
        let others = (0..self.plan.nodes.len()).map(NodeIx::at).filter(|node| !nodes.contains(node));
        Hidden::of(self.snapshot.capacity_index(), others)
    }

    fn on_target(
        &mut self,
        entry: &'a Arc<Entry>,
        need: &Need,
        desired: &PlanRequest,
        target: &[NodeIx],
    ) -> bool {
        let hidden = self.all_but(target);
        if !self.search.placer.choose(
            self.snapshot.capacity_index(),
            need,
            Some(&hidden),
            &mut self.search.choice,
        ) {
            return false;
        }
        let picks = picks(&self.search.choice);
        self.begin(entry, desired, &picks);
        true
    }

    /// On other nodes, if its guarantee can be bound to those.
    fn elsewhere(&mut self, entry: &'a Arc<Entry>, need: &Need, desired: &PlanRequest) -> bool {
        let forbidden = self.forbidden(entry, desired.length);
        let hidden = Hidden::of(self.snapshot.capacity_index(), forbidden.iter().copied());
        if !self.search.placer.choose(
            self.snapshot.capacity_index(),
            need,
            Some(&hidden),
            &mut self.search.choice,
        ) {
            return false;
        }
        let picks = picks(&self.search.choice);
        let nodes = picks.iter().map(|(node, _)| *node).collect();
        if !self.guarantees.privates.bind(&entry.id.tenant, entry.uid, &nodes, self.queue_state) {
            return false;
        }
        self.begin(entry, desired, &picks);
        true
    }

    /// Jobs that are being stopped on some nodes.
    fn ending_on(&self, target: &[NodeIx]) -> Vec<JobUid> {
        let ending = |uid: &&JobUid| {
            let stopped = self.begun.yielding.contains(uid)
                || self
                    .queue_state
                    .jobs
                    .get(uid)
                    .and_then(|entry| entry.run())
                    .is_some_and(|run| run.ending.is_some());
            stopped && self.touches(**uid, target)
        };
        self.queue_state.running.keys().filter(ending).copied().collect()
    }

    fn touches(&self, uid: JobUid, target: &[NodeIx]) -> bool {
        let nodes = self.queue_state.cache.nodes.get(&uid);
        nodes.is_some_and(|nodes| nodes.iter().any(|(node, _)| target.contains(node)))
    }

    /// The cheaper of two ways: everybody without a right on the bound nodes, or the cheapest set anywhere to whose
    /// nodes the guarantee can be bound.
    fn who_yields(&mut self, entry: &'a Arc<Entry>, need: &Need, target: &[NodeIx]) -> Option<Vec<JobUid>> {
        let cost = |pass: &Self, list: &[&'a Arc<Entry>]| -> u64 {
            list.iter().map(|victim| price(victim, pass.now)).sum()
        };
        let here = self.yield_on(need, target, false).or_else(|| self.yield_on(need, target, true));
        let queue_state = self.queue_state;
        let all = Victims::of(self, |victim| !queue_state.marks.privates.has_right(victim.uid));
        let there = all.greedy_anywhere(self, need).filter(|_| {
            let nodes = picks(&self.search.choice).iter().map(|(node, _)| *node).collect();
            let mut privates = self.guarantees.privates.clone();
            privates.bind(&entry.id.tenant, entry.uid, &nodes, queue_state)
        });
        let best = match (here, there) {
            (Some(here), Some(there)) if cost(self, &there) < cost(self, &here) => {
                // It will start there when they have ended, because its guarantee is bound to those nodes from now on.
                let nodes = there
                    .iter()
                    .filter_map(|victim| queue_state.cache.nodes.get(&victim.uid))
                    .flat_map(|nodes| nodes.iter().map(|(node, _)| *node))
                    .collect::<BTreeSet<NodeIx>>();
                let chosen: BTreeSet<NodeIx> =
                    picks(&self.search.choice).iter().map(|(node, _)| *node).collect();
                if !nodes.is_empty() {
                    self.guarantees.privates.bind(&entry.id.tenant, entry.uid, &chosen, queue_state);
                }
                there
            }
            (Some(here), _) => here,
            (None, there) => there?,
        };
        Some(best.iter().map(|victim| victim.uid).collect())
    }

    /// Who must yield on these nodes; `astray`: those too whose right is bound elsewhere.
    fn yield_on(&mut self, need: &Need, target: &[NodeIx], astray: bool) -> Option<Vec<&'a Arc<Entry>>> {
        let queue_state = self.queue_state;
        let mut gone: Vec<&'a Arc<Entry>> = Vec::new();
        for entry in queue_state.running.values() {
            let ends = entry.run().is_some_and(|run| run.ending.is_some())
                || self.begun.yielding.contains(&entry.uid);
            let may =
                ends || !queue_state.marks.privates.has_right(entry.uid) || astray && self.is_astray(entry);
            if may && self.touches(entry.uid, target) {
                gone.push(entry);
            }
        }
        gone.iter().for_each(|victim| release(self, victim));
        let hidden = self.all_but(target);
        let found = self.search.placer.choose(
            self.snapshot.capacity_index(),
            need,
            Some(&hidden),
            &mut self.search.choice,
        );
        if found {
            // Those without whom it works too stay.
            let mut at = 0;
            while at < gone.len() {
                hold(self, gone[at]);
                if self.search.placer.choose(
                    self.snapshot.capacity_index(),
                    need,
                    Some(&hidden),
                    &mut self.search.choice,
                ) {
                    gone.remove(at);
                } else {
                    release(self, gone[at]);
                    at += 1;
                }
            }
        }
        gone.iter().for_each(|victim| hold(self, victim));
        let stopped = |victim: &&Arc<Entry>| {
            let ending = victim.run().is_some_and(|run| run.ending.is_some());
            !ending && !self.begun.yielding.contains(&victim.uid)
        };
        found.then(|| gone.into_iter().filter(stopped).collect())
    }

    /// Whether a job runs on other nodes than those where it has a right to.
    fn is_astray(&self, entry: &Entry) -> bool {
        let Some((target, _)) = self.guarantees.privates.target(&entry.id.tenant, entry.uid) else {
            return false;
        };
        let target: BTreeSet<NodeIx> = target.into_iter().collect();
        let nodes = self.queue_state.cache.nodes.get(&entry.uid);
        // Elsewhere is all right where nothing is bound.
        nodes.is_some_and(|nodes| {
            nodes.iter().any(|(node, _)| !target.contains(node) && self.guarantees.privates.is_bound(*node))
        })
    }

    /// The tenant's own jobs without a right fill its limit, or that of a user: the cheapest of them yield.
    fn own_yield(&mut self, entry: &'a Arc<Entry>, desired: &PlanRequest) -> Option<Vec<JobUid>> {
        let queue_state = self.queue_state;
        let short = self.plan.short_of(desired);
        let of_user = short.iter().any(|(whose, _)| whose.is_of_user());
        let own = Victims::of(self, |victim| {
            victim.id.tenant == entry.id.tenant
                && !queue_state.marks.privates.has_right(victim.uid)
                && (!of_user || short.iter().any(|(whose, _)| whose.counts(queue_state, victim)))
        });
        if of_user {
            return own.filling(queue_state, &short);
        }
        let wanted = u64::try_from(desired.amount()).unwrap_or(0);
        own.worth(wanted)
    }
}
