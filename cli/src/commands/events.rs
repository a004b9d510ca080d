//! What has happened, and what happens.

use std::collections::{BTreeMap, BTreeSet};

use proto_wire::v1::{self, job_event, node_event};

use super::{
    array::{self, Named},
    lookup,
    watch::{Resumer, open_jobs},
};
use crate::{
    args::{EventNoun, EventOutput, Events},
    client::{Api, JobRef},
    error::Error,
    output::{now, print},
    render::{self, Event},
};

/// `events [KIND [NAME...]]`: what has happened to jobs and nodes, and with `--watch` what happens.
///
/// # Errors
/// [`Error::Usage`] if the options contradict each other; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(args: &Events, api: &Api) -> Result<(), Error> {
    let names = args.noun.as_ref().map_or(Ok(Vec::new()), |noun| noun.names(&args.names))?;
    let noun = args.noun.as_ref().map(|noun| noun.kind);
    if args.all_tenants && noun == Some(EventNoun::Nodes) {
        return Err(Error::Usage("--all-tenants is for jobs".to_owned()));
    }
    let since = args.since.map(|since| since.time(now())).map_or((0, 0), |time| (time.seconds, time.nanos));
    let mut reported = PrintedEvents { output: args.output, since, known: BTreeMap::new() };
    let tenant = if args.all_tenants { "" } else { &api.tenant };
    let jobs = if noun == Some(EventNoun::Nodes) { None } else { Some(jobs(&names, tenant, api).await?) };
    let nodes = match noun {
        Some(EventNoun::Jobs) => None,
        Some(EventNoun::Nodes) => Some(nodes(&names, api).await?),
        // Everything is asked for: whoever may not see servers sees jobs.
        None => nodes(&[], api).await.ok(),
    };
    let mut all: Vec<Event> = jobs.iter().flatten().flat_map(render::job_events).collect();
    all.extend(nodes.iter().flatten().flat_map(render::node_events));
    all.sort();
    reported.report(all)?;
    if !args.watch {
        return Ok(());
    }
    let wanted: Option<BTreeSet<JobRef>> =
        jobs.as_ref().filter(|_| !names.is_empty()).map(|jobs| jobs.iter().map(JobRef::of).collect());
    let servers: Option<Vec<String>> =
        nodes.as_ref().filter(|_| !names.is_empty()).map(|_| lookup::node_names(&names)).transpose()?;
    follow(jobs.is_some(), nodes.is_some(), tenant, (wanted, servers), &mut reported, api).await
}

async fn jobs(names: &[String], tenant: &str, api: &Api) -> Result<Vec<v1::Job>, Error> {
    if names.is_empty() {
        return Ok(api.list_jobs(tenant, &[]).await?.jobs);
    }
    let mut jobs = Vec::new();
    for name in names {
        match array::find(name, api).await? {
            Named::Job(job) => jobs.push(*job),
            Named::Array(array) => jobs.extend(array.jobs),
        }
    }
    Ok(jobs)
}

async fn nodes(names: &[String], api: &Api) -> Result<Vec<v1::Node>, Error> {
    if names.is_empty() {
        return Ok(api.list_nodes().await?.nodes);
    }
    let mut nodes = Vec::new();
    for name in lookup::node_names(names)? {
        nodes.push(lookup::node(&name, api).await?);
    }
    Ok(nodes)
}

/// Follows jobs, servers or both; Ctrl-C ends it.
async fn follow(
    of_jobs: bool,
    of_nodes: bool,
    tenant: &str,
    (wanted, servers): (Option<BTreeSet<JobRef>>, Option<Vec<String>>),
    reported: &mut PrintedEvents,
    api: &Api,
) -> Result<(), Error> {
    // One of them is shown at a time, whichever comes.
    let (sender, mut seen) = tokio::sync::mpsc::channel::<Vec<Event>>(64);
    let to_jobs = sender.clone();
    let jobs = async move {
        let mut resumer = Resumer::new(0);
        loop {
            let lost = match open_jobs(api, tenant, "", resumer.revision).await {
                Err(status) => Some(status),
                Ok(mut stream) => loop {
                    match stream.message().await {
                        Err(status) => break Some(status),
                        Ok(None) => break None,
                        Ok(Some(event)) => {
                            resumer.arrived(event.revision, event.r#type() == job_event::Type::Synced);
                            let Some(job) = event.job else { continue };
                            let is_wanted =
                                wanted.as_ref().is_none_or(|wanted| wanted.contains(&JobRef::of(&job)));
                            if is_wanted && to_jobs.send(render::job_events(&job)).await.is_err() {
                                return Ok(());
                            }
                        }
                    }
                },
            };
            resumer.lost("watch jobs", lost).await?;
        }
    };
    let nodes = async move {
        let mut resumer = Resumer::new(0);
        loop {
            let request = v1::WatchNodesRequest { after_revision: resumer.revision };
            let lost =
                match api.streaming().nodes().watch_nodes(request).await.map(tonic::Response::into_inner) {
                    Err(status) => Some(status),
                    Ok(mut stream) => loop {
                        match stream.message().await {
                            Err(status) => break Some(status),
                            Ok(None) => break None,
                            Ok(Some(event)) => {
                                resumer.arrived(event.revision, event.r#type() == node_event::Type::Synced);
                                let Some(node) = event.node else { continue };
                                let name = node.metadata.clone().unwrap_or_default().name;
                                let is_wanted =
                                    servers.as_ref().is_none_or(|servers| servers.contains(&name));
                                if is_wanted && sender.send(render::node_events(&node)).await.is_err() {
                                    return Ok(());
                                }
                            }
                        }
                    },
                };
            resumer.lost("watch nodes", lost).await?;
        }
    };
    let report = async {
        while let Some(events) = seen.recv().await {
            reported.report(events)?;
        }
        Ok(())
    };
    tokio::select! {
        done = jobs, if of_jobs => done,
        done = nodes, if of_nodes => done,
        done = report => done,
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
    }
}

/// What was printed already, by job and server, of what its status says now; what it said before is forgotten.
struct PrintedEvents {
    output: EventOutput,
    since: (i64, i32),
    known: BTreeMap<String, BTreeSet<Event>>,
}

impl PrintedEvents {
    /// Prints those that were not printed yet.
    fn report(&mut self, events: Vec<Event>) -> Result<(), Error> {
        let mut fresh: BTreeMap<String, BTreeSet<Event>> = BTreeMap::new();
        let mut text = String::new();
        for event in events {
            let is_known = self.known.get(&event.object).is_some_and(|known| known.contains(&event));
            if !is_known && event.time >= self.since {
                text.push_str(&match self.output {
                    EventOutput::Table => event.line(),
                    EventOutput::Json => event.json(),
                });
            }
            fresh.entry(event.object.clone()).or_default().insert(event);
        }
        self.known.extend(fresh);
        print(&text)
    }
}
