//! Planted bugs as they act.

use std::sync::Arc;

use controller_core::{Event as Core, Output, Push, State, Stored, ToNode, Write};
use proto_audit::{Content, Record};
use proto_model::{DesiredState, Observation, Observed, Phase};

use crate::{
    audit::Kind,
    controller::{From, Inbound, Stepped},
    etcd::Body,
    world::{Event, World},
};

use super::Bug;

impl World {
    /// Whether a bug is planted.
    #[must_use]
    pub fn bug(&self, bug: Bug) -> bool {
        self.config.bug == Some(bug)
    }

    /// Whether etcd compares what a transaction asks it to.
    pub(crate) fn fences(&self, body: &Body) -> bool {
        let Some(leader) = self.etcd.leader else { return self.config.bug != Some(Bug::NoFence) };
        let place = |life: usize| self.controllers[life].slot;
        match self.config.bug {
            Some(Bug::NoFence) => false,
            Some(Bug::FenceByHolder) => place(leader.holder) != place(body.from),
            Some(Bug::FenceByLease) => !self.etcd.leases.contains_key(&body.from),
            _ => true,
        }
    }

    /// What a new leader reads.
    pub(crate) fn spoil_loaded(&self, stored: &mut Stored) {
        match self.config.bug {
            Some(Bug::LoseJobsOnLoad) => {
                stored.jobs.retain(|(job, _)| !job.status.phase.holds());
                stored.attempts.clear();
            }
            Some(Bug::LoseAuditOnLoad) => stored.audit.clear(),
            Some(Bug::LoseRequestsOnLoad) => stored.requests.clear(),
            Some(Bug::LoseEndingsOnLoad) => {
                stored.attempts.iter_mut().for_each(|attempt| Arc::make_mut(attempt).ending = None);
            }
            Some(Bug::RequeueOnLoad) => {
                let early = |phase| matches!(phase, Phase::Reserved | Phase::Preparing);
                for (job, _) in stored.jobs.iter_mut().filter(|(job, _)| early(job.status.phase)) {
                    let job = Arc::make_mut(job);
                    (job.status.phase, job.status.placement) = (Phase::Pending, None);
                    stored.attempts.retain(|attempt| attempt.uid != job.uid);
                }
            }
            Some(Bug::LoseQuotasOnLoad) => {
                stored.tenants.iter_mut().for_each(|(tenant, _)| Arc::make_mut(tenant).quota.gpus = 1000);
            }
            _ => {}
        }
    }

    /// What reaches the core.
    pub(crate) fn spoil_inbound(&self, state: &State, inbound: &mut Inbound) {
        match (self.config.bug, &mut inbound.event) {
            (Some(Bug::FreeOnUnknown), Core::AgentDisconnected { node, session }) => {
                let (node, session) = (node.clone(), *session);
                let Some(hold) = state.holds(&node).into_iter().next() else { return };
                let Some(job) = state.job_by_uid(&hold.uid) else { return };
                let observation = Box::new(bare(hold.uid, job.status.attempt, Observed::Ended));
                inbound.event = Core::AgentObserved { node, session, observation };
            }
            (Some(Bug::AssumeRunning), Core::AgentConnected(register)) => {
                for hold in state.holds(&register.node) {
                    let known = register.observations.iter().any(|seen| seen.uid == hold.uid);
                    if let Some(job) = state.job_by_uid(&hold.uid).filter(|_| !known) {
                        register.observations.push(bare(hold.uid, job.status.attempt, Observed::Running));
                    }
                }
            }
            (Some(Bug::IgnoreRequestIds), Core::Submit(submit)) => submit.request = None,
            (Some(Bug::SuspendIsHold), Core::SuspendJob { order, reason }) => {
                inbound.event = Core::HoldJob { order: order.clone(), reason: reason.clone() };
            }
            (Some(Bug::IgnoreDigests), Core::Submit(submit)) => submit.digest = [0; 32],
            _ => {}
        }
    }

    /// A denial that is not recorded.
    pub(crate) fn spoil_denial(&self, kind: Kind, out: &mut Output) {
        if self.bug(Bug::DenyUnrecorded) && kind == Kind::Denied {
            out.writes.clear();
        }
    }

    /// What leaves before its transaction is done.
    pub(crate) fn spoil_steps(&mut self, controller: usize, steps: &mut [Stepped]) {
        if self.bug(Bug::ReplyBeforeCommit) {
            for step in steps.iter_mut().filter(|step| matches!(step.from, From::Client(..))) {
                self.report_client(controller, step);
            }
        }
        if self.bug(Bug::DenyBeforeCommit) {
            for step in steps.iter_mut().filter(|step| step.kind == Kind::Denied) {
                self.report_client(controller, step);
            }
        }
        if self.bug(Bug::PushBeforeCommit) {
            for step in steps {
                std::mem::take(&mut step.out.pushes)
                    .into_iter()
                    .for_each(|push| self.send_to_agent(controller, push));
            }
        }
    }

