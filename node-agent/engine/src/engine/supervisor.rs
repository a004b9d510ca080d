//! The supervisor's questions and orders.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mio::Interest;
use tracing::{debug, warn};

use crate::control::{Reply, Request};
use crate::engine::Engine;
use crate::supervisor::Conversation;
use crate::tokens::{unwatch, watch};

/// Connections at once; the supervisor and an agent or two need no more.
const MAX_CONNECTIONS: usize = 32;

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
