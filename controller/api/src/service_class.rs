//! ServiceClassService: what jobs of one kind may ask for, and what their users may have at once.

use controller_core::{CoreError, Event, Reply, State};
use controller_leader::{codec, keys};
use controller_store::KeyValue;
use proto_model::{ServiceClass, ServiceClassName, TenantName};
use proto_rpc::{ErrorClass, RpcError};
use proto_wire::v1::{self, service_class_service_server::ServiceClassService};
use tonic::{Request, Response, Status};

use crate::{authz::Rpc, context::Context, fault, guard::Caller, page};

/// The handlers of `ServiceClassService`.
#[derive(Clone)]
pub struct ServiceClasses {
    context: Context,
}

impl ServiceClasses {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    /// Adds what is used; people of a tenant see what is theirs.
    async fn complete(
        &self,
        mut classes: Vec<v1::ServiceClass>,
        only: Option<TenantName>,
    ) -> Result<Vec<v1::ServiceClass>, RpcError> {
        let fill = move |state: &State, _| {
            classes.iter_mut().for_each(|class| add_usage(state, class, only.as_ref()));
            classes
        };
        self.context.query(fill).await
    }

    async fn one(
        &self,
        class: v1::ServiceClass,
        only: Option<TenantName>,
    ) -> Result<Response<v1::ServiceClass>, Status> {
        let mut classes = self.complete(vec![class], only).await?;
        Ok(Response::new(classes.pop().ok_or_else(crate::context::unexpected)?))
    }
}

fn add_usage(state: &State, class: &mut v1::ServiceClass, only: Option<&TenantName>) {
    let name = class.metadata.as_ref().and_then(|metadata| ServiceClassName::new(&metadata.name).ok());
    let used = name.map(|name| state.class_use(&name, only)).unwrap_or_default();
    class.status = Some(v1::ServiceClassStatus {
        jobs_waiting: used.waiting,
        jobs_running: used.running,
        gpus_used: u32::try_from(used.gpus).unwrap_or(u32::MAX),
    });
}

/// A stored one, if the caller may see it: a tenant's people see those that may be for them, and of the members their own.
fn shown(kv: &KeyValue, only: Option<&TenantName>) -> Result<Option<v1::ServiceClass>, RpcError> {
    let mut class: ServiceClass = codec::service_class(kv).map_err(|error| fault::refused(&error.into()))?;
    if let Some(tenant) = only {
        if !class.members.concern(tenant) {
            return Ok(None);
        }
        class.members.tenants.retain(|name| name == tenant);
        class.members.queues.retain(|(name, _)| name == tenant);
        class.members.users.retain(|(name, _)| name == tenant);
    }
    let mut wire = v1::ServiceClass::from(&class);
    wire.metadata.get_or_insert_default().resource_version = kv.mod_revision;
    Ok(Some(wire))
}

/// The event that applies a document.
pub(crate) fn to_apply(document: v1::ServiceClass, dry_run: bool) -> Result<Event, RpcError> {
    let class = ServiceClass::try_from(document).map_err(|errors| fault::fields(errors, ""))?;
    Ok(Event::ApplyServiceClass { class: Box::new(class), dry_run })
}

fn name(text: &str) -> Result<ServiceClassName, RpcError> {
    ServiceClassName::new(text).map_err(|error| fault::field("name", error))
}

#[tonic::async_trait]
impl ServiceClassService for ServiceClasses {
    async fn apply_service_class(
        &self,
        request: Request<v1::ApplyServiceClassRequest>,
    ) -> Result<Response<v1::ServiceClass>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let document = wire.service_class.ok_or_else(|| fault::field("serviceClass", "is required"))?;
        let event = to_apply(document, wire.dry_run)?;
        let applied = self.context.apply(&caller, event).await?;
        let Reply::ServiceClass(class) = applied.reply else { return Err(crate::context::unexpected()) };
        let mut wire = v1::ServiceClass::from(class.as_ref());
        wire.metadata.get_or_insert_default().resource_version = applied.version;
        self.one(wire, None).await
    }

    async fn get_service_class(
        &self,
        request: Request<v1::GetServiceClassRequest>,
    ) -> Result<Response<v1::ServiceClass>, Status> {
        let only = Caller::of(request.extensions())?.own_tenant()?;
        let class = name(&request.into_inner().name)?;
        let found = self.context.handle.store().get(keys::service_class(&class)).await;
        let kv = found.map_err(|error| fault::store(&error))?;
        let shown = kv.map(|kv| shown(&kv, only.as_ref())).transpose()?.flatten();
        let shown = shown.ok_or_else(|| {
            let error = CoreError::ClassNotFound { class, nearest: None };
            RpcError::new(ErrorClass::NotFound, error.code(), error.to_string())
        })?;
        self.one(shown, only).await
    }

    async fn list_service_classes(
        &self,
        request: Request<v1::ListServiceClassesRequest>,
    ) -> Result<Response<v1::ListServiceClassesResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let only = caller.own_tenant()?;
        let wire = request.into_inner();
        let asked = page::Asked {
            rpc: Rpc::ListServiceClasses,
            prefix: keys::SERVICE_CLASSES.into(),
            size: wire.page_size,
            token: &wire.page_token,
            filter: Vec::new(),
        };
        let page = page::list(&self.context, &caller, asked, |kv| shown(kv, only.as_ref())).await?;
        let service_classes = self.complete(page.items, only).await?;
        let (next_page_token, revision) = (page.next, page.revision);
        Ok(Response::new(v1::ListServiceClassesResponse { service_classes, next_page_token, revision }))
    }

    async fn delete_service_class(
        &self,
        request: Request<v1::DeleteServiceClassRequest>,
    ) -> Result<Response<v1::DeleteServiceClassResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let name = name(&request.into_inner().name)?;
        let event = Event::DeleteServiceClass { name };
        self.context.apply(&caller, event).await?;
        Ok(Response::new(v1::DeleteServiceClassResponse {}))
    }
}
