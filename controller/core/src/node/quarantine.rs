//! Nodes that fail jobs again and again are quarantined: no job is placed there until somebody has seen to them, or a
//! verified collective has run there. To the scheduler a quarantined node has a taint.

use std::{sync::Arc, time::Duration};

use controller_state::{Attempt, CoreError, JobEntry, Outcome, gang, view::job::blame::first_to_fail};
use proto_model::{JobUid, Node, NodeName, Reason, ReasonCode, Strike, Work};

use crate::{context::Step, event::Reply};

pub use controller_state::rows::node::{DRAINED, QUARANTINED};

/// Attempts that a node may fail within [`WITHIN`] before it is quarantined.
const STRIKES: usize = 3;
/// So long a failure counts.
const WITHIN: Duration = Duration::from_secs(3600);

impl Step<'_> {
    /// An attempt has ended: the node that failed it is remembered, and quarantined if it has done so too often.
    pub(crate) fn count_strike(&mut self, uid: JobUid, attempt: &Attempt) {
        let Some(ending) = &attempt.ending else { return };
        // What happens while an attempt ends that was stopped on purpose is nobody's failure.
        if matches!(ending.outcome, Outcome::Preempt | Outcome::Cancel) {
            return;
        }
        let Some(name) = first_to_fail(&ending.causes) else { return };
        let code = ending.causes.iter().find(|cause| cause.scope == format!("node/{name}"));
        let code = code.map(|cause| cause.code.clone());
        let Some(node) = self.state.base.nodes.get(&name).cloned() else { return };
        let (now, attempt) = (self.now, attempt.attempt);
        let mut strikes = node.strikes.clone();
        strikes.retain(|strike| {
            now.since(strike.time) < WITHIN && (strike.uid, strike.attempt) != (uid, attempt)
        });
        strikes.push(Strike { time: now, uid, attempt, code });
        let quarantined = (strikes.len() >= STRIKES).then(|| self.quarantined(&name, &strikes));
        if quarantined.is_some() {
            strikes.clear();
        }
        let quarantined = node.quarantined.clone().or(quarantined);
        self.state.put(Arc::new(Node { quarantined, strikes, ..(*node).clone() }));
    }

    fn quarantined(&self, name: &NodeName, strikes: &[Strike]) -> Reason {
        let mut codes: Vec<&str> = strikes.iter().map(Strike::code_text).collect();
        codes.sort_unstable();
        codes.dedup();
        let jobs: std::collections::BTreeSet<JobUid> = strikes.iter().map(|strike| strike.uid).collect();
        let message = format!(
            "{} attempts of {} jobs failed by this node within an hour ({}); look at it, then `railctl node return {name}`, or \
             run a verified collective there that tolerates the taint {QUARANTINED}",
            strikes.len(),
            jobs.len(),
            codes.join(", ")
        );
        Reason::new(ReasonCode::Quarantined, message).count(strikes.len()).since(self.now)
    }

    /// An administrator vouches for a quarantined node.
    pub(crate) fn return_node(&mut self, name: &NodeName) -> Result<Reply, CoreError> {
        let node = self.state.base.nodes.get(name).cloned();
        let node = node.ok_or_else(|| CoreError::NodeNotFound { node: name.clone() })?;
        if node.quarantined.is_none() && !node.is_quarantined() {
            return Ok(Reply::Node(node));
        }
        self.lift_quarantine(name);
        // What it still reports of others' hardware is no more its own than before.
        self.claims_again(name);
        Ok(Reply::Node(self.state.base.nodes.get(name).cloned().unwrap_or(node)))
    }

    fn lift_quarantine(&mut self, name: &NodeName) -> Option<Arc<Node>> {
        let out = |node: &&Arc<Node>| node.quarantined.is_some() || node.is_quarantined();
        let node = self.state.base.nodes.get(name).filter(out)?;
        let (strikes, quarantine) = (Vec::new(), Vec::new());
        let node = Arc::new(Node { quarantined: None, strikes, quarantine, ..(**node).clone() });
        self.state.put(Arc::clone(&node));
        self.request_scheduling_pass();
        Some(node)
    }

    /// A job has completed: if it was a collective that checked every element, its nodes have proved themselves.
    pub(crate) fn prove_nodes(&mut self, entry: &JobEntry) {
        let collective = matches!(&entry.job.spec.work, Work::Collective(spec) if spec.verify);
        let result = entry.job.status.result.as_ref();
        if !collective || !result.is_some_and(|result| result.verified && result.mismatches == 0) {
            return;
        }
        let nodes: Vec<NodeName> = gang(entry).map(|(_, node)| node.clone()).collect();
        for name in nodes {
            // A collective proves its hardware, not its word.
            if self.state.base.nodes.get(&name).is_some_and(|node| !node.is_quarantined()) {
                self.lift_quarantine(&name);
            }
        }
    }
}
