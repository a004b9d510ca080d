//! The guard of an owned cluster: takes it down when its owner dies, or when `up` dies before it was done.

use std::os::fd::AsFd as _;

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{Errno, read},
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::{down, process::Identity, spec::Layout};
use crate::{args::DevGuard, config::Environment, error::Error};

/// Waits, then takes the cluster down. Standard input is a pipe whose writing end the owner holds.
pub fn guard(args: &DevGuard, env: &Environment) -> Result<(), Error> {
    let layout = Layout::of(&args.target, env)?;
    wait(&layout, Identity { pid: args.up_pid, start: args.up_start })
        .map_err(|error| Error::Dev(format!("guard: {error}")))?;
    down::down(&layout, env).map(drop)
}

/// Returns when the owner is gone, or `up` before it was done.
fn wait(layout: &Layout, up: Identity) -> Result<(), Errno> {
    let stdin = std::io::stdin();
    let mut up_fd = Pid::from_raw(up.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    loop {
        if up_fd.is_none() || !up.alive() {
            let complete = layout.read().ok().flatten().is_some_and(|record| record.complete);
            if !complete {
                return Ok(());
            }
            up_fd = None;
        }
        let mut fds = vec![PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        fds.extend(up_fd.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        }
        if !fds[0].revents().is_empty() && closed(stdin.as_fd())? {
            return Ok(());
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
