//! Holding, releasing, suspending, resuming, queueing again and changing jobs.

use proto_wire::v1::{self, job_status::Phase};

use super::{cancel::duration, filter::job_name};
use crate::{
    args::{Hold, Limit, Output, Release, Requeue, Resume, Suspend, Update, job_names},
    client::{Api, JobRef, elements, repeat},
    error::Error,
    output::{now, print},
    render,
};

/// One for each change, so that a late copy of it does nothing.
pub(super) fn request_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// What was done to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Held,
    Released,
    Suspended,
    Resumed,
    Requeued,
    Updated,
}

impl Done {
    fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Released => "released",
            Self::Suspended => "suspended",
            Self::Resumed => "resumed",
            Self::Requeued => "to be queued again",
            Self::Updated => "updated",
        }
    }

    /// What else is to be known of the job as it is now.
    fn notes(self, status: &v1::JobStatus) -> Vec<String> {
        let waits = matches!(status.phase(), Phase::Pending | Phase::Unspecified);
        let ends = status.phase() == Phase::Recovering;
        let mut notes = Vec::new();
        match self {
            Self::Held if !waits => notes.push("it goes on, and is held if it is queued again".to_owned()),
            Self::Suspended if !waits => {
                notes.push(
                    "it is being stopped; what it holds is free for others when it has ended".to_owned(),
                );
            }
            Self::Resumed if ends => {
                notes.push("it is still being stopped, and is queued after that".to_owned())
            }
            Self::Requeued if waits => notes.push("it waits in the queue already".to_owned()),
            _ => {}
        }
        if matches!(self, Self::Released | Self::Resumed | Self::Requeued) {
            notes.extend(status.holds.iter().map(|hold| {
                let how = if hold.suspended { "suspended" } else { "held" };
                format!("it is still {how} by {} ({}) {}", hold.by, render::role(hold.role), hold.reason)
            }));
        }
        notes
    }
}

/// `hold job JOB...`: the jobs wait until they are released.
///
/// # Errors
/// The first error of any job: [`Error::Usage`] if its name cannot be read; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn hold(args: &Hold, api: &Api) -> Result<(), Error> {
    each(job_names(&args.jobs), args.output, Done::Held, async |name: &str| {
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

/// `release job JOB...`: the jobs may start again.
///
/// # Errors
/// The first error of any job: [`Error::Usage`] if its name cannot be read; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn release(args: &Release, api: &Api) -> Result<(), Error> {
    each(job_names(&args.jobs), args.output, Done::Released, async |name: &str| {
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

/// `suspend job JOB...`: stops what runs; the jobs keep their place in the queue.
///
/// # Errors
/// The first error of any job: [`Error::Usage`] if its name cannot be read; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn suspend(args: &Suspend, api: &Api) -> Result<(), Error> {
    each(job_names(&args.jobs), args.output, Done::Suspended, async |name: &str| {
        let (job, elements) = meant(name, api)?;
        let request = v1::SuspendJobRequest {
            name: job.name.clone(),
            tenant: job.tenant.clone(),
            elements,
            reason: args.reason.clone().unwrap_or_default(),
            request_id: request_id(),
        };
        repeat(format!("suspend job `{job}`"), |_| {
            let (mut client, request) = (api.jobs(), request.clone());
            async move { client.suspend_job(request).await }
        })
        .await
    })
    .await
}

/// `resume job JOB...`: the jobs that were suspended may start again.
///
/// # Errors
/// The first error of any job: [`Error::Usage`] if its name cannot be read; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn resume(args: &Resume, api: &Api) -> Result<(), Error> {
    each(job_names(&args.jobs), args.output, Done::Resumed, async |name: &str| {
        let (job, elements) = meant(name, api)?;
        let request = v1::ResumeJobRequest {
            name: job.name.clone(),
            tenant: job.tenant.clone(),
            elements,
            request_id: request_id(),
        };
        repeat(format!("resume job `{job}`"), |_| {
            let (mut client, request) = (api.jobs(), request.clone());
            async move { client.resume_job(request).await }
        })
        .await
    })
    .await
}

/// `requeue job JOB...`: ends the present attempt and queues the jobs again.
///
/// # Errors
/// The first error of any job: [`Error::Usage`] if its name cannot be read; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn requeue(args: &Requeue, api: &Api) -> Result<(), Error> {
    each(job_names(&args.jobs), args.output, Done::Requeued, async |name: &str| {
        let (job, elements) = meant(name, api)?;
        let request = v1::RequeueJobRequest {
            name: job.name.clone(),
            tenant: job.tenant.clone(),
            elements,
            reason: args.reason.clone().unwrap_or_default(),
            request_id: request_id(),
        };
        repeat(format!("queue job `{job}` again"), |_| {
            let (mut client, request) = (api.jobs(), request.clone());
            async move { client.requeue_job(request).await }
        })
        .await
    })
    .await
}

/// `update job JOB...`: changes what may be changed of a job that was submitted.
///
/// # Errors
/// The first error of any job: [`Error::Usage`] if its name or a new value cannot be read; [`Error::Rpc`] if the controller refuses or
/// does not answer.
pub async fn update(args: &Update, api: &Api) -> Result<(), Error> {
    let time_limit = match args.time_limit {
        Some(Limit::Some(limit)) => Some(duration(limit)?),
        Some(Limit::None) | None => None,
    };
    each(job_names(&args.jobs), args.output, Done::Updated, async |name: &str| {
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
            ..v1::UpdateJobRequest::default()
        };
        repeat(format!("update job `{job}`"), |_| {
            let (mut client, request) = (api.jobs(), request.clone());
            async move { client.update_job(request).await }
        })
        .await
    })
    .await
}

