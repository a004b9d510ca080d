//! What is wrong with NICs.

use proto_model::{NicCondition, NicHealth, Severity};

use super::time_to_row;
use crate::v1;

impl From<&NicHealth> for v1::NicHealth {
    fn from(nic: &NicHealth) -> Self {
        let condition = |one: &NicCondition| v1::NicCondition {
            code: one.code.as_str().to_owned(),
            severity: match one.severity {
                Severity::Note => v1::nic_condition::Severity::Note,
                Severity::Degraded => v1::nic_condition::Severity::Degraded,
                Severity::Drain => v1::nic_condition::Severity::Drain,
            }
            .into(),
            message: one.message.clone(),
            since: Some(time_to_row(one.since)),
            probe: one.probe,
        };
        let conditions = nic.conditions.iter().map(condition).collect();
        let probe = nic.probe.as_ref().map(Into::into);
        Self { device: nic.device.clone(), score: nic.score, conditions, probe }
    }
}
