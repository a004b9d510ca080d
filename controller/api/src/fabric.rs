//! FabricService: the network as it should be, and as the scheduler sees it.

use controller_core::{CoreError, Event, Reply};
use proto_model::Fabric;
use proto_rpc::{ErrorClass, RpcError};
use proto_wire::v1::{self, fabric_service_server::FabricService};
use tonic::{Request, Response, Status};

use crate::{context::Context, fault, guard::Caller, views};

/// The handlers of `FabricService`.
#[derive(Clone)]
pub struct Fabrics {
    context: Context,
}

impl Fabrics {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }
}

/// The event that applies a document.
pub(crate) fn to_apply(document: v1::Fabric, allow_shrink: bool, dry_run: bool) -> Result<Event, RpcError> {
    let fabric = Fabric::try_from(document).map_err(|errors| fault::fields(errors, ""))?;
    Ok(Event::ApplyFabric { fabric: Box::new(fabric), allow_shrink, dry_run })
}

#[tonic::async_trait]
impl FabricService for Fabrics {
    async fn apply_fabric(
        &self,
        request: Request<v1::ApplyFabricRequest>,
    ) -> Result<Response<v1::Fabric>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let document = wire.fabric.ok_or_else(|| fault::field("fabric", "is required"))?;
        let event = to_apply(document, wire.allow_shrink, wire.dry_run)?;
        let applied = self.context.apply(&caller, event).await?;
        match applied.reply {
            Reply::Fabric { fabric, findings } => {
                let nodes = views::cabled(&fabric);
                Ok(Response::new(views::fabric(&fabric, &findings, nodes, applied.version)))
            }
            _ => Err(crate::context::unexpected()),
        }
    }

    async fn get_fabric(&self, _: Request<v1::GetFabricRequest>) -> Result<Response<v1::Fabric>, Status> {
        let found = self.context.query(|state, _| views::present_fabric(state)).await?;
        let missing = || {
            let error = CoreError::FabricNotFound;
            RpcError::new(ErrorClass::NotFound, error.code(), error.to_string())
        };
        Ok(Response::new(found.ok_or_else(missing)?))
    }

    async fn delete_fabric(
        &self,
        request: Request<v1::DeleteFabricRequest>,
    ) -> Result<Response<v1::DeleteFabricResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        if wire.name.is_empty() {
            return Err(fault::field("name", "is required: what the fabric is called").into());
        }
        let (name, if_version, dry_run) = (wire.name, wire.resource_version, wire.dry_run);
        let event = Event::DeleteFabric { name, if_version, dry_run };
        match self.context.apply(&caller, event).await?.reply {
            Reply::FabricDeleted(impact) => Ok(Response::new(v1::DeleteFabricResponse {
                nodes: views::number(impact.servers),
                jobs: views::number(impact.jobs.len()),
                tenants: impact.tenants().into_iter().map(ToString::to_string).collect(),
            })),
            _ => Err(crate::context::unexpected()),
        }
    }

    async fn get_topology(
        &self,
        _: Request<v1::GetTopologyRequest>,
    ) -> Result<Response<v1::Topology>, Status> {
        Ok(Response::new(self.context.query(|state, _| views::topology(state)).await?))
    }
}
