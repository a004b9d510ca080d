//! What no client writes: the controller's own records, and what is kept of what was deleted.

use std::sync::Arc;

use controller_core::{
    Attempt, AuditRow, DecisionRecord, DecisionRow, DeletedContent, DeletedKey, DeletedTenant, Ending,
    Outcome, RequestRecord, RestingName, TokenRecord, Tombstone, UsageEnd, UsageRecord, UsageRequest,
    UsageSize, webhooks::Delivery,
};
use proto_audit::{Actor, Change, Checkpoint, Content, Denial, Head, Log, Object, Record};
use proto_model::{
    Authority, JobId, JobKey, NodeEndpoints, Phase, RailEndpoint, RequestId, Role, ServiceClassName,
    SwitchName, TokenHolder, WebhookEvent, WebhookName,
};

use super::Pick;

impl Pick {
    pub fn attempt(&mut self) -> Attempt {
        let outcomes = [Outcome::Requeue, Outcome::Preempt, Outcome::Move, Outcome::Fail, Outcome::Cancel];
        Attempt {
            uid: self.job_uid(),
            attempt: 1 + self.below(9),
            key: JobKey::new(self.bytes()),
            peers: self.list(2, |pick| NodeEndpoints {
                node: pick.node_name(),
                endpoints: pick.list(2, |pick| RailEndpoint {
                    rail: pick.below(8),
                    address: (pick.address(), 4000).into(),
                }),
            }),
            since: self.time(),
            released: self.flag(),
            again: self.flag(),
            ending: self.some(|pick| Ending {
                outcome: pick.one(&outcomes),
                grace: pick.span(),
                signal: pick.one(&[0, 10, 15]),
                since: pick.time(),
                causes: pick.reasons(),
            }),
        }
    }

    pub fn resting_name(&mut self) -> RestingName {
        RestingName { name: self.tenant(), uid: self.uid(), deleted: self.time() }
    }

    pub fn deleted_fabric(&mut self) -> Tombstone {
        let fabric = self.fabric();
        Tombstone {
            key: DeletedKey::Fabric(fabric.name.clone()),
            deleted: self.time(),
            by: self.word(),
            content: DeletedContent::Fabric(Arc::new(fabric)),
        }
    }

    pub fn deleted_tenant(&mut self) -> Tombstone {
        let tenant = Arc::new(self.tenant_row());
        Tombstone {
            key: DeletedKey::Tenant(tenant.name.clone()),
            deleted: self.time(),
            by: self.word(),
            content: DeletedContent::Tenant(Box::new(DeletedTenant {
                tenant,
                queues: self.list(2, |pick| Arc::new(pick.queue())),
                schedules: self.list(1, |pick| Arc::new(pick.schedule())),
                webhooks: self.list(1, |pick| Arc::new(pick.webhook())),
                reservations: self.list(1, |pick| Arc::new(pick.reservation())),
                classes: self.list(1, |pick| Arc::new(pick.class())),
                left_out: self.below(9),
            })),
        }
    }

    pub fn delivery(&mut self) -> Delivery {
        Delivery {
            tenant: self.tenant(),
            webhook: WebhookName::new(self.word()).unwrap(),
            webhook_uid: self.uid(),
            seq: self.large(),
            event: self.one(WebhookEvent::ALL),
            time: self.time(),
            job: self.job_name(),
            uid: self.job_uid(),
            attempt: self.below(9),
            phase: self.one(&Phase::ALL),
            queue: self.some(Self::queue_name),
            nodes: self.below(9),
            submitted: self.time(),
            reason: self.some(Self::reason),
        }
    }

    pub fn request(&mut self) -> RequestRecord {
        let tenant = self.tenant();
        RequestRecord {
            request: RequestId::new(&self.word()).unwrap(),
            digest: self.bytes(),
            uid: self.job_uid(),
            id: JobId { tenant: tenant.clone(), name: self.job_name() },
            time: self.time(),
            tenant,
        }
    }

