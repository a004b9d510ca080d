//! QosService: a profile of class of service, rolled out in stages.

use controller_core::{Event, QosAction, QosOrder, QosView, Reply};
use proto_wire::{
    convert,
    v1::{self, qos_port::State, qos_service_server::QosService, steer_qos_request::Action},
};
use tonic::{Request, Response, Status};

use crate::{context::Context, fault, guard::Caller};

/// Longest reason of an administrator's, in bytes.
const MAX_REASON: usize = 1024;

/// The handlers.
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
            tracing::info!(generation, paused, by = %caller.identity, "roll-out of class of service changed");
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
    }
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
        let order =
            convert::QosOrder::try_from(request.into_inner()).map_err(|errors| fault::fields(errors, ""))?;
        let convert::QosOrder { document, reason, canary, confirm_within, soak, at_once, force } = order;
        if let Err(error) = serde_json::from_str::<serde_json::Value>(&document) {
            return Err(fault::field("document", format!("is not JSON: {error}")).into());
        }
        let by = caller.identity.to_string();
        let order = QosOrder { document, reason, by, canary, confirm_within, soak, at_once, force };
        self.change(&caller, Event::ApplyQos(Box::new(order))).await
    }

    async fn steer_qos(
        &self,
        request: Request<v1::SteerQosRequest>,
    ) -> Result<Response<v1::GetQosResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let action = match wire.action() {
            Action::Unspecified => {
                return Err(fault::field("action", "must be PAUSE, RESUME or ROLL_BACK").into());
            }
            Action::Pause => QosAction::Pause,
            Action::Resume => QosAction::Resume,
            Action::RollBack => QosAction::RollBack,
        };
        if wire.reason.len() > MAX_REASON || wire.reason.chars().any(char::is_control) {
            let text = format!("must be one printable line of at most {MAX_REASON} bytes");
            return Err(fault::field("reason", text).into());
        }
        let by = caller.identity.to_string();
        self.change(&caller, Event::SteerQos { action, reason: wire.reason, by }).await
    }
}
