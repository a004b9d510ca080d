//! The watch on this node's own ports: which rails' interfaces carry packets, as the kernel reports it.
//!
//! A rail is known by its address, for the interface that has it may come back under another index (a driver was loaded
//! anew). A rail whose address no interface has ever had exactly (127.0.0.0/8 apart from 127.0.0.1, or an address that
//! is routed here) is not watched and counts as up.

// Public for the fuzz target only.
#[doc(hidden)]
pub mod message;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use message::{Event, Listing, decode, request, request_link};
use mio::Interest;
use mio::unix::SourceFd;
use node_agent_collective::units::Rail;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recvfrom, sendto, socket_with};

use super::TcpConfig;
use super::tokens::PORTS;

/// Groups of events: interfaces, and addresses of both families.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// Longest datagram: what the kernel fills a listing's pieces up to, with room.
const DATAGRAM: usize = 64 << 10;
/// Datagrams taken in one turn.
const MOST: usize = 256;
/// Times in a row that a listing is asked for again because it changed while it was made.
const AGAIN: u32 = 8;

/// What is known of interfaces and addresses. No IO.
#[derive(Debug, Default)]
struct Ports {
    /// Whether an interface carries packets.
    links: BTreeMap<u32, bool>,
    /// Interfaces that have an address of a rail.
    owners: BTreeMap<IpAddr, BTreeSet<u32>>,
}

impl Ports {
    /// Takes what the kernel says; `rails` are the addresses that matter.
    fn take(&mut self, event: Event, rails: &[IpAddr]) {
        match event {
            Event::Link { index, up } => {
                self.links.insert(index, up);
            }
            Event::LinkGone { index } => {
                self.links.remove(&index);
                for owners in self.owners.values_mut() {
                    owners.remove(&index);
                }
            }
            Event::Address { index, address } if rails.contains(&address) => {
                self.owners.entry(address).or_default().insert(index);
            }
            Event::AddressGone { index, address } => {
                if let Some(owners) = self.owners.get_mut(&address) {
                    owners.remove(&index);
                }
            }
            Event::Address { .. } | Event::Done { .. } | Event::Lost => {}
        }
    }

    /// Whether an interface with this address carries packets; `None` if none ever had it.
    fn up(&self, address: IpAddr) -> Option<bool> {
        let owners = self.owners.get(&address)?;
        Some(owners.iter().any(|index| self.links.get(index).copied().unwrap_or(false)))
    }
}

/// Watches the ports of this node's rails over netlink: whether they have a carrier.
#[derive(Debug)]
pub struct Watch {
    socket: OwnedFd,
    rails: Vec<IpAddr>,
    ports: Ports,
    /// The listing that is on its way; nothing is concluded before it is complete.
    awaited: Option<Listing>,
    again: u32,
    buffer: Vec<u8>,
}

