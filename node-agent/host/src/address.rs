//! Addresses of network devices, from the kernel by rtnetlink (`RTM_GETADDR`, see rtnetlink(7)).

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::AsFd,
    time::Duration,
};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netdevice, netlink, recv, send,
    socket_with, sockopt,
};

use crate::nic::Addresses;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_DUMP: u16 = 0x301;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// A dump is answered at once; a kernel that does not is not waited for.
const LIMIT: Duration = Duration::from_secs(2);
/// No server has more datagrams of addresses.
const DATAGRAMS_MAX: usize = 4096;

/// All addresses by device name, in the kernel's order (primary first).
///
/// # Errors
/// What the kernel answered, or a reply that cannot be read.
pub fn by_device() -> io::Result<Addresses> {
    // No protocol is protocol 0: NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(LIMIT))?;
    bind(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut found: BTreeMap<u32, Vec<IpAddr>> = BTreeMap::new();
    let mut buffer = vec![0u8; 64 * 1024];
    for _ in 0..DATAGRAMS_MAX {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        if read_datagram(&buffer[..length], &mut found)? {
            return named(&socket, found);
        }
    }
    Err(io::Error::other("the kernel's list of addresses does not end"))
}

fn named(socket: impl AsFd, found: BTreeMap<u32, Vec<IpAddr>>) -> io::Result<Addresses> {
    let mut named = Addresses::new();
    for (index, addresses) in found {
        // A device may have gone since the dump.
        if let Ok(name) = netdevice::index_to_name(&socket, index) {
            named.insert(name, addresses);
        }
    }
    Ok(named)
}

/// `nlmsghdr` (16 bytes) and `ifaddrmsg` (8 bytes, all families).
fn request() -> [u8; 24] {
    let mut message = [0u8; 24];
    message[..4].copy_from_slice(&24u32.to_ne_bytes());
    message[4..6].copy_from_slice(&RTM_GETADDR.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    message[8..12].copy_from_slice(&1u32.to_ne_bytes());
    message
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Takes one datagram's addresses; true at the end of the dump.
fn read_datagram(mut rest: &[u8], found: &mut BTreeMap<u32, Vec<IpAddr>>) -> io::Result<bool> {
    let cut_short = || io::Error::new(io::ErrorKind::InvalidData, "a netlink message is cut short");
    while !rest.is_empty() {
        let length = u32_at(rest, 0).and_then(|length| usize::try_from(length).ok()).ok_or_else(cut_short)?;
        let kind = u16_at(rest, 4).ok_or_else(cut_short)?;
        let message = rest.get(..length).filter(|message| message.len() >= 16).ok_or_else(cut_short)?;
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = u32_at(message, 16).map_or(0, |code| code.cast_signed());
                return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
            }
            RTM_NEWADDR => read_address(&message[16..], found),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(false)
}

/// `ifaddrmsg`: family, prefix length, flags, scope, u32 index; then attributes. `IFA_LOCAL` is this host's address,
/// `IFA_ADDRESS` the peer's on point-to-point links and the same elsewhere; IPv6 has only the latter.
fn read_address(body: &[u8], found: &mut BTreeMap<u32, Vec<IpAddr>>) {
    let Some(index) = u32_at(body, 4) else { return };
    let (mut local, mut address) = (None, None);
    let mut rest = body.get(8..).unwrap_or(&[]);
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let length = usize::from(length);
        let Some(value) = rest.get(4..length) else { break };
        let ip = match value.len() {
            4 => <[u8; 4]>::try_from(value).ok().map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes))),
            16 => <[u8; 16]>::try_from(value).ok().map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes))),
            _ => None,
        };
        match kind {
            IFA_LOCAL => local = ip,
            IFA_ADDRESS => address = ip,
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    if let Some(ip) = local.or(address) {
        found.entry(index).or_default().push(ip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_loopback() {
        let addresses = by_device().unwrap();
        // A fresh network namespace has `lo` down and without addresses: then there is nothing to compare.
        if let Some(lo) = addresses.get("lo") {
            assert!(lo.iter().any(IpAddr::is_loopback), "{addresses:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn hostile_datagrams_are_errors_not_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = read_datagram(&bytes, &mut BTreeMap::new());
            read_address(&bytes, &mut BTreeMap::new());
        }

        #[test]
        fn hostile_attributes_are_skipped(length in 0u16..40, kind in 0u16..4, rest in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
            let mut body = vec![0u8; 8];
            body.extend(length.to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(rest);
            let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
            message.extend(RTM_NEWADDR.to_ne_bytes());
            message.extend([0u8; 10]);
            message.extend(body);
            let _ = read_datagram(&message, &mut BTreeMap::new());
        }
    }
}
