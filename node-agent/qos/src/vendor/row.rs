//! What the tables are made of: what can be set, by which interface, and what that does to traffic.

use crate::{
    edit::{Blast, FileRoot},
    item::Item,
    settings::CcParam,
};

/// One thing that a table has a row for. Parts of one kernel object have rows of their own where they differ in what
/// they do to traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// Who decides over DCB settings: the host or the firmware.
    Dcbx,
    /// The LLDP agent of the firmware.
    FirmwareLldp,
    /// Global pause (IEEE 802.3 annex 31B).
    Pause,
    /// MTU of the network device, in bytes.
    Mtu,
    /// What a packet's priority is read from, where that is set by itself.
    Trust,
    /// Trust that follows from the first or last DSCP entry.
    TrustSwitch,
    /// A DSCP entry among others.
    DscpEntry,
    /// An entry for RoCE v2's port.
    RocePort,
    /// TSA, shares and willingness.
    EtsShares,
    /// Traffic classes of priorities.
    EtsMap,
    /// Greatest rates of traffic classes.
    MaxRate,
    /// Priorities with flow control.
    PfcMask,
    /// Length of the cable in metres, for PFC.
    PfcDelay,
    /// Receive buffers of the port.
    Buffer,
    /// Time of PFC storm prevention.
    PfcPrevention,
    /// ToS byte that the connection manager gives to RDMA connections.
    DefaultTos,
    /// Connection manager's RoCE version.
    DefaultMode,
    /// ToS of all queue pairs.
    ForcedTos,
    /// Congestion control of one end and priority.
    CcEnable,
    /// DSCP of congestion notification packets (CNPs).
    CnpDscp,
    /// Priority of congestion notification packets (CNPs).
    CnpPriority,
    /// Whether that is the one that is set.
    CnpMode,
    /// What the device takes for RDMA data's DSCP.
    RoceDscp,
    /// What the device takes for RDMA data's priority.
    RocePriority,
    /// Parameters of congestion control.
    CcParam,
}

/// By which interface; `{pci}`, `{rdma}`, `{netdev}`, `{port}`, `{priority}`, `{end}` and `{param}` are filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// DCB over netlink (`RTM_SETDCB`).
    Dcbnl,
    /// Pause over ethtool netlink.
    EthtoolPause,
    /// The ethtool tunable of storm prevention.
    EthtoolTunable,
    /// A private flag of the driver, by its name.
    PrivateFlag(&'static str),
    /// A link's attribute over netlink.
    Link,
    /// A file, and another one that makes it hold.
    File(FileRoot, &'static str, Option<&'static str>),
    /// A file of the connection manager's configfs.
    RdmaCm(&'static str),
}

/// Whether it matters that something cannot be set or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// RDMA traffic may suffer, and somebody has to look.
    Matters,
    /// Nothing is lost by it.
    Harmless,
}

/// What can be done about one aspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It can be set.
    Set {
        /// The interface of the kernel by which it is set.
        by: Interface,
        /// What setting it does to traffic.
        blast: Blast,
        /// Why it does that to traffic.
        why: &'static str,
    },
    /// It cannot be set at run time.
    Never {
        /// For this reason, and what helps.
        why: &'static str,
        /// Whether RDMA traffic may suffer from that.
        weight: Weight,
    },
}

/// A row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The setting that the row is about.
    pub aspect: Aspect,
    /// Whether and how it can be set.
    pub how: How,
    /// What it is before anybody sets it; empty if nobody says.
    pub factory: &'static str,
}

/// How the driver takes a new entry for a DSCP that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppStyle {
    /// It replaces the one that the hardware follows.
    Replaces,
    /// Both are there until the old one is deleted, and the higher priority counts (as the standard has it).
    AddThenDelete,
    /// The old one has to go first.
    DeleteThenAdd,
}

/// Where trust comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustStyle {
    /// The first DSCP entry switches to DSCP, the last one that goes switches back.
    FollowsEntries,
    /// The same, and each switch puts ETS and PFC back to the driver's defaults.
    FollowsEntriesAndResets,
    /// It is set by itself.
    Own,
    /// There is no such switch: entries hold whenever they are there.
    None,
}

/// How DCBX is taken and given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DcbxStyle {
    /// The versions that were announced are kept; otherwise IEEE alone is.
    pub keeps_versions: bool,
    /// Handing it back is by sending 0.
    pub zero_returns: bool,
    /// Why it cannot be taken from the firmware at run time; none if it can.
    pub firmwares_for_good: Option<&'static str>,
    /// Stopping the firmware's LLDP agent gives DCBX to the host.
    pub follows_firmware_lldp: bool,
}

/// The meaning that a driver gives to the field `delay` of `struct ieee_pfc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelayMeaning {
    /// Length of the cable in metres.
    Metres,
    /// The driver does nothing with it.
    Nothing,
}

/// The tool that its users know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The tool `dcb` of iproute2.
    Dcb,
    /// NVIDIA's tool `mlnx_qos`.
    MlnxQos,
}

