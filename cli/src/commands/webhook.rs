//! Webhooks: shown, made, tried and removed.

use proto_wire::v1;

use super::list::{Asked, Found};
use crate::{
    args::WebhookCommand,
    client::{Api, JobRef, once, repeat},
    error::Error,
    output::print,
    render::{self, Kind},
};

/// Makes a webhook of a document. Where it names no tenant, it is the one that was set. Not repeated by itself: a secret that is
/// made for it is shown once.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn apply(
    doing: String,
    mut webhook: v1::Webhook,
    dry_run: bool,
    api: &Api,
) -> Result<v1::Webhook, Error> {
    let metadata = webhook.metadata.get_or_insert_default();
    if metadata.tenant.is_empty() {
        metadata.tenant.clone_from(&api.tenant);
    }
    let request = v1::ApplyWebhookRequest { webhook: Some(webhook), dry_run };
    once(doing, api.webhooks().apply_webhook(request)).await
}

/// What was made, and the secret where the answer has it.
pub fn applied(webhook: &v1::Webhook) -> String {
    let secret = webhook.spec.as_ref().map(|spec| spec.secret.as_str()).unwrap_or_default();
    let line = format!("{} applied", name_of(webhook));
    if secret.is_empty() {
        return line;
    }
    format!("{line}\nIts receiver checks signatures with this secret, which is not shown again: {secret}")
}

/// One webhook, by TENANT/WEBHOOK or WEBHOOK.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn get(name: &str, api: &Api) -> Result<v1::Webhook, Error> {
    let JobRef { tenant, name } = api.job_ref(name);
    repeat(format!("get webhook `{name}`"), |_| {
        let request = v1::GetWebhookRequest { name: name.clone(), tenant: tenant.clone() };
        let mut client = api.webhooks();
        async move { client.get_webhook(request).await }
    })
    .await
}

/// Deletes a webhook; gives what was deleted, for the message.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn delete(name: &str, api: &Api) -> Result<String, Error> {
    let webhook = api.job_ref(name);
    let request = v1::DeleteWebhookRequest { name: webhook.name.clone(), tenant: webhook.tenant.clone() };
    once(format!("delete webhook `{webhook}`"), api.webhooks().delete_webhook(request)).await?;
    Ok(format!("webhook {webhook}"))
}

fn name_of(webhook: &v1::Webhook) -> String {
    let metadata = webhook.metadata.clone().unwrap_or_default();
    format!("webhook/{}/{}", metadata.tenant, metadata.name)
}

/// `get webhooks [NAME...]`: the webhooks of a tenant.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn show(asked: &Asked<'_>, tenant: &str, api: &Api) -> Result<(), Error> {
    let kind = Kind {
        message: "rail.v1.Webhook",
        name: &name_of,
        table: &|all: &[v1::Webhook], _| render::webhooks(all),
        columns: &[],
        slurm: None,
    };
    let one = async |name: &str| get(name, api).await.map(Found::One);
    asked.show(&kind, "webhooks", one, async || api.list_webhooks(tenant).await).await
}

/// `webhook test NAME`: has the controller send a delivery for a test.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Differs`] if the receiver does not take the test.
pub async fn run(command: &WebhookCommand, api: &Api) -> Result<(), Error> {
    let WebhookCommand::Test { name } = command;
    let webhook = api.job_ref(name);
    let request = v1::TestWebhookRequest { name: webhook.name.clone(), tenant: webhook.tenant.clone() };
    let answer = once(format!("test webhook `{webhook}`"), api.webhooks().test_webhook(request)).await?;
    let took = answer.took.unwrap_or_default();
    let millis = i64::from(took.nanos) / 1_000_000 + took.seconds * 1000;
    if answer.error.is_empty() {
        return print(&format!(
            "delivered: the receiver answered {} in {millis} ms ({})\n",
            answer.status, answer.id
        ));
    }
    Err(Error::Differs(format!("not delivered after {millis} ms: {} ({})", answer.error, answer.id)))
}
