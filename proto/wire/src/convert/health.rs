//! What is wrong with NICs.

use proto_model::{NicCondition, NicConditionCode, NicHealth, NicProbe, Severity};

use super::{FieldErrors, Fields, known, time_from_wire, time_to_wire};
use crate::v1;

/// Bytes of one condition's message.
const MESSAGE_MAX: usize = 1024;
/// Conditions of one NIC.
const CONDITIONS_MAX: usize = 64;
/// The best score of a NIC: nothing is known against it.
const SCORE_MAX: u32 = 100;

impl TryFrom<v1::NicHealth> for NicHealth {
    type Error = FieldErrors;

    fn try_from(wire: v1::NicHealth) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if wire.device.is_empty() || wire.device.len() > 64 || wire.device.chars().any(char::is_control) {
            fields.fail("device", "must be a device name of 1 to 64 printable bytes");
        }
        if wire.score > SCORE_MAX {
            fields.fail("score", format!("{} is too large; scores are from 0 to {SCORE_MAX}", wire.score));
        }
        if wire.conditions.len() > CONDITIONS_MAX {
            let many = wire.conditions.len();
            fields.fail("conditions", format!("{many} are more than the {CONDITIONS_MAX} allowed"));
        }
        let conditions =
            fields.list("conditions", wire.conditions.into_iter().take(CONDITIONS_MAX).collect());
        let probe = wire.probe.and_then(|probe| fields.nest("probe", NicProbe::try_from(probe)));
        fields.finish(Some(Self { device: wire.device, score: wire.score, conditions, probe }))
    }
}

impl TryFrom<v1::NicCondition> for NicCondition {
    type Error = FieldErrors;

    fn try_from(wire: v1::NicCondition) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let is_code = !wire.code.is_empty() && wire.code.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_code || wire.code.len() > 64 {
            fields.fail("code", "must be a code of 1 to 64 letters and digits, for example Storm");
        }
        let severity = known(wire.severity).map(severity_from_wire);
        if severity.flatten().is_none() {
            fields.fail("severity", "must be NOTE, DEGRADED or DRAIN");
        }
        if wire.message.len() > MESSAGE_MAX || wire.message.chars().any(char::is_control) {
            fields.fail("message", format!("must be one printable line of at most {MESSAGE_MAX} bytes"));
        }
        let since = fields.nest("since", time_from_wire(wire.since.unwrap_or_default()));
        let condition = severity.flatten().zip(since).map(|(severity, since)| Self {
            code: NicConditionCode::from_text(&wire.code),
            severity,
            message: wire.message,
            since,
            probe: wire.probe,
        });
        fields.finish(condition)
    }
}

fn severity_from_wire(wire: v1::nic_condition::Severity) -> Option<Severity> {
    match wire {
        v1::nic_condition::Severity::Unspecified => None,
        v1::nic_condition::Severity::Note => Some(Severity::Note),
        v1::nic_condition::Severity::Degraded => Some(Severity::Degraded),
        v1::nic_condition::Severity::Drain => Some(Severity::Drain),
    }
}

impl From<&NicHealth> for v1::NicHealth {
    fn from(nic: &NicHealth) -> Self {
        let condition = |one: &NicCondition| v1::NicCondition {
            code: one.code.to_string(),
            severity: match one.severity {
                Severity::Note => v1::nic_condition::Severity::Note,
                Severity::Degraded => v1::nic_condition::Severity::Degraded,
                Severity::Drain => v1::nic_condition::Severity::Drain,
            }
            .into(),
            message: one.message.clone(),
            since: Some(time_to_wire(one.since)),
            probe: one.probe,
        };
        let conditions = nic.conditions.iter().map(condition).collect();
        let probe = nic.probe.as_ref().map(Into::into);
        Self { device: nic.device.clone(), score: nic.score, conditions, probe }
    }
}
