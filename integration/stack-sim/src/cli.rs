//! The command line: seeds in, figures out, and for a failing seed its story and the command that replays it.

use std::{
    io::Write,
    ops::Range,
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use crate::{config::Config, plant::Bug, sums::Sums, world::run};

const USAGE: &str = "usage: rail-stack-sim [--seed N | --seeds A..B | --bugs] [options]
  --seed N         one seed; its whole story with --story
  --seeds A..B     seeds A to B-1 (default 0..200); every five hundredth is run twice and compared
  --bugs           list the bugs that can be planted
  --threads N      processes that share the seeds (default 1)
  --twice          run every seed twice and compare
  --survey         go on after a failing seed; name each in a line
  --hunt           look for every planted bug in these seeds, and say how long each took
  --bug NAME       plant a bug
  --controllers N, --clients N, --submits N, --faults N, --chaos-s N, --tick-ms N   the size of a run";

/// Every so many seeds one is run twice.
const TWICE_EVERY: u64 = 500;
/// Lines of a failing seed's story that are printed.
const STORY: usize = 120;
/// How often the progress is printed.
const TELL_EVERY: u64 = 5000;

struct Arguments {
    seeds: Range<u64>,
    threads: usize,
    stride: u64,
    /// Of a share: the sums are printed for another process.
    sums: bool,
    twice: bool,
    bugs: bool,
    survey: bool,
    hunt: bool,
    config: Config,
}

/// How seeds are swept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// Every one is run twice.
    pub twice: bool,
    /// A failing seed does not end it.
    pub survey: bool,
    /// Of so many seeds that follow each other one is run.
    pub stride: u64,
}

/// Runs seeds one after the other, until one fails or, as a survey, to the end. That a seed gives two different runs is a
/// failure too. Not to be called on two threads at a time: see [`run`].
#[must_use]
pub fn sweep(seeds: Range<u64>, how: Sweep, config: &Config) -> Sums {
    let mut sums = Sums::default();
    for seed in seeds.step_by(usize::try_from(how.stride.max(1)).unwrap_or(usize::MAX)) {
        one(seed, how.twice, config, &mut sums);
        if !how.survey && !sums.failed.is_empty() {
            break;
        }
        if sums.seeds.is_multiple_of(TELL_EVERY) {
            eprintln!("seed {seed}: {} seeds, {} failed", sums.seeds, sums.failed.len());
        }
    }
    sums
}

fn one(seed: u64, twice: bool, config: &Config, sums: &mut Sums) {
    let report = run(seed, config);
    sums.add(&report);
    if let Some((at, what)) = &report.violation {
        sums.failed.push((seed, format!("at {at} ms: {what}")));
    } else if twice || seed % TWICE_EVERY == TWICE_EVERY - 1 {
        let again = run(seed, config);
        if again == report {
            sums.twice += 1;
        } else {
            let what = format!("two runs differ: {:016x} and {:016x}", report.digest, again.digest);
            sums.failed.push((seed, what));
        }
    }
}

/// Shares seeds among processes of this program: what is global in one must not mix two runs.
fn share(arguments: &Arguments) -> Result<Sums, String> {
    if arguments.threads == 1 || arguments.seeds.end - arguments.seeds.start == 1 {
        let how = Sweep { twice: arguments.twice, survey: arguments.survey, stride: arguments.stride };
        return Ok(sweep(arguments.seeds.clone(), how, &arguments.config));
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let stride = arguments.threads as u64;
    let start = |first: u64| {
        let mut command = Command::new(&program);
        command.args(["--sums", "--stride", &stride.to_string()]);
        command.args(["--seeds", &format!("{}..{}", arguments.seeds.start + first, arguments.seeds.end)]);
        command.args(size(&arguments.config));
        command.args(arguments.twice.then_some("--twice"));
        command.args(arguments.survey.then_some("--survey"));
        command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())
    };
    let shares = stride.min(arguments.seeds.end - arguments.seeds.start);
    let children = (0..shares).map(start).collect::<Result<Vec<_>, _>>()?;
    let mut all = Sums::default();
    for child in children {
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        all.merge(Sums::read(&text).ok_or_else(|| format!("a share ended with {}: {text}", output.status))?);
    }
    all.failed.sort();
    Ok(all)
}

