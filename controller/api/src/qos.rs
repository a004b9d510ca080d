//! QosService: a profile of class of service, rolled out in stages.

use controller_core::{Event, QosAction, QosOrder, QosPlan, QosView, Reply};
use controller_leader::Refusal;
use proto_rpc::RpcError;
use proto_wire::{
    convert,
    v1::{
        self, control_rollout_request::Action, get_qos_response::State as Standing, qos_port::State,
        qos_service_server::QosService,
    },
};
use tonic::{Request, Response, Status};

use crate::{context::Context, fault, guard::Caller};

/// Longest reason of an administrator's, in bytes.
const MAX_REASON: usize = 1024;

/// The handlers of `QosService`.
#[derive(Clone)]
pub struct Qos {
    context: Context,
}

impl Qos {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    async fn view(&self) -> Result<Response<v1::GetQosResponse>, Status> {
        let view = self.context.query(|state, _| state.qos()).await?;
        Ok(Response::new(shown(&view)))
    }

    async fn change(&self, caller: &Caller, event: Event) -> Result<Response<v1::GetQosResponse>, Status> {
        let applied = self.context.handle.apply(&caller.actor, event).await;
        let applied = applied.map_err(|refusal| fault::refused(&refusal))?;
        let Reply::Qos { rollout, changed } = applied.reply else {
            return Err(crate::context::unexpected());
        };
        if changed {
            let (generation, paused) = (rollout.generation, rollout.paused.is_some());
            tracing::info!(generation, paused, by = %caller.identity, "rollout of class of service changed");
        }
        self.view().await
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn shown(view: &QosView) -> v1::GetQosResponse {
    let stage = |stage: &controller_core::QosStage| v1::QosStage {
        name: stage.name.clone(),
        nics: stage.nics,
        kept: stage.kept,
        trial: stage.trial,
        failed: stage.failed,
        silent: stage.silent,
    };
    let active = |one: &controller_core::QosActive| v1::QosActive {
        node: one.node.to_string(),
        rail: one.rail,
        device: one.device.clone(),
        state: one.state.map_or(State::Unspecified, State::from).into(),
        note: one.note.clone(),
    };
    v1::GetQosResponse {
        rollout: view.rollout.as_deref().map(Into::into),
        stages: view.stages.iter().map(stage).collect(),
        active: view.active.iter().map(active).collect(),
        active_total: number(view.active_total),
        done: view.done,
        state: standing(view).into(),
    }
}

fn standing(view: &QosView) -> Standing {
    match &view.rollout {
        None => Standing::Unspecified,
        Some(rollout) if rollout.is_cancelled() => Standing::Cancelled,
        Some(rollout) if rollout.paused.is_some() => Standing::Paused,
        Some(_) if view.done => Standing::Done,
        Some(_) => Standing::UnderWay,
    }
}

fn planned(plan: &QosPlan) -> v1::QosPlan {
    let stage = |stage: &controller_core::QosPlanStage| v1::QosPlanStage {
        name: stage.name.clone(),
        nics: stage.nics,
        nodes: stage.nodes,
        silent: stage.silent,
        at_once: stage.at_once,
        steps: stage.steps,
    };
    let nic = |nic: &controller_core::QosPlanNic| v1::QosPlanNic {
        stage: nic.stage.clone(),
        node: nic.node.to_string(),
        rail: nic.rail,
        device: nic.device.clone(),
        jobs: nic.jobs.iter().map(ToString::to_string).collect(),
        note: nic.note.clone(),
    };
    v1::QosPlan {
        unchanged: plan.unchanged,
        canary: plan.canary.to_string(),
        stages: plan.stages.iter().map(stage).collect(),
        nics: plan.nics.iter().map(nic).collect(),
        nics_total: number(plan.nics_total),
        nodes: number(plan.nodes),
        jobs: number(plan.jobs),
        at_least: Some(convert::duration_to_wire(plan.at_least)),
    }
}

/// A profile that says nothing would be the built-in one on every NIC.
fn checked(document: &str) -> Result<(), RpcError> {
    let value = serde_json::from_str::<serde_json::Value>(document);
    let value = value.map_err(|error| fault::field("document", format!("is not JSON: {error}")))?;
    if value.as_object().is_some_and(serde_json::Map::is_empty) {
        return Err(fault::field("document", convert::EMPTY_PROFILE));
    }
    Ok(())
}

/// What a caller asks for.
fn ordered(caller: &Caller, wire: v1::ApplyQosRequest) -> Result<QosOrder, RpcError> {
    let order = convert::QosOrder::try_from(wire).map_err(|errors| fault::fields(errors, ""))?;
    let convert::QosOrder { document, reason, canary, confirm_within, soak, at_once, force } = order;
    checked(&document)?;
    let by = caller.identity.to_string();
    Ok(QosOrder { document, reason, by, canary, confirm_within, soak, at_once, force })
}

#[tonic::async_trait]
impl QosService for Qos {
    async fn get_qos(&self, _: Request<v1::GetQosRequest>) -> Result<Response<v1::GetQosResponse>, Status> {
        self.view().await
    }

    async fn apply_qos(
        &self,
        request: Request<v1::ApplyQosRequest>,
    ) -> Result<Response<v1::GetQosResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let order = ordered(&caller, request.into_inner())?;
        self.change(&caller, Event::ApplyQos(Box::new(order))).await
    }

    async fn plan_qos(&self, request: Request<v1::ApplyQosRequest>) -> Result<Response<v1::QosPlan>, Status> {
        let caller = Caller::of(request.extensions())?;
        let order = ordered(&caller, request.into_inner())?;
        let plan = self.context.query(move |state, now| state.qos_plan(&order, now)).await?;
        let plan = plan.map_err(|error| fault::refused(&Refusal::Core(error)))?;
        Ok(Response::new(planned(&plan)))
    }

    async fn control_rollout(
        &self,
        request: Request<v1::ControlRolloutRequest>,
    ) -> Result<Response<v1::GetQosResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let action = match wire.action() {
            Action::Unspecified => {
                return Err(fault::field("action", "must be PAUSE, RESUME, ROLL_BACK or CANCEL").into());
            }
            Action::Pause => QosAction::Pause,
            Action::Resume => QosAction::Resume,
            Action::RollBack => QosAction::RollBack,
            Action::Cancel => QosAction::Cancel,
        };
        if wire.reason.len() > MAX_REASON || wire.reason.chars().any(char::is_control) {
            let text = format!("must be one printable line of at most {MAX_REASON} bytes");
            return Err(fault::field("reason", text).into());
        }
        let by = caller.identity.to_string();
        self.change(&caller, Event::ControlRollout { action, reason: wire.reason, by }).await
    }
}
