//! Rollouts to switches: begun, planned, shown, paused; and the tokens with which switches join.

use std::sync::Arc;

use controller_core::{
    BUILT_IN_PROFILE, Event, QosAction, Reply, SwitchEvent, SwitchOrder,
    switch_show::{self, SwitchPlan, SwitchRolloutView},
};
use controller_leader::Refusal;
use controller_switch::change::{Change, Impact, worst};
use proto_model::{QosState, SwitchName, SwitchStanding};
use proto_rpc::{ErrorClass, RpcError, Token, TokenKind};
use proto_wire::{
    convert::{self, duration_to_wire, time_to_wire},
    v1::{
        self, control_switch_rollout_request::Action, switch_plan_step::Impact as Effect,
        switch_rollout::State, switch_status::Configuration,
    },
};

use crate::{
    context::{Context, unexpected},
    credential::{lifetime, token_digest},
    fault,
    guard::Caller,
    switch::board::{Board, Inputs, Verdict},
};

/// Longest reason of an administrator's, in bytes.
const MAX_REASON: usize = 1024;
/// Changes of one switch that a plan names, and differences that a status names.
const NAMED: usize = 32;

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The impact as the schema has it.
fn effect(impact: Impact) -> Effect {
    match impact {
        Impact::Hitless => Effect::Hitless,
        Impact::QueueDrain => Effect::QueueDrain,
        Impact::LinkFlap => Effect::LinkFlap,
        Impact::TrafficLoss => Effect::TrafficLoss,
        Impact::DaemonRestart => Effect::DaemonRestart,
        Impact::Reboot => Effect::Reboot,
    }
}

/// A difference as the schema has it.
fn difference(change: &Change) -> v1::SwitchDifference {
    v1::SwitchDifference {
        file: change.file.to_owned(),
        path: change.path.clone(),
        desired: change.desired.clone(),
        found: change.found.clone(),
    }
}

/// What was read back, as the status says it.
pub(crate) fn differences(verdict: &Verdict) -> (Vec<v1::SwitchDifference>, u32) {
    (verdict.changes.iter().take(NAMED).map(difference).collect(), number(verdict.total))
}

/// How a switch stands, in one word.
pub(crate) fn configuration(state: Option<QosState>, standing: SwitchStanding) -> Configuration {
    match (state, standing) {
        (Some(QosState::Trial), _) => Configuration::Trial,
        (Some(QosState::Failed), _) => Configuration::Failed,
        (Some(QosState::Kept | QosState::Differs), SwitchStanding::Differs(_)) => Configuration::Drifted,
        (_, SwitchStanding::Same) => Configuration::InSync,
        (_, SwitchStanding::Differs(_)) => Configuration::Pending,
        (_, SwitchStanding::Unread) => Configuration::Unspecified,
    }
}

fn shown(view: &SwitchRolloutView) -> v1::SwitchRollout {
    let Some(rollout) = &view.rollout else { return v1::SwitchRollout::default() };
    let stage = |stage: &switch_show::SwitchStage| v1::SwitchStage {
        name: stage.name.clone(),
        switches: stage.switches,
        kept: stage.kept,
        trial: stage.trial,
        failed: stage.failed,
        silent: stage.silent,
    };
    let active = |one: &switch_show::SwitchActive| v1::SwitchActive {
        name: one.name.to_string(),
        configuration: configuration(one.state, SwitchStanding::Unread).into(),
        note: one.note.clone(),
    };
    let state = match &rollout.paused {
        Some(_) if rollout.is_cancelled() => State::Cancelled,
        Some(_) => State::Paused,
        None if view.done => State::Done,
        None => State::UnderWay,
    };
    v1::SwitchRollout {
        generation: rollout.generation,
        state: state.into(),
        reason: rollout.reason.clone(),
        by: rollout.by.clone(),
        since: Some(time_to_wire(rollout.since)),
        canary: rollout.canary.to_string(),
        confirm_within: Some(duration_to_wire(rollout.confirm_within)),
        soak: Some(duration_to_wire(rollout.soak)),
        at_once: rollout.at_once,
        force: rollout.force,
        paused: rollout.paused.as_ref().map(Into::into),
        stages: view.stages.iter().map(stage).collect(),
        active: view.active.iter().map(active).collect(),
        active_total: number(view.active_total),
    }
}

