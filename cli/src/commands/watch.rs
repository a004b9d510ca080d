//! Lists as they change: first what is, then every change; resumed by revision when the connection is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proto_rpc::{ErrorClass, Jitter, RetryPolicy, RpcError};
use proto_wire::v1::{self, job_event, node_event};
use tonic::{Status, Streaming};

use super::filter::{job_name, node_labelled, phase_number, wanted};
use crate::{
    args::{Get, Output},
    client::{Api, JobRef},
    error::Error,
    output::{now, print},
    render,
};

/// A connection that cannot be had again for so long ends the watch.
const AWAY_LIMIT: Duration = Duration::from_secs(60);

/// Keeps a stream of events alive. The caller opens one after a revision; errors that trying again can heal are
/// healed, others are given.
pub struct Resumer {
    policy: RetryPolicy,
    jitter: Jitter,
    failures: u32,
    away_since: Option<std::time::Instant>,
    /// It is not said on standard error that the connection was lost: the caller says it.
    quiet: bool,
    /// All changes up to it arrived; the next stream begins after it. 0: with the present state.
    pub revision: u64,
}

impl Resumer {
    /// From the present state, or after a revision.
    pub fn new(revision: u64) -> Self {
        Self {
            policy: RetryPolicy::default(),
            jitter: Jitter::from_os(),
            failures: 0,
            away_since: None,
            quiet: false,
            revision,
        }
    }

    /// From the present state, for a caller that itself says when the connection is lost.
    pub fn quiet() -> Self {
        Self { quiet: true, ..Self::new(0) }
    }

    /// Notes that an event of this revision arrived.
    ///
    /// What is there comes in the order of names, each with the revision of its own last change, so that there is nothing to go on behind
    /// before SYNCED. After it further changes of the same revision may follow, so that a stream goes on behind the one before.
    pub fn arrived(&mut self, revision: u64, synced: bool) {
        if !synced && self.revision == 0 {
            // The next stream begins with it again: whatever is always lost on the way is waited for ever longer.
            self.away_since = None;
            return;
        }
        self.works();
        let reached = if synced { revision } else { revision.saturating_sub(1) };
        self.revision = self.revision.max(reached);
    }

    /// Notes that the connection works.
    pub fn works(&mut self) {
        (self.failures, self.away_since) = (0, None);
    }

    /// Waits before the next attempt, or gives the error that ends the watch. A clean end of the stream is no status.
    ///
    /// # Errors
    /// The error of the stream if trying again cannot heal it.
    pub async fn lost(&mut self, doing: &str, status: Option<Status>) -> Result<(), Error> {
        if let Some(status) = status {
            let class = RpcError::from_status(&status).class;
            match class {
                // The revision is too old to be resumed: begin with the present state.
                ErrorClass::Gone => self.revision = 0,
                ErrorClass::Unavailable
                | ErrorClass::Overloaded
                | ErrorClass::Internal
                | ErrorClass::Cancelled
                | ErrorClass::Timeout => {
                    let since = *self.away_since.get_or_insert_with(std::time::Instant::now);
                    if since.elapsed() >= AWAY_LIMIT {
                        return Err(Error::rpc(doing, &status));
                    }
                    if self.failures == 0 && !self.quiet {
                        eprintln!("the connection was lost; trying again: {}", status.message());
                    }
                }
                _ => return Err(Error::rpc(doing, &status)),
            }
        }
        self.failures = self.failures.saturating_add(1);
        let ceiling = self.policy.backoff_ceiling(self.failures);
        tokio::time::sleep(ceiling / 2 + self.jitter.up_to(ceiling / 2)).await;
        Ok(())
    }
}

/// Opens a watch of jobs.
///
/// # Errors
/// The status with which the controller refuses the watch, or why it cannot be reached.
pub async fn open_jobs(
    api: &Api,
    tenant: &str,
    name: &str,
    after: u64,
) -> Result<Streaming<v1::JobEvent>, Status> {
    let (tenant, name) = (tenant.to_owned(), name.to_owned());
    open(api, v1::WatchJobsRequest { tenant, name, after_revision: after, array: String::new() }).await
}

/// The same as it is asked for.
///
/// # Errors
/// The status with which the controller refuses the watch, or why it cannot be reached.
pub async fn open(api: &Api, request: v1::WatchJobsRequest) -> Result<Streaming<v1::JobEvent>, Status> {
    api.streaming().jobs().watch_jobs(request).await.map(tonic::Response::into_inner)
}

