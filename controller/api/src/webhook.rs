//! WebhookService: receivers that get the events of a tenant's jobs.

use controller_core::{CoreError, Event, Reply, State};
use controller_leader::{Refusal, codec, keys};
use controller_store::KeyValue;
use proto_model::{TenantName, Webhook, WebhookName, WebhookUrl};
use proto_rpc::{ErrorClass, Role, RpcError};
use proto_wire::{
    convert::{duration_to_wire, webhook_secret_to_wire},
    v1::{self, webhook_service_server::WebhookService},
};
use tonic::{Request, Response, Status};

use crate::{authz::Rpc, context::Context, fault, guard::Caller, page};

/// The handlers of `WebhookService`.
#[derive(Clone)]
pub struct Webhooks {
    context: Context,
}

impl Webhooks {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    fn key(
        &self,
        rpc: Rpc,
        caller: &Caller,
        tenant: &str,
        name: &str,
    ) -> Result<(TenantName, WebhookName), RpcError> {
        let tenant =
            caller.tenant("tenant", tenant).map_err(|error| self.context.guard.note(rpc, caller, error))?;
        let name = WebhookName::new(name).map_err(|error| fault::field("name", error))?;
        Ok((tenant, name))
    }

    /// Adds to each webhook how many deliveries wait.
    async fn complete(&self, mut webhooks: Vec<v1::Webhook>) -> Result<Vec<v1::Webhook>, RpcError> {
        let fill = move |state: &State, _| {
            webhooks.iter_mut().for_each(|webhook| add_queued(state, webhook));
            webhooks
        };
        self.context.query(fill).await
    }

    async fn one(&self, webhook: v1::Webhook) -> Result<Response<v1::Webhook>, Status> {
        let mut webhooks = self.complete(vec![webhook]).await?;
        Ok(Response::new(webhooks.pop().ok_or_else(crate::context::unexpected)?))
    }
}

fn add_queued(state: &State, webhook: &mut v1::Webhook) {
    let metadata = webhook.metadata.clone().unwrap_or_default();
    let names = TenantName::new(metadata.tenant).ok().zip(WebhookName::new(metadata.name).ok());
    let queued = names.map(|(tenant, name)| state.deliveries_queued(&tenant, &name));
    webhook.status.get_or_insert_default().queued = queued.unwrap_or_default();
}

/// Whether a caller sees the whole URL: its path may be a secret of the receiver.
fn manages(caller: &Caller) -> bool {
    let roles = caller.identity.roles();
    roles.contains(&Role::Admin) || roles.contains(&Role::TenantAdmin)
}

/// The event that applies a document.
pub(crate) fn to_apply(
    context: &Context,
    caller: &Caller,
    mut document: v1::Webhook,
    dry_run: bool,
) -> Result<Event, RpcError> {
    // The tenant is the caller's; an administrator may name one.
    let metadata = document.metadata.get_or_insert_default();
    let tenant = caller.tenant("metadata.tenant", &metadata.tenant);
    let tenant = tenant.map_err(|error| context.guard.note(Rpc::ApplyWebhook, caller, error))?;
    metadata.tenant = tenant.to_string();
    // Only the controller writes its status.
    document.status = None;
    let webhook = Webhook::try_from(document).map_err(|errors| fault::fields(errors, ""))?;
    let called = context.handle.check_webhook(&webhook);
    called.map_err(|error| fault::field("spec.url", error))?;
    Ok(Event::ApplyWebhook(Box::new(webhook), dry_run))
}

/// As a caller may see it: without the secret, and the URL whole only for who may write it.
pub(crate) fn reported(mut webhook: v1::Webhook, version: u64, manages: bool) -> v1::Webhook {
    webhook.metadata.get_or_insert_default().resource_version = version;
    let spec = webhook.spec.get_or_insert_default();
    spec.secret.clear();
    if !manages {
        spec.url = WebhookUrl::new(&spec.url).map(|url| url.masked()).unwrap_or_default();
    }
    webhook
}

fn shown(kv: &KeyValue, manages: bool) -> Result<v1::Webhook, RpcError> {
    let webhook = codec::webhook(kv).map_err(|error| fault::refused(&error.into()))?;
    Ok(reported(v1::Webhook::from(&webhook), kv.mod_revision, manages))
}