/// How a driver's version is distinguished from another's of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Every version of the driver.
    Any,
    /// Versions whose text begins with this.
    Begins(&'static str),
    /// Has this many numbers before the first dash, and two dots after it: `24.10-1.1.4`.
    Package(usize),
}

/// A driver as its table describes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Vendor {
    /// The name of the table, by which plans refer to it.
    pub name: &'static str,
    /// Network drivers that it is; any if there is none.
    pub drivers: &'static [&'static str],
    /// The versions of these drivers that the table is about.
    pub version: Version,
    /// RDMA in software on any network device.
    pub software: bool,
    /// The tool in whose commands plans are shown.
    pub tool: Tool,
    /// How the driver takes a new entry for a DSCP that has one.
    pub app: AppStyle,
    /// How the port is made to trust DSCPs.
    pub trust: TrustStyle,
    /// How DCBX is taken from the firmware and given back.
    pub dcbx: DcbxStyle,
    /// The meaning of the field `delay` of `struct ieee_pfc`.
    pub delay: DelayMeaning,
    /// In which steps rates of traffic classes are kept, by how fast they are; any rate if there is none.
    pub rates: &'static [RateStep],
    /// Where DSCP is trusted, the "priority" of an entry is a traffic class, and priorities are classes.
    pub data_classes_are_classes: bool,
    /// ETS that starves a class ([`Ets::starves_a_class`]) is refused.
    ///
    /// [`Ets::starves_a_class`]: crate::settings::Ets::starves_a_class
    pub starving_refused: bool,
    /// Congestion control has one switch for both ends and all priorities.
    pub one_cc_switch: bool,
    /// The RDMA driver finds its data class by an entry for RoCE v2's port.
    pub roce_port_entry: bool,
    /// What users have to know and no row says.
    pub quirks: &'static [&'static str],
    /// The rows of the table, one for each [`Aspect`].
    pub rows: &'static [Row],
}

/// A driver keeps rates up to `up_to` as multiples of `step`, both in kbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateStep {
    /// The fastest rate that is kept so.
    pub up_to: u64,
    /// The step, in kbit/s, of which rates up to `up_to` are multiples.
    pub step: u64,
}

impl Version {
    pub(super) fn matches(self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Begins(start) => text.starts_with(start),
            Self::Package(numbers) => text.split_once('-').is_some_and(|(head, tail)| {
                let dotted = |text: &str, parts: usize| {
                    let all: Vec<&str> = text.split('.').collect();
                    let number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
                    all.len() == parts && all.iter().all(number)
                };
                dotted(head, numbers) && dotted(tail, 3)
            }),
        }
    }
}

/// The aspect that an item belongs to.
#[must_use]
pub const fn aspect(item: Item) -> Aspect {
    match item {
        Item::Dcbx => Aspect::Dcbx,
        Item::FirmwareLldp => Aspect::FirmwareLldp,
        Item::GlobalPause => Aspect::Pause,
        Item::Mtu => Aspect::Mtu,
        Item::Trust => Aspect::Trust,
        Item::Dscp(_) => Aspect::DscpEntry,
        Item::RocePort => Aspect::RocePort,
        Item::EtsWilling | Item::Tsa(_) | Item::Bandwidth(_) => Aspect::EtsShares,
        Item::PrioTc(_) => Aspect::EtsMap,
        Item::MaxRate(_) => Aspect::MaxRate,
        Item::Pfc => Aspect::PfcMask,
        Item::CableLength => Aspect::PfcDelay,
        Item::Buffer => Aspect::Buffer,
        Item::PfcPrevention => Aspect::PfcPrevention,
        Item::DefaultTos => Aspect::DefaultTos,
        Item::DefaultMode => Aspect::DefaultMode,
        Item::ForcedTos => Aspect::ForcedTos,
        Item::Dcqcn(..) => Aspect::CcEnable,
        Item::CnpDscp => Aspect::CnpDscp,
        Item::CnpPriority => Aspect::CnpPriority,
        Item::RoceDscp => Aspect::RoceDscp,
        Item::RocePriority => Aspect::RocePriority,
        Item::CcParam(CcParam::CnpPrioMode) => Aspect::CnpMode,
        Item::CcParam(_) => Aspect::CcParam,
    }
}

pub(super) const fn set(
    aspect: Aspect,
    by: Interface,
    blast: Blast,
    why: &'static str,
    factory: &'static str,
) -> Row {
    Row { aspect, how: How::Set { by, blast, why }, factory }
}

pub(super) const fn never(aspect: Aspect, weight: Weight, why: &'static str) -> Row {
    Row { aspect, how: How::Never { why, weight }, factory: "" }
}

pub(super) const fn tos(by_default: &'static str) -> Row {
    set(
        Aspect::DefaultTos,
        Interface::RdmaCm("default_roce_tos"),
        Blast::Nothing,
        "only connections that are made afterwards get it",
        by_default,
    )
}

pub(super) const fn mode() -> Row {
    set(
        Aspect::DefaultMode,
        Interface::RdmaCm("default_roce_mode"),
        Blast::Nothing,
        "only connections that are made afterwards get it",
        "RoCE v2 where the device has it",
    )
}
