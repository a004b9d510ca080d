//! How long and how much.

use std::time::Duration;

/// What is faster than this is not told apart: the probe itself, its sockets and a busy server make no more than this for sure.
pub const CEILING_MBPS: u32 = 2_000;

/// Limits of one node's probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A turn ends after this, whatever the partner does.
    pub turn: Duration,
    /// A rail that has not answered after this does not.
    pub answer: Duration,
    /// A burst is waited for so long.
    pub burst: Duration,
    /// Small probes of one rail.
    pub probes: u32,
    /// Bytes of one burst. More than what shapers let pass at once, less than what sockets hold.
    pub burst_bytes: usize,
    /// Bursts each way; the best counts.
    pub bursts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turn: Duration::from_secs(1),
            answer: Duration::from_millis(60),
            burst: Duration::from_millis(120),
            probes: 128,
            burst_bytes: 288 << 10,
            bursts: 2,
        }
    }
}
