//! The decision log.

use controller_state::rows::decisions::{DecisionRecord, DecisionRow};

use crate::v1;

impl From<&DecisionRow> for v1::Decisions {
    fn from(row: &DecisionRow) -> Self {
        Self {
            seq: row.seq,
            time_ms: row.time.0,
            records: row.records.iter().map(Into::into).collect(),
            omitted: row.omitted,
        }
    }
}

impl From<&DecisionRecord> for v1::DecisionRecord {
    fn from(record: &DecisionRecord) -> Self {
        Self {
            tenant: record.id.tenant.to_string(),
            job: record.id.name.to_string(),
            job_uid: record.uid.to_string(),
            phase: v1::job_status::Phase::from(record.phase).into(),
            attempt: record.attempt,
            reasons: record.reasons.iter().map(Into::into).collect(),
            nodes: record.nodes,
            digest: record.digest,
        }
    }
}
