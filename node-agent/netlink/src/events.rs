//! What changes, as the kernel tells it: interfaces, DCB state, pause frames. A stream of typed changes; what was lost is a
//! change too ("look at everything again").

use std::{collections::VecDeque, io, os::fd::BorrowedFd, time::Duration};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    ask::DATAGRAM,
    dcb::table::{self, Table},
    error::NetlinkError,
    ethtool,
    kernel::{Channel, Family, Kernel},
    route::{self, Link},
    wire::{Message, Messages, OVERRUN},
};

/// `RTNLGRP_LINK`.
const GROUP_LINK: u32 = 1;
/// `RTNLGRP_DCB`.
const GROUP_DCB: u32 = 23;

/// Something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An interface is there, in this state; also after a rename, and for changes of things that are not told here.
    Link(Link),
    /// An interface is gone.
    LinkGone {
        /// Its index.
        index: u32,
        /// Its last name.
        name: String,
    },
    /// Somebody, perhaps this program, asked to change a device's DCB state.
    Dcb {
        /// Which device.
        device: String,
    },
    /// Somebody, perhaps this program, changed a device's pause settings.
    Pause {
        /// Which device.
        device: String,
    },
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
            table::GET | table::SET => match Table::decode(message) {
                Ok(table) if !table.device.is_empty() => Some(Event::Dcb { device: table.device }),
                _ => Some(Event::Lost),
            },
            _ => None,
        }
    };
    Messages::new(datagram).filter_map(event).collect()
}

/// The stream.
pub struct Events {
    route: Box<dyn Channel>,
    /// Pause settings; `None` where the kernel has no ethtool netlink (before 5.6).
    ethtool: Option<(Box<dyn Channel>, u16)>,
    buffer: Vec<u8>,
    ready: VecDeque<Event>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("ready", &self.ready).finish_non_exhaustive()
    }
}

impl Events {
    /// Subscribes. What is read after this call is not older than what the stream tells.
    ///
    /// # Errors
    /// The kernel has no route netlink.
    pub fn open(kernel: &dyn Kernel) -> Result<Self, NetlinkError> {
        let subscribe = |family, groups: &[u32]| {
            let what = format!("subscribe to events ({family:?})");
            kernel.open(family, groups).map_err(|source| NetlinkError::Io { what, source })
        };
        let route = subscribe(Family::Route, &[GROUP_LINK, GROUP_DCB])?;
        let family = ethtool::Family::resolve(kernel).ok();
        let ethtool =
            family.and_then(|family| Some((subscribe(Family::Generic, &[family.monitor?]).ok()?, family.id)));
        Ok(Self { route, ethtool, buffer: vec![0; DATAGRAM], ready: VecDeque::new() })
    }

    /// To wait for them with others.
    #[must_use]
    pub fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let ethtool = self.ethtool.as_ref().and_then(|(channel, _)| channel.fd());
        self.route.fd().into_iter().chain(ethtool).collect()
    }

    /// The next event; `None` if there is none for `limit`.
    ///
    /// # Errors
    /// The socket failed.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Event>, NetlinkError> {
        if self.ready.is_empty() {
            let limit = self.wait(limit)?;
            self.take_pauses()?;
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

    fn take_pauses(&mut self) -> Result<(), NetlinkError> {
        let Some((channel, family)) = &mut self.ethtool else { return Ok(()) };
        match receive(&mut **channel, &mut self.buffer, Duration::ZERO)? {
            Datagram::None => {}
            Datagram::Lost => self.ready.push_back(Event::Lost),
            Datagram::Bytes(length) => {
                self.ready.extend(ethtool::pause_events(&self.buffer[..length], *family));
            }
        }
        Ok(())
    }
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
