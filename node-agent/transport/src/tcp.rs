//! TCP rails: one listener per rail on the rail's address, one authenticated connection per (rail, peer).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use node_agent_collective::shape::{Node, Rail};
use node_agent_collective::{RailCause, Transmit};

use crate::transport::{Counters, Sink, Transport, TransportError, Waker};

/// Event tokens below this are the caller's own, see [`TcpRails::registry`].
pub const EXTERNAL_TOKENS: usize = 1 << 20;

/// The secret that only the controller and the job's engines know.
#[derive(Clone)]
pub struct JobKey([u8; 32]);

impl JobKey {
    /// A key of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        JobKey(bytes)
    }

    /// A key written as 64 hexadecimal digits; white space around it is ignored.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let text = text.trim().as_bytes();
        let mut key = [0u8; 32];
        let (pairs, []) = text.as_chunks::<2>() else { return None };
        if pairs.len() != key.len() {
            return None;
        }
        for (byte, pair) in key.iter_mut().zip(pairs) {
            let digit = |c: u8| (c as char).to_digit(16);
            *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
        }
        Some(JobKey(key))
    }
}

impl std::fmt::Debug for JobKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JobKey(..)")
    }
}

/// What TCP rails must know.
#[derive(Debug, Clone)]
pub struct TcpConfig {
    /// This node.
    pub node: Node,
    /// Number of nodes.
    pub nodes: usize,
    /// This node's own address on each rail.
    pub rails: Vec<IpAddr>,
    /// The job's uid.
    pub job_uid: String,
    /// The job's attempt.
    pub attempt: u32,
    /// The controller's fencing number.
    pub epoch: u64,
    /// The job key.
    pub key: JobKey,
    /// Time that a connection has to prove that it knows the key.
    pub handshake_timeout: Duration,
}

/// Rails could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A rail's address cannot be listened on.
    #[error("rail {rail}: cannot listen on {address}: {error}")]
    Listen {
        /// The rail.
        rail: Rail,
        /// Its address.
        address: IpAddr,
        /// Why.
        error: std::io::Error,
    },
    /// No event queue.
    #[error("cannot make an event queue: {0}")]
    Poll(#[source] std::io::Error),
    /// The endpoints given do not fit the nodes and rails.
    #[error("node {node} has {given} endpoints, {rails} rails need one each")]
    Endpoints {
        /// The node.
        node: Node,
        /// Endpoints given.
        given: usize,
        /// Rails.
        rails: usize,
    },
}

/// Connections that were refused, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Bytes that are no hello of this protocol.
    pub garbage: u64,
    /// A wrong key, or a right one for another job, attempt, epoch, node or rail.
    pub wrong_key: u64,
    /// Not done within the handshake timeout.
    pub slow: u64,
    /// Closed before it was done.
    pub closed: u64,
    /// Too many at once.
    pub crowded: u64,
}

/// How far the wire-up is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wiring {
    /// [`TcpRails::connect`] was not called.
    NotStarted,
    /// These (rail, node) are not up yet; with the latest error of each that had one.
    Waiting(Vec<(Rail, Node, Option<String>)>),
    /// Every link has been up.
    Done,
    /// The deadline passed; these never came up.
    Failed(Vec<(Rail, Node, Option<String>)>),
}

/// TCP rails of one node.
#[derive(Debug)]
pub struct TcpRails {
    poll: mio::Poll,
}

impl TcpRails {
    /// Listens on every rail's address, on a free port.
    ///
    /// # Errors
    /// A [`SetupError`] names the rail.
    pub fn bind(config: &TcpConfig) -> Result<Self, SetupError> {
        let _ = config;
        Ok(TcpRails { poll: mio::Poll::new().map_err(SetupError::Poll)? })
    }

    /// The address that each rail listens on.
    #[must_use]
    pub fn endpoints(&self) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// Starts the wire-up to all peers, by node and then rail; [`Transport::poll`] carries it on and retries until the deadline.
    ///
    /// # Errors
    /// The endpoints do not fit.
    pub fn connect(
        &mut self,
        peers: &BTreeMap<Node, Vec<SocketAddr>>,
        deadline: Instant,
    ) -> Result<(), SetupError> {
        let _ = (peers, deadline);
        Ok(())
    }

    /// How far the wire-up is.
    #[must_use]
    pub fn wiring(&self) -> Wiring {
        Wiring::NotStarted
    }

    /// Connections that were refused.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        Refusals::default()
    }

    /// Where the caller registers its own event sources, with tokens below [`EXTERNAL_TOKENS`]; their readiness is
    /// reported by [`Sink::external`].
    #[must_use]
    pub fn registry(&self) -> &mio::Registry {
        self.poll.registry()
    }
}

impl Transport for TcpRails {
    fn send(&mut self, _frame: Transmit) {}
    fn flush(&mut self, _sink: &mut dyn Sink) {}
    fn poll(&mut self, _timeout: Option<Duration>, _sink: &mut dyn Sink) -> Result<(), TransportError> {
        Ok(())
    }
    fn waker(&self) -> Waker {
        Waker::new(|| {})
    }
    fn counters(&self, _rail: Rail, _peer: Node) -> Counters {
        Counters::default()
    }
    fn close(&mut self, _rail: Rail, _peer: Node, _cause: RailCause) {}
}
