//! Probes of rails that are out of use until something proves them well: what both ends are told, and what came of it.

use std::{net::SocketAddr, time::Duration};

use crate::{JobKey, NodeName, Timestamp};

/// Probes that one server is told of at once, at most: one for each rail that a fabric may have.
pub const MAX_PROOFS: usize = 64;
/// Bytes of the line that says what a probe found, at most.
pub const MAX_PROBE_TEXT: usize = 256;

/// One end's part of a probe between the NICs of two servers on one rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailProof {
    /// Which probe: random, so that one that is told twice is made once.
    pub id: u64,
    /// The rail.
    pub rail: u32,
    /// This server's NIC.
    pub device: String,
    /// The other server.
    pub peer: NodeName,
    /// This NIC's address, and the UDP port to probe from.
    pub own: SocketAddr,
    /// The other NIC's.
    pub there: SocketAddr,
    /// This NIC is the one to be proved: its server begins, judges, and tells the result.
    pub first: bool,
    /// Both ends prove to each other that they know it. Of this probe alone.
    pub key: JobKey,
    /// It is over after this, whatever became of it.
    pub limit: Duration,
}

/// The last probe of a rail, as the server tells that began it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicProbe {
    /// Which: [`RailProof::id`].
    pub id: u64,
    /// With whom.
    pub peer: NodeName,
    /// What came of it.
    pub outcome: ProbeOutcome,
    /// What was seen, in one line.
    pub message: String,
    /// When it ended.
    pub time: Timestamp,
}

word! {
    /// What came of a probe.
    ProbeOutcome {
        /// The whole path is as it should be, both ways.
        Passed = "passed",
        /// It is not.
        Failed = "failed",
        /// It could not be made: nothing is known.
        Unable = "unable",
    }
}
