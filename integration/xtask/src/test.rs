//! `cargo xtask test`: everything that must hold, in the order in which it fails fastest.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use crate::{
    attack, chaos, disk, docs, examples, kube, lab,
    process::{self, Result},
    sonic, sound, stack, tools, torch,
};

/// Longest wait for the database of advisories: some 40 MB.
const DATABASE: Duration = Duration::from_secs(120);

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Args {
    /// Leave out formatting, lints and licences.
    #[arg(long)]
    quick: bool,
    /// Only tests whose name contains this.
    filter: Option<String>,
}

/// The results of the steps and the tests.
#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: Vec<String>,
    failures: Vec<String>,
    /// The lines that follow name failed tests.
    naming: bool,
}

impl Tally {
    fn step(&mut self, name: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(error) => {
                self.failed += 1;
                self.failures.push(format!("{name}: {error}"));
                println!("    FAILED {name}: {error}");
            }
        }
    }

    /// Reads one line of what `cargo test -- --show-output` prints.
    fn line(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            let count = |word: &str| -> u64 {
                let before = counts.split(word).next().unwrap_or_default();
                before.split_whitespace().next_back().and_then(|n| n.parse().ok()).unwrap_or(0)
            };
            self.passed += count(" passed");
            self.failed += count(" failed");
            self.naming = false;
        } else if line == "failures:" {
            self.naming = true;
        } else if let Some(name) = line.strip_prefix("    ").filter(|name| self.naming && is_path(name)) {
            let name = format!("test {name}");
            if !self.failures.contains(&name) {
                self.failures.push(name);
            }
        } else if let Some(reason) = line.trim_start().strip_prefix("skipped: ") {
            self.skipped.push(reason.to_owned());
        }
    }
}

/// Whether a line is nothing but the path of a test in a module.
fn is_path(line: &str) -> bool {
    line.contains("::") && line.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

/// Runs everything and prints one closing line with the counts.
///
/// # Errors
/// The disk is too small, cargo cannot be run, or its log cannot be written. A test that fails is counted, and is the exit code.
pub fn run(args: &Args) -> Result<ExitCode> {
    let begin = Instant::now();
    disk::check(&process::target_dir()?, disk::TESTS)?;
    let mut tally = Tally::default();
    if !args.quick && args.filter.is_none() {
        house(&mut tally);
    }
    heading("building", begin);
    // All at once: cargo takes features together for what is built together, so that programs built by themselves would be another
    // build of nearly everything.
    let all = ["build", "--quiet", "--workspace", "--all-targets"];
    tally.step("build", process::run(process::cargo(all)));
    let bin = process::target_dir()?.join("debug");
    heading("tests", begin);
    tests(args, &bin, &mut tally)?;
    if !args.quick && args.filter.is_none() {
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
            &["--workspace"],
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

fn house(tally: &mut Tally) {
    let begin = Instant::now();
    heading("format", begin);
    tally.step("cargo fmt", process::run(process::cargo(["fmt", "--all", "--check"])));
    heading("lints", begin);
    let clippy = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    tally.step("cargo clippy", process::run(process::cargo(clippy)));
    heading("licences, bans, sources", begin);
    match tools::cargo_deny() {
        Ok(program) => {
            let mut deny = Command::new(&program);
            deny.args(["--log-level", "error", "check", "bans", "licenses", "sources"])
                .current_dir(process::root());
            tally.step("cargo deny", process::run(deny));
            heading("advisories", begin);
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

fn tests(args: &Args, bin: &Path, tally: &mut Tally) -> Result<()> {
    let python = tools::python_tools();
    // All but examples in documentation.
    let all =
        ["test", "--workspace", "--no-fail-fast", "--quiet", "--lib", "--bins", "--tests", "--examples"];
    let mut cargo = process::cargo(all);
    match &python {
        Ok(venv) => _ = cargo.env("RAIL_TEST_TOOLS", venv),
        Err(error) => println!("    without Python tools: {error}"),
    }
    match torch::python() {
        Ok(python) => _ = cargo.env("RAIL_TEST_TORCH", python),
        Err(error) => println!("    without PyTorch: {error}"),
    }
    match tools::go() {
        Ok(program) => _ = cargo.env("RAIL_TEST_GO", program),
        Err(error) => println!("    without Go: {error}"),
    }
    match tools::typescript() {
        Ok(folder) => _ = cargo.env("RAIL_TEST_TYPESCRIPT", folder),
        Err(error) => println!("    without TypeScript: {error}"),
    }
    match tools::promtool() {
        Ok(program) => _ = cargo.env("RAIL_TEST_PROMTOOL", program),
        Err(error) => println!("    without promtool: {error}"),
    }
    match tools::frr() {
        Ok(folder) => _ = cargo.env("RAIL_TEST_FRR", folder),
        Err(error) => println!("    without FRR: {error}"),
    }
    for absent in tools::lend_slurm(&mut cargo) {
        println!("    without {absent}");
    }
    for absent in sonic::lend(&mut cargo) {
        println!("    without {absent}");
    }
    if let Err(error) = kube::lend(&mut cargo) {
        println!("    without a real Kubernetes: {error}");
    }
    chaos::lend(&mut cargo);
    match lab::headers() {
        Ok(folder) => _ = cargo.env("RAIL_TEST_VERBS_INCLUDE", folder),
        Err(error) => println!("    without the lab's headers of libibverbs: {error}"),
    }
    cargo.env("RAIL_BIN_DIR", bin);
    cargo.arg("--").arg("--show-output").args(&args.filter);
    let log = process::target_dir()?.join("test.log");
    let mut file = std::fs::File::create(&log)?;
    watch(cargo, &mut file, tally)?;
    let packages = examples::packages()?;
    if !packages.is_empty() {
        let mut cargo = process::cargo(["test", "--no-fail-fast", "--quiet", "--doc"]);
        cargo.args(packages.iter().flat_map(|name| ["--package", name]));
        cargo.arg("--").arg("--show-output").args(&args.filter);
        watch(cargo, &mut file, tally)?;
    }
    println!("    everything that the tests printed: {}", log.display());
    Ok(())
}

/// Runs tests: all that they print goes to the log, what matters is shown and counted.
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
        tally.failed += 1;
        tally.failures.push(format!("cargo test ended with {status}"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_test_prints_is_counted_and_failures_are_named() {
        let printed = "\
successes:

---- one::passes stdout ----
skipped: no etcd

successes:
    one::passes

failures:

---- two::fails stdout ----
thread 'two::fails' panicked at a.rs:1:1:
    an indented line that is no name
    left

failures:
    two::fails

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
    three
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        let mut tally = Tally::default();
        printed.lines().for_each(|line| tally.line(line));
        assert_eq!((tally.passed, tally.failed, tally.skipped), (3, 1, vec!["no etcd".to_owned()]));
        assert_eq!(tally.failures, ["test two::fails"]);
    }
}
