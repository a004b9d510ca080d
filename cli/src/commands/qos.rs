//! Class of service: plans for recorded NICs, made here, and the rollout of a profile, made by the controller.

use std::{path::Path, time::Duration};

use node_agent_qos::{
    Observed, Options, QosProfile, data_class, diff, document, plan, profile::from_json, render as text,
    vendor,
};
use proto_model::ReasonCode;
use proto_wire::{
    convert::EMPTY_PROFILE,
    v1::{self, control_rollout_request::Action},
};
use tokio::time::Instant;

use super::{due::Pace, fabric::read, progress::Progress};
use crate::{
    args::{QosApply, QosCommand, QosOffline, QosOutput, QosSteer},
    client::{Api, repeat},
    error::Error,
    output::{now, print},
    render,
};

/// Between two looks at a rollout.
const CHECK: Duration = Duration::from_secs(1);

/// `qos plan|diff`: no cluster is asked.
pub fn offline(command: &QosCommand) -> Option<Result<(), Error>> {
    match command {
        QosCommand::Plan(args) => Some(show_plan(args)),
        QosCommand::Diff(args) => Some(show_diff(args)),
        _ => None,
    }
}

/// `qos apply|status|pause|resume|rollback|cancel`: the rollout of a profile by the controller.
///
/// # Errors
/// [`Error::Document`] if a file cannot be read as documents of the API; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(command: &QosCommand, api: &Api) -> Result<(), Error> {
    match command {
        QosCommand::Apply(args) => apply(args, api).await,
        QosCommand::Status { output } => {
            let seen = check(api).await?;
            show(&seen, *output)
        }
        QosCommand::Pause(args) => steer(Action::Pause, "pause the rollout", args, api).await,
        QosCommand::Resume(args) => steer(Action::Resume, "resume the rollout", args, api).await,
        QosCommand::Rollback(args) => steer(Action::RollBack, "roll back", args, api).await,
        QosCommand::Cancel(args) => steer(Action::Cancel, "cancel the rollout", args, api).await,
        QosCommand::Plan(_) | QosCommand::Diff(_) => Ok(()),
    }
}

fn utf8(name: &str, bytes: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|error| Error::Document(format!("{name}: is not UTF-8: {error}")))
}

/// The profile of a file, or the one that is built in.
///
/// # Errors
/// [`Error::File`] or [`Error::Document`] if it cannot be read or has faults.
pub fn profile_of(path: Option<&Path>) -> Result<QosProfile, Error> {
    let Some(path) = path else { return Ok(QosProfile::default()) };
    Ok(profile_text(path)?.1)
}

/// A profile's text, and the profile: what the servers would refuse is refused here.
fn profile_text(path: &Path) -> Result<(String, QosProfile), Error> {
    let (name, bytes) = read(path)?;
    let text = utf8(&name, bytes)?;
    let profile = from_json(&text).map_err(|error| Error::Document(format!("{name}: {error}")))?;
    Ok((text, profile))
}

fn nics(args: &QosOffline) -> Result<Vec<Observed>, Error> {
    let (name, bytes) = read(&args.nics)?;
    let mut nics = document::from_json(&utf8(&name, bytes)?)
        .map_err(|error| Error::Document(format!("{name}: {error}")))?;
    for nic in &mut nics {
        nic.drained |= args.drained;
    }
    Ok(nics)
}

/// Values for programs, with an end of line.
///
/// # Errors
/// [`Error::Document`] if a value has no form in JSON.
pub fn json(values: &impl serde::Serialize) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(values);
    text.map(|text| text + "\n").map_err(|error| Error::Document(error.to_string()))
}

fn show_plan(args: &QosOffline) -> Result<(), Error> {
    let profile = profile_of(args.profile.as_deref())?;
    let options = Options { force: args.force, take_dcbx: args.take_dcbx };
    let (mut plans, mut refused) = (Vec::new(), Vec::new());
    for nic in nics(args)? {
        match plan(&profile, &nic, vendor::of(&nic), options) {
            Ok(plan) => plans.push(plan),
            Err(refusal) => refused.push(format!("{}: {refusal}", nic.device.netdev)),
        }
    }
    match args.output {
        QosOutput::Json => print(&json(&plans)?)?,
        QosOutput::Table => print(&plans.iter().map(text::plan).collect::<Vec<_>>().join("\n"))?,
    }
    if refused.is_empty() { Ok(()) } else { Err(Error::Infeasible(refused.join("\n"))) }
}

fn show_diff(args: &QosOffline) -> Result<(), Error> {
    let profile = profile_of(args.profile.as_deref())?;
    let nics = nics(args)?;
    let verdicts: Vec<_> = nics.iter().map(|nic| diff(&profile, nic, vendor::of(nic))).collect();
    match args.output {
        QosOutput::Json => print(&json(&verdicts)?)?,
        QosOutput::Table => {
            let shown =
                nics.iter().zip(&verdicts).map(|(nic, verdict)| text::verdict(&nic.device.netdev, verdict));
            print(&shown.collect::<Vec<_>>().join("\n"))?;
        }
    }
    let (mut differ, mut unknown) = (0, 0);
    for (nic, verdict) in nics.iter().zip(&verdicts) {
        if !verdict.deviations.is_empty() {
            differ += 1;
        } else if data_class::unverified(&verdict.findings, vendor::of(nic)).next().is_some() {
            unknown += 1;
        }
    }
    match (differ, unknown, nics.len()) {
        (0, 0, _) => Ok(()),
        (0, _, all) => {
            Err(Error::Differs(format!("of {unknown} of {all} NICs the data class was not read whole")))
        }
        (_, _, all) => Err(Error::Differs(format!("{differ} of {all} NICs differ from the profile"))),
    }
}

