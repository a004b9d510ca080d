//! The command line: seeds in, figures out, and for a failing seed its story, made short, and the command that replays it.

use std::{
    io::Write,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use crate::{
    config::Config,
    plant::Bug,
    report::Report,
    shrink::{replay, shrink},
    world::run,
};

const USAGE: &str = "usage: rail-sim [--seed N | --seeds A..B | --bugs] [options]
  --seed N         one seed; its whole story with --story
  --seeds A..B     seeds A to B-1 (default 0..20000); every thousandth is run twice and compared
  --bugs           list the bugs that can be planted
  --threads N      threads that share the seeds (default 1)
  --twice          run every seed twice and compare
  --survey         go on after a failing seed; name each in a line
  --hunt           look for every planted bug in these seeds, and say how long each took
  --bug NAME       plant a bug
  --controllers N, --nodes N, --jobs N, --faults N, --chaos-s N   the size of a run
  --certify                                                       gangs are certified before their ranks start
  --prove                                                         NICs fall ill, and are out of use until a probe passes
  --lie                                                           agents say what is not true now and then
  --no-noise, --no-skew, --only-faults A,B, --only-jobs A,B       less goes wrong";

/// Every so many seeds one is run twice.
const TWICE_EVERY: u64 = 1000;
/// Lines of a failing seed's story that are printed.
const STORY: usize = 60;

struct Arguments {
    seeds: std::ops::Range<u64>,
    threads: usize,
    twice: bool,
    bugs: bool,
    survey: bool,
    hunt: bool,
    config: Config,
}

/// What seeds have summed up to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sums {
    /// Seeds that were run.
    pub seeds: u64,
    /// Of these, run twice and found identical.
    pub twice: u64,
    /// Events of all runs together.
    pub events: u64,
    /// Simulated milliseconds of all runs together.
    pub simulated_ms: u64,
    /// Faults that were injected in all runs together.
    pub faults: u64,
    /// Submits that were acknowledged.
    pub acknowledged: u64,
    /// Times that a controller began to lead.
    pub take_overs: u64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.twice += other.twice;
        self.events += other.events;
        self.simulated_ms += other.simulated_ms;
        self.faults += other.faults;
        self.acknowledged += other.acknowledged;
        self.take_overs += other.take_overs;
    }
}

/// Runs seeds on several threads, until one fails. Gives the sums, and the first failing seed that was met; that a seed
/// gives two different runs is a failure too.
pub fn sweep(
    seeds: std::ops::Range<u64>,
    threads: usize,
    twice: bool,
    config: &Config,
) -> (Sums, Option<(u64, String)>) {
    let next = AtomicU64::new(seeds.start);
    let failed: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let has_failed = || failed.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    let work = || {
        let mut sums = Sums::default();
        while !has_failed() {
            let from = next.fetch_add(64, Ordering::Relaxed);
            if from >= seeds.end {
                break;
            }
            for seed in from..(from + 64).min(seeds.end) {
                let report = run(seed, config);
                let again = twice || seed % TWICE_EVERY == TWICE_EVERY - 1;
                let why = match &report.violation {
                    Some(violation) => Some(violation.what.clone()),
                    None if again && !is_repeated(seed, config, &report) => {
                        Some("the seed gives two different runs".to_owned())
                    }
                    None => None,
                };
                sums.add(&Sums {
                    seeds: 1,
                    twice: u64::from(again),
                    events: report.events,
                    simulated_ms: report.simulated_ms,
                    faults: report.faults,
                    acknowledged: report.acknowledged,
                    take_overs: report.take_overs,
                });
                if let Some(why) = why {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((seed, why));
                    return sums;
                }
            }
        }
        sums
    };
    let mut sums = Sums::default();
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(work)).collect();
        sums.add(&work());
        for other in others {
            if let Ok(more) = other.join() {
                sums.add(&more);
            }
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    (sums, failed)
}

