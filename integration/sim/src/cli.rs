//! The command line: seeds in, figures out, and for a failing seed its story and the command that replays it.

use std::{io::Write, process::ExitCode, time::Instant};

use crate::{
    config::{Bug, Config},
    report::Report,
    world::run,
};

const USAGE: &str =
    "usage: rail-sim [--seed N | --seeds A..B] [--story] [--twice] [--bug NAME] [--nodes N] [--jobs N] \
[--chaos-s N]
  --seed N      one seed
  --seeds A..B  seeds A to B-1 (default 0..2000)
  --story       print every event of the last run
  --twice       run every seed twice and compare
  --bug NAME    plant a bug, for example ReplyBeforeCommit";

struct Arguments {
    seeds: std::ops::Range<u64>,
    twice: bool,
    config: Config,
}

/// Runs what the arguments (without the program's name) say. The exit code is 0 if no invariant was violated.
pub fn main_from_args(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let arguments = match parse(arguments) {
        Ok(arguments) => arguments,
        Err(message) => {
            let _ = writeln!(out, "{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let begin = Instant::now();
    let (mut events, mut simulated, mut faults, mut count) = (0, 0, 0, 0_u64);
    for seed in arguments.seeds.clone() {
        let report = run(seed, &arguments.config);
        if arguments.twice && run(seed, &arguments.config).digest != report.digest {
            let _ = writeln!(out, "seed {seed} gives two different runs");
            return ExitCode::FAILURE;
        }
        count += 1;
        events += report.events;
        simulated += report.simulated_ms;
        faults += report.faults;
        if report.violation.is_some() {
            fail(&mut out, seed, &arguments.config, &report);
            return ExitCode::FAILURE;
        }
        if arguments.seeds.end - arguments.seeds.start == 1 {
            report.story.iter().for_each(|line| drop(writeln!(out, "{line}")));
            let _ = writeln!(out, "{report}");
        }
    }
    let seconds = begin.elapsed().as_secs_f64().max(1e-9);
    let _ = writeln!(
        out,
        "{count} seeds ({}..{}), 0 violations: {events} events, {} h simulated, {faults} faults, {:.0} seeds/s, {:.0} events/s",
        arguments.seeds.start,
        arguments.seeds.end,
        simulated / 3_600_000,
        f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / seconds,
        events as f64 / seconds,
    );
    ExitCode::SUCCESS
}

/// A failing seed: what, how it came to that, and how to see it again.
fn fail(out: &mut impl Write, seed: u64, config: &Config, report: &Report) {
    let told = run(seed, &Config { story: true, ..config.clone() });
    let skipped = told.story.len().saturating_sub(60);
    if skipped > 0 {
        let _ = writeln!(out, "  ... {skipped} earlier events; --story prints all");
    }
    told.story[skipped..].iter().for_each(|line| drop(writeln!(out, "{line}")));
    let _ = writeln!(out, "{report}\nreplay: {}", replay(seed, config));
}

/// The command that runs one seed again.
#[must_use]
pub fn replay(seed: u64, config: &Config) -> String {
    let mut command = format!("cargo run -q -p integration-sim --bin rail-sim -- --seed {seed} --story");
    let default = Config::default();
    if config.nodes != default.nodes {
        command.push_str(&format!(" --nodes {}", config.nodes));
    }
    if config.jobs != default.jobs {
        command.push_str(&format!(" --jobs {}", config.jobs));
    }
    if config.chaos_ms != default.chaos_ms {
        command.push_str(&format!(" --chaos-s {}", config.chaos_ms / 1000));
    }
    if let Some(bug) = config.bug {
        command.push_str(&format!(" --bug {bug:?}"));
    }
    command
}

fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments { seeds: 0..2000, twice: false, config: Config::default() };
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--seed" => {
                let seed = number(&value()?)?;
                parsed.seeds = seed..seed.saturating_add(1);
            }
            "--seeds" => {
                let text = value()?;
                let (from, to) = text.split_once("..").ok_or_else(|| format!("'{text}' is not A..B"))?;
                parsed.seeds = number(from)?..number(to)?;
            }
            "--story" => parsed.config.story = true,
            "--twice" => parsed.twice = true,
            "--nodes" => parsed.config.nodes = number(&value()?)?.max(2),
            "--jobs" => parsed.config.jobs = number(&value()?)?.max(2),
            "--chaos-s" => parsed.config.chaos_ms = number(&value()?)?.max(2) * 1000,
            "--bug" => {
                let text = value()?;
                let bug = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == text);
                parsed.config.bug = Some(bug.ok_or_else(|| format!("'{text}' is none of {:?}", Bug::ALL))?);
            }
            other => return Err(format!("'{other}' is not known here")),
        }
    }
    Ok(parsed)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}
