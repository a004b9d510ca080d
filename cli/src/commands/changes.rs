//! Holding, releasing and changing jobs.

use proto_wire::v1;

use super::{cancel::duration, get::job_name};
use crate::{
    args::{Hold, Limit, Output, Release, Update},
    client::{Api, JobRef, elements, repeat},
    error::Error,
    output::{now, print},
    render,
};

/// One for each change, so that a late copy of it does nothing.
fn request_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// What was done to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Held,
    Released,
    Updated,
}

impl Done {
    fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Released => "released",
            Self::Updated => "updated",
        }
    }
}

/// `hold job JOB...`.
pub async fn hold(args: &Hold, api: &Api) -> Result<(), Error> {
    each(&args.jobs, args.output, Done::Held, async |name: &str| {
        let (job, elements) = meant(name, api)?;
        let request = v1::HoldJobRequest {
            name: job.name.clone(),
            tenant: job.tenant.clone(),
            elements,
            reason: args.reason.clone().unwrap_or_default(),
            request_id: request_id(),
        };
        repeat(format!("hold job `{job}`"), |_| {
            let (mut client, request) = (api.jobs(), request.clone());
            async move { client.hold_job(request).await }
        })
        .await
    })
    .await
}

/// `release job JOB...`.
pub async fn release(args: &Release, api: &Api) -> Result<(), Error> {
    each(&args.jobs, args.output, Done::Released, async |name: &str| {
        let (job, elements) = meant(name, api)?;
        let (name, tenant) = (job.name.clone(), job.tenant.clone());
        let request = v1::ReleaseJobRequest { name, tenant, elements, request_id: request_id() };
        repeat(format!("release job `{job}`"), |_| {
            let (mut client, request) = (api.jobs(), request.clone());
            async move { client.release_job(request).await }
        })
        .await
    })
    .await
}

/// `update job JOB...`.
pub async fn update(args: &Update, api: &Api) -> Result<(), Error> {
    let time_limit = match args.time_limit {
        Some(Limit::Some(limit)) => Some(duration(limit)?),
        Some(Limit::None) | None => None,
    };
    each(&args.jobs, args.output, Done::Updated, async |name: &str| {
        let (job, elements) = meant(name, api)?;
        let request = v1::UpdateJobRequest {
            name: job.name.clone(),
            tenant: job.tenant.clone(),
            elements,
            if_version: args.if_version,
            request_id: request_id(),
            priority: args.priority,
            time_limit,
            no_time_limit: args.time_limit == Some(Limit::None),
            queue: args
                .queue
                .as_ref()
                .map(|queue| if queue == "none" { String::new() } else { queue.clone() }),
            nodes: args.nodes.map(|(_, most)| most),
            min_nodes: args.nodes.map(|(least, _)| least),
        };
        repeat(format!("update job `{job}`"), |_| {
            let (mut client, request) = (api.jobs(), request.clone());
            async move { client.update_job(request).await }
        })
        .await
    })
    .await
}

fn meant(text: &str, api: &Api) -> Result<(JobRef, String), Error> {
    let (name, elements) = elements(text)?;
    Ok((api.job_ref(name), elements))
}

/// Does it to all, whatever becomes of one; the first error is given.
async fn each(
    names: &[String],
    output: Output,
    done: Done,
    one: impl AsyncFn(&str) -> Result<v1::Job, Error>,
) -> Result<(), Error> {
    let (mut jobs, mut first) = (Vec::new(), None);
    for name in names {
        match one(name).await {
            Ok(job) => {
                tell(&job, name, output, done);
                jobs.push(job);
            }
            Err(error) => {
                if let Some(earlier) = first.replace(error) {
                    earlier.lines().iter().for_each(|line| eprintln!("{line}"));
                }
            }
        }
    }
    if !jobs.is_empty() && output != Output::Table {
        show(jobs, output)?;
    }
    first.map_or(Ok(()), Err)
}

fn tell(job: &v1::Job, name: &str, output: Output, done: Done) {
    if output != Output::Table {
        return;
    }
    eprintln!("job {name} is {}", done.word());
    let phase = job.status.as_ref().map_or(v1::job_status::Phase::Unspecified, v1::JobStatus::phase);
    if done == Done::Held && phase != v1::job_status::Phase::Pending {
        eprintln!("note: it goes on, and is held if it is queued again");
    }
    for hold in job.status.iter().flat_map(|status| &status.holds).filter(|_| done == Done::Released) {
        let role = render::role(hold.role);
        eprintln!("note: it is still held by {} ({role}) {}", hold.by, hold.reason);
    }
}

fn show(mut jobs: Vec<v1::Job>, output: Output) -> Result<(), Error> {
    let names = jobs.iter().map(job_name).collect::<Vec<_>>();
    let text = match (jobs.len(), jobs.pop()) {
        (1, Some(job)) => {
            let table = |wide| render::jobs(std::slice::from_ref(&job), wide, now());
            render::render(output, &job, "rail.v1.Job", || names.clone(), table)?
        }
        (_, last) => {
            jobs.extend(last);
            let list = v1::ListJobsResponse { jobs, ..v1::ListJobsResponse::default() };
            let table = |wide| render::jobs(&list.jobs, wide, now());
            render::render(output, &list, "rail.v1.ListJobsResponse", || names.clone(), table)?
        }
    };
    print(&text)
}
