//! Emptying servers: no new job comes, and what runs there ends, or goes on elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{Names, many};
use proto_wire::v1::{self, node_event};

use super::{
    get, node,
    wait::{Progress, within},
    watch::Resumer,
};
use crate::{
    args::DrainNodes,
    client::{Api, JobRef, repeat},
    error::Error,
};

/// `node drain NODE...`.
pub async fn run(args: &DrainNodes, api: &Api) -> Result<(), Error> {
    let names = get::node_names(&args.nodes)?;
    // All must be there before one of them is changed.
    for name in &names {
        get::node(name, api).await?;
    }
    for name in &names {
        node::schedulable(name, Some(&args.reason), api).await?;
    }
    if args.requeue {
        requeue(&names, api).await?;
    }
    if args.no_wait {
        return Ok(());
    }
    let what = format!("draining {}", folded(&names));
    until(&what, &names, args.timeout, api, |node| holders(node).is_empty(), words).await?;
    eprintln!("{}: nothing runs there", folded(&names));
    Ok(())
}

/// `n[0-3]`.
pub fn folded(names: &[String]) -> String {
    Names::of(names).to_string()
}

/// The jobs that hold something on a server.
pub fn holders(node: &v1::Node) -> BTreeSet<JobRef> {
    let holds = node.status.iter().flat_map(|status| &status.holds);
    holds.map(|hold| JobRef { tenant: hold.tenant.clone(), name: hold.job.clone() }).collect()
}

/// Stops what runs there, and queues it again.
async fn requeue(names: &[String], api: &Api) -> Result<(), Error> {
    let mut jobs = BTreeSet::new();
    for name in names {
        jobs.extend(holders(&get::node(name, api).await?));
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
            Err(error) if matches!(error.exit_code(), 3 | 5) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What is still there, in one line.
fn words(waiting: &BTreeMap<String, v1::Node>) -> String {
    let jobs: BTreeSet<JobRef> = waiting.values().flat_map(holders).collect();
    let names: Vec<String> = waiting.keys().cloned().collect();
    let some: Vec<String> = jobs.iter().take(4).map(ToString::to_string).collect();
    let more = if jobs.len() > 4 { ", ..." } else { "" };
    format!("{}: {} ({}{more})", folded(&names), many(jobs.len(), "job"), some.join(", "))
}

/// Waits until something is so of every one of these servers; what is shown on the way is said by `words` of those of which it is not so.
pub async fn until(
    what: &str,
    names: &[String],
    limit: Option<std::time::Duration>,
    api: &Api,
    done: impl Fn(&v1::Node) -> bool,
    words: impl Fn(&BTreeMap<String, v1::Node>) -> String,
) -> Result<(), Error> {
    let wait = async {
        let progress = Progress::new();
        let mut left = Left {
            names,
            unseen: names.iter().cloned().collect(),
            waiting: BTreeMap::new(),
            last: String::new(),
        };
        let mut resumer = Resumer::new(0);
        loop {
            let request = v1::WatchNodesRequest { after_revision: resumer.revision };
            let lost = match api.streaming().nodes().watch_nodes(request).await {
                Err(status) => Some(status),
                Ok(answer) => {
                    let mut stream = answer.into_inner();
                    loop {
                        let event = match stream.message().await {
                            Err(status) => break Some(status),
                            Ok(None) => break None,
                            Ok(Some(event)) => event,
                        };
                        resumer.arrived(event.revision);
                        left.take(event, &done);
                        if left.is_over() {
                            return Ok(());
                        }
                        left.say(&progress, &words);
                    }
                }
            };
            resumer.lost(what, lost).await?;
        }
    };
    within(what, "; `railctl get nodes` shows how far it is", limit, wait).await
}

/// What is not so yet.
struct Left<'a> {
    names: &'a [String],
    /// Nothing is known of these yet.
    unseen: BTreeSet<String>,
    /// Of these it is not so.
    waiting: BTreeMap<String, v1::Node>,
    /// What was said last.
    last: String,
}

impl Left<'_> {
    fn take(&mut self, event: v1::NodeEvent, done: impl Fn(&v1::Node) -> bool) {
        let kind = event.r#type();
        if let Some(node) = event.node {
            let name = node.metadata.clone().unwrap_or_default().name;
            self.unseen.remove(&name);
            self.waiting.remove(&name);
            if self.names.contains(&name) && kind != node_event::Type::Delete && !done(&node) {
                self.waiting.insert(name, node);
            }
        }
        if kind == node_event::Type::Synced {
            // What the list of all does not have is gone.
            self.unseen.clear();
        }
    }

    fn is_over(&self) -> bool {
        self.unseen.is_empty() && self.waiting.is_empty()
    }

    fn say(&mut self, progress: &Progress, words: impl Fn(&BTreeMap<String, v1::Node>) -> String) {
        let text = words(&self.waiting);
        if self.unseen.is_empty() && text != self.last {
            progress.say(&text);
            self.last = text;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::node_for_tests as node;

    #[test]
    fn a_server_is_waited_for_until_nothing_runs_there() {
        let names = ["n0".to_owned(), "n1".to_owned()];
        let unseen = names.iter().cloned().collect();
        let mut left = Left { names: &names, unseen, waiting: BTreeMap::new(), last: String::new() };
        let mut take = |kind: node_event::Type, node: Option<v1::Node>| {
            left.take(v1::NodeEvent { r#type: kind.into(), node, revision: 1 }, |node| {
                holders(node).is_empty()
            });
            (left.is_over(), words(&left.waiting))
        };
        let empty = |name| {
            let mut node = node(name);
            node.status.get_or_insert_default().holds.clear();
            Some(node)
        };
        assert_eq!(take(node_event::Type::Put, Some(node("n0"))), (false, "n0: 1 job (nlp/sum)".to_owned()));
        assert!(!take(node_event::Type::Put, Some(node("n7"))).0, "others do not matter");
        assert!(!take(node_event::Type::Put, empty("n0")).0, "nothing is known of n1");
        assert!(take(node_event::Type::Synced, None).0, "n1 is not there any more");
        assert!(!take(node_event::Type::Put, Some(node("n1"))).0);
        assert!(take(node_event::Type::Delete, Some(node("n1"))).0);
    }
}
