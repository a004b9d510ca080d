//! The supervisor's end of the socket to the agent: snapshots out, orders in, one JSON value a line.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
};

use node_agent_attempt::saved::SavedOrder;
use node_agent_core::Order;
use node_agent_ipc::ShortPath;

/// An agent, the one that comes after it, and a person who looks.
const CONNECTIONS_MAX: usize = 4;
/// The endpoints of 1,024 nodes with 8 rails fit.
const LINE_MAX: usize = 2 << 20;

/// The listener and who is connected.
#[derive(Debug)]
pub struct Link {
    listener: UnixListener,
    peers: Vec<Peer>,
}

#[derive(Debug)]
struct Peer {
    stream: UnixStream,
    held: Vec<u8>,
}

impl Link {
    /// Listens; a socket that a dead supervisor left is replaced.
    ///
    /// # Errors
    /// The socket cannot be made at `path`.
    pub fn listen(path: &Path) -> io::Result<Self> {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(ShortPath::of(path)?)?;
        // Whatever our umask is: whoever may write to it may end the job.
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, peers: Vec::new() })
    }

    /// What to poll for reading.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd()).chain(self.peers.iter().map(|peer| peer.stream.as_fd()))
    }

    /// Takes new connections, each greeted with `snapshot`; the oldest makes room.
    pub fn accept(&mut self, snapshot: &[u8]) {
        while let Ok((stream, _)) = self.listener.accept() {
            let greeted = stream.set_nonblocking(true).and_then(|()| (&stream).write_all(snapshot));
            if greeted.is_ok() {
                if self.peers.len() == CONNECTIONS_MAX {
                    self.peers.remove(0);
                }
                self.peers.push(Peer { stream, held: Vec::new() });
            }
        }
    }

    /// Tells everybody; who does not read is dropped, and gets the whole when it comes back.
    pub fn report(&mut self, snapshot: &[u8]) {
        self.peers.retain(|peer| (&peer.stream).write_all(snapshot).is_ok());
    }

    /// Orders that have come.
    pub fn orders(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        self.peers.retain_mut(|peer| peer.read(&mut orders));
        orders
    }
}

impl Peer {
    /// False when it is to be dropped.
    fn read(&mut self, orders: &mut Vec<Order>) -> bool {
        let mut buffer = [0; 16 * 1024];
        let alive = loop {
            match (&self.stream).read(&mut buffer) {
                Ok(0) => break false,
                Ok(length) => self.held.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break false,
            }
            if self.held.len() > LINE_MAX {
                return false;
            }
        };
        while let Some(end) = self.held.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.held.drain(..=end).collect();
            match serde_json::from_slice::<SavedOrder>(&line) {
                Ok(order) => orders.push(order.into()),
                Err(error) => {
                    eprintln!("an order that is not understood was refused: {error}");
                    return false;
                }
            }
        }
        alive
    }
}
