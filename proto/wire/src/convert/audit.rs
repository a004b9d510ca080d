//! Records of the audit log. What is in a hash is taken exactly or not at all.

use std::sync::Arc;

use proto_audit::{Actor, Change, Checkpoint, Content, Denial, Hash, Head, Log, Object, Record};
use proto_model::Timestamp;

use super::{FieldErrors, Fields, time_from_wire, time_to_wire};
use crate::v1::{self, audit_record::Content as Wire};

fn actor(wire: v1::AuditActor) -> Arc<Actor> {
    let v1::AuditActor { who, roles, tenant, source, rpc, request_id, trace_id, oidc_subject } = wire;
    Arc::new(Actor { who, roles, tenant, source, rpc, request: request_id, trace: trace_id, oidc_subject })
}

fn actor_to_wire(actor: &Actor) -> v1::AuditActor {
    let Actor { who, roles, tenant, source, rpc, request, trace, oidc_subject } = actor.clone();
    v1::AuditActor { who, roles, tenant, source, rpc, request_id: request, trace_id: trace, oidc_subject }
}

fn hash(fields: &mut Fields, field: &str, bytes: Vec<u8>) -> Option<Hash> {
    let length = bytes.len();
    let hash = Hash::try_from(bytes).map_err(|_| format!("has {length} bytes, not 32"));
    fields.take(field, hash)
}

fn time(fields: &mut Fields, wire: Option<prost_types::Timestamp>) -> Option<Timestamp> {
    let wire = fields.present("time", wire)?;
    if wire.nanos % 1_000_000 != 0 {
        fields.fail("time", "has parts of a millisecond, which no record has");
    }
    fields.nest("time", time_from_wire(wire))
}

fn content(fields: &mut Fields, wire: Wire) -> Option<Content> {
    Some(match wire {
        Wire::Change(wire) => {
            let by = fields.present("change.actor", wire.actor)?;
            let (kind, name, tenant, version) = (wire.kind, wire.name, wire.tenant, wire.version_before);
            Content::Change(Change { actor: actor(by), object: Object { kind, name, tenant, version } })
        }
        Wire::Denial(wire) => {
            let actor = actor(fields.present("denial.actor", wire.actor)?);
            let (reason, detail, count) = (wire.reason, wire.detail, wire.count);
            Content::Denial(Denial { actor, reason, detail, count })
        }
        Wire::Checkpoint(wire) => {
            let anchor = hash(fields, "checkpoint.anchor", wire.anchor)?;
            let beside = match wire.beside {
                None => None,
                Some(head) => {
                    Some(Head { seq: head.seq, hash: hash(fields, "checkpoint.beside.hash", head.hash)? })
                }
            };
            let (epoch, oldest, signature) = (wire.epoch, wire.oldest, wire.signature);
            Content::Checkpoint(Checkpoint { epoch, oldest, anchor, beside, signature })
        }
        Wire::Resumed(wire) => Content::Resumed { cause: wire.cause },
    })
}

impl TryFrom<v1::AuditRecord> for Record {
    type Error = FieldErrors;

