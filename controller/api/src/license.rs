//! LicenseService: what the cluster has a number of beside its servers.

use controller_core::{CoreError, Event, Reply, State};
use controller_leader::{codec, keys};
use controller_store::KeyValue;
use proto_model::{License, LicenseName};
use proto_rpc::{ErrorClass, RpcError};
use proto_wire::v1::{self, license_service_server::LicenseService};
use tonic::{Request, Response, Status};

use crate::{authz::Rpc, context::Context, fault, guard::Caller, page};

/// The handlers of `LicenseService`.
#[derive(Clone)]
pub struct Licenses {
    context: Context,
}

impl Licenses {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    /// Adds what is used, by whomever: sums tell of nobody.
    async fn complete(&self, mut licenses: Vec<v1::License>) -> Result<Vec<v1::License>, RpcError> {
        let fill = move |state: &State, _| {
            licenses.iter_mut().for_each(|license| add_use(state, license));
            licenses
        };
        self.context.query(fill).await
    }

    async fn one(&self, license: v1::License) -> Result<Response<v1::License>, Status> {
        let mut licenses = self.complete(vec![license]).await?;
        Ok(Response::new(licenses.pop().ok_or_else(crate::context::unexpected)?))
    }
}

fn add_use(state: &State, license: &mut v1::License) {
    let name = license.metadata.as_ref().and_then(|metadata| LicenseName::new(&metadata.name).ok());
    let used = name.map(|name| state.license_use(&name)).unwrap_or_default();
    license.status =
        Some(v1::LicenseStatus { in_use: used.held, jobs_running: used.running, jobs_waiting: used.waiting });
}

fn reported(license: &License, version: u64) -> v1::License {
    let mut wire = v1::License::from(license);
    wire.metadata.get_or_insert_default().resource_version = version;
    wire
}

fn shown(kv: &KeyValue) -> Result<v1::License, RpcError> {
    let license = codec::license(kv).map_err(|error| fault::refused(&error.into()))?;
    Ok(reported(&license, kv.mod_revision))
}

/// The event that applies a document.
pub(crate) fn to_apply(document: v1::License, dry_run: bool) -> Result<Event, RpcError> {
    let license = License::try_from(document).map_err(|errors| fault::fields(errors, ""))?;
    Ok(Event::ApplyLicense(Box::new(license), dry_run))
}

fn name(text: &str) -> Result<LicenseName, RpcError> {
    LicenseName::new(text).map_err(|error| fault::field("name", error))
}

#[tonic::async_trait]
impl LicenseService for Licenses {
    async fn apply_license(
        &self,
        request: Request<v1::ApplyLicenseRequest>,
    ) -> Result<Response<v1::License>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let document = wire.license.ok_or_else(|| fault::field("license", "is required"))?;
        let event = to_apply(document, wire.dry_run)?;
        let applied = self.context.apply(&caller, event).await?;
        let Reply::License(license) = applied.reply else { return Err(crate::context::unexpected()) };
        self.one(reported(&license, applied.version)).await
    }

    async fn get_license(
        &self,
        request: Request<v1::GetLicenseRequest>,
    ) -> Result<Response<v1::License>, Status> {
        let license = name(&request.into_inner().name)?;
        let found = self.context.handle.store().get(keys::license(&license)).await;
        let kv = found.map_err(|error| fault::store(&error))?.ok_or_else(|| {
            let error = CoreError::LicenseNotFound { license, nearest: None };
            RpcError::new(ErrorClass::NotFound, error.code(), error.to_string())
        })?;
        self.one(shown(&kv)?).await
    }

    async fn list_licenses(
        &self,
        request: Request<v1::ListLicensesRequest>,
    ) -> Result<Response<v1::ListLicensesResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let asked = page::Asked {
            rpc: Rpc::ListLicenses,
            prefix: keys::LICENSES.into(),
            size: wire.page_size,
            token: &wire.page_token,
            filter: Vec::new(),
        };
        let page = page::list(&self.context, &caller, asked, |kv| shown(kv).map(Some)).await?;
        let licenses = self.complete(page.items).await?;
        let (next_page_token, revision) = (page.next, page.revision);
        Ok(Response::new(v1::ListLicensesResponse { licenses, next_page_token, revision }))
    }

    async fn delete_license(
        &self,
        request: Request<v1::DeleteLicenseRequest>,
    ) -> Result<Response<v1::DeleteLicenseResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let name = name(&request.into_inner().name)?;
        self.context.apply(&caller, Event::DeleteLicense(name)).await?;
        Ok(Response::new(v1::DeleteLicenseResponse {}))
    }
}
