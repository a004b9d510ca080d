//! Sockets that the engine waits for, by the tokens of their events.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd};

use mio::unix::SourceFd;
use mio::{Interest, Token};
use node_agent_engine_transport::TcpRails;
use node_agent_engine_transport::tcp::EXTERNAL_TOKENS;

use crate::error::EngineError;

/// Event tokens of the listening sockets; connections get the tokens above.
pub(crate) const RANK_LISTENER: usize = 0;
pub(crate) const CONTROL_LISTENER: usize = 1;
const FIRST_CONNECTION: usize = 2;

/// The token numbers in use for connections.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    used: BTreeSet<usize>,
    next: usize,
}

impl Tokens {
    /// A number that no connection has.
    pub(crate) fn take(&mut self) -> usize {
        loop {
            let token = FIRST_CONNECTION + self.next % (EXTERNAL_TOKENS - FIRST_CONNECTION);
            self.next = self.next.wrapping_add(1);
            // Connections are far fewer than tokens (both doors bound theirs), so this ends.
            if self.used.insert(token) {
                return token;
            }
        }
    }

    pub(crate) fn give_back(&mut self, token: usize) {
        self.used.remove(&token);
    }
}

/// Reports what happens on `socket` under `token` from now on, once for each change.
pub(crate) fn watch(
    rails: &TcpRails,
    socket: &impl AsFd,
    token: usize,
    interest: Interest,
) -> Result<(), EngineError> {
    rails
        .registry()
        .register(&mut SourceFd(&socket.as_fd().as_raw_fd()), Token(token), interest)
        .map_err(EngineError::Watch)
}

/// Undoes [`watch`]. Closing the socket would do as well, so a failure is of no consequence.
pub(crate) fn unwatch(rails: &TcpRails, socket: &impl AsFd) {
    let _ = rails.registry().deregister(&mut SourceFd(&socket.as_fd().as_raw_fd()));
}

/// Who waits for what, by token.
pub(crate) type ByToken<T> = BTreeMap<usize, T>;
