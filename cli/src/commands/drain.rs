//! Emptying servers: no new job comes, and what runs there ends, or goes on elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proto_model::{Names, many};
use proto_wire::v1;

use super::{
    lookup,
    progress::{Progress, within},
};
use crate::{
    args::DrainNodes,
    client::{Api, JobRef, once, repeat},
    error::Error,
};

/// `node drain NODE...`: no new job comes, and it waits until nothing runs there.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer, before anything is changed if a server is not there; [`Error::Timeout`] if
/// the servers are not empty in time.
pub async fn run(args: &DrainNodes, api: &Api) -> Result<(), Error> {
    let names = lookup::node_names(&args.nodes)?;
    // All must be there before one of them is changed.
    for name in &names {
        lookup::node(name, api).await?;
    }
    for name in &names {
        schedulable(name, Some(&args.reason), api).await?;
    }
    if args.requeue {
        requeue(&names, api).await?;
    }
    if args.no_wait {
        return Ok(());
    }
    let what = format!("draining {}", folded(&names));
    until(&what, &names, args.timeout, api, is_empty, words).await?;
    eprintln!("{}: nothing runs there", folded(&names));
    Ok(())
}

/// The names as one list with ranges, for example `n[0-3]`.
pub fn folded(names: &[String]) -> String {
    Names::of(names).to_string()
}

/// The jobs that hold something on a server.
pub fn holders(node: &v1::Node) -> BTreeSet<JobRef> {
    let holds = node.status.iter().flat_map(|status| &status.holds);
    holds.map(|hold| JobRef { tenant: hold.tenant.clone(), name: hold.job.clone() }).collect()
}

/// Nothing runs there; nothing does on one that is there no more.
pub fn is_empty(node: Option<&v1::Node>) -> bool {
    node.is_none_or(|node| holders(node).is_empty())
}

/// Stops what runs there, and queues it again.
async fn requeue(names: &[String], api: &Api) -> Result<(), Error> {
    let mut jobs = BTreeSet::new();
    for name in names {
        jobs.extend(holders(&lookup::node(name, api).await?));
    }
    for job in jobs {
        let request = v1::RequeueJobRequest {
            name: job.name.clone(),
            tenant: job.tenant.clone(),
            reason: format!("{} are drained", folded(names)),
            request_id: uuid::Uuid::new_v4().to_string(),
            ..v1::RequeueJobRequest::default()
        };
        let done = repeat(format!("requeue job `{job}`"), |_| {
            let (mut client, request) = (api.jobs(), request.clone());
            async move { client.requeue_job(request).await }
        })
        .await;
        match done {
            Ok(_) => eprintln!("job {job} is queued again"),
            // It has ended meanwhile.
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What is still there, in one line.
fn words(waiting: &BTreeMap<String, Option<v1::Node>>) -> String {
    let jobs: BTreeSet<JobRef> = waiting.values().flatten().flat_map(holders).collect();
    let names: Vec<String> = waiting.keys().cloned().collect();
    let some: Vec<String> = jobs.iter().take(4).map(ToString::to_string).collect();
    let more = if jobs.len() > 4 { ", ..." } else { "" };
    format!("{}: {} ({}{more})", folded(&names), many(jobs.len(), "job"), some.join(", "))
}

/// Above so many servers a list of all is asked for, in place of one after the other.
const ONE_BY_ONE: usize = 8;
/// How often they are asked for: what runs on a server is no part of what is stored of it, so that no watch tells of it.
const CHECK: Duration = Duration::from_secs(1);

/// Waits until something is so of every one of these servers; what is shown on the way is said by `words` of those of which it is not so. Nothing
/// is known of one that is not there.
///
/// # Errors
/// [`Error::Timeout`] after `limit`; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn until(
    what: &str,
    names: &[String],
    limit: Option<Duration>,
    api: &Api,
    done: impl Fn(Option<&v1::Node>) -> bool,
    words: impl Fn(&BTreeMap<String, Option<v1::Node>>) -> String,
) -> Result<(), Error> {
    let wait = async {
        let (progress, mut last) = (Progress::new(), String::new());
        loop {
            let mut there = now(names, api).await?;
            let mut waiting: BTreeMap<String, Option<v1::Node>> =
                names.iter().map(|name| (name.clone(), there.remove(name))).collect();
            waiting.retain(|_, node| !done(node.as_ref()));
            if waiting.is_empty() {
                return Ok(());
            }
            let text = words(&waiting);
            if text != last {
                progress.say(&text);
                last = text;
            }
            tokio::time::sleep(CHECK).await;
        }
    };
    within(what, "; `railctl get nodes` shows how far it is", limit, wait).await
}

/// Those of the servers that are there, as they are now.
async fn now(names: &[String], api: &Api) -> Result<BTreeMap<String, v1::Node>, Error> {
    let name = |node: &v1::Node| node.metadata.clone().unwrap_or_default().name;
    if names.len() > ONE_BY_ONE {
        let mut all: BTreeMap<String, v1::Node> =
            api.list_nodes().await?.nodes.into_iter().map(|node| (name(&node), node)).collect();
        let wanted: BTreeSet<&String> = names.iter().collect();
        all.retain(|name, _| wanted.contains(name));
        return Ok(all);
    }
    let mut found = BTreeMap::new();
    for name in names {
        match lookup::node(name, api).await {
            Ok(node) => drop(found.insert(name.clone(), node)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Changes the spec as it was just read; somebody else's change in between is a conflict.
pub(crate) async fn schedulable(name: &str, cordon: Option<&String>, api: &Api) -> Result<(), Error> {
    let node = lookup::node(name, api).await?;
    let version = node.metadata.unwrap_or_default().resource_version;
    let spec = v1::NodeSpec {
        unschedulable: cordon.is_some(),
        reason: cordon.cloned().unwrap_or_default(),
        ..v1::NodeSpec::default()
    };
    let mut request = v1::UpdateNodeRequest {
        name: name.to_owned(),
        spec: Some(spec),
        if_resource_version: version,
        parts: Vec::new(),
    };
    let mut done = once(format!("update node `{name}`"), api.nodes().update_node(request.clone())).await;
    // A heartbeat changes the version too: only the spec matters here, and it is written whole.
    if done.as_ref().is_err_and(Error::is_conflict) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::node_for_tests as node;

    #[test]
    fn what_still_runs_is_told_in_one_line() {
        let waiting: BTreeMap<String, Option<v1::Node>> =
            ["n0", "n1"].into_iter().map(|name| (name.to_owned(), Some(node(name)))).collect();
        assert_eq!(words(&waiting), "n[0-1]: 1 job (nlp/sum)");
        assert!(!is_empty(Some(&node("n0"))) && is_empty(None));
    }
}