    pub fn join_token(&mut self) -> TokenRecord {
        TokenRecord {
            hash: self.bytes(),
            holder: match self.flag() {
                true => TokenHolder::Node(self.node_name()),
                false => TokenHolder::Switch(SwitchName::new(format!("leaf{}", self.below(64))).unwrap()),
            },
            expires: self.time(),
            used_by: self.some(Self::bytes),
        }
    }

    pub fn usage(&mut self) -> UsageRecord {
        let ends = [
            UsageEnd::Completed,
            UsageEnd::Failed,
            UsageEnd::Cancelled,
            UsageEnd::Requeued,
            UsageEnd::Preempted,
            UsageEnd::Moved,
        ];
        let placed = self.time();
        UsageRecord {
            uid: self.job_uid(),
            attempt: 1 + self.below(9),
            id: JobId { tenant: self.tenant(), name: self.job_name() },
            tenant_uid: self.uid(),
            queue: self.some(Self::queue_name),
            class: self.some(|pick| ServiceClassName::new(pick.word()).unwrap()),
            submitter: self.some(|pick| Authority {
                role: pick.one(&[Role::Admin, Role::TenantAdmin, Role::User]),
                user: pick.word(),
            }),
            priority: i32::try_from(self.below(2001)).unwrap() - 1000,
            held: UsageSize {
                nodes: self.below(1024),
                spares: self.below(3),
                gpus: self.large(),
                nics: self.large(),
                rails: self.below(9),
                cpus: self.large(),
                memory_bytes: self.large(),
            },
            asked: UsageRequest { nodes: self.below(1024), gpus: self.large() },
            submitted: self.time(),
            placed,
            started: self.some(Self::time),
            ended: placed.plus(self.span()),
            end: self.one(&ends),
            reason: self.some(|pick| pick.reason().code),
        }
    }

    pub fn decisions(&mut self) -> DecisionRow {
        DecisionRow {
            seq: self.large(),
            time: self.time(),
            records: self.list(3, |pick| DecisionRecord {
                id: JobId { tenant: pick.tenant(), name: pick.job_name() },
                uid: pick.job_uid(),
                phase: pick.one(&Phase::ALL),
                attempt: pick.below(9),
                reasons: pick.reasons(),
                nodes: pick.below(9),
                digest: pick.large(),
            }),
            omitted: self.below(9),
        }
    }

    /// Records that follow each other from the first one of a log on.
    pub fn audit(&mut self, log: Log) -> AuditRow {
        let mut previous = proto_audit::START;
        let records = (1..=3).map(|seq| {
            let content = self.content(log, seq);
            let record = Record::new(log, seq, self.time().0, previous, content);
            previous = record.hash;
            Arc::new(record)
        });
        AuditRow { records: records.collect() }
    }

    fn content(&mut self, log: Log, seq: u64) -> Content {
        let actor = Arc::new(Actor {
            who: self.word(),
            roles: self.line(),
            tenant: self.word(),
            source: self.line(),
            rpc: self.word(),
            request: self.line(),
            trace: self.line(),
            oidc_subject: self.line(),
        });
        match (seq, log) {
            (2, _) => Content::Checkpoint(Checkpoint {
                epoch: self.large(),
                oldest: 1,
                anchor: proto_audit::START,
                beside: self.some(|pick| Head { seq: pick.large(), hash: pick.bytes() }),
                signature: vec![1, 2, 3],
            }),
            (3, _) => Content::Resumed { cause: self.line() },
            (_, Log::Changes) => Content::Change(Change {
                actor,
                object: Object {
                    kind: self.word(),
                    name: self.word(),
                    tenant: self.word(),
                    version: self.large(),
                },
            }),
            (_, Log::Denials) => {
                let (reason, detail, count) = (self.word(), self.line(), self.large());
                Content::Denial(Denial { actor, reason, detail, count })
            }
        }
    }
}
