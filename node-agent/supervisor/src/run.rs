//! From the start of the process to its end: the lock of the attempt, what standard input says, and then the shell.

use std::{
    io::{self, BufRead, Read},
    time::{Duration, Instant},
};

use node_agent_attempt::{
    layout::JobDir,
    supervisor_config::{self, SupervisorConfigError},
};
use node_agent_os::files;
use node_agent_rank::isolation::room;
use thiserror::Error;

use crate::shell::Shell;

/// The key's line is not longer.
const KEY_LINE_MAX: u64 = 256;
/// Nor what follows it: the values of variables, each byte written as six at most.
const VALUES_MAX: u64 = 1 << 20;
/// The lock may be held for a moment by somebody who only looks.
const LOCK_LIMIT: Duration = Duration::from_secs(1);
/// Between two attempts at the lock.
const LOCK_AGAIN: Duration = Duration::from_millis(10);

/// Why a supervisor ended without doing its work.
#[derive(Debug, Error)]
pub enum SupervisorError {
    /// One is there already; it goes on.
    #[error("another supervisor has this attempt already ({})", .0.display())]
    AlreadyRunning(std::path::PathBuf),
    /// What it was given cannot be used.
    #[error(transparent)]
    SupervisorConfig(#[from] SupervisorConfigError),
    /// The kernel refused something that is needed.
    #[error("cannot supervise the job: {0}")]
    Io(#[from] io::Error),
}

/// Runs until nothing of the attempt is left. The job's key is the first line of standard input, values of variables are the second.
///
/// # Errors
/// Why it could not begin. Once begun, every failure is a cause in the durable state.
pub fn run(dir: &JobDir) -> Result<(), SupervisorError> {
    // Fails only where it leads a group already: then it was started by hand.
    let _ = rustix::process::setsid();
    if supervisor_config::isolation(dir)?.user {
        room::enter_user_namespace()?;
    }
    node_agent_os::process::hide();
    let deadline = Instant::now() + LOCK_LIMIT;
    let _lock = loop {
        match files::lock(&dir.lock())? {
            Some(lock) => break lock,
            None if Instant::now() >= deadline => {
                return Err(SupervisorError::AlreadyRunning(dir.path().to_owned()));
            }
            None => std::thread::sleep(LOCK_AGAIN),
        }
    };
    if dir.state().exist()? {
        // It ran before: an attempt is never run twice, whatever became of the first run.
        return Err(SupervisorError::AlreadyRunning(dir.path().to_owned()));
    }
    let (mut line, mut values, mut stdin) = (String::new(), String::new(), io::stdin().lock());
    stdin.by_ref().take(KEY_LINE_MAX).read_line(&mut line)?;
    let key = supervisor_config::key_from_hex(&line).ok_or(SupervisorConfigError::Key)?;
    stdin.take(VALUES_MAX).read_to_string(&mut values)?;
    let task = supervisor_config::read(dir, &key, supervisor_config::heard(&values)?)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(io::Error::from)?;
    Shell::new(dir.clone(), task)?.run();
    Ok(())
}
