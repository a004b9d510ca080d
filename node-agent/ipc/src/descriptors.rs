//! File descriptors that a program must not inherit.

use std::io;

/// Marks every descriptor from 3 on so that the kernel closes it when this process becomes another program: whatever whoever started
/// us left open.
///
/// # Errors
/// What the kernel answered; before Linux 5.11 it does not know this.
pub fn close_on_exec() -> io::Result<()> {
    let (first, last, flags) = (3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: close_range(2) takes three integers and no memory of ours. With CLOEXEC it closes nothing now, so every descriptor that
    // anybody in this process holds stays open and theirs for as long as this program runs.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsFd, process::Command};

    use super::*;

    #[test]
    fn what_is_open_is_not_inherited() {
        let open = rustix::io::dup(File::open("/dev/null").unwrap().as_fd()).unwrap();
        let flags = || rustix::io::fcntl_getfd(&open).unwrap();
        assert!(!flags().contains(rustix::io::FdFlags::CLOEXEC), "dup(2) makes one that is inherited");
        close_on_exec().unwrap();
        assert!(flags().contains(rustix::io::FdFlags::CLOEXEC));
        assert!(Command::new("/bin/true").status().unwrap().success());
    }
}
