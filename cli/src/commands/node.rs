//! Servers: letting them join, and taking them in and out of use.

use proto_wire::v1;

use super::{
    cancel::duration,
    drain::{self, schedulable},
    get, lookup,
};
use crate::{
    args::NodeCommand,
    client::{Api, once},
    error::Error,
    output::print,
    render,
};

/// `node token|cordon|uncordon` and the other commands on nodes.
///
/// # Errors
/// [`Error::Usage`] for what is not a label or a taint; [`Error::NotFound`] for a taint that is not there; [`Error::Rpc`] if the
/// controller refuses or does not answer.
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
        NodeCommand::Ls(args) => get::all_nodes(args, api).await,
        NodeCommand::Cordon { nodes, reason } => {
            each(nodes, async |name: &str| schedulable(name, Some(reason), api).await).await
        }
        NodeCommand::Drain(args) => drain::run(args, api).await,
        NodeCommand::Label { node, changes } => {
            each(std::slice::from_ref(node), async |name: &str| label(name, changes, api).await).await
        }
        NodeCommand::Taint { node, changes } => {
            each(std::slice::from_ref(node), async |name: &str| taint(name, changes, api).await).await
        }
        NodeCommand::Return { nodes } => each(nodes, async |name: &str| take_back(name, api).await).await,
        NodeCommand::Uncordon { nodes } => {
            each(nodes, async |name: &str| schedulable(name, None, api).await).await
        }
    }
}

/// Does something to each server that the lists name: all are tried, the first error is given.
pub(super) async fn each(
    lists: &[String],
    act: impl AsyncFn(&str) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut first = None;
    for name in lookup::node_names(lists)? {
        if let Err(error) = act(&name).await
            && let Some(earlier) = first.replace(error)
        {
            earlier.lines().iter().for_each(|line| eprintln!("{line}"));
        }
    }
    first.map_or(Ok(()), Err)
}

async fn take_back(name: &str, api: &Api) -> Result<(), Error> {
    let request = v1::ReturnNodeRequest { name: name.to_owned() };
    once(format!("return node `{name}`"), api.nodes().return_node(request)).await?;
    eprintln!("node {name} is in service again");
    Ok(())
}

/// One change of labels or taints.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    Set(&'a str, &'a str),
    Remove(&'a str),
}

/// Reads `KEY=VALUE`, `KEY-`, and where a value may be missing `KEY`.
pub(super) fn change(text: &str, bare: bool) -> Result<Change<'_>, Error> {
    match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) if !key.is_empty() => Ok(Change::Set(key, value)),
        (None, Some(key)) if !key.is_empty() => Ok(Change::Remove(key)),
        (None, None) if bare && !text.is_empty() => Ok(Change::Set(text, "")),
        _ => {
            let bare = if bare { "KEY, " } else { "" };
            Err(Error::Usage(format!("`{text}`: write {bare}KEY=VALUE, or KEY- to remove it")))
        }
    }
}

/// Writes labels or taints as they were just read and changed; a change by somebody else meanwhile is tried once more.
async fn update(
    name: &str,
    part: v1::update_node_request::Part,
    edit: impl Fn(&mut v1::NodeSpec) -> Result<(), Error>,
    api: &Api,
) -> Result<(), Error> {
    let mut attempts = 0;
    loop {
        let node = lookup::node(name, api).await?;
        let mut spec = node.spec.unwrap_or_default();
        edit(&mut spec)?;
        match part {
            v1::update_node_request::Part::Labels => spec.taints.clear(),
            _ => spec.labels.clear(),
        }
        let request = v1::UpdateNodeRequest {
            name: name.to_owned(),
            spec: Some(spec),
            if_resource_version: node.metadata.unwrap_or_default().resource_version,
            parts: vec![part.into()],
        };
        attempts += 1;
        match once(format!("update node `{name}`"), api.nodes().update_node(request)).await {
            Err(error) if error.is_conflict() && attempts < 10 => {}
            done => return done.map(drop),
        }
    }
}

pub(super) async fn label(name: &str, changes: &[String], api: &Api) -> Result<(), Error> {
    let changes: Vec<Change> = changes.iter().map(|text| change(text, false)).collect::<Result<_, _>>()?;
    if changes.is_empty() {
        let spec = lookup::node(name, api).await?.spec.unwrap_or_default();
        let mut lines: Vec<String> =
            spec.labels.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        lines.sort();
        return print(&lines.concat());
    }
    let edit = |spec: &mut v1::NodeSpec| {
        for change in &changes {
            match change {
                Change::Set(key, value) => drop(spec.labels.insert((*key).to_owned(), (*value).to_owned())),
                Change::Remove(key) => {
                    let gone = spec.labels.remove(*key);
                    gone.ok_or_else(|| Error::NotFound(format!("node `{name}` has no label `{key}`")))?;
                }
            }
        }
        Ok(())
    };
    update(name, v1::update_node_request::Part::Labels, edit, api).await?;
    eprintln!("node {name} is labelled");
    Ok(())
}

async fn taint(name: &str, changes: &[String], api: &Api) -> Result<(), Error> {
    let changes: Vec<Change> = changes.iter().map(|text| change(text, true)).collect::<Result<_, _>>()?;
    if changes.is_empty() {
        let spec = lookup::node(name, api).await?.spec.unwrap_or_default();
        let shown = |taint: &v1::Taint| match taint.value.as_str() {
            "" => format!("{}\n", taint.key),
            value => format!("{}={value}\n", taint.key),
        };
        return print(&spec.taints.iter().map(shown).collect::<String>());
    }
    let edit = |spec: &mut v1::NodeSpec| {
        for change in &changes {
            let (Change::Set(key, _) | Change::Remove(key)) = change;
            let before = spec.taints.len();
            spec.taints.retain(|taint| taint.key != *key);
            match change {
                Change::Set(key, value) => {
                    spec.taints.push(v1::Taint { key: (*key).to_owned(), value: (*value).to_owned() });
                }
                Change::Remove(key) if spec.taints.len() == before => {
                    return Err(Error::NotFound(format!("node `{name}` has no taint `{key}`")));
                }
                Change::Remove(_) => {}
            }
        }
        Ok(())
    };
    update(name, v1::update_node_request::Part::Taints, edit, api).await?;
    eprintln!("node {name} is tainted as asked; what runs there goes on");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read() {
        assert_eq!(change("gpu=h100", false).unwrap(), Change::Set("gpu", "h100"));
        assert_eq!(change("gpu-", false).unwrap(), Change::Remove("gpu"));
        assert_eq!(change("gpu=a-", false).unwrap(), Change::Set("gpu", "a-"));
        assert_eq!(change("slow", true).unwrap(), Change::Set("slow", ""));
        for bad in ["", "=x", "-", "slow"] {
            assert!(change(bad, false).is_err(), "{bad}");
        }
    }
}
