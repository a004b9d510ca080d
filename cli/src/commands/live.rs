//! `get jobs --watch` and `get nodes --watch` on a terminal: one table, drawn again in place as it changes.

use proto_model::many;
use proto_wire::v1::{self, job_event, node_event};

use super::{
    array::{Counts, order},
    board::{Board, Change, Key, Window, watch},
    filter::{node_labelled, phase_number, wanted},
    progress::ended,
    screen::Size,
    watch::open_jobs,
};
use crate::{
    args::Get,
    client::{Api, JobRef},
    error::Error,
    output::now,
    render::{self, Table},
};

/// Tenant, array or name, index, name.
type JobKey = (String, String, u32, String);

impl Key for JobKey {
    /// It is not known then of which array it was.
    fn is_of(&self, deleted: &Self) -> bool {
        (&self.0, &self.3) == (&deleted.0, &deleted.3)
    }
}

/// The jobs, until Ctrl-C.
///
/// # Errors
/// As [`watch`].
pub async fn jobs(
    args: &Get,
    name: Option<&String>,
    window: Window,
    wide: bool,
    api: &Api,
) -> Result<(), Error> {
    let everyone = || JobRef {
        tenant: if args.all_tenants { String::new() } else { api.tenant.clone() },
        name: String::new(),
    };
    let of = name.map_or_else(everyone, |name| api.job_ref(name));
    let phases: Vec<i32> = args.phase.iter().map(|phase| phase_number(*phase)).collect();
    let is_shown = |job: &&v1::Job| {
        let phase = job.status.as_ref().map_or(0, |status| status.phase);
        wanted(job, args) && (phases.is_empty() || phases.contains(&phase))
    };
    let draw = |board: &Board<JobKey, v1::Job>, size: Size| {
        let mut all: Vec<&v1::Job> = board.items().filter(is_shown).collect();
        lively_first(&mut all, size);
        let head = match all.len() {
            0 => "no jobs".to_owned(),
            count => format!("{}: {}", many(count, "job"), Counts::of(all.iter().copied()).words()),
        };
        table(&head, &all, args.list.no_headers, size, |jobs| render::jobs(jobs, wide, now()))
    };
    let open = async |after: u64| open_jobs(api, &of.tenant, &of.name, after).await;
    watch("watch jobs", window, open, job_change, draw).await
}

/// The nodes, until Ctrl-C.
///
/// # Errors
/// As [`watch`].
pub async fn nodes(args: &Get, names: &[String], window: Window, wide: bool, api: &Api) -> Result<(), Error> {
    let draw = |board: &Board<String, v1::Node>, size: Size| {
        let is_shown = |node: &&v1::Node| {
            (names.is_empty() || names.contains(&node_name(node))) && node_labelled(node, &args.labels)
        };
        let all: Vec<&v1::Node> = board.items().filter(is_shown).collect();
        let ready = |node: &&&v1::Node| {
            node.status.as_ref().is_some_and(|of| of.phase() == v1::node_status::Phase::Ready)
        };
        let head = format!("{}, {} ready", many(all.len(), "node"), all.iter().filter(ready).count());
        table(&head, &all, args.list.no_headers, size, |nodes| render::nodes(nodes, wide, now()))
    };
    let open = async |after: u64| {
        let request = v1::WatchNodesRequest { after_revision: after };
        api.streaming().nodes().watch_nodes(request).await.map(tonic::Response::into_inner)
    };
    watch("watch nodes", window, open, node_change, draw).await
}

/// Where not all have room, those that have ended come last; all else stays in its order.
fn lively_first(jobs: &mut [&v1::Job], size: Size) {
    // The count, the header, and the row that stays free.
    if jobs.len() + 3 > size.rows {
        jobs.sort_by_key(|job| ended(job));
    }
}

/// As many rows as the terminal has room for at most, below one line that counts all of them.
fn table<T: Clone>(
    head: &str,
    all: &[&T],
    no_headers: bool,
    size: Size,
    table: impl FnOnce(&[T]) -> Table,
) -> (String, usize) {
    let shown: Vec<T> = all.iter().take(size.rows).map(|one| (*one).clone()).collect();
    let more = all.len() - shown.len();
    if shown.is_empty() {
        return (format!("{head}\n"), more);
    }
    let made = table(&shown);
    let made = if no_headers { made.without_header() } else { made };
    (format!("{head}\n{}", made.render("")), more)
}

fn job_change(event: v1::JobEvent) -> Option<(u64, Change<JobKey, v1::Job>)> {
    let kind = event.r#type();
    if kind == job_event::Type::Synced {
        return Some((event.revision, Change::Synced));
    }
    let job = event.job?;
    let key = order(&job);
    let change = if kind == job_event::Type::Delete { Change::Delete(key) } else { Change::Put(key, job) };
    Some((event.revision, change))
}

fn node_name(node: &v1::Node) -> String {
    node.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default()
}

fn node_change(event: v1::NodeEvent) -> Option<(u64, Change<String, v1::Node>)> {
    let kind = event.r#type();
    if kind == node_event::Type::Synced {
        return Some((event.revision, Change::Synced));
    }
    let node = event.node?;
    let key = node_name(&node);
    let change = if kind == node_event::Type::Delete { Change::Delete(key) } else { Change::Put(key, node) };
    Some((event.revision, change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_no_more_rows_than_the_terminal() {
        let names: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
        let all: Vec<&String> = names.iter().collect();
        let rows = |names: &[String]| {
            let mut table = Table::new(["NAME"]);
            names.iter().for_each(|name| table.row([name.clone()]));
            table
        };
        let size = Size { rows: 3, columns: 80 };
        assert_eq!(
            table("10 names", &all, false, size, rows),
            ("10 names\nNAME\nn0\nn1\nn2\n".to_owned(), 7)
        );
        assert_eq!(table("1 name", &all[..1], true, size, rows), ("1 name\nn0\n".to_owned(), 0));
        assert_eq!(table("no jobs", &[], false, size, rows), ("no jobs\n".to_owned(), 0));
    }

    #[test]
    fn where_there_is_no_room_for_all_those_that_go_on_are_shown() {
        let done = || {
            let mut job = render::running_job();
            job.status.get_or_insert_default().phase = v1::job_status::Phase::Completed.into();
            job
        };
        let jobs = [done(), render::running_job(), done(), render::pending_job()];
        let phases = |rows: usize| {
            let mut all: Vec<&v1::Job> = jobs.iter().collect();
            lively_first(&mut all, Size { rows, columns: 80 });
            all.iter().map(|job| ended(job)).collect::<Vec<_>>()
        };
        assert_eq!(phases(7), [true, false, true, false]);
        assert_eq!(phases(6), [false, false, true, true]);
    }

    #[test]
    fn events_are_changes() {
        let job = |name: &str| v1::Job {
            metadata: Some(v1::Metadata { name: name.into(), tenant: "t".into(), ..v1::Metadata::default() }),
            ..v1::Job::default()
        };
        let event = |kind: job_event::Type, job: Option<v1::Job>| v1::JobEvent {
            r#type: kind.into(),
            job,
            revision: 7,
        };
        let key = ("t".to_owned(), "a".to_owned(), 0, "a".to_owned());
        let deleted = job_change(event(job_event::Type::Delete, Some(job("a"))));
        assert_eq!(deleted, Some((7, Change::Delete(key.clone()))));
        assert!(
            ("t".to_owned(), "array".to_owned(), 3, "a".to_owned()).is_of(&key),
            "whatever array it was of"
        );
        assert_eq!(job_change(event(job_event::Type::Synced, None)), Some((7, Change::Synced)));
    }
}
