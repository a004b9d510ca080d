//! Deliveries of webhooks that wait.

use controller_state::rows::webhooks::Delivery;
use proto_model::{JobName, QueueName, TenantName, Timestamp, WebhookEvent, WebhookName};

use super::job_status::phase;
use crate::v1;
use proto_model::fields::{FieldErrors, Fields};

impl TryFrom<v1::Delivery> for Delivery {
    type Error = FieldErrors;

    fn try_from(row: v1::Delivery) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let tenant = fields.take("tenant", TenantName::new(&row.tenant));
        let webhook = fields.take("webhook", WebhookName::new(&row.webhook));
        let event = WebhookEvent::ALL.iter().find(|event| event.as_str() == row.event);
        let event =
            fields.take("event", event.ok_or(format!("'{}' is not known to this release", row.event)));
        let job = fields.take("job", JobName::new(&row.job));
        let uid = fields.take("jobUid", row.job_uid.parse());
        let phase = phase(&mut fields, row.phase);
        let queue = match row.queue.as_str() {
            "" => None,
            name => fields.take("queue", QueueName::new(name)),
        };
        let reason = row.reason.and_then(|reason| fields.nest("reason", reason.try_into()));
        let whole = tenant.zip(webhook).zip(event).zip(job.zip(uid).zip(phase));
        fields.finish(whole.map(|(((tenant, webhook), event), ((job, uid), phase))| Self {
            tenant,
            webhook,
            webhook_uid: row.webhook_uid,
            seq: row.seq,
            event: *event,
            time: Timestamp(row.time_ms),
            job,
            uid,
            attempt: row.attempt,
            phase,
            queue,
            nodes: row.nodes,
            submitted: Timestamp(row.submitted_ms),
            reason,
        }))
    }
}
