//! Records of the audit log. What is in a hash is taken exactly or not at all.

use std::sync::Arc;

use controller_state::rows::audit::AuditRow;
use proto_audit::{Actor, Change, Checkpoint, Content, Denial, Hash, Head, Log, Object, Record};
use proto_model::Timestamp;

use super::time_from_row;
use crate::v1::{self, audit_record::Content as Stored};
use proto_model::fields::{FieldErrors, Fields};

fn actor(row: v1::AuditActor) -> Arc<Actor> {
    let v1::AuditActor { who, roles, tenant, source, rpc, request_id, trace_id, oidc_subject } = row;
    Arc::new(Actor { who, roles, tenant, source, rpc, request: request_id, trace: trace_id, oidc_subject })
}

fn hash(fields: &mut Fields, field: &str, bytes: Vec<u8>) -> Option<Hash> {
    let length = bytes.len();
    let hash = Hash::try_from(bytes).map_err(|_| format!("has {length} bytes, not 32"));
    fields.take(field, hash)
}

fn time(fields: &mut Fields, row: Option<prost_types::Timestamp>) -> Option<Timestamp> {
    let row = fields.present("time", row)?;
    if row.nanos % 1_000_000 != 0 {
        fields.fail("time", "has parts of a millisecond, which no record has");
    }
    fields.nest("time", time_from_row(row))
}

fn content(fields: &mut Fields, row: Stored) -> Option<Content> {
    Some(match row {
        Stored::Change(row) => {
            let by = fields.present("change.actor", row.actor)?;
            let (kind, name, tenant, version) = (row.kind, row.name, row.tenant, row.version_before);
            Content::Change(Change { actor: actor(by), object: Object { kind, name, tenant, version } })
        }
        Stored::Denial(row) => {
            let actor = actor(fields.present("denial.actor", row.actor)?);
            let (reason, detail, count) = (row.reason, row.detail, row.count);
            Content::Denial(Denial { actor, reason, detail, count })
        }
        Stored::Checkpoint(row) => {
            let anchor = hash(fields, "checkpoint.anchor", row.anchor)?;
            let beside = match row.beside {
                None => None,
                Some(head) => {
                    Some(Head { seq: head.seq, hash: hash(fields, "checkpoint.beside.hash", head.hash)? })
                }
            };
            let (epoch, oldest, signature) = (row.epoch, row.oldest, row.signature);
            Content::Checkpoint(Checkpoint { epoch, oldest, anchor, beside, signature })
        }
        Stored::Resumed(row) => Content::Resumed { cause: row.cause },
    })
}

impl TryFrom<v1::AuditRecord> for Record {
    type Error = FieldErrors;

    /// Whether its hash is right is another question: `Verifier` answers it.
    fn try_from(row: v1::AuditRecord) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let time = time(&mut fields, row.time);
        let previous = hash(&mut fields, "previous", row.previous);
        let hash = hash(&mut fields, "hash", row.hash);
        let content = fields.present("content", row.content).and_then(|row| content(&mut fields, row));
        let seq = row.seq;
        let log = match v1::AuditLog::try_from(row.log) {
            Ok(v1::AuditLog::Unspecified | v1::AuditLog::Changes) => Log::Changes,
            Ok(v1::AuditLog::Denials) => Log::Denials,
            Err(_) => {
                fields.fail("log", format!("{} is none that this release knows", row.log));
                Log::Changes
            }
        };
        let record = match (time, previous, hash, content) {
            (Some(time), Some(previous), Some(hash), Some(content)) => {
                Some(Self { log, seq, time_ms: time.0, previous, content, hash })
            }
            _ => None,
        };
        fields.finish(record)
    }
}

impl TryFrom<v1::Audit> for AuditRow {
    type Error = FieldErrors;

    fn try_from(row: v1::Audit) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let records: Vec<Record> = fields.list("records", row.records);
        fields.finish(Some(Self { records: records.into_iter().map(Arc::new).collect() }))
    }
}
