//! Test programs, several at a time: for most of their time they wait, for processes, links and timers.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{compiler::Compiler, tally::Tally};
use crate::process::{self, Result};

/// Longest time for one program: several times what the longest takes on two processors that have other work.
const LIMIT: Duration = Duration::from_secs(1200);

/// A program of tests.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// Its package's folder from the root, what it is, and its name: `controller/core test it`.
    pub label: String,
    path: PathBuf,
    /// Where it runs: its package's folder.
    folder: PathBuf,
}

/// How programs are run.
pub struct Plan<'a> {
    /// Arguments of each.
    pub args: &'a [OsString],
    /// Variables of each.
    pub environment: &'a [(OsString, OsString)],
    /// How many at a time.
    pub at_once: usize,
    /// The folder for what each prints.
    pub logs: &'a Path,
}

/// What came of one.
struct Ran {
    label: String,
    /// What it printed to its standard output, then what to its standard error.
    printed: String,
    status: std::result::Result<ExitStatus, String>,
    took: Duration,
}

/// Builds the workspace's tests, all but examples in documentation; gives the largest first, since they take longest.
///
/// # Errors
/// The build fails.
pub fn build(compiler: &Compiler) -> Result<Vec<Program>> {
    let all = ["test", "--workspace", "--quiet", "--no-run", "--lib", "--bins", "--tests", "--examples"];
    let mut cargo = compiler.cargo(all);
    cargo.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let output = cargo.output()?;
    if !output.status.success() {
        return Err(format!("cargo test --no-run ended with {}", output.status).into());
    }
    let mut programs = named(&String::from_utf8_lossy(&output.stdout), &process::root());
    programs.sort_by_key(|program| {
        let bytes = fs::metadata(&program.path).map_or(0, |metadata| metadata.len());
        (std::cmp::Reverse(bytes), program.label.clone())
    });
    Ok(programs)
}

/// The test programs among what cargo says, line by line, that it has built.
fn named(said: &str, root: &Path) -> Vec<Program> {
    let artifacts = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    artifacts
        .filter(|artifact| artifact["reason"] == "compiler-artifact" && artifact["profile"]["test"] == true)
        .filter_map(|artifact| {
            let folder = Path::new(artifact["manifest_path"].as_str()?).parent()?.to_owned();
            let package = folder.strip_prefix(root).unwrap_or(&folder).display().to_string();
            let target = &artifact["target"];
            let label = format!("{package} {} {}", target["kind"][0].as_str()?, target["name"].as_str()?);
            Some(Program { label, path: artifact["executable"].as_str()?.into(), folder })
        })
        .collect()
}

