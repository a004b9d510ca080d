//! Servers: letting them join, and taking them in and out of use.

use proto_wire::v1;

use super::{cancel::duration, get};
use crate::{
    args::NodeCommand,
    client::{Api, once},
    error::Error,
    output::print,
    render,
};

/// `node token|cordon|uncordon`.
pub async fn run(command: &NodeCommand, api: &Api) -> Result<(), Error> {
    match command {
        NodeCommand::Token { name, lifetime, output } => {
            let lifetime = lifetime.map(duration).transpose()?;
            let request = v1::CreateJoinTokenRequest { node: name.clone(), lifetime };
            let answer =
                once(format!("make a join token for `{name}`"), api.nodes().create_join_token(request))
                    .await?;
            eprintln!(
                "on {name}: rail-node-agent run --node {name} --controller ENDPOINT --join-token TOKEN --ca-pin PIN"
            );
            let table = |_| format!("token   {}\nca-pin  {}\n", answer.token, answer.ca_pin);
            let names = || vec![answer.token.clone()];
            print(&render::render(*output, &answer, "rail.v1.CreateJoinTokenResponse", names, table)?)
        }
        NodeCommand::Cordon { name, reason } => schedulable(name, Some(reason), api).await,
        NodeCommand::Uncordon { name } => schedulable(name, None, api).await,
    }
}

/// Changes the spec as it was just read; somebody else's change in between is a conflict.
async fn schedulable(name: &str, cordon: Option<&String>, api: &Api) -> Result<(), Error> {
    let node = get::node(name, api).await?;
    let version = node.metadata.unwrap_or_default().resource_version;
    let mut spec = node.spec.unwrap_or_default();
    spec.unschedulable = cordon.is_some();
    spec.reason = cordon.cloned().unwrap_or_default();
    let mut request =
        v1::UpdateNodeRequest { name: name.to_owned(), spec: Some(spec), if_resource_version: version, parts: Vec::new() };
    let mut done = once(format!("update node `{name}`"), api.nodes().update_node(request.clone())).await;
    // A heartbeat changes the version too: only the spec matters here, and it is written whole.
    if done.as_ref().is_err_and(|error| error.exit_code() == 5) {
        request.if_resource_version = 0;
        done = once(format!("update node `{name}`"), api.nodes().update_node(request)).await;
    }
    done?;
    match cordon {
        Some(_) => eprintln!("node {name}: no new job is placed on it; running ones go on"),
        None => eprintln!("node {name} may be used again"),
    }
    Ok(())
}
