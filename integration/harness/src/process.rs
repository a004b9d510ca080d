//! Ending a process as a service manager does, and where it logs to.

use std::{
    fs::File,
    path::Path,
    process::{Child, ExitStatus},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::eventually;

/// Longest wait for a process that was asked to end. A machine that is busy with other things is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// SIGTERM, and what it ended with.
///
/// # Errors
/// It does not end in time; it is killed then.
pub fn terminate(mut child: Child) -> Result<ExitStatus, String> {
    // It may have ended by itself.
    let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    let ended = eventually("a process to end after SIGTERM", PATIENCE, || child.try_wait().ok().flatten());
    if ended.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    ended
}

/// A log that goes on behind what is in it.
pub(crate) fn log_to(path: &Path) -> Result<File, String> {
    let file = File::options().create(true).append(true).open(path);
    file.map_err(|error| format!("{}: {error}", path.display()))
}
