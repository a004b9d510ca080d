//! Notifications, and what a node remembers of those to and from a peer.

use std::collections::BTreeMap;

use crate::units::Rank;

/// A few words from one rank to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// The rank that made it.
    pub from: Rank,
    /// The rank that gets it.
    pub to: Rank,
    /// What it says: the ranks' own affair.
    pub words: [u64; 3],
}

/// Notifications to one peer, and from it.
#[derive(Debug, Clone, Default)]
pub struct Notifications {
    /// How many were made for the peer.
    pub made: u64,
    /// How many of those it has not acknowledged.
    pub unacknowledged: usize,
    /// How many of the peer's were handed out.
    pub taken: u64,
    /// Those that came before earlier ones, by number.
    pub held: BTreeMap<u64, Notification>,
}
