//! The guard of an owned cluster: takes it down when its owner dies, or when `up` dies before it was done.

use std::{os::fd::AsFd as _, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read},
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::{
    down,
    launch::MARK,
    process::Identity,
    spec::{Layout, Record},
};
use crate::{args::DevGuard, config::Environment, error::Error};

/// Attempts to take the cluster down; nobody else would clean up.
const ATTEMPTS: u32 = 10;
/// Pause between two attempts to take the cluster down.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits, then takes the cluster down. Standard input is a pipe whose writing end the owner holds.
///
/// # Errors
/// An error if the cluster could not be taken down in several attempts.
pub fn guard(args: &DevGuard, env: &Environment) -> Result<(), Error> {
    let layout = Layout::of(&args.target, env)?;
    let up = Identity { pid: args.up_pid, start: args.up_start };
    // What is marked as of this cluster can be found even if nothing of its folder is left.
    let known = env.get(MARK).map(|id| Record::bare(&args.target.name, id));
    let known = wait(&layout, up, known).map_err(|error| Error::Dev(format!("guard: {error}")))?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        match down::down(&layout, env, known.clone()) {
            // The folder may be going away at this very moment, together with its owner.
            Err(error) if attempts < ATTEMPTS => eprintln!("guard: {error}; trying again"),
            done => return done.map(drop),
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns when the owner is gone, or `up` before it was done; with the last record that was seen.
fn wait(layout: &Layout, up: Identity, mut known: Option<Record>) -> Result<Option<Record>, Errno> {
    let stdin = std::io::stdin();
    let mut up_fd = Pid::from_raw(up.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    loop {
        let up_ended = up_fd.is_none() || !up.alive();
        known = layout.read().ok().flatten().or(known);
        if up_ended {
            if !known.as_ref().is_some_and(|record| record.complete) {
                return Ok(known);
            }
            up_fd = None;
        }
        let mut fds = vec![PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        fds.extend(up_fd.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        // While `up` works its record changes; the newest must be known even if the folder goes with `up` itself.
        let pause = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        match poll(&mut fds, up_fd.is_some().then_some(&pause)) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        }
        if !fds[0].revents().is_empty() && closed(stdin.as_fd())? {
            return Ok(layout.read().ok().flatten().or(known));
        }
    }
}

/// Reads what an owner may have written; true at the end of it.
fn closed(fd: std::os::fd::BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut ignored = [0_u8; 1024];
    match read(fd, &mut ignored) {
        Ok(count) => Ok(count == 0),
        Err(Errno::INTR | Errno::AGAIN) => Ok(false),
        // A terminal that went away, or no standard input at all: nobody owns this cluster any more.
        Err(Errno::IO | Errno::BADF) => Ok(true),
        Err(error) => Err(error),
    }
}