async fn check(api: &Api) -> Result<v1::GetQosResponse, Error> {
    repeat("look at the rollout", |_| {
        let mut client = api.qos();
        async move { client.get_qos(v1::GetQosRequest {}).await }
    })
    .await
}

fn show(seen: &v1::GetQosResponse, output: crate::args::Output) -> Result<(), Error> {
    let names = || seen.rollout.iter().map(|rollout| format!("qos/{}", rollout.generation)).collect();
    let table = |_| render::qos(seen, now());
    print(&render::render(output, seen, "rail.v1.GetQosResponse", names, table)?)
}

async fn steer(action: Action, doing: &str, args: &QosSteer, api: &Api) -> Result<(), Error> {
    let request = v1::ControlRolloutRequest { action: action.into(), reason: args.reason.clone() };
    // Not repeated blindly: a roll-back that was done would be rolled back.
    let answer =
        api.qos().control_rollout(request).await.map_err(|status| Error::rpc(doing, &status))?.into_inner();
    show(&answer, args.output)
}

async fn apply(args: &QosApply, api: &Api) -> Result<(), Error> {
    let (document, _) = profile_text(&args.profile)?;
    let says = serde_json::from_str::<serde_json::Value>(&document).ok();
    if says.as_ref().and_then(serde_json::Value::as_object).is_some_and(serde_json::Map::is_empty) {
        return Err(Error::Document(format!("{}: {EMPTY_PROFILE}", args.profile.display())));
    }
    let duration = |time: Duration| prost_types::Duration::try_from(time).ok();
    let request = v1::ApplyQosRequest {
        document,
        reason: args.reason.clone(),
        canary: args.canary.clone(),
        confirm_within: duration(args.confirm_within),
        soak: duration(args.soak),
        at_once: args.at_once,
        force: args.force,
    };
    if args.dry_run {
        return predict(request, args.output, api).await;
    }
    let mut answer = repeat("roll the profile out", |_| {
        let (mut client, request) = (api.qos(), request.clone());
        async move { client.apply_qos(request).await }
    })
    .await?;
    let generation = answer.rollout.as_ref().map(|rollout| rollout.generation);
    if args.wait {
        answer = until_done(answer, args.timeout, api).await?;
    }
    show(&answer, args.output)?;
    let rollout = answer.rollout.unwrap_or_default();
    if args.wait && Some(rollout.generation) != generation {
        return Err(Error::Differs("another rollout has begun since".to_owned()));
    }
    match rollout.paused.filter(|_| args.wait) {
        Some(paused) if ReasonCode::from_text(&paused.code) == ReasonCode::QosCancelled => {
            Err(Error::Differs(format!("the rollout was cancelled: {}", paused.message)))
        }
        Some(paused) => {
            Err(Error::Differs(format!("the rollout has paused: {}: {}", paused.code, paused.message)))
        }
        None => Ok(()),
    }
}

/// What the rollout would do.
async fn predict(request: v1::ApplyQosRequest, output: crate::args::Output, api: &Api) -> Result<(), Error> {
    let plan = repeat("plan the rollout", |_| {
        let (mut client, request) = (api.qos(), request.clone());
        async move { client.plan_qos(request).await }
    })
    .await?;
    let names = || plan.nics.iter().map(|nic| format!("{}:{}", nic.node, nic.rail)).collect();
    let table = |_| render::qos_plan(&plan);
    print(&render::render(output, &plan, "rail.v1.QosPlan", names, table)?)
}

/// Looks until nothing is left to do, or it pauses, or another one begins; Ctrl-C leaves it as it is.
async fn until_done(
    first: v1::GetQosResponse,
    limit: Duration,
    api: &Api,
) -> Result<v1::GetQosResponse, Error> {
    let generation = first.rollout.as_ref().map(|rollout| rollout.generation);
    let over = |seen: &v1::GetQosResponse| {
        let rollout = seen.rollout.as_ref();
        seen.done
            || rollout
                .is_none_or(|rollout| rollout.paused.is_some() || Some(rollout.generation) != generation)
    };
    let (progress, mut pace) = (Progress::new(), Pace::default());
    let deadline = Instant::now() + limit;
    let (mut seen, mut last) = (first, String::new());
    while !over(&seen) {
        let (text, kept, all) = render::qos_progress(&seen);
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
                eprintln!("the rollout goes on; `railctl qos status` shows it, `railctl qos pause` stops it");
                return Err(Error::Interrupted);
            }
        }
        seen = check(api).await?;
    }
    Ok(seen)
}