/// `get jobs --watch`: the jobs, then every change of them.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer and trying again does not help; [`Error::Output`] if standard output cannot
/// be written to.
pub async fn jobs(args: &Get, name: Option<&String>, output: Output, api: &Api) -> Result<(), Error> {
    let one = name.map(|name| api.job_ref(name));
    let everyone = JobRef {
        tenant: if args.all_tenants { String::new() } else { api.tenant.clone() },
        name: String::new(),
    };
    let of = one.unwrap_or(everyone);
    let phases: Vec<i32> = args.phase.iter().map(|phase| phase_number(*phase)).collect();
    let mut resumer = Resumer::new(0);
    let mut printer = Printer::new(output, output == Output::Wide);
    loop {
        let lost = match open_jobs(api, &of.tenant, &of.name, resumer.revision).await {
            Err(status) => Some(status),
            Ok(mut stream) => loop {
                match next(&mut stream).await? {
                    Err(status) => break Some(status),
                    Ok(None) => break None,
                    Ok(Some(event)) => {
                        let synced = event.r#type() == job_event::Type::Synced;
                        resumer.arrived(event.revision, synced);
                        let deleted = event.r#type() == job_event::Type::Delete;
                        let Some(job) = event.job.clone().filter(|_| !synced) else { continue };
                        let phase = job.status.as_ref().map_or(0, |status| status.phase);
                        let wanted = wanted(&job, args) && (phases.is_empty() || phases.contains(&phase));
                        if wanted {
                            printer.job(&job, &event, deleted)?;
                        }
                    }
                }
            },
        };
        resume(&mut resumer, "watch jobs", lost).await?;
    }
}

