//! What a server has: its GPUs and NICs, how its NICs do, and whom they see.

use std::net::IpAddr;

use crate::{GpuFacts, Isolation, NicConditionCode, NicFacts, NicProbe, QosPort, Reason, Timestamp};

/// GPUs, NICs and the rest of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    /// The GPUs, in the order of their index.
    pub gpus: Vec<Gpu>,
    /// The NICs, by rail and then by device.
    pub nics: Vec<Nic>,
    /// Number of NUMA nodes.
    pub numa_nodes: u32,
    /// Logical processors of the server.
    pub cpus: u32,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// What it hears over LLDP, by network device.
    pub neighbors: Vec<Neighbor>,
    /// What is wrong with its NICs, by device; one that is not named is well, or not watched.
    pub health: Vec<NicHealth>,
    /// What its agent found odd; the scope is the device or file.
    pub findings: Vec<Reason>,
    /// The last changes of the hardware, oldest first; the scope is `nic/DEVICE`, `gpu/INDEX`, `netdev/NAME` or `machine`.
    pub changes: Vec<Reason>,
    /// How its NICs stand to the profile that is rolled out, by device; empty where none was desired for.
    pub qos: Vec<QosPort>,
    /// How far it keeps jobs apart.
    pub isolation: Isolation,
}

impl Inventory {
    /// Whether the agent's health rules let new jobs use this NIC.
    #[must_use]
    pub fn is_fit(&self, device: &str) -> bool {
        self.health.iter().all(|nic| nic.device != device || nic.is_fit())
    }
}

/// A GPU of a server, whole or a partition of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// 0, 1, 2, ... on this server.
    pub index: u32,
    /// The vendor's identity; may be empty.
    pub uuid: String,
    /// For example `NVIDIA H100 80GB HBM3`.
    pub model: String,
    /// For example `0000:1b:00.0`; may be empty.
    pub pci_address: String,
    /// NUMA node; `None`: not known.
    pub numa_node: Option<u32>,
    /// Its memory in bytes; 0 if not known.
    pub memory_bytes: u64,
    /// What it is and what is near it, where its agent tells; boxed, for a controller holds many servers.
    pub facts: Option<Box<GpuFacts>>,
}

/// A NIC of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// RDMA device, or the netdev where there is none. Unique on its server.
    pub device: String,
    /// Name of its network device in the kernel.
    pub netdev: String,
    /// For example `0000:18:00.0`; may be empty.
    pub pci_address: String,
    /// NUMA node; `None`: not known.
    pub numa_node: Option<u32>,
    /// Index of the rail that it serves.
    pub rail: u32,
    /// Its address on the rail, where it has one.
    pub address: Option<IpAddr>,
    /// In bytes; 0 if not known.
    pub mtu: u32,
    /// In Mbit/s; 0 if not known.
    pub speed_mbps: u64,
    /// Its link is up.
    pub up: bool,
    /// RoCEv2 GID index of `address`, where the NIC has RDMA.
    pub gid_index: Option<u32>,
    /// What it is, where its agent tells; boxed, for a controller holds many servers.
    pub facts: Option<Box<NicFacts>>,
}

/// How well a NIC and its rail are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicHealth {
    /// Device name of the NIC, as in the inventory.
    pub device: String,
    /// 100: nothing is known against it. 0: no new job should use it.
    pub score: u32,
    /// Every condition that holds; empty: nothing is wrong.
    pub conditions: Vec<NicCondition>,
    /// The last probe of its path, where there was one.
    pub probe: Option<NicProbe>,
}

impl NicHealth {
    /// Whether nothing is that wrong that no new job should use it.
    #[must_use]
    pub fn is_fit(&self) -> bool {
        self.conditions.iter().all(|condition| condition.severity < Severity::Drain)
    }

    /// Whether it is out of use, and a probe of its path that passes now would end something of that.
    #[must_use]
    pub fn wants_probe(&self) -> bool {
        self.conditions.iter().any(|condition| condition.severity == Severity::Drain && condition.probe)
    }
}

/// One thing that is wrong with a NIC or its rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicCondition {
    /// What it is.
    pub code: NicConditionCode,
    /// How bad it is.
    pub severity: Severity,
    /// What was seen, against which limit and whose, and what to do.
    pub message: String,
    /// Since when the condition holds.
    pub since: Timestamp,
    /// It has been quiet long enough: a probe of the path that passes now would end it.
    pub probe: bool,
}

/// How bad a condition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; it does not affect jobs.
    Note,
    /// Jobs suffer, but run.
    Degraded,
    /// No new job should use the rail.
    Drain,
}

impl Severity {
    /// As people and programs write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Degraded => "degraded",
            Self::Drain => "drain",
        }
    }
}

/// A switch that a server hears over LLDP.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbor {
    /// The server's network device that hears the switch.
    pub netdev: String,
    /// The name that the switch gives itself.
    pub switch: String,
    /// The switch's port, as the switch names it.
    pub port: String,
}
