//! What a node measures. What could not be observed is `None`.

/// One node's part of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundPart {
    /// Number of the round, counted from 0.
    pub round: u32,
    /// Index of the node with which this one measures.
    pub peer: u16,
    /// This node begins, and reports.
    pub first: bool,
}

/// Everything that one node measured in a series.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Each pair that it began, each rail.
    pub pairs: Vec<PairReport>,
    /// The ports of this node.
    pub ports: Vec<PortReport>,
}

/// One pair on one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairReport {
    /// Number of the round.
    pub round: u32,
    /// Index of the other node.
    pub peer: u16,
    /// Number of the rail.
    pub rail: u16,
    /// What was measured of the direction to the peer.
    pub there: PathMeasurement,
    /// What was measured of the direction from the peer.
    pub back: PathMeasurement,
    /// The shortest round trip, in microseconds.
    pub rtt_us: Option<u32>,
    /// That rail of the peer which answered where this one did not.
    pub crossed: Option<u16>,
}

/// What was measured of one direction of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathMeasurement {
    /// Number of small packets that were sent.
    pub sent: u32,
    /// Number of those packets that did not arrive.
    pub lost: u32,
    /// The largest IP packet that arrived, in bytes.
    pub mtu: Option<u32>,
    /// The DSCP of what arrived.
    pub dscp: Option<u8>,
    /// Mbit/s, [`crate::CEILING_MBPS`] at most.
    pub mbps: Option<u32>,
    /// It may be more: a busy host, and not the rail, held the measurement up.
    pub at_least: bool,
}

/// What is known of one port of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortReport {
    /// Number of the rail that the port is on.
    pub rail: u16,
    /// The MTU that its route has, in bytes.
    pub mtu: Option<u32>,
}
