//! What a rank knows of its listeners and connections.

use std::collections::VecDeque;

use super::ConnectionError;
use super::ids::RequestId;

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) cookie: u64,
    /// Ranks that want to connect, and the numbers of the connections there.
    pub(super) waiting: VecDeque<(u32, u32)>,
}

/// How far a sender is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// The receiver has not answered.
    Connecting,
    Open,
    /// The receiver has closed, and knows that this end knows.
    Ended,
}

#[derive(Debug)]
pub(super) struct Sender {
    /// The receiver's rank, and the connection's number there.
    pub(super) peer: u32,
    pub(super) remote: u32,
    pub(super) phase: Phase,
    pub(super) failed: Option<ConnectionError>,
    /// Messages that the receiver has or had room for, and those that were sent.
    pub(super) credit: u64,
    pub(super) made: u64,
    /// Requests that wait for credit or for a slot.
    pub(super) queued: VecDeque<RequestId>,
    /// Requests that were not found complete yet.
    pub(super) outstanding: usize,
    /// It is in the queue of those that can send.
    pub(super) listed: bool,
}

impl Sender {
    pub(super) fn to(peer: u32) -> Self {
        Self {
            peer,
            remote: 0,
            phase: Phase::Connecting,
            failed: None,
            credit: 0,
            made: 0,
            queued: VecDeque::new(),
            outstanding: 0,
            listed: false,
        }
    }

    /// Whether its next request can go out as far as the receiver is concerned.
    pub(super) fn is_ready(&self) -> bool {
        self.phase == Phase::Open
            && self.failed.is_none()
            && self.made < self.credit
            && !self.queued.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct Receiver {
    /// The sender's rank, and the connection's number there.
    pub(super) peer: u32,
    pub(super) remote: u32,
    pub(super) failed: Option<ConnectionError>,
    /// Messages that there was or is room for.
    pub(super) credit: u64,
    /// Requests for which not all messages have been announced, the oldest first.
    pub(super) open: VecDeque<RequestId>,
    /// Requests that were not found complete yet.
    pub(super) outstanding: usize,
    /// This rank has closed it, and the sender does not know that yet.
    pub(super) closed: bool,
    /// The sender will send nothing more.
    pub(super) ended: bool,
}

impl Receiver {
    pub(super) fn from(peer: u32, remote: u32) -> Self {
        Self {
            peer,
            remote,
            failed: None,
            credit: 0,
            open: VecDeque::new(),
            outstanding: 0,
            closed: false,
            ended: false,
        }
    }
}
