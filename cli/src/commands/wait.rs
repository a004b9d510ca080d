//! Waiting for a job's end, and showing the way there.

use std::time::Duration;

use proto_wire::v1::{self, job_event, job_status::Phase};

use super::{
    due::Due,
    progress::{Progress, ended, within},
    watch::{Resumer, open_jobs},
};
use crate::{
    client::{Api, JobRef},
    error::{Error, human},
    render,
};

/// Waits until the job has ended and gives it.
///
/// # Errors
/// [`Error::Timeout`] after `limit`; [`Error::Rpc`] if the controller refuses or does not answer, or if the job is deleted meanwhile.
pub async fn until_ended(
    api: &Api,
    job: &JobRef,
    uid: &str,
    limit: Option<Duration>,
) -> Result<v1::Job, Error> {
    until(api, job, uid, limit, ended).await
}

/// Waits until something is so of the job, and gives it; it is shown on the way.
///
/// # Errors
/// [`Error::Timeout`] after `limit`; [`Error::Rpc`] if the controller refuses or does not answer, or if the job is deleted meanwhile.
pub async fn until(
    api: &Api,
    job: &JobRef,
    uid: &str,
    limit: Option<Duration>,
    done: impl Fn(&v1::Job) -> bool,
) -> Result<v1::Job, Error> {
    let hint = format!("; `railctl cancel {job}` ends it");
    let wait = async {
        let progress = Progress::new();
        tokio::select! {
            ended = follow(api, job, uid, done, progress.changes()) => ended,
            () = expected(api, job, uid, &progress) => Err(gone(job)),
        }
    };
    within(&format!("job {job}"), &hint, limit, wait).await
}

/// Waits until the job runs or has ended, and gives it; it is shown on the way.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer, or if the job is deleted meanwhile.
pub async fn until_running(api: &Api, job: &JobRef, uid: &str) -> Result<v1::Job, Error> {
    let progress = Progress::new();
    let runs = |job: &v1::Job| {
        let status = job.status.as_ref();
        ended(job) || status.is_some_and(|one| one.phase() == Phase::Running && one.start_time.is_some())
    };
    tokio::select! {
        done = follow(api, job, uid, runs, progress.changes()) => done,
        () = expected(api, job, uid, &progress) => Err(gone(job)),
    }
}

/// How often it is asked when a job that waits will probably start: soon, and then now and then.
const EXPECTED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// Asks now and then when the job will probably start, which no watch tells, and shows it. It never ends of itself.
async fn expected(api: &Api, job: &JobRef, uid: &str, progress: &Progress) {
    if progress.is_silent() {
        return std::future::pending().await;
    }
    let mut pause = EXPECTED.0;
    loop {
        tokio::time::sleep(pause).await;
        pause = EXPECTED.1;
        // What goes wrong, the watch says.
        let Ok(seen) = api.get_job(job).await else { continue };
        let waits = seen.status.as_ref().is_some_and(|status| status.phase() == Phase::Pending);
        if waits && !is_another(&seen, uid, false) {
            progress.expect(Due::of_job(&seen));
        }
    }
}

/// Waits until the job has ended, and shows nothing.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer, or if the job is deleted meanwhile.
pub async fn until_over(api: &Api, job: &JobRef, uid: &str) -> Result<v1::Job, Error> {
    follow(api, job, uid, ended, |_| {}).await
}

