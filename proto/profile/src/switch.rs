//! What a profile says of switches: classes apart from RDMA data, buffers, marking, the watchdog. What is left out of a document is
//! planned, by the rules that `controller-switch` has.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::words::{Dscp, Priority};

/// What VXLAN over IPv4 adds to a packet: outer Ethernet, IP and UDP headers and its own, in bytes.
pub const VXLAN_BYTES: u32 = 50;

/// What a class of traffic is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// Storage, such as NVMe over fabrics.
    Storage,
    /// Management and routing.
    Management,
    /// Something else that is to be apart.
    Other,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Storage => "storage",
            Self::Management => "management",
            Self::Other => "other",
        })
    }
}

/// A class of traffic beside RDMA data, CNPs and all the rest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Class {
    /// Its name: 1 to 32 letters, digits, `-` or `_`.
    pub name: String,
    /// What it is for.
    pub purpose: Purpose,
    /// Its DSCPs, which no other class has.
    pub dscps: Vec<Dscp>,
    /// Its priority on links and its queue in switches, which no other class has.
    pub priority: Priority,
    /// Whether it may not lose a packet. Then its priority has to be in `pfc` as well: a second lossless class is asked for, not met.
    #[serde(default)]
    pub lossless: bool,
}

/// When a switch marks packets of a queue (WRED with ECN).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EcnThresholds {
    /// Length of a queue in bytes from which on some packets are marked.
    pub kmin: u64,
    /// Length of a queue in bytes from which on every packet is marked.
    pub kmax: u64,
    /// Share of packets that is marked just below `kmax`, in percent.
    pub pmax: u8,
}

/// What the watchdog does with a queue that is paused all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WatchdogAction {
    /// Packets for it are dropped.
    Drop,
    /// Packets go on although the peer pauses.
    Forward,
    /// It is only told.
    Alert,
}

/// The watchdog over PFC: ends a pause storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Watchdog {
    /// How long a queue is paused before something is done, in ms.
    pub detection_ms: u32,
    /// How long it is not paused before that ends, in ms.
    pub restoration_ms: u32,
    /// How often is looked, in ms.
    pub poll_ms: u32,
    /// What is done.
    pub action: WatchdogAction,
}

impl Default for Watchdog {
    /// SONiC's own times.
    fn default() -> Self {
        Self { detection_ms: 200, restoration_ms: 200, poll_ms: 200, action: WatchdogAction::Drop }
    }
}

/// The end of the switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct SwitchEnd {
    /// MTU of the ports of switches, in bytes.
    pub mtu: u32,
    /// Whether packets of servers travel between switches inside VXLAN.
    pub vxlan: bool,
    /// Share of the free shared buffer that a lossless priority group may take before it pauses, as a power of 2.
    pub lossless_alpha: i8,
    /// The same for groups and queues that may lose packets.
    pub lossy_alpha: i8,
    /// A fixed length in bytes at which a lossless group pauses; none for what `lossless_alpha` comes to.
    pub pause_bytes: Option<u64>,
    /// How many ports share the headroom of one; 0 where each has its own.
    pub headroom_shared_by: u8,
    /// The largest packet of a lossless class, in bytes.
    pub lossless_mtu: u32,
    /// How many of 100 packets of a lossless class are of the smallest size.
    pub small_packet_percent: u8,
    /// When packets are marked, by the speed of the port in Gbit/s; a speed that is not named is planned.
    pub ecn: BTreeMap<u32, EcnThresholds>,
    /// The watchdog over PFC.
    pub watchdog: Watchdog,
}

impl Default for SwitchEnd {
    fn default() -> Self {
        Self {
            mtu: 9216,
            vxlan: false,
            lossless_alpha: 0,
            lossy_alpha: 3,
            pause_bytes: None,
            headroom_shared_by: 2,
            lossless_mtu: 4200,
            small_packet_percent: 0,
            ecn: BTreeMap::new(),
            watchdog: Watchdog::default(),
        }
    }
}

impl SwitchEnd {
    /// Whether it says nothing of its own, so that documents of NICs alone stay as they are.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
