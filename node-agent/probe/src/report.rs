//! What a node measures. What could not be observed is `None`.

/// One node's part of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundPart {
    /// The round.
    pub round: u32,
    /// With whom.
    pub peer: u16,
    /// This node begins, and reports.
    pub first: bool,
}

/// All of one node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Each pair that it began, each rail.
    pub pairs: Vec<PairReport>,
    /// Its own ports.
    pub ports: Vec<PortReport>,
}

/// One pair on one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairReport {
    /// The round.
    pub round: u32,
    /// The other node.
    pub peer: u16,
    /// The rail.
    pub rail: u16,
    /// To the peer.
    pub there: PathMeasurement,
    /// From it.
    pub back: PathMeasurement,
    /// The shortest round trip, in microseconds.
    pub rtt_us: Option<u32>,
    /// That rail of the peer which answered where this one did not.
    pub crossed: Option<u16>,
}

/// One way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathMeasurement {
    /// Small packets sent.
    pub sent: u32,
    /// Those that did not arrive.
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

/// A port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortReport {
    /// Its rail.
    pub rail: u16,
    /// The MTU that its route has, in bytes.
    pub mtu: Option<u32>,
}
