//! Waiting for a job's end, and showing the way there.

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use proto_model::many;
use proto_wire::v1::{self, job_event, job_status::Phase};

use super::watch::{Resumer, open_jobs};
use crate::{
    client::{Api, JobRef},
    error::{Error, human},
    render,
};

/// What is shown while one waits: a line that changes on a terminal, one line per change elsewhere.
pub enum Progress {
    Terminal(ProgressBar),
    Lines { begun: Instant },
}

impl Progress {
    /// On a terminal a line that changes, elsewhere lines.
    pub fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines { begun: Instant::now() };
        }
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(120));
        Self::Terminal(bar)
    }

    /// Shows what is done now.
    pub fn say(&self, text: &str) {
        match self {
            Self::Terminal(bar) => bar.set_message(text.to_owned()),
            Self::Lines { begun } => eprintln!("{:7.2} s  {text}", begun.elapsed().as_secs_f64()),
        }
    }
}

impl Progress {
    /// Says each change of a job's phase and place.
    fn changes(&self) -> impl FnMut(&v1::Job) + '_ {
        let mut last = String::new();
        move |job| {
            let text = words(job);
            if text != last {
                self.say(&text);
                last = text;
            }
        }
    }
}

/// Between two lines about many things.
const LINES_EVERY: Duration = Duration::from_secs(1);

/// What is said of many things at once: each change on a terminal, elsewhere a line a second, and the last.
pub struct Seldom<'a> {
    progress: &'a Progress,
    last: String,
    said: Option<Instant>,
}

impl<'a> Seldom<'a> {
    /// A reporter that has shown nothing yet.
    pub fn new(progress: &'a Progress) -> Self {
        Self { progress, last: String::new(), said: None }
    }

    /// Says it, unless it was said or comes too soon.
    pub fn say(&mut self, text: String, is_last: bool) {
        let terminal = matches!(self.progress, Progress::Terminal(_));
        let due = terminal || is_last || self.said.is_none_or(|at| at.elapsed() >= LINES_EVERY);
        if due && text != self.last {
            self.progress.say(&text);
            (self.last, self.said) = (text, Some(Instant::now()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Self::Terminal(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// A phase that is never left.
pub fn ended(job: &v1::Job) -> bool {
    let phase = job.status.as_ref().map(v1::JobStatus::phase);
    matches!(phase, Some(Phase::Completed | Phase::Failed | Phase::Cancelled))
}

/// Waits no longer than allowed. A timeout or Ctrl-C leaves what is waited for as it is: `what` goes on, and `hint` tells what else can be
/// done.
///
/// # Errors
/// That of `wait`; [`Error::Timeout`] after `limit`; [`Error::Interrupted`] for Ctrl-C.
pub async fn within<T>(
    what: &str,
    hint: &str,
    limit: Option<Duration>,
    wait: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let forever = limit.is_none();
    let timeout = tokio::time::sleep(limit.unwrap_or(Duration::from_secs(1)));
    // What is said comes after what was shown on the way is gone with the wait.
    let interrupted = tokio::select! {
        done = wait => return done,
        () = timeout, if !forever => false,
        _ = tokio::signal::ctrl_c() => true,
    };
    if interrupted {
        eprintln!("{what} goes on{hint}");
        return Err(Error::Interrupted);
    }
    Err(Error::Timeout { what: format!("{what}, which goes on,"), limit: limit.unwrap_or_default() })
}

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
        follow(api, job, uid, done, progress.changes()).await
    };
    within(&format!("job {job}"), &hint, limit, wait).await
}

/// Waits until the job runs or has ended, and gives it; it is shown on the way.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer, or if the job is deleted meanwhile.
pub async fn until_running(api: &Api, job: &JobRef, uid: &str) -> Result<v1::Job, Error> {
    let progress = Progress::new();
    let show = progress.changes();
    let runs = |job: &v1::Job| {
        let status = job.status.as_ref();
        ended(job) || status.is_some_and(|one| one.phase() == Phase::Running && one.start_time.is_some())
    };
    follow(api, job, uid, runs, show).await
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
        let lost = match open_jobs(api, &job.tenant, &job.name, resumer.revision).await {
            Err(status) => Some(status),
            Ok(mut stream) => loop {
                match stream.message().await {
                    Err(status) => break Some(status),
                    Ok(None) => break None,
                    Ok(Some(event)) => {
                        resumer.arrived(event.revision);
                        let deleted = event.r#type() == job_event::Type::Delete;
                        if event.r#type() == job_event::Type::Synced && !known {
                            return Err(gone(job));
                        }
                        let Some(seen) = event.job else { continue };
                        // Another job may have taken the name since.
                        if seen
                            .metadata
                            .as_ref()
                            .is_some_and(|metadata| !uid.is_empty() && metadata.uid != uid)
                        {
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

fn gone(job: &JobRef) -> Error {
    Error::Gone(format!("job {job} was deleted while it was waited for"))
}

/// Phase, reasons, and how far it is, in one line.
fn words(job: &v1::Job) -> String {
    let status = job.status.clone().unwrap_or_default();
    let mut text = render::job_phase(status.phase).to_owned();
    let again = if status.attempt > 1 { format!(" (attempt {})", status.attempt) } else { String::new() };
    text.push_str(&again);
    if let (Some(place), false) = (&status.placement, ended(job)) {
        let nodes: Vec<&str> = place.nodes.iter().take(8).map(|node| node.node.as_str()).collect();
        let more = if place.nodes.len() > 8 { ",..." } else { "" };
        text.push_str(&format!(" on {}{more}, {}", nodes.join(","), many(place.rails.len(), "rail")));
    }
    if !status.exits.is_empty() && !ended(job) {
        let ranks = status.placement.as_ref().map_or(0, |place| place.ranks.len());
        text.push_str(&format!(", {} of {} ended", status.exits.len(), many(ranks, "rank")));
    }
    // Why it runs where it runs is in the placement; here only what keeps it from running, or ended it.
    let runs =
        matches!(status.phase(), Phase::Reserved | Phase::Preparing | Phase::Running | Phase::Completed);
    for reason in status.reasons.iter().filter(|_| !runs) {
        text.push_str(&format!("; {}: {}", reason.code, reason.message));
    }
    text
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
