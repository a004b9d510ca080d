//! Submitting a job, and waiting for its end.

use proto_model::many;
use proto_wire::v1;

use super::{
    array::{self, Array},
    filter, logs, plan, progress, source, wait,
};
use crate::{
    args::{Output, Submit},
    client::{Api, JobRef, repeat},
    documents::Source,
    error::Error,
    output::{now, print},
    render,
};

/// `submit FILE`. The file is read before anybody is connected to.
///
/// # Errors
/// [`Error::Document`] if a file cannot be read as documents of the API; [`Error::Usage`] if options contradict each other; [`Error::Rpc`]
/// if the controller refuses or does not answer; with `--wait` also [`Error::JobEnded`] and [`Error::Timeout`].
pub async fn run(args: &Submit, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    let source::Read { source, mut job, hold } = source::job(&args.source, &args.in_place)?;
    let hold = hold || args.hold;
    if hold && args.wait {
        return Err(Error::Usage(
            "a job that is held does not start: leave --wait out, or --hold".to_owned(),
        ));
    }
    if let Some(name) = &args.name {
        let metadata = job.metadata.get_or_insert_default();
        metadata.name.clone_from(name);
        metadata.generate_name.clear();
    }
    args.asked.put(&mut job);
    let api = api()?;
    if args.dry_run {
        return plan::show(&source, job, args.output, &api).await;
    }
    let submitted = create_held(&source, 0, job, hold, &api).await?;
    if let Some(of) = array::array_of(&submitted) {
        return of_array(args, of, &api).await;
    }
    let name = JobRef::of(&submitted);
    if !args.wait {
        return show(&submitted, args.output);
    }
    eprintln!("job {name} is submitted");
    let uid = submitted.metadata.clone().unwrap_or_default().uid;
    let last = if progress::ended(&submitted) {
        submitted
    } else {
        wait::until_ended(&api, &name, &uid, args.timeout).await?
    };
    match args.output {
        Output::Table => result(&last)?,
        other => show(&last, other)?,
    }
    let verdict = wait::verdict(&last);
    if verdict.is_err() {
        eprint!("{}", logs::last_words(&last, args.tail, &api).await);
    }
    verdict?;
    let ran = wait::ran_for(&last).map(|time| format!(" after {time}")).unwrap_or_default();
    eprintln!("job {name} has completed{ran}");
    Ok(())
}

/// An array is reported and waited for as one: it has failed if any of its elements has.
async fn of_array(args: &Submit, of: JobRef, api: &Api) -> Result<(), Error> {
    let mut jobs = api.list_elements(&of).await?.jobs;
    array::in_order(&mut jobs);
    let mut whole = Array { of, jobs };
    if !args.wait {
        let count = whole.jobs.len();
        if args.output == Output::Table {
            print(&format!("array/{}\n", whole.of))?;
            eprintln!("{}", many(count, "element"));
            return Ok(());
        }
        return elements(&whole.jobs, args.output);
    }
    eprintln!("array {} is submitted: {}", whole.of, many(whole.jobs.len(), "element"));
    whole.jobs = array::until_ended(api, &whole, args.timeout).await?;
    if args.output != Output::Table {
        elements(&whole.jobs, args.output)?;
    }
    array::verdict(&whole.of, &whole.jobs)?;
    eprintln!("array {} has completed", whole.of);
    Ok(())
}

/// All elements of an array.
fn elements(jobs: &[v1::Job], output: Output) -> Result<(), Error> {
    let names = || jobs.iter().map(filter::job_name).collect();
    let list = v1::ListJobsResponse { jobs: jobs.to_vec(), ..Default::default() };
    print(&render::render(output, &list, "rail.v1.ListJobsResponse", names, |wide| {
        render::jobs(jobs, wide, now()).render("")
    })?)
}

/// Submits under one request id, so that a repeated call makes no second job.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer, with the place in the file where it names a field.
pub async fn create(source: &Source, index: usize, job: v1::Job, api: &Api) -> Result<v1::Job, Error> {
    create_held(source, index, job, false, api).await
}

async fn create_held(
    source: &Source,
    index: usize,
    job: v1::Job,
    hold: bool,
    api: &Api,
) -> Result<v1::Job, Error> {
    let request = v1::CreateJobRequest {
        hold,
        job: Some(job),
        request_id: uuid::Uuid::new_v4().to_string(),
        on_behalf_of: api.tenant.clone(),
    };
    let made = repeat(format!("submit {}", source.name), |_| {
        let (mut client, request) = (api.jobs(), request.clone());
        async move { client.create_job(request).await }
    })
    .await;
    made.map_err(|error| source.place(index, error))
}

/// One job as it was asked for.
///
/// # Errors
/// [`Error::Config`] if it cannot be shown in the format; [`Error::Output`] if standard output cannot be written to.
pub fn show(job: &v1::Job, output: Output) -> Result<(), Error> {
    if output == Output::Table {
        let metadata = job.metadata.clone().unwrap_or_default();
        return print(&format!("job/{}/{}\n", metadata.tenant, metadata.name));
    }
    let names = || vec![filter::job_name(job)];
    print(&render::render(output, job, "rail.v1.Job", names, |wide| {
        render::jobs(std::slice::from_ref(job), wide, now()).render("")
    })?)
}

/// What a waited-for job has to say: where it ran and what it measured.
fn result(job: &v1::Job) -> Result<(), Error> {
    let status = job.status.clone().unwrap_or_default();
    let mut out = String::new();
    if let Some(place) = &status.placement {
        out.push_str(&render::describe_placement(place));
    }
    if let Some(result) = &status.result {
        out.push_str(&render::describe_result(result));
    }
    print(&out)
}