#[tonic::async_trait]
impl WebhookService for Webhooks {
    async fn apply_webhook(
        &self,
        request: Request<v1::ApplyWebhookRequest>,
    ) -> Result<Response<v1::Webhook>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let document = wire.webhook.ok_or_else(|| fault::field("webhook", "is required"))?;
        let event = to_apply(&self.context, &caller, document, wire.dry_run)?;
        let applied = self.context.apply(&caller, event).await?;
        let Reply::Webhook { webhook, secret_made } = applied.reply else {
            return Err(crate::context::unexpected());
        };
        let mut reported = reported(v1::Webhook::from(webhook.as_ref()), applied.version, true);
        if let (true, Some(secret)) = (secret_made, &webhook.spec.secret) {
            // The only time that it is shown.
            reported.spec.get_or_insert_default().secret = webhook_secret_to_wire(secret);
        }
        self.one(reported).await
    }

    async fn get_webhook(
        &self,
        request: Request<v1::GetWebhookRequest>,
    ) -> Result<Response<v1::Webhook>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let (tenant, name) = self.key(Rpc::GetWebhook, &caller, &wire.tenant, &wire.name)?;
        let found = self.context.handle.store().get(keys::webhook(&tenant, &name)).await;
        let kv = found.map_err(|error| fault::store(&error))?.ok_or_else(|| {
            let error = CoreError::WebhookNotFound { tenant, webhook: name, nearest: None };
            RpcError::new(ErrorClass::NotFound, error.code(), error.to_string())
        })?;
        self.one(shown(&kv, manages(&caller))?).await
    }

    async fn list_webhooks(
        &self,
        request: Request<v1::ListWebhooksRequest>,
    ) -> Result<Response<v1::ListWebhooksResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let scope = caller.scope("tenant", &wire.tenant);
        let tenant = scope.map_err(|error| self.context.guard.note(Rpc::ListWebhooks, &caller, error))?;
        let asked = page::Asked {
            rpc: Rpc::ListWebhooks,
            prefix: keys::webhooks_of(tenant.as_ref()),
            size: wire.page_size,
            token: &wire.page_token,
            filter: Vec::new(),
        };
        let manages = manages(&caller);
        let page = page::list(&self.context, &caller, asked, |kv| shown(kv, manages).map(Some)).await?;
        let webhooks = self.complete(page.items).await?;
        let (next_page_token, revision) = (page.next, page.revision);
        Ok(Response::new(v1::ListWebhooksResponse { webhooks, next_page_token, revision }))
    }

    async fn delete_webhook(
        &self,
        request: Request<v1::DeleteWebhookRequest>,
    ) -> Result<Response<v1::DeleteWebhookResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let (tenant, name) = self.key(Rpc::DeleteWebhook, &caller, &wire.tenant, &wire.name)?;
        self.context.apply(&caller, Event::DeleteWebhook(tenant, name)).await?;
        Ok(Response::new(v1::DeleteWebhookResponse {}))
    }

    async fn test_webhook(
        &self,
        request: Request<v1::TestWebhookRequest>,
    ) -> Result<Response<v1::TestWebhookResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let (tenant, name) = self.key(Rpc::TestWebhook, &caller, &wire.tenant, &wire.name)?;
        let (owner, called) = (tenant.clone(), name.clone());
        let known = move |state: &State, _| match state.webhook(&owner, &called) {
            Some(_) => Ok(()),
            None => Err(Refusal::Core(state.webhook_missing(&owner, &called))),
        };
        self.context.query(known).await?.map_err(|refusal| fault::refused(&refusal))?;
        // The controller calls somebody because of it: that is on record, as what changes something is.
        let noted =
            self.context.handle.note(&caller.actor, "webhook", name.to_string(), tenant.as_str()).await;
        noted.map_err(|refusal| fault::refused(&refusal))?;
        let ping = self.context.handle.ping_webhook(&tenant, &name).await;
        let ping = ping.map_err(|refusal| fault::refused(&refusal))?;
        Ok(Response::new(v1::TestWebhookResponse {
            status: ping.status.map(u32::from).unwrap_or_default(),
            error: ping.error.unwrap_or_default(),
            took: Some(duration_to_wire(ping.took)),
            id: ping.id,
        }))
    }
}
