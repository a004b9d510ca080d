//! What is wrong with NICs.

use proto_model::{NicCondition, NicConditionCode, NicHealth, NicProbe, Severity};

use super::time_from_row;
use crate::v1;
use proto_model::fields::{FieldErrors, Fields, known};

/// Bytes of one condition's message.
const MESSAGE_MAX: usize = 1024;

/// Conditions of one NIC.
const CONDITIONS_MAX: usize = 64;

/// The best score of a NIC: nothing is known against it.
const SCORE_MAX: u32 = 100;

impl TryFrom<v1::NicHealth> for NicHealth {
    type Error = FieldErrors;

    fn try_from(row: v1::NicHealth) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if row.device.is_empty() || row.device.len() > 64 || row.device.chars().any(char::is_control) {
            fields.fail("device", "must be a device name of 1 to 64 printable bytes");
        }
        if row.score > SCORE_MAX {
            fields.fail("score", format!("{} is too large; scores are from 0 to {SCORE_MAX}", row.score));
        }
        if row.conditions.len() > CONDITIONS_MAX {
            let many = row.conditions.len();
            fields.fail("conditions", format!("{many} are more than the {CONDITIONS_MAX} allowed"));
        }
        let conditions = fields.list("conditions", row.conditions.into_iter().take(CONDITIONS_MAX).collect());
        let probe = row.probe.and_then(|probe| fields.nest("probe", NicProbe::try_from(probe)));
        fields.finish(Some(Self { device: row.device, score: row.score, conditions, probe }))
    }
}

impl TryFrom<v1::NicCondition> for NicCondition {
    type Error = FieldErrors;

    fn try_from(row: v1::NicCondition) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let is_code = !row.code.is_empty() && row.code.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_code || row.code.len() > 64 {
            fields.fail("code", "must be a code of 1 to 64 letters and digits, for example Storm");
        }
        let severity = known(row.severity).map(severity_from_row);
        if severity.flatten().is_none() {
            fields.fail("severity", "must be NOTE, DEGRADED or DRAIN");
        }
        if row.message.len() > MESSAGE_MAX || row.message.chars().any(char::is_control) {
            fields.fail("message", format!("must be one printable line of at most {MESSAGE_MAX} bytes"));
        }
        let since = fields.nest("since", time_from_row(row.since.unwrap_or_default()));
        let condition = severity.flatten().zip(since).map(|(severity, since)| Self {
            code: NicConditionCode::from_text(&row.code),
            severity,
            message: row.message,
            since,
            probe: row.probe,
        });
        fields.finish(condition)
    }
}

fn severity_from_row(row: v1::nic_condition::Severity) -> Option<Severity> {
    match row {
        v1::nic_condition::Severity::Unspecified => None,
        v1::nic_condition::Severity::Note => Some(Severity::Note),
        v1::nic_condition::Severity::Degraded => Some(Severity::Degraded),
        v1::nic_condition::Severity::Drain => Some(Severity::Drain),
    }
}
