//! The only unsafe code of this crate: `SIOCETHTOOL` (netdevice(7), kernel `net/ethtool/ioctl.c`), and options of netlink
//! sockets that no safe crate offers (netlink(7)).
//!
//! Commands such as `ETHTOOL_GSTRINGS` make the kernel write as much as the driver has *then*, whatever length the caller gave:
//! a driver that is reloaded between the question for the length and the question itself may write past any buffer. So
//! the buffer is a mapping of its own that ends at a page without access: the kernel stops there with EFAULT.
#![allow(
    unsafe_code,
    reason = "an ioctl with a pointer inside, its guarded buffer, and setsockopt; each block has its proof"
)]

use std::{
    ffi::{c_int, c_void},
    io,
    os::fd::{AsFd, AsRawFd},
    ptr::{copy_nonoverlapping, null_mut},
};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// A multiple of every page size that Linux has on machines with such NICs (4, 16 and 64 KiB).
const PAGE: usize = 64 << 10;
/// No command's answer is longer: 32 bytes for each of 100,000 names.
const LONGEST: usize = 4 << 20;

/// An option of a netlink socket that is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// `NETLINK_ADD_MEMBERSHIP`: events of a group.
    Member,
    /// `NETLINK_CAP_ACK`: errors repeat only the request's header.
    Capped,
    /// `NETLINK_EXT_ACK`: errors carry the kernel's words.
    Words,
}

/// Sets an option of a netlink socket.
pub(crate) fn set(socket: impl AsFd, setting: Setting, value: c_int) -> io::Result<()> {
    let name = match setting {
        Setting::Member => libc::NETLINK_ADD_MEMBERSHIP,
        Setting::Capped => libc::NETLINK_CAP_ACK,
        Setting::Words => libc::NETLINK_EXT_ACK,
    };
    let length = size_of::<c_int>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `fd` is open for the whole call, for `socket` is borrowed. `&raw const value` points to one readable `c_int` that
    // lives until the call returns, and `length` is its size; the kernel only reads it (these options are ints).
    let result = unsafe { libc::setsockopt(fd, libc::SOL_NETLINK, name, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Memory of this type's own whose last byte is followed by a page without access.
struct Guarded {
    base: *mut c_void,
    whole: usize,
    /// Where the bytes begin, from `base`.
    at: usize,
}

impl Guarded {
    fn holding(data: &[u8]) -> io::Result<Self> {
        if data.len() > LONGEST {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let usable = data.len().next_multiple_of(PAGE);
        let whole = usable + PAGE;
        // SAFETY: no address is asked for, so the mapping replaces nothing; private and anonymous, it is nobody else's.
        let base = unsafe {
            mmap_anonymous(null_mut(), whole, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        let guarded = Self { base, whole, at: usable - data.len() };
        // SAFETY: `base + usable .. base + whole` lies in the mapping just made and begins on a page (`usable` is a multiple
        // of every page size); nothing refers to it, so nothing can be read or written there that Rust knows of.
        unsafe { mprotect(base.byte_add(usable), PAGE, MprotectFlags::empty()) }?;
        // SAFETY: the source is a slice; the destination has `data.len()` writable bytes, for `at + data.len() == usable`; the
        // mapping is new, so the two do not overlap.
        unsafe { copy_nonoverlapping(data.as_ptr(), guarded.start(), data.len()) };
        Ok(guarded)
    }

    fn start(&self) -> *mut u8 {
        self.base.cast::<u8>().wrapping_add(self.at)
    }

    /// Copies the first `data.len()` bytes out; `data` is as long as what it was made with.
    fn copy_to(&self, data: &mut [u8]) {
        let length = data.len().min(self.whole - PAGE - self.at);
        // SAFETY: `length` bytes from `start()` lie before the guard and are readable and initialised (zeroed by mmap, then
        // written by us or the kernel); the kernel no longer writes, for the ioctl has returned; `data` is another allocation.
        unsafe { copy_nonoverlapping(self.start(), data.as_mut_ptr(), length) };
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `holding` made; no reference into it exists, only copies left it. A failure would
        // leave it mapped, which harms nothing.
        let _ = unsafe { munmap(self.base, self.whole) };
    }
}

/// One `SIOCETHTOOL` on a device. `data` begins with the command; EFAULT says that the answer is longer than `data`.
pub(crate) fn ethtool(socket: impl AsFd, device: &str, data: &mut [u8]) -> io::Result<()> {
    if data.len() < 4 || device.len() >= libc::IFNAMSIZ || device.bytes().any(|byte| byte == 0) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let guarded = Guarded::holding(data)?;
    // SAFETY: `ifreq` is a C struct of integers, arrays, and a union of such and a pointer: all zero bytes are a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = guarded.start().cast();
    // SAFETY: the descriptor is open for the whole call, for it is borrowed. `request` is a whole `ifreq` whose name ends in a
    // zero byte (it is shorter than IFNAMSIZ, and the rest is zero). No ethtool command's structure holds a pointer, so all that
    // the kernel reads or writes lies in order from `ifru_data` on; there it reaches `data.len()` bytes that are only this
    // call's, and then a page without access, where its copying stops with EFAULT. It keeps no pointer when it returns.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    guarded.copy_to(data);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guarded_memory_gives_back_what_it_was_given() {
        for length in [0, 1, 4, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE] {
            let data: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let guarded = Guarded::holding(&data).unwrap();
            let mut back = vec![0; length];
            guarded.copy_to(&mut back);
            assert_eq!(back, data);
        }
        assert!(Guarded::holding(&vec![0; LONGEST + 1]).is_err());
    }

    #[test]
    fn the_kernel_stops_at_the_guard() {
        // ETHTOOL_GLINK (0x0a) writes 8 bytes: the command and the state.
        let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let mut data = [0; 8];
        data[..4].copy_from_slice(&0x0au32.to_ne_bytes());
        ethtool(&socket, "lo", &mut data).unwrap();
        let error = ethtool(&socket, "lo", &mut data[..4]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT), "{error}");
    }
}
