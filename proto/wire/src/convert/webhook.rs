//! Webhooks.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proto_model::{
    JobFilter, JobName, QueueName, TenantName, Webhook, WebhookEvent, WebhookName, WebhookProgress,
    WebhookSecret, WebhookSpec, WebhookUrl,
};

use super::{API_VERSION, FieldErrors, Fields, job_labels, known, metadata, time_from_wire, time_to_wire};
use crate::v1;

/// What a secret begins with, as the Standard Webhooks specification has it.
const SECRET: &str = "whsec_";

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

/// A secret as people write it.
#[must_use]
pub fn webhook_secret_to_wire(secret: &WebhookSecret) -> String {
    format!("{SECRET}{}", STANDARD.encode(secret.expose()))
}

fn event(wire: i32) -> Option<WebhookEvent> {
    use v1::webhook_spec::Event as E;
    Some(match known::<E>(wire)? {
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

fn event_to_wire(event: WebhookEvent) -> v1::webhook_spec::Event {
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

fn events(fields: &mut Fields, wire: &[i32]) -> BTreeSet<WebhookEvent> {
    let words: Vec<&str> = WebhookEvent::ALL.iter().map(|event| event.as_str()).collect();
    if wire.is_empty() {
        fields.fail("spec.events", format!("is required: at least one of {}", words.join(", ")));
    }
    let mut events = BTreeSet::new();
    for (at, number) in wire.iter().enumerate() {
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
    fn try_from(wire: v1::WebhookSpec) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let url = url(&mut fields, &wire);
        let events = events(&mut fields, &wire.events);
        let jobs = filter(&mut fields, &wire);
        let secret = match wire.secret.as_str() {
            "" => None,
            text => fields.nest("spec.secret", webhook_secret(text)),
        };
        if wire.description.len() > 1024 {
            fields.fail("spec.description", "must be at most 1024 bytes long");
        }
        let spec = url.map(|url| Self {
            url,
            events,
            jobs,
            secret,
            allow_insecure: wire.allow_insecure,
            suspended: wire.suspend,
            description: wire.description,
        });
        fields.finish(spec)
    }
}

impl From<&WebhookSpec> for v1::WebhookSpec {
    /// With the secret: for the store. Whoever answers a call takes it out.
    fn from(spec: &WebhookSpec) -> Self {
        Self {
            url: spec.url.as_str().to_owned(),
            events: spec.events.iter().map(|event| event_to_wire(*event).into()).collect(),
            jobs: spec.jobs.name.clone(),
            queue: spec.jobs.queue.as_ref().map(ToString::to_string).unwrap_or_default(),
            labels: spec.jobs.labels.clone().into_iter().collect(),
            secret: spec.secret.as_ref().map(webhook_secret_to_wire).unwrap_or_default(),
            allow_insecure: spec.allow_insecure,
            suspend: spec.suspended,
            description: spec.description.clone(),
        }
    }
}

impl TryFrom<v1::WebhookStatus> for WebhookProgress {
    type Error = FieldErrors;

    fn try_from(wire: v1::WebhookStatus) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let mut time = |field, wire: Option<prost_types::Timestamp>| {
            wire.and_then(|time| fields.nest(field, time_from_wire(time)))
        };
        let failed_at = time("lastErrorTime", wire.last_error_time);
        let progress = Self {
            delivered: wire.delivered,
            failed: wire.failed,
            dropped: wire.dropped,
            last_error: failed_at.map(|at| (at, wire.last_error)),
            last_success: time("lastSuccessTime", wire.last_success_time),
            disabled: time("disabledTime", wire.disabled_time),
        };
        fields.finish(Some(progress))
    }
}

impl From<&WebhookProgress> for v1::WebhookStatus {
    /// What waits is added by whoever knows it.
    fn from(progress: &WebhookProgress) -> Self {
        let (time, error) = progress.last_error.clone().unzip();
        Self {
            delivered: progress.delivered,
            failed: progress.failed,
            queued: 0,
            dropped: progress.dropped,
            last_error: error.unwrap_or_default(),
            last_error_time: time.map(time_to_wire),
            last_success_time: progress.last_success.map(time_to_wire),
            disabled_time: progress.disabled.map(time_to_wire),
        }
    }
}

impl TryFrom<v1::Webhook> for Webhook {
    type Error = FieldErrors;

    fn try_from(wire: v1::Webhook) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        super::fields::header(&mut fields, &wire.api_version, &wire.kind, "Webhook");
        let metadata = metadata::metadata(&mut fields, wire.metadata);
        let tenant = fields.take("metadata.tenant", TenantName::new(&metadata.tenant));
        let name = fields.take("metadata.name", WebhookName::new(&metadata.name));
        let created =
            fields.nest("metadata.createTime", time_from_wire(metadata.create_time.unwrap_or_default()));
        let spec = fields.present("spec", wire.spec);
        let spec = spec.and_then(|spec| match spec.try_into() {
            Ok(spec) => Some(spec),
            Err(FieldErrors(errors)) => {
                fields.0.extend(errors);
                None
            }
        });
        let progress = fields.nest("status", wire.status.unwrap_or_default().try_into());
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

impl From<&Webhook> for v1::Webhook {
    /// With the secret: for the store. Whoever answers a call takes it out.
    fn from(webhook: &Webhook) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Webhook".to_owned(),
            metadata: Some(v1::Metadata {
                name: webhook.name.to_string(),
                tenant: webhook.tenant.to_string(),
                uid: webhook.uid.clone(),
                generation: webhook.generation,
                create_time: Some(time_to_wire(webhook.created)),
                ..v1::Metadata::default()
            }),
            spec: Some((&webhook.spec).into()),
            status: Some((&webhook.progress).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use proto_model::Timestamp;

    use super::*;

    fn wire(spec: v1::WebhookSpec) -> v1::Webhook {
        let metadata = v1::Metadata { name: "chat".into(), tenant: "red".into(), ..Default::default() };
        v1::Webhook { metadata: Some(metadata), spec: Some(spec), ..Default::default() }
    }

    fn spec(url: &str) -> v1::WebhookSpec {
        v1::WebhookSpec { url: url.into(), events: vec![2], ..Default::default() }
    }

    fn fields(spec: v1::WebhookSpec) -> Vec<String> {
        Webhook::try_from(wire(spec)).unwrap_err().0.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn webhooks_survive_the_wire() {
        let mut webhook = Webhook::try_from(wire(v1::WebhookSpec {
            events: vec![1, 3, 7],
            jobs: "train-*".into(),
            queue: "prod".into(),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            secret: format!("whsec_{}", STANDARD.encode([9; 32])),
            description: "chat".into(),
            ..spec("https://a.example/x")
        }))
        .unwrap();
        webhook.progress = WebhookProgress {
            delivered: 3,
            failed: 1,
            dropped: 2,
            last_error: Some((Timestamp(4000), "503".into())),
            last_success: Some(Timestamp(5000)),
            disabled: Some(Timestamp(6000)),
        };
        let bytes = v1::Webhook::from(&webhook).encode_to_vec();
        assert_eq!(Webhook::try_from(v1::Webhook::decode(bytes.as_slice()).unwrap()), Ok(webhook));
    }

    #[test]
    fn every_wrong_field_is_named_and_no_secret_is_told() {
        let all = v1::WebhookSpec {
            url: "https://u:p@a/".into(),
            events: vec![2, 2, 99],
            jobs: "A*".into(),
            queue: "Q".into(),
            labels: [(String::new(), String::new())].into(),
            secret: "whsec_c2hvcnQ=".into(),
            description: "x".repeat(1025),
            ..Default::default()
        };
        let expected = [
            "spec.url",
            "spec.events[1]",
            "spec.events[2]",
            "spec.jobs",
            "spec.queue",
            "spec.labels",
            "spec.secret",
            "spec.description",
        ];
        assert_eq!(fields(all.clone()), expected);
        assert!(!Webhook::try_from(wire(all)).unwrap_err().to_string().contains("c2hvcnQ"));
        assert_eq!(fields(v1::WebhookSpec { events: vec![], ..spec("https://a/") }), ["spec.events"]);
        assert_eq!(fields(spec("http://a.example/")), ["spec.url"]);
        for fine in [
            spec("http://127.0.0.1:8080/"),
            v1::WebhookSpec { allow_insecure: true, ..spec("http://a.example/") },
            v1::WebhookSpec { jobs: "a-*".into(), ..spec("https://a/") },
            v1::WebhookSpec { jobs: "*".into(), ..spec("https://a/") },
        ] {
            assert!(Webhook::try_from(wire(fine.clone())).is_ok(), "{fine:?}");
        }
    }
}
