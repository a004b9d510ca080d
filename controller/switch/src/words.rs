//! What settings come to, and how they are shown to people.

use std::fmt;

use proto_profile::{EcnThresholds, WatchdogAction};

use crate::state::{Limit, Marking, PortWatchdog, Scheduler};

/// All packets, in millionths.
pub const ALL: u64 = 1_000_000;
/// A fixed length that is as good as no limit, in bytes.
const UNLIMITED: u64 = 1 << 26;

impl Limit {
    /// Whether a queue of this limit takes all that a group of the other one lets in.
    #[must_use]
    pub const fn takes_more_than(self, group: Self) -> bool {
        match (self, group) {
            (Self::Alpha(own), Self::Alpha(other)) => own > other,
            (Self::Bytes(own), Self::Bytes(other)) => own > other,
            (Self::Alpha(_), Self::Bytes(_)) => true,
            (Self::Bytes(own), Self::Alpha(_)) => own >= UNLIMITED,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alpha(alpha) => write!(f, "2^{alpha} of what is free"),
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strict => f.write_str("strict"),
            Self::Share(share) => write!(f, "a share of {share}"),
        }
    }
}

impl Marking {
    /// The share of packets that a queue of so many bytes marks, in millionths.
    #[must_use]
    pub fn share(&self, queue: u64) -> u64 {
        let EcnThresholds { kmin, kmax, pmax } = self.at;
        if !self.on || !self.ecn || queue < kmin {
            return 0;
        }
        if queue >= kmax {
            return ALL;
        }
        let part =
            u128::from(pmax) * u128::from(ALL / 100) * u128::from(queue - kmin) / u128::from(kmax - kmin);
        u64::try_from(part).unwrap_or(ALL)
    }
}

impl fmt::Display for Marking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EcnThresholds { kmin, kmax, pmax } = self.at;
        let how = match (self.on, self.ecn) {
            (true, true) => "marks",
            (true, false) => "drops",
            (false, _) => "off",
        };
        write!(f, "{how} from {kmin} to {kmax} bytes, {pmax} %")
    }
}

impl fmt::Display for PortWatchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does = match self.action {
            WatchdogAction::Drop => "drops",
            WatchdogAction::Forward => "forwards",
            WatchdogAction::Alert => "alerts",
        };
        write!(f, "{does} after {} ms, restores after {} ms", self.detection_ms, self.restoration_ms)
    }
}
