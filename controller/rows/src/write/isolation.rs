//! How far servers keep jobs apart, and how far it is demanded.

use proto_model::{Isolation, IsolationFeature, IsolationPolicy};

use crate::{v1, v1::isolation_feature::Kind, words::KINDS};

fn kind_to_row(feature: IsolationFeature) -> Kind {
    KINDS.iter().find(|(one, _)| *one == feature).map_or(Kind::Unspecified, |(_, kind)| *kind)
}

/// Absent where nothing is said.
pub(crate) fn to_wire(isolation: &Isolation) -> Option<v1::Isolation> {
    let features = isolation.states().iter().map(|state| v1::IsolationFeature {
        kind: kind_to_row(state.feature).into(),
        active: state.active,
        reason: state.reason.clone(),
        fix: state.fix.clone(),
    });
    let features: Vec<v1::IsolationFeature> = features.collect();
    (!features.is_empty()).then_some(v1::Isolation { features })
}

/// The policy that a document asks for: nothing that is at its default is written.
pub(crate) fn policy_asked(policy: IsolationPolicy) -> v1::IsolationPolicy {
    match policy {
        IsolationPolicy::BestEffort => v1::IsolationPolicy::Unspecified,
        IsolationPolicy::Required => v1::IsolationPolicy::Required,
    }
}
