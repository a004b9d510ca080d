//! What the plugin says of its one device, in the words of no version of NCCL's interface.

use node_agent_client::RailSpeed;

use crate::core::{MAX_CONNECTIONS, MAX_RECEIVES};

/// Speed of a rail whose port does not say its own, in Mbit/s: what NCCL itself takes for a device without one.
const UNKNOWN_SPEED: u32 = 10_000;

/// What NCCL is told of the device of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// Tells servers apart: all NICs of a server are behind one device.
    pub guid: u64,
    /// Speed of all rails together, in Mbit/s.
    pub speed: i32,
    /// Most connections.
    pub max_connections: i32,
    /// Most messages of one receive.
    pub max_receives: i32,
    /// Most bytes of one message.
    pub max_bytes: u64,
}

impl Properties {
    /// Of a job's device on a server with these rails.
    pub(crate) fn new(job: u64, node: u32, rails: &[RailSpeed], max_bytes: u64) -> Self {
        let speed = |rail: &RailSpeed| if rail.mbit == 0 { UNKNOWN_SPEED } else { rail.mbit };
        let speed = rails.iter().map(speed).fold(0_u32, u32::saturating_add).max(UNKNOWN_SPEED);
        Self {
            guid: job ^ u64::from(node).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            speed: i32::try_from(speed).unwrap_or(i32::MAX),
            max_connections: i32::try_from(MAX_CONNECTIONS).unwrap_or(i32::MAX),
            max_receives: i32::try_from(MAX_RECEIVES).unwrap_or(1),
            max_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_as_fast_as_its_rails_together() {
        let rails = [RailSpeed { rail: 0, mbit: 400_000 }, RailSpeed { rail: 1, mbit: 0 }];
        assert_eq!(Properties::new(1, 0, &rails, 1).speed, 410_000);
        assert_eq!(Properties::new(1, 0, &[], 1).speed, 10_000);
        assert_ne!(Properties::new(1, 0, &[], 1).guid, Properties::new(1, 1, &[], 1).guid);
    }
}
