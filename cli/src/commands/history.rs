//! The jobs that have ended, in the form that `simulate` reads.

use std::{
    fs::{File, OpenOptions},
    io::{BufWriter, Write},
    path::Path,
};

use controller_simulator::trace::history::{HistoryJob, HistoryLine};
use proto_model::{Job, Queue, Tenant, Timestamp};
use proto_wire::v1;

use super::{array, filter};
use crate::{
    args::{EventOutput, HistoryCommand, HistoryExport, ListArgs},
    client::{Api, JobRef, repeat},
    error::Error,
    output::{now, print},
    render::{self, Event, Kind},
};

/// `history ...`: jobs that have ended, as a list or for `simulate`.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::File`] if the export cannot be written.
pub async fn run(command: &HistoryCommand, api: &Api) -> Result<(), Error> {
    match command {
        HistoryCommand::Export(args) => export(args, api).await,
        HistoryCommand::Jobs { since, all_tenants, list } => {
            let tenant = if *all_tenants { "" } else { &api.tenant };
            ended(render::seconds(&since.time(now())), tenant, list, api).await
        }
        HistoryCommand::Job { name, output } => of_job(name, *output, api).await,
    }
}

/// The jobs that ended since a time, in seconds since 1970.
async fn ended(since: f64, tenant: &str, list: &ListArgs, api: &Api) -> Result<(), Error> {
    render::check_list(list)?;
    let mut answer = v1::ListJobsResponse::default();
    let mut page_token = String::new();
    let end = |job: &v1::Job| {
        job.status.as_ref().and_then(|status| status.end_time.as_ref()).map_or(0.0, render::seconds)
    };
    loop {
        let page = page(tenant, &page_token, api).await?;
        answer.jobs.extend(page.jobs.into_iter().filter(|job| end(job) >= since));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    answer.jobs.sort_by(|a, b| end(b).total_cmp(&end(a)));
    if answer.jobs.is_empty() && list.for_people() {
        eprintln!("no jobs");
    }
    let kind = Kind {
        message: "rail.v1.Job",
        name: &filter::job_name,
        table: &|jobs: &[v1::Job], _| render::ended_jobs(jobs),
        columns: &[],
        slurm: Some(&|jobs: &[v1::Job]| render::slurm_jobs(jobs, now())),
    };
    print(&render::list(list, &kind, &mut answer)?)
}

/// Records of the audit log that are looked through for one job.
const RECORDS: usize = 20_000;

/// What a job tells of itself, and who changed it.
async fn of_job(name: &str, output: EventOutput, api: &Api) -> Result<(), Error> {
    let job = array::one(name, api).await?;
    let mut events = render::job_events(&job);
    match changes(&job, api).await {
        Ok(changes) => events.extend(changes),
        // Users do not read the audit log.
        Err(error) if error.is_denied() => {}
        Err(error) => return Err(error),
    }
    events.sort();
    let line = |event: &Event| match output {
        EventOutput::Table => event.line(),
        EventOutput::Json => event.json(),
    };
    print(&events.iter().map(line).collect::<String>())
}

/// The changes of a job that the audit log holds; an array is changed by its own name.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn changes(job: &v1::Job, api: &Api) -> Result<Vec<Event>, Error> {
    let JobRef { tenant, name } = JobRef::of(job);
    let array = array::array_of(job).map(|array| array.name);
    let since = job.status.as_ref().and_then(|status| status.submit_time);
    let mut request = v1::ListAuditRecordsRequest {
        tenant: tenant.clone(),
        decision: "allowed".to_owned(),
        since,
        page_size: crate::client::PAGE,
        ..v1::ListAuditRecordsRequest::default()
    };
    let (mut found, mut seen) = (Vec::new(), 0);
    loop {
        let page = repeat("list audit records", |_| {
            let (mut client, request) = (api.audit(), request.clone());
            async move { client.list_audit_records(request).await }
        })
        .await?;
        seen += page.records.len();
        for record in page.records {
            let Some(v1::audit_record::Content::Change(change)) = record.content else { continue };
            let is_it = change.name == name || array.as_ref() == Some(&change.name);
            if change.kind != "job" || !is_it {
                continue;
            }
            let Some((time, actor)) = record.time.zip(change.actor) else { continue };
            let who = actor.who.rsplit('/').next().unwrap_or_default();
            found.push(Event {
                time: (time.seconds, time.nanos),
                object: format!("job/{tenant}/{name}"),
                code: actor.rpc.clone(),
                message: format!("by {who} ({}) from {}", actor.roles, actor.source),
            });
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(found);
        }
        if seen >= RECORDS {
            eprintln!("note: only the last {seen} records of the audit log were looked through");
            return Ok(found);
        }
    }
}

