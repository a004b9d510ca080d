//! SecretService and ConfigService: named values of a tenant that its jobs can have in their environment. Both do the same, but that nobody
//! reads what a secret holds.

use std::sync::Arc;

use controller_core::{CoreError, Event, Reply, values::ValuesError};
use controller_leader::{codec, keys};
use controller_store::KeyValue;
use prost::Message;
use proto_model::{TenantName, Values, ValuesId, ValuesKind, ValuesName};
use proto_rpc::{ErrorClass, Role, RpcError};
use proto_wire::{
    convert::FieldErrors,
    v1::{self, config_service_server::ConfigService, secret_service_server::SecretService},
};
use tonic::{Request, Response, Status};

use crate::{authz::Rpc, changes, context::Context, fault, guard::Caller, page};

/// The handlers of `SecretService` and `ConfigService`.
#[derive(Clone)]
pub struct SecretsAndConfigs {
    context: Context,
}

/// What a caller may see of a document.
pub(crate) trait ValuesDocument: Message + Default + for<'a> From<&'a Values> {
    /// What it is.
    const KIND: ValuesKind;
    /// The call that applies such a document.
    const APPLY: Rpc;
    /// The metadata of the document, made if it has none.
    fn metadata(&mut self) -> &mut v1::Metadata;
    /// Without its status, which only the controller writes.
    fn asked(self) -> Self;
    /// The revision of its last change.
    fn set_version(&mut self, version: u64) {
        self.metadata().resource_version = version;
    }
    /// What is not for a caller goes; `names`: they may see the keys of a secret.
    fn hide(&mut self, names: bool);
}

impl ValuesDocument for v1::Secret {
    const KIND: ValuesKind = ValuesKind::Secret;
    const APPLY: Rpc = Rpc::ApplySecret;

    fn metadata(&mut self) -> &mut v1::Metadata {
        self.metadata.get_or_insert_default()
    }

    fn asked(self) -> Self {
        Self { status: None, ..self }
    }

    fn hide(&mut self, names: bool) {
        self.data.clear();
        if !names {
            self.status.get_or_insert_default().keys.clear();
        }
    }
}

impl ValuesDocument for v1::Config {
    const KIND: ValuesKind = ValuesKind::Config;
    const APPLY: Rpc = Rpc::ApplyConfig;

    fn metadata(&mut self) -> &mut v1::Metadata {
        self.metadata.get_or_insert_default()
    }

    fn asked(self) -> Self {
        Self { status: None, ..self }
    }

    fn hide(&mut self, _: bool) {}
}

/// Whether a caller sees the keys of secrets: whoever may submit jobs refers to them.
fn sees_keys(caller: &Caller) -> bool {
    let roles = caller.identity.roles();
    [Role::User, Role::TenantAdmin, Role::Admin].iter().any(|role| roles.contains(role))
}

pub(crate) fn visible<T: ValuesDocument>(mut document: T, version: u64, names: bool) -> T {
    document.set_version(version);
    document.hide(names);
    document
}

fn read<T: ValuesDocument>(kv: &KeyValue, names: bool) -> Result<T, RpcError> {
    let values = codec::values(T::KIND, kv).map_err(|error| fault::refused(&error.into()))?;
    Ok(visible(T::from(&values), kv.mod_revision, names))
}

/// The tenant is the caller's; an administrator may name one.
fn of_caller(
    context: &Context,
    rpc: Rpc,
    caller: &Caller,
    field: &str,
    named: &str,
) -> Result<TenantName, RpcError> {
    caller.tenant(field, named).map_err(|error| context.guard.note(rpc, caller, error))
}

/// What applies a document.
///
/// # Errors
/// A field that is wrong, or a tenant that is not the caller's.
pub(crate) fn to_apply<T: ValuesDocument>(
    context: &Context,
    caller: &Caller,
    mut document: T,
    dry_run: bool,
) -> Result<Event, RpcError>
where
    Values: TryFrom<T, Error = FieldErrors>,
{
    let metadata = document.metadata();
    let tenant = of_caller(context, T::APPLY, caller, "metadata.tenant", &metadata.tenant)?;
    metadata.tenant = tenant.to_string();
    let mut values = Values::try_from(document.asked()).map_err(|errors| fault::fields(errors, ""))?;
    values.updated_by = changes::authority(caller)?.user;
    Ok(Event::ApplyValues(Box::new(values), dry_run))
}

impl SecretsAndConfigs {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    fn id(
        &self,
        (rpc, kind): (Rpc, ValuesKind),
        caller: &Caller,
        tenant: &str,
        name: &str,
    ) -> Result<ValuesId, RpcError> {
        let tenant = of_caller(&self.context, rpc, caller, "tenant", tenant)?;
        let name = ValuesName::new(name).map_err(|error| fault::field("name", error))?;
        Ok(ValuesId { tenant, kind, name })
    }

