//! Calls of controllers to etcd: late, lost, answered or not.

mod events;

use std::sync::Arc;

use crate::etcd::{Body, Rows};

/// A controller waits so many milliseconds for an answer of etcd.
pub const TIMEOUT_MS: u64 = 2000;

/// What a controller asks of etcd.
#[derive(Debug, Clone)]
pub enum Call {
    /// Runs a transaction that is fenced by the leader key.
    Commit(Arc<Body>),
    /// Whether this epoch still leads.
    Confirm(u64),
    /// Reads the leader key.
    Read,
    /// The leader key away, if it was created then.
    Remove(u64),
    /// The leader key, if it is absent.
    Claim,
    /// Lists all rows as of one revision.
    List,
    /// The history up to this revision away, and the alarm taken back.
    Compact(u64),
}

/// A call under way.
#[derive(Debug)]
pub struct Sent {
    /// The life of a controller that sent it.
    pub from: usize,
    number: u64,
    at: u64,
    call: Call,
}

/// The answer of etcd to a [`Call`].
#[derive(Debug)]
pub enum Outcome {
    /// Done, at this revision.
    Done(u64),
    /// It was refused, because another controller leads.
    Fenced,
    /// There is no room; nothing was done.
    NoSpace,
    /// Nobody leads the members; nothing was done.
    Unavailable,
    /// No answer: it was done, or was not, or will be.
    Unknown,
    /// The leader key: creation revision, holder, and whether its lease lives.
    Key(Option<(u64, usize, bool)>),
    /// Whether the leader key was removed.
    Removed(bool),
    /// The revision of the claim, if it was free.
    Claimed(Option<u64>),
    /// Everything at a revision.
    Rows(u64, Rows),
}

/// How a controller is cut off from etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cut {
    /// Nothing arrives; some of it does when the cut is over.
    #[default]
    Requests,
    /// All arrives, no answer comes back.
    Replies,
}
