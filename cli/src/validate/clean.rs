//! Nothing stays behind: jobs and drains of a validation are found by what they carry, not by what is remembered of them, so that one
//! whose answer never came is found as well.

use std::time::{Duration, Instant};

use proto_wire::v1;

use crate::{
    client::{Api, JobRef, once, repeat},
    commands::progress::ended,
    error::Error,
};

/// The label of a validation's jobs; its value is the validation's own name.
pub const LABEL: &str = "railyard-validation";
/// So long is waited for jobs to end that were cancelled.
const LIMIT: Duration = Duration::from_secs(30);
/// Pause between two checks whether the jobs have ended.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a port was drained.
pub fn reason(id: &str) -> String {
    format!("railctl validate {id}")
}

/// Brings back every port that this validation drained, ends its jobs and deletes them.
///
/// # Errors
/// What is still there, and how it is removed by hand.
pub async fn clean(api: &Api, id: &str) -> Result<(), Error> {
    undrain(api, id).await?;
    let deadline = Instant::now() + LIMIT;
    loop {
        let jobs = own_jobs(api, id).await?;
        if jobs.is_empty() {
            return Ok(());
        }
        for job in &jobs {
            let of = JobRef::of(job);
            // One that ended or went meanwhile refuses; the next look tells.
            let _ = if ended(job) { delete(api, &of).await } else { cancel(api, &of).await };
        }
        if Instant::now() >= deadline {
            let names: Vec<String> = jobs.iter().map(|job| JobRef::of(job).to_string()).collect();
            let text =
                format!("jobs of the validation are still there; `railctl cancel` them: {}", names.join(" "));
            return Err(Error::Differs(text));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn own_jobs(api: &Api, id: &str) -> Result<Vec<v1::Job>, Error> {
    let mut jobs = api.list_jobs(&api.tenant, &[]).await?.jobs;
    jobs.retain(|job| {
        job.metadata.as_ref().is_some_and(|of| of.labels.get(LABEL).is_some_and(|value| value == id))
    });
    Ok(jobs)
}

/// Ends a job, with little grace.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn cancel(api: &Api, job: &JobRef) -> Result<(), Error> {
    let request = v1::CancelJobRequest {
        name: job.name.clone(),
        tenant: job.tenant.clone(),
        grace_period: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        elements: String::new(),
    };
    once(format!("cancel job `{job}`"), api.jobs().cancel_job(request)).await.map(drop)
}

/// Removes an ended job.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn delete(api: &Api, job: &JobRef) -> Result<(), Error> {
    let request =
        v1::DeleteJobRequest { name: job.name.clone(), tenant: job.tenant.clone(), elements: String::new() };
    once(format!("delete job `{job}`"), api.jobs().delete_job(request)).await.map(drop)
}

/// Brings back what this validation drained.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn undrain(api: &Api, id: &str) -> Result<(), Error> {
    let seen = repeat("list rails", |_| {
        let mut client = api.rails();
        async move { client.list_rails(v1::ListRailsRequest::default()).await }
    })
    .await?;
    for drain in seen.drains.iter().filter(|drain| drain.reason == reason(id)) {
        let request = v1::UndrainRailRequest { target: drain.target.clone() };
        repeat(format!("undrain `{}`", drain.target), |_| {
            let (mut client, request) = (api.rails(), request.clone());
            async move { client.undrain_rail(request).await }
        })
        .await?;
    }
    Ok(())
}
