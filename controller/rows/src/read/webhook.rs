//! Webhooks.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proto_model::{
    JobFilter, JobName, QueueName, TenantName, Webhook, WebhookEvent, WebhookName, WebhookProgress,
    WebhookSecret, WebhookSpec, WebhookUrl,
};

use super::{job_labels, metadata, time_from_row};
use crate::{v1, words::SECRET};
use proto_model::fields::{FieldErrors, Fields, known};

/// A secret as people write it.
///
/// # Errors
/// It does not begin as one, is no base64, or has too few or too many bytes. The error does not show the text.
pub fn webhook_secret(text: &str) -> Result<WebhookSecret, FieldErrors> {
    let wrong = || {
        let text = format!("is not `{SECRET}` and 24 to 64 bytes in base64; leave it out, and one is made");
        FieldErrors::one("", text)
    };
    let bytes = text.strip_prefix(SECRET).and_then(|text| STANDARD.decode(text).ok()).ok_or_else(wrong)?;
    WebhookSecret::new(&bytes).ok_or_else(wrong)
}

fn event(row: i32) -> Option<WebhookEvent> {
    use v1::webhook_spec::Event as E;
    Some(match known::<E>(row)? {
        E::Started => WebhookEvent::Started,
        E::Ended => WebhookEvent::Ended,
        E::Succeeded => WebhookEvent::Succeeded,
        E::Failed => WebhookEvent::Failed,
        E::Cancelled => WebhookEvent::Cancelled,
        E::QueuedAgain => WebhookEvent::QueuedAgain,
        E::Held => WebhookEvent::Held,
        E::Unspecified => return None,
    })
}

fn events(fields: &mut Fields, row: &[i32]) -> BTreeSet<WebhookEvent> {
    let words: Vec<&str> = WebhookEvent::ALL.iter().map(|event| event.as_str()).collect();
    if row.is_empty() {
        fields.fail("spec.events", format!("is required: at least one of {}", words.join(", ")));
    }
    let mut events = BTreeSet::new();
    for (at, number) in row.iter().enumerate() {
        let field = format!("spec.events[{at}]");
        match event(*number) {
            None => fields.fail(&field, format!("{number} is none of {}", words.join(", "))),
            Some(event) if !events.insert(event) => fields.fail(&field, format!("{event} is given twice")),
            Some(_) => {}
        }
    }
    events
}

fn filter(fields: &mut Fields, spec: &v1::WebhookSpec) -> JobFilter {
    let name = spec.jobs.strip_suffix('*').unwrap_or(&spec.jobs);
    // The begin of a name may end with a hyphen.
    let begin = if spec.jobs.ends_with('*') { name.trim_end_matches('-') } else { name };
    if !begin.is_empty() {
        fields.take("spec.jobs", JobName::new(begin));
    }
    let queue = match spec.queue.as_str() {
        "" => None,
        queue => fields.take("spec.queue", QueueName::new(queue)),
    };
    let labels = fields.nest("spec.labels", job_labels(spec.labels.clone())).unwrap_or_default();
    JobFilter { name: spec.jobs.clone(), queue, labels }
}

fn url(fields: &mut Fields, spec: &v1::WebhookSpec) -> Option<WebhookUrl> {
    let url = fields.take("spec.url", WebhookUrl::new(&spec.url))?;
    if !url.is_tls() && !spec.allow_insecure && !url.is_loopback() {
        let text = "is http, so that everybody on the way can read it; write https, or allowInsecure: true";
        fields.fail("spec.url", text);
    }
    Some(url)
}

impl TryFrom<v1::WebhookSpec> for WebhookSpec {
    type Error = FieldErrors;

    /// Paths begin with `spec.`.
    fn try_from(row: v1::WebhookSpec) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let url = url(&mut fields, &row);
        let events = events(&mut fields, &row.events);
        let jobs = filter(&mut fields, &row);
        let secret = match row.secret.as_str() {
            "" => None,
            text => fields.nest("spec.secret", webhook_secret(text)),
        };
        if row.description.len() > 1024 {
            fields.fail("spec.description", "must be at most 1024 bytes long");
        }
        let spec = url.map(|url| Self {
            url,
            events,
            jobs,
            secret,
            allow_insecure: row.allow_insecure,
            suspended: row.suspend,
            description: row.description,
        });
        fields.finish(spec)
    }
}

impl TryFrom<v1::WebhookStatus> for WebhookProgress {
    type Error = FieldErrors;

    fn try_from(row: v1::WebhookStatus) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let mut time = |field, row: Option<prost_types::Timestamp>| {
            row.and_then(|time| fields.nest(field, time_from_row(time)))
        };
        let failed_at = time("lastErrorTime", row.last_error_time);
        let progress = Self {
            delivered: row.delivered,
            failed: row.failed,
            dropped: row.dropped,
            last_error: failed_at.map(|at| (at, row.last_error)),
            last_success: time("lastSuccessTime", row.last_success_time),
            disabled: time("disabledTime", row.disabled_time),
        };
        fields.finish(Some(progress))
    }
}

impl TryFrom<v1::Webhook> for Webhook {
    type Error = FieldErrors;

    fn try_from(row: v1::Webhook) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let metadata = metadata::metadata(&mut fields, row.metadata);
        let tenant = fields.take("metadata.tenant", TenantName::new(&metadata.tenant));
        let name = fields.take("metadata.name", WebhookName::new(&metadata.name));
        let created =
            fields.nest("metadata.createTime", time_from_row(metadata.create_time.unwrap_or_default()));
        let spec = fields.present("spec", row.spec);
        let spec = spec.and_then(|spec| match spec.try_into() {
            Ok(spec) => Some(spec),
            Err(FieldErrors(errors)) => {
                fields.0.extend(errors);
                None
            }
        });
        let progress = fields.nest("status", row.status.unwrap_or_default().try_into());
        let webhook = tenant.zip(name).zip(created).zip(spec.zip(progress)).map(
            |(((tenant, name), created), (spec, progress))| Self {
                tenant,
                name,
                uid: metadata.uid,
                generation: metadata.generation,
                created,
                spec,
                progress,
            },
        );
        fields.finish(webhook)
    }
}
