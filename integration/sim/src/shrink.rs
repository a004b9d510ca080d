//! A failing seed made small: fewer faults, fewer jobs, nothing that goes wrong beside the plan, a shorter run.

use crate::{config::Config, report::Report, world::run};

/// Runs that shrinking takes at most.
const RUNS: usize = 400;

/// What is left of a failing run.
#[derive(Debug, Clone)]
pub struct Shrunk {
    /// How to run it.
    pub config: Config,
    /// The report of the run with that configuration, which has the same violation.
    pub report: Report,
    /// Runs that it took.
    pub runs: usize,
}

struct Search {
    seed: u64,
    best: Config,
    report: Report,
    runs: usize,
}

impl Search {
    /// Keeps a smaller run if it fails too, in whatever way.
    fn attempt(&mut self, config: Config) -> bool {
        if self.runs >= RUNS || config == self.best {
            return false;
        }
        self.runs += 1;
        let report = run(self.seed, &config);
        let fails = report.violation.is_some();
        if fails {
            (self.best, self.report) = (config, report);
        }
        fails
    }

    /// Leaves out what can be left out: first in large parts, then one by one.
    fn thin(&mut self, pick: fn(&mut Config) -> &mut Option<Vec<usize>>) {
        let mut part = pick(&mut self.best).as_ref().map_or(0, Vec::len).div_ceil(2);
        while part > 0 {
            let mut from = 0;
            while from < pick(&mut self.best).as_ref().map_or(0, Vec::len) {
                let mut config = self.best.clone();
                if let Some(kept) = pick(&mut config) {
                    let to = (from + part).min(kept.len());
                    kept.drain(from..to);
                }
                if !self.attempt(config) {
                    from += part;
                }
            }
            part /= 2;
        }
    }
}

/// Shrinks a failing seed; `None` if it does not fail.
#[must_use]
pub fn shrink(seed: u64, config: &Config) -> Option<Shrunk> {
    let report = run(seed, config);
    report.violation.as_ref()?;
    let mut best = config.clone();
    best.only_faults.get_or_insert_with(|| (0..usize::try_from(config.faults).unwrap_or(0)).collect());
    best.only_jobs.get_or_insert_with(|| (0..usize::try_from(config.jobs).unwrap_or(0)).collect());
    let mut search = Search { seed, best, report, runs: 1 };
    let quiet = Config { noise: false, ..search.best.clone() };
    search.attempt(quiet);
    let straight = Config { skew: false, ..search.best.clone() };
    search.attempt(straight);
    for _ in 0..2 {
        search.thin(|config| &mut config.only_faults);
        search.thin(|config| &mut config.only_jobs);
    }
    let Search { best, report, runs, .. } = search;
    Some(Shrunk { config: best, report, runs })
}

/// The command that runs one seed again, as it is configured.
#[must_use]
pub fn replay(seed: u64, config: &Config) -> String {
    let default = Config::default();
    let mut command = format!("cargo xtask sim --seed {seed} --story");
    let mut number = |name: &str, value: u64, usual: u64| {
        if value != usual {
            command.push_str(&format!(" --{name} {value}"));
        }
    };
    number("controllers", config.controllers, default.controllers);
    number("nodes", config.nodes, default.nodes);
    number("jobs", config.jobs, default.jobs);
    number("faults", config.faults, default.faults);
    number("chaos-s", config.chaos_ms / 1000, default.chaos_ms / 1000);
    for (name, on) in [
        ("no-noise", !config.noise),
        ("no-skew", !config.skew),
        ("certify", config.certify),
        ("prove", config.prove),
        ("lie", config.lie),
    ] {
        if on {
            command.push_str(&format!(" --{name}"));
        }
    }
    for (name, only) in [("only-faults", &config.only_faults), ("only-jobs", &config.only_jobs)] {
        if let Some(only) = only {
            let list: Vec<String> = only.iter().map(ToString::to_string).collect();
            let list = if list.is_empty() { "none".to_owned() } else { list.join(",") };
            command.push_str(&format!(" --{name} {list}"));
        }
    }
    if let Some(bug) = config.bug {
        command.push_str(&format!(" --bug {bug:?}"));
    }
    command
}
