//! The code that shares memory with other processes and speaks C: its tests on an interpreter that reports every access
//! that is not sound, and under the compiler's own checks of addresses and of races.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::process::{self, Result};

/// Tests that the interpreter can follow: no files, no sockets, no processes.
const INTERPRETED: [&str; 5] = ["copy", "fold", "element", "board", "queues"];

/// A check that the compiler puts into what it builds.
struct Check {
    name: &'static str,
    flags: &'static str,
    /// What is tested.
    packages: &'static [&'static str],
}

const CHECKS: [Check; 2] = [
    Check {
        name: "address",
        flags: "-Zsanitizer=address",
        packages: &["node-agent-local", "node-agent-door"],
    },
    Check {
        name: "thread",
        flags: "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer",
        packages: &["node-agent-local"],
    },
];

/// The standard library comes without these checks, so that what orders its own accesses is not seen. Ours are ordered by
/// atomics in our own code.
const NOT_OURS: &str = "race:test::\nrace:std::sync::mpmc\nrace:std::thread\n";

/// Runs all of them; each step's name and outcome goes to `step`, what cannot run to `skipped`.
pub fn run(mut step: impl FnMut(&str, Result<()>), mut skipped: impl FnMut(String)) {
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
        step(&format!("{} sanitizer", check.name), sanitizer(check));
    }
}

fn starts(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn miri() -> Command {
    let mut command = process::nightly("cargo");
    command.args(["miri", "test", "--quiet", "-p", "node-agent-local", "--lib", "--"]).args(INTERPRETED);
    command.env("MIRIFLAGS", "-Zmiri-permissive-provenance");
    command
}

fn sanitizer(check: &Check) -> Result<()> {
    let host = host()?;
    let mut command = process::nightly("cargo");
    // With a target of its own, so that what runs while building is built without the check.
    command.args(["test", "--quiet", "--lib", "--target", &host]);
    command.args(check.packages.iter().flat_map(|package| ["-p", *package]));
    let target = process::target_dir()?.join(check.name);
    fs::create_dir_all(&target)?;
    let not_ours = target.join("suppressions");
    fs::write(&not_ours, NOT_OURS)?;
    command.env("TSAN_OPTIONS", format!("suppressions='{}'", not_ours.display()));
    command.env("RUSTFLAGS", check.flags).env("CARGO_TARGET_DIR", target);
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
