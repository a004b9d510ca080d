//! ReservationService: servers that are kept for somebody, or for maintenance.

use controller_core::{CoreError, Event, Reply};
use controller_leader::{codec, keys};
use controller_store::KeyValue;
use proto_model::{Reservation, ReservationName, TenantName};
use proto_rpc::{ErrorClass, RpcError};
use proto_wire::{
    convert::reservation_phase,
    v1::{self, reservation_service_server::ReservationService},
};
use tonic::{Request, Response, Status};

use crate::{authz::Rpc, context::Context, fault, guard::Caller, page};

/// The handlers of `ReservationService`.
#[derive(Clone)]
pub struct Reservations {
    context: Context,
}

impl Reservations {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    /// As the API shows it, with how far it is.
    fn complete(&self, reservation: &Reservation, version: u64) -> v1::Reservation {
        let mut wire = v1::Reservation::from(reservation);
        wire.metadata.get_or_insert_default().resource_version = version;
        let phase = reservation_phase(reservation, self.context.handle.now());
        wire.status = Some(v1::ReservationStatus { phase: phase.into() });
        wire
    }

    /// A stored one, if the caller may see it: a tenant's people see maintenance and what is theirs.
    fn shown(&self, kv: &KeyValue, only: Option<&TenantName>) -> Result<Option<v1::Reservation>, RpcError> {
        let found = codec::reservation(kv).map_err(|error| fault::refused(&error.into()))?;
        let own = only.is_none_or(|tenant| found.maintenance || found.tenants.contains(tenant));
        if !own {
            return Ok(None);
        }
        let mut wire = self.complete(&found, kv.mod_revision);
        if let (Some(tenant), Some(spec)) = (only, wire.spec.as_mut()) {
            spec.tenants.retain(|name| name == tenant.as_str());
        }
        Ok(Some(wire))
    }
}

/// The event that applies a document.
pub(crate) fn to_apply(document: v1::Reservation, dry_run: bool) -> Result<Event, RpcError> {
    let reservation = Reservation::try_from(document).map_err(|errors| fault::fields(errors, ""))?;
    Ok(Event::ApplyReservation { reservation: Box::new(reservation), dry_run })
}

fn name(text: &str) -> Result<ReservationName, RpcError> {
    ReservationName::new(text).map_err(|error| fault::field("name", error))
}

#[tonic::async_trait]
impl ReservationService for Reservations {
    async fn apply_reservation(
        &self,
        request: Request<v1::ApplyReservationRequest>,
    ) -> Result<Response<v1::Reservation>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let document = wire.reservation.ok_or_else(|| fault::field("reservation", "is required"))?;
        let event = to_apply(document, wire.dry_run)?;
        let applied = self.context.apply(&caller, event).await?;
        let Reply::Reservation(reservation) = applied.reply else { return Err(crate::context::unexpected()) };
        Ok(Response::new(self.complete(&reservation, applied.version)))
    }

    async fn get_reservation(
        &self,
        request: Request<v1::GetReservationRequest>,
    ) -> Result<Response<v1::Reservation>, Status> {
        let only = Caller::of(request.extensions())?.own_tenant()?;
        let reservation = name(&request.into_inner().name)?;
        let found = self.context.handle.store().get(keys::reservation(&reservation)).await;
        let kv = found.map_err(|error| fault::store(&error))?;
        let shown = kv.map(|kv| self.shown(&kv, only.as_ref())).transpose()?.flatten();
        let shown = shown.ok_or_else(|| {
            let error = CoreError::ReservationNotFound { reservation, nearest: None };
            RpcError::new(ErrorClass::NotFound, error.code(), error.to_string())
        })?;
        Ok(Response::new(shown))
    }

    async fn list_reservations(
        &self,
        request: Request<v1::ListReservationsRequest>,
    ) -> Result<Response<v1::ListReservationsResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let only = caller.own_tenant()?;
        let wire = request.into_inner();
        let asked = page::Asked {
            rpc: Rpc::ListReservations,
            prefix: keys::RESERVATIONS.into(),
            size: wire.page_size,
            token: &wire.page_token,
            filter: Vec::new(),
        };
        let page = page::list(&self.context, &caller, asked, |kv| self.shown(kv, only.as_ref())).await?;
        let (reservations, next_page_token, revision) = (page.items, page.next, page.revision);
        Ok(Response::new(v1::ListReservationsResponse { reservations, next_page_token, revision }))
    }

    async fn delete_reservation(
        &self,
        request: Request<v1::DeleteReservationRequest>,
    ) -> Result<Response<v1::DeleteReservationResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let name = name(&request.into_inner().name)?;
        let event = Event::DeleteReservation { name };
        self.context.apply(&caller, event).await?;
        Ok(Response::new(v1::DeleteReservationResponse {}))
    }
}
