//! How far servers keep jobs apart, and how far it is demanded.

use std::collections::BTreeSet;

use proto_model::{Isolation, IsolationPolicy, IsolationState};

use crate::{v1, v1::isolation_feature::Kind, words::KINDS};
use proto_model::fields::{FieldErrors, Fields, known, line};

/// States of one server at most: features of agents that are newer than this schema are counted too.
const MAX_FEATURES: usize = 64;

impl TryFrom<v1::Isolation> for Isolation {
    type Error = FieldErrors;

    /// A kind that this schema does not know is left out: nothing here could rely on it.
    fn try_from(row: v1::Isolation) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if row.features.len() > MAX_FEATURES {
            let many = row.features.len();
            fields.fail("features", format!("{many} are more than the {MAX_FEATURES} allowed"));
        }
        let (mut seen, mut states) = (BTreeSet::new(), Vec::new());
        for (index, one) in row.features.into_iter().take(MAX_FEATURES).enumerate() {
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

/// A policy into the domain.
pub(crate) fn policy_from_row(fields: &mut Fields, field: &str, number: i32) -> IsolationPolicy {
    match v1::IsolationPolicy::try_from(number) {
        Ok(v1::IsolationPolicy::Unspecified | v1::IsolationPolicy::BestEffort) => IsolationPolicy::BestEffort,
        Ok(v1::IsolationPolicy::Required) => IsolationPolicy::Required,
        Err(_) => {
            fields.fail(field, "must be BEST_EFFORT or REQUIRED");
            IsolationPolicy::Required
        }
    }
}
