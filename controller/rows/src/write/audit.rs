//! Records of the audit log. What is in a hash is taken exactly or not at all.

use controller_state::rows::audit::AuditRow;
use proto_audit::{Actor, Content, Log, Object, Record};
use proto_model::Timestamp;

use super::time_to_row;
use crate::v1::{self, audit_record::Content as Stored};

fn actor_to_row(actor: &Actor) -> v1::AuditActor {
    let Actor { who, roles, tenant, source, rpc, request, trace, oidc_subject } = actor.clone();
    v1::AuditActor { who, roles, tenant, source, rpc, request_id: request, trace_id: trace, oidc_subject }
}

impl From<&Record> for v1::AuditRecord {
    fn from(record: &Record) -> Self {
        let content = match &record.content {
            Content::Change(change) => {
                let Object { kind, name, tenant, version } = change.object.clone();
                let actor = Some(actor_to_row(&change.actor));
                Stored::Change(v1::AuditChange { actor, kind, name, tenant, version_before: version })
            }
            Content::Denial(denial) => Stored::Denial(v1::AuditDenial {
                actor: Some(actor_to_row(&denial.actor)),
                reason: denial.reason.clone(),
                detail: denial.detail.clone(),
                count: denial.count,
            }),
            Content::Checkpoint(checkpoint) => Stored::Checkpoint(v1::AuditCheckpoint {
                epoch: checkpoint.epoch,
                oldest: checkpoint.oldest,
                anchor: checkpoint.anchor.to_vec(),
                beside: checkpoint
                    .beside
                    .map(|head| v1::AuditHead { seq: head.seq, hash: head.hash.to_vec() }),
                signature: checkpoint.signature.clone(),
            }),
            Content::Resumed { cause } => Stored::Resumed(v1::AuditResumed { cause: cause.clone() }),
        };
        Self {
            seq: record.seq,
            time: Some(time_to_row(Timestamp(record.time_ms))),
            previous: record.previous.to_vec(),
            hash: record.hash.to_vec(),
            content: Some(content),
            log: match record.log {
                Log::Changes => v1::AuditLog::Changes,
                Log::Denials => v1::AuditLog::Denials,
            }
            .into(),
        }
    }
}

impl From<&AuditRow> for v1::Audit {
    fn from(row: &AuditRow) -> Self {
        Self { records: row.records.iter().map(|record| record.as_ref().into()).collect() }
    }
}
