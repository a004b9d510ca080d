//! RailService: the rails in use, and taking them out of use and back.

use controller_core::{Event, RailUse, RailView, RailsView, Reply};
use proto_model::{RailState, TenantName};
use proto_rpc::RpcError;
use proto_wire::v1::{self, rail_report::State, rail_service_server::RailService};
use tonic::{Request, Response, Status};

use crate::{context::Context, fault, guard::Caller};

/// Longest reason of an administrator's, in bytes.
const MAX_REASON: usize = 1024;
/// Longest name of a rail, a leaf or a port, in bytes.
const MAX_TARGET: usize = 512;

/// The handlers of `RailService`.
#[derive(Clone)]
pub struct Rails {
    context: Context,
}

impl Rails {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    async fn view(&self, target: String) -> Result<RailsView, RpcError> {
        let view = move |state: &controller_core::State| {
            let target = (!target.is_empty()).then(|| state.target(&target)).transpose()?;
            Ok(state.rails(target.as_ref()))
        };
        let view = self.context.query(move |state, _| view(state)).await?;
        view.map_err(|error: controller_core::CoreError| fault::refused(&error.into()))
    }
}

fn target(text: String, required: bool) -> Result<String, RpcError> {
    if text.is_empty() && required {
        return Err(fault::field("target", "is required: a rail, a leaf, or NODE:RAIL"));
    }
    printable("target", text, MAX_TARGET)
}

fn printable(field: &str, text: String, most: usize) -> Result<String, RpcError> {
    if text.len() > most || text.chars().any(char::is_control) {
        return Err(fault::field(field, format!("must be printable and at most {most} bytes long")));
    }
    Ok(text)
}

fn state(state: Option<RailState>) -> i32 {
    state.map_or(State::Unspecified, State::from).into()
}

/// Other tenants' jobs are counted, not named.
fn status(view: &RailView, only: Option<&TenantName>) -> v1::RailStatus {
    let own = view.jobs.iter().filter(|job| only.is_none_or(|tenant| *tenant == job.id.tenant));
    let job = |job: &controller_core::RailJob| v1::RailJob {
        tenant: job.id.tenant.to_string(),
        job: job.id.name.to_string(),
        job_uid: job.uid.to_string(),
        nodes: job.nodes,
    };
    let engines = view.engines.iter();
    v1::RailStatus {
        rail: view.rail,
        name: view.name.clone(),
        leaves: view.leaves.clone(),
        nodes: view.nodes,
        nodes_up: view.nodes_up,
        nodes_drained: view.nodes_drained,
        drains: view.drains.iter().map(ToString::to_string).collect(),
        jobs: own.map(job).collect(),
        jobs_total: view.jobs_total,
        engines: engines
            .map(|(seen, engines)| v1::RailStateCount { state: state(*seen), engines: *engines })
            .collect(),
    }
}

fn pending(uses: &[RailUse], only: Option<&TenantName>) -> Vec<v1::RailUse> {
    let wire = |one: &RailUse| {
        let own = only.is_none_or(|tenant| *tenant == one.id.tenant);
        let shown = |text: String| if own { text } else { String::new() };
        v1::RailUse {
            tenant: shown(one.id.tenant.to_string()),
            job: shown(one.id.name.to_string()),
            job_uid: shown(one.uid.to_string()),
            node: one.node.to_string(),
            rail: one.rail,
            state: state(one.state),
            note: one.note.to_owned(),
        }
    };
    uses.iter().map(wire).collect()
}

#[tonic::async_trait]
impl RailService for Rails {
    async fn list_rails(
        &self,
        request: Request<v1::ListRailsRequest>,
    ) -> Result<Response<v1::ListRailsResponse>, Status> {
        let only = Caller::of(request.extensions())?.own_tenant()?;
        let view = self.view(target(request.into_inner().target, false)?).await?;
        Ok(Response::new(v1::ListRailsResponse {
            rails: view.rails.iter().map(|rail| status(rail, only.as_ref())).collect(),
            drains: view.drains.iter().map(|drain| drain.as_ref().into()).collect(),
            pending: pending(&view.pending, only.as_ref()),
            pending_total: view.pending_total,
        }))
    }

    async fn drain_rail(
        &self,
        request: Request<v1::DrainRailRequest>,
    ) -> Result<Response<v1::DrainRailResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let event = Event::DrainRail {
            target: target(wire.target, true)?,
            reason: printable("reason", wire.reason, MAX_REASON)?,
            by: caller.identity.to_string(),
            force: wire.force,
        };
        let applied = self
            .context
            .handle
            .apply(&caller.actor, event)
            .await
            .map_err(|refusal| fault::refused(&refusal))?;
        let Reply::Drained { drain, changed } = applied.reply else {
            return Err(crate::context::unexpected());
        };
        let (target, reason) = (&drain.target, &drain.reason);
        if changed {
            tracing::info!(%target, reason, force = wire.force, by = %caller.identity, "rail drained");
        }
        let view = self.view(target.to_string()).await?;
        Ok(Response::new(v1::DrainRailResponse {
            drain: Some(drain.as_ref().into()),
            changed,
            pending: pending(&view.pending, None),
            pending_total: view.pending_total,
        }))
    }

    async fn undrain_rail(
        &self,
        request: Request<v1::UndrainRailRequest>,
    ) -> Result<Response<v1::UndrainRailResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let event = Event::UndrainRail { target: target(request.into_inner().target, true)? };
        let applied = self
            .context
            .handle
            .apply(&caller.actor, event)
            .await
            .map_err(|refusal| fault::refused(&refusal))?;
        let Reply::Undrained { target, changed, remaining } = applied.reply else {
            return Err(crate::context::unexpected());
        };
        if changed {
            tracing::info!(%target, by = %caller.identity, "rail undrained");
        }
        Ok(Response::new(v1::UndrainRailResponse {
            target: target.to_string(),
            changed,
            remaining: remaining.iter().map(|drain| drain.as_ref().into()).collect(),
        }))
    }
}
