//! Names of what is compared, so that a verdict says which thing is wrong.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    settings::{CcParam, CcSide},
    words::{Dscp, Priority},
};

/// One thing of a port that can be right or wrong by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Item {
    /// Who decides over DCB settings: the host or the firmware.
    Dcbx,
    /// The LLDP agent of the firmware.
    FirmwareLldp,
    /// Global pause frames (IEEE 802.3 annex 31B).
    GlobalPause,
    /// MTU of the network device.
    Mtu,
    /// What the priority of a packet is read from.
    Trust,
    /// The priority of a DSCP.
    Dscp(Dscp),
    /// The priority of RoCE v2's port in the application table.
    RocePort,
    /// Whether the port takes what its peer recommends.
    EtsWilling,
    /// The traffic class of a priority.
    PrioTc(Priority),
    /// How a traffic class is served.
    Tsa(u8),
    /// The share of a traffic class.
    Bandwidth(u8),
    /// The greatest rate of a traffic class.
    MaxRate(u8),
    /// Which priorities have flow control.
    Pfc,
    /// Length of the cable.
    CableLength,
    /// Sizes of the receive buffers, and which priority uses which.
    Buffer,
    /// Time after which a port that is kept paused drops instead (PFC storm prevention).
    PfcPrevention,
    /// ToS byte of RDMA connections.
    DefaultTos,
    /// RoCE version of RDMA connections.
    DefaultMode,
    /// ToS byte that all queue pairs are forced to.
    ForcedTos,
    /// An end of congestion control on a priority.
    Dcqcn(CcSide, Priority),
    /// The DSCP of congestion notification packets (CNPs).
    CnpDscp,
    /// The priority of congestion notification packets (CNPs).
    CnpPriority,
    /// The DSCP that the device takes for that of RDMA data.
    RoceDscp,
    /// The priority that the device takes for that of RDMA data.
    RocePriority,
    /// A parameter of congestion control.
    CcParam(CcParam),
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dcbx => f.write_str("dcbx"),
            Self::FirmwareLldp => f.write_str("firmware-lldp"),
            Self::GlobalPause => f.write_str("global-pause"),
            Self::Mtu => f.write_str("mtu"),
            Self::Trust => f.write_str("trust"),
            Self::Dscp(dscp) => write!(f, "dscp {dscp}"),
            Self::RocePort => f.write_str("udp 4791"),
            Self::EtsWilling => f.write_str("ets-willing"),
            Self::PrioTc(priority) => write!(f, "prio-tc {priority}"),
            Self::Tsa(tc) => write!(f, "tc-tsa {tc}"),
            Self::Bandwidth(tc) => write!(f, "tc-bw {tc}"),
            Self::MaxRate(tc) => write!(f, "tc-maxrate {tc}"),
            Self::Pfc => f.write_str("pfc"),
            Self::CableLength => f.write_str("cable-length"),
            Self::Buffer => f.write_str("buffer"),
            Self::PfcPrevention => f.write_str("pfc-prevention"),
            Self::DefaultTos => f.write_str("default-tos"),
            Self::DefaultMode => f.write_str("default-mode"),
            Self::ForcedTos => f.write_str("forced-tos"),
            Self::Dcqcn(CcSide::NotificationPoint, priority) => write!(f, "dcqcn-np {priority}"),
            Self::Dcqcn(CcSide::ReactionPoint, priority) => write!(f, "dcqcn-rp {priority}"),
            Self::CnpDscp => f.write_str("cnp-dscp"),
            Self::CnpPriority => f.write_str("cnp-prio"),
            Self::RoceDscp => f.write_str("roce-dscp"),
            Self::RocePriority => f.write_str("roce-prio"),
            Self::CcParam(param) => write!(f, "cc {param}"),
        }
    }
}
