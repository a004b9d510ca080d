//! What a NIC and the port of its leaf say together.

/// What both ends of a cable counted in the same interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Both {
    /// Share of the time for which the NIC paused the port, in thousandths.
    pub port_paused: u64,
    /// The NIC stalled on its way to the memory of its server (PCIe credits, or no receive buffer); `None` where it does not count that.
    pub host_stalls: Option<u64>,
    /// Packets that the leaf has marked on their way to the NIC.
    pub marked: u64,
    /// Congestion notifications that the NIC has sent for them (`np_cnp_sent`).
    pub notified: Option<u64>,
    /// Congestion notifications that arrived at those who send to it (`rp_cnp_handled`), all together.
    pub handled: Option<u64>,
}

/// What that means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Join {
    /// The NIC pauses its port because its server's memory does not take what arrives.
    HostMemory,
    /// The NIC pauses its port, and does not say why.
    SlowReceiver,
    /// Packets are marked, and the NIC tells nobody: notifications are off, or for another class.
    MarksUnanswered,
    /// The NIC tells, and nobody hears: the way back loses notifications.
    NotificationsLost,
}

/// A NIC that pauses for less of the time is busy, in thousandths.
const PAUSES: u64 = 50;
/// Fewer marked packets may have been of one flow that is within its interval of notifications.
const MARKS: u64 = 1_000;

/// What both ends say, each finding once; a value that was not read says nothing.
#[must_use]
pub fn join(both: &Both) -> Vec<Join> {
    let mut found = Vec::new();
    if both.port_paused >= PAUSES {
        let stalls = both.host_stalls.is_some_and(|stalls| stalls > 0);
        found.push(if stalls { Join::HostMemory } else { Join::SlowReceiver });
    }
    if both.marked >= MARKS {
        match (both.notified, both.handled) {
            (Some(0), _) => found.push(Join::MarksUnanswered),
            (Some(_), Some(0)) => found.push(Join::NotificationsLost),
            _ => {}
        }
    }
    found
}
