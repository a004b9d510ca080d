//! What servers and jobs use now: reported by agents, passed on to whoever asks, stored nowhere.

use std::collections::BTreeMap;

use crate::{JobUid, Timestamp};

/// What one attempt of a job uses on one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttemptUsage {
    /// Thousandths of one CPU that were busy since the look before.
    pub cpu_millis: u64,
    /// Resident memory in bytes.
    pub memory: u64,
    /// Processes of the attempt on this server.
    pub processes: u32,
}

/// What a server uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerUsage {
    /// When the agent reported it.
    pub time: Timestamp,
    /// Thousandths of one CPU that were busy since the look before.
    pub cpu_millis: u64,
    /// Logical processors of the server.
    pub cpus: u32,
    /// Bytes of main memory that are not available to new programs.
    pub memory_used: u64,
    /// Bytes of main memory that the server has.
    pub memory: u64,
    /// What each attempt uses, by job and number of the attempt.
    pub attempts: BTreeMap<(JobUid, u32), AttemptUsage>,
    /// Congestion notifications of its NICs, by the index of their rail.
    pub notifications: BTreeMap<u32, NicNotifications>,
}

/// Congestion notification packets (CNPs) of one NIC; `None` where it does not count them, or was not watched for so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NicNotifications {
    /// Sent for packets that came with ECN's mark, between 240 and 40 s before the report.
    pub sent: Option<u64>,
    /// Received, within 240 s before the report.
    pub received: Option<u64>,
}
