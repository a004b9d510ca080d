//! This machine's kernel, in the network namespace of the calling thread.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    os::unix::net::UnixDatagram,
    path::PathBuf,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind,
        netlink::{self, SocketAddrNetlink},
        recvfrom, sendto, socket_with,
    },
};

use crate::{
    kernel::{Channel, Family, Files, Kernel, Received},
    sys::{self, Setting},
    sysfs::Tree,
};

/// Room for events, so that a storm of them is not lost while one is looked at.
const EVENTS: usize = 1 << 20;

/// This machine's kernel; its files may be taken from a recorded tree.
#[derive(Debug, Clone)]
pub struct RealKernel {
    tree: Tree,
}

impl RealKernel {
    /// With the files of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self::with_root("/")
    }

    /// With the files below `root`.
    #[must_use]
    pub fn with_root(root: impl Into<PathBuf>) -> Self {
        Self { tree: Tree::new(root) }
    }
}

impl Default for RealKernel {
    fn default() -> Self {
        Self::new()
    }
}

impl Kernel for RealKernel {
    fn open(&self, family: Family, groups: &[u32]) -> io::Result<Box<dyn Channel>> {
        // No protocol is protocol 0: NETLINK_ROUTE.
        let protocol = match family {
            Family::Route => None,
            Family::Generic => Some(netlink::GENERIC),
            Family::Rdma => Some(netlink::RDMA),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        // A kernel before 4.12 has neither: then refusals are without words.
        let _ = sys::set(&socket, Setting::Capped, 1).and_then(|()| sys::set(&socket, Setting::Words, 1));
        for group in groups {
            let group = i32::try_from(*group).map_err(|_| io::ErrorKind::InvalidInput)?;
            sys::set(&socket, Setting::Member, group)?;
        }
        if !groups.is_empty() {
            // What the system allows without CAP_NET_ADMIN is given in part, and is enough but for storms.
            let forced = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, EVENTS);
            let _ = forced.or_else(|_| rustix::net::sockopt::set_socket_recv_buffer_size(&socket, EVENTS));
        }
        Ok(Box::new(Socket { socket }))
    }

    fn ethtool(&self, device: &str, data: &mut [u8]) -> io::Result<()> {
        // Any socket does: the ioctl is on a device by its name (netdevice(7)).
        sys::ethtool(UnixDatagram::unbound()?, device, data)
    }

    fn files(&self) -> &dyn Files {
        self
    }
}

impl Files for RealKernel {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.tree.read(path)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.tree.write(path, bytes)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.tree.list(path)
    }

    fn make(&self, path: &str) -> io::Result<()> {
        self.tree.make(path)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.tree.remove(path)
    }

    fn leads_to(&self, path: &str) -> Option<String> {
        self.tree.leads_to(path)
    }
}

struct Socket {
    socket: OwnedFd,
}

impl Channel for Socket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        sendto(&self.socket, bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Received> {
        let limit = Timespec::try_from(limit).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
        if poll(&mut ready, Some(&limit))? == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // TRUNC: the whole length is returned also where it does not fit.
        let (_, length, from) = recvfrom(&self.socket, buffer, RecvFlags::TRUNC)?;
        let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
        Ok(Received { length, from_kernel: from.is_some_and(|from| from.pid() == 0) })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