/// The rollout to switches, and how far it is.
pub(crate) async fn get(context: &Context) -> Result<v1::SwitchRollout, RpcError> {
    let view = context.query(|state, now| state.switch_rollout_view(now)).await?;
    Ok(shown(&view))
}

fn asked(wire: v1::RollOutSwitchesRequest) -> Result<convert::SwitchOrder, RpcError> {
    convert::SwitchOrder::try_from(wire).map_err(|errors| fault::fields(errors, ""))
}

fn ordered(caller: &Caller, order: convert::SwitchOrder, reloads: bool) -> SwitchOrder {
    let confirm_within = order.confirm_within(reloads);
    let convert::SwitchOrder { reason, canary, soak, at_once, force, .. } = order;
    let by = caller.identity.to_string();
    let default_profile = Arc::from(BUILT_IN_PROFILE);
    SwitchOrder { default_profile, reason, by, canary, confirm_within, soak, at_once, force }
}

/// Runs work that takes long on a thread for blocking work, so that no other call waits for it.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, RpcError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        RpcError::new(ErrorClass::Internal, "PLANNING_FAILED", "what was asked for could not be worked out")
    })
}

/// Whether some switch would have to load its whole database for it, by what was read of each last.
async fn reloads(context: &Context, board: &Board, order: SwitchOrder) -> Result<bool, RpcError> {
    let ask = move |state: &controller_core::State, now| {
        let rollout = state.switch_rollout_of(order, now)?;
        let names: Vec<SwitchName> =
            state.switch_units(&rollout, now).into_iter().map(|unit| unit.name).collect();
        Ok((names, Inputs::with(state, Some(rollout.profile))))
    };
    let (names, inputs) = context.query(ask).await?.map_err(|error| fault::refused(&Refusal::Core(error)))?;
    let board = board.clone();
    let reloads = move |name: &SwitchName| {
        board.planned(&inputs, name).is_some_and(|found| worst(&found.changes) == Some(Impact::Reboot))
    };
    run_blocking(move || names.iter().any(reloads)).await
}

async fn change(context: &Context, caller: &Caller, event: Event) -> Result<v1::SwitchRollout, RpcError> {
    let applied = context.apply(caller, event).await?;
    let Reply::SwitchRollout { rollout, changed } = applied.reply else {
        return Err(RpcError::from_status(&unexpected()));
    };
    if changed {
        let (generation, paused) = (rollout.generation, rollout.paused.is_some());
        tracing::info!(generation, paused, by = %caller.identity, "rollout to switches changed");
    }
    get(context).await
}

/// Begins a rollout.
pub(crate) async fn roll_out(
    context: &Context,
    board: &Board,
    caller: &Caller,
    wire: v1::RollOutSwitchesRequest,
) -> Result<v1::SwitchRollout, RpcError> {
    let asked = asked(wire)?;
    let reloads = asked.confirm_within.is_none()
        && reloads(context, board, ordered(caller, asked.clone(), false)).await?;
    let order = ordered(caller, asked, reloads);
    change(context, caller, Event::Switch(SwitchEvent::RollOut(Box::new(order)))).await
}

/// Pauses it, goes on with it, takes it back, ends it.
pub(crate) async fn control(
    context: &Context,
    caller: &Caller,
    wire: v1::ControlSwitchRolloutRequest,
) -> Result<v1::SwitchRollout, RpcError> {
    let action = match wire.action() {
        Action::Unspecified => {
            return Err(fault::field("action", "must be PAUSE, RESUME, ROLL_BACK or CANCEL"));
        }
        Action::Pause => QosAction::Pause,
        Action::Resume => QosAction::Resume,
        Action::RollBack => QosAction::RollBack,
        Action::Cancel => QosAction::Cancel,
    };
    if wire.reason.len() > MAX_REASON || wire.reason.chars().any(char::is_control) {
        let text = format!("must be one printable line of at most {MAX_REASON} bytes");
        return Err(fault::field("reason", text));
    }
    let by = caller.identity.to_string();
    change(context, caller, Event::Switch(SwitchEvent::Control { action, reason: wire.reason, by })).await
}

