//! Servers of a job of Slurm: held before it starts, given back when it has ended; within a time that is bounded.

use std::{future::Future, time::Duration};

use proto_rpc::ErrorClass;
use proto_wire::v1::{self, job_status::Phase};

use super::job::{JOB, SlurmJob, is_name};
use crate::{
    args::{SlurmEpilog, SlurmProlog, WhenAway},
    client::{Api, JobRef, repeat},
    commands::{
        allocation::{nodes_of, release},
        progress, wait,
    },
    error::Error,
};

/// Phases of jobs that hold servers, or will.
const ACTIVE: [Phase; 5] =
    [Phase::Pending, Phase::Reserved, Phase::Preparing, Phase::Running, Phase::Recovering];

/// A controller that has not answered one call within this time is away.
const CALL: Duration = Duration::from_secs(10);

/// Holds the servers by the allocation ([`SlurmJob::allocation`]).
///
/// # Errors
/// As [`super::run`]; none where nobody answers and the site lets jobs start all the same.
pub async fn prolog(
    args: &SlurmProlog,
    allocation: &v1::Job,
    job: &SlurmJob,
    api: impl Fn() -> Result<Api, Error>,
) -> Result<(), Error> {
    match held(args, allocation, job, api).await {
        Err(error) if args.when_away == WhenAway::Allow && is_away(&error) => {
            error.lines().iter().for_each(|line| eprintln!("{line}"));
            eprintln!("job {} starts without Railyard (--when-away allow)", job.id);
            Ok(())
        }
        done => done,
    }
}

/// Nobody has said no.
#[must_use]
pub fn is_away(error: &Error) -> bool {
    match error {
        Error::Rpc { error, .. } => {
            matches!(error.class, ErrorClass::Unavailable | ErrorClass::Timeout | ErrorClass::Overloaded)
        }
        _ => false,
    }
}

async fn held(
    args: &SlurmProlog,
    allocation: &v1::Job,
    job: &SlurmJob,
    api: impl Fn() -> Result<Api, Error>,
) -> Result<(), Error> {
    let api = api()?;
    let tenant = match &job.account {
        Some(account) if args.account_is_tenant => account.clone(),
        _ => api.tenant.clone(),
    };
    let request = v1::CreateJobRequest {
        job: Some(allocation.clone()),
        // slurmctld that starts anew in the middle asks once more.
        request_id: job.name.clone(),
        on_behalf_of: tenant.clone(),
        ..v1::CreateJobRequest::default()
    };
    let begin = tokio::time::Instant::now();
    // What an earlier start of it holds, whose end nobody could tell us, would keep this one out of its servers.
    let brief = api.within(CALL.min(args.timeout));
    let earlier =
        give_back(&brief, &tenant, &args.names.prefix, |name, id| id == job.id && name.name != job.name);
    within("giving back what an earlier start held", args.timeout, earlier).await?;
    let left = args.timeout.saturating_sub(begin.elapsed());
    let made = repeat(format!("hold the servers of job {}", job.id), |_| {
        let (mut client, request) = (brief.jobs(), request.clone());
        async move { client.create_job(request).await }
    });
    let made = within("a controller's answer", left, made).await?;
    let name = JobRef::of(&made);
    let uid = made.metadata.clone().unwrap_or_default().uid;
    let left = args.timeout.saturating_sub(begin.elapsed());
    let what = format!("holding {} for job {}", job.nodes, job.id);
    match within(&what, left, wait::until_running(&api, &name, &uid)).await {
        Ok(running) if progress::ended(&running) => {
            wait::verdict(&running).and(Err(Error::Gone(format!("allocation {name} has ended"))))
        }
        Ok(running) => {
            eprintln!("job {}: allocation {name} holds {}", job.id, nodes_of(&running).join(","));
            Ok(())
        }
        Err(error) => {
            release(&api, &name).await;
            Err(error)
        }
    }
}

/// Gives back whatever is held for the job, of this start and of earlier ones.
///
/// # Errors
/// As [`super::run`].
pub async fn epilog(args: &SlurmEpilog, job: &SlurmJob, api: &Api) -> Result<(), Error> {
    let all = give_back(api, &api.tenant, &args.names.prefix, |_, id| id == job.id);
    within(&format!("giving back the servers of job {}", job.id), args.timeout, all).await
}

async fn give_back(
    api: &Api,
    tenant: &str,
    prefix: &str,
    is: impl Fn(&JobRef, u64) -> bool,
) -> Result<(), Error> {
    for (name, id) in allocations(api, tenant, prefix).await? {
        if is(&name, id) {
            release(api, &name).await;
        }
    }
    Ok(())
}

/// Allocations of a tenant (empty: of all that may be seen) that are held for jobs of Slurm, with the numbers of these jobs.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn allocations(api: &Api, tenant: &str, prefix: &str) -> Result<Vec<(JobRef, u64)>, Error> {
    let list = api.list_jobs(tenant, &ACTIVE.map(i32::from)).await?;
    let of_slurm = |job: &v1::Job| {
        let metadata = job.metadata.as_ref()?;
        let id = metadata.labels.get(JOB)?.parse().ok()?;
        is_name(&metadata.name, prefix, id).then(|| (JobRef::of(job), id))
    };
    Ok(list.jobs.iter().filter_map(of_slurm).collect())
}

async fn within<T>(
    what: &str,
    limit: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let late = |_| Error::Timeout { what: what.to_owned(), limit };
    tokio::time::timeout(limit, work).await.map_err(late)?
}
