//! The supervisor's door: JSON lines in, one JSON line out for each.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mio::Interest;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tracing::{debug, warn};

use crate::control::{MAX_LINE, Reply, Request};
use crate::engine::{ByToken, Engine, unwatch, watch};

/// Connections at once; the supervisor and an agent or two need no more.
const MAX_CONNECTIONS: usize = 32;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;
/// Bytes read at a time.
const READ: usize = 16 << 10;

/// The control socket and its connections; its file is removed on drop.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    connections: ByToken<Conversation>,
}

#[derive(Debug)]
struct Conversation {
    stream: UnixStream,
    /// What has come and is not answered yet.
    inbox: Vec<u8>,
    /// What is not sent yet.
    outbox: Vec<u8>,
    /// The answer to the last request follows; later lines wait, so that answers keep their order.
    waiting: bool,
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
    fn fill(&mut self) -> bool {
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
    fn flush(&mut self) -> bool {
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

    fn next_line(&mut self) -> Option<Vec<u8>> {
        if self.waiting {
            return None;
        }
        let end = self.inbox.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = self.inbox.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    /// Queues an answer. `false` means that the other side does not read its answers.
    fn say(&mut self, reply: &Reply) -> bool {
        match serde_json::to_vec(reply) {
            Ok(line) => self.outbox.extend_from_slice(&line),
            Err(error) => warn!(%error, "cannot write an answer as JSON"),
        }
        self.outbox.push(b'\n');
        self.outbox.len() <= MAX_LINE
    }
}

impl Engine {
    pub(crate) fn accept_supervisors(&mut self) {
        loop {
            let stream = match self.supervisor.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    warn!(%error, "cannot accept a control connection");
                    return;
                }
            };
            if self.supervisor.connections.len() >= MAX_CONNECTIONS || !is_trusted(&stream) {
                warn!("a control connection is refused");
                continue;
            }
            if let Err(error) = stream.set_nonblocking(true) {
                warn!(%error, "cannot use a control connection");
                continue;
            }
            let token = self.tokens.take();
            if let Err(error) = watch(&self.rails, &stream, token, Interest::READABLE | Interest::WRITABLE) {
                warn!(%error, "cannot watch a control connection");
                self.tokens.give_back(token);
                continue;
            }
            let conversation = Conversation { stream, inbox: Vec::new(), outbox: Vec::new(), waiting: false };
            self.supervisor.connections.insert(token, conversation);
            // What it sent before it was watched would give no event.
            self.serve_supervisor(token);
        }
    }

    pub(crate) fn serve_supervisor(&mut self, token: usize) {
        let Some(conversation) = self.supervisor.connections.get_mut(&token) else { return };
        let open = conversation.fill();
        self.answer_lines(token);
        let Some(conversation) = self.supervisor.connections.get_mut(&token) else { return };
        if !conversation.flush() || !open {
            self.close_supervisor(token);
        }
    }

    fn answer_lines(&mut self, token: usize) {
        while let Some(line) = self.supervisor.connections.get_mut(&token).and_then(Conversation::next_line) {
            let reply = match serde_json::from_slice::<Request>(&line) {
                Ok(request) => self.apply_command(token, request),
                Err(error) => Some(Reply::Error { error: format!("request not understood: {error}") }),
            };
            let Some(conversation) = self.supervisor.connections.get_mut(&token) else { return };
            match reply {
                Some(reply) if !conversation.say(&reply) => return self.close_supervisor(token),
                Some(_) => {}
                None => conversation.waiting = true,
            }
        }
    }

    fn apply_command(&mut self, token: usize, request: Request) -> Option<Reply> {
        match request {
            Request::Status {} => Some(Reply::Status(self.status())),
            Request::Stats {} => Some(Reply::Stats(self.stats())),
            Request::Drain { rails, on } => Some(self.drain_rails(&rails, on)),
            Request::Rails {} => Some(Reply::Rails(self.see_rails())),
            Request::Connect { peers } => self.connect(token, peers),
            Request::Certify { series, peers, turns, limit_ms } => {
                let limit = Duration::from_millis(limit_ms);
                self.certify(token, series, &peers, &turns, limit)
            }
            Request::Stop { reason } => {
                let reason = if reason.is_empty() { "told to stop".to_owned() } else { reason };
                self.begin_drain(reason);
                Some(Reply::OK)
            }
        }
    }

    /// Gives an answer that was promised for later.
    pub(crate) fn answer_supervisor(&mut self, token: usize, reply: &Reply) {
        let Some(conversation) = self.supervisor.connections.get_mut(&token) else { return };
        conversation.waiting = false;
        let taken = conversation.say(reply);
        self.answer_lines(token);
        let flushed = self.supervisor.connections.get_mut(&token).is_some_and(Conversation::flush);
        if !taken || !flushed {
            self.close_supervisor(token);
        }
    }

    fn close_supervisor(&mut self, token: usize) {
        if let Some(conversation) = self.supervisor.connections.remove(&token) {
            debug!("a control connection is closed");
            unwatch(&self.rails, &conversation.stream);
            self.tokens.give_back(token);
        }
    }
}

/// Only the engine's own user and root may command it.
fn is_trusted(stream: &UnixStream) -> bool {
    match rustix::net::sockopt::socket_peercred(stream) {
        Ok(peer) => peer.uid == rustix::process::geteuid() || peer.uid.is_root(),
        Err(_) => false,
    }
}
