//! QueueService: how a tenant shares what it has.

use controller_core::{Event, OrderRow, Reply, Share, State};
use controller_leader::{codec, keys};
use controller_store::KeyValue;
use proto_model::{Queue, QueueName, TenantName};
use proto_rpc::{ErrorClass, RpcError};
use proto_wire::{
    convert::{duration_to_wire, time_to_wire},
    v1::{self, queue_service_server::QueueService},
};
use tonic::{Request, Response, Status};

use crate::{authz::Rpc, context::Context, fault, guard::Caller, page};

/// The handlers of `QueueService`.
#[derive(Clone)]
pub struct Queues {
    context: Context,
}

impl Queues {
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
    ) -> Result<(TenantName, QueueName), RpcError> {
        let tenant =
            caller.tenant("tenant", tenant).map_err(|error| self.context.guard.note(rpc, caller, error))?;
        let name = QueueName::new(name).map_err(|error| fault::field("name", error))?;
        Ok((tenant, name))
    }

    /// Adds to each queue what its jobs use.
    async fn complete(&self, mut queues: Vec<v1::Queue>) -> Result<Vec<v1::Queue>, RpcError> {
        let fill = move |state: &State, _| {
            queues.iter_mut().for_each(|queue| add_usage(state, queue));
            queues
        };
        self.context.query(fill).await
    }

    async fn one(&self, queue: v1::Queue) -> Result<Response<v1::Queue>, Status> {
        let mut queues = self.complete(vec![queue]).await?;
        Ok(Response::new(queues.pop().ok_or_else(crate::context::unexpected)?))
    }
}

fn add_usage(state: &State, queue: &mut v1::Queue) {
    let metadata = queue.metadata.clone().unwrap_or_default();
    let names = TenantName::new(metadata.tenant).ok().zip(QueueName::new(metadata.name).ok());
    let usage = names.map(|(tenant, name)| state.queue_usage(&tenant, &name)).unwrap_or_default();
    let gpus_used = u32::try_from(usage.gpus_used).unwrap_or(u32::MAX);
    queue.status = Some(v1::QueueStatus { gpus_used, jobs_active: usage.jobs_active });
}

fn shown(kv: &KeyValue) -> Result<v1::Queue, RpcError> {
    let mut queue = v1::Queue::from(&codec::queue(kv).map_err(|error| fault::refused(&error.into()))?);
    queue.metadata.get_or_insert_default().resource_version = kv.mod_revision;
    Ok(queue)
}

/// The event that applies a document.
pub(crate) fn to_apply(
    context: &Context,
    caller: &Caller,
    mut document: v1::Queue,
    dry_run: bool,
) -> Result<Event, RpcError> {
    // The tenant is the caller's; an administrator may name one.
    let metadata = document.metadata.get_or_insert_default();
    let tenant = caller.tenant("metadata.tenant", &metadata.tenant);
    let tenant = tenant.map_err(|error| context.guard.note(Rpc::ApplyQueue, caller, error))?;
    metadata.tenant = tenant.to_string();
    let queue = Queue::try_from(document).map_err(|errors| fault::fields(errors, ""))?;
    Ok(Event::ApplyQueue { queue: Box::new(queue), dry_run })
}

/// Jobs of one answer at most.
const MAX_ORDER: u32 = 1000;
/// Use is shown in GPU-hours.
const HOUR: f64 = 3600.0;

fn standing(row: &OrderRow) -> v1::QueueStanding {
    let (id, spec, standing) = (&row.job.id, &row.job.spec, &row.standing);
    v1::QueueStanding {
        position: u32::try_from(row.position).unwrap_or(u32::MAX),
        tenant: id.tenant.to_string(),
        job: id.name.to_string(),
        queue: spec.queue.as_ref().map(ToString::to_string).unwrap_or_default(),
        service_class: spec.service_class.as_ref().map(ToString::to_string).unwrap_or_default(),
        entitled: standing.entitled,
        priority: standing.priority,
        tenant_share: standing.tenant_share / HOUR,
        below_guarantee: standing.below_guarantee,
        queue_share: standing.queue_share / HOUR,
        submit_time: Some(time_to_wire(standing.submitted)),
        head_start: Some(duration_to_wire(standing.head_start)),
        held: row.held,
    }
}