/// Runs what the arguments (without the program's name) say. The exit code is 0 if nothing was violated.
pub fn main_from_args(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let arguments = match parse(arguments) {
        Ok(arguments) => arguments,
        Err(message) => {
            let _ = writeln!(out, "{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if arguments.bugs {
        Bug::ALL.iter().for_each(|bug| drop(writeln!(out, "{:<20} {}", format!("{bug:?}"), bug.words())));
        return ExitCode::SUCCESS;
    }
    let (seeds, config) = (arguments.seeds.clone(), &arguments.config);
    if seeds.end - seeds.start == 1 && !arguments.twice {
        let report = run(seeds.start, config);
        report.story.iter().for_each(|line| drop(writeln!(out, "{line}")));
        let _ = writeln!(out, "{report}");
        return ExitCode::from(u8::from(report.violation.is_some()));
    }
    if arguments.hunt {
        return hunt(&mut out, &arguments);
    }
    let begin = Instant::now();
    let sums = match share(&arguments) {
        Ok(sums) => sums,
        Err(error) => {
            let _ = writeln!(out, "{error}");
            return ExitCode::FAILURE;
        }
    };
    if arguments.sums {
        let _ = writeln!(out, "{}", sums.line());
        return ExitCode::SUCCESS;
    }
    report(&mut out, &seeds, &sums, begin.elapsed().as_secs_f64(), arguments.threads);
    for (seed, why) in &sums.failed {
        let _ = writeln!(out, "seed {seed} fails: {why}");
    }
    if let Some((seed, _)) = sums.failed.first().filter(|_| !arguments.survey) {
        let _ = writeln!(out, "{}\nreplay: {}", story(*seed, config), replay(*seed, config));
    }
    ExitCode::from(u8::from(!sums.failed.is_empty()))
}

fn report(out: &mut impl Write, seeds: &Range<u64>, sums: &Sums, seconds: f64, threads: usize) {
    let rate = sums.seeds as f64 / seconds.max(1e-9);
    let _ = writeln!(
        out,
        "{} seeds ({}..{}), {} violations, {} run twice and identical: {} submits acknowledged, 0 lost and 0 doubled but in \
         failing seeds, {} calls, {} transactions, {} faults, {} take-overs, {:.1} h simulated, slowest to settle {} ms; \
         {seconds:.0} s on {threads} threads, {rate:.1} seeds/s, {:.1} a thread, {:.0} times as fast as the clock",
        sums.seeds,
        seeds.start,
        seeds.end,
        sums.failed.len(),
        sums.twice,
        sums.acknowledged,
        sums.calls,
        sums.commits,
        sums.faults,
        sums.take_overs,
        sums.simulated_ms as f64 / 3_600_000.0,
        sums.slowest_ms,
        rate / threads.max(1) as f64,
        sums.simulated_ms as f64 / 1000.0 / seconds.max(1e-9),
    );
}

/// Every planted bug, with the seed that finds it, the time that it took, and what is found.
fn hunt(out: &mut impl Write, arguments: &Arguments) -> ExitCode {
    let mut missed = 0;
    for bug in Bug::ALL {
        let begin = Instant::now();
        let config = Config { bug: Some(*bug), ..arguments.config.clone() };
        let how = Sweep { twice: false, survey: false, stride: 1 };
        let sums = sweep(arguments.seeds.clone(), how, &config);
        let seconds = begin.elapsed().as_secs_f64();
        let _ = match sums.failed.first() {
            Some((seed, _)) if run(*seed, &arguments.config).violation.is_some() => {
                missed += 1;
                writeln!(out, "{bug:?}: seed {seed} fails without it too")
            }
            Some((seed, why)) => {
                let why: String = why.chars().take(160).collect();
                writeln!(out, "{bug:?}: {seconds:.1} s, {} seeds, seed {seed}: {why}", sums.seeds)
            }
            None => {
                missed += 1;
                writeln!(out, "{bug:?}: NOT FOUND in {seconds:.1} s")
            }
        };
    }
    let _ = writeln!(out, "{} of {} bugs found", Bug::ALL.len() - missed, Bug::ALL.len());
    ExitCode::from(u8::from(missed > 0))
}

/// The last events before a violation, and the faults before those.
#[must_use]
pub fn story(seed: u64, config: &Config) -> String {
    let reported = run(seed, &Config { story: true, ..config.clone() });
    let skipped = reported.story.len().saturating_sub(STORY);
    let faults = reported.story[..skipped].iter().filter(|line| line.contains("FAULT"));
    let mut lines: Vec<String> = faults.cloned().collect();
    if skipped > 0 {
        lines.push(format!("  ... {skipped} earlier events, of which only faults are shown"));
    }
    lines.extend_from_slice(&reported.story[skipped..]);
    lines.push(reported.to_string());
    lines.join("\n")
}

/// The command that runs a seed again.
#[must_use]
pub fn replay(seed: u64, config: &Config) -> String {
    let size = size(config).join(" ");
    format!("cargo xtask stack --seed {seed} --story {size}").trim_end().to_owned()
}

/// Arguments that make a run of this size out of a usual one.
fn size(config: &Config) -> Vec<String> {
    let usual = Config::default();
    let numbers = [
        ("--controllers", config.controllers, usual.controllers),
        ("--clients", config.clients, usual.clients),
        ("--submits", config.submits, usual.submits),
        ("--faults", config.faults, usual.faults),
        ("--chaos-s", config.chaos_ms / 1000, usual.chaos_ms / 1000),
        ("--tick-ms", config.tick_ms, usual.tick_ms),
    ];
    let other = numbers.into_iter().filter(|(_, now, usual)| now != usual);
    let other = other.flat_map(|(name, now, _)| [name.to_owned(), now.to_string()]);
    let bug = config.bug.map(|bug| ["--bug".to_owned(), format!("{bug:?}")]);
    other.chain(bug.into_iter().flatten()).collect()
}

fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        seeds: 0..200,
        threads: 1,
        stride: 1,
        sums: false,
        twice: false,
        bugs: false,
        survey: false,
        hunt: false,
        config: Config::default(),
    };
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
                if parsed.seeds.is_empty() {
                    return Err(format!("'{text}' holds no seed"));
                }
            }
            "--threads" => parsed.threads = usize::try_from(number(&value()?)?.clamp(1, 1024)).unwrap_or(1),
            "--stride" => parsed.stride = number(&value()?)?.max(1),
            "--sums" => parsed.sums = true,
            "--bugs" => parsed.bugs = true,
            "--survey" => parsed.survey = true,
            "--hunt" => parsed.hunt = true,
            "--story" => parsed.config.story = true,
            "--twice" => parsed.twice = true,
            "--controllers" => parsed.config.controllers = number(&value()?)?.clamp(1, 7),
            "--clients" => parsed.config.clients = number(&value()?)?.clamp(1, 30),
            "--submits" => parsed.config.submits = number(&value()?)?.max(1),
            "--faults" => parsed.config.faults = number(&value()?)?,
            "--chaos-s" => parsed.config.chaos_ms = number(&value()?)?.clamp(1, 3600) * 1000,
            "--tick-ms" => parsed.config.tick_ms = number(&value()?)?.clamp(1, 50),
            "--bug" => {
                let text = value()?;
                let bug = Bug::ALL.iter().find(|bug| format!("{bug:?}") == text);
                parsed.config.bug = Some(*bug.ok_or_else(|| format!("'{text}' is no bug; see --bugs"))?);
            }
            other => return Err(format!("'{other}' is not known here")),
        }
    }
    Ok(parsed)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}