impl Watch {
    /// Watches the ports with these addresses, one for each rail, and finds out how they are now.
    ///
    /// # Errors
    /// The netlink socket cannot be made, or the kernel does not list interfaces and addresses.
    pub fn open(rails: &[IpAddr]) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        let mut watch = Watch {
            socket,
            rails: rails.to_vec(),
            ports: Ports::default(),
            awaited: None,
            again: 0,
            buffer: vec![0; DATAGRAM],
        };
        watch.ask(Listing::Links)?;
        // The kernel answers a request before it returns from it, and goes on with each read.
        watch.read();
        Ok(watch)
    }

    /// For an event when something can be read.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks for a listing: of links first, then of addresses.
    fn ask(&mut self, listing: Listing) -> io::Result<()> {
        self.awaited = Some(listing);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &request(listing), SendFlags::empty(), &kernel)?;
        Ok(())
    }

    /// Asks how the ports of some rails are now, for events may be late, and reads the answers.
    pub fn ask_about(&mut self, rails: &[Rail]) {
        if self.awaited.is_some() {
            return;
        }
        let addresses = rails.iter().filter_map(|rail| self.rails.get(usize::from(*rail)));
        let indices: BTreeSet<u32> =
            addresses.filter_map(|a| self.ports.owners.get(a)).flatten().copied().collect();
        for index in indices {
            // A request that is not taken now is made again soon.
            let kernel = SocketAddrNetlink::new(0, 0);
            if let Err(error) = sendto(&self.socket, &request_link(index), SendFlags::empty(), &kernel) {
                tracing::debug!(%error, index, "cannot ask for the state of a port");
            }
        }
        self.read();
    }

    /// Begins again: what was lost may be anything. Which addresses there ever were stays known.
    fn begin_anew(&mut self) {
        self.ports.links.clear();
        self.ports.owners.values_mut().for_each(BTreeSet::clear);
        if let Err(error) = self.ask(Listing::Links) {
            tracing::warn!(%error, "cannot ask for the state of the ports");
            self.awaited = None;
        }
    }

    /// Reads what the kernel says. Says whether more may be there.
    pub fn read(&mut self) -> bool {
        for _ in 0..MOST {
            let (length, from_kernel) = match recvfrom(&self.socket, &mut self.buffer[..], RecvFlags::empty())
            {
                Ok((length, _, from)) => {
                    let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
                    (length, from.is_some_and(|from| from.pid() == 0))
                }
                Err(rustix::io::Errno::NOBUFS) => {
                    tracing::warn!("events of the ports were lost; all are looked at again");
                    self.begin_anew();
                    continue;
                }
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return false,
            };
            if from_kernel {
                for event in decode(&self.buffer[..length]) {
                    self.take(event);
                }
            }
        }
        true
    }

    fn take(&mut self, event: Event) {
        match (event, self.awaited) {
            (Event::Done { interrupted: true }, Some(_)) if self.again < AGAIN => {
                self.again += 1;
                self.begin_anew();
            }
            (Event::Done { .. }, Some(Listing::Links)) => {
                if self.ask(Listing::Addresses).is_err() {
                    self.awaited = None;
                }
            }
            (Event::Done { .. }, Some(Listing::Addresses)) => (self.awaited, self.again) = (None, 0),
            (Event::Lost, _) if self.again < AGAIN => {
                self.again += 1;
                self.begin_anew();
            }
            _ => self.ports.take(event, &self.rails),
        }
    }

    /// The rails whose port is watched, and whether it is up. Nothing while a listing is on its way.
    pub fn states(&self) -> Vec<(Rail, bool)> {
        if self.awaited.is_some() {
            return Vec::new();
        }
        let rails = self.rails.iter().enumerate();
        rails.filter_map(|(rail, &address)| Some((rail as Rail, self.ports.up(address)?))).collect()
    }
}

/// Opens the watch on the ports and has it end sleeps, if there may be one. Without it a rail's end is known by its silence.
pub(super) fn watch(config: &TcpConfig, registry: &mio::Registry) -> Option<Watch> {
    let opened = Watch::open(&config.rails).and_then(|watch| {
        registry.register(&mut SourceFd(&watch.fd().as_raw_fd()), PORTS, Interest::READABLE)?;
        Ok(watch)
    });
    opened.inspect_err(|error| tracing::warn!(%error, "the own ports cannot be watched")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rail_is_known_by_its_address() {
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        let other: IpAddr = "10.0.0.2".parse().unwrap();
        let mut ports = Ports::default();
        let mut step = |event, expected: Option<bool>| {
            ports.take(event, &[address]);
            assert_eq!(ports.up(address), expected, "{event:?}");
            assert_eq!(ports.up(other), None);
        };
        step(Event::Link { index: 3, up: true }, None);
        step(Event::Address { index: 4, address: other }, None);
        step(Event::Address { index: 3, address }, Some(true));
        step(Event::Link { index: 3, up: false }, Some(false));
        step(Event::Link { index: 4, up: true }, Some(false));
        step(Event::Link { index: 3, up: true }, Some(true));
        // The driver is reloaded: the interface comes back under another index, down, then up, then with its address.
        step(Event::LinkGone { index: 3 }, Some(false));
        step(Event::Link { index: 9, up: true }, Some(false));
        step(Event::Address { index: 9, address }, Some(true));
        step(Event::AddressGone { index: 9, address }, Some(false));
        // The address moves, seen the other way round.
        step(Event::Address { index: 4, address }, Some(true));
        step(Event::Address { index: 9, address }, Some(true));
        step(Event::AddressGone { index: 4, address }, Some(true));
    }

    #[test]
    fn an_address_that_no_interface_has_is_not_watched() {
        let addresses = ["127.0.0.1", "127.9.9.9"].map(|a| a.parse().unwrap());
        let mut watch = Watch::open(&addresses).unwrap();
        assert_eq!(watch.awaited, None, "the listings are complete");
        // Where there is a loopback interface it has the first; a network namespace may be without, or with it down.
        assert!(watch.states().iter().all(|(rail, _)| *rail == 0), "{:?}", watch.states());
        let before = watch.states();
        watch.ask_about(&[0, 1, 7]);
        assert_eq!(watch.states(), before, "nothing has changed");
        watch.take(Event::Lost);
        assert_eq!(watch.states(), [], "nothing is concluded from half a listing");
        watch.read();
        assert_eq!(watch.states(), before);
    }
}
