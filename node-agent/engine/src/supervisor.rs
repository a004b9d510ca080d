//! The supervisor's door: JSON lines in, one JSON line out for each.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tracing::warn;

use crate::control::{MAX_LINE, Reply};
use crate::tokens::ByToken;

/// Connections that may wait to be accepted.
pub(crate) const BACKLOG: i32 = 16;
/// Bytes read at a time.
pub(crate) const READ: usize = 16 << 10;

/// The control socket and its connections; its file is removed on drop.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) listener: UnixListener,
    pub(crate) path: PathBuf,
    pub(crate) connections: ByToken<Conversation>,
}

#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) stream: UnixStream,
    /// What has come and is not answered yet.
    pub(crate) inbox: Vec<u8>,
    /// What is not sent yet.
    pub(crate) outbox: Vec<u8>,
    /// The answer to the last request follows; later lines wait, so that answers keep their order.
    pub(crate) waiting: bool,
}

impl Supervisor {
    pub(crate) fn bind(path: &Path) -> std::io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket: OwnedFd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let short = node_agent_ipc::ShortPath::of(path)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(short.as_ref())?)?;
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(path, owner_only)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Self { listener: socket.into(), path: path.into(), connections: ByToken::new() })
    }

    /// Whether every answer is on its way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.connections.values().all(|conversation| conversation.outbox.is_empty())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // A file that is already gone is what is wanted.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Conversation {
    /// Reads what is there. `false` means that the connection is over.
    pub(crate) fn fill(&mut self) -> bool {
        let mut part = vec![0; READ];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return false,
                Ok(n) => self.inbox.extend_from_slice(&part[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
            if self.inbox.len() > MAX_LINE {
                return false;
            }
        }
    }

    /// Writes what the connection takes now. `false` means that it is over.
    pub(crate) fn flush(&mut self) -> bool {
        while !self.outbox.is_empty() {
            match self.stream.write(&self.outbox) {
                Ok(0) => return false,
                Ok(n) => drop(self.outbox.drain(..n)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        true
    }

    pub(crate) fn next_line(&mut self) -> Option<Vec<u8>> {
        if self.waiting {
            return None;
        }
        let end = self.inbox.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = self.inbox.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    /// Queues an answer. `false` means that the other side does not read its answers.
    pub(crate) fn say(&mut self, reply: &Reply) -> bool {
        match serde_json::to_vec(reply) {
            Ok(line) => self.outbox.extend_from_slice(&line),
            Err(error) => warn!(%error, "cannot write an answer as JSON"),
        }
        self.outbox.push(b'\n');
        self.outbox.len() <= MAX_LINE
    }
}
