//! One rail's socket.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::sys::{self, Arrival};

/// What sockets are asked to hold; the kernel gives what it allows.
const BUFFER: usize = 4 << 20;
/// A full send buffer is looked at again after this.
const ROOM: Duration = Duration::from_millis(20);
/// The longest IP packet.
const LONGEST: u32 = 65_535;

/// A UDP socket from which one rail is probed.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) socket: UdpSocket,
    v6: bool,
    address: IpAddr,
    device: Option<String>,
}

impl Port {
    /// Every packet has this traffic class, is never fragmented, and is given with class and time when it arrives. With a device
    /// it hears only what comes in there: a kernel takes packets for any of its addresses on all of its devices (weak host
    /// model, RFC 1122 3.3.4.2), which hides cables that are swapped.
    pub(crate) fn open(at: SocketAddr, class: u8, device: Option<&str>) -> io::Result<Self> {
        let v6 = at.is_ipv6();
        let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
        // As much as is allowed; with less, bursts are measured over fewer packets.
        let _ = socket.set_recv_buffer_size(BUFFER);
        let _ = socket.set_send_buffer_size(BUFFER);
        if v6 {
            socket.set_tclass_v6(u32::from(class))?;
            sys::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
            sys::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        } else {
            socket.set_tos_v4(u32::from(class))?;
            sys::set(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
            sys::set(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        }
        sys::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        socket.set_nonblocking(true)?;
        if let Some(device) = device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        socket.bind(&at.into())?;
        Ok(Self { socket: socket.into(), v6, address: at.ip(), device: device.map(str::to_owned) })
    }

    /// Bytes of IP and UDP headers.
    pub(crate) fn headers(&self) -> u32 {
        if self.v6 { 48 } else { 28 }
    }

    /// The MTU of the interface by which `to` is reached.
    pub(crate) fn mtu(&self, to: SocketAddr) -> Option<u32> {
        // A socket of its own, because one that is connected hears nobody else.
        let socket = UdpSocket::bind(SocketAddr::new(self.address, 0)).ok()?;
        if let Some(device) = &self.device {
            SockRef::from(&socket).bind_device(Some(device.as_bytes())).ok()?;
        }
        socket.connect(to).ok()?;
        let (level, name) =
            if self.v6 { (libc::IPPROTO_IPV6, libc::IPV6_MTU) } else { (libc::IPPROTO_IP, libc::IP_MTU) };
        let mtu = sys::get(&socket, level, name).ok()?;
        Some(u32::try_from(mtu).ok()?.min(LONGEST))
    }

    /// Packets that came and found no room, so far; it wraps. 0 where the kernel does not count them.
    pub(crate) fn dropped(&self) -> u32 {
        sys::dropped(&self.socket).unwrap_or_default()
    }

    /// Sends, and waits for room until `end`. Gives how long it waited.
    pub(crate) fn send_in_time(&self, payload: &[u8], to: SocketAddr, end: Instant) -> io::Result<Duration> {
        let mut waited = Duration::ZERO;
        while let Err(error) = self.socket.send_to(payload, to) {
            let now = Instant::now();
            if error.kind() != io::ErrorKind::WouldBlock || now >= end {
                return Err(error);
            }
            self.poll(PollFlags::OUT, (end - now).min(ROOM));
            waited += now.elapsed();
        }
        Ok(waited)
    }

    /// Whether a packet waits to be read.
    pub(crate) fn waits(&self) -> bool {
        self.poll(PollFlags::IN, Duration::ZERO)
    }

    fn poll(&self, flags: PollFlags, limit: Duration) -> bool {
        let timeout =
            Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
        let mut polled = [PollFd::from_borrowed_fd(self.socket.as_fd(), flags)];
        poll(&mut polled, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }

    pub(crate) fn receive(&self, payload: &mut [u8]) -> io::Result<(Arrival, SocketAddr)> {
        sys::receive(&self.socket, payload)
    }
}
