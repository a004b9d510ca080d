//! Rollouts to switches, made by the controller, and the tokens with which switches join.

use std::time::Duration;

use proto_model::ReasonCode;
use proto_wire::v1::{self, SwitchManagement, control_switch_rollout_request::Action, switch_rollout::State};
use tokio::time::Instant;

use super::{due::Pace, progress::Progress};
use crate::{
    args::{Output, SwitchApply, SwitchControl, SwitchToken},
    client::{Api, once, repeat},
    error::Error,
    output::{now, print},
    render,
};

/// Between two looks at a rollout.
const CHECK: Duration = Duration::from_secs(1);

fn duration(time: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(time).ok()
}

/// `switch token`.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn token(args: &SwitchToken, api: &Api) -> Result<(), Error> {
    let name = &args.name;
    let request =
        v1::CreateSwitchTokenRequest { name: name.clone(), lifetime: args.lifetime.and_then(duration) };
    let answer =
        once(format!("make a join token for `{name}`"), api.switches().create_switch_token(request)).await?;
    // Of a switch that no document names yet nothing else is known.
    let known = api.switches().get_switch(v1::GetSwitchRequest { name: name.clone() }).await.ok();
    let spec = known.and_then(|known| known.into_inner().spec).unwrap_or_default();
    let join = format!(
        "rail-switch-agent run --switch {name} --controller ENDPOINT --join-token TOKEN --ca-pin PIN"
    );
    match spec.management {
        None => eprintln!("on {name}: {join}"),
        Some(SwitchManagement { endpoint, credential }) => {
            let folder = if credential.is_empty() { "DIR".to_owned() } else { format!("DIR/{credential}") };
            eprintln!(
                "where {endpoint} can be reached: {join} --state /var/lib/rail-switch-agent/{name} --gnmi {endpoint} --gnmi-credentials {folder}"
            );
        }
    }
    let table = |_| format!("token   {}\nca-pin  {}\n", answer.token, answer.ca_pin);
    let names = || vec![answer.token.clone()];
    print(&render::render(args.output, &answer, "rail.v1.CreateSwitchTokenResponse", names, table)?)
}

/// `switch status`.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn status(output: Output, api: &Api) -> Result<(), Error> {
    show(&check(api).await?, output)
}

async fn check(api: &Api) -> Result<v1::SwitchRollout, Error> {
    repeat("look at the rollout", |_| {
        let mut client = api.switches();
        async move { client.get_switch_rollout(v1::GetSwitchRolloutRequest {}).await }
    })
    .await
}

fn show(seen: &v1::SwitchRollout, output: Output) -> Result<(), Error> {
    let names = || match seen.generation {
        0 => Vec::new(),
        generation => vec![format!("switch-rollout/{generation}")],
    };
    let table = |_| render::switch_rollout(seen, now());
    print(&render::render(output, seen, "rail.v1.SwitchRollout", names, table)?)
}

/// `switch pause|resume|rollback|cancel`.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn control(action: Action, doing: &str, args: &SwitchControl, api: &Api) -> Result<(), Error> {
    let request = v1::ControlSwitchRolloutRequest { action: action.into(), reason: args.reason.clone() };
    // Not repeated blindly: a roll-back that was done would be rolled back.
    let answer = once(doing.to_owned(), api.switches().control_switch_rollout(request)).await?;
    show(&answer, args.output)
}

/// `switch apply`.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; with `--wait` [`Error::Differs`] where the rollout does not come to its end,
/// and [`Error::Timeout`].
pub async fn apply(args: &SwitchApply, api: &Api) -> Result<(), Error> {
    let request = v1::RollOutSwitchesRequest {
        reason: args.reason.clone(),
        canary: args.canary.clone(),
        confirm_within: args.confirm_within.and_then(duration),
        soak: duration(args.soak),
        at_once: args.at_once,
        force: args.force,
    };
    if args.dry_run {
        return predict(request, args.output, api).await;
    }
    let mut answer = repeat("roll configurations out", |_| {
        let (mut client, request) = (api.switches(), request.clone());
        async move { client.roll_out_switches(request).await }
    })
    .await?;
    let generation = answer.generation;
    if args.wait {
        answer = until_done(answer, args.timeout, api).await?;
    }
    show(&answer, args.output)?;
    if args.wait && answer.generation != generation {
        return Err(Error::Differs("another rollout has begun since".to_owned()));
    }
    match answer.paused.filter(|_| args.wait) {
        Some(paused) if ReasonCode::from_text(&paused.code) == ReasonCode::SwitchRolloutCancelled => {
            Err(Error::Differs(format!("the rollout was cancelled: {}", paused.message)))
        }
        Some(paused) => {
            Err(Error::Differs(format!("the rollout has paused: {}: {}", paused.code, paused.message)))
        }
        None => Ok(()),
    }
}

/// What the rollout would do.
async fn predict(request: v1::RollOutSwitchesRequest, output: Output, api: &Api) -> Result<(), Error> {
    let plan = repeat("plan the rollout", |_| {
        let (mut client, request) = (api.switches(), request.clone());
        async move { client.plan_switches(request).await }
    })
    .await?;
    let names = || plan.switches.iter().map(|step| step.name.clone()).collect();
    let table = |_| render::switch_plan(&plan);
    print(&render::render(output, &plan, "rail.v1.SwitchPlan", names, table)?)
}

/// Looks until nothing is left to do, or it pauses, or another one begins; Ctrl-C leaves it as it is.
async fn until_done(
    first: v1::SwitchRollout,
    limit: Duration,
    api: &Api,
) -> Result<v1::SwitchRollout, Error> {
    let generation = first.generation;
    let over = |seen: &v1::SwitchRollout| seen.state() != State::UnderWay || seen.generation != generation;
    let (progress, mut pace) = (Progress::new(), Pace::default());
    let deadline = Instant::now() + limit;
    let (mut seen, mut last) = (first, String::new());
    while !over(&seen) {
        let (text, kept, all) = render::switch_progress(&seen);
        progress.expect(pace.due(kept, all, now()));
        if text != last {
            progress.say(&text);
            last = text;
        }
        if Instant::now() >= deadline {
            return Err(Error::Timeout { what: format!("the rollout, which goes on ({last}),"), limit });
        }
        tokio::select! {
            () = tokio::time::sleep(CHECK.min(deadline.saturating_duration_since(Instant::now()))) => {}
            _ = tokio::signal::ctrl_c() => {
                drop(progress);
                eprintln!("the rollout goes on; `railctl switch status` shows it, `railctl switch pause` stops it");
                return Err(Error::Interrupted);
            }
        }
        seen = check(api).await?;
    }
    Ok(seen)
}
