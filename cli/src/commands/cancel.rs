//! Ending a job.

use std::time::Duration;

use proto_model::many;
use proto_wire::v1;

use super::{
    array::{self, Array, Counts, Named},
    wait,
};
use crate::{
    args::Cancel,
    client::{Api, JobRef, elements, repeat},
    error::Error,
    render,
};

/// `cancel JOB`. With `--wait` the job's end, of whatever kind, is success: that is what was asked for.
pub async fn run(args: &Cancel, api: &Api) -> Result<(), Error> {
    let (name, elements) = elements(&args.job)?;
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
        return of_array(args, api).await;
    }
    let job = JobRef::of(&answer);
    let uid = answer.metadata.clone().unwrap_or_default().uid;
    let last = if args.wait && !wait::ended(&answer) {
        wait::until_ended(api, &job, &uid, args.timeout).await?
    } else {
        answer
    };
    let phase = render::job_phase(last.status.clone().unwrap_or_default().phase);
    if wait::ended(&last) {
        eprintln!("job {job} has ended as {phase}");
    } else {
        eprintln!("job {job} is being cancelled; it is {phase}");
    }
    Ok(())
}

/// An array, or elements of it.
async fn of_array(args: &Cancel, api: &Api) -> Result<(), Error> {
    let mut some = match array::find(&args.job, api).await? {
        Named::Array(some) => some,
        Named::Job(job) => {
            Array { of: array::array_of(&job).unwrap_or_else(|| JobRef::of(&job)), jobs: vec![*job] }
        }
    };
    if args.wait {
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
pub fn duration(duration: Duration) -> Result<prost_types::Duration, Error> {
    duration.try_into().map_err(|_| Error::Usage("that time is too long".to_owned()))
}
