//! Broadcom NetXtreme-E (Thor, Thor 2): the kernel's driver, and Broadcom's package.
//!
//! Sources: Linux `drivers/net/ethernet/broadcom/bnxt/bnxt_dcb.c`, `bnxt_ethtool.c`,
//! `drivers/infiniband/hw/bnxt_re/debugfs.c`; Broadcom's README of bnxt_re and its script `bnxt_setupcc.sh`.

use super::row::{
    AppStyle,
    Aspect::{
        Buffer, CcEnable, CcParam, CnpDscp, CnpMode, CnpPriority, Dcbx, DscpEntry, EtsMap, EtsShares,
        FirmwareLldp, ForcedTos, MaxRate, Mtu, Pause, PfcDelay, PfcMask, PfcPrevention, RoceDscp, RocePort,
        RocePriority, Trust, TrustSwitch,
    },
    DcbxStyle, DelayMeaning, Interface, Row, Tool, TrustStyle, Vendor, Version,
    Weight::{Harmless, Matters},
    mode, never, set, tos,
};
use crate::edit::{Blast, FileRoot};

const DCBX: DcbxStyle = DcbxStyle {
    keeps_versions: false,
    zero_returns: false,
    firmwares_for_good: Some(
        "an LLDP agent in the firmware owns it, and that is set in the NIC's memory: switch it off with Broadcom's \
         tool (niccli, 'nvm -setoption lldp_nearest_bridge', 'dcbx_mode') and restart the server",
    ),
    follows_firmware_lldp: false,
};

const QUIRKS: &[&str] = &[
    "PFC is refused before ETS has been set once since the driver was loaded",
    "ETS is refused ('starving a TC') where a class is served by share and has none: one without priorities is strict here, one with some has \
     1 % of the greatest share",
    "deleting a DSCP's entry clears its mapping in the firmware, whatever was added before: delete first, then add",
    "the RDMA driver takes its priority from the entry for UDP port 4791",
    "CNPs have priority 7 by default (Thor 2)",
];

const DCBX_ROW: Row = set(
    Dcbx,
    Interface::Dcbnl,
    Blast::Hitless,
    "only who may set is changed; what holds stays",
    "the host's",
);
const PAUSE: Row = set(
    Pause,
    Interface::EthtoolPause,
    Blast::LinkFlap,
    "the firmware negotiates the link anew",
    "negotiated",
);
const MTU: Row =
    set(Mtu, Interface::Link, Blast::TrafficLoss, "the driver closes the device and opens it again", "1500");
const TRUST: Row =
    never(Trust, Harmless, "there is no such switch: DSCP entries hold whenever they are there");
const TRUST_SWITCH: Row = never(TrustSwitch, Harmless, "there is no such switch");
const ENTRY: Row = set(
    DscpEntry,
    Interface::Dcbnl,
    Blast::TrafficLoss,
    "an entry that is replaced is deleted first, and for that moment its packets have priority 0 and may be dropped",
    "priority 0",
);
const PORT_ENTRY: Row = set(
    RocePort,
    Interface::Dcbnl,
    Blast::TrafficLoss,
    "the RDMA driver moves its queue pairs to another priority",
    "no entry",
);
const SHARES: Row = set(
    EtsShares,
    Interface::Dcbnl,
    Blast::TrafficLoss,
    "the driver may change its number of classes, and closes and opens the device for it",
    "not set",
);
const MAP: Row = set(
    EtsMap,
    Interface::Dcbnl,
    Blast::TrafficLoss,
    "the driver may change its number of classes, and closes and opens the device for it",
    "not set",
);
const RATE: Row = never(MaxRate, Harmless, "the driver has no such thing, so there is no limit");
const PFC: Row = set(
    PfcMask,
    Interface::Dcbnl,
    Blast::TrafficLoss,
    "the driver closes and opens the device where lossless queues have to be assigned anew",
    "none",
);
const DELAY: Row = never(PfcDelay, Harmless, "the firmware lays out its buffers by itself");
const BUFFER: Row = never(Buffer, Harmless, "the firmware lays out its buffers by itself");
const PREVENTION: Row =
    never(PfcPrevention, Matters, "the driver has no PFC storm prevention; the switch's has to do");
