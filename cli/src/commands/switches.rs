//! Switches that the cluster knows: shown, applied, removed, and the files that the controller renders for one.

use proto_wire::v1::{self, control_switch_rollout_request::Action};

use super::{
    list::{Asked, Found},
    switch::{put, shown},
    switch_rollout::{self, control},
};
use crate::{
    args::{SwitchCommand, SwitchRender},
    client::{Api, once, repeat},
    error::Error,
    output::{now, print},
    render::{self, Behind, Kind},
};

/// Applies a switch's document.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn apply(doing: String, switch: v1::Switch, dry_run: bool, api: &Api) -> Result<v1::Switch, Error> {
    let request = v1::ApplySwitchRequest { switch: Some(switch), dry_run };
    repeat(doing, |_| {
        let (mut client, request) = (api.switches(), request.clone());
        async move { client.apply_switch(request).await }
    })
    .await
}

/// Asks for one switch as it is now.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn get(name: &str, api: &Api) -> Result<v1::Switch, Error> {
    repeat(format!("get switch `{name}`"), |_| {
        let (mut client, request) = (api.switches(), v1::GetSwitchRequest { name: name.to_owned() });
        async move { client.get_switch(request).await }
    })
    .await
}

/// `delete switch NAME`; gives what was deleted, for the message.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn delete(name: &str, api: &Api) -> Result<String, Error> {
    let request = v1::DeleteSwitchRequest { name: name.to_owned() };
    once(format!("delete switch `{name}`"), api.switches().delete_switch(request)).await?;
    Ok(format!("switch {name}"))
}

const COLUMNS: &[Behind] = &[Behind::ago("AGE", "metadata.createTime")];

fn name_of(switch: &v1::Switch) -> String {
    format!("switch/{}", switch.metadata.clone().unwrap_or_default().name)
}

/// `get switches [NAME...]`: the switches that the cluster knows.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn show(asked: &Asked<'_>, api: &Api) -> Result<(), Error> {
    let kind = Kind {
        message: "rail.v1.Switch",
        name: &name_of,
        table: &|all: &[v1::Switch], _| render::switches(all, now()),
        columns: COLUMNS,
        slurm: None,
    };
    let one = async |name: &str| get(name, api).await.map(Found::One);
    asked.show(&kind, "switches", one, async || api.list_switches().await).await
}

/// What of `switch` a controller is asked for.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::File`] if a file cannot be written.
pub async fn run(command: &SwitchCommand, api: &Api) -> Result<(), Error> {
    match command {
        SwitchCommand::Render(args) => rendered(args, api).await,
        SwitchCommand::Token(args) => switch_rollout::token(args, api).await,
        SwitchCommand::Apply(args) => switch_rollout::apply(args, api).await,
        SwitchCommand::Status { output } => switch_rollout::status(*output, api).await,
        SwitchCommand::Pause(args) => control(Action::Pause, "pause the rollout", args, api).await,
        SwitchCommand::Resume(args) => control(Action::Resume, "resume the rollout", args, api).await,
        SwitchCommand::Rollback(args) => control(Action::RollBack, "roll back", args, api).await,
        SwitchCommand::Cancel(args) => control(Action::Cancel, "cancel the rollout", args, api).await,
        // `switch::offline` has done them.
        SwitchCommand::List { .. }
        | SwitchCommand::Explain { .. }
        | SwitchCommand::Check { .. }
        | SwitchCommand::Diff { .. }
        | SwitchCommand::Prove { .. } => Ok(()),
    }
}

/// `switch render NAME` without a file: what the controller renders.
async fn rendered(args: &SwitchRender, api: &Api) -> Result<(), Error> {
    let name = args.name.clone().unwrap_or_default();
    let answer = repeat(format!("render switch `{name}`"), |_| {
        let (mut client, request) = (api.switches(), v1::RenderSwitchRequest { name: name.clone() });
        async move { client.render_switch(request).await }
    })
    .await?;
    let files: Vec<(String, String)> =
        answer.files.into_iter().map(|file| (file.name, file.content)).collect();
    match &args.out {
        Some(out) => {
            put(out, &name, &files)?;
            eprintln!("{} files written", files.len());
            Ok(())
        }
        None => shown(&files, args.frr).map_or(Ok(()), print),
    }
}
