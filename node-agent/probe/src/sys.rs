//! The only unsafe code of this crate: socket options of ip(7) and ipv6(7) that no safe crate offers, recvmsg(2) with the control
//! messages that say how a packet arrived, and getifaddrs(3).
#![allow(unsafe_code, reason = "setsockopt, getsockopt, recvmsg and getifaddrs; each block has its proof")]

use std::{
    ffi::{CStr, c_int},
    io,
    net::IpAddr,
    os::fd::{AsFd, AsRawFd},
};

/// Bytes for control messages: traffic class and time need 64.
const CONTROL: usize = 256;

/// Which of the numbers of SO_MEMINFO is that of drops, and how many there are up to it.
const DROPS: usize = libc::SK_MEMINFO_DROPS as usize;
const MEMINFO: usize = DROPS + 1;

/// How a packet arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Arrival {
    /// Length of the payload, in bytes.
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

/// Packets that this socket has dropped so far, for want of room above all (`SK_MEMINFO_DROPS` of SO_MEMINFO, Linux 4.12). Nothing
/// where the kernel does not say.
pub(crate) fn dropped(socket: impl AsFd) -> Option<u32> {
    let mut values = [0_u32; MEMINFO];
    let mut length = size_of_val(&values) as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `fd` is open for the whole call. `values` is as many writable bytes as `length` says, and the kernel writes no more than
    // that and says how many; both live until the call returns.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, (&raw mut values).cast(), &raw mut length)
    };
    let whole = result == 0 && length as usize == size_of_val(&values);
    values.get(DROPS).copied().filter(|_| whole)
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

/// The network device that has this address; `None` if none has, or if that cannot be read.
#[must_use]
pub fn device_of(address: IpAddr) -> Option<String> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `&raw mut list` is one writable pointer; the library stores there the head of a list that it has made, which is freed
    // once below, and nothing if it fails.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let mut found = None;
    let mut at = list;
    // SAFETY: `at` is the head of the list or a link of one of its entries (getifaddrs(3)), all of which live until freeifaddrs below;
    // null ends the list.
    while let Some(entry) = unsafe { at.as_ref() } {
        if address_of(entry) == Some(address) && !entry.ifa_name.is_null() {
            // SAFETY: `ifa_name` is not null, and then a C string that lives as long as its entry; it is copied before the list is freed.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found = name.to_str().ok().map(str::to_owned);
            break;
        }
        at = entry.ifa_next;
    }
    // SAFETY: `list` came from getifaddrs, is freed once, and nothing borrows from it any more.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// The IP address of an entry, if it has one.
fn address_of(entry: &libc::ifaddrs) -> Option<IpAddr> {
    // SAFETY: `ifa_addr` is null or points to a socket address that lives as long as the entry and has its family first.
    let family = unsafe { entry.ifa_addr.as_ref() }?.sa_family;
    match c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: of this family it is a whole `sockaddr_in`, which C aligns as it wants.
            let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: of this family it is a whole `sockaddr_in6`.
            let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::from(address.sin6_addr.s6_addr))
        }
        _ => None,
    }
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

    use std::net::{IpAddr, Ipv4Addr};

    use super::{device_of, dropped, read_control};

    #[test]
    fn what_finds_no_room_is_counted() {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_eq!(dropped(&socket), Some(0));
        socket2::SockRef::from(&socket).set_recv_buffer_size(1).unwrap();
        for _ in 0..64 {
            socket.send_to(&[0; 1024], socket.local_addr().unwrap()).unwrap();
        }
        let lost = dropped(&socket).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut came = 0;
        while socket.recv(&mut [0; 1024]).is_ok() {
            came += 1;
        }
        assert!(lost > 0 && lost + came == 64, "{lost} lost, {came} came");
    }

    #[test]
    fn an_address_belongs_to_a_device_or_to_none() {
        assert_eq!(device_of(IpAddr::V4(Ipv4Addr::LOCALHOST)).as_deref(), Some("lo"));
        assert_eq!(device_of(IpAddr::from([192, 0, 2, 77])), None, "of TEST-NET-1");
    }

    proptest! {
        #[test]
        fn any_control_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            prop_assert_eq!(read_control(&bytes, 5).length, 5);
        }
    }
}
