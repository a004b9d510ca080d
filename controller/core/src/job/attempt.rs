//! One attempt of a job: what its nodes are desired to do, how far they are, how it ends.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use controller_queue::Past;
use controller_state::{
    Attempt, Blame, Ending, JobEntry, Outcome, gang, gang_size,
    view::job::{blame::is_own, holds::causes},
};
use proto_model::{
    Health, JobStatus, JobUid, NodeEndpoints, NodeName, Observed, PastAttempt, Phase, RailBytes, RankExit,
    Reason, ReasonCode, Requeue, RunResult, Timestamp,
};

use crate::{context::Step, event::ToNode};

/// Causes kept of one attempt.
const CAUSES_MAX: usize = 32;

/// What is remembered of the attempt that ends now.
fn past(status: &JobStatus, now: Timestamp) -> PastAttempt {
    let nodes = status.placement.iter().flat_map(|placement| placement.nodes.iter());
    PastAttempt {
        attempt: status.attempt,
        started: status.started,
        ended: now,
        reasons: status.reasons.iter().take(PastAttempt::MAX_REASONS).cloned().collect(),
        exits: PastAttempt::failed(&status.exits),
        nodes: nodes.map(|node| node.node.clone()).collect(),
    }
}

impl Step<'_> {
    /// Tells every connected node of the gang its desired state.
    pub(crate) fn push_desired(&mut self, uid: JobUid) {
        let Some(entry) = self.entry(uid) else { return };
        let env = self.state.hidden_env(&entry);
        for (position, node) in gang(&entry) {
            if let Some(assignment) = self.state.desired(&entry, position, &env) {
                self.push(node, ToNode::Assignment(Box::new(assignment)));
            }
        }
    }

    /// Draws the conclusions from what the nodes of a gang have reported.
    pub(crate) fn assess(&mut self, uid: JobUid) {
        let Some(mut entry) = self.entry(uid) else { return };
        let Some(attempt) = entry.attempt.clone() else { return };
        let size = gang_size(&entry);
        if attempt.ending.is_some() {
            if entry.tally.ended == size {
                self.finish(uid);
            }
            return;
        }
        if entry.job.status.phase == Phase::Reserved {
            self.enter(&mut entry, Phase::Preparing);
            self.state.set_job(uid, Some(entry.clone()));
        }
        if entry.job.status.phase == Phase::Preparing && entry.tally.prepared == size {
            let peers = self.peers(&entry);
            self.enter(&mut entry, Phase::Running);
            let released = !self.state.certifies(&entry);
            entry.attempt = Some(Arc::new(Attempt { peers, released, ..(*attempt).clone() }));
            let limit = match released {
                true => self.state.config.start_timeout,
                false => self.state.certify_limit(&entry),
            };
            entry.due = Some(self.now.plus(limit));
            self.state.set_job(uid, Some(entry.clone()));
            self.push_desired(uid);
        }
        if entry.job.status.phase != Phase::Running {
            return;
        }
        if entry.attempt.as_ref().is_some_and(|attempt| !attempt.released) {
            self.certify(uid, false);
            match self.entry(uid).filter(|entry| entry.job.status.phase == Phase::Running) {
                Some(now) => entry = now,
                None => return,
            }
        }
        if entry.tally.started == size && entry.job.status.started.is_none() {
            let now = self.now;
            self.change(&mut entry, |status| status.started = Some(now));
            self.moved.insert(uid);
            entry.due = entry.job.spec.ends_at(now);
            self.state.set_job(uid, Some(entry.clone()));
        }
        if entry.tally.ended == size && entry.tally.finished == size {
            self.finish(uid);
        }
    }

    fn peers(&self, entry: &JobEntry) -> Vec<NodeEndpoints> {
        gang(entry)
            .map(|(position, node)| NodeEndpoints {
                node: node.clone(),
                endpoints: self
                    .state
                    .base
                    .views
                    .get(&(entry.job.uid, position))
                    .map(|view| view.endpoints.clone())
                    .unwrap_or_default(),
            })
            .collect()
    }

    /// An attempt has failed. The first failure ends it; a later one may show that it was the infrastructure's.
    pub(crate) fn fail(&mut self, uid: JobUid, blame: Blame, causes: Vec<Reason>) {
        let Some(entry) = self.entry(uid).filter(|entry| entry.attempt.is_some()) else { return };
        let (again, exhausted) = may_repeat(&entry, blame);
        let mut causes = causes;
        let repair = blame == Blame::Infrastructure && self.state.replaces(&entry);
        if !repair {
            causes.extend(exhausted);
        }
        let outcome = match (repair, again) {
            (true, _) => Outcome::Move,
            (false, true) => Outcome::Requeue,
            (false, false) => Outcome::Fail,
        };
        self.end_attempt(uid, outcome, entry.job.spec.grace_period, causes);
    }

    /// Ends an attempt, or adds to an end that is under way: a cancel wins over a failure, a requeue over a plain failure,
    /// less grace over more.
    pub(crate) fn end_attempt(
        &mut self,
        uid: JobUid,
        outcome: Outcome,
        grace: Duration,
        causes: Vec<Reason>,
    ) {
        self.stop_attempt(uid, outcome, grace, 0, causes);
    }

    /// The same with the signal that the ranks get first, if the end begins now.
    pub(crate) fn stop_attempt(
        &mut self,
        uid: JobUid,
        outcome: Outcome,
        grace: Duration,
        signal: i32,
        causes: Vec<Reason>,
    ) {
        let Some(mut entry) = self.entry(uid) else { return };
        let Some(attempt) = entry.attempt.clone() else { return };
        let old = attempt.ending.clone();
        let new = match &old {
            None => Ending { outcome, grace, signal, since: self.now, causes },
            Some(old) => merge_ending(old, outcome, grace, causes),
        };
        if old.as_ref() == Some(&new) {
            return;
        }
        let again = matches!(new.outcome, Outcome::Requeue | Outcome::Preempt | Outcome::Move);
        if again && entry.job.status.phase != Phase::Recovering {
            self.enter(&mut entry, Phase::Recovering);
        }
        let exits = self.exits(uid);
        self.change(&mut entry, |status| status.exits = exits);
        entry.due = None;
        let report = old.as_ref().is_none_or(|old| new.grace < old.grace);
        entry.attempt = Some(Arc::new(Attempt { ending: Some(new), ..(*attempt).clone() }));
        self.state.set_job(uid, Some(entry));
        self.refresh_reasons(uid);
        if report {
            self.push_desired(uid);
        }
        if old.is_none() {
            self.give_up_silent(uid);
        }
        self.assess(uid);
    }

    /// Every node of the gang has confirmed the end: what the job held is free, and it becomes what it becomes.
    fn finish(&mut self, uid: JobUid) {
        let Some(entry) = self.entry(uid) else { return };
        let Some(attempt) = entry.attempt.clone() else { return };
        let repaired = self.plan_repair(&entry, &attempt);
        let renamed = self.state.renamed(&entry, &attempt).filter(|_| repaired.is_none());
        let (exits, result) = (self.exits(uid), self.result(uid));
        let nodes: Vec<(u32, NodeName)> =
            gang(&entry).map(|(position, node)| (position, node.clone())).collect();
        for (position, _) in &nodes {
            self.state.set_view((uid, *position), None);
        }
        let Some(mut entry) = self.entry(uid) else { return };
        self.remember(&entry, attempt.ending.is_none());
        entry.attempt = None;
        entry.due = None;
        let causes = attempt.ending.as_ref().map(|ending| ending.causes.clone()).unwrap_or_default();
        let now = self.now;
        self.change(&mut entry, |status| {
            (status.exits, status.result) = (exits, result);
            if attempt.ending.is_none() {
                status.started = status.started.or(Some(now));
            }
            status.reasons = causes;
        });
        let outcome = attempt.ending.as_ref().map(|ending| ending.outcome);
        // What could not be repaired is repeated or not as any other attempt that failed by the infrastructure.
        let (outcome, exhausted) = match outcome {
            Some(Outcome::Move) if repaired.is_none() && !self.state.moves_anyway(&entry, &attempt) => {
                match may_repeat(&entry, Blame::Infrastructure) {
                    (true, _) => (Some(Outcome::Requeue), None),
                    (false, exhausted) => (Some(Outcome::Fail), exhausted),
                }
            }
            other => (other, None),
        };
        self.change(&mut entry, |status| status.reasons.extend(exhausted));
        self.account(&entry, &attempt, outcome);
        match outcome {
            None => self.enter(&mut entry, Phase::Completed),
            Some(Outcome::Fail) => self.enter(&mut entry, Phase::Failed),
            Some(Outcome::Cancel) => self.enter(&mut entry, Phase::Cancelled),
            Some(outcome) => self.requeue(&mut entry, outcome),
        };
        self.state.set_job(uid, Some(entry.clone()));
        self.count_strike(uid, &attempt);
        if entry.job.status.phase == Phase::Completed {
            self.prove_nodes(&entry);
        }
        for (_, node) in nodes {
            self.push(&node, ToNode::Forget { uid, attempt: attempt.attempt });
        }
        // No attempt of a job begins while somebody holds it, be it on the nodes that it has kept.
        if let Some(repaired) = repaired.filter(|_| !entry.held) {
            self.start_repaired(uid, repaired, &attempt);
        }
        if let Some(renamed) = renamed.filter(|_| !entry.held) {
            self.start_renamed(uid, renamed);
        }
        self.request_scheduling_pass();
    }

    /// What an attempt that ends now used, and how long it ran.
    fn remember(&mut self, entry: &JobEntry, whole: bool) {
        let past = self.state.queue_entry(entry).and_then(|entry| Past::of(&entry, self.now, whole));
        if let Some(past) = past {
            self.state.note_marks();
            self.state.index.queue_state.remember(&past);
        }
    }

    fn requeue(&mut self, entry: &mut JobEntry, outcome: Outcome) -> bool {
        let attempt = entry.job.status.attempt;
        let restarts = entry.job.status.restarts;
        let config = &self.state.config;
        let wait = (config.requeue_backoff * (1 << restarts.min(16))).min(config.requeue_backoff_max);
        // Entering the queue counts the next one.
        let past = past(&entry.job.status, self.now);
        let entered = self.enter(entry, Phase::Pending);
        let message = match outcome {
            Outcome::Requeue => {
                format!("attempt {attempt} failed; the job is queued again after {} ms", wait.as_millis())
            }
            _ => format!("attempt {attempt} was stopped; the job is queued again"),
        };
        let reason = Reason::new(ReasonCode::Requeued, message).count(attempt as usize).since(self.now);
        entry.due = (outcome == Outcome::Requeue).then(|| self.now.plus(wait));
        self.change(entry, |status| {
            let known = status.past_attempts.len();
            status.past_attempts.drain(..(known + 1).saturating_sub(PastAttempt::MAX));
            status.past_attempts.push(Arc::new(past));
            status.restarts += u32::from(outcome == Outcome::Requeue);
            let stopped = status.reasons.iter().any(|reason| {
                reason.code == ReasonCode::Preempted || reason.code == ReasonCode::PreemptedForPriority
            });
            status.preempted += u32::from(outcome == Outcome::Preempt && stopped);
            status.placement = None;
            (status.started, status.result) = (None, None);
            status.exits = Vec::new();
            status.reasons.push(reason);
        });
        // Somebody has held it while it ran.
        entry.held = !entry.job.status.holds.is_empty();
        let holds: Vec<Reason> = causes(&entry.job).collect();
        self.change(entry, |status| status.reasons.extend(holds));
        entered
    }

    /// Every rank's exit so far, by rank.
    fn exits(&self, uid: JobUid) -> Vec<RankExit> {
        let views = self.state.base.views.range((uid, 0)..=(uid, u32::MAX));
        let mut exits: Vec<RankExit> = views.flat_map(|(_, view)| view.exits.iter().copied()).collect();
        exits.sort_by_key(|exit| exit.rank);
        exits
    }

    /// What rank 0 measured, with the bytes of all engines.
    fn result(&self, uid: JobUid) -> Option<RunResult> {
        let views = self.state.base.views.range((uid, 0)..=(uid, u32::MAX));
        let mut rails: BTreeMap<u32, RailBytes> = BTreeMap::new();
        let mut result = None;
        for (_, view) in views {
            result = result.or_else(|| view.result.clone());
            for bytes in &view.rails {
                let sum =
                    rails.entry(bytes.rail).or_insert(RailBytes { rail: bytes.rail, ..RailBytes::default() });
                sum.tx_bytes = sum.tx_bytes.saturating_add(bytes.tx_bytes);
                sum.rx_bytes = sum.rx_bytes.saturating_add(bytes.rx_bytes);
            }
        }
        result.map(|result| RunResult { rails: rails.into_values().collect(), ..result })
    }

    /// Makes a placed job's reasons say all that is so now: why it ends, and which nodes are not heard.
    pub(crate) fn refresh_reasons(&mut self, uid: JobUid) {
        let Some(mut entry) = self.entry(uid) else { return };
        let Some(attempt) = entry.attempt.clone() else { return };
        let mut reasons = match &attempt.ending {
            Some(ending) => ending.causes.clone(),
            None => entry.job.status.placement.as_ref().map(|p| p.reasons.clone()).unwrap_or_default(),
        };
        for (position, node) in gang(&entry) {
            let ended =
                self.state.base.views.get(&(uid, position)).is_some_and(|view| view.state == Observed::Ended);
            let link = self.state.base.links.get(node);
            let silent = self.state.base.nodes.get(node).is_none_or(|node| node.health == Health::NotReady);
            let away = silent || link.is_none_or(|link| link.session.is_none());
            let scope = format!("node/{node}");
            if attempt.ending.is_some() && away && !ended {
                let message = format!(
                    "node '{node}' is not connected and has not confirmed the end of the attempt; what the job holds stays \
                     held until it does, or until an administrator deletes the node by force"
                );
                reasons.push(Reason::new(ReasonCode::AwaitingNode, message).scope(scope));
            } else if attempt.ending.is_none() && silent {
                let message = format!("node '{node}' is not heard from; the job goes on there");
                reasons.push(Reason::new(ReasonCode::NodeNotReady, message).scope(scope));
            }
        }
        if entry.job.status.reasons != reasons {
            self.change(&mut entry, |status| status.reasons = reasons);
            self.state.set_job(uid, Some(entry));
        }
    }
}

