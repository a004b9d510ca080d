//! What can be set on a port: the values, as the kernel's interfaces carry them.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

use crate::words::{Dscp, Priority, PrioritySet, Tsa};

/// Who negotiates, as flags (`DCB_CAP_DCBX_*` in `linux/dcbnl.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DcbxMode(pub u8);

impl DcbxMode {
    /// The host decides (`DCB_CAP_DCBX_HOST`).
    pub const HOST: u8 = 0x01;
    /// An agent in the firmware decides.
    pub const LLD_MANAGED: u8 = 0x02;
    /// The version before the standard.
    pub const VER_CEE: u8 = 0x04;
    /// IEEE 802.1Qaz is spoken (`DCB_CAP_DCBX_VER_IEEE`).
    pub const VER_IEEE: u8 = 0x08;
    /// Nothing is negotiated: what is set stays (`DCB_CAP_DCBX_STATIC`).
    pub const STATIC: u8 = 0x10;
    /// The host's, by IEEE rules: what every driver takes that lets the host decide.
    pub const HOST_IEEE: Self = Self(Self::HOST | Self::VER_IEEE);

    /// Whether all of `flags` are there.
    #[must_use]
    pub const fn has(self, flags: u8) -> bool {
        self.0 & flags == flags
    }

    /// Whether the host may set IEEE objects and keep them.
    #[must_use]
    pub const fn is_hosts(self) -> bool {
        self.has(Self::HOST | Self::VER_IEEE) && !self.has(Self::LLD_MANAGED)
    }
}

impl fmt::Display for DcbxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (Self::HOST, "host"),
            (Self::LLD_MANAGED, "lld-managed"),
            (Self::VER_CEE, "cee"),
            (Self::VER_IEEE, "ieee"),
            (Self::STATIC, "static"),
        ];
        let list: Vec<&str> =
            words.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, word)| *word).collect();
        if list.is_empty() { f.write_str("firmware") } else { f.write_str(&list.join(" ")) }
    }
}

/// An entry of the application priority table (`struct dcb_app`), as read: also one that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppEntry {
    /// What `protocol` is; see the constants.
    pub selector: u8,
    /// The ethertype, port or DSCP, in host order.
    pub protocol: u16,
    /// The priority that it has.
    pub priority: u8,
}

impl AppEntry {
    /// `IEEE_8021QAZ_APP_SEL_ETHERTYPE`: the protocol of an entry is an EtherType.
    pub const ETHERTYPE: u8 = 1;
    /// `IEEE_8021QAZ_APP_SEL_STREAM`: a TCP or SCTP port.
    pub const STREAM: u8 = 2;
    /// `IEEE_8021QAZ_APP_SEL_DGRAM`: a UDP or DCCP port.
    pub const DGRAM: u8 = 3;
    /// `IEEE_8021QAZ_APP_SEL_ANY`: a port of any of these.
    pub const ANY: u8 = 4;
    /// `IEEE_8021QAZ_APP_SEL_DSCP`: the protocol of an entry is a DSCP, 0 to 63.
    pub const DSCP: u8 = 5;
    /// `DCB_APP_SEL_PCP`: the protocol of an entry is a PCP of a VLAN tag.
    pub const PCP: u8 = 255;
    /// RoCE v2's UDP port (IANA).
    pub const ROCE_V2_PORT: u16 = 4791;

    /// What maps a DSCP to a priority.
    #[must_use]
    pub const fn dscp(dscp: Dscp, priority: Priority) -> Self {
        Self { selector: Self::DSCP, protocol: dscp.get() as u16, priority: priority.get() }
    }

    /// What maps RoCE v2's port to a priority.
    #[must_use]
    pub const fn roce_port(priority: Priority) -> Self {
        Self { selector: Self::DGRAM, protocol: Self::ROCE_V2_PORT, priority: priority.get() }
    }

    /// Whether it maps a DSCP, of those that there are.
    #[must_use]
    pub const fn is_dscp(&self) -> bool {
        self.selector == Self::DSCP && self.protocol <= Dscp::MAX as u16
    }

    /// Whether it is about RoCE v2's port.
    #[must_use]
    pub const fn is_roce_port(&self) -> bool {
        (self.selector == Self::DGRAM || self.selector == Self::ANY) && self.protocol == Self::ROCE_V2_PORT
    }
}

impl fmt::Display for AppEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { selector, protocol, priority } = self;
        match *selector {
            Self::ETHERTYPE => write!(f, "ethtype {protocol:#06x}:{priority}"),
            Self::STREAM => write!(f, "stream-port {protocol}:{priority}"),
            Self::DGRAM => write!(f, "dgram-port {protocol}:{priority}"),
            Self::ANY => write!(f, "port {protocol}:{priority}"),
            Self::DSCP => write!(f, "dscp {protocol}:{priority}"),
            Self::PCP => write!(f, "pcp {protocol}:{priority}"),
            other => write!(f, "selector-{other} {protocol}:{priority}"),
        }
    }
}

/// The application priority table. It is a set: the kernel holds no entry twice, but may hold two for one DSCP.
pub type AppTable = BTreeSet<AppEntry>;

/// Priority-based flow control (`struct ieee_pfc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Pfc {
    /// For which priorities pause frames are sent and obeyed.
    pub enabled: PrioritySet,
    /// `delay`. What it is depends on the driver: mlx5 takes it as the length of the cable in metres.
    pub delay: u16,
}

/// Transmission selection (`struct ieee_ets`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Ets {
    /// Whether the port takes what its peer recommends.
    pub willing: bool,
    /// How each traffic class is served.
    pub tsa: [Tsa; 8],
    /// The share of each class in percent; of those with [`Tsa::Ets`] only.
    pub bandwidth: [u8; 8],
    /// The traffic class of each priority.
    pub prio_tc: [u8; 8],
}