    /// Spoils a transaction before it is sent, as the planted bug does.
    pub(crate) fn spoil_body(&mut self, controller: usize, body: &mut Body) {
        let Some(bug) = self.config.bug else { return };
        let lost = |write: &Write| match bug {
            Bug::ForgetRequests | Bug::RequestsApart => matches!(write, Write::PutRequest(_)),
            Bug::AuditApart => matches!(write, Write::PutAudit(_)),
            Bug::AttemptsApart => matches!(write, Write::PutAttempt(_)),
            Bug::ForgetUsage | Bug::UsageApart => matches!(write, Write::PutUsage(_)),
            Bug::ForgetEndings => {
                matches!(write, Write::PutAttempt(attempt) if attempt.ending.is_some())
            }
            Bug::ForgetDeletions => matches!(write, Write::DeleteJob(_)),
            Bug::ForgetQuotas | Bug::QuotaApart => matches!(write, Write::PutTenant(_)),
            Bug::ForgetDrains => matches!(write, Write::PutDrain(_)),
            _ => false,
        };
        let (apart, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut body.writes).into_iter().partition(|(_, write)| lost(write));
        body.writes = kept;
        let late = matches!(
            bug,
            Bug::RequestsApart | Bug::AttemptsApart | Bug::UsageApart | Bug::QuotaApart | Bug::AuditApart
        );
        if late && !apart.is_empty() {
            let late = Body { epoch: body.epoch, from: controller, writes: apart, ..Body::default() };
            self.after(300, Event::Apart(controller, Arc::new(late)));
        }
        if bug == Bug::KeepAuditHead {
            self.spoil_head(controller, body);
        }
        if bug == Bug::DropUnsigned {
            drop_unsigned(body);
        }
        if bug == Bug::DoublePlacement {
            double_placement(body);
        }
    }

    /// A part of a transaction that a planted bug wrote apart.
    pub(crate) fn write_apart(&mut self, controller: usize, body: Arc<Body>) {
        if self.controllers[controller].alive {
            self.call(controller, crate::calls::Call::Commit(body));
        }
    }

    /// Whether an unknown outcome is treated as something else than that.
    pub(crate) fn spoil_unknown(&self) -> bool {
        matches!(self.config.bug, Some(Bug::UnknownIsDone | Bug::UnknownIsFailure | Bug::ErrorIsDone))
    }

    /// Spoils a message to an agent, as the planted bug does.
    pub(crate) fn spoil_push(&self, push: &mut Push) {
        match (self.config.bug, &mut push.message) {
            (Some(Bug::StartUncertified), ToNode::Assignment(assignment)) => {
                if let DesiredState::Running { certify, .. } = &mut assignment.desired {
                    *certify = None;
                }
            }
            (Some(Bug::WelcomeEmpty), ToNode::Welcome { assignments, .. }) => assignments.clear(),
            (Some(Bug::RunWhenPlaced), ToNode::Assignment(assignment)) => {
                if let DesiredState::Prepared { spec, placement, key, .. } = &assignment.desired
                    && placement.nodes.len() > 1
                {
                    assignment.desired = DesiredState::Running {
                        spec: spec.clone(),
                        placement: placement.clone(),
                        key: *key,
                        peers: Vec::new(),
                        certify: None,
                    };
                }
            }
            _ => {}
        }
    }
}

fn bare(uid: proto_model::JobUid, attempt: u32, state: Observed) -> Observation {
    Observation {
        uid,
        attempt,
        state,
        endpoints: Vec::new(),
        exits: Vec::new(),
        cause: None,
        result: None,
        rails: Vec::new(),
        reports: Vec::new(),
        choices: Vec::new(),
        measured: None,
    }
}

/// Two jobs that are placed in one transaction get the place of the first.
fn double_placement(body: &mut Body) {
    let mut first = None;
    for (_, write) in &mut body.writes {
        let Write::PutJob(job) = write else { continue };
        if job.status.phase != Phase::Reserved {
            continue;
        }
        match &first {
            None => first.clone_from(&job.status.placement),
            Some(_) => Arc::make_mut(job).status.placement.clone_from(&first),
        }
    }
}

/// The checkpoint is left out, and what it drops is dropped all the same.
fn drop_unsigned(body: &mut Body) {
    if !body.writes.iter().any(|(_, write)| matches!(write, Write::DeleteAudit(..))) {
        return;
    }
    for (_, write) in &mut body.writes {
        let Write::PutAudit(row) = write else { continue };
        let unsigned = |record: &Arc<Record>| !matches!(record.content, Content::Checkpoint(_));
        Arc::make_mut(row).records.retain(unsigned);
    }
}
