//! ScheduleService: jobs that start by the clock.

use controller_core::{CoreError, Event, Reply, State};
use controller_leader::{codec, keys};
use controller_store::KeyValue;
use proto_model::{JobSchedule, ScheduleName, TenantName, Timestamp};
use proto_rpc::{ErrorClass, RpcError};
use proto_wire::{
    convert::time_to_wire,
    v1::{self, schedule_service_server::ScheduleService},
};
use tonic::{Request, Response, Status};

use crate::{authz::Rpc, changes, context::Context, fault, guard::Caller, page, reader::Reader};

/// The handlers of `ScheduleService`.
#[derive(Clone)]
pub struct Schedules {
    context: Context,
}

impl Schedules {
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
    ) -> Result<(TenantName, ScheduleName), RpcError> {
        let tenant =
            caller.tenant("tenant", tenant).map_err(|error| self.context.guard.note(rpc, caller, error))?;
        let name = ScheduleName::new(name).map_err(|error| fault::field("name", error))?;
        Ok((tenant, name))
    }

    /// Adds when they are due and which of their jobs are under way.
    async fn complete(&self, mut schedules: Vec<v1::Schedule>) -> Result<Vec<v1::Schedule>, RpcError> {
        let fill = move |state: &State, now| {
            schedules.iter_mut().for_each(|schedule| add_view(state, schedule, now));
            schedules
        };
        self.context.query(fill).await
    }

    async fn one(
        &self,
        mut schedule: v1::Schedule,
        caller: &Caller,
    ) -> Result<Response<v1::Schedule>, Status> {
        Reader::of(caller)?.report_schedule(&mut schedule);
        let mut schedules = self.complete(vec![schedule]).await?;
        Ok(Response::new(schedules.pop().ok_or_else(crate::context::unexpected)?))
    }
}

fn add_view(state: &State, schedule: &mut v1::Schedule, now: Timestamp) {
    let metadata = schedule.metadata.clone().unwrap_or_default();
    let names = TenantName::new(metadata.tenant).ok().zip(ScheduleName::new(metadata.name).ok());
    let view = names.map(|(tenant, name)| state.schedule_view(&tenant, &name, now)).unwrap_or_default();
    let status = schedule.status.get_or_insert_default();
    // One that is only checked is not there yet.
    status.next_run = view.next.map(time_to_wire).or(status.next_run);
    status.active = view.active.iter().map(ToString::to_string).collect();
}

/// In the words of its reader.
fn shown(kv: &KeyValue, reader: &Reader) -> Result<v1::Schedule, RpcError> {
    let schedule = codec::schedule(kv).map_err(|error| fault::refused(&error.into()))?;
    let mut schedule = v1::Schedule::from(&schedule);
    schedule.metadata.get_or_insert_default().resource_version = kv.mod_revision;
    reader.report_schedule(&mut schedule);
    Ok(schedule)
}

/// The event that applies a document.
pub(crate) fn to_apply(
    context: &Context,
    caller: &Caller,
    mut document: v1::Schedule,
    dry_run: bool,
) -> Result<Event, RpcError> {
    // The tenant is the caller's; an administrator may name one.
    let metadata = document.metadata.get_or_insert_default();
    let tenant = caller.tenant("metadata.tenant", &metadata.tenant);
    let tenant = tenant.map_err(|error| context.guard.note(Rpc::ApplySchedule, caller, error))?;
    metadata.tenant = tenant.to_string();
    // How far it has come, and whose it is, nobody but the controller says.
    document.status = None;
    let schedule = JobSchedule::try_from(document).map_err(|errors| fault::fields(errors, ""))?;
    Ok(Event::ApplySchedule { schedule: Box::new(schedule), by: changes::authority(caller)?, dry_run })
}

#[tonic::async_trait]
impl ScheduleService for Schedules {
    async fn apply_schedule(
        &self,
        request: Request<v1::ApplyScheduleRequest>,
    ) -> Result<Response<v1::Schedule>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let document = wire.schedule.ok_or_else(|| fault::field("schedule", "is required"))?;
        let event = to_apply(&self.context, &caller, document, wire.dry_run)?;
        let applied = self.context.apply(&caller, event).await?;
        let Reply::JobSchedule(schedule) = applied.reply else { return Err(crate::context::unexpected()) };
        let mut wire = v1::Schedule::from(schedule.as_ref());
        wire.metadata.get_or_insert_default().resource_version = applied.version;
        let next = schedule.next_after(self.context.handle.now());
        wire.status.get_or_insert_default().next_run = next.map(time_to_wire);
        self.one(wire, &caller).await
    }

    async fn get_schedule(
        &self,
        request: Request<v1::GetScheduleRequest>,
    ) -> Result<Response<v1::Schedule>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let (tenant, name) = self.key(Rpc::GetSchedule, &caller, &wire.tenant, &wire.name)?;
        let found = self.context.handle.store().get(keys::schedule(&tenant, &name)).await;
        let kv = found.map_err(|error| fault::store(&error))?.ok_or_else(|| {
            let error = CoreError::ScheduleNotFound { tenant, schedule: name, nearest: None };
            RpcError::new(ErrorClass::NotFound, error.code(), error.to_string())
        })?;
        self.one(shown(&kv, &Reader::of(&caller)?)?, &caller).await
    }

    async fn list_schedules(
        &self,
        request: Request<v1::ListSchedulesRequest>,
    ) -> Result<Response<v1::ListSchedulesResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let scope = caller.scope("tenant", &wire.tenant);
        let tenant = scope.map_err(|error| self.context.guard.note(Rpc::ListSchedules, &caller, error))?;
        let asked = page::Asked {
            rpc: Rpc::ListSchedules,
            prefix: keys::schedules_of(tenant.as_ref()),
            size: wire.page_size,
            token: &wire.page_token,
            filter: Vec::new(),
        };
        let reader = Reader::of(&caller)?;
        let page = page::list(&self.context, &caller, asked, |kv| shown(kv, &reader).map(Some)).await?;
        let schedules = self.complete(page.items).await?;
        let (next_page_token, revision) = (page.next, page.revision);
        Ok(Response::new(v1::ListSchedulesResponse { schedules, next_page_token, revision }))
    }

    async fn delete_schedule(
        &self,
        request: Request<v1::DeleteScheduleRequest>,
    ) -> Result<Response<v1::DeleteScheduleResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let (tenant, name) = self.key(Rpc::DeleteSchedule, &caller, &wire.tenant, &wire.name)?;
        let event = Event::DeleteSchedule { tenant, name, by: Some(changes::authority(&caller)?) };
        self.context.apply(&caller, event).await?;
        Ok(Response::new(v1::DeleteScheduleResponse {}))
    }
}
