//! Ending a job.

use std::time::Duration;

use proto_model::many;
use proto_wire::v1;

use super::{
    array::{self, Array, Counts, Named},
    filter::{labelled, phase_number},
    progress, wait, wait_for,
};
use crate::{
    args::{Cancel, Condition},
    client::{Api, JobRef, elements, repeat},
    confirm::confirm,
    error::Error,
    render,
};

/// `cancel JOB...`: all are tried, the first error is given. With `--wait` a job's end, of whatever kind, is success: that is what was asked for.
///
/// # Errors
/// The first error of any job: [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Timeout`] if a wait takes too long.
pub async fn run(args: &Cancel, api: &Api) -> Result<(), Error> {
    let names = if args.jobs.is_empty() { chosen(args, api).await? } else { args.jobs.clone() };
    let alone = names.len() == 1;
    let mut first = None;
    for name in &names {
        if let Err(error) = one(name, args, args.wait && alone, api).await
            && let Some(earlier) = first.replace(error)
        {
            earlier.lines().iter().for_each(|line| eprintln!("{line}"));
        }
    }
    // All are asked before one of them is waited for.
    if args.wait && !alone && first.is_none() {
        return wait_for::jobs(&names, Condition::Ended, args.timeout, api).await;
    }
    first.map_or(Ok(()), Err)
}

/// The jobs that are meant where none is named: shown, and asked about.
async fn chosen(args: &Cancel, api: &Api) -> Result<Vec<String>, Error> {
    let phases: Vec<i32> = args.phase.iter().map(|phase| phase_number(*phase)).collect();
    let mut jobs = api.list_jobs(&api.tenant, &phases).await?.jobs;
    jobs.retain(|job| {
        let (spec, status) = (job.spec.clone().unwrap_or_default(), job.status.clone().unwrap_or_default());
        let user = status.submitter.map(|by| by.user);
        !progress::ended(job)
            && args.queue.as_ref().is_none_or(|queue| *queue == spec.queue)
            && args.user.as_ref().is_none_or(|wanted| user.as_ref() == Some(wanted))
            && labelled(job.metadata.as_ref(), &args.labels)
    });
    array::in_order(&mut jobs);
    let names: Vec<String> = jobs.iter().map(|job| JobRef::of(job).to_string()).collect();
    if names.is_empty() {
        eprintln!("there is no such job that has not ended");
        return Ok(names);
    }
    let mut lines: Vec<String> = names.iter().take(SHOWN).cloned().collect();
    if names.len() > SHOWN {
        lines.push(format!("and {} more", names.len() - SHOWN));
    }
    confirm(&format!("cancel {}", many(names.len(), "job")), &lines, args.yes)?;
    Ok(names)
}

/// Jobs that are named in a question.
const SHOWN: usize = 10;

async fn one(text: &str, args: &Cancel, wait: bool, api: &Api) -> Result<(), Error> {
    let (name, elements) = elements(text)?;
    let job = api.job_ref(name);
    let grace_period = args.grace.map(duration).transpose()?;
    let request =
        v1::CancelJobRequest { name: job.name.clone(), tenant: job.tenant.clone(), grace_period, elements };
    let answer = repeat(format!("cancel job `{job}`"), |_| {
        let (mut client, request) = (api.jobs(), request.clone());
        async move { client.cancel_job(request).await }
    })
    .await?;
    if array::array_of(&answer).is_some() && JobRef::of(&answer).name != job.name {
        return of_array(text, args, wait, api).await;
    }
    let job = JobRef::of(&answer);
    let uid = answer.metadata.clone().unwrap_or_default().uid;
    let last = if wait && !progress::ended(&answer) {
        wait::until_ended(api, &job, &uid, args.timeout).await?
    } else {
        answer
    };
    let phase = render::job_phase(last.status.clone().unwrap_or_default().phase);
    if progress::ended(&last) {
        eprintln!("job {job} has ended as {phase}");
    } else {
        eprintln!("job {job} is being cancelled; it is {phase}");
    }
    Ok(())
}

/// An array, or elements of it.
async fn of_array(text: &str, args: &Cancel, wait: bool, api: &Api) -> Result<(), Error> {
    let mut some = match array::find(text, api).await? {
        Named::Array(some) => some,
        Named::Job(job) => {
            Array { of: array::array_of(&job).unwrap_or_else(|| JobRef::of(&job)), jobs: vec![*job] }
        }
    };
    if wait {
        some.jobs = array::until_ended(api, &some, args.timeout).await?;
    }
    let counts = Counts::of(&some.jobs);
    let what = many(some.jobs.len(), "element");
    if counts.ended() == some.jobs.len() {
        eprintln!("{what} of array {} have ended: {}", some.of, counts.words());
    } else {
        eprintln!("{what} of array {} are being cancelled: {}", some.of, counts.words());
    }
    Ok(())
}

/// A duration for the wire.
///
/// # Errors
/// [`Error::Usage`] if the duration is longer than the wire can carry.
pub fn duration(duration: Duration) -> Result<prost_types::Duration, Error> {
    duration.try_into().map_err(|_| Error::Usage("that time is too long".to_owned()))
}
