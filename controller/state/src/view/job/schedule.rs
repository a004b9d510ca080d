//! What speaks against a placement.

use controller_scheduler::{Need, Violation, check_placement, choice_of, prove};
use proto_model::{Job, JobUid, Placement, Reason, ReasonCode};

use crate::{rows::job::JobEntry, tables::state::State};

impl State {
    /// Whether nothing speaks against a placement but the quota of the job's tenant.
    pub fn is_over_quota(&self, uid: JobUid, placement: &Placement) -> bool {
        let Some(entry) = self.base.jobs.get(&uid) else { return false };
        let (tenant, spec) = (&entry.job.id.tenant, &entry.job.spec);
        let checked = check_placement(&self.index.snapshot, tenant, spec, placement);
        checked.is_err_and(|found| found.iter().all(|flaw| matches!(flaw, Violation::Quota { .. })))
    }

    /// What two independent checkers say against a placement. One that was repaired has its own proof for the nodes that
    /// stay, which may have changed since the job came there.
    pub fn disproved(&self, job: &Job, placement: &Placement) -> Vec<String> {
        let snapshot = &self.index.snapshot;
        let mut wrong = Vec::new();
        if let Err(violations) = check_placement(snapshot, &job.id.tenant, &job.spec, placement) {
            wrong.extend(violations.iter().map(ToString::to_string));
        }
        let repaired = placement.repaired || placement.nodes.iter().any(|place| place.remapped);
        let topology = snapshot.topology();
        if let Some(choice) = choice_of(topology, placement).filter(|_| !repaired) {
            let (nodes, spares) = (choice.nodes.len(), choice.spares.len());
            let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
            let asked = Need::of(&job.id.tenant, &job.spec, snapshot);
            let need = Need { nodes: number(nodes), spares: number(spares), ..asked };
            if let Err(flaws) = prove(snapshot, &need, &choice) {
                wrong.extend(flaws.iter().map(ToString::to_string));
            }
        }
        wrong
    }
}

/// Why the last attempt failed stays with a job that is queued again.
pub fn requeue_causes(entry: &JobEntry) -> Vec<Reason> {
    let reasons = &entry.job.status.reasons;
    let kept = reasons.iter().rposition(|reason| reason.code == ReasonCode::Requeued).map_or(0, |at| at + 1);
    reasons[..kept].to_vec()
}
