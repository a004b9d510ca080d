//! Who says what cannot be true is taken out of service, with the evidence.

use std::sync::Arc;

use proto_audit::{Actor, Object};
use proto_model::{Node, NodeName, Reason, ReasonCode};

use crate::{
    context::Step,
    event::ClaimVerdict,
    node::claims::untruth::{SHOWN, Untruth},
};

/// Pieces of evidence kept of one node.
const EVIDENCE_MAX: usize = 8;
/// Whom the audit log names for what the controller does by itself.
pub(crate) const SELF: &str = "controller";

impl Step<'_> {
    /// Takes a node out of service with the evidence. The same evidence twice changes nothing.
    pub(crate) fn quarantine(&mut self, name: &NodeName, untruth: &Untruth) {
        self.out.claims.push(ClaimVerdict::Untrue(untruth.code()));
        let Some(node) = self.state.base.nodes.get(name).cloned() else { return };
        let evidence = Reason::new(untruth.code(), untruth.to_string()).scope(untruth.scope(name));
        let evidence = evidence.since(self.now);
        let known = |old: &Reason| old.code == evidence.code && old.message == evidence.message;
        if node.quarantine.len() >= EVIDENCE_MAX || node.quarantine.iter().any(known) {
            return;
        }
        let message = format!(
            "{untruth}; no job is placed here until somebody has looked at its agent and its certificate (see Evidence), then \
             `railctl node return {name}`"
        );
        self.out.claims.push(ClaimVerdict::Quarantined(untruth.code()));
        self.quarantined.push((name.clone(), evidence.clone()));
        let mut quarantine = node.quarantine.clone();
        quarantine.push(evidence);
        let first = node.quarantine.is_empty();
        let quarantined = if first {
            Some(Reason::new(ReasonCode::Quarantined, message).since(self.now))
        } else {
            node.quarantined.clone()
        };
        self.state.put(Arc::new(Node { quarantine, quarantined, ..(*node).clone() }));
        self.refresh_jobs_of(name);
    }

    /// One record in the audit log of all that this step has found untrue. (A step writes into one row of the log.)
    pub(crate) fn note_quarantines(&mut self) {
        let found = std::mem::take(&mut self.quarantined);
        let Some((name, first)) = found.first() else { return };
        let words: Vec<String> =
            found.iter().map(|(name, evidence)| format!("{name}: {}", evidence.message)).collect();
        let actor = Actor {
            who: SELF.to_owned(),
            rpc: first.code.to_string(),
            request: words.join("; ").chars().take(4 * SHOWN).collect(),
            ..Actor::default()
        };
        let object = Object { kind: "quarantine".to_owned(), name: name.to_string(), ..Object::default() };
        self.record_own(Arc::new(actor), object);
    }

    /// What a node has said is left out: it is late, or nobody needs it from this node.
    pub(crate) fn ignored(&mut self, what: &'static str) {
        self.out.claims.push(ClaimVerdict::Ignored(what));
    }
}