const FORCED: Row = never(ForcedTos, Harmless, "the driver forces no class; applications and RDMA-CM choose");
const PARAMS: Row =
    never(CcParam, Harmless, "the device has its own congestion control, whose parameters differ");
const LLDP: Row = never(FirmwareLldp, Harmless, "the firmware's DCBX is governed by DCBX's mode");
const CNP_MODE: Row = never(CnpMode, Harmless, "there is no such mode");
const CC_WHY: &str = "the firmware follows it at once; no packet is dropped";

const fn debugfs(file: &'static str) -> Interface {
    Interface::File(FileRoot::Debugfs, file, None)
}

const fn configfs(file: &'static str) -> Interface {
    Interface::File(FileRoot::Configfs, file, Some("bnxt_re/{rdma}/ports/{port}/cc/apply"))
}

pub(super) static KERNEL: Vendor = Vendor {
    name: "bnxt_re",
    drivers: &["bnxt_en"],
    version: Version::Any,
    software: false,
    tool: Tool::Dcb,
    app: AppStyle::DeleteThenAdd,
    trust: TrustStyle::None,
    dcbx: DCBX,
    delay: DelayMeaning::Nothing,
    rates: &[],
    data_classes_are_classes: false,
    starving_refused: true,
    one_cc_switch: true,
    roce_port_entry: true,
    quirks: QUIRKS,
    rows: &[
        DCBX_ROW,
        LLDP,
        PAUSE,
        MTU,
        TRUST,
        TRUST_SWITCH,
        ENTRY,
        PORT_ENTRY,
        SHARES,
        MAP,
        RATE,
        PFC,
        DELAY,
        BUFFER,
        PREVENTION,
        tos("0"),
        mode(),
        FORCED,
        set(CcEnable, debugfs("bnxt_re/{pci}/cc_config/enable_cc"), Blast::Hitless, CC_WHY, "on"),
        set(CnpDscp, debugfs("bnxt_re/{pci}/cc_config/alt_vlan_dscp"), Blast::Hitless, CC_WHY, "48"),
        set(CnpPriority, debugfs("bnxt_re/{pci}/cc_config/alt_vlan_pcp"), Blast::Hitless, CC_WHY, "7"),
        CNP_MODE,
        set(RoceDscp, debugfs("bnxt_re/{pci}/cc_config/tos_dscp"), Blast::Hitless, CC_WHY, "26"),
        never(RocePriority, Harmless, "it follows the entry for UDP port 4791"),
        PARAMS,
    ],
};

pub(super) static PACKAGE: Vendor = Vendor {
    name: "bnxt_re-package",
    drivers: &["bnxt_en"],
    version: Version::Begins("1.10."),
    software: false,
    tool: Tool::Dcb,
    app: AppStyle::DeleteThenAdd,
    trust: TrustStyle::None,
    dcbx: DCBX,
    delay: DelayMeaning::Nothing,
    rates: &[],
    data_classes_are_classes: false,
    starving_refused: true,
    one_cc_switch: true,
    roce_port_entry: true,
    quirks: QUIRKS,
    rows: &[
        DCBX_ROW,
        LLDP,
        PAUSE,
        MTU,
        TRUST,
        TRUST_SWITCH,
        ENTRY,
        PORT_ENTRY,
        SHARES,
        MAP,
        RATE,
        PFC,
        DELAY,
        BUFFER,
        PREVENTION,
        tos("0"),
        mode(),
        FORCED,
        set(CcEnable, configfs("bnxt_re/{rdma}/ports/{port}/cc/ecn_enable"), Blast::Hitless, CC_WHY, "on"),
        set(CnpDscp, configfs("bnxt_re/{rdma}/ports/{port}/cc/cnp_dscp"), Blast::Hitless, CC_WHY, "48"),
        set(CnpPriority, configfs("bnxt_re/{rdma}/ports/{port}/cc/cnp_prio"), Blast::Hitless, CC_WHY, "7"),
        CNP_MODE,
        set(RoceDscp, configfs("bnxt_re/{rdma}/ports/{port}/cc/roce_dscp"), Blast::Hitless, CC_WHY, "26"),
        set(
            RocePriority,
            configfs("bnxt_re/{rdma}/ports/{port}/cc/roce_prio"),
            Blast::TrafficLoss,
            "queue pairs move to another priority",
            "3",
        ),
        PARAMS,
    ],
};
