//! The step between a supervisor and a rank's program: enters the job's control group, becomes the ranks' user, dies with
//! the supervisor, then becomes the program. A process of its own because these must happen in the new process, before
//! the program.

use std::{
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode},
};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::rank_user::Ids;

/// The program was not found; as shells say it.
const NOT_FOUND: u8 = 127;
/// The program could not be run; as shells say it.
const NOT_RUN: u8 = 126;

/// Becomes the program; returns only if that failed.
#[must_use]
pub fn run(parent: i32, cgroups: &[PathBuf], user: Option<&Ids>, argv: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = argv.split_first() else {
        eprintln!("rail: the job's command is empty");
        return ExitCode::from(NOT_RUN);
    };
    for group in cgroups {
        if let Err(error) = crate::cgroup::enter(group) {
            eprintln!(
                "rail: cannot enter the control group {}: {error}; going on without it",
                group.display()
            );
        }
    }
    if let Some(ids) = user {
        ids.take_pipes();
        if let Err(error) = ids.assume() {
            eprintln!("rail: cannot become user {}: {error}", ids.uid);
            return ExitCode::from(NOT_RUN);
        }
    }
    // After the change of user, which undoes it (prctl(2)).
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("rail: cannot be tied to the supervisor: {error}");
        return ExitCode::from(NOT_RUN);
    }
    // The supervisor may have gone before the line above.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        return ExitCode::from(NOT_RUN);
    }
    let error = Command::new(program).args(arguments).exec();
    let program = program.to_string_lossy();
    eprintln!("rail: cannot run '{program}': {error}; is it installed on this server, and in PATH?");
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN })
}
