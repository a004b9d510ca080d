//! Probes of rails that are out of use: what is under way, and how often each was tried. Not stored: agents tell it again.

use std::collections::BTreeMap;

use proto_model::{JobKey, NodeName, Timestamp};

/// A NIC of one rail of one server.
pub type PortName = (NodeName, u32);

/// A probe that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Which.
    pub id: u64,
    /// Of it alone.
    pub key: JobKey,
    /// The server at the other end.
    pub partner: NodeName,
    /// Then it is over.
    pub until: Timestamp,
}

/// How it stands with the probes of one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// Probes so far, with the one that is under way.
    pub attempts: u32,
    /// Not again before.
    pub next: Timestamp,
}

/// Every port that is out of use, and what is under way. Not stored: agents tell it again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proving {
    /// By port, how often it was probed.
    pub trials: BTreeMap<PortName, Trial>,
    /// By port, the probe that is under way.
    pub pairs: BTreeMap<PortName, Pair>,
}
