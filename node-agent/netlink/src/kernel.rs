//! What is needed of a kernel: netlink sockets, the ethtool ioctl, and files. [`crate::RealKernel`] is this machine's;
//! [`crate::fake::FakeKernel`] answers the same bytes from memory.

use std::{io, os::fd::BorrowedFd, time::Duration};

/// Which part of the kernel a netlink socket talks to (`include/uapi/linux/netlink.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// `NETLINK_ROUTE`: interfaces, addresses, DCB.
    Route,
    /// `NETLINK_GENERIC`: ethtool among others.
    Generic,
    /// `NETLINK_RDMA`: RDMA devices and their counters.
    Rdma,
}

/// One datagram as it was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its whole length: more than the buffer's if it did not fit.
    pub length: usize,
    /// False if another process sent it; such are not believed.
    pub from_kernel: bool,
}

/// A netlink socket, or what a fake kernel has in its place.
pub trait Channel: Send {
    /// Sends one datagram to the kernel.
    ///
    /// # Errors
    /// As send(2).
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Takes one datagram, waiting at most `limit`.
    ///
    /// # Errors
    /// `WouldBlock` when nothing came in time; ENOBUFS when events were lost; otherwise as recv(2).
    fn receive(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Received>;

    /// To wait for several at once; `None` where there is no such thing (the fake).
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Files below a root: `sys`, `proc`, and where they are mounted `sys/kernel/config` (configfs) and `sys/kernel/debug` (debugfs).
/// Paths have no leading `/`.
pub trait Files: Send + Sync {
    /// A file's content, as much as any attribute has at most (64 KiB).
    ///
    /// # Errors
    /// As open(2) and read(2); a driver's own errno where it fails.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// Writes in one go into a file that is there.
    ///
    /// # Errors
    /// As open(2) and write(2).
    fn write(&self, path: &str, bytes: &[u8]) -> io::Result<()>;

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// As opendir(3).
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// Makes a folder: in configfs this asks a driver for its attributes.
    ///
    /// # Errors
    /// As mkdir(2); ENODEV if configfs knows no such device.
    fn make(&self, path: &str) -> io::Result<()>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// As rmdir(2).
    fn remove(&self, path: &str) -> io::Result<()>;

    /// The last component of where a link such as `sys/class/net/X/device` leads; `None` where there is no link.
    fn leads_to(&self, path: &str) -> Option<String>;

    /// The trimmed text of an attribute; `None` if it is absent, unreadable or not text.
    fn text(&self, path: &str) -> Option<String> {
        Some(String::from_utf8(self.read(path).ok()?).ok()?.trim().to_owned())
    }

    /// The names in a folder, sorted; empty if it is absent.
    fn names(&self, path: &str) -> Vec<String> {
        self.list(path).unwrap_or_default()
    }
}

/// What is asked of a kernel: netlink sockets, ioctls and files; the real one or a fake.
pub trait Kernel: Files {
    /// A socket for this family, subscribed to these multicast groups.
    ///
    /// # Errors
    /// EPROTONOSUPPORT where the kernel has no such family (RDMA without its module).
    fn open(&self, family: Family, groups: &[u32]) -> io::Result<Box<dyn Channel>>;

    /// `SIOCETHTOOL`: `data` begins with the command and is as long as the command's answer.
    ///
    /// # Errors
    /// As the driver says; EINVAL if `data` is shorter than what the command makes the kernel read or write.
    fn ethtool(&self, device: &str, data: &mut [u8]) -> io::Result<()>;

    /// Itself as files (a trait object of a trait object's parent).
    fn files(&self) -> &dyn Files;
}
