//! What a NIC was read to be. What could not be read is said to be so: missing is not a default.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{
    settings::{AppTable, Buffer, CcParam, DcbxMode, Ets, Pause, Pfc},
    words::{Dscp, Priority, PrioritySet, RoceMode, Trust},
};

/// What became of reading one thing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reading<T> {
    /// This is what it is.
    Known(T),
    /// The device or its driver has no such thing (`EOPNOTSUPP`, no such file).
    Unsupported,
    /// There is one, but it could not be read, for this reason.
    Unreadable(String),
}

impl<T> Reading<T> {
    /// The value, if it is known.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unsupported | Self::Unreadable(_) => None,
        }
    }

    /// The value to be changed, if it is known.
    pub const fn known_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unsupported | Self::Unreadable(_) => None,
        }
    }
}

impl<T: fmt::Display> fmt::Display for Reading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(value) => write!(f, "{value}"),
            Self::Unsupported => f.write_str("not supported"),
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
        }
    }
}

/// Which NIC, and what drives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Device {
    /// Network device, for example `eth2`.
    pub netdev: String,
    /// RDMA device, for example `mlx5_0`; none without one.
    pub rdma: Option<String>,
    /// Port of the RDMA device; the first is 1.
    pub port: u32,
    /// For example `0000:18:00.0`; none for a software device.
    pub pci: Option<String>,
    /// The network driver as `ethtool -i` prints it, for example `mlx5_core`.
    pub driver: String,
    /// The driver's version as `ethtool -i` prints it; drivers of the kernel have the kernel's.
    pub driver_version: String,
    /// For example `28.39.2048`; empty where there is none.
    pub firmware: String,
    /// Speed of the link, in Mbit/s.
    pub speed_mbps: Reading<u64>,
    /// Whether the link is up.
    pub link_up: Reading<bool>,
}

/// A program that sets class of service by itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DcbAgent {
    /// Name of the program, for example `lldpad`.
    pub name: String,
    /// Its process; none if it is known by other means, such as its control socket.
    pub pid: Option<u32>,
}

impl fmt::Display for DcbAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "{} (pid {pid})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Congestion control as read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Congestion {
    /// Priorities on which marked packets are answered with CNPs.
    pub notification: Reading<PrioritySet>,
    /// Priorities on which CNPs slow a sender down.
    pub reaction: Reading<PrioritySet>,
    /// DSCP of CNPs that this NIC sends.
    pub cnp_dscp: Reading<Dscp>,
    /// Priority of CNPs that this NIC sends.
    pub cnp_priority: Reading<Priority>,
    /// The DSCP that the device takes for that of RDMA data, where it has to be set (bnxt_re).
    pub roce_dscp: Reading<Dscp>,
    /// The priority that the device takes for that of RDMA data, where it has to be set (bnxt_re).
    pub roce_priority: Reading<Priority>,
    /// Parameters; one that is not there was not asked for.
    pub params: BTreeMap<CcParam, Reading<u32>>,
}

/// All that is set on a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Settings {
    /// Who decides over DCB settings, and by which protocol.
    pub dcbx: Reading<DcbxMode>,
    /// Whether an LLDP agent in the firmware runs (ice: the private flag `fw-lldp-agent`).
    pub firmware_lldp: Reading<bool>,
    /// What the priority of a packet is read from.
    pub trust: Reading<Trust>,
    /// Entries as read; two for one DSCP may be there.
    pub app: Reading<AppTable>,
    /// Priorities with flow control (PFC, IEEE 802.1Qbb).
    pub pfc: Reading<Pfc>,
    /// How traffic classes share the link (ETS, IEEE 802.1Qaz).
    pub ets: Reading<Ets>,
    /// The greatest rate of each traffic class in kbit/s; 0 is no limit.
    pub max_rate: Reading<[u64; 8]>,
    /// Sizes of the receive buffers, and which priority uses which.
    pub buffer: Reading<Buffer>,
    /// Global pause (IEEE 802.3 annex 31B).
    pub pause: Reading<Pause>,
    /// MTU of the network device in bytes.
    pub mtu: Reading<u32>,
    /// ToS byte that the connection manager gives (configfs `default_roce_tos`).
    pub default_tos: Reading<u8>,
    /// RoCE version that the connection manager uses (configfs `default_roce_mode`).
    pub default_mode: Reading<RoceMode>,
    /// ToS byte that all queue pairs are forced to (vendor driver, `tc/1/traffic_class`); none if they are not.
    pub forced_tos: Reading<Option<u8>>,
    /// After how many ms a port that is paused all the time drops (`ETHTOOL_PFC_PREVENTION_TOUT`); 0 never,
    /// 65535 when the driver thinks fit.
    pub pfc_prevention: Reading<u16>,
    /// Settings of congestion control (DCQCN).
    pub congestion: Congestion,
}

/// One NIC as read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Observed {
    /// The NIC that was read.
    pub device: Device,
    /// Whether its server is drained: no job runs there, and none will be placed.
    pub drained: bool,
    /// Programs on the server that set class of service by themselves.
    pub agents: Reading<Vec<DcbAgent>>,
    /// The settings of its port as they were read.
    pub settings: Settings,
}
