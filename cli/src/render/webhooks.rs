//! Webhooks.

use proto_wire::v1;

use super::Table;

fn events(spec: &v1::WebhookSpec) -> String {
    let words: Vec<&str> = spec.events().map(|event| event.as_str_name()).collect();
    words.join(",")
}

fn time(at: &prost_types::Timestamp) -> String {
    prost_types::Timestamp { seconds: at.seconds, nanos: 0 }.to_string()
}

fn moment(time_of: Option<&prost_types::Timestamp>) -> String {
    time_of.map_or_else(|| "-".to_owned(), time)
}

fn state(webhook: &v1::Webhook) -> &'static str {
    let suspended = webhook.spec.as_ref().is_some_and(|spec| spec.suspend);
    let gone = webhook.status.as_ref().is_some_and(|status| status.disabled_time.is_some());
    match (suspended, gone) {
        (true, _) => "suspended",
        (false, true) => "gone",
        (false, false) => "in use",
    }
}

/// A list of webhooks.
#[must_use]
pub fn webhooks(list: &[v1::Webhook]) -> Table {
    let mut table =
        Table::new(["WEBHOOK", "STATE", "EVENTS", "DELIVERED", "QUEUED", "FAILED", "DROPPED", "URL"]);
    for webhook in list {
        let (spec, status) =
            (webhook.spec.clone().unwrap_or_default(), webhook.status.clone().unwrap_or_default());
        table.row([
            webhook.metadata.clone().unwrap_or_default().name,
            state(webhook).to_owned(),
            events(&spec),
            status.delivered.to_string(),
            status.queued.to_string(),
            status.failed.to_string(),
            status.dropped.to_string(),
            spec.url,
        ]);
    }
    table
}

/// Facts about a webhook.
#[must_use]
pub fn webhook_facts(webhook: &v1::Webhook) -> Vec<(&'static str, String)> {
    let (spec, status) =
        (webhook.spec.clone().unwrap_or_default(), webhook.status.clone().unwrap_or_default());
    let mut labels: Vec<String> = spec.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.sort_unstable();
    let failed = match &status.last_error_time {
        Some(at) => format!("{} ({})", status.last_error, time(at)),
        None => String::new(),
    };
    vec![
        ("Description", spec.description.clone()),
        ("URL", spec.url.clone()),
        ("State", state(webhook).to_owned()),
        ("Events", events(&spec)),
        ("Jobs", spec.jobs.clone()),
        ("Queue", spec.queue.clone()),
        ("Labels", labels.join(", ")),
        ("Delivered", status.delivered.to_string()),
        ("Queued", status.queued.to_string()),
        ("Failed", status.failed.to_string()),
        ("Dropped", status.dropped.to_string()),
        ("Last error", failed),
        ("Last success", moment(status.last_success_time.as_ref())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_deliveries_is_in_its_row() {
        let metadata = v1::Metadata { name: "chat".into(), ..Default::default() };
        let spec = v1::WebhookSpec { url: "https://a/...".into(), events: vec![2, 7], ..Default::default() };
        let at = Some(prost_types::Timestamp { seconds: 60, nanos: 0 });
        let status = v1::WebhookStatus {
            delivered: 4,
            failed: 1,
            queued: 2,
            dropped: 3,
            last_error: "it answered 500".into(),
            last_error_time: at,
            ..Default::default()
        };
        let mut webhook = v1::Webhook {
            metadata: Some(metadata),
            spec: Some(spec),
            status: Some(status),
            ..Default::default()
        };
        let text = webhooks(std::slice::from_ref(&webhook)).render("");
        let row = text.lines().nth(1).unwrap();
        for word in ["chat", "in use", "ENDED,HELD", "https://a/..."] {
            assert!(row.contains(word), "{text}");
        }
        let facts = webhook_facts(&webhook);
        assert!(
            facts.iter().any(|(name, text)| *name == "Last error" && text.starts_with("it answered 500 ("))
        );
        webhook.status.as_mut().unwrap().disabled_time = at;
        assert_eq!(state(&webhook), "gone");
    }
}
