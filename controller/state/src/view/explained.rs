//! What would become of a job that is submitted now, and why a job is in its phase.

use std::collections::BTreeMap;

use controller_scheduler::Decision;
use proto_model::{
    Authority, Backfill, IsolationPolicy, JobId, JobSpec, JobUid, Phase, Placement, RailState, Reason,
    ReasonCode, TenantName, Timestamp,
};

use crate::{
    error::refusal::CoreError,
    rows::job::{JobEntry, gang},
    tables::state::State,
    view::{job::explain::Detail, rail::rails::NodeRails},
};

/// Nodes of a job whose rails one answer shows, at most.
const NODES_SHOWN: usize = 128;

/// What would happen if a job were submitted now.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanResult {
    /// It would start at once, here.
    pub placement: Option<Placement>,
    /// It would not: every cause.
    pub reasons: Vec<Reason>,
    /// It could never start on this cluster as it is described now.
    pub infeasible: bool,
    /// Jobs that would be stopped for it.
    pub preempts: Vec<JobId>,
    /// It would wait: what stands in its way.
    pub detail: Option<Detail>,
}

/// Why a job is in its phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The phase that the job is in.
    pub phase: Phase,
    /// Every cause, with its code and in words.
    pub reasons: Vec<Reason>,
    /// Jobs ahead of it in the queue, if it waits.
    pub queue_position: u32,
    /// It could never start on this cluster as it is described now.
    pub infeasible: bool,
    /// Of a job that runs: its nodes' rails, those with something amiss first.
    pub rails: Vec<NodeRails>,
    /// Nodes that are left out of `rails`.
    pub rails_omitted: u32,
    /// Of a job that runs: how its operations are carried out.
    pub choices: Vec<proto_model::AlgorithmChoice>,
    /// Of a job that waits for room or quota: what stands in its way.
    pub detail: Option<Detail>,
    /// How much isolation its servers must give.
    pub isolation: IsolationPolicy,
    /// Who may start before jobs that wait ahead of it.
    pub backfill: Backfill,
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl State {
    /// What would happen if the job were submitted now, by the code of the real submit.
    ///
    /// # Errors
    /// As for a submit, except that an infeasible job is an answer here.
    pub fn plan(
        &self,
        tenant: &TenantName,
        by: &Authority,
        spec: &JobSpec,
        now: Timestamp,
    ) -> Result<PlanResult, CoreError> {
        let planned = self.decide_new(tenant, by, spec, now)?;
        let name = |uid: &JobUid| Some(self.base.jobs.get(uid)?.job.id.clone());
        let preempts = planned.victims.iter().filter_map(name).collect();
        Ok(match planned.decision {
            Decision::Place(placement) => PlanResult {
                placement: Some(*placement),
                reasons: Vec::new(),
                infeasible: false,
                preempts,
                detail: None,
            },
            Decision::Wait(wait) => {
                let waiting = planned.entry.filter(|_| !wait.infeasible);
                let detail = waiting.map(|entry| self.detail(&entry, planned.eta, now));
                let (reasons, infeasible) = (wait.reasons, wait.infeasible);
                PlanResult { placement: None, reasons, infeasible, preempts, detail }
            }
        })
    }

    /// Why a job is in its phase; for a waiting job the causes of this moment.
    ///
    /// # Errors
    /// There is no such job.
    pub fn explain(&self, id: &JobId, now: Timestamp) -> Result<Explanation, CoreError> {
        let uid = self.index.names.get(id);
        let entry = uid.and_then(|uid| self.base.jobs.get(uid));
        let entry = entry.ok_or_else(|| CoreError::JobNotFound { id: id.clone() })?;
        let status = &entry.job.status;
        let mut explanation = Explanation {
            phase: status.phase,
            reasons: status.reasons.clone(),
            queue_position: 0,
            infeasible: false,
            rails: Vec::new(),
            rails_omitted: 0,
            choices: Vec::new(),
            detail: None,
            isolation: self.isolation(&id.tenant),
            backfill: self.config.backfill,
        };
        if status.phase != Phase::Pending {
            self.explain_rails(entry, &mut explanation);
            return Ok(explanation);
        }
        let latest = entry.job.spec.latest_start().map(|latest| {
            let (at, left) = (latest.utc(), latest.since(now).as_secs());
            Reason::new(
                ReasonCode::LatestStart,
                format!("the job fails if it has not started by {at}, in {left} s"),
            )
        });
        let key = entry.key();
        explanation.queue_position = number(self.index.queue.range(..key).count());
        if entry.held {
            let eta = self.predicted(entry.job.uid, now);
            explanation.reasons.extend(latest);
            explanation.detail = eta.map(|eta| Detail { eta: Some(eta), ..Default::default() });
            return Ok(explanation);
        }
        let infeasible = match self.feasible(id, &entry.job.spec, now) {
            Err(CoreError::Infeasible { reasons }) => reasons,
            _ => Vec::new(),
        };
        explanation.infeasible = !infeasible.is_empty();
        explanation.reasons = infeasible;
        if !explanation.infeasible {
            explanation.reasons = self.waits(&self.index.queue_state, entry, now).reasons;
            explanation.detail = Some(self.detail(entry, self.predicted(entry.job.uid, now), now));
        }
        explanation.reasons.extend(latest);
        Ok(explanation)
    }

    /// What the nodes of a placed job have said of their rails, and what is drained of them.
    fn explain_rails(&self, entry: &JobEntry, explanation: &mut Explanation) {
        if !entry.job.status.phase.holds() {
            return;
        }
        let mut nodes: Vec<NodeRails> = Vec::new();
        let mut drained: BTreeMap<u32, usize> = BTreeMap::new();
        for (position, node) in gang(entry) {
            for rail in self.drained_rails(node).iter() {
                *drained.entry(rail).or_default() += 1;
            }
            let Some(view) = self.base.views.get(&(entry.job.uid, position)) else { continue };
            if explanation.choices.is_empty() {
                explanation.choices.clone_from(&view.choices);
            }
            if !view.reports.is_empty() {
                nodes.push(NodeRails {
                    node: node.clone(),
                    reports: view.reports.clone(),
                    reported_at: view.reported,
                });
            }
        }
        let fine = |node: &NodeRails| node.reports.iter().all(|report| report.state == Some(RailState::Up));
        nodes.sort_by_key(fine);
        explanation.rails_omitted = number(nodes.len().saturating_sub(NODES_SHOWN));
        nodes.truncate(NODES_SHOWN);
        explanation.rails = nodes;
        let held = entry.job.status.placement.as_ref().map_or(&[][..], |placement| &placement.rails);
        for (rail, nodes) in drained.into_iter().filter(|(rail, _)| held.contains(rail)) {
            let message = format!("rail {rail} is drained on {nodes} of the job's nodes; it uses the others");
            explanation.reasons.push(
                Reason::new(ReasonCode::RailDrained, message).count(nodes).scope(format!("rail/{rail}")),
            );
        }
    }
}