/// Where the lines of an export go: a file, or standard output.
enum Sink<'a> {
    File(BufWriter<File>, &'a Path),
    Stdout,
}

impl<'a> Sink<'a> {
    fn new(out: Option<&'a Path>) -> Result<Self, Error> {
        let Some(path) = out else { return Ok(Self::Stdout) };
        let made = OpenOptions::new().write(true).create_new(true).open(path);
        let file = made.map_err(|error| Error::file("create", path, error))?;
        Ok(Self::File(BufWriter::new(file), path))
    }

    fn line(&mut self, line: &HistoryLine) -> Result<(), Error> {
        let text = line.text().map_err(|error| Error::Config(format!("a line is no JSON: {error}")))?;
        match self {
            Self::File(file, path) => {
                file.write_all(text.as_bytes()).map_err(|error| Error::file("write", *path, error))
            }
            Self::Stdout => print(&text),
        }
    }

    fn close(self) -> Result<(), Error> {
        let Self::File(mut file, path) = self else { return Ok(()) };
        let done = file.flush().and_then(|()| file.get_ref().sync_all());
        done.map_err(|error| Error::file("write", path, error))
    }
}

async fn export(args: &HistoryExport, api: &Api) -> Result<(), Error> {
    let tenant = if args.all_tenants { "" } else { &api.tenant };
    let mut sink = Sink::new(args.out.as_deref())?;
    let at = Timestamp((now() * 1e3).max(0.0) as u64);
    sink.line(&HistoryLine::header(at))?;
    shares(tenant, &mut sink, api).await?;
    let millis = |moment: crate::args::Moment| render::seconds(&moment.time(now())) * 1e3;
    let (since, until) = (args.since.map(millis), args.until.map(millis));
    let (mut page_token, mut count, mut left_out) = (String::new(), 0_u64, 0_u64);
    loop {
        let page = page(tenant, &page_token, api).await?;
        for job in page.jobs {
            let job =
                Job::try_from(job).map_err(|error| Error::Config(format!("a job is faulty: {error}")))?;
            let Some(line) = HistoryJob::of(&job) else { continue };
            let is_inside = since.is_none_or(|since| line.submitted as f64 >= since)
                && until.is_none_or(|until| line.submitted as f64 <= until);
            if is_inside {
                sink.line(&HistoryLine::Job(Box::new(line)))?;
                count += 1;
            } else {
                left_out += 1;
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    sink.close()?;
    let out = args.out.as_deref().map(|path| format!(" are in {}", path.display())).unwrap_or_default();
    let outside = if left_out > 0 { format!("; {left_out} outside of that time") } else { String::new() };
    eprintln!("{count} ended jobs{out}{outside}");
    Ok(())
}

/// Jobs that have ended, some at a time: a site has more of them than should be held at once.
async fn page(tenant: &str, page_token: &str, api: &Api) -> Result<v1::ListJobsResponse, Error> {
    use v1::job_status::Phase;
    repeat("list ended jobs", |_| {
        let request = v1::ListJobsRequest {
            tenant: tenant.to_owned(),
            phases: [Phase::Completed, Phase::Failed, Phase::Cancelled].map(Into::into).to_vec(),
            page_size: crate::client::PAGE,
            page_token: page_token.to_owned(),
            ..v1::ListJobsRequest::default()
        };
        let mut client = api.jobs();
        async move { client.list_jobs(request).await }
    })
    .await
}

/// What tenants and queues have.
async fn shares(tenant: &str, sink: &mut Sink<'_>, api: &Api) -> Result<(), Error> {
    let faulty = |error: &dyn std::fmt::Display| Error::Config(format!("a document is faulty: {error}"));
    for one in api.list_tenants().await?.tenants {
        let one = Tenant::try_from(one).map_err(|error| faulty(&error))?;
        if tenant.is_empty() || one.name.as_str() == tenant {
            sink.line(&HistoryLine::tenant(&one))?;
        }
    }
    for one in api.list_queues(tenant).await?.queues {
        let one = Queue::try_from(one).map_err(|error| faulty(&error))?;
        sink.line(&HistoryLine::queue(&one))?;
    }
    Ok(())
}
