//! The only unsafe code of this crate: socket options of ip(7) and ipv6(7) that no safe crate offers, and recvmsg(2) with the control
//! messages that say how a packet arrived.
#![allow(unsafe_code, reason = "setsockopt, getsockopt and recvmsg; each block has its proof")]

use std::{
    ffi::c_int,
    io,
    os::fd::{AsFd, AsRawFd},
};

/// Bytes for control messages: traffic class and time need 64.
const CONTROL: usize = 256;

/// How a packet arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Arrival {
    /// Bytes of payload.
    pub(crate) length: usize,
    /// The traffic class of its IP header.
    pub(crate) class: Option<u8>,
    /// When the kernel got it, in nanoseconds since 1970.
    pub(crate) time_ns: Option<u64>,
}

/// Sets an option that is an `int`.
pub(crate) fn set(socket: impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let length = size_of::<c_int>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `fd` is open for the whole call, for `socket` is borrowed. `&raw const value` points to one readable `c_int` that lives
    // until the call returns, and `length` is its size; the kernel only reads it.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option that is an `int`.
pub(crate) fn get(socket: impl AsFd, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `fd` is open for the whole call. `value` is one writable `c_int`, `length` says so, and the kernel writes no more than
    // that; both live until the call returns.
    let result = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut length) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Takes one packet, if there is one. What is longer than `payload` is cut.
pub(crate) fn receive(socket: impl AsFd, payload: &mut [u8]) -> io::Result<(Arrival, std::net::SocketAddr)> {
    let mut control = [0_u64; CONTROL / 8];
    let fd = socket.as_fd().as_raw_fd();
    let mut vector = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    let mut used = 0;
    // SAFETY: `msghdr` is a C struct of integers and pointers: all zero bytes are a value of it.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    // SAFETY: the closure's storage and length describe memory for any socket address; see below for the rest of the header.
    let received = unsafe {
        socket2::SockAddr::try_init(|storage, length| {
            header.msg_name = storage.cast();
            header.msg_namelen = *length;
            header.msg_iov = &raw mut vector;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
            // SAFETY: `fd` is open for the whole call, for `socket` is borrowed. The header names only memory of this function that
            // lives until it returns and is nobody else's: the address (of the length given), one vector over `payload`, and
            // `CONTROL` bytes aligned to 8, as control messages want. The kernel writes no more than these lengths.
            let got = libc::recvmsg(fd, &raw mut header, libc::MSG_DONTWAIT);
            if got < 0 {
                return Err(io::Error::last_os_error());
            }
            *length = header.msg_namelen;
            used = (header.msg_controllen as usize).min(CONTROL);
            Ok(usize::try_from(got).unwrap_or_default())
        })
    };
    let (length, from) = received?;
    let bytes: Vec<u8> = control.iter().flat_map(|word| word.to_ne_bytes()).take(used).collect();
    let from = from.as_socket().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((read_control(&bytes, length), from))
}

/// Walks control messages (`struct cmsghdr`: length with its 16 bytes, level, type; each at a multiple of 8).
fn read_control(mut bytes: &[u8], length: usize) -> Arrival {
    let mut arrival = Arrival { length, ..Arrival::default() };
    while let Some((head, _)) = bytes.split_first_chunk::<16>() {
        let word = |at: usize| head.get(at..)?.first_chunk::<4>().map(|four| c_int::from_ne_bytes(*four));
        let Some(long) = head.first_chunk::<8>().map(|eight| u64::from_ne_bytes(*eight)) else { break };
        let Ok(long) = usize::try_from(long) else { break };
        let Some(data) = bytes.get(16..long) else { break };
        match (word(8), word(12)) {
            (Some(libc::IPPROTO_IP), Some(libc::IP_TOS)) => arrival.class = data.first().copied(),
            (Some(libc::IPPROTO_IPV6), Some(libc::IPV6_TCLASS)) => {
                let class = data.first_chunk::<4>().map(|four| c_int::from_ne_bytes(*four));
                arrival.class = class.and_then(|class| u8::try_from(class).ok());
            }
            (Some(libc::SOL_SOCKET), Some(libc::SCM_TIMESTAMPNS)) => {
                let part = |at: usize| {
                    let eight = data.get(at..)?.first_chunk::<8>()?;
                    u64::try_from(i64::from_ne_bytes(*eight)).ok()
                };
                arrival.time_ns = part(0).zip(part(8)).map(|(s, ns)| s.saturating_mul(1_000_000_000) + ns);
            }
            _ => {}
        }
        let Some(rest) = bytes.get(long.next_multiple_of(8).max(16)..) else { break };
        bytes = rest;
    }
    arrival
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::read_control;

    proptest! {
        #[test]
        fn any_control_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            prop_assert_eq!(read_control(&bytes, 5).length, 5);
        }
    }
}
