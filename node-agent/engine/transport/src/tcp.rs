//! TCP rails: one listener per rail on the rail's address, one authenticated connection per (rail, peer). The node with
//! the higher index dials, from its own address on the rail, and dials again, less and less often, as long as it is wanted.

mod carriage;
mod carry;
mod conn;
mod connection;
// Public for the fuzz target only.
#[doc(hidden)]
pub mod handshake;
mod marks;
mod meeting;
// Public for the fuzz target only.
#[doc(hidden)]
pub mod port;
mod ports;
mod quiet;
mod rails;
mod sealed;
mod socket;
mod spin;
mod stream;
#[cfg(test)]
mod tests;
mod tokens;
mod wire_up;

use std::net::IpAddr;
use std::time::Duration;

use data_encoding::HEXLOWER_PERMISSIVE;
use node_agent_collective::units::{Node, Rail};
pub use rails::TcpRails;
pub use sealed::Protection;

/// Time after which a peer that answers nothing is given up. An end that the peer's kernel reports is seen at once.
const DEAD_AFTER: Duration = Duration::from_secs(10);

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
        let (text, mut key) = (text.trim(), [0; 32]);
        let whole = text.len() == 64 && HEXLOWER_PERMISSIVE.decode_mut(text.as_bytes(), &mut key).is_ok();
        whole.then_some(JobKey(key))
    }
}

impl JobKey {
    /// A key for another use of the job's engines, which reveals nothing of this one: HMAC-SHA256 of the use.
    #[must_use]
    pub fn derive(&self, usage: &[u8]) -> [u8; 32] {
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &self.0);
        let mut out = [0; 32];
        out.copy_from_slice(aws_lc_rs::hmac::sign(&key, usage).as_ref());
        out
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
    /// This node's number in the job, counted from 0.
    pub node: Node,
    /// Number of nodes of the job.
    pub nodes: usize,
    /// This node's own address on each rail.
    pub rails: Vec<IpAddr>,
    /// The network device that a rail's connections keep to, in the order of `rails`; where there is none, they go as the kernel
    /// routes them.
    pub devices: Vec<Option<String>>,
    /// The job's uid, which both ends of a connection must name.
    pub job_uid: String,
    /// Number of the job's attempt, which both ends of a connection must name.
    pub attempt: u32,
    /// The epoch of the controller's leadership term, which both ends of a connection must name.
    pub epoch: u64,
    /// The job key, which authenticates connections.
    pub key: JobKey,
    /// Time that a connection has to prove that it knows the key.
    pub handshake_timeout: Duration,
    /// What is done to what goes over the rails. All nodes must have the same.
    pub protection: Protection,
}

impl TcpConfig {
    /// The device that a rail, by its place in `rails`, keeps to.
    pub(crate) fn device(&self, rail: usize) -> Option<&str> {
        self.devices.get(rail)?.as_deref()
    }
}

/// Rails could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A rail's address cannot be listened on.
    #[error("rail {rail}: cannot listen on {address}: {error}")]
    Listen {
        /// Number of the rail.
        rail: Rail,
        /// This node's address on the rail.
        address: IpAddr,
        /// What the operating system answered.
        error: std::io::Error,
    },
    /// The kernel gives no queue of events (epoll).
    #[error("cannot make an event queue: {0}")]
    Poll(#[source] std::io::Error),
    /// Frames that a device carries are neither encrypted nor verified.
    #[error("links are to be protected, and {carrier} carries frames without that; they can go over TCP")]
    Unprotected {
        /// Name of what would carry the frames.
        carrier: &'static str,
    },
    /// No random numbers for the handshake.
    #[error("the system gives no random numbers")]
    Random,
    /// The endpoints given do not fit the nodes and rails.
    #[error("node {node} has {given} endpoints, {rails} rails need one each")]
    Endpoints {
        /// The node whose endpoints they are.
        node: Node,
        /// Number of endpoints given.
        given: usize,
        /// Number of rails of this node.
        rails: usize,
    },
}

/// Connections that were refused, by cause. Those from this node's own dialing count too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Bytes that are no hello of this protocol.
    pub garbage: u64,
    /// Messages whose authentication code was not made with the job key.
    pub wrong_key: u64,
    /// A hello of another job, attempt, epoch, node or rail.
    pub stranger: u64,
    /// Not done within the handshake timeout.
    pub slow: u64,
    /// Closed before it was done.
    pub closed: u64,
    /// Too many at once.
    pub crowded: u64,
    /// Of a generation that is no newer than the link's.
    pub stale: u64,
}

/// A link that is not up yet: its rail, its peer, and why the latest attempt failed, if there was one from here.
pub type Missing = (Rail, Node, Option<String>);

/// How far the wire-up is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wiring {
    /// [`TcpRails::connect`] was not called.
    NotStarted,
    /// These are not up yet.
    Waiting(Vec<Missing>),
    /// Every link has been up.
    Done,
    /// The deadline passed; these never came up.
    Failed(Vec<Missing>),
}
