//! TenantService: tenants, their quotas, and the credentials of those who act for them.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use controller_core::{CoreError, Event, Reply};
use controller_leader::{IssuedToken, Refusal, codec, keys};
use controller_store::KeyValue;
use proto_model::{Tenant, TenantName};
use proto_rpc::{ErrorClass, Identity, Role, RpcError};
use proto_wire::{
    convert::{role_from_wire, role_to_wire, time_to_wire},
    v1::{self, tenant_service_server::TenantService},
};
use tonic::{Request, Response, Status};

use crate::{
    authz::Rpc,
    context::Context,
    credential::{self, LONGEST_LIFETIME},
    fault,
    guard::Caller,
    page, revocation, views,
};

/// How long a credential lives: by default, and at most.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// Tokens that are listed at most.
const TOKENS_MAX: usize = 10_000;

fn issued(token: IssuedToken) -> v1::IssuedToken {
    let role = token.identity.roles().iter().next().and_then(|role| role.as_str().parse().ok());
    let user = match &token.identity {
        Identity::User { user, .. } | Identity::Admin { user } => user.clone(),
        _ => String::new(),
    };
    v1::IssuedToken {
        id: token.id,
        tenant: token.identity.tenant().unwrap_or_default().to_owned(),
        user,
        role: role.map_or(v1::Role::Unspecified, role_to_wire).into(),
        issued_by: token.issued_by,
        issued: Some(time_to_wire(token.issued)),
        expires: Some(time_to_wire(token.expires)),
        revoked: token.revoked,
    }
}

/// The handlers of `TenantService`.
#[derive(Clone)]
pub struct Tenants {
    context: Context,
    cluster: String,
}

impl Tenants {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        let cluster = context.ca.cluster().to_owned();
        Self { context, cluster }
    }

    async fn complete(&self, mut tenants: Vec<v1::Tenant>) -> Result<Vec<v1::Tenant>, RpcError> {
        let fill = move |state: &controller_core::State, _| {
            tenants.iter_mut().for_each(|tenant| views::add_usage(state, tenant));
            tenants
        };
        self.context.query(fill).await
    }

    async fn stored(&self, name: &TenantName) -> Result<KeyValue, RpcError> {
        let found = self.context.handle.store().get(keys::tenant(name)).await;
        found.map_err(|error| fault::store(&error))?.ok_or_else(|| {
            let error = CoreError::TenantUnknown { tenant: name.clone(), nearest: None };
            RpcError::new(ErrorClass::NotFound, error.code(), error.to_string())
        })
    }

    /// Whom a new credential speaks for, if the caller may give it away.
    async fn grantee(
        &self,
        rpc: Rpc,
        caller: &Caller,
        tenant: &str,
        user: &str,
        role: i32,
    ) -> Result<Identity, RpcError> {
        let role = role_from_wire(role).map_err(|errors| fault::fields(errors, "role"))?;
        let role = role.as_str().parse::<Role>().map_err(|error| fault::field("role", error))?;
        let denied = |text: &str| {
            let error = RpcError::new(ErrorClass::Denied, "ROLE_NOT_GRANTABLE", text);
            self.context.guard.note(rpc, caller, error)
        };
        match role {
            Role::Node | Role::Switch => {
                Err(fault::field("role", "a node or a switch gets its certificate with a join token"))
            }
            Role::Admin if !caller.is_admin() => Err(denied("only an administrator makes administrators")),
            Role::Admin if tenant.is_empty() => Identity::admin(user).map_err(|e| fault::field("user", e)),
            Role::Admin => {
                Err(fault::field("tenant", "an administrator belongs to no tenant; leave it empty"))
            }
            Role::TenantAdmin | Role::User | Role::Viewer => {
                let scope =
                    caller.scope("tenant", tenant).map_err(|e| self.context.guard.note(rpc, caller, e))?;
                let tenant = scope.ok_or_else(|| fault::field("tenant", "is required for this role"))?;
                let uid = shown(&self.stored(&tenant).await?)?.metadata.unwrap_or_default().uid;
                let user = Identity::user(tenant.as_str(), user, [role]);
                let user = user.map_err(|error| fault::field("user", error))?;
                let nameless = |error| {
                    RpcError::new(ErrorClass::DataLoss, "NO_TENANT_UID", format!("the tenant's uid: {error}"))
                };
                user.of_tenant(&uid).map_err(nameless)
            }
        }
    }
}

fn shown(kv: &KeyValue) -> Result<v1::Tenant, RpcError> {
    let mut tenant = v1::Tenant::from(&codec::tenant(kv).map_err(|error| fault::refused(&error.into()))?);
    tenant.metadata.get_or_insert_default().resource_version = kv.mod_revision;
    Ok(tenant)
}

