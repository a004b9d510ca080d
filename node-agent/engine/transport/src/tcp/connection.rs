//! A connection from its first to its last byte, and what changes of links are told.

use std::time::{Duration, Instant};

use mio::net::TcpStream;
use node_agent_collective::RailCause;
use node_agent_collective::units::{Node, Rail};

use super::carriage::Joining;
use super::conn::{Receiver, Sender};
use super::handshake::Handshake;
use super::sealed::Sealed;
use crate::carrier::ChannelId;

/// A connection, from its first to its last byte.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) stream: TcpStream,
    pub(super) rail: Rail,
    pub(super) state: State,
    /// The peer has closed its side; what it has sent before may be still to be read.
    pub(super) closing: bool,
    /// What carries its frames in its place.
    pub(super) channel: Option<ChannelId>,
}

#[derive(Debug)]
pub(super) enum State {
    /// The connection is not authenticated yet: its handshake is under way.
    Meeting {
        handshake: Handshake,
        inbox: Vec<u8>,
        outbox: Vec<u8>,
        until: Instant,
        /// Who was dialed, if this side dialed, and how long it may take to authenticate once connected.
        dialed: Option<(Node, Duration)>,
        connected: bool,
        /// Authenticated: a channel is being joined.
        joining: Option<Joining>,
    },
    /// The connection is the link to `peer`, and carries frames.
    Open { peer: Node, generation: u32, receiver: Receiver, sender: Sender, sealed: Option<Box<Sealed>> },
}

/// A change of a link, to be reported.
#[derive(Debug)]
pub(super) enum Change {
    Up(Rail, Node, u32),
    Down(Rail, Node, u32, RailCause),
    PortUp(Rail),
    PortDown(Rail),
}