impl Ets {
    /// It without what means nothing, so that two can be compared: a class that is not served by share has none, whatever its driver
    /// reports there (mlx5 100 % for each such class, others 0 or what was sent).
    #[must_use]
    pub fn meant(&self) -> Self {
        let share = |at: usize| if self.tsa[at] == Tsa::Ets { self.bandwidth[at] } else { 0 };
        Self { bandwidth: std::array::from_fn(share), ..*self }
    }

    /// Whether a class is served by share and has none, while the others have all of the bandwidth.
    #[must_use]
    pub fn starves_a_class(&self) -> bool {
        let shares = || self.tsa.iter().zip(self.bandwidth).filter(|(tsa, _)| **tsa == Tsa::Ets);
        let sum: u32 = shares().map(|(_, share)| u32::from(share)).sum();
        sum == 100 && shares().any(|(_, share)| share == 0)
    }
}

/// Buffers of a port (`struct dcbnl_buffer`), in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Buffer {
    /// The buffer of each priority.
    pub prio_buffer: [u8; 8],
    /// The size of each buffer in bytes.
    pub size: [u32; 8],
}

/// Global pause (IEEE 802.3 annex 31B).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Pause {
    /// Negotiated with the peer.
    pub autoneg: bool,
    /// Pause frames that are received are obeyed.
    pub rx: bool,
    /// Pause frames are sent when buffers fill up.
    pub tx: bool,
}

impl Pause {
    /// Neither sent nor obeyed.
    pub const OFF: Self = Self { autoneg: false, rx: false, tx: false };

    /// Whether frames are neither sent nor obeyed. What is negotiated does not count where nothing is offered.
    #[must_use]
    pub const fn is_off(self) -> bool {
        !(self.rx || self.tx)
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |on: bool| if on { "on" } else { "off" };
        write!(f, "autoneg {} rx {} tx {}", word(self.autoneg), word(self.rx), word(self.tx))
    }
}

/// A parameter of DCQCN. Names and units are those of NVIDIA's documentation, which the literature uses too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CcParam {
    /// Target rate falls with every CNP (0 or 1).
    ClampTgtRate,
    /// The same after an increase by time (0 or 1).
    ClampTgtRateAti,
    /// Time between increases, µs.
    TimeReset,
    /// Number of bytes between increases.
    ByteReset,
    /// Increases before the next phase.
    Threshold,
    /// Step of an additive increase, Mb/s.
    AiRate,
    /// Greatest rate, Mb/s; 0 is the line's.
    MaxRate,
    /// Step of a hyper-active increase, Mb/s.
    HaiRate,
    /// Greatest decrease at one CNP, in percent of the rate.
    MinDecFac,
    /// Least rate that a flow is reduced to, Mb/s.
    MinRate,
    /// Rate after the first CNP, Mb/s; 0 leaves it as it is.
    RateToSetOnFirstCnp,
    /// Weight of the average, of 1024.
    DceTcpG,
    /// Time between updates of alpha, µs.
    DceTcpRtt,
    /// Time between decreases, µs.
    RateReduceMonitorPeriod,
    /// Alpha at first, of 1023.
    InitialAlphaValue,
    /// Decrease by alpha, as a shift.
    Gd,
    /// Least time between CNPs of one flow, µs.
    MinTimeBetweenCnps,
    /// Whether the priority of CNPs is the one that is set (0). A profile says which that is, so this is always wanted to be 0.
    CnpPrioMode,
}

impl CcParam {
    /// Every parameter, in the order of their definition.
    pub const ALL: [Self; 18] = [
        Self::ClampTgtRate,
        Self::ClampTgtRateAti,
        Self::TimeReset,
        Self::ByteReset,
        Self::Threshold,
        Self::AiRate,
        Self::MaxRate,
        Self::HaiRate,
        Self::MinDecFac,
        Self::MinRate,
        Self::RateToSetOnFirstCnp,
        Self::DceTcpG,
        Self::DceTcpRtt,
        Self::RateReduceMonitorPeriod,
        Self::InitialAlphaValue,
        Self::Gd,
        Self::MinTimeBetweenCnps,
        Self::CnpPrioMode,
    ];

    /// Its name in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClampTgtRate => "clamp_tgt_rate",
            Self::ClampTgtRateAti => "clamp_tgt_rate_ati",
            Self::TimeReset => "time_reset",
            Self::ByteReset => "byte_reset",
            Self::Threshold => "threshold",
            Self::AiRate => "ai_rate",
            Self::MaxRate => "max_rate",
            Self::HaiRate => "hai_rate",
            Self::MinDecFac => "min_dec_fac",
            Self::MinRate => "min_rate",
            Self::RateToSetOnFirstCnp => "rate_to_set_on_first_cnp",
            Self::DceTcpG => "dce_tcp_g",
            Self::DceTcpRtt => "dce_tcp_rtt",
            Self::RateReduceMonitorPeriod => "rate_reduce_monitor_period",
            Self::InitialAlphaValue => "initial_alpha_value",
            Self::Gd => "gd",
            Self::MinTimeBetweenCnps => "min_time_between_cnps",
            Self::CnpPrioMode => "cnp_prio_mode",
        }
    }
}

impl fmt::Display for CcParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An end of congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CcSide {
    /// The receiver, which answers marked packets with CNPs.
    NotificationPoint,
    /// The sender, which slows down when CNPs arrive.
    ReactionPoint,
}

impl fmt::Display for CcSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotificationPoint => "notification point",
            Self::ReactionPoint => "reaction point",
        })
    }
}