/// `get nodes --watch`: the nodes, then every change of them.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer and trying again does not help; [`Error::Output`] if standard output cannot
/// be written to.
pub async fn nodes(args: &Get, names: &[String], output: Output, api: &Api) -> Result<(), Error> {
    let mut resumer = Resumer::new(0);
    let mut printer = Printer::new(output, output == Output::Wide);
    loop {
        let request = v1::WatchNodesRequest { after_revision: resumer.revision };
        let lost = match api.streaming().nodes().watch_nodes(request).await.map(tonic::Response::into_inner) {
            Err(status) => Some(status),
            Ok(mut stream) => loop {
                match next(&mut stream).await? {
                    Err(status) => break Some(status),
                    Ok(None) => break None,
                    Ok(Some(event)) => {
                        resumer.arrived(event.revision, event.r#type() == node_event::Type::Synced);
                        let Some(node) = event.node.clone() else { continue };
                        let name = node.metadata.clone().unwrap_or_default().name;
                        let wanted =
                            (names.is_empty() || names.contains(&name)) && node_labelled(&node, &args.labels);
                        if wanted {
                            printer.node(&node, &event)?;
                        }
                    }
                }
            },
        };
        resume(&mut resumer, "watch nodes", lost).await?;
    }
}

/// Waits until the next attempt; Ctrl-C ends the command then too.
async fn resume(resumer: &mut Resumer, doing: &str, lost: Option<Status>) -> Result<(), Error> {
    tokio::select! {
        done = resumer.lost(doing, lost) => done,
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
    }
}

/// The next event; Ctrl-C ends the command.
async fn next<T>(stream: &mut Streaming<T>) -> Result<Result<Option<T>, Status>, Error> {
    tokio::select! {
        event = stream.message() => Ok(event),
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
    }
}

/// Prints changes: a table that goes on, or one JSON document per line. What a resumed watch tells again is left
/// out.
struct Printer {
    output: Output,
    wide: bool,
    header: bool,
    seen: BTreeMap<String, u64>,
    /// The revision of the last DELETE, and of what it was: one revision may delete many things.
    deleted: (u64, BTreeSet<String>),
}

impl Printer {
    fn new(output: Output, wide: bool) -> Self {
        Self { output, wide, header: false, seen: BTreeMap::new(), deleted: (0, BTreeSet::new()) }
    }

    /// True if this version, or a DELETE of this revision, was not yet printed.
    fn fresh(&mut self, metadata: Option<&v1::Metadata>, deleted: bool, revision: u64) -> bool {
        let Some(metadata) = metadata else { return true };
        let key = format!("{}/{}/{}", metadata.tenant, metadata.name, metadata.uid);
        if deleted {
            self.seen.remove(&key);
            if self.deleted.0 != revision {
                self.deleted = (revision, BTreeSet::new());
            }
            return self.deleted.1.insert(key);
        }
        let version = metadata.resource_version;
        self.seen.insert(key, version).is_none_or(|old| version == 0 || version > old)
    }

    fn job(&mut self, job: &v1::Job, event: &v1::JobEvent, deleted: bool) -> Result<(), Error> {
        if !self.fresh(job.metadata.as_ref(), deleted, event.revision) {
            return Ok(());
        }
        match self.output {
            Output::Json | Output::Yaml => document(self.output, event, "rail.v1.JobEvent"),
            Output::Name => print(&format!("{}\n", job_name(job))),
            Output::Table | Output::Wide => {
                let mut row = render::job_row(job, self.wide, now());
                if deleted {
                    "Deleted".clone_into(&mut row[3]);
                }
                let widths = [20, 10, 10, 10, 5, 5, 6, 5, 7];
                let header = (!self.header).then(|| render::jobs_header(self.wide));
                self.header = true;
                print(&header.into_iter().chain([row]).map(|row| line(&row, &widths)).collect::<String>())
            }
        }
    }

    fn node(&mut self, node: &v1::Node, event: &v1::NodeEvent) -> Result<(), Error> {
        let deleted = event.r#type() == node_event::Type::Delete;
        if !self.fresh(node.metadata.as_ref(), deleted, event.revision) {
            return Ok(());
        }
        match self.output {
            Output::Json | Output::Yaml => document(self.output, event, "rail.v1.NodeEvent"),
            Output::Name => print(&format!("node/{}\n", node.metadata.clone().unwrap_or_default().name)),
            Output::Table | Output::Wide => {
                let table = render::nodes(std::slice::from_ref(node), self.wide, now());
                let table = if self.header { table.without_header() } else { table };
                self.header = true;
                let widths = [16, 15, 5, 5, 9, 5];
                print(&table.rows().iter().map(|row| line(row, &widths)).collect::<String>())
            }
        }
    }
}

fn document<M: prost::Message>(output: Output, message: &M, full_name: &str) -> Result<(), Error> {
    match output {
        Output::Yaml => print(&format!("---\n{}", render::to_yaml(message, full_name)?)),
        _ => print(&format!("{}\n", render::to_whole_value(message, full_name)?)),
    }
}

/// Cells of fixed width, for a table whose end is not known.
fn line(cells: &[String], widths: &[usize]) -> String {
    let cell = |(at, text): (usize, &String)| {
        let text = if text.is_empty() { "-" } else { text };
        format!("{text:<width$}", width = widths.get(at).copied().unwrap_or(0))
    };
    let joined: Vec<String> = cells.iter().enumerate().map(cell).collect();
    format!("{}\n", joined.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_not_told_again() {
        let mut printer = Printer::new(Output::Table, false);
        let version =
            |resource_version| v1::Metadata { name: "a".into(), resource_version, ..Default::default() };
        assert!(printer.fresh(Some(&version(5)), false, 5));
        assert!(!printer.fresh(Some(&version(5)), false, 5));
        assert!(printer.fresh(Some(&version(6)), false, 6));
        assert!(printer.fresh(Some(&version(6)), true, 7) && !printer.fresh(Some(&version(6)), true, 7));
        assert!(printer.fresh(Some(&version(8)), false, 8) && printer.fresh(Some(&version(8)), true, 9));
    }

    #[test]
    fn a_snapshot_that_is_lost_begins_anew() {
        let mut resumer = Resumer::new(0);
        // In the order of names: the first one changed last.
        resumer.arrived(9, false);
        resumer.arrived(2, false);
        assert_eq!(resumer.revision, 0, "more of what is there may follow");
        resumer.arrived(9, true);
        assert_eq!(resumer.revision, 9);
    }

    #[test]
    fn a_revision_that_changed_much_is_asked_for_again() {
        let mut resumer = Resumer::new(9);
        resumer.arrived(10, false);
        assert_eq!(resumer.revision, 9, "further changes of revision 10 may follow");
        resumer.arrived(10, false);
        resumer.arrived(12, false);
        assert_eq!(resumer.revision, 11);
        resumer.arrived(12, true);
        assert_eq!(resumer.revision, 12, "SYNCED says that all of it came");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_resumed_where_that_can_help() {
        let mut resumer = Resumer::new(0);
        resumer.arrived(7, true);
        resumer.arrived(3, false);
        assert_eq!(resumer.revision, 7);
        resumer.lost("watch", Some(Status::unavailable("away"))).await.unwrap();
        resumer.lost("watch", None).await.unwrap();
        assert_eq!(resumer.revision, 7);
        let gone = Status::from(RpcError::new(ErrorClass::Gone, "COMPACTED", "list again"));
        resumer.lost("watch", Some(gone)).await.unwrap();
        assert_eq!(resumer.revision, 0);
        let denied = Status::permission_denied("no");
        assert_eq!(resumer.lost("watch", Some(denied)).await.unwrap_err().exit_code(), 4);
    }
}
