//! From where on something is wrong.

/// Thresholds, and what the job asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// A way is slow below this share of the rail's level over the gang, which is the upper quartile, and a rail below this share of the
    /// best rail's.
    /// Where measurements scatter, the bound is lower: [`Limits::deviations`].
    pub slow_share: f64,
    /// So many standard deviations below that are noise.
    pub deviations: f64,
    /// A pair loses packets from this share of those sent on,
    pub loss_share: f64,
    /// and from so many of them on.
    pub loss_packets: u32,
    /// The DSCP that probes of nodes carry which do not say what they send; `None`: no DSCP is judged.
    pub dscp: Option<u8>,
    /// The data class is wrong where its counters moved by less than this share of what the probes had in it at least. The rest went elsewhere,
    /// or was counted at another time.
    pub priority_share: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            slow_share: 0.85,
            deviations: 3.0,
            loss_share: 0.004,
            loss_packets: 2,
            dscp: Some(26),
            priority_share: 0.5,
        }
    }
}
