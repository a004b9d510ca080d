//! NICs that are out of use until a probe of their path passes: the sick server, its partner, and the way between them.

mod events;

use proto_model::{NicCondition, NicConditionCode, NicHealth, NicProbe, NodeName, Severity, Timestamp};

/// What is wrong with one NIC; nothing but a probe that passes ends it.
#[derive(Debug, Clone)]
pub struct Illness {
    /// Until then the way does not carry anything.
    pub broken_until: u64,
    /// When it began, in simulated milliseconds.
    since: u64,
    /// The last probe of the NIC's path; `None` before the first one.
    probe: Option<NicProbe>,
}

impl Illness {
    /// As its agent reports it. It was quiet long enough.
    #[must_use]
    pub fn reported(&self, device: String) -> NicHealth {
        let condition = NicCondition {
            code: NicConditionCode::Lossy,
            severity: Severity::Drain,
            message: "timeout: 150/s over 12 s".to_owned(),
            since: Timestamp(self.since),
            probe: true,
        };
        NicHealth { device, score: 0, conditions: vec![condition], probe: self.probe.clone() }
    }
}

/// A probe that a server begins.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The number of the probe.
    pub id: u64,
    /// The number of the rail that is probed.
    pub rail: u32,
    /// The node at the other end.
    pub peer: NodeName,
}
