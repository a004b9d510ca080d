//! How a step's process is connected: pipes, or a terminal of its own.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
};

use proto_model::StepWindow;
use rustix::{
    io::{FdFlags, fcntl_setfd},
    pipe::{PipeFlags, pipe_with},
    pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::ranks::Wiring;

/// The supervisor's ends of a step's pipes or terminal.
#[derive(Debug, Default)]
pub struct Ends {
    /// Where standard input is written to; `None` where the step has none.
    pub feed: Option<File>,
    /// The terminal's other side: all output comes from there.
    pub master: Option<File>,
}

/// Pipes; with `stdin` also one for input.
///
/// # Errors
/// The kernel gives no more descriptors.
pub fn pipes(stdin: bool) -> io::Result<(Wiring, Ends)> {
    if !stdin {
        return Ok((Wiring::Quiet, Ends::default()));
    }
    // The process inherits its end. Nothing else is started between here and there, and ours is closed with any program.
    let (theirs, ours) = pipe_with(PipeFlags::empty())?;
    fcntl_setfd(&ours, FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((Wiring::Input(theirs), Ends { feed: Some(File::from(ours)), master: None }))
}

/// A terminal of this size.
///
/// # Errors
/// The kernel gives no terminal.
pub fn terminal(window: StepWindow) -> io::Result<(Wiring, Ends)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    unlockpt(&master)?;
    let theirs: OwnedFd = ioctl_tiocgptpeer(&master, flags)?;
    resize(&master, window)?;
    rustix::io::ioctl_fionbio(&master, true)?;
    let feed = File::from(master.try_clone()?);
    Ok((Wiring::Terminal(theirs), Ends { feed: Some(feed), master: Some(File::from(master)) }))
}

/// The terminal has another size; programs in it get SIGWINCH.
///
/// # Errors
/// `master` is no terminal.
pub fn resize(master: impl AsFd, window: StepWindow) -> io::Result<()> {
    let size = Winsize { ws_row: window.rows, ws_col: window.columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(master, size)?)
}
