//! Whose failure a cause is: the program's, or which node's.

use std::collections::{BTreeMap, BTreeSet};

use controller_topology::RailSet;
use proto_model::{NodeName, RailLoss, Reason, ReasonCode, Speaker};

use crate::rows::{job::JobEntry, records::Attempt};

/// What kind of failure ended an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The job's own program.
    Program,
    /// Engine, node, rail, network, or time without progress.
    Infrastructure,
}

impl Blame {
    /// Whose it is by the cause that was told.
    pub fn of(cause: &Reason) -> Self {
        match Speaker::of(&cause.code) {
            Speaker::Node(cause) if cause.is_own_doing() => Self::Program,
            _ => Self::Infrastructure,
        }
    }
}

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

/// Of these rails those of nodes for whose rails an attempt ends.
pub(crate) fn rails_named(
    causes: &[Reason],
    mut rails: BTreeMap<NodeName, RailSet>,
) -> BTreeMap<NodeName, RailSet> {
    let lost = causes.iter().filter(|cause| cause.code == ReasonCode::RailLost);
    let named: BTreeSet<NodeName> = lost.filter_map(node_of).collect();
    rails.retain(|node, _| named.contains(node));
    rails
}

/// Whether an attempt ends because a rail was lost.
pub(crate) fn is_for_rail(causes: &[Reason]) -> bool {
    causes.first().is_some_and(|cause| cause.code == ReasonCode::RailLost)
}

/// The same, and the job asks to be moved then: where it asks to fail, that is a failure like any other.
pub fn moves_for_rail(entry: &JobEntry, attempt: &Attempt) -> bool {
    let causes = attempt.ending.as_ref().map_or(&[][..], |ending| &ending.causes);
    entry.job.spec.failure.on_rail_loss == RailLoss::Move && is_for_rail(causes)
}

/// The node that failed an attempt: one that was lost whole, else that of the first cause that is a node's own. (Engines whose
/// peer is lost end too, and say so.)
pub fn first_to_fail(causes: &[Reason]) -> Option<NodeName> {
    let lost =
        causes.iter().find(|cause| matches!(cause.code, ReasonCode::NodeLost | ReasonCode::AttemptLost));
    node_of(lost.or_else(|| causes.iter().find(|cause| is_own(cause)))?)
}

/// Where no node says that itself failed: the one that most miss, of several the one that was missed first. (An engine that does
/// not say whom it misses is as suspect itself: one of the two has lost the other.)
pub(crate) fn most_missed(causes: &[Reason]) -> Option<NodeName> {
    let missed = causes.iter().filter(|cause| cause.code == ReasonCode::PeerLost);
    node_of(missed.rev().max_by_key(|cause| cause.count)?)
}

/// Whether a cause is that of the node which says it.
pub fn is_own(cause: &Reason) -> bool {
    OF_NODE.contains(&cause.code)
}

/// The node that a cause is about, if it is about one.
pub fn node_of(cause: &Reason) -> Option<NodeName> {
    NodeName::new(cause.scope.strip_prefix("node/")?).ok()
}
