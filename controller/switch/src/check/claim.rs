//! A packet, and what is claimed of it.

use std::fmt;

use proto_profile::words::PrioritySet;

use crate::state::{Limit, PortWatchdog, Scheduler};

/// A packet that a NIC sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Packet {
    /// Its DSCP.
    pub dscp: u8,
    /// Whether switches may mark it (ECT).
    pub ect: bool,
    /// Its length from the IP header on, in bytes.
    pub bytes: u32,
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ect = if self.ect { "ECT(0)" } else { "not ECT" };
        write!(f, "DSCP {}, {ect}, {} bytes", self.dscp, self.bytes)
    }
}

/// What lossless traffic is like, from which the need of headroom follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Traffic {
    /// The largest packet in bytes.
    pub lossless_mtu: u32,
    /// How many of 100 are of the smallest size.
    pub small_packet_percent: u8,
    /// How many ports share the headroom of one; 0 where each has its own.
    pub shared_by: u8,
}

/// What a packet is to meet on its way; a replay says whether it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// It arrives: every port on its way is up and carries it, with so many bytes around it between switches.
    Arrives {
        /// Bytes around it between switches.
        outer: u32,
    },
    /// However full ports are, it is not dropped: who sends it is paused in time, and obeys.
    NotLost(Traffic),
    /// No pause stops it.
    NeverPaused,
    /// Pauses of no other priorities are heeded.
    OnlyPauses(PrioritySet),
    /// It is in this priority of the NIC that sends it.
    SentIn(u8),
    /// Its NIC sends RDMA data with this ToS byte.
    HasTos(u8),
    /// In switches it is there.
    Classed {
        /// Its traffic class.
        tc: u8,
        /// Its priority group.
        group: u8,
        /// Its queue.
        queue: u8,
    },
    /// It shares no class of a NIC, group or queue with a packet of this DSCP.
    Apart(u8),
    /// A queue of so many bytes at the port in question marks this share of packets, in millionths.
    Marked {
        /// Length of the queue in bytes.
        queue: u64,
        /// The share, in millionths.
        share: u64,
    },
    /// Its queues are served so.
    Served {
        /// In switches.
        switch: Scheduler,
        /// In the NIC.
        nic: Scheduler,
    },
    /// A pause storm ends so.
    StormEnds {
        /// What the watchdog does and when.
        dog: PortWatchdog,
        /// How often it looks, in ms.
        poll_ms: u32,
        /// Priorities that are lossless.
        lossless: PrioritySet,
    },
    /// Its mark comes back as a CNP of this DSCP in this priority and before other packets, and its sender slows down.
    Notified {
        /// The CNP's DSCP.
        dscp: u8,
        /// The CNP's priority.
        priority: u8,
    },
    /// Its group takes so much before it pauses.
    Pauses(Limit),
    /// Switches on its way tell each other where it has to go.
    Routed,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arrives { outer: 0 } => f.write_str("it arrives"),
            Self::Arrives { outer } => write!(f, "it arrives, with {outer} bytes around it between switches"),
            Self::NotLost(_) => f.write_str("it is never dropped, however full ports are"),
            Self::NeverPaused => f.write_str("no pause stops it"),
            Self::OnlyPauses(set) => write!(f, "pauses of no priorities but {set} are heeded"),
            Self::SentIn(priority) => write!(f, "its NIC sends it in priority {priority}"),
            Self::HasTos(tos) => write!(f, "its NIC sends it with ToS {tos}"),
            Self::Classed { tc, group, queue } => {
                write!(f, "it is in traffic class {tc}, group {group}, queue {queue}")
            }
            Self::Apart(dscp) => write!(f, "it shares nothing with packets of DSCP {dscp}"),
            Self::Marked { queue, share } => {
                write!(f, "a queue of {queue} bytes marks {share} of a million packets")
            }
            Self::Served { switch: Scheduler::Strict, .. } => f.write_str("it is served before others"),
            Self::Served { switch: Scheduler::Share(share), .. } => {
                write!(f, "its queue has a share of {share}")
            }
            Self::StormEnds { dog, .. } => {
                write!(f, "a pause storm holds it for {} ms at most", dog.detection_ms)
            }
            Self::Notified { dscp, priority } => {
                write!(f, "its mark comes back as a CNP of DSCP {dscp} in priority {priority}, and is heeded")
            }
            Self::Routed => f.write_str("switches on its way tell each other where it has to go"),
            Self::Pauses(limit) => write!(f, "its group takes {limit} before it pauses"),
        }
    }
}