/// Whether a seed gives the same run again: every event, every line of its story, every row in the end.
#[must_use]
pub fn is_repeated(seed: u64, config: &Config, report: &Report) -> bool {
    let reported = Config { story: true, ..config.clone() };
    let (one, other) = (run(seed, &reported), run(seed, &reported));
    one == other && one.digest == report.digest
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
    if arguments.bugs {
        Bug::ALL.iter().for_each(|bug| drop(writeln!(out, "{:<20} {}", format!("{bug:?}"), bug.words())));
        return ExitCode::SUCCESS;
    }
    let seeds = arguments.seeds.clone();
    if seeds.end - seeds.start == 1 && arguments.config.story {
        let report = run(seeds.start, &arguments.config);
        report.story.iter().for_each(|line| drop(writeln!(out, "{line}")));
        let _ = writeln!(out, "{report}");
        return if report.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    if arguments.survey {
        return survey(&mut out, seeds, &arguments.config);
    }
    if arguments.hunt {
        return hunt(&mut out, &seeds, arguments.threads, &arguments.config);
    }
    let begin = Instant::now();
    let (sums, failed) = sweep(seeds.clone(), arguments.threads, arguments.twice, &arguments.config);
    let seconds = begin.elapsed().as_secs_f64().max(1e-9);
    if let Some((seed, why)) = failed {
        fail(&mut out, seed, &why, &arguments.config);
        return ExitCode::FAILURE;
    }
    let rate = sums.seeds as f64 / seconds;
    let _ = writeln!(
        out,
        "{} seeds ({}..{}), 0 violations, {} run twice and identical: {} events, {} h simulated, {} faults, {} jobs acknowledged, \
         {} take-overs; {:.0} s on {} threads, {rate:.0} seeds/s, {:.0} a thread, {:.0} events/s",
        sums.seeds,
        seeds.start,
        seeds.end,
        sums.twice,
        sums.events,
        sums.simulated_ms / 3_600_000,
        sums.faults,
        sums.acknowledged,
        sums.take_overs,
        seconds,
        arguments.threads,
        rate / arguments.threads as f64,
        sums.events as f64 / seconds,
    );
    ExitCode::SUCCESS
}

/// All failing seeds, each in a line.
fn survey(out: &mut impl Write, seeds: std::ops::Range<u64>, config: &Config) -> ExitCode {
    let mut failed = 0;
    for seed in seeds {
        if let Some(violation) = run(seed, config).violation {
            failed += 1;
            let _ = writeln!(out, "seed {seed} at {} ms: {}", violation.at_ms, violation.what);
        }
    }
    let _ = writeln!(out, "{failed} seeds fail");
    ExitCode::from(u8::from(failed > 0))
}

/// Every planted bug, with the seed that finds it, the time that it took, and what is found.
fn hunt(out: &mut impl Write, seeds: &std::ops::Range<u64>, threads: usize, config: &Config) -> ExitCode {
    let mut missed = 0;
    for bug in Bug::ALL {
        let begin = Instant::now();
        let (_, failed) = sweep(seeds.clone(), threads, false, &Config { bug: Some(*bug), ..config.clone() });
        let seconds = begin.elapsed().as_secs_f64();
        let _ = match failed {
            Some((seed, _)) if run(seed, config).violation.is_some() => {
                missed += 1;
                writeln!(out, "{bug:?}: seed {seed} fails without it too")
            }
            Some((seed, why)) => {
                let why: String = why.chars().take(160).collect();
                writeln!(out, "{bug:?}: {seconds:.3} s, seed {seed}: {why}")
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

/// A failing seed: what, made small, how it got there, and how to see it again.
fn fail(out: &mut impl Write, seed: u64, why: &str, config: &Config) {
    let Some(shrunk) = shrink(seed, config) else {
        let _ = writeln!(out, "seed {seed}: {why}\nreplay: {}", replay(seed, config));
        return;
    };
    let _ = writeln!(out, "{}", story(seed, &shrunk.config));
    let faults = shrunk.config.only_faults.as_ref().map_or(0, Vec::len);
    let _ = writeln!(
        out,
        "seed {seed} fails: {why}\nmade small in {} runs, {faults} faults of {} are left\nreplay: {}",
        shrunk.runs,
        config.faults,
        replay(seed, &shrunk.config)
    );
}

/// The last events before a violation, and the faults before those.
#[must_use]
pub fn story(seed: u64, config: &Config) -> String {
    let reported = run(seed, &Config { story: true, ..config.clone() });
    let skipped = reported.story.len().saturating_sub(STORY);
    let mut lines: Vec<String> =
        reported.story[..skipped].iter().filter(|line| line.contains("FAULT")).cloned().collect();
    if skipped > 0 {
        lines.push(format!("  ... {skipped} earlier events, of which only faults are shown"));
    }
    lines.extend_from_slice(&reported.story[skipped..]);
    lines.push(reported.to_string());
    lines.join("\n")
}

fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Arguments, String> {
    let config = Config::default();
    let mut parsed = Arguments {
        seeds: 0..20_000,
        threads: 1,
        twice: false,
        bugs: false,
        survey: false,
        hunt: false,
        config,
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
            "--bugs" => parsed.bugs = true,
            "--survey" => parsed.survey = true,
            "--hunt" => parsed.hunt = true,
            "--story" => parsed.config.story = true,
            "--twice" => parsed.twice = true,
            "--no-noise" => parsed.config.noise = false,
            "--no-skew" => parsed.config.skew = false,
            "--certify" => parsed.config.certify = true,
            "--prove" => parsed.config.prove = true,
            "--lie" => parsed.config.lie = true,
            "--controllers" => parsed.config.controllers = number(&value()?)?.clamp(1, 7),
            "--nodes" => parsed.config.nodes = number(&value()?)?.max(2),
            "--jobs" => parsed.config.jobs = number(&value()?)?.max(2),
            "--faults" => parsed.config.faults = number(&value()?)?,
            "--chaos-s" => {
                parsed.config.chaos_ms = number(&value()?)?.max(10) * 1000;
                parsed.config.run_ms = parsed.config.run_ms.max(parsed.config.chaos_ms);
            }
            "--only-faults" => parsed.config.only_faults = Some(list(&value()?)?),
            "--only-jobs" => parsed.config.only_jobs = Some(list(&value()?)?),
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

fn list(text: &str) -> Result<Vec<usize>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    text.split(',').map(|part| part.parse().map_err(|_| format!("'{part}' is not a number"))).collect()
}
