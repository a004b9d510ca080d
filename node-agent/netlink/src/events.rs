//! What changes, as the kernel reports it: interfaces, addresses, RDMA devices, DCB state, pause frames. A stream of typed
//! changes; what was lost is a change too ("look at everything again").

use std::{collections::VecDeque, io, os::fd::BorrowedFd, time::Duration};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    ask::DATAGRAM,
    dcb::table::{self, Table},
    error::NetlinkError,
    ethtool,
    kernel::{Channel, Family, Kernel},
    rdma::{self, Notice},
    route::{self, Link},
    wire::{Message, Messages, OVERRUN},
};

/// `RTNLGRP_LINK` (`rtnetlink.h`): interfaces that come, change or go.
const GROUP_LINK: u32 = 1;
/// `RTNLGRP_IPV4_IFADDR` and `RTNLGRP_IPV6_IFADDR`: addresses that come or go.
const GROUPS_ADDRESS: [u32; 2] = [5, 9];
/// `RTNLGRP_DCB`: changes of DCB state.
const GROUP_DCB: u32 = 23;
/// `RDMA_NL_GROUP_NOTIFY`; kernel 6.12 and later.
const GROUP_RDMA: u32 = 4;

/// Something that the kernel reports to have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An interface is there, in this state; also after a rename, and for changes of things that are not reported here.
    Link(Link),
    /// An interface is gone.
    LinkGone {
        /// The index that the interface had.
        index: u32,
        /// The name that the interface had last.
        name: String,
    },
    /// Somebody, perhaps this program, asked to change a device's DCB state.
    Dcb {
        /// Name of the network device.
        device: String,
    },
    /// Somebody, perhaps this program, changed a device's pause settings.
    Pause {
        /// Name of the network device.
        device: String,
    },
    /// A device has an address more or less than before.
    Address {
        /// Index of the device that has or had the address.
        index: u32,
    },
    /// Something happened to an RDMA device.
    Rdma(Notice),
    /// Events were lost or could not be read: anything may have changed.
    Lost,
}

/// The events of one datagram on the route socket. Any bytes are a list of events.
#[must_use]
pub fn decode(datagram: &[u8]) -> Vec<Event> {
    let event = |message: Result<Message<'_>, _>| {
        let Ok(message) = message else { return Some(Event::Lost) };
        match message.kind {
            OVERRUN => Some(Event::Lost),
            route::NEW_LINK => match Link::decode(message) {
                Ok(link) => link.map(Event::Link),
                Err(_) => Some(Event::Lost),
            },
            route::DELETED_LINK => match Link::decode(message) {
                Ok(link) => link.map(|link| Event::LinkGone { index: link.index, name: link.name }),
                Err(_) => Some(Event::Lost),
            },
            route::NEW_ADDRESS | route::DELETED_ADDRESS => match route::address_index(message) {
                Ok(index) => Some(Event::Address { index }),
                Err(_) => Some(Event::Lost),
            },
            table::GET | table::SET => match Table::decode(message) {
                Ok(table) if !table.device.is_empty() => Some(Event::Dcb { device: table.device }),
                _ => Some(Event::Lost),
            },
            _ => None,
        }
    };
    Messages::new(datagram).filter_map(event).collect()
}

/// The events of one datagram on the RDMA socket. Any bytes are a list of events.
#[must_use]
pub fn decode_rdma(datagram: &[u8]) -> Vec<Event> {
    let event = |message: Result<Message<'_>, _>| match message {
        Ok(message) if message.kind == OVERRUN => Some(Event::Lost),
        Ok(message) if message.kind == rdma::kind::MONITOR => {
            Some(Notice::decode(message).map_or(Event::Lost, Event::Rdma))
        }
        Ok(_) => None,
        Err(_) => Some(Event::Lost),
    };
    Messages::new(datagram).filter_map(event).collect()
}

/// How the datagrams of a socket beside the route socket are read.
#[derive(Debug, Clone, Copy)]
enum SideSocket {
    /// Pause settings, of this generic family.
    Pause(u16),
    Rdma,
}

/// The stream of events of a kernel: a socket for each family that reports them.
pub struct Events {
    route: Box<dyn Channel>,
    /// What else the kernel has: ethtool netlink since 5.6, notices of RDMA devices since 6.12 and where their module is loaded.
    beside: Vec<(Box<dyn Channel>, SideSocket)>,
    buffer: Vec<u8>,
    ready: VecDeque<Event>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("ready", &self.ready).finish_non_exhaustive()
    }
}

