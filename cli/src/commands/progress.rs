//! Showing how far something is while one waits for it, and not waiting for ever.

use std::{
    fmt,
    io::IsTerminal as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use proto_model::many;
use proto_wire::v1::{self, job_status::Phase};

use super::due::Due;
use crate::{error::Error, output::now, render};

/// Set where JSON was asked for: then standard error is for errors alone.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Nothing is shown on the way from now on.
pub fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Where nothing changes, a line without a terminal comes after the first of these, then after twice as long, up to the second.
const AGAIN: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(960));

/// What is shown while one waits: a line that changes on a terminal, elsewhere one line per change, and one now and then.
pub struct Progress {
    view: View,
    said: Arc<Mutex<Said>>,
}

enum View {
    Nothing,
    Terminal(ProgressBar),
    Lines { begun: Instant, again: Option<tokio::task::AbortHandle> },
}

/// What was said last, and when that is over.
#[derive(Default)]
struct Said {
    text: String,
    due: Option<Due>,
}

impl Said {
    fn line(&self) -> String {
        match self.due.map(|due| due.words(now())).filter(|due| !due.is_empty()) {
            Some(due) => format!("{due}; {}", self.text),
            None => self.text.clone(),
        }
    }
}

impl Progress {
    /// On a terminal a line that changes, elsewhere lines; nothing where JSON was asked for.
    pub fn new() -> Self {
        let said = Arc::new(Mutex::new(Said::default()));
        if SILENT.load(Ordering::Relaxed) {
            return Self { view: View::Nothing, said };
        }
        if !std::io::stderr().is_terminal() {
            let begun = Instant::now();
            let again = tokio::runtime::Handle::try_current().ok();
            let again = again.map(|runtime| runtime.spawn(repeat(begun, Arc::clone(&said))).abort_handle());
            return Self { view: View::Lines { begun, again }, said };
        }
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {elapsed} {due}{wide_msg}");
        let due = Arc::clone(&said);
        let left = move |_: &ProgressState, out: &mut dyn fmt::Write| {
            // It is counted down while nothing else changes.
            let due = lock(&due).due.map(|due| due.words(now())).filter(|due| !due.is_empty());
            let _ = due.map_or(Ok(()), |due| write!(out, "{due}; "));
        };
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        bar.set_style(style.with_key("due", left));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { view: View::Terminal(bar), said }
    }

    /// Shows what is done now.
    pub fn say(&self, text: &str) {
        let line = {
            let mut said = lock(&self.said);
            text.clone_into(&mut said.text);
            said.line()
        };
        match &self.view {
            View::Nothing => {}
            View::Terminal(bar) => bar.set_message(text.to_owned()),
            View::Lines { begun, .. } => print_line(*begun, &line),
        }
    }

    /// Whether nothing is shown.
    pub fn is_silent(&self) -> bool {
        matches!(self.view, View::Nothing)
    }

    /// Shows from now on when that will be over, where it is known.
    pub fn expect(&self, due: Option<Due>) {
        lock(&self.said).due = due;
    }

    /// Says each change of a job's phase and place, and when it starts or is over.
    pub(crate) fn changes(&self) -> impl FnMut(&v1::Job) + '_ {
        let (mut last, mut phase) = (String::new(), None);
        move |job| {
            let (due, reached) = (Due::of_job(job), job.status.as_ref().map(|status| status.phase));
            // Watches do not tell when a job will start: what was asked for stays while it waits.
            if due.is_some() || phase != reached {
                self.expect(due);
            }
            phase = reached;
            let text = words(job);
            if text != last {
                self.say(&text);
                last = text;
            }
        }
    }
}

fn lock(said: &Mutex<Said>) -> std::sync::MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

fn print_line(begun: Instant, line: &str) {
    eprintln!("{:7.2} s  {line}", begun.elapsed().as_secs_f64());
}

/// Says again what was said last, now and then.
async fn repeat(begun: Instant, said: Arc<Mutex<Said>>) {
    let mut pause = AGAIN.0;
    loop {
        tokio::time::sleep(pause).await;
        let line = lock(&said).line();
        if !line.is_empty() {
            print_line(begun, &line);
        }
        pause = (pause * 2).min(AGAIN.1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        match &self.view {
            View::Nothing => {}
            View::Terminal(bar) => bar.finish_and_clear(),
            View::Lines { again, .. } => {
                if let Some(again) = again {
                    again.abort();
                }
            }
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
        let terminal = matches!(self.progress.view, View::Terminal(_));
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
