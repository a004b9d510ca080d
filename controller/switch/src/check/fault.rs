//! What is wrong: which setting of a port, what it is and what it should be, and packets that show it.

use std::fmt;

use super::claim::{Claim, Packet};

/// A setting that a packet meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// The port, switch or NIC was not read.
    Missing,
    /// Whether it is switched on.
    Up,
    /// Its speed.
    Speed,
    /// Its MTU.
    Mtu,
    /// What a packet's class is read from.
    Trust,
    /// Traffic class (NIC: priority) of a DSCP.
    Dscp(u8),
    /// Priority group of a traffic class.
    Group(u8),
    /// Queue of a traffic class (NIC: traffic class of a priority).
    Queue(u8),
    /// Group that makes a priority's pauses, and queue that they stop.
    PauseMap(u8),
    /// Priorities with flow control.
    Pfc,
    /// Headroom of a group.
    Headroom(u8),
    /// The pool of headroom that ports share.
    HeadroomPool,
    /// How much a group may take before it pauses.
    Limit(u8),
    /// Buffer of a queue.
    QueueBuffer(u8),
    /// How a queue (NIC: traffic class) is served.
    Scheduler(u8),
    /// When a queue's packets are marked.
    Marking(u8),
    /// The watchdog over PFC.
    Watchdog,
    /// Whether routes are exchanged with the switch at the other end.
    Neighbor,
    /// ToS byte of RDMA data.
    Tos,
    /// DSCP and priority of CNPs.
    Cnp,
    /// Who answers marks and heeds the answers.
    Congestion,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("what was read"),
            Self::Up => f.write_str("admin status"),
            Self::Speed => f.write_str("speed"),
            Self::Mtu => f.write_str("MTU"),
            Self::Trust => f.write_str("trust"),
            Self::Dscp(dscp) => write!(f, "class of DSCP {dscp}"),
            Self::Group(tc) => write!(f, "priority group of traffic class {tc}"),
            Self::Queue(tc) => write!(f, "queue of traffic class {tc}"),
            Self::PauseMap(priority) => write!(f, "group and queue of pauses of priority {priority}"),
            Self::Pfc => f.write_str("priorities with flow control"),
            Self::Headroom(group) => write!(f, "headroom of group {group}"),
            Self::HeadroomPool => f.write_str("headroom that ports share"),
            Self::Limit(group) => write!(f, "limit of group {group}"),
            Self::QueueBuffer(queue) => write!(f, "buffer of queue {queue}"),
            Self::Scheduler(queue) => write!(f, "scheduler of queue {queue}"),
            Self::Marking(queue) => write!(f, "ECN of queue {queue}"),
            Self::Watchdog => f.write_str("PFC watchdog"),
            Self::Neighbor => f.write_str("BGP neighbour"),
            Self::Tos => f.write_str("ToS of RDMA data"),
            Self::Cnp => f.write_str("DSCP and priority of CNPs"),
            Self::Congestion => f.write_str("congestion control (DCQCN)"),
        }
    }
}

/// A packet, and what is claimed of it.
pub type Trial = (Packet, Claim);

/// One setting that is not as it should be, and packets that may show it, the worst first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The setting.
    pub setting: Setting,
    /// What it is.
    pub found: String,
    /// What it should be.
    pub wanted: String,
    /// Packets of which something is claimed that does not hold.
    pub trials: Vec<Trial>,
}

impl Fault {
    /// One of these values.
    pub(super) fn new(
        setting: Setting,
        found: impl fmt::Display,
        wanted: impl fmt::Display,
        trials: Vec<Trial>,
    ) -> Self {
        Self { setting, found: found.to_string(), wanted: wanted.to_string(), trials }
    }
}

/// A value that may not be there, for people.
pub(super) fn shown<T: fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, should be {}", self.setting, self.found, self.wanted)
    }
}