/// Runs all: what they print goes to `log` in the order in which they end, what matters of it is shown and counted.
///
/// # Errors
/// A log cannot be written.
pub fn run(programs: Vec<Program>, plan: &Plan<'_>, log: &mut impl Write, tally: &mut Tally) -> Result<()> {
    fs::create_dir_all(plan.logs)?;
    let waiting = Mutex::new(VecDeque::from(programs));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let (ended, ends) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..plan.at_once.max(1) {
            let ended = ended.clone();
            scope.spawn(move || {
                while let Some(program) = next() {
                    // Nobody listens any more: an error has ended the loop below.
                    if ended.send(one(&program, plan)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(ended);
        ends.iter().try_for_each(|ran| count(&ran, log, tally))
    })
}

/// Counts what one program printed, and shows what matters.
fn count(ran: &Ran, log: &mut impl Write, tally: &mut Tally) -> Result<()> {
    let (passed, failed) = (tally.passed, tally.failed);
    writeln!(log, "==== {} ({:.1} s)\n{}", ran.label, ran.took.as_secs_f32(), ran.printed)?;
    for line in ran.printed.lines() {
        tally.line(line);
        if line.ends_with("FAILED") || line.contains("panicked at") {
            println!("    {line}");
        }
    }
    match &ran.status {
        Ok(status) if !status.success() && tally.failed == failed => {
            tally.step(&ran.label, Err(format!("ended with {status}").into()))
        }
        Ok(_) => {}
        Err(why) => tally.step(&ran.label, Err(why.clone().into())),
    }
    let (passed, failed) = (tally.passed - passed, tally.failed - failed);
    if passed + failed > 0 {
        println!("    {}: {passed} passed, {failed} failed, {:.1} s", ran.label, ran.took.as_secs_f32());
    }
    Ok(())
}

/// Runs one to its end or its limit, with the arguments and variables of the plan.
fn one(program: &Program, plan: &Plan<'_>) -> Ran {
    let begin = Instant::now();
    let name: String =
        program.label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let (out, err) = (plan.logs.join(format!("{name}.out")), plan.logs.join(format!("{name}.err")));
    let status = ended(program, plan, &out, &err).map_err(|error| error.to_string());
    let read = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let printed = [&out, &err].map(|path| read(path).unwrap_or_default()).join("\n");
    Ran { label: program.label.clone(), printed, status, took: begin.elapsed() }
}

fn ended(program: &Program, plan: &Plan<'_>, out: &Path, err: &Path) -> Result<ExitStatus> {
    let mut command = Command::new(&program.path);
    command.args(plan.args).current_dir(&program.folder).stdin(Stdio::null());
    command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
    // As `cargo test` has it.
    command.env("CARGO_MANIFEST_DIR", &program.folder);
    let mut child = command.stdout(fs::File::create(out)?).stderr(fs::File::create(err)?).spawn()?;
    let begin = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None if begin.elapsed() > LIMIT => {
                child.kill()?;
                child.wait()?;
                let seconds = LIMIT.as_secs();
                return Err(format!("has not ended after {seconds} s: it printed {}", out.display()).into());
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_what_cargo_says() {
        let said = r#"{"reason":"compiler-artifact","manifest_path":"/r/a/b/Cargo.toml","target":{"kind":["lib"],"name":"a_b"},"profile":{"test":true},"executable":"/t/a_b-1"}
{"reason":"compiler-artifact","manifest_path":"/r/a/b/Cargo.toml","target":{"kind":["bin"],"name":"b"},"profile":{"test":false},"executable":"/t/b"}
{"reason":"compiler-artifact","manifest_path":"/r/a/b/Cargo.toml","target":{"kind":["lib"],"name":"a_b"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/r/a/Cargo.toml","target":{"kind":["test"],"name":"it"},"profile":{"test":true},"executable":"/t/it-2"}
no JSON
{"reason":"build-finished","success":true}"#;
        let found = named(said, Path::new("/r"));
        let labels: Vec<&str> = found.iter().map(|program| program.label.as_str()).collect();
        assert_eq!(labels, ["a/b lib a_b", "a test it"]);
        assert_eq!((&*found[1].path, &*found[1].folder), (Path::new("/t/it-2"), Path::new("/r/a")));
    }

    /// Programs that wait for each other: they end only if they run at the same time.
    #[test]
    fn two_run_at_once_and_each_is_counted() {
        let root = process::target_dir().unwrap().join(format!("programs-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        for name in ["one", "two"] {
            let made = Command::new("mkfifo").arg(root.join(name)).status().unwrap();
            assert!(made.success());
        }
        let script = root.join("program");
        let text = "#!/bin/sh\nif [ \"$1\" = \"$PWD\" ]; then exit 3; fi\n\
                    case $CARGO_MANIFEST_DIR in *a) echo >$1/one; read x <$1/two;; *b) read x <$1/one; echo >$1/two;; *) exit 3;; esac\n\
                    echo \"test result: ok. 2 passed; 0 failed; 1 ignored\"\necho 'skipped: said' >&2\n";
        fs::write(&script, text).unwrap();
        let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        fs::set_permissions(&script, mode).unwrap();
        let programs = ["a", "b", "c"].map(|name| {
            let folder = root.join(name);
            fs::create_dir_all(&folder).unwrap();
            Program { label: format!("{name} lib {name}"), path: script.clone(), folder }
        });
        let (mut log, mut tally) = (Vec::new(), Tally::default());
        let args = [root.clone().into_os_string()];
        let plan = Plan { args: &args, environment: &[], at_once: 2, logs: &root.join("logs") };
        run(programs.into(), &plan, &mut log, &mut tally).unwrap();
        assert_eq!((tally.passed, tally.failed), (4, 1), "{}", String::from_utf8_lossy(&log));
        assert_eq!(tally.skipped, ["said", "said"]);
        assert!(tally.failures[0].starts_with("c lib c: ended with"), "{:?}", tally.failures);
        fs::remove_dir_all(root).unwrap();
    }
}
