//! SwitchService: what the fabric document does not say of switches, and the files that follow from both.

pub(crate) mod agent;
pub(crate) mod board;
pub(crate) mod health;
pub(crate) mod ports;
pub(crate) mod rollout;
pub(crate) mod series;
pub(crate) mod status;

use std::sync::Arc;

use controller_core::{CoreError, Event, Reply, State, SwitchObserved};
use controller_leader::{Refusal, codec, keys};
use controller_store::KeyValue;
use controller_switch::cluster::Finding;
use proto_model::{SwitchConfig, SwitchName};
use proto_rpc::{ErrorClass, RpcError};
use proto_wire::v1::{self, switch_service_server::SwitchService};
use tokio::{sync::Semaphore, task::spawn_blocking};
use tonic::{Request, Response, Status};

use self::{board::Inputs, ports::SwitchReports};
use crate::{authz::Rpc, context::Context, fault, guard::Caller, page};

/// Answers that are worked out at a time: each may look at all cables of the fabric.
const AT_ONCE: usize = 2;

/// The handlers of `SwitchService`.
#[derive(Clone)]
pub struct Switches {
    context: Context,
    known: SwitchReports,
    planning: Arc<Semaphore>,
}

impl Switches {
    /// Handlers over the loop.
    #[must_use]
    pub(crate) fn new(context: Context, known: SwitchReports) -> Self {
        Self { context, known, planning: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Works something out beside the loop, a few at a time.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        let place = Arc::clone(&self.planning).acquire_owned().await;
        let place = place.map_err(|_| failed())?;
        let done = spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.map_err(|_| failed())
    }

    /// Adds the status.
    async fn complete(&self, mut switches: Vec<v1::Switch>) -> Result<Vec<v1::Switch>, RpcError> {
        let named: Vec<Option<SwitchName>> = switches.iter().map(named).collect();
        let ask = move |state: &State, now| {
            let observed = |name: &Option<SwitchName>| match name {
                Some(name) => state.switch_observed(name, now),
                None => SwitchObserved::default(),
            };
            let observed = named.iter().map(observed).collect::<Vec<_>>();
            (Inputs::of(state), observed, state.stalled_rails(), now)
        };
        let (inputs, observed, stalled, now) = self.context.query(ask).await?;
        let known = self.known.clone();
        let usages = self.context.handle.sessions().usages();
        let fill = move || {
            let shown = known.ports.shown(&inputs, now, &ports::nics(stalled, &usages, now));
            status::fill(&inputs.cluster(), &mut switches, &observed, &known.board, &shown);
            switches
        };
        self.work(fill).await
    }

    async fn one(&self, switch: v1::Switch) -> Result<Response<v1::Switch>, Status> {
        let mut switches = self.complete(vec![switch]).await?;
        Ok(Response::new(switches.pop().ok_or_else(crate::context::unexpected)?))
    }
}

fn failed() -> RpcError {
    RpcError::new(ErrorClass::Internal, "PLANNING_FAILED", "what was asked for could not be worked out")
}

fn named(switch: &v1::Switch) -> Option<SwitchName> {
    switch.metadata.as_ref().and_then(|metadata| SwitchName::new(&metadata.name).ok())
}

fn reported(switch: &SwitchConfig, version: u64) -> v1::Switch {
    let mut wire = v1::Switch::from(switch);
    wire.metadata.get_or_insert_default().resource_version = version;
    wire
}

fn shown(kv: &KeyValue) -> Result<v1::Switch, RpcError> {
    let switch = codec::switch(kv).map_err(|error| fault::refused(&error.into()))?;
    Ok(reported(&switch, kv.mod_revision))
}

/// The event that applies a document. One that says which revision it was read at replaces only that.
pub(crate) fn to_apply(document: v1::Switch, dry_run: bool) -> Result<Event, RpcError> {
    let if_version = document.metadata.as_ref().map_or(0, |metadata| metadata.resource_version);
    let switch = SwitchConfig::try_from(document).map_err(|errors| fault::fields(errors, ""))?;
    Ok(Event::ApplySwitch { switch: Box::new(switch), if_version, dry_run })
}

fn name(text: &str) -> Result<SwitchName, RpcError> {
    SwitchName::new(text).map_err(|error| fault::field("name", error))
}

/// Findings as the refusal of a configuration.
pub(crate) fn refused(findings: &[Finding]) -> RpcError {
    let text = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let error = RpcError::new(ErrorClass::Infeasible, "SWITCH_NOT_PLANNED", text);
    findings.iter().fold(error, |error, one| error.with_violation(one.at.clone(), one.problem.to_string()))
}

#[tonic::async_trait]
impl SwitchService for Switches {
    async fn apply_switch(
        &self,
        request: Request<v1::ApplySwitchRequest>,
    ) -> Result<Response<v1::Switch>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let document = wire.switch.ok_or_else(|| fault::field("switch", "is required"))?;
        let event = to_apply(document, wire.dry_run)?;
        let applied = self.context.apply(&caller, event).await?;
        let Reply::Switch(switch) = applied.reply else { return Err(crate::context::unexpected()) };
        self.one(reported(&switch, applied.version)).await
    }

