//! What a rank knows of its listeners and connections.

use std::collections::{BTreeMap, VecDeque};

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
    /// By tag: messages that the receiver has room for and that were not sent.
    pub(super) credits: BTreeMap<i32, usize>,
    /// Requests that wait for credit or for a slot, each with its tag.
    pub(super) queued: VecDeque<(i32, RequestId)>,
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
            credits: BTreeMap::new(),
            queued: VecDeque::new(),
            outstanding: 0,
            listed: false,
        }
    }

    /// Where in the queue the next request is that can go out as far as the receiver is concerned.
    pub(super) fn next(&self) -> Option<usize> {
        if self.phase != Phase::Open || self.failed.is_some() || self.credits.is_empty() {
            return None;
        }
        self.queued.iter().position(|(tag, _)| self.credits.contains_key(tag))
    }

    /// Takes the next request, and its credit.
    pub(super) fn take(&mut self) -> Option<RequestId> {
        let (tag, request) = self.queued.remove(self.next()?)?;
        if let Some(left) = self.credits.get_mut(&tag) {
            *left -= 1;
            if *left == 0 {
                self.credits.remove(&tag);
            }
        }
        Some(request)
    }

    /// Whether the receiver has room for one more message with this tag than wait here.
    pub(super) fn is_wanted(&self, tag: i32) -> bool {
        let credit = self.credits.get(&tag).copied().unwrap_or(0);
        credit > 0 && credit > self.queued.iter().filter(|(queued, _)| *queued == tag).count()
    }

    /// Messages that the receiver has room for and that were not sent.
    pub(super) fn credit(&self) -> usize {
        self.credits.values().sum()
    }
}

#[derive(Debug)]
pub(super) struct Receiver {
    /// The sender's rank, and the connection's number there.
    pub(super) peer: u32,
    pub(super) remote: u32,
    pub(super) failed: Option<ConnectionError>,
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
            open: VecDeque::new(),
            outstanding: 0,
            closed: false,
            ended: false,
        }
    }
}
