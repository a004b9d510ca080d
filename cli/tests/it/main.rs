//! railctl as a process: exit codes, what goes where, and local clusters, with programs that pretend.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod clusters;
mod day;
mod fabric;
mod guide;
mod inside;
mod interactive;
mod real;
mod simulate;
mod switch;
mod usage;

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

/// railctl with an environment of its own below `home`.
fn railctl(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_railctl"));
    for name in ["CONTROLLER", "CA", "CERT", "KEY", "TOKEN", "TENANT", "CONTEXT", "BIN_DIR", "JOB"] {
        command.env_remove(format!("RAIL_{name}"));
    }
    command.env("HOME", home).env("XDG_STATE_HOME", home.join("s")).env("XDG_CONFIG_HOME", home.join("c"));
    command.env("RAIL_CONFIG", home.join("config.yaml")).stdin(Stdio::null());
    command
}

/// Runs it; its exit code, standard output and standard error.
fn run(home: &Path, args: &[&str]) -> (i32, String, String) {
    reported(railctl(home).args(args).output().unwrap())
}

fn reported(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}