impl Events {
    /// Subscribes to what class of service depends on: interfaces, DCB state, pause settings. What is read after this call is not
    /// older than what the stream reports.
    ///
    /// # Errors
    /// The kernel has no route netlink.
    pub fn open(kernel: &dyn Kernel) -> Result<Self, NetlinkError> {
        let route = subscribe(kernel, Family::Route, &[GROUP_LINK, GROUP_DCB])?;
        let family = ethtool::Family::resolve(kernel).ok();
        let pause = family.and_then(|family| {
            let channel = subscribe(kernel, Family::Generic, &[family.monitor?]).ok()?;
            Some((channel, SideSocket::Pause(family.id)))
        });
        Ok(Self::of(route, pause))
    }

    /// Subscribes to what an inventory depends on: interfaces, addresses, RDMA devices.
    ///
    /// # Errors
    /// The kernel has no route netlink.
    pub fn of_inventory(kernel: &dyn Kernel) -> Result<Self, NetlinkError> {
        let [v4, v6] = GROUPS_ADDRESS;
        let route = subscribe(kernel, Family::Route, &[GROUP_LINK, v4, v6])?;
        let rdma = subscribe(kernel, Family::Rdma, &[GROUP_RDMA]).ok();
        Ok(Self::of(route, rdma.map(|channel| (channel, SideSocket::Rdma))))
    }

    fn of(route: Box<dyn Channel>, beside: Option<(Box<dyn Channel>, SideSocket)>) -> Self {
        let beside = beside.into_iter().collect();
        Self { route, beside, buffer: vec![0; DATAGRAM], ready: VecDeque::new() }
    }

    /// To wait for them with others.
    #[must_use]
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let beside = self.beside.iter().filter_map(|(channel, _)| channel.fd());
        self.route.fd().into_iter().chain(beside).collect()
    }

    /// The next event; `None` if there is none for `limit`.
    ///
    /// # Errors
    /// The socket failed.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Event>, NetlinkError> {
        if self.ready.is_empty() {
            let limit = self.wait(limit)?;
            self.take_beside()?;
            let limit = if self.ready.is_empty() { limit } else { Duration::ZERO };
            let datagram = receive(&mut *self.route, &mut self.buffer, limit)?;
            self.ready.extend(match datagram {
                Datagram::None => Vec::new(),
                Datagram::Lost => vec![Event::Lost],
                Datagram::Bytes(length) => decode(&self.buffer[..length]),
            });
        }
        Ok(self.ready.pop_front())
    }

    /// Waits on all sockets; says how long is still to be waited on the route socket, where that cannot be waited for here.
    fn wait(&self, limit: Duration) -> Result<Duration, NetlinkError> {
        let fds = self.fds();
        if fds.is_empty() {
            return Ok(limit);
        }
        let mut ready: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let limit = Timespec::try_from(limit).ok();
        match poll(&mut ready, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(Duration::ZERO),
            Err(error) => Err(NetlinkError::Io { what: "wait for events".into(), source: error.into() }),
        }
    }

    fn take_beside(&mut self) -> Result<(), NetlinkError> {
        for (channel, beside) in &mut self.beside {
            match receive(&mut **channel, &mut self.buffer, Duration::ZERO)? {
                Datagram::None => {}
                Datagram::Lost => self.ready.push_back(Event::Lost),
                Datagram::Bytes(length) => self.ready.extend(match beside {
                    SideSocket::Pause(family) => ethtool::pause_events(&self.buffer[..length], *family),
                    SideSocket::Rdma => decode_rdma(&self.buffer[..length]),
                }),
            }
        }
        Ok(())
    }
}

fn subscribe(kernel: &dyn Kernel, family: Family, groups: &[u32]) -> Result<Box<dyn Channel>, NetlinkError> {
    let what = format!("subscribe to events ({family:?})");
    kernel.open(family, groups).map_err(|source| NetlinkError::Io { what, source })
}

enum Datagram {
    None,
    Lost,
    Bytes(usize),
}

fn receive(channel: &mut dyn Channel, buffer: &mut [u8], limit: Duration) -> Result<Datagram, NetlinkError> {
    match channel.receive(buffer, limit) {
        Ok(received) if received.length > buffer.len() => Ok(Datagram::Lost),
        Ok(received) if received.from_kernel => Ok(Datagram::Bytes(received.length)),
        Ok(_) => Ok(Datagram::None),
        Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(Datagram::Lost),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {
                Ok(Datagram::None)
            }
            _ => Err(NetlinkError::Io { what: "wait for events".into(), source: error }),
        },
    }
}
