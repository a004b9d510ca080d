//! Repair: what a gang has lost is replaced, from its spares or from free nodes, and its healthy ranks stay where they
//! are: the next attempt begins in the step that ends the last one, so that nobody comes between.
//!
//! A node that is lost may be silent for ever. Where the job lets nodes be replaced, its confirmation is not waited for
//! once it is NotReady: it takes no new job before it is heard again, and ends then what is in no desired state. So what may
//! still run there holds what it holds; it is only this job that goes on without it.

use controller_scheduler::{
    Need,
    repair::{RepairRequest, Repaired, Sources, repair},
};
use controller_state::{
    Attempt, Blame, JobEntry, Link, Outcome, fresh_view, gang,
    view::job::blame::{moves_for_rail, node_of},
};
use controller_topology::RailSet;
use proto_model::{JobUid, NodeName, Observed, Phase, RailLoss, Reason, ReasonCode};

use crate::{context::Step, event::ToNode};

/// Nodes named in one reason.
const NAMED: usize = 8;

impl Step<'_> {
    /// What takes the place of the lost part of a gang whose attempt ends now. Its old placement is still held.
    pub(crate) fn plan_repair(&mut self, entry: &JobEntry, attempt: &Attempt) -> Option<Repaired> {
        attempt.ending.as_ref().filter(|ending| ending.outcome == Outcome::Move)?;
        self.remediate(entry, attempt, moves_for_rail(entry, attempt))
    }

    /// The same. A job that moves for a rail may have any node that is free, and that is no replacement of a failed one.
    /// The gang on fewer rails only where it may be and nothing better is found.
    fn remediate(&mut self, entry: &JobEntry, attempt: &Attempt, for_rail: bool) -> Option<Repaired> {
        if !for_rail && !self.state.replaces(entry) {
            return None;
        }
        let job = &entry.job;
        let placement = job.status.placement.as_ref()?;
        let lost = self.state.losses(entry, attempt);
        let left = job.spec.failure.max_replacements.saturating_sub(job.status.replaced);
        let nodes =
            lost.keys().filter(|node| placement.nodes.iter().any(|place| place.node == **node)).count();
        if nodes == 0 || !for_rail && nodes > left as usize {
            return None;
        }
        let snapshot = &self.state.index.snapshot;
        let asked = Need::of(&job.id.tenant, &job.spec, snapshot);
        let need = Need { nodes: number(placement.nodes.len()), ..asked };
        // What is reserved is not free.
        let queued = self.state.queue_entry(entry);
        let kept = queued.map(|queued| self.state.index.queue_state.kept_from(&queued, snapshot, self.now));
        let kept = kept.unwrap_or_default();
        let sources = Sources::from(job.spec.failure.replace);
        let request = RepairRequest {
            need: &need,
            placement,
            lost: &lost,
            sources: if for_rail { Sources { spares: true, free: true } } else { sources },
            kept: &kept,
        };
        let mut placer = std::mem::take(&mut self.state.index.placer);
        let repaired = repair(&self.state.index.snapshot, &mut placer, &request);
        self.state.index.placer = placer;
        match repaired {
            Ok(repaired) => Some(repaired),
            Err(irreparable) => {
                let some = |fewer: &Repaired| !fewer.placement.rails.is_empty();
                let fewer = irreparable.fewer_rails.filter(|_| job.spec.rails.allow_partial);
                fewer.map(|fewer| *fewer).filter(some)
            }
        }
    }

    /// The next attempt begins, where the last one was healthy and where it was replaced; not if the tenant's quota was lowered below
    /// that while the job ran: then it waits in the queue, which says so. `ended` is the attempt before.
    pub(crate) fn start_repaired(&mut self, uid: JobUid, repaired: Repaired, ended: &Attempt) {
        let Repaired { mut placement, swaps, rails_dropped, .. } = repaired;
        let shown: Vec<String> = swaps
            .iter()
            .take(NAMED)
            .map(|swap| {
                let from = if swap.spare { "a spare" } else { "a free node" };
                format!("'{}' by '{}', {from}", swap.old, swap.new)
            })
            .collect();
        let more = if swaps.len() > NAMED { ", ..." } else { "" };
        let kept = placement.nodes.len() - swaps.len();
        let mut message = format!("{kept} nodes keep their ranks");
        if !swaps.is_empty() {
            message = format!("replaced {}{more}; {message}", shown.join(", "));
        }
        if !rails_dropped.is_empty() {
            message = format!("goes on without rails {rails_dropped}; {message}");
        }
        let stays = |reason: &Reason| {
            let of = node_of(reason).filter(|_| reason.code == ReasonCode::RailsRemapped);
            of.is_some_and(|node| placement.nodes.iter().any(|place| place.node == node && place.remapped))
        };
        let remapped: Vec<Reason> =
            placement.reasons.iter().filter(|reason| stays(reason)).cloned().collect();
        placement.reasons =
            vec![Reason::new(ReasonCode::Repaired, message).count(swaps.len()).since(self.now)];
        placement.reasons.extend(remapped);
        if self.state.is_over_quota(uid, &placement) || !self.place(uid, placement) {
            return;
        }
        let counts = |entry: &JobEntry| !moves_for_rail(entry, ended) && self.state.replaces(entry);
        if let Some(mut entry) = self.entry(uid).filter(counts) {
            self.change(&mut entry, |status| status.replaced += number(swaps.len()));
            self.state.set_job(uid, Some(entry));
        }
    }

    /// Nodes of an attempt that ends which are not heard any more are not waited for, where the job lets them be replaced.
    pub(crate) fn give_up_silent(&mut self, uid: JobUid) {
        let Some(entry) = self.entry(uid) else { return };
        let ending = entry.attempt.as_ref().and_then(|attempt| attempt.ending.as_ref());
        if ending.map(|ending| ending.outcome) != Some(Outcome::Move) || !self.state.replaces(&entry) {
            return;
        }
        let silent: Vec<(u32, NodeName)> = gang(&entry)
            .filter(|(_, node)| self.state.is_silent(node))
            .map(|(position, node)| (position, node.clone()))
            .collect();
        for (position, node) in silent {
            let key = (uid, position);
            let old = self.state.base.views.get(&key).cloned();
            if old.as_ref().is_some_and(|view| view.state == Observed::Ended) {
                continue;
            }
            let mut view = old.unwrap_or_else(|| fresh_view(Observed::Ended));
            view.state = Observed::Ended;
            self.state.set_view(key, Some(view));
            self.cut_off(&node);
            let message = format!(
                "node '{node}' is not heard from; the job goes on without it, and it takes no job before it has ended this one"
            );
            let cause =
                Reason::new(ReasonCode::NodeLost, message).scope(format!("node/{node}")).since(self.now);
            self.add_cause(uid, cause);
        }
    }

    /// A node that was given up says anew what it has before it counts as heard: what still runs there is then known.
    fn cut_off(&mut self, node: &NodeName) {
        let reason = "jobs here were given up, because the node was not heard; it registers anew".to_owned();
        self.push(node, ToNode::Close { reason });
        if let Some(link) = self.state.base.links.get(node).filter(|link| link.session.is_some()).cloned() {
            self.state.set_link(node, Some(Link { session: None, ..link }));
        }
    }

    fn add_cause(&mut self, uid: JobUid, cause: Reason) {
        let Some(ending) = self.entry(uid).and_then(|entry| entry.attempt.as_ref()?.ending.clone()) else {
            return;
        };
        self.end_attempt(uid, ending.outcome, ending.grace, vec![cause]);
    }

    /// A node has fallen silent: jobs that let nodes be replaced do not wait for it, provided that all others of their
    /// gangs are heard. (If they are not, it is rather this controller that is cut off.)
    pub(crate) fn replace_silent(&mut self, name: &NodeName) {
        for uid in self.jobs_on(name) {
            let Some(entry) = self.entry(uid) else { continue };
            let ends = entry.attempt.as_ref().is_some_and(|attempt| attempt.ending.is_some());
            if ends {
                self.give_up_silent(uid);
                self.assess(uid);
                continue;
            }
            let mut others = gang(&entry).map(|(_, node)| node).filter(|node| *node != name).peekable();
            let heard = others.peek().is_some() && others.all(|node| !self.state.is_silent(node));
            if heard && self.state.replaces(&entry) {
                let message = format!("node '{name}' is not heard from, and the job lets nodes be replaced");
                let cause =
                    Reason::new(ReasonCode::NodeLost, message).scope(format!("node/{name}")).since(self.now);
                self.fail(uid, Blame::Infrastructure, vec![cause]);
            }
        }
    }

    /// Rails of a node may have gone down: jobs there do as their policy says.
    pub(crate) fn rails_changed(&mut self, name: &NodeName) {
        for uid in self.jobs_on(name) {
            self.check_rails(uid, name);
        }
    }

    /// The same for one job.
    pub(crate) fn check_rails(&mut self, uid: JobUid, name: &NodeName) {
        let Some(entry) = self.entry(uid) else { return };
        let policy = entry.job.spec.failure.on_rail_loss;
        let ends = entry.attempt.as_ref().is_none_or(|attempt| attempt.ending.is_some());
        if policy == RailLoss::Continue || ends || entry.job.status.phase != Phase::Running {
            return;
        }
        let placement = entry.job.status.placement.as_ref();
        let held: RailSet = placement.iter().flat_map(|placement| &placement.rails).copied().collect();
        let topology = self.state.index.snapshot.topology();
        let server = topology.index(name).and_then(|ix| topology.server(ix));
        // A rail that its agent calls unfit still works for who is there: new jobs keep off it.
        let works = server.map(|server| self.state.names(name).of_all(server.usable.or(server.unfit)));
        let down = held.without(works.unwrap_or(held));
        let down = down.or(self.state.rails_down(&entry).get(name).copied().unwrap_or_default());
        if down.is_empty() {
            return;
        }
        let message =
            format!("node '{name}' has lost rails {down}, and the job's policy is {}", policy.as_str());
        let cause = Reason::new(ReasonCode::RailLost, message).scope(format!("node/{name}")).since(self.now);
        match policy {
            RailLoss::Fail => self.fail(uid, Blame::Infrastructure, vec![cause]),
            RailLoss::Move if self.must_move(&entry) => {
                let preemption = entry.job.spec.preemption;
                let grace = entry.job.spec.stop_grace();
                self.stop_attempt(uid, Outcome::Move, grace, preemption.signal, vec![cause]);
            }
            RailLoss::Move | RailLoss::Continue => {}
        }
    }

    /// A job that may do with fewer rails stays while there is nothing better than where it is; its engines go on with the
    /// rails that are left, and it is looked at again when they report.
    fn must_move(&mut self, entry: &JobEntry) -> bool {
        if !entry.job.spec.rails.allow_partial {
            return true;
        }
        let Some(attempt) = entry.attempt.clone() else { return false };
        let found = self.remediate(entry, &attempt, true);
        found.is_some_and(|found| found.rails_dropped.is_empty())
    }

    /// A node is drained: jobs that let nodes be replaced, or that may be stopped for others, go on elsewhere.
    pub(crate) fn leave(&mut self, name: &NodeName) {
        for uid in self.jobs_on(name) {
            let Some(entry) = self.entry(uid) else { continue };
            let ends = entry.attempt.as_ref().is_none_or(|attempt| attempt.ending.is_some());
            let preemption = entry.job.spec.preemption;
            if ends || !(self.state.replaces(&entry) || preemption.preemptible) {
                continue;
            }
            let message = format!("node '{name}' is drained, and the job can go on elsewhere");
            let cause =
                Reason::new(ReasonCode::NodeDrained, message).scope(format!("node/{name}")).since(self.now);
            let grace = entry.job.spec.stop_grace();
            self.stop_attempt(uid, Outcome::Move, grace, preemption.signal, vec![cause]);
        }
    }

    fn jobs_on(&self, name: &NodeName) -> Vec<JobUid> {
        self.state.index.holds.get(name).map(|jobs| jobs.keys().copied().collect()).unwrap_or_default()
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
