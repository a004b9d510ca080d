//! Webhooks.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proto_model::{Webhook, WebhookEvent, WebhookProgress, WebhookSecret, WebhookSpec};

use super::time_to_row;
use crate::{v1, words::SECRET};

/// A secret as people write it.
#[must_use]
pub fn webhook_secret_to_row(secret: &WebhookSecret) -> String {
    format!("{SECRET}{}", STANDARD.encode(secret.expose()))
}

fn event_to_row(event: WebhookEvent) -> v1::webhook_spec::Event {
    use v1::webhook_spec::Event as E;
    match event {
        WebhookEvent::Started => E::Started,
        WebhookEvent::Ended => E::Ended,
        WebhookEvent::Succeeded => E::Succeeded,
        WebhookEvent::Failed => E::Failed,
        WebhookEvent::Cancelled => E::Cancelled,
        WebhookEvent::QueuedAgain => E::QueuedAgain,
        WebhookEvent::Held => E::Held,
    }
}

impl From<&WebhookSpec> for v1::WebhookSpec {
    /// With the secret.
    fn from(spec: &WebhookSpec) -> Self {
        Self {
            url: spec.url.as_str().to_owned(),
            events: spec.events.iter().map(|event| event_to_row(*event).into()).collect(),
            jobs: spec.jobs.name.clone(),
            queue: spec.jobs.queue.as_ref().map(ToString::to_string).unwrap_or_default(),
            labels: spec.jobs.labels.clone(),
            secret: spec.secret.as_ref().map(webhook_secret_to_row).unwrap_or_default(),
            allow_insecure: spec.allow_insecure,
            suspend: spec.suspended,
            description: spec.description.clone(),
        }
    }
}

impl From<&WebhookProgress> for v1::WebhookStatus {
    /// What waits has rows of its own.
    fn from(progress: &WebhookProgress) -> Self {
        let (time, error) = progress.last_error.clone().unzip();
        Self {
            delivered: progress.delivered,
            failed: progress.failed,
            dropped: progress.dropped,
            last_error: error.unwrap_or_default(),
            last_error_time: time.map(time_to_row),
            last_success_time: progress.last_success.map(time_to_row),
            disabled_time: progress.disabled.map(time_to_row),
        }
    }
}

impl From<&Webhook> for v1::Webhook {
    /// With the secret.
    fn from(webhook: &Webhook) -> Self {
        Self {
            metadata: Some(v1::Metadata {
                name: webhook.name.to_string(),
                tenant: webhook.tenant.to_string(),
                uid: webhook.uid.clone(),
                generation: webhook.generation,
                create_time: Some(time_to_row(webhook.created)),
                ..v1::Metadata::default()
            }),
            spec: Some((&webhook.spec).into()),
            status: Some((&webhook.progress).into()),
        }
    }
}
