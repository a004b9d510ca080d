//! How far servers keep jobs apart, and how far it is demanded.

use std::collections::BTreeSet;

use proto_model::{Isolation, IsolationFeature, IsolationPolicy, IsolationState};

use super::{FieldErrors, Fields, fields::line, known};
use crate::v1::{self, isolation_feature::Kind};

/// States of one server at most: features of agents that are newer than this schema are counted too.
const MAX_FEATURES: usize = 64;

/// Every feature with its number on the wire.
const KINDS: [(IsolationFeature, Kind); 15] = [
    (IsolationFeature::UidPerAttempt, Kind::UidPerAttempt),
    (IsolationFeature::UserNamespace, Kind::UserNamespace),
    (IsolationFeature::PidNamespace, Kind::PidNamespace),
    (IsolationFeature::MountNamespace, Kind::MountNamespace),
    (IsolationFeature::IpcNamespace, Kind::IpcNamespace),
    (IsolationFeature::NetworkNamespace, Kind::NetworkNamespace),
    (IsolationFeature::PrivateTmp, Kind::PrivateTmp),
    (IsolationFeature::HiddenProc, Kind::HiddenProc),
    (IsolationFeature::PrivateDev, Kind::PrivateDev),
    (IsolationFeature::NoNewPrivileges, Kind::NoNewPrivileges),
    (IsolationFeature::Seccomp, Kind::Seccomp),
    (IsolationFeature::CgroupMemory, Kind::CgroupMemory),
    (IsolationFeature::CgroupPids, Kind::CgroupPids),
    (IsolationFeature::CgroupCpuset, Kind::CgroupCpuset),
    (IsolationFeature::CgroupDevices, Kind::CgroupDevices),
];

fn kind_to_wire(feature: IsolationFeature) -> Kind {
    KINDS.iter().find(|(one, _)| *one == feature).map_or(Kind::Unspecified, |(_, kind)| *kind)
}

impl TryFrom<v1::Isolation> for Isolation {
    type Error = FieldErrors;

    /// A kind that this schema does not know is left out: nothing here could rely on it.
    fn try_from(wire: v1::Isolation) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if wire.features.len() > MAX_FEATURES {
            let many = wire.features.len();
            fields.fail("features", format!("{many} are more than the {MAX_FEATURES} allowed"));
        }
        let (mut seen, mut states) = (BTreeSet::new(), Vec::new());
        for (index, one) in wire.features.into_iter().take(MAX_FEATURES).enumerate() {
            line(&mut fields, &format!("features[{index}].reason"), &one.reason);
            line(&mut fields, &format!("features[{index}].fix"), &one.fix);
            let kind: Option<Kind> = known(one.kind);
            let Some((feature, _)) = KINDS.iter().find(|(_, other)| Some(*other) == kind) else { continue };
            if !seen.insert(*feature) {
                fields.fail(&format!("features[{index}].kind"), "is given twice");
            }
            let (feature, active, reason, fix) = (*feature, one.active, one.reason, one.fix);
            states.push(IsolationState { feature, active, reason, fix });
        }
        fields.finish(Some(Self::new(states)))
    }
}

/// Absent where nothing is said.
pub(super) fn to_wire(isolation: &Isolation) -> Option<v1::Isolation> {
    let features = isolation.states().iter().map(|state| v1::IsolationFeature {
        kind: kind_to_wire(state.feature).into(),
        active: state.active,
        reason: state.reason.clone(),
        fix: state.fix.clone(),
    });
    let features: Vec<v1::IsolationFeature> = features.collect();
    (!features.is_empty()).then_some(v1::Isolation { features })
}

/// The policy that is in force.
#[must_use]
pub fn isolation_policy_to_wire(policy: IsolationPolicy) -> v1::IsolationPolicy {
    match policy {
        IsolationPolicy::BestEffort => v1::IsolationPolicy::BestEffort,
        IsolationPolicy::Required => v1::IsolationPolicy::Required,
    }
}

/// The policy that a document asks for: nothing that is at its default is written.
pub(super) fn policy_asked(policy: IsolationPolicy) -> v1::IsolationPolicy {
    match policy {
        IsolationPolicy::BestEffort => v1::IsolationPolicy::Unspecified,
        IsolationPolicy::Required => v1::IsolationPolicy::Required,
    }
}

/// A policy into the domain.
pub(super) fn policy_from_wire(fields: &mut Fields, field: &str, number: i32) -> IsolationPolicy {
    match v1::IsolationPolicy::try_from(number) {
        Ok(v1::IsolationPolicy::Unspecified | v1::IsolationPolicy::BestEffort) => IsolationPolicy::BestEffort,
        Ok(v1::IsolationPolicy::Required) => IsolationPolicy::Required,
        Err(_) => {
            fields.fail(field, "must be BEST_EFFORT or REQUIRED");
            IsolationPolicy::Required
        }
    }
}

#[cfg(test)]
mod tests {
    use proto_model::{Inventory, IsolationSet};

    use super::*;

    fn read(isolation: Option<v1::Isolation>) -> Result<Inventory, FieldErrors> {
        Inventory::try_from(v1::Inventory { isolation, ..Default::default() })
    }

    #[test]
    fn every_feature_survives_the_wire() {
        assert_eq!(KINDS.map(|(feature, _)| feature), *IsolationFeature::ALL);
        let states = IsolationFeature::ALL.iter().enumerate().map(|(at, feature)| match at % 2 {
            0 => IsolationState::active(*feature, "how"),
            _ => IsolationState::absent(*feature, "why", "what to do"),
        });
        let inventory = Inventory { isolation: Isolation::new(states), ..Inventory::default() };
        let wire = v1::Inventory::from(&inventory);
        assert_eq!(wire.isolation.as_ref().unwrap().features.len(), 15);
        assert_eq!(Inventory::try_from(wire).unwrap(), inventory);
    }

    #[test]
    fn an_older_agent_gives_nothing_and_a_newer_one_is_understood() {
        assert_eq!(read(None).unwrap().isolation.active(), IsolationSet::EMPTY);
        assert!(v1::Inventory::from(&Inventory::default()).isolation.is_none());
        let feature = |kind| v1::IsolationFeature { kind, active: true, ..Default::default() };
        let features = vec![feature(99), feature(0), feature(Kind::Seccomp.into())];
        let isolation = read(Some(v1::Isolation { features })).unwrap().isolation;
        assert_eq!(isolation.active(), IsolationSet::of(&[IsolationFeature::Seccomp]));
    }

    #[test]
    fn what_is_wrong_is_told_by_field() {
        let feature = |kind: Kind, fix: &str| v1::IsolationFeature {
            kind: kind.into(),
            active: true,
            reason: "x".repeat(600),
            fix: fix.to_owned(),
        };
        let features = vec![feature(Kind::Seccomp, "a\nb"), feature(Kind::Seccomp, "")];
        let errors = read(Some(v1::Isolation { features })).unwrap_err().to_string();
        for part in
            ["isolation.features[0].reason", "isolation.features[0].fix", "isolation.features[1].kind"]
        {
            assert!(errors.contains(part), "{part} in {errors}");
        }
        let many = vec![v1::IsolationFeature::default(); MAX_FEATURES + 1];
        assert!(read(Some(v1::Isolation { features: many })).is_err());
    }
}
