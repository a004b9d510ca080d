//! Showing how far something is while one waits for it, and not waiting for ever.

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use proto_model::many;
use proto_wire::v1::{self, job_status::Phase};

use crate::{error::Error, render};

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
    pub(crate) fn changes(&self) -> impl FnMut(&v1::Job) + '_ {
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

impl Drop for Progress {
    fn drop(&mut self) {
        if let Self::Terminal(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Between two lines about many things.
pub(crate) const LINES_EVERY: Duration = Duration::from_secs(1);

/// What is said of many things at once: each change on a terminal, elsewhere a line a second, and the last.
pub struct Seldom<'a> {
    pub(crate) progress: &'a Progress,
    pub(crate) last: String,
    pub(crate) said: Option<Instant>,
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

/// A phase that is never left.
pub fn ended(job: &v1::Job) -> bool {
    let phase = job.status.as_ref().map(v1::JobStatus::phase);
    matches!(phase, Some(Phase::Completed | Phase::Failed | Phase::Cancelled))
}

/// Phase, reasons, and how far it is, in one line.
pub(crate) fn words(job: &v1::Job) -> String {
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