async fn follow(
    api: &Api,
    job: &JobRef,
    uid: &str,
    done: impl Fn(&v1::Job) -> bool,
    mut show: impl FnMut(&v1::Job),
) -> Result<v1::Job, Error> {
    let doing = format!("wait for job `{job}`");
    let mut resumer = Resumer::new(0);
    let mut known = false;
    loop {
        // What is there comes anew: it may have been deleted meanwhile.
        known &= resumer.revision != 0;
        let lost = match open_jobs(api, &job.tenant, &job.name, resumer.revision).await {
            Err(status) => Some(status),
            Ok(mut stream) => loop {
                match stream.message().await {
                    Err(status) => break Some(status),
                    Ok(None) => break None,
                    Ok(Some(event)) => {
                        let deleted = event.r#type() == job_event::Type::Delete;
                        let synced = event.r#type() == job_event::Type::Synced;
                        resumer.arrived(event.revision, synced);
                        if synced && !known {
                            return Err(gone(job));
                        }
                        let Some(seen) = event.job else { continue };
                        if is_another(&seen, uid, deleted) {
                            continue;
                        }
                        known = true;
                        show(&seen);
                        if done(&seen) {
                            return Ok(seen);
                        }
                        if deleted {
                            return Err(gone(job));
                        }
                    }
                }
            },
        };
        resumer.lost(&doing, lost).await?;
    }
}

/// Whether another job has taken the name since. A DELETE without the last value names no uid: then none of the name is there any more.
fn is_another(seen: &v1::Job, uid: &str, deleted: bool) -> bool {
    let found = seen.metadata.as_ref().map_or("", |metadata| metadata.uid.as_str());
    !uid.is_empty() && found != uid && !(deleted && found.is_empty())
}

fn gone(job: &JobRef) -> Error {
    Error::Gone(format!("job {job} was deleted while it was waited for"))
}

/// What an ended job means for the exit code.
///
/// # Errors
/// [`Error::JobEnded`] unless the job has completed.
pub fn verdict(job: &v1::Job) -> Result<(), Error> {
    let status = job.status.clone().unwrap_or_default();
    if status.phase() == Phase::Completed {
        return Ok(());
    }
    let reasons: Vec<String> =
        status.reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.message)).collect();
    let because = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
    Err(Error::JobEnded {
        job: JobRef::of(job).to_string(),
        phase: render::job_phase(status.phase).to_owned(),
        because,
    })
}

/// How long the job ran, for the last line.
pub fn ran_for(job: &v1::Job) -> Option<String> {
    let status = job.status.as_ref()?;
    let passed = render::seconds(status.end_time.as_ref()?) - render::seconds(status.start_time.as_ref()?);
    Duration::try_from_secs_f64(passed).ok().map(human)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::progress::words;

    fn job(phase: Phase) -> v1::Job {
        let reasons = vec![v1::Reason {
            code: "RankExited".into(),
            message: "rank 3 ended with 1".into(),
            ..Default::default()
        }];
        v1::Job {
            metadata: Some(v1::Metadata { name: "a".into(), tenant: "t".into(), ..Default::default() }),
            status: Some(v1::JobStatus { phase: phase.into(), reasons, attempt: 2, ..Default::default() }),
            ..Default::default()
        }
    }

    #[test]
    fn another_job_of_the_name_is_not_taken_for_it() {
        let seen = |uid: &str| v1::Job {
            metadata: Some(v1::Metadata { uid: uid.into(), ..v1::Metadata::default() }),
            ..v1::Job::default()
        };
        assert!(is_another(&seen("b"), "a", false) && is_another(&seen("b"), "a", true));
        assert!(!is_another(&seen("a"), "a", false) && !is_another(&seen("b"), "", false));
        assert!(
            !is_another(&seen(""), "a", true),
            "a DELETE without the last value is of whatever had the name"
        );
    }

    #[test]
    fn the_end_decides_the_exit_code() {
        assert!(verdict(&job(Phase::Completed)).is_ok());
        for phase in [Phase::Failed, Phase::Cancelled] {
            assert!(ended(&job(phase)));
            assert_eq!(verdict(&job(phase)).unwrap_err().exit_code(), 1);
        }
        assert!(!ended(&job(Phase::Running)));
        let text = verdict(&job(Phase::Failed)).unwrap_err().to_string();
        assert_eq!(text, "job t/a ended as Failed: RankExited: rank 3 ended with 1");
        assert_eq!(words(&job(Phase::Recovering)), "Recovering (attempt 2); RankExited: rank 3 ended with 1");
    }
}
