//! Causes of gangs whose nodes are not all alike: those of each component by itself, and then those of all together.

use proto_model::{JobId, Reason, ReasonCode, many};

use super::alike;
use crate::{
    choice::{Choice, Time},
    place::{Need, Placer},
    snapshot::{NodeSet, Snapshot},
};

/// Why each component by itself cannot have its nodes, with the component's name. What several have in common is said of the first.
fn of_each(need: &Need, mut causes: impl FnMut(&Need) -> Vec<Reason>) -> Vec<Reason> {
    let (mut known, mut reported): (Vec<Reason>, Vec<Reason>) = (Vec::new(), Vec::new());
    for (at, component) in need.components.iter().enumerate() {
        for reason in causes(&need.of_components(|other| other == at)) {
            if !known.contains(&reason) {
                let message = format!("component '{}': {}", component.name, reason.message);
                reported.push(Reason { message, ..reason.clone() });
                known.push(reason);
            }
        }
    }
    reported
}

/// As [`super::infeasible`], of a gang of components: why it could not start even with every job ended.
pub(super) fn infeasible(snapshot: &Snapshot, need: &Need, placer: &mut Placer) -> Vec<Reason> {
    let mut reasons = of_each(need, |part| alike::infeasible(snapshot, part, placer));
    let (nodes, wanted) = (snapshot.topology().len(), need.nodes as usize);
    if reasons.is_empty() && wanted > nodes {
        let message = format!("the job asks for {} in all, the cluster has {nodes}", many(wanted, "node"));
        reasons.push(Reason::new(ReasonCode::NodeCount, message).count(wanted - nodes));
    }
    let healed = alike::healed(need);
    if reasons.is_empty()
        && !placer.choose_at(snapshot.capacity_index(), &healed, None, Time::Healed, &mut Choice::default())
    {
        let message = format!(
            "each component has nodes enough by itself, but no {} are the nodes of all of them together",
            many(need.nodes, "node")
        );
        reasons.push(Reason::new(ReasonCode::GangShape, message).count(wanted));
    }
    reasons
}

/// As [`super::not_now`], of a gang of components: why each component cannot start now.
pub(super) fn not_now(snapshot: &Snapshot, need: &Need, reserved: Option<(&NodeSet, &JobId)>) -> Vec<Reason> {
    of_each(need, |part| alike::not_now(snapshot, part, reserved))
}