/// Whether an attempt that failed is to be repeated; and why not, if it was too often.
fn may_repeat(entry: &JobEntry, blame: Blame) -> (bool, Option<Reason>) {
    let failure = entry.job.spec.failure;
    let again = match failure.requeue {
        Requeue::Never => false,
        Requeue::OnInfrastructure => blame == Blame::Infrastructure,
        Requeue::OnAny => true,
    };
    let restarts = entry.job.status.restarts;
    if again && restarts >= failure.max_restarts {
        let message = format!("the job was restarted {restarts} times, the most that it allows");
        return (false, Some(Reason::new(ReasonCode::RestartsExhausted, message).count(restarts as usize)));
    }
    (again, None)
}

pub(crate) fn merge_ending(old: &Ending, outcome: Outcome, grace: Duration, causes: Vec<Reason>) -> Ending {
    let mut all = old.causes.clone();
    for cause in causes {
        let known = all.iter_mut().find(|have| have.code == cause.code && have.scope == cause.scope);
        if let Some(known) = known {
            if known.code == ReasonCode::PeerLost {
                known.count = known.count.saturating_add(cause.count);
            }
            continue;
        }
        // A whole gang misses the one that failed, and that one may be the last to say so.
        let missed = (all.len() >= CAUSES_MAX && is_own(&cause))
            .then(|| all.iter().rposition(|have| have.code == ReasonCode::PeerLost))
            .flatten();
        if let Some(at) = missed {
            all.remove(at);
        }
        if all.len() < CAUSES_MAX {
            all.push(cause);
        }
    }
    // A job that has had its time does not run again because its end went badly.
    let timed_out = old.causes.iter().any(|cause| cause.code == ReasonCode::TimeLimit);
    let outcome = match (old.outcome, outcome) {
        (Outcome::Fail, Outcome::Requeue) if timed_out => Outcome::Fail,
        (Outcome::Cancel, _) | (_, Outcome::Cancel) => Outcome::Cancel,
        // How an attempt ends that was stopped on purpose says nothing.
        (Outcome::Preempt | Outcome::Move, _) => old.outcome,
        (_, Outcome::Move) if !timed_out => Outcome::Move,
        (_, Outcome::Preempt | Outcome::Move) => old.outcome,
        (Outcome::Requeue, _) | (_, Outcome::Requeue) => Outcome::Requeue,
        (Outcome::Fail, Outcome::Fail) => Outcome::Fail,
    };
    Ending { outcome, grace: old.grace.min(grace), signal: old.signal, since: old.since, causes: all }
}
