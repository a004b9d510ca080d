//! Repair: what a gang has lost is replaced, from its spares or from free nodes, and its healthy ranks stay where they
//! are: the next attempt begins in the step that ends the last one, so that nobody comes between.
//!
//! A node that is lost may be silent for ever. Where the job lets nodes be replaced, its confirmation is not waited for
//! once it is NotReady: it takes no new job before it is heard again, and ends then what is in no desired state. So what may
//! still run there holds what it holds; it is only this job that goes on without it.

use std::collections::{BTreeMap, BTreeSet};

use controller_scheduler::{
    Need,
    repair::{FailureScope, RepairRequest, Repaired, Sources, repair},
};
use controller_topology::RailSet;
use proto_model::{
    Health, JobUid, NodeName, Observed, Phase, RailLoss, RailState, Reason, ReasonCode, Replace,
};

use crate::{
    event::ToNode,
    job::attempt::Blame,
    node::quarantine::is_drained,
    state::{
        JobEntry, Link, State, gang, gang_size,
        records::{Attempt, Outcome},
    },
    step::Step,
};

/// Nodes named in one reason.
const NAMED: usize = 8;
/// Causes by which a node shows that itself is what failed.
const OF_NODE: [ReasonCode; 8] = [
    ReasonCode::NotCertified,
    ReasonCode::NodeClaimRefused,
    ReasonCode::EngineLost,
    ReasonCode::EngineFailed,
    ReasonCode::AttemptLost,
    ReasonCode::SupervisorLost,
    ReasonCode::SupervisorFailed,
    ReasonCode::NodeLost,
];

impl State {
    /// Whether the job lets nodes be replaced, and may have another one replaced.
    pub(crate) fn replaces(&self, entry: &JobEntry) -> bool {
        let failure = entry.job.spec.failure;
        failure.replace != Replace::Never && entry.job.status.replaced < failure.max_replacements
    }

    /// What the gang has lost: nodes that are away or take no more jobs, NICs that are down, and the node that was the
    /// first to say that it failed, or else the one that is missed by most. An attempt that ends for a rail loses that: engines that fail
    /// while they are stopped for it are well.
    pub(crate) fn losses(&self, entry: &JobEntry, attempt: &Attempt) -> BTreeMap<NodeName, FailureScope> {
        let topology = self.index.snapshot.topology();
        let placement = entry.job.status.placement.as_ref();
        let rails: RailSet = placement.iter().flat_map(|placement| &placement.rails).copied().collect();
        let mut lost = BTreeMap::new();
        let spares = placement.iter().flat_map(|placement| &placement.spares).map(|place| &place.node);
        for node in gang(entry).map(|(_, node)| node).chain(spares) {
            let index = topology.index(node);
            let open = index.is_some_and(|ix| self.index.snapshot.capacity(ix).gate.is_open());
            let quarantined =
                self.base.nodes.get(node).is_some_and(|node| node.quarantined.is_some() || is_drained(node));
            let usable =
                index.and_then(|ix| topology.server(ix)).map_or(RailSet::EMPTY, |server| server.usable);
            let usable = self.names(node).of_all(usable);
            if !open || quarantined {
                lost.insert(node.clone(), FailureScope::Node);
            } else if !usable.covers(rails) {
                lost.insert(node.clone(), FailureScope::Rails(rails.without(usable)));
            }
        }
        let causes = attempt.ending.as_ref().map_or(&[][..], |ending| &ending.causes);
        let own = first_to_fail(causes);
        let down = match (is_for_rail(causes), &own) {
            // Nobody else is believed: engines that are stopped for it lose their peers one by one.
            (true, _) => rails_named(causes, self.rails_alone(entry)),
            (false, None) => self.rails_down(entry),
            (false, Some(_)) => BTreeMap::new(),
        };
        for (node, rails) in down {
            lost.entry(node).or_insert(FailureScope::Rails(rails));
        }
        let unfit = causes.iter().filter(|cause| cause.code == ReasonCode::NotCertified).filter_map(of);
        lost.extend(unfit.map(|node| (node, FailureScope::Node)));
        if lost.is_empty()
            && let Some(node) = own.or_else(|| most_missed(causes))
        {
            lost.insert(node, FailureScope::Node);
        }
        lost
    }

