//! Certification of a gang: what each node is asked to measure before ranks start, and what it measured. A value that could not be
//! observed is `None`, which is neither zero nor good.

use std::{net::Ipv6Addr, time::Duration};

/// The rounds of each series are numbered from a multiple of this on, so that no packet of one series is taken for one of another.
pub const SERIES_ROUNDS: u32 = 1 << 16;

/// What one node is to measure. Its ranks do not start before it is gone from the desired state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Certify {
    /// 0, or 1 if all is measured a second time.
    pub series: u32,
    /// This node's parts, in the order of rounds.
    pub turns: Vec<RoundPart>,
    /// All of it ends after this.
    pub limit: Duration,
}

/// One node's part of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundPart {
    /// The round, from [`SERIES_ROUNDS`] times the series on.
    pub round: u32,
    /// With whom, by position in the gang.
    pub peer: u32,
    /// This node begins, and reports.
    pub first: bool,
}

/// What one node measured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Measured {
    /// The last series that is over.
    pub series: u32,
    /// Each pair that it began, each rail, in the order of rounds, of all series.
    pub pairs: Vec<PairReport>,
    /// What it sees of its own ports.
    pub ports: Vec<PortReport>,
    /// Why nothing was measured in the last series; empty if something was.
    pub unable: String,
}

/// One pair on one rail in one round, as the node that began it measured both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairReport {
    /// The round, as [`RoundPart::round`].
    pub round: u32,
    /// The other node's position in the gang.
    pub peer: u32,
    /// The rail of the path, by number.
    pub rail: u32,
    /// The way from this node to the peer.
    pub there: PathMeasurement,
    /// The way from the peer to this node.
    pub back: PathMeasurement,
    /// The shortest round trip, in microseconds.
    pub rtt_us: Option<u32>,
    /// Where the peer did not answer on this rail: that one of its rails which did.
    pub crossed: Option<u32>,
}

impl Measured {
    /// Adds the next series; what was measured before stays.
    pub fn add(&mut self, next: Self) {
        self.series = next.series;
        self.pairs.extend(next.pairs);
        if !next.ports.is_empty() {
            self.ports = next.ports;
        }
        self.unable = next.unable;
    }
}

impl PairReport {
    /// Something came back on the rail.
    #[must_use]
    pub fn answered(&self) -> bool {
        self.back.sent > self.back.lost
    }
}

/// One way of a pair on a rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathMeasurement {
    /// Packets that were sent.
    pub sent: u32,
    /// Those of them that did not arrive.
    pub lost: u32,
    /// The largest IP packet that arrived and must not be fragmented, in bytes.
    pub mtu: Option<u32>,
    /// The DSCP of the packets that arrived; `None`: it was not seen.
    pub dscp: Option<u8>,
    /// Payload that arrived, in Mbit/s; `None`: bandwidth was not measured.
    pub mbps: Option<u32>,
    /// It may be more: a busy server, and not the rail, held the measurement up.
    pub at_least: bool,
}

/// A port of the reporting node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortReport {
    /// The rail that it serves.
    pub rail: u32,
    /// The interface's MTU in bytes; `None`: it is not known.
    pub mtu: Option<u32>,
    /// The DSCP with which the node sends there, as its NICs' class of service has it. `None`: it does not say.
    pub dscp: Option<u8>,
    /// The GID for RoCE v2 that the node uses there. `None`: it has no RDMA, or was not asked.
    pub gid: Option<PortGid>,
    /// What its counters of each priority moved by during the measurement.
    pub priority_bytes: Option<PriorityBytes>,
}

/// The GID of a port for RoCE v2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortGid {
    /// The port has no GID for RoCE v2.
    Missing,
    /// That of the address that the node has there; if there is none of that, another of the same network device.
    Found {
        /// Its place in the table now.
        index: u32,
        /// The GID; an IPv4 address is mapped.
        gid: Ipv6Addr,
    },
}

/// Bytes by the counters of each priority, sent and received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityBytes {
    /// In the job's own priority.
    pub right: u64,
    /// In all other priorities together.
    pub wrong: u64,
}