/// The event that applies a document.
pub(crate) fn to_apply(document: v1::Tenant, dry_run: bool) -> Result<Event, RpcError> {
    let tenant = Tenant::try_from(document).map_err(|errors| fault::fields(errors, ""))?;
    let Tenant { name, description, quota, isolation, .. } = tenant;
    Ok(Event::ApplyTenant { name, description, quota, isolation, dry_run })
}

fn lifetime(wire: Option<prost_types::Duration>) -> Result<Duration, RpcError> {
    let lifetime = credential::lifetime(wire)?.unwrap_or(LIFETIME);
    if lifetime > LONGEST_LIFETIME {
        return Err(fault::field("lifetime", "is longer than 30 days (2592000s)"));
    }
    Ok(lifetime)
}

#[tonic::async_trait]
impl TenantService for Tenants {
    async fn apply_tenant(
        &self,
        request: Request<v1::ApplyTenantRequest>,
    ) -> Result<Response<v1::Tenant>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let document = wire.tenant.ok_or_else(|| fault::field("tenant", "is required"))?;
        let event = to_apply(document, wire.dry_run)?;
        if let (true, false, Event::ApplyTenant { name, .. }) = (wire.reuse_name, wire.dry_run, &event) {
            let release = Event::ReleaseTenantName { name: name.clone() };
            let released = self.context.handle.apply(&caller.actor, release).await;
            released.map_err(|refusal| fault::refused(&refusal))?;
        }
        let applied = self
            .context
            .handle
            .apply(&caller.actor, event)
            .await
            .map_err(|refusal| fault::refused(&refusal))?;
        let Reply::Tenant(tenant) = applied.reply else { return Err(crate::context::unexpected()) };
        let mut wire = v1::Tenant::from(tenant.as_ref());
        wire.metadata.get_or_insert_default().resource_version = applied.version;
        let mut tenants = self.complete(vec![wire]).await?;
        Ok(Response::new(tenants.pop().ok_or_else(crate::context::unexpected)?))
    }

    async fn get_tenant(
        &self,
        request: Request<v1::GetTenantRequest>,
    ) -> Result<Response<v1::Tenant>, Status> {
        let caller = Caller::of(request.extensions())?;
        let asked = request.into_inner().name;
        let noted = |error| self.context.guard.note(Rpc::GetTenant, &caller, error);
        let name = caller.scope("name", &asked).map_err(noted)?;
        let name = name.ok_or_else(|| fault::field("name", "is required"))?;
        let mut tenants = self.complete(vec![shown(&self.stored(&name).await?)?]).await?;
        Ok(Response::new(tenants.pop().ok_or_else(crate::context::unexpected)?))
    }

    async fn list_tenants(
        &self,
        request: Request<v1::ListTenantsRequest>,
    ) -> Result<Response<v1::ListTenantsResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let store = self.context.handle.store();
        if let Some(own) = caller.scope("tenant", "")? {
            // Somebody of a tenant sees that tenant, and learns of no other.
            let kv = self.stored(&own).await?;
            let revision = store.status().await.map_err(|error| fault::store(&error))?.revision;
            let tenants = self.complete(vec![shown(&kv)?]).await?;
            return Ok(Response::new(v1::ListTenantsResponse {
                tenants,
                next_page_token: String::new(),
                revision,
            }));
        }
        let asked = page::Asked {
            rpc: Rpc::ListTenants,
            prefix: keys::TENANTS.into(),
            size: wire.page_size,
            token: &wire.page_token,
            filter: Vec::new(),
        };
        let page = page::list(&self.context, &caller, asked, |kv| shown(kv).map(Some)).await?;
        let tenants = self.complete(page.items).await?;
        let (next_page_token, revision) = (page.next, page.revision);
        Ok(Response::new(v1::ListTenantsResponse { tenants, next_page_token, revision }))
    }

    async fn delete_tenant(
        &self,
        request: Request<v1::DeleteTenantRequest>,
    ) -> Result<Response<v1::DeleteTenantResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let name = TenantName::new(wire.name).map_err(|error| fault::field("name", error))?;
        let (uid, dry_run) = ((!wire.uid.is_empty()).then_some(wire.uid), wire.dry_run);
        let event = Event::DeleteTenant { name: name.clone(), uid, dry_run };
        let deleted = self.context.handle.apply(&caller.actor, event).await;
        let gone = matches!(&deleted, Ok(_) | Err(Refusal::Core(CoreError::TenantUnknown { .. })));
        if gone && !dry_run {
            // Tokens of the tenant must not come to life again with a later tenant of the same name. Where that failed
            // once, the tenant is unknown already when the call is repeated.
            let dropped =
                self.context.handle.drop_tokens_of(&caller.actor, name.as_str(), &self.cluster).await;
            dropped.map_err(|error| fault::token(&error))?;
        }
        match deleted.map_err(|refusal| fault::refused(&refusal))?.reply {
            Reply::TenantDeleted(impact) => Ok(Response::new(v1::DeleteTenantResponse {
                jobs: views::number(impact.jobs),
                queues: views::number(impact.queues),
                schedules: views::number(impact.schedules),
                webhooks: views::number(impact.webhooks),
                reservations: views::number(impact.reservations),
                secrets: views::number(impact.secrets),
                configs: views::number(impact.configs),
            })),
            _ => Err(crate::context::unexpected()),
        }
    }

    async fn issue_certificate(
        &self,
        request: Request<v1::IssueCertificateRequest>,
    ) -> Result<Response<v1::IssueCertificateResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let rpc = Rpc::IssueCertificate;
        let identity = self.grantee(rpc, &caller, &wire.tenant, &wire.user, wire.role).await?;
        let lifetime = lifetime(wire.lifetime)?;
        let now = self.context.handle.revoked().get().issue_time(&identity, SystemTime::now());
        let issued = self.context.ca.issue(&wire.csr_pem, &identity, lifetime, now);
        let issued = issued.map_err(|error| fault::ca(&error))?;
        let name = format!("{identity}, serial {}", issued.serial);
        let tenant = identity.tenant().unwrap_or_default();
        let noted = self.context.handle.note(&caller.actor, "certificate", name, tenant).await;
        noted.map_err(|refusal| fault::refused(&refusal))?;
        tracing::info!(%identity, serial = issued.serial, by = %caller.identity, "certificate issued");
        Ok(Response::new(v1::IssueCertificateResponse {
            certificate_pem: issued.chain_pem,
            ca_pem: self.context.ca.certificate_pem(),
            expires: Some(issued.not_after.into()),
        }))
    }

    async fn issue_token(
        &self,
        request: Request<v1::IssueTokenRequest>,
    ) -> Result<Response<v1::IssueTokenResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let identity = self.grantee(Rpc::IssueToken, &caller, &wire.tenant, &wire.user, wire.role).await?;
        let expires = self.context.handle.now().plus(lifetime(wire.lifetime)?);
        let by = caller.identity.to_string();
        let issued = self.context.handle.issue_token(&caller.actor, &identity, &self.cluster, expires).await;
        let token = issued.map_err(|error| fault::token(&error))?;
        tracing::info!(%identity, token = token.id(), by, "token issued");
        Ok(Response::new(v1::IssueTokenResponse {
            token: token.reveal(),
            expires: Some(time_to_wire(expires)),
        }))
    }

    async fn revoke(&self, request: Request<v1::RevokeRequest>) -> Result<Response<v1::Revocation>, Status> {
        let caller = Caller::of(request.extensions())?;
        Ok(Response::new(revocation::revoke(&self.context, &caller, request.into_inner()).await?))
    }

    async fn list_revocations(
        &self,
        request: Request<v1::ListRevocationsRequest>,
    ) -> Result<Response<v1::ListRevocationsResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        Ok(Response::new(revocation::list(&self.context, &caller).await?))
    }

    async fn list_tokens(
        &self,
        request: Request<v1::ListTokensRequest>,
    ) -> Result<Response<v1::ListTokensResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let scope = caller.scope("tenant", &request.into_inner().tenant);
        let only = scope.map_err(|error| self.context.guard.note(Rpc::ListTokens, &caller, error))?;
        let all = self.context.handle.issued_tokens(&self.cluster).await;
        let all = all.map_err(|error| fault::token(&error))?;
        let of_tenant = |token: &IssuedToken| {
            only.as_ref().is_none_or(|tenant| token.identity.tenant() == Some(tenant.as_ref()))
        };
        let tokens = all.into_iter().filter(of_tenant).take(TOKENS_MAX).map(issued).collect();
        Ok(Response::new(v1::ListTokensResponse { tokens }))
    }

    async fn who_am_i(
        &self,
        request: Request<v1::WhoAmIRequest>,
    ) -> Result<Response<v1::WhoAmIResponse>, Status> {
        let identity = Caller::of(request.extensions())?.identity;
        let roles: BTreeSet<Role> = identity.roles();
        // Of several roles the widest is shown: roles are ordered so.
        let role = roles.iter().next().and_then(|role| role.as_str().parse::<proto_model::Role>().ok());
        let user = match &identity {
            Identity::User { user, .. } | Identity::Admin { user } => user.clone(),
            Identity::Node { name } | Identity::Switch { name } => name.clone(),
            Identity::Controller | Identity::Anonymous => String::new(),
        };
        Ok(Response::new(v1::WhoAmIResponse {
            identity: identity.to_uri(&self.cluster).unwrap_or_default(),
            tenant: identity.tenant().unwrap_or_default().to_owned(),
            user,
            role: role.map_or(v1::Role::Unspecified, role_to_wire).into(),
            ca_pem: self.context.ca.certificate_pem(),
            may_call: Rpc::ALL
                .iter()
                .filter(|rpc| rpc.admits(&roles))
                .map(|rpc| rpc.path().to_owned())
                .collect(),
        }))
    }
}