pub(super) fn meant(text: &str, api: &Api) -> Result<(JobRef, String), Error> {
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
                report(&job, name, output, done);
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

fn report(job: &v1::Job, name: &str, output: Output, done: Done) {
    if output != Output::Table {
        return;
    }
    eprintln!("job {name} is {}", done.word());
    for note in job.status.iter().flat_map(|status| done.notes(status)) {
        eprintln!("note: {}", note.trim_end());
    }
}

fn show(mut jobs: Vec<v1::Job>, output: Output) -> Result<(), Error> {
    let names = jobs.iter().map(job_name).collect::<Vec<_>>();
    let text = match (jobs.len(), jobs.pop()) {
        (1, Some(job)) => {
            let table = |wide| render::jobs(std::slice::from_ref(&job), wide, now()).render("");
            render::render(output, &job, "rail.v1.Job", || names.clone(), table)?
        }
        (_, last) => {
            jobs.extend(last);
            let list = v1::ListJobsResponse { jobs, ..v1::ListJobsResponse::default() };
            let table = |wide| render::jobs(&list.jobs, wide, now()).render("");
            render::render(output, &list, "rail.v1.ListJobsResponse", || names.clone(), table)?
        }
    };
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_known_is_said() {
        let hold = |suspended| v1::JobHold {
            role: v1::Role::Admin.into(),
            by: "root".into(),
            reason: String::new(),
            suspended,
            ..Default::default()
        };
        let status = |phase: Phase, holds: &[bool]| v1::JobStatus {
            phase: phase.into(),
            holds: holds.iter().copied().map(hold).collect(),
            ..Default::default()
        };
        for (done, phase, holds, said) in [
            (Done::Held, Phase::Pending, &[false][..], ""),
            (Done::Held, Phase::Running, &[false], "goes on"),
            (Done::Suspended, Phase::Pending, &[true], ""),
            (Done::Suspended, Phase::Recovering, &[true], "is being stopped"),
            (Done::Resumed, Phase::Pending, &[], ""),
            (Done::Resumed, Phase::Pending, &[true], "still suspended by root (admin)"),
            (Done::Released, Phase::Pending, &[false], "still held by root (admin)"),
            (Done::Resumed, Phase::Recovering, &[], "queued after that"),
            (Done::Requeued, Phase::Recovering, &[], ""),
            (Done::Requeued, Phase::Pending, &[], "waits in the queue already"),
            (Done::Requeued, Phase::Recovering, &[false], "still held"),
            (Done::Updated, Phase::Running, &[true], ""),
        ] {
            let notes = done.notes(&status(phase, holds));
            assert_eq!(notes.len(), usize::from(!said.is_empty()), "{done:?} {phase:?}: {notes:?}");
            assert!(notes.iter().all(|note| note.contains(said)), "{done:?} {phase:?}: {notes:?}");
        }
    }
}
