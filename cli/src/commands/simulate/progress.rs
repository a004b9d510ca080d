//! How far simulations are: a bar each where standard error is a terminal, else a line now and then.

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use controller_simulator::{Outcome, Watch};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::error::human;

/// From line to line where there is no terminal.
const BETWEEN: Duration = Duration::from_secs(10);

/// The bars of all simulations that run; a line now and then without a terminal.
pub struct Progress {
    bars: MultiProgress,
    jobs: usize,
    terminal: bool,
}

/// The bar of one scheduler's simulation.
pub struct Bar {
    bar: ProgressBar,
    name: &'static str,
    jobs: usize,
    shown: usize,
    begin: Instant,
    reported: Instant,
    terminal: bool,
}

impl Progress {
    /// Bars for simulations of so many jobs.
    pub fn new(jobs: usize) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        Self { bars, jobs, terminal: std::io::stderr().is_terminal() }
    }

    /// Adds a bar for the scheduler of this name.
    pub fn bar(&self, name: &'static str) -> Bar {
        let bar = self.bars.add(ProgressBar::new(self.jobs as u64));
        let style =
            ProgressStyle::with_template("{prefix:7} {wide_bar} {pos}/{len} jobs, {elapsed}, {eta} left");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_prefix(name);
        let (jobs, now) = (self.jobs, Instant::now());
        Bar { bar, name, jobs, shown: 0, begin: now, reported: now, terminal: self.terminal }
    }
}

impl Bar {
    /// It has come to its end.
    pub fn done(&mut self, outcome: &Outcome) {
        self.bar.finish();
        if !self.terminal {
            let seconds = self.begin.elapsed().as_secs_f64();
            eprintln!("{:<7} {} jobs in {seconds:.1} s", outcome.policy, outcome.rows.len());
        }
    }
}

impl Watch for Bar {
    fn ended(&mut self, jobs: usize) {
        // A bar is drawn a few times a second; a hundred updates a run are enough for it.
        if jobs >= self.shown + 256 {
            self.shown = jobs;
            self.bar.set_position(jobs as u64);
        }
        if !self.terminal && self.reported.elapsed() >= BETWEEN {
            self.reported = Instant::now();
            let left =
                self.begin.elapsed().mul_f64(self.jobs.saturating_sub(jobs) as f64 / jobs.max(1) as f64);
            let left = human(Duration::from_secs(left.as_secs()));
            eprintln!("{:<7} {jobs} of {} jobs, about {left} left", self.name, self.jobs);
        }
    }
}