    async fn get_switch(
        &self,
        request: Request<v1::GetSwitchRequest>,
    ) -> Result<Response<v1::Switch>, Status> {
        let switch = name(&request.into_inner().name)?;
        let found = self.context.handle.store().get(keys::switch(&switch)).await;
        let kv = found.map_err(|error| fault::store(&error))?.ok_or_else(|| {
            let error = CoreError::SwitchNotFound { switch, nearest: None };
            RpcError::new(ErrorClass::NotFound, error.code(), error.to_string())
        })?;
        self.one(shown(&kv)?).await
    }

    async fn list_switches(
        &self,
        request: Request<v1::ListSwitchesRequest>,
    ) -> Result<Response<v1::ListSwitchesResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let asked = page::Asked {
            rpc: Rpc::ListSwitches,
            prefix: keys::SWITCHES.into(),
            size: wire.page_size,
            token: &wire.page_token,
            filter: Vec::new(),
        };
        let page = page::list(&self.context, &caller, asked, |kv| shown(kv).map(Some)).await?;
        let switches = self.complete(page.items).await?;
        let (next_page_token, revision) = (page.next, page.revision);
        Ok(Response::new(v1::ListSwitchesResponse { switches, next_page_token, revision }))
    }

    async fn delete_switch(
        &self,
        request: Request<v1::DeleteSwitchRequest>,
    ) -> Result<Response<v1::DeleteSwitchResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let name = name(&request.into_inner().name)?;
        self.context.apply(&caller, Event::DeleteSwitch(name)).await?;
        Ok(Response::new(v1::DeleteSwitchResponse {}))
    }

    async fn render_switch(
        &self,
        request: Request<v1::RenderSwitchRequest>,
    ) -> Result<Response<v1::RenderSwitchResponse>, Status> {
        let name = name(&request.into_inner().name)?;
        let asked = name.clone();
        let ask = move |state: &State, _| match state.switch(&asked) {
            Some(_) => Ok(Inputs::of(state)),
            None => Err(state.no_switch(&asked)),
        };
        let known = self.context.query(ask).await?;
        let known = known.map_err(|error| fault::refused(&Refusal::Core(error)))?;
        let files = self.work(move || known.files(&name)).await?.map_err(|found| refused(&found))?;
        Ok(Response::new(v1::RenderSwitchResponse { files }))
    }

    async fn create_switch_token(
        &self,
        request: Request<v1::CreateSwitchTokenRequest>,
    ) -> Result<Response<v1::CreateSwitchTokenResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        Ok(Response::new(rollout::token(&self.context, &caller, wire).await?))
    }

    async fn get_switch_rollout(
        &self,
        _: Request<v1::GetSwitchRolloutRequest>,
    ) -> Result<Response<v1::SwitchRollout>, Status> {
        Ok(Response::new(rollout::get(&self.context).await?))
    }

    async fn roll_out_switches(
        &self,
        request: Request<v1::RollOutSwitchesRequest>,
    ) -> Result<Response<v1::SwitchRollout>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        Ok(Response::new(rollout::roll_out(&self.context, &self.known.board, &caller, wire).await?))
    }

    async fn plan_switches(
        &self,
        request: Request<v1::RollOutSwitchesRequest>,
    ) -> Result<Response<v1::SwitchPlan>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        Ok(Response::new(rollout::plan(&self.context, &self.known.board, &caller, wire).await?))
    }

    async fn control_switch_rollout(
        &self,
        request: Request<v1::ControlSwitchRolloutRequest>,
    ) -> Result<Response<v1::SwitchRollout>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        Ok(Response::new(rollout::control(&self.context, &caller, wire).await?))
    }
}
