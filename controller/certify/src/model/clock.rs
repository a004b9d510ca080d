//! How long things take in the model.

/// Times in microseconds. The defaults are those of the probe's own limits, and else cautious for a fabric of 400 Gbit/s rails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    /// A round trip between two probes.
    pub round_trip: u64,
    /// Time between two small probes.
    pub pace: u64,
    /// Number of small probes each way.
    pub probes: u64,
    /// Bytes each way for the bandwidth.
    pub burst_bytes: u64,
    /// A probe sends no faster than this, in Mbit/s: it goes through the kernel.
    pub probe_mbps: u64,
    /// Before its first round a node waits so long for rails that answer nothing.
    pub warm_limit: u64,
    /// No answer within this is none.
    pub answer_limit: u64,
    /// A node goes on to its next round after this, whatever its partner does.
    pub round_limit: u64,
    /// From the desired state to the probe, and from the probe to the controller.
    pub message: u64,
    /// The controller takes in one node's report, one after the other.
    pub take_in: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            round_trip: 60,
            pace: 50,
            probes: 128,
            burst_bytes: 5 << 18,
            probe_mbps: 2_000,
            warm_limit: 1_200_000,
            answer_limit: 200_000,
            round_limit: 1_000_000,
            message: 5_000,
            take_in: 2_000,
        }
    }
}
