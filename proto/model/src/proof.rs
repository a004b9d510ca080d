//! Probes of rails that are out of use until something proves them well: what both ends are to do, and the result.

use std::{net::SocketAddr, time::Duration};

use crate::{JobKey, NodeName, Timestamp};

/// Probes that one server is asked for at once, at most: one for each rail that a fabric may have.
pub const MAX_PROOFS: usize = 64;
/// Bytes of the line that says what a probe found, at most.
pub const MAX_PROBE_TEXT: usize = 256;

/// One end's part of a probe between the NICs of two servers on one rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailProof {
    /// Which probe: random, so that one that is asked for twice is made once.
    pub id: u64,
    /// The rail whose path is probed, by number.
    pub rail: u32,
    /// Device name of this server's NIC on the rail.
    pub device: String,
    /// The server at the other end of the probe.
    pub peer: NodeName,
    /// This NIC's address, and the UDP port to probe from.
    pub own: SocketAddr,
    /// The other NIC's address, and the UDP port that it probes from.
    pub there: SocketAddr,
    /// This NIC is the one to be proved: its server begins, judges, and reports the result.
    pub first: bool,
    /// Both ends prove to each other that they know it. Of this probe alone.
    pub key: JobKey,
    /// It is over after this, whatever its result.
    pub limit: Duration,
}

/// The last probe of a rail, as the server reports that began it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicProbe {
    /// The probe that this is the result of: [`RailProof::id`].
    pub id: u64,
    /// The server at the other end.
    pub peer: NodeName,
    /// The result of the probe.
    pub outcome: ProbeOutcome,
    /// What was seen, in one line.
    pub message: String,
    /// When the probe ended.
    pub time: Timestamp,
}

word! {
    /// The result of a probe.
    ProbeOutcome {
        /// The whole path is as it should be, both ways.
        Passed = "passed",
        /// The path is not as it should be, one way or both; the message says what was seen.
        Failed = "failed",
        /// It could not be made: nothing is known.
        Unable = "unable",
    }
}