    async fn apply(&self, caller: &Caller, event: Event) -> Result<(Arc<Values>, u64), Status> {
        let applied = self.context.apply(caller, event).await?;
        match applied.reply {
            Reply::Values(values) => Ok((values, applied.version)),
            _ => Err(crate::context::unexpected()),
        }
    }

    async fn get<T: ValuesDocument>(&self, caller: &Caller, id: ValuesId) -> Result<T, RpcError> {
        let found = self.context.handle.store().get(keys::values(&id)).await;
        let kv = found.map_err(|error| fault::store(&error))?.ok_or_else(|| {
            let error = CoreError::from(ValuesError::NotFound { id, nearest: None });
            RpcError::new(ErrorClass::NotFound, error.code(), error.to_string())
        })?;
        read(&kv, sees_keys(caller))
    }

    async fn list<T: ValuesDocument>(
        &self,
        (rpc, kind): (Rpc, ValuesKind),
        caller: &Caller,
        tenant: &str,
        (size, token): (u32, &str),
    ) -> Result<page::Listed<T>, RpcError> {
        let scope = caller.scope("tenant", tenant);
        let tenant = scope.map_err(|error| self.context.guard.note(rpc, caller, error))?;
        let prefix = keys::values_of(kind, tenant.as_ref());
        let asked = page::Asked { rpc, prefix, size, token, filter: Vec::new() };
        let names = sees_keys(caller);
        page::list(&self.context, caller, asked, |kv| read(kv, names).map(Some)).await
    }
}

/// The four calls of one kind.
macro_rules! service {
    (
        $service:ident, $kind:ident: $field:ident, $items:ident,
        $apply:ident($apply_request:ident),
        $get:ident = $get_rpc:ident($get_request:ident),
        $list:ident = $list_rpc:ident($list_request:ident) -> $list_response:ident,
        $delete:ident = $delete_rpc:ident($delete_request:ident) -> $delete_response:ident
    ) => {
        #[tonic::async_trait]
        impl $service for SecretsAndConfigs {
            async fn $apply(
                &self,
                request: Request<v1::$apply_request>,
            ) -> Result<Response<v1::$kind>, Status> {
                let caller = Caller::of(request.extensions())?;
                let wire = request.into_inner();
                let document = wire.$field.ok_or_else(|| fault::field(stringify!($field), "is required"))?;
                let event = to_apply(&self.context, &caller, document, wire.dry_run)?;
                let (values, version) = self.apply(&caller, event).await?;
                Ok(Response::new(visible(v1::$kind::from(values.as_ref()), version, true)))
            }

            async fn $get(&self, request: Request<v1::$get_request>) -> Result<Response<v1::$kind>, Status> {
                let caller = Caller::of(request.extensions())?;
                let wire = request.into_inner();
                let of = (Rpc::$get_rpc, ValuesKind::$kind);
                let id = self.id(of, &caller, &wire.tenant, &wire.name)?;
                Ok(Response::new(self.get(&caller, id).await?))
            }

            async fn $list(
                &self,
                request: Request<v1::$list_request>,
            ) -> Result<Response<v1::$list_response>, Status> {
                let caller = Caller::of(request.extensions())?;
                let wire = request.into_inner();
                let of = (Rpc::$list_rpc, ValuesKind::$kind);
                let page = (wire.page_size, wire.page_token.as_str());
                let page = self.list(of, &caller, &wire.tenant, page).await?;
                let (next_page_token, revision) = (page.next, page.revision);
                Ok(Response::new(v1::$list_response { $items: page.items, next_page_token, revision }))
            }

            async fn $delete(
                &self,
                request: Request<v1::$delete_request>,
            ) -> Result<Response<v1::$delete_response>, Status> {
                let caller = Caller::of(request.extensions())?;
                let wire = request.into_inner();
                let of = (Rpc::$delete_rpc, ValuesKind::$kind);
                let id = self.id(of, &caller, &wire.tenant, &wire.name)?;
                self.context.apply(&caller, Event::DeleteValues(id)).await?;
                Ok(Response::new(v1::$delete_response {}))
            }
        }
    };
}

service!(
    SecretService, Secret: secret, secrets,
    apply_secret(ApplySecretRequest),
    get_secret = GetSecret(GetSecretRequest),
    list_secrets = ListSecrets(ListSecretsRequest) -> ListSecretsResponse,
    delete_secret = DeleteSecret(DeleteSecretRequest) -> DeleteSecretResponse
);
service!(
    ConfigService, Config: config, configs,
    apply_config(ApplyConfigRequest),
    get_config = GetConfig(GetConfigRequest),
    list_configs = ListConfigs(ListConfigsRequest) -> ListConfigsResponse,
    delete_config = DeleteConfig(DeleteConfigRequest) -> DeleteConfigResponse
);
