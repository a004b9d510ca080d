//! Deliveries of webhooks that wait.

use controller_state::rows::webhooks::Delivery;

use crate::v1;

impl From<&Delivery> for v1::Delivery {
    fn from(row: &Delivery) -> Self {
        Self {
            tenant: row.tenant.to_string(),
            webhook: row.webhook.to_string(),
            webhook_uid: row.webhook_uid.clone(),
            seq: row.seq,
            event: row.event.to_string(),
            time_ms: row.time.0,
            job: row.job.to_string(),
            job_uid: row.uid.to_string(),
            attempt: row.attempt,
            phase: v1::job_status::Phase::from(row.phase).into(),
            queue: row.queue.as_ref().map(ToString::to_string).unwrap_or_default(),
            nodes: row.nodes,
            submitted_ms: row.submitted.0,
            reason: row.reason.as_ref().map(Into::into),
        }
    }
}
