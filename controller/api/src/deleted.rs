//! DeletedService: tenants and fabrics that were deleted, and how they come back.

use controller_core::{DeletedContent, DeletedKey, Event, Reply, Tombstone};
use proto_model::TenantName;
use proto_rpc::RpcError;
use proto_wire::{
    convert::time_to_wire,
    v1::{self, deleted_service_server::DeletedService},
};
use tonic::{Request, Response, Status};

use crate::{context::Context, fault, guard::Caller, views};

/// Longest name of a fabric that is looked for, in bytes.
const MAX_NAME: usize = 256;

/// The handlers of `DeletedService`.
#[derive(Clone)]
pub struct Undeletes {
    context: Context,
}

impl Undeletes {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }
}

fn reported(one: &Tombstone, kept_for: std::time::Duration) -> v1::Deleted {
    let (kind, name) = match &one.key {
        DeletedKey::Fabric(name) => ("fabric", name.clone()),
        DeletedKey::Tenant(name) => ("tenant", name.to_string()),
    };
    let mut wire = v1::Deleted {
        kind: kind.to_owned(),
        name,
        delete_time: Some(time_to_wire(one.deleted)),
        expire_time: Some(time_to_wire(one.deleted.plus(kept_for))),
        deleted_by: one.by.clone(),
        ..Default::default()
    };
    match &one.content {
        DeletedContent::Fabric(fabric) => wire.nodes = views::cabled(fabric),
        DeletedContent::Tenant(kept) => {
            wire.queues = views::number(kept.queues.len());
            wire.schedules = views::number(kept.schedules.len());
            wire.webhooks = views::number(kept.webhooks.len());
            wire.reservations = views::number(kept.reservations.len());
            wire.service_classes = views::number(kept.classes.len());
            wire.left_out = kept.left_out;
        }
    }
    wire
}

fn meant(kind: &str, name: String) -> Result<DeletedKey, RpcError> {
    match kind {
        "tenant" => {
            let name = TenantName::new(name).map_err(|error| fault::field("name", error))?;
            Ok(DeletedKey::Tenant(name))
        }
        "fabric" if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) => {
            Err(fault::field("name", format!("must be a fabric's name of 1 to {MAX_NAME} printable bytes")))
        }
        "fabric" => Ok(DeletedKey::Fabric(name)),
        _ => Err(fault::field("kind", "must be tenant or fabric")),
    }
}

#[tonic::async_trait]
impl DeletedService for Undeletes {
    async fn list_deleted(
        &self,
        _: Request<v1::ListDeletedRequest>,
    ) -> Result<Response<v1::ListDeletedResponse>, Status> {
        let check = |state: &controller_core::State, now| {
            let kept_for = state.config().undelete_for;
            let lasts = |one: &&std::sync::Arc<Tombstone>| one.deleted.plus(kept_for) > now;
            state.deleted().iter().filter(lasts).map(|one| reported(one, kept_for)).collect()
        };
        let deleted = self.context.query(check).await?;
        Ok(Response::new(v1::ListDeletedResponse { deleted }))
    }

    async fn undelete(
        &self,
        request: Request<v1::UndeleteRequest>,
    ) -> Result<Response<v1::UndeleteResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let event = Event::Undelete { key: meant(&wire.kind, wire.name)?, dry_run: wire.dry_run };
        let Reply::Undeleted(restored) = self.context.apply(&caller, event).await?.reply else {
            return Err(crate::context::unexpected());
        };
        let kept_for = self.context.query(|state, _| state.config().undelete_for).await?;
        let (restored, notes) = (reported(&restored.tombstone, kept_for), restored.notes);
        Ok(Response::new(v1::UndeleteResponse { restored: Some(restored), notes }))
    }
}