    /// Rails that the job's engines see down on their own servers while most of the gang see them up. (What a node says of itself comes
    /// before: reports are up to a second old.) Links come up one by one: before its ranks have started, and before all have spoken,
    /// nothing is known.
    fn rails_down(&self, entry: &JobEntry) -> BTreeMap<NodeName, RailSet> {
        let view = |position: u32| self.base.views.get(&(entry.job.uid, position));
        let spoke = |position: u32| view(position).is_some_and(|view| !view.reports.is_empty());
        let down = self.rails_alone(entry);
        // Of two, both or the first say so, and which of them lost it only inventories tell.
        let most = down.len() * 2 >= gang_size(entry) as usize;
        let all = gang(entry).all(|(position, _)| spoke(position));
        if most || !all || entry.job.status.started.is_none() { BTreeMap::new() } else { down }
    }

    /// Rails on which the job's engine sees no peer at all, by its own word alone.
    fn rails_alone(&self, entry: &JobEntry) -> BTreeMap<NodeName, RailSet> {
        let mut down: BTreeMap<NodeName, RailSet> = BTreeMap::new();
        for (position, node) in gang(entry) {
            let Some(view) = self.base.views.get(&(entry.job.uid, position)) else { continue };
            let alone = |report: &&proto_model::RailReport| {
                report.state == Some(RailState::Down) && report.peers > 0 && report.peers_up == 0
            };
            let rails: RailSet = view.reports.iter().filter(alone).map(|report| report.rail).collect();
            if !rails.is_empty() {
                down.insert(node.clone(), rails);
            }
        }
        down
    }
}

/// Of these rails those of nodes for whose rails an attempt ends.
fn rails_named(causes: &[Reason], mut rails: BTreeMap<NodeName, RailSet>) -> BTreeMap<NodeName, RailSet> {
    let lost = causes.iter().filter(|cause| cause.code == ReasonCode::RailLost);
    let named: BTreeSet<NodeName> = lost.filter_map(of).collect();
    rails.retain(|node, _| named.contains(node));
    rails
}

/// Whether an attempt ends because a rail was lost.
fn is_for_rail(causes: &[Reason]) -> bool {
    causes.first().is_some_and(|cause| cause.code == ReasonCode::RailLost)
}

/// The same, and the job asks to be moved then: where it asks to fail, that is a failure like any other.
fn moves_for_rail(entry: &JobEntry, attempt: &Attempt) -> bool {
    let causes = attempt.ending.as_ref().map_or(&[][..], |ending| &ending.causes);
    entry.job.spec.failure.on_rail_loss == RailLoss::Move && is_for_rail(causes)
}

/// The node that failed an attempt: one that was lost whole, else that of the first cause that is a node's own. (Engines whose
/// peer is lost end too, and say so.)
pub(crate) fn first_to_fail(causes: &[Reason]) -> Option<NodeName> {
    let lost =
        causes.iter().find(|cause| matches!(cause.code, ReasonCode::NodeLost | ReasonCode::AttemptLost));
    of(lost.or_else(|| causes.iter().find(|cause| is_own(cause)))?)
}

/// Where no node says that itself failed: the one that most miss, of several the one that was missed first. (An engine that does
/// not say whom it misses is as suspect itself: one of the two has lost the other.)
fn most_missed(causes: &[Reason]) -> Option<NodeName> {
    let missed = causes.iter().filter(|cause| cause.code == ReasonCode::PeerLost);
    of(missed.rev().max_by_key(|cause| cause.count)?)
}

/// Whether a cause is that of the node which says it.
pub(crate) fn is_own(cause: &Reason) -> bool {
    OF_NODE.contains(&cause.code)
}

fn of(cause: &Reason) -> Option<NodeName> {
    NodeName::new(cause.scope.strip_prefix("node/")?).ok()
}

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
            let of = of(reason).filter(|_| reason.code == ReasonCode::RailsRemapped);
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
            let mut view = old.unwrap_or_else(|| crate::state::fresh_view(Observed::Ended));
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

impl State {
    /// Whether an attempt that is moved goes on elsewhere although nothing was repaired: it was stopped for a reason that is
    /// no failure.
    pub(crate) fn moves_anyway(&self, entry: &JobEntry, attempt: &Attempt) -> bool {
        let causes = attempt.ending.as_ref().map_or(&[][..], |ending| &ending.causes);
        let first = causes.first().map(|cause| &cause.code);
        moves_for_rail(entry, attempt)
            || matches!(first, Some(ReasonCode::RailsRemapped | ReasonCode::NodeDrained))
    }

    /// Not heard for longer than the limit, or gone.
    pub(crate) fn is_silent(&self, name: &NodeName) -> bool {
        self.base.nodes.get(name).is_none_or(|node| node.health == Health::NotReady)
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
