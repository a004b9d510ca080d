//! What receivers are to be told.

use proto_model::{
    JobName, JobUid, Phase, QueueName, Reason, TenantName, Timestamp, WebhookEvent, WebhookName,
};

/// Whose, and which.
pub type WebhookKey = (TenantName, WebhookName);

/// Which delivery: of which webhook, and its number there. Numbers grow.
pub type DeliveryKey = (TenantName, WebhookName, u64);

/// One thing that a receiver is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Of which webhook.
    pub tenant: TenantName,
    /// The name of the webhook.
    pub webhook: WebhookName,
    /// The identity of the webhook.
    pub webhook_uid: String,
    /// Its number there.
    pub seq: u64,
    /// What has happened.
    pub event: WebhookEvent,
    /// When it happened, by the controller's clock.
    pub time: Timestamp,
    /// To which job.
    pub job: JobName,
    /// The identity of the job; a name alone may have been another job's before.
    pub uid: JobUid,
    /// In which attempt.
    pub attempt: u32,
    /// Where it was then.
    pub phase: Phase,
    /// The queue of the job, if it is in one.
    pub queue: Option<QueueName>,
    /// Its nodes then; 0 while it had none.
    pub nodes: u32,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// The first cause of its phase, shortened.
    pub reason: Option<Reason>,
}

impl Delivery {
    /// The same however often it is tried and by whichever controller: receivers know by it what they have seen.
    #[must_use]
    pub fn id(&self) -> String {
        let (hook, job, attempt) = (&self.webhook_uid, self.uid, self.attempt);
        format!("msg_{hook}_{job}_{attempt}_{}_{}", self.event, self.time.0)
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> DeliveryKey {
        (self.tenant.clone(), self.webhook.clone(), self.seq)
    }
}
