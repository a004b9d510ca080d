//! The attack suite as a whole: no attempt gives way, as root and as an unprivileged user; and its table is that of docs/SECURITY.md.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::Command,
    sync::{Mutex, PoisonError},
};

use integration::binaries;

const SUITE: &str = env!("CARGO_BIN_EXE_rail-attack");
/// One suite at a time: a part of it is about who is served how fast.
static TURN: Mutex<()> = Mutex::new(());

/// Runs the suite by a command, to its end; shows what could not be tried.
fn holds(mut suite: Command) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    suite.args(["run"]).env("RAIL_BIN_DIR", binaries::directory().unwrap());
    let output = suite.output().unwrap();
    let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last = told.lines().last().unwrap_or_default();
    let attempts: usize = last.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    assert!(attempts >= 220, "{told}\n{said}");
    let held = output.status.success() && last.contains(" 0 gave way") && !last.contains("not made");
    assert!(held, "{told}\n{said}");
    println!("{last}");
    for line in told.lines().filter(|line| line.starts_with("not possible here")) {
        println!("{line}");
    }
}

#[test]
fn no_attempt_gives_way() {
    holds(Command::new(SUITE));
}

/// As `nobody`, with a home of its own; where this is not root already, the test above is the same.
#[test]
fn no_attempt_gives_way_without_root() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the suite as root needs root");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut suite = Command::new("setpriv");
    suite.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs", "--"]).arg(SUITE);
    suite.env("HOME", home.path()).env("TMPDIR", home.path()).env_remove("XDG_RUNTIME_DIR");
    holds(suite);
}

#[test]
fn the_page_lists_the_attempts_that_are_made() {
    let output = Command::new(SUITE).arg("docs").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