    /// Whether its hash is right is another question: `Verifier` answers it.
    fn try_from(wire: v1::AuditRecord) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let time = time(&mut fields, wire.time);
        let previous = hash(&mut fields, "previous", wire.previous);
        let hash = hash(&mut fields, "hash", wire.hash);
        let content = fields.present("content", wire.content).and_then(|wire| content(&mut fields, wire));
        let seq = wire.seq;
        let log = match v1::AuditLog::try_from(wire.log) {
            Ok(v1::AuditLog::Unspecified | v1::AuditLog::Changes) => Log::Changes,
            Ok(v1::AuditLog::Denials) => Log::Denials,
            Err(_) => {
                fields.fail("log", format!("{} is none that this release knows", wire.log));
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

impl From<&Record> for v1::AuditRecord {
    fn from(record: &Record) -> Self {
        let content = match &record.content {
            Content::Change(change) => {
                let Object { kind, name, tenant, version } = change.object.clone();
                let actor = Some(actor_to_wire(&change.actor));
                Wire::Change(v1::AuditChange { actor, kind, name, tenant, version_before: version })
            }
            Content::Denial(denial) => Wire::Denial(v1::AuditDenial {
                actor: Some(actor_to_wire(&denial.actor)),
                reason: denial.reason.clone(),
                detail: denial.detail.clone(),
                count: denial.count,
            }),
            Content::Checkpoint(checkpoint) => Wire::Checkpoint(v1::AuditCheckpoint {
                epoch: checkpoint.epoch,
                oldest: checkpoint.oldest,
                anchor: checkpoint.anchor.to_vec(),
                beside: checkpoint
                    .beside
                    .map(|head| v1::AuditHead { seq: head.seq, hash: head.hash.to_vec() }),
                signature: checkpoint.signature.clone(),
            }),
            Content::Resumed { cause } => Wire::Resumed(v1::AuditResumed { cause: cause.clone() }),
        };
        Self {
            seq: record.seq,
            time: Some(time_to_wire(Timestamp(record.time_ms))),
            previous: record.previous.to_vec(),
            hash: record.hash.to_vec(),
            content: Some(content),
            revision: 0,
            log: match record.log {
                Log::Changes => v1::AuditLog::Changes,
                Log::Denials => v1::AuditLog::Denials,
            }
            .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record> {
        let actor =
            Arc::new(Actor { who: "w".into(), roles: "r".into(), tenant: "t".into(), ..Actor::default() });
        let object = Object { kind: "job".into(), name: "a".into(), tenant: "t".into(), version: 4 };
        let denial = Denial { actor: actor.clone(), reason: "R".into(), detail: "d".into(), count: 3 };
        let checkpoint =
            Checkpoint { epoch: 5, oldest: 2, anchor: [7; 32], beside: None, signature: vec![1, 2] };
        let paired = Checkpoint { beside: Some(Head { seq: 3, hash: [8; 32] }), ..checkpoint.clone() };
        let contents = [
            Content::Change(Change { actor, object }),
            Content::Denial(denial),
            Content::Checkpoint(checkpoint),
            Content::Checkpoint(paired),
            Content::Resumed { cause: "c".into() },
        ];
        let record = |log, content| Record::new(log, 9, 1_700_000_000_123, [3; 32], content);
        contents.into_iter().flat_map(|content| Log::ALL.map(|log| record(log, content.clone()))).collect()
    }

    #[test]
    fn records_come_back_as_they_were() {
        for record in records() {
            let back = Record::try_from(v1::AuditRecord::from(&record)).unwrap();
            assert_eq!(back, record);
            assert_eq!(back.computed(), record.hash);
        }
    }

    #[test]
    fn what_a_hash_would_not_see_is_refused() {
        let wrong = |change: fn(&mut v1::AuditRecord)| {
            let mut wire = v1::AuditRecord::from(&records()[0]);
            change(&mut wire);
            Record::try_from(wire).unwrap_err().to_string()
        };
        let nanos = |wire: &mut v1::AuditRecord| wire.time.as_mut().unwrap().nanos += 1;
        assert!(wrong(nanos).starts_with("time:"));
        assert!(wrong(|wire| wire.time = None).starts_with("time:"));
        assert!(wrong(|wire| wire.hash.push(0)).starts_with("hash: has 33"));
        assert!(wrong(|wire| wire.previous.clear()).starts_with("previous: has 0"));
        assert!(wrong(|wire| wire.log = 7).starts_with("log: 7"));
        assert!(wrong(|wire| wire.content = None).starts_with("content:"));
        let nobody = |wire: &mut v1::AuditRecord| match wire.content.as_mut() {
            Some(Wire::Change(change)) => change.actor = None,
            other => panic!("{other:?}"),
        };
        assert!(wrong(nobody).starts_with("change.actor:"));
    }
}