/// What a rollout would do.
pub(crate) async fn plan(
    context: &Context,
    board: &Board,
    caller: &Caller,
    wire: v1::RollOutSwitchesRequest,
) -> Result<v1::SwitchPlan, RpcError> {
    let order = ordered(caller, asked(wire)?, false);
    let ask = move |state: &controller_core::State, now| {
        let plan = state.switch_plan(order, now)?;
        let inputs = Inputs::with(state, Some(Arc::clone(&plan.profile)));
        Ok((plan, inputs))
    };
    let (plan, inputs) = context.query(ask).await?.map_err(|error| fault::refused(&Refusal::Core(error)))?;
    let board = board.clone();
    run_blocking(move || planned(&plan, &inputs, &board)).await
}

fn planned(plan: &SwitchPlan, inputs: &Inputs, board: &Board) -> v1::SwitchPlan {
    let stage = |stage: &switch_show::SwitchPlanStage| v1::SwitchPlanStage {
        name: stage.name.clone(),
        switches: stage.switches,
        silent: stage.silent,
        at_once: stage.at_once,
        steps: stage.steps,
    };
    let step = |step: &switch_show::SwitchPlanStep| {
        let verdict = board.planned(inputs, &step.name).unwrap_or_default();
        let one = |change: &Change| v1::SwitchChange {
            difference: Some(difference(change)),
            impact: effect(change.impact).into(),
            why: change.why.to_owned(),
        };
        let note = if step.note.is_empty() { verdict.why.clone() } else { step.note.clone() };
        v1::SwitchPlanStep {
            stage: step.stage.clone(),
            name: step.name.to_string(),
            impact: worst(&verdict.changes).map_or(Effect::Unspecified, effect).into(),
            changes: verdict.changes.iter().take(NAMED).map(one).collect(),
            changes_total: number(verdict.total),
            jobs: step.jobs.iter().map(ToString::to_string).collect(),
            note,
        }
    };
    v1::SwitchPlan {
        unchanged: plan.unchanged,
        canary: plan.canary.to_string(),
        stages: plan.stages.iter().map(stage).collect(),
        switches: plan.switches.iter().map(step).collect(),
        switches_total: number(plan.switches_total),
        jobs: number(plan.jobs),
        at_least: Some(duration_to_wire(plan.at_least)),
    }
}

/// Makes a token with which the switch joins.
pub(crate) async fn token(
    context: &Context,
    caller: &Caller,
    wire: v1::CreateSwitchTokenRequest,
) -> Result<v1::CreateSwitchTokenResponse, RpcError> {
    let switch = SwitchName::new(&wire.name).map_err(|error| fault::field("name", error))?;
    let lifetime = lifetime(wire.lifetime)?;
    let token = Token::generate(TokenKind::Join)
        .map_err(|error| RpcError::new(ErrorClass::Internal, "NO_RANDOM", error.to_string()))?;
    let hash = token_digest(&token.hash());
    let event = Event::Switch(SwitchEvent::CreateToken { switch: switch.clone(), hash, lifetime });
    let applied = context.apply(caller, event).await?;
    let Reply::Token(record) = applied.reply else { return Err(RpcError::from_status(&unexpected())) };
    tracing::info!(%switch, token = token.id(), by = %caller.identity, "switch token made");
    Ok(v1::CreateSwitchTokenResponse {
        token: token.reveal(),
        ca_pin: context.ca.pin().to_string(),
        expires: Some(time_to_wire(record.expires)),
    })
}
