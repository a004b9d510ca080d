//! What agents report of jobs. Views only move forward, so that late, repeated and reordered reports are harmless.

use controller_state::{Blame, CoreError, fresh_view};
use proto_model::{JobUid, Measured, NodeName, Observation, Observed, Phase, RankExit, Reason, ReasonCode};

use crate::{
    context::Step,
    event::{Reply, ToNode},
    node::claims::report::{Admitted, admit},
};

/// Ranks named in one cause.
const RANKS_NAMED: usize = 4;

impl Step<'_> {
    pub(crate) fn observed(
        &mut self,
        node: &NodeName,
        session: u64,
        observation: Observation,
    ) -> Result<Reply, CoreError> {
        self.on_report(node, session)?;
        let (uid, attempt) = (observation.uid, observation.attempt);
        if observation.state == Observed::Ended {
            self.foreign(node, |foreign| foreign.remove(&(uid, attempt)));
        }
        match self.position(node, uid, attempt) {
            Some(position) => self.report(uid, position, node, observation),
            // The end of that attempt is stored. An agent that still has something of it ends it now.
            None => {
                self.ignored("attempt");
                self.push(node, ToNode::Forget { uid, attempt });
            }
        }
        Ok(Reply::Done)
    }

    /// A node reports its part of the job's present attempt.
    pub(crate) fn report(&mut self, uid: JobUid, position: u32, node: &NodeName, seen: Observation) {
        let Some(entry) = self.state.base.jobs.get(&uid) else { return };
        let Admitted { seen, untruths, ignored } = admit(entry, position, node, seen);
        ignored.into_iter().for_each(|what| self.ignored(what));
        untruths.iter().for_each(|untruth| self.quarantine(node, untruth));
        self.merge(uid, position, node, seen);
    }

    /// The node's position in the gang of the job's present attempt.
    pub(crate) fn position(&self, node: &NodeName, uid: JobUid, attempt: u32) -> Option<u32> {
        let position = *self.state.index.holds.get(node)?.get(&uid)?;
        let entry = self.state.base.jobs.get(&uid)?;
        (entry.job.status.attempt == attempt).then_some(position)
    }

    /// Takes over what a report says more, and draws the conclusions.
    fn merge(&mut self, uid: JobUid, position: u32, node: &NodeName, seen: Observation) {
        let Some(entry) = self.state.base.jobs.get(&uid) else { return };
        let (_, ranks) = entry.job.spec.ranks_at(position);
        let preparing = matches!(entry.job.status.phase, Phase::Reserved | Phase::Preparing);
        // Engines that end see their peers go, one after the other: that is no news of any rail.
        let ends = entry.attempt.as_ref().is_some_and(|attempt| attempt.ending.is_some());
        let old = self.state.base.views.get(&(uid, position)).cloned();
        if old.as_ref().is_some_and(|view| view.state == Observed::Ended) {
            return;
        }
        let mut view = old.clone().unwrap_or_else(|| fresh_view(seen.state));
        view.state = view.state.max(seen.state);
        view.railless = entry.job.status.placement.as_ref().is_some_and(|place| place.rails.is_empty());
        if !seen.endpoints.is_empty() && (view.endpoints.is_empty() || preparing) {
            view.endpoints = seen.endpoints;
        }
        let mut failed = Vec::new();
        for exit in seen.exits {
            if !view.exits.iter().any(|known| known.rank == exit.rank) {
                view.exits.push(exit);
                if !exit.is_success() {
                    failed.push(exit);
                }
            }
        }
        view.exits.sort_by_key(|exit| exit.rank);
        let cause = if view.cause.is_none() { seen.cause } else { None };
        view.cause = view.cause.take().or_else(|| cause.clone());
        view.result = view.result.take().or(seen.result);
        if !seen.rails.is_empty() {
            view.rails = seen.rails;
        }
        if !seen.reports.is_empty() && !ends {
            (view.reports, view.reported) = (seen.reports, Some(self.now));
        }
        if !seen.choices.is_empty() {
            view.choices = seen.choices;
        }
        let held = entry.attempt.as_ref().is_some_and(|attempt| !attempt.released);
        let series = |measured: &Option<Measured>| measured.as_ref().map(|measured| measured.series);
        if series(&seen.measured) > series(&view.measured) {
            view.measured = seen.measured;
        }
        view.measured = view.measured.take().filter(|_| held);
        let all = view.exits.len() == ranks as usize;
        view.finished = all && view.exits.iter().all(|exit| exit.is_success());
        view.started |= all || view.state == Observed::Running;
        if old.as_ref() == Some(&view) {
            return;
        }
        let early = view.state == Observed::Ended && !view.finished && view.cause.is_none();
        let early = early && view.exits.iter().all(|exit| exit.is_success());
        self.state.set_view((uid, position), Some(view));
        self.blame(uid, node, &failed, cause, early);
        self.check_rails(uid, node);
        self.assess(uid);
    }

    /// What of a report makes the attempt fail.
    fn blame(
        &mut self,
        uid: JobUid,
        node: &NodeName,
        failed: &[RankExit],
        cause: Option<Reason>,
        early: bool,
    ) {
        let Some(entry) = self.state.base.jobs.get(&uid) else { return };
        // How ranks end once they were told to says nothing.
        let ending = entry.attempt.as_ref().is_some_and(|attempt| attempt.ending.is_some());
        let scope = format!("node/{node}");
        let mut blame = Blame::Program;
        let mut causes = Vec::new();
        if let Some(cause) = cause {
            blame = Blame::of(&cause);
            causes.push(cause.since(self.now));
        }
        if !failed.is_empty() && !ending {
            let shown: Vec<String> = failed.iter().take(RANKS_NAMED).map(describe).collect();
            let more = if failed.len() > RANKS_NAMED { ", ..." } else { "" };
            let message =
                format!("{} of node '{node}' failed: {}{more}", plural(failed.len()), shown.join(", "));
            causes.push(
                Reason::new(ReasonCode::RankFailed, message)
                    .count(failed.len())
                    .scope(scope.clone())
                    .since(self.now),
            );
        }
        if early && !ending {
            let message = format!("the attempt ended on node '{node}' before its ranks did");
            blame = Blame::Infrastructure;
            causes.push(Reason::new(ReasonCode::EndedEarly, message).scope(scope).since(self.now));
        }
        if !causes.is_empty() {
            self.fail(uid, blame, causes);
        }
    }

    /// A node that has come back knows nothing of the job's present attempt.
    pub(crate) fn missing(&mut self, uid: JobUid, position: u32, node: &NodeName) {
        let Some(entry) = self.entry(uid) else { return };
        let Some(attempt) = &entry.attempt else { return };
        let running = entry.job.status.phase == Phase::Running;
        if attempt.ending.is_none() && !running {
            // It has lost the desired state, or never got it: the Welcome brings it again.
            if self.state.base.views.contains_key(&(uid, position)) {
                self.state.set_view((uid, position), None);
            }
            return;
        }
        let mut view = self
            .state
            .base
            .views
            .get(&(uid, position))
            .cloned()
            .unwrap_or_else(|| fresh_view(Observed::Ended));
        if view.state == Observed::Ended && self.state.base.views.contains_key(&(uid, position)) {
            return;
        }
        view.state = Observed::Ended;
        self.state.set_view((uid, position), Some(view));
        if attempt.ending.is_none() {
            let message =
                format!("node '{node}' has come back without the job: its data or its processes were lost");
            let cause =
                Reason::new(ReasonCode::AttemptLost, message).scope(format!("node/{node}")).since(self.now);
            self.fail(uid, Blame::Infrastructure, vec![cause]);
        }
        self.assess(uid);
    }
}

fn describe(exit: &RankExit) -> String {
    if exit.signal == 0 {
        format!("rank {} with status {}", exit.rank, exit.code)
    } else {
        format!("rank {} by signal {}", exit.rank, exit.signal)
    }
}

fn plural(ranks: usize) -> String {
    if ranks == 1 { "a rank".to_owned() } else { format!("{ranks} ranks") }
}
