//! The one socket option that a rail's connection needs and that no safe library offers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Has a socket say that it is readable only when so many bytes are there (or it has ended, or its buffer is full). If
/// they are there already, it says so again.
///
/// # Errors
/// The kernel's answer; a stream socket takes any number.
pub fn set_receive_low_water(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the descriptor is borrowed, so it is open; the kernel reads one int from the pointer, which is what the
    // length says, and keeps nothing of it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_is_readable_when_there_is_enough() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut to = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (from, _) = listener.accept().unwrap();
        set_receive_low_water(&from, 1000).unwrap();
        let readable = |timeout: &Timespec| {
            let mut fds = [PollFd::new(&from, PollFlags::IN)];
            poll(&mut fds, Some(timeout)).unwrap() == 1
        };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        to.write_all(&[1; 999]).unwrap();
        assert!(!readable(&at_once));
        to.write_all(&[1]).unwrap();
        assert!(readable(&Timespec { tv_sec: 10, tv_nsec: 0 }));
        set_receive_low_water(&from, 1001).unwrap();
        assert!(!readable(&at_once));
        drop(to);
        assert!(readable(&Timespec { tv_sec: 10, tv_nsec: 0 }), "the end is told whatever the mark");
    }
}
