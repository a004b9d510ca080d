//! The decision log.

use controller_state::rows::decisions::{DecisionRecord, DecisionRow};
use proto_model::{JobId, JobName, TenantName, Timestamp};

use super::job_status::phase;
use crate::v1;
use proto_model::fields::{FieldErrors, Fields};

impl TryFrom<v1::Decisions> for DecisionRow {
    type Error = FieldErrors;

    fn try_from(row: v1::Decisions) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let records = fields.list("records", row.records);
        let (seq, time, omitted) = (row.seq, Timestamp(row.time_ms), row.omitted);
        fields.finish(Some(Self { seq, time, records, omitted }))
    }
}

impl TryFrom<v1::DecisionRecord> for DecisionRecord {
    type Error = FieldErrors;

    fn try_from(row: v1::DecisionRecord) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let tenant = fields.take("tenant", TenantName::new(&row.tenant));
        let name = fields.take("job", JobName::new(&row.job));
        let uid = fields.take("jobUid", row.job_uid.parse());
        let phase = phase(&mut fields, row.phase);
        let reasons = fields.list("reasons", row.reasons);
        let whole = tenant.zip(name).zip(uid.zip(phase));
        fields.finish(whole.map(|((tenant, name), (uid, phase))| Self {
            id: JobId { tenant, name },
            uid,
            phase,
            attempt: row.attempt,
            reasons,
            nodes: row.nodes,
            digest: row.digest,
        }))
    }
}