fn share(share: &Share) -> v1::Share {
    v1::Share {
        tenant: share.tenant.to_string(),
        queue: share.queue.as_ref().map(ToString::to_string).unwrap_or_default(),
        weight: share.weight,
        used_gpu_hours: share.used / HOUR,
        normalized: share.used / HOUR / f64::from(share.weight.max(1)),
        gpus_held: share.held,
        gpus_guaranteed: share.guaranteed,
        jobs_waiting: share.waiting,
        jobs_running: share.running,
    }
}

#[tonic::async_trait]
impl QueueService for Queues {
    async fn apply_queue(
        &self,
        request: Request<v1::ApplyQueueRequest>,
    ) -> Result<Response<v1::Queue>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let document = wire.queue.ok_or_else(|| fault::field("queue", "is required"))?;
        let event = to_apply(&self.context, &caller, document, wire.dry_run)?;
        let applied = self.context.apply(&caller, event).await?;
        let Reply::Queue(queue) = applied.reply else { return Err(crate::context::unexpected()) };
        let mut wire = v1::Queue::from(queue.as_ref());
        wire.metadata.get_or_insert_default().resource_version = applied.version;
        self.one(wire).await
    }

    async fn get_queue(&self, request: Request<v1::GetQueueRequest>) -> Result<Response<v1::Queue>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let (tenant, name) = self.key(Rpc::GetQueue, &caller, &wire.tenant, &wire.name)?;
        let found = self.context.handle.store().get(keys::queue(&tenant, &name)).await;
        let kv = found.map_err(|error| fault::store(&error))?.ok_or_else(|| {
            let error = controller_core::CoreError::QueueNotFound { tenant, queue: name, nearest: None };
            RpcError::new(ErrorClass::NotFound, error.code(), error.to_string())
        })?;
        self.one(shown(&kv)?).await
    }

    async fn list_queues(
        &self,
        request: Request<v1::ListQueuesRequest>,
    ) -> Result<Response<v1::ListQueuesResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let scope = caller.scope("tenant", &wire.tenant);
        let tenant = scope.map_err(|error| self.context.guard.note(Rpc::ListQueues, &caller, error))?;
        let asked = page::Asked {
            rpc: Rpc::ListQueues,
            prefix: keys::queues_of(tenant.as_ref()),
            size: wire.page_size,
            token: &wire.page_token,
            filter: Vec::new(),
        };
        let page = page::list(&self.context, &caller, asked, |kv| shown(kv).map(Some)).await?;
        let queues = self.complete(page.items).await?;
        let (next_page_token, revision) = (page.next, page.revision);
        Ok(Response::new(v1::ListQueuesResponse { queues, next_page_token, revision }))
    }

    async fn get_queue_order(
        &self,
        request: Request<v1::GetQueueOrderRequest>,
    ) -> Result<Response<v1::QueueOrder>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let scope = caller.scope("tenant", &wire.tenant);
        let only = scope.map_err(|error| self.context.guard.note(Rpc::GetQueueOrder, &caller, error))?;
        let most = match wire.limit {
            0 => 100,
            limit @ 1..=MAX_ORDER => limit as usize,
            limit => {
                return Err(fault::field("limit", format!("{limit} is more than {MAX_ORDER}")).into());
            }
        };
        let order = self.context.query(move |state, now| state.queue_order(only.as_ref(), most, now)).await?;
        Ok(Response::new(v1::QueueOrder {
            standings: order.rows.iter().map(standing).collect(),
            waiting: u32::try_from(order.waiting).unwrap_or(u32::MAX),
            fair_share: order.fair_share,
        }))
    }

    async fn list_shares(
        &self,
        request: Request<v1::ListSharesRequest>,
    ) -> Result<Response<v1::ListSharesResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let scope = caller.scope("tenant", &wire.tenant);
        let only = scope.map_err(|error| self.context.guard.note(Rpc::ListShares, &caller, error))?;
        let (shares, half_life) =
            self.context.query(move |state, now| state.shares(only.as_ref(), now)).await?;
        Ok(Response::new(v1::ListSharesResponse {
            shares: shares.iter().map(share).collect(),
            half_life: Some(duration_to_wire(half_life)),
        }))
    }

    async fn delete_queue(
        &self,
        request: Request<v1::DeleteQueueRequest>,
    ) -> Result<Response<v1::DeleteQueueResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let (tenant, name) = self.key(Rpc::DeleteQueue, &caller, &wire.tenant, &wire.name)?;
        let event = Event::DeleteQueue { tenant, name };
        self.context.apply(&caller, event).await?;
        Ok(Response::new(v1::DeleteQueueResponse {}))
    }
}
