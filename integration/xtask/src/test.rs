//! `cargo xtask test`: everything that must hold, in the order in which it fails fastest.

mod compiler;
mod lend;
mod programs;
mod tally;

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use compiler::Compiler;
use lend::{Building, Fetching, Lent};
use programs::Plan;
use tally::Tally;

use crate::{
    attack, disk, docs, examples, lab,
    process::{self, Result},
    sound, stack,
};

/// Longest wait for the database of advisories: some 40 MB.
const DATABASE: Duration = Duration::from_secs(120);

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Leave out formatting, lints and licences.
    #[arg(long)]
    quick: bool,
    /// Test programs that run at a time [default: as many as there are processors, four at most].
    #[arg(long, value_name = "N")]
    at_once: Option<usize>,
    /// Only tests whose name contains this.
    filter: Option<String>,
}

/// Runs everything and prints one closing line with the counts.
///
/// # Errors
/// The disk is too small, cargo cannot be run, or its log cannot be written. A test that fails is counted, and is the exit code.
pub fn run(args: &Args) -> Result<ExitCode> {
    let begin = Instant::now();
    disk::check(&process::target_dir()?, disk::TESTS)?;
    let mut tally = Tally::default();
    let fetching = Fetching::begin();
    let whole = !args.quick && args.filter.is_none();
    if whole {
        heading("format", begin);
        tally.step("cargo fmt", process::run(process::cargo(["fmt", "--all", "--check"])));
    }
    heading(if whole { "building, with lints" } else { "building" }, begin);
    let compiler = build(whole, &mut tally);
    let bin = process::target_dir()?.join("debug");
    heading("waiting for what the tests need", begin);
    let lent = fetching.end()?;
    // Built beside the tests, which mostly wait, and with what they leave of the processors.
    let built = whole.then(Building::begin);
    heading("tests", begin);
    tests(args, &compiler, &bin, lent, &mut tally)?;
    if let Some(built) = built {
        heading("licences, bans, sources, advisories", begin);
        dependencies(built.end()?, &mut tally);
        heading("the book, and its commands run", begin);
        let (outcomes, skipped) = docs::test(&bin);
        outcomes.into_iter().for_each(|(name, outcome)| tally.step(name, outcome));
        tally.skipped.extend(skipped);
        heading("the attack suite", begin);
        let (outcomes, skipped) = attack::test(&bin);
        outcomes.into_iter().for_each(|(name, outcome)| tally.step(name, outcome));
        tally.skipped.extend(skipped);
        heading("seeds of the whole stack, each twice", begin);
        tally.step("cargo xtask stack", stack::test(&bin));
        heading("shared memory under an interpreter, sanitizers and memcheck", begin);
        let mut skipped = Vec::new();
        sound::run(
            compiler.cargo(["test", "--workspace", "--lib"]),
            |name, outcome| tally.step(name, outcome),
            |reason| skipped.push(reason),
        );
        tally.skipped.extend(skipped);
        heading("real RDMA verbs in an emulated machine", begin);
        for (suite, outcome) in lab::test(&bin) {
            let name = format!("cargo xtask lab {suite}");
            match outcome {
                Ok(()) => tally.step(&name, Ok(())),
                Err(lab::Trouble::Absent(why)) => tally.skipped.push(format!("{name}: {why}")),
                Err(lab::Trouble::Failed(why)) => tally.step(&name, Err(why.into())),
            }
        }
    }
    summary(&tally, begin);
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds everything, with lints if it is to be linted; gives what has built it. What lints refuse is counted, and built without them.
fn build(linted: bool, tally: &mut Tally) -> Compiler {
    // All at once: cargo takes features together for what is built together, so that programs built by themselves would be another
    // build of nearly everything.
    let all = ["build", "--quiet", "--workspace", "--all-targets"];
    if linted {
        let outcome =
            Compiler::linting().and_then(|compiler| process::run(compiler.cargo(all)).map(|()| compiler));
        match outcome {
            Ok(compiler) => {
                tally.step("build, with clippy's lints", Ok(()));
                return compiler;
            }
            Err(error) => tally.step("build, with clippy's lints", Err(error)),
        }
    }
    let compiler = Compiler::plain();
    tally.step("build", process::run(compiler.cargo(all)));
    compiler
}

/// Licences, sources and advisories of what we stand on.
fn dependencies(program: Result<PathBuf>, tally: &mut Tally) {
    match program {
        Ok(program) => {
            let mut deny = Command::new(&program);
            deny.args(["--log-level", "error", "check", "bans", "licenses", "sources"])
                .current_dir(process::root());
            tally.step("cargo deny", process::run(deny));
            match advisories(&program) {
                Ok(outcome) => tally.step("cargo deny check advisories", outcome),
                Err(error) => tally.skipped.push(format!("advisories: {error}")),
            }
        }
        Err(error) => tally.skipped.push(format!("cargo deny: {error}")),
    }
}

/// What is known of the crates that we ship, by the RustSec database: fetched now, or as it was when it was fetched last (90
/// days at most, by cargo-deny's own rule). An error says that there is none.
fn advisories(program: &Path) -> Result<Result<()>> {
    let deny = |args: &[&str]| {
        let mut deny = Command::new(program);
        deny.args(["--log-level", "error"]).args(args).current_dir(process::root());
        deny
    };
    if let Err(error) = process::within(deny(&["fetch", "db"]), DATABASE) {
        if !database()? {
            return Err(format!("no database: it cannot be fetched ({error}), and none is there").into());
        }
        println!("    the database is as it was fetched last: {error}");
    }
    Ok(process::run(deny(&["--offline", "check", "advisories"])))
}

/// Whether a database was fetched once: a fetch that fails leaves a lock beside where it would be.
fn database() -> Result<bool> {
    let home = std::env::var_os("CARGO_HOME").map(Into::into);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let folder: std::path::PathBuf = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    let entries = std::fs::read_dir(folder.join("advisory-dbs")).into_iter().flatten().flatten();
    Ok(entries.map(|entry| entry.path()).any(|path| path.is_dir()))
}

/// All test programs, several at a time, then the examples in documentation.
fn tests(args: &Args, compiler: &Compiler, bin: &Path, lent: Lent, tally: &mut Tally) -> Result<()> {
    let Lent { mut environment, absent } = lent;
    absent.iter().for_each(|what| println!("    without {what}"));
    environment.push(("RAIL_BIN_DIR".into(), bin.into()));
    // As `cargo test` has it, for what tests load.
    let mut libraries = vec![bin.join("deps"), bin.to_owned()];
    libraries.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    environment.push(("LD_LIBRARY_PATH".into(), std::env::join_paths(libraries)?));
    let passed_on: Vec<OsString> =
        ["--show-output".into()].into_iter().chain(args.filter.iter().map(Into::into)).collect();
    let target = process::target_dir()?;
    let log = target.join("test.log");
    let mut file = std::fs::File::create(&log)?;
    match programs::build(compiler) {
        Ok(found) => {
            let plan = Plan {
                args: &passed_on,
                environment: &environment,
                at_once: args.at_once.unwrap_or_else(process::at_once),
                logs: &target.join("tests"),
            };
            programs::run(found, &plan, &mut file, tally)?;
        }
        Err(error) => tally.step("the tests' build", Err(error)),
    }
    let packages = examples::packages()?;
    if !packages.is_empty() {
        let mut cargo = compiler.cargo(["test", "--no-fail-fast", "--quiet", "--doc"]);
        cargo.args(packages.iter().flat_map(|name| ["--package", name]));
        cargo.envs(environment.iter().map(|(name, value)| (name, value)));
        cargo.arg("--").args(&passed_on);
        watch(cargo, &mut file, tally)?;
    }
    println!("    everything that the tests printed: {}", log.display());
    Ok(())
}

/// Runs tests by cargo: all that they print goes to the log, what matters is shown and counted.
fn watch(mut cargo: Command, log: &mut impl Write, tally: &mut Tally) -> Result<()> {
    let failed = tally.failed;
    let mut child = cargo.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("cargo test has no output")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        writeln!(log, "{line}")?;
        tally.line(&line);
        if line.starts_with("test result:") || line.ends_with("FAILED") || line.contains("panicked at") {
            println!("    {line}");
        }
    }
    let status = child.wait()?;
    if !status.success() && tally.failed == failed {
        tally.step("cargo test", Err(format!("ended with {status}").into()));
    }
    Ok(())
}

fn heading(what: &str, begin: Instant) {
    println!("==> {what} ({:.0} s)", begin.elapsed().as_secs_f32());
}

fn summary(tally: &Tally, begin: Instant) {
    heading("summary", begin);
    for reason in &tally.skipped {
        println!("    skipped: {reason}");
    }
    for failure in &tally.failures {
        println!("    {failure}");
    }
    println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped.len());
}
