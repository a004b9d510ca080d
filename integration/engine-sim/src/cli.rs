//! The command line: seeds in, one line for each row out, and for a failing seed what went wrong and the command that replays it.

use std::{
    io::Write,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{bits, deadlines, order};

const USAGE: &str = "usage: rail-engine-sim [--row b9|b11] [--seeds N] [--seed S] [--json]
  --row R    only this row: b9 (same bits whatever happens), b11 (every call ends in time); default both
  --seeds N  seeds 0 to N-1 (default 100000 for b9, 10000 for b11)
  --seed S   one seed
  --json     one JSON object for each row";

/// Failing seeds that are listed; of the others only the number is shown.
const REPORTED: usize = 5;

#[derive(Debug, Default)]
struct Arguments {
    row: Option<String>,
    seeds: Option<u64>,
    seed: Option<u64>,
    json: bool,
}

/// Runs what the arguments (without the program's name) say. The exit code is 0 if nothing was wrong.
pub fn main_from_args(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let mut out = std::io::stdout();
    let arguments = match parse(arguments) {
        Ok(arguments) => arguments,
        Err(message) => {
            let _ = writeln!(out, "{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    std::panic::set_hook(Box::new(|_| {}));
    let wants = |row: &str| arguments.row.as_deref().is_none_or(|r| r == row);
    let mut wrong = 0;
    if wants("b9") {
        wrong += row_b9(&arguments);
    }
    if wants("b11") {
        wrong += row_b11(&arguments);
    }
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The results of many runs.
struct Tally<T> {
    runs: u64,
    seconds: f64,
    outcomes: T,
    wrong: Vec<(u64, String)>,
}

/// Runs all seeds on all processors.
fn all<T: Default + Send>(
    arguments: &Arguments,
    default: u64,
    run: impl Fn(u64, &mut T) -> Result<(), String> + Sync,
    join: impl Fn(&mut T, T) + Sync,
) -> Tally<T> {
    let range = match arguments.seed {
        Some(seed) => seed..seed.saturating_add(1),
        None => 0..arguments.seeds.unwrap_or(default),
    };
    let begin = Instant::now();
    let next = AtomicU64::new(range.start);
    let total = Mutex::new((T::default(), Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let (mut sum, mut wrong) = (T::default(), Vec::new());
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= range.end {
                        break;
                    }
                    if let Err(what) = run(seed, &mut sum) {
                        wrong.push((seed, what));
                    }
                }
                if let Ok(mut total) = total.lock() {
                    join(&mut total.0, sum);
                    total.1.extend(wrong);
                }
            });
        }
    });
    let (outcomes, mut wrong) = total.into_inner().unwrap_or_default();
    wrong.sort();
    Tally { runs: range.end - range.start, seconds: begin.elapsed().as_secs_f64(), outcomes, wrong }
}

fn report(row: &str, wrong: &[(u64, String)]) {
    for (seed, what) in wrong.iter().take(REPORTED) {
        eprintln!("{row}: seed {seed}: {what}");
        eprintln!("    again: cargo xtask sim engine --row {row} --seed {seed}");
    }
    if wrong.len() > REPORTED {
        eprintln!("{row}: and {} more", wrong.len() - REPORTED);
    }
}

fn row_b9(arguments: &Arguments) -> usize {
    let run = |seed: u64, faults: &mut usize| bits::run(seed).map(|n| *faults += n);
    let tally = all(arguments, 100_000, run, |total: &mut usize, n| *total += n);
    let (fixed, free) = order::measure();
    let cost = (fixed / free - 1.0) * 100.0;
    report("b9", &tally.wrong);
    let Tally { runs, seconds, outcomes: faults, wrong } = tally;
    let differences = wrong.len();
    if arguments.json {
        println!(
            "{{\"row\":\"B9\",\"runs\":{runs},\"differences\":{differences},\"faults\":{faults},\"order_cost_percent\":{cost:.2},\"seconds\":{seconds:.1}}}"
        );
    } else {
        println!(
            "B9: {runs} runs with {faults} faults, {differences} differences; the fixed order costs {cost:.2} % of the kernel's time; {seconds:.1} s"
        );
    }
    differences
}

fn row_b11(arguments: &Arguments) -> usize {
    let run = |seed: u64, sum: &mut (usize, Duration)| {
        let outcome = deadlines::run(seed)?;
        *sum = (sum.0 + outcome.failures, sum.1.max(outcome.over));
        Ok(())
    };
    let join =
        |total: &mut (usize, Duration), n: (usize, Duration)| *total = (total.0 + n.0, total.1.max(n.1));
    let tally = all(arguments, 10_000, run, join);
    report("b11", &tally.wrong);
    let Tally { runs, seconds, outcomes: (failures, over), wrong } = tally;
    let (violations, over) = (wrong.len(), over.as_secs_f64() * 1e3);
    if arguments.json {
        println!(
            "{{\"row\":\"B11\",\"runs\":{runs},\"violations\":{violations},\"failed_calls\":{failures},\"worst_over_timeout_ms\":{over:.3},\"seconds\":{seconds:.1}}}"
        );
    } else {
        println!(
            "B11: {runs} disasters, {failures} calls failed and said why, {violations} violations; at most {over:.3} ms beyond a timeout; {seconds:.1} s"
        );
    }
    violations
}

fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--row" => parsed.row = Some(value()?.to_lowercase()).filter(|r| r == "b9" || r == "b11"),
            "--seeds" => parsed.seeds = Some(number(&value()?)?),
            "--seed" => parsed.seed = Some(number(&value()?)?),
            "--json" => parsed.json = true,
            other => return Err(format!("'{other}' is not known here")),
        }
    }
    Ok(parsed)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}
