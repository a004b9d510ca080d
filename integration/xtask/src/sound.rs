//! The code that shares memory with other processes, speaks C or calls the kernel by itself: its tests on an interpreter that reports
//! every access that is not sound, under the compiler's own checks of addresses and of races, and on a machine in software that sees
//! what assembly does, which the compiler does not.

use std::{
    fs,
    process::{Command, ExitCode, Stdio},
};

use crate::process::{self, Result};

/// Tests that the interpreter can follow: no files, no sockets, no processes.
const INTERPRETED: [&str; 5] = ["copy", "fold", "element", "board", "queues"];

/// Tests on the machine in software, and what is left out of them: loom switches stacks by itself.
const EMULATED: [&str; 8] = ["copy", "fold", "element", "board", "queues", "region", "pieces", "post"];
const NOT_EMULATED: &str = "loom";

/// A check that the compiler puts into what it builds.
struct Check {
    name: &'static str,
    flags: &'static str,
    /// The packages whose tests run under it.
    packages: &'static [&'static str],
    /// Which of their tests.
    tests: &'static str,
    /// Those of them whose tests load libraries that stand in for a driver's, their examples.
    stand_ins: &'static [&'static str],
}

const CHECKS: [Check; 3] = [
    Check {
        name: "address",
        flags: "-Zsanitizer=address",
        packages: &["node-agent-ipc", "node-agent-capi", "node-agent-nccl"],
        tests: "--lib",
        stand_ins: &[],
    },
    Check {
        name: "address",
        flags: "-Zsanitizer=address",
        packages: &[
            "node-agent-dylib",
            "node-agent-engine-verbs",
            "node-agent-gpu",
            "node-agent-netlink",
            "node-agent-probe",
        ],
        tests: "--tests",
        stand_ins: &["node-agent-engine-verbs", "node-agent-gpu"],
    },
    Check {
        name: "thread",
        flags: "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer",
        packages: &["node-agent-ipc"],
        tests: "--lib",
        stand_ins: &[],
    },
];

/// The standard library comes without these checks, so that what orders its own accesses is not seen. Ours are ordered by
/// atomics in our own code.
const NOT_OURS: &str = "race:test::\nrace:std::sync::mpmc\nrace:std::thread\n";

/// Runs all of them, each with a line.
///
/// # Errors
/// Never: a check that fails is printed, and is the exit code.
pub fn alone() -> Result<ExitCode> {
    let mut failed = 0;
    let step = |name: &str, outcome: Result<()>| match outcome {
        Ok(()) => println!("    {name}: sound"),
        Err(error) => {
            println!("    {name}: {error}");
            failed += 1;
        }
    };
    let library = process::cargo(["test", "--package", "node-agent-ipc", "--lib"]);
    run(library, step, |reason| println!("    skipped: {reason}"));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all of them; each step's name and outcome goes to `step`, what cannot run to `skipped`. `tests` is the cargo command that builds the
/// library's tests: the one that has built them already, if one has, because built by itself a package is another build of what it stands on.
pub fn run(tests: Command, mut step: impl FnMut(&str, Result<()>), mut skipped: impl FnMut(String)) {
    if starts(Command::new("valgrind").arg("--version")) {
        step("memcheck", memcheck(tests));
    } else {
        skipped("memcheck: no valgrind (Debian: apt install valgrind)".into());
    }
    if !starts(process::nightly("cargo").arg("--version")) {
        skipped("miri, sanitizers: no nightly toolchain".into());
        return;
    }
    if starts(process::nightly("cargo").args(["miri", "--version"])) {
        step("cargo miri", process::run(miri()));
    } else {
        skipped("miri: no nightly toolchain with the component miri".into());
    }
    for check in &CHECKS {
        step(&format!("{} sanitizer of {}", check.name, check.packages.join(", ")), sanitizer(check));
    }
}

fn starts(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn miri() -> Command {
    let mut command = process::nightly("cargo");
    command.args(["miri", "test", "--quiet", "-p", "node-agent-ipc", "--lib", "--"]).args(INTERPRETED);
    command.env("MIRIFLAGS", "-Zmiri-permissive-provenance");
    command
}

/// Every access to memory that was not given out, also by assembly; a program that makes one ends with an error.
fn memcheck(mut build: Command) -> Result<()> {
    build.args(["--quiet", "--no-run", "--message-format", "json"]);
    let built = String::from_utf8(process::capture(build)?.stdout)?;
    let built = built.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut programs = built.filter(|line| line["target"]["name"] == "node_agent_ipc");
    let program = programs.find_map(|line| line["executable"].as_str().map(str::to_owned));
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=9"]).arg(program.ok_or("cargo names no test program")?);
    command.args(EMULATED).args(["--quiet", "--skip", NOT_EMULATED]);
    process::run(command)
}

fn sanitizer(check: &Check) -> Result<()> {
    let host = host()?;
    let target = process::target_dir()?.join(check.name);
    fs::create_dir_all(&target)?;
    // With a target of its own, so that what runs while building is built without the check.
    let cargo = |what: &[&str], packages: &[&'static str]| {
        let mut command = process::nightly("cargo");
        command.args(what).args(["--quiet", "--target", &host]).env("CARGO_TARGET_DIR", &target);
        command.args(packages.iter().flat_map(|package| ["-p", *package]));
        command
    };
    if !check.stand_ins.is_empty() {
        // Without the check: it is part of programs only, and what they load does not find it there. The check sees what is done with
        // memory by those that are tested, whoever gave it out.
        let mut build = cargo(&["build", "--examples"], check.stand_ins);
        build.env("RUSTFLAGS", "");
        process::run(build)?;
    }
    let mut command = cargo(&["test", check.tests], check.packages);
    if !check.stand_ins.is_empty() {
        // A library that stands in keeps what it has until it is unloaded, and nobody finds that after.
        command.env("ASAN_OPTIONS", "detect_leaks=0");
    }
    let not_ours = target.join("suppressions");
    fs::write(&not_ours, NOT_OURS)?;
    command.env("TSAN_OPTIONS", format!("suppressions='{}'", not_ours.display()));
    command.env("RUSTFLAGS", check.flags);
    process::run(command)
}

/// What this machine is called by the compiler.
fn host() -> Result<String> {
    let mut ask = process::nightly("rustc");
    ask.arg("-vV");
    let text = String::from_utf8(process::capture(ask)?.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc -vV names no host")?.to_owned())
}
