//! NVIDIA ConnectX and BlueField: the kernel's driver, and that of MLNX_OFED and DOCA-OFED.
//!
//! Sources: Linux `drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c`, `en/port_buffer.c`, `en_ethtool.c`,
//! `drivers/infiniband/hw/mlx5/cong.c`; NVIDIA's documentation of mlnx_qos and of DCQCN.

use super::row::{
    AppStyle,
    Aspect::{
        Buffer, CcEnable, CcParam, CnpDscp, CnpMode, CnpPriority, Dcbx, DscpEntry, EtsMap, EtsShares,
        FirmwareLldp, ForcedTos, MaxRate, Mtu, Pause, PfcDelay, PfcMask, PfcPrevention, RoceDscp, RocePort,
        RocePriority, Trust, TrustSwitch,
    },
    DcbxStyle, DelayMeaning, Interface, RateStep, Row, Tool, TrustStyle, Vendor, Version,
    Weight::{Harmless, Matters},
    mode, never, set, tos,
};
use crate::edit::{Blast, FileRoot};

const DCBX: DcbxStyle = DcbxStyle {
    keeps_versions: true,
    zero_returns: true,
    firmwares_for_good: None,
    follows_firmware_lldp: false,
};

const QUIRKS: &[&str] = &[
    "the first DSCP entry of the application table switches the port to trust DSCP, the last one that goes switches it back",
    "DCBX that is LLD_MANAGED is refused; sending 0 hands it to the firmware",
    "writing the priority of CNPs forces its mode to 'fixed' (np_cnp_prio_mode 0)",
    "the delay of PFC is the length of the cable in metres",
];

/// `mlx5e_dcbnl_ieee_setmaxrate` divides and drops the rest: by 100 Mbit/s up to 255 of them, else by 1 Gbit/s.
const RATES: &[RateStep] =
    &[RateStep { up_to: 25_500_000, step: 100_000 }, RateStep { up_to: u64::MAX, step: 1_000_000 }];

const DCBX_ROW: Row = set(
    Dcbx,
    Interface::Dcbnl,
    Blast::Hitless,
    "the firmware stops to take what the switch says; what holds stays",
    "the firmware's",
);
const PAUSE: Row = set(
    Pause,
    Interface::EthtoolPause,
    Blast::Hitless,
    "a register of the port, the link stays up",
    "rx and tx on",
);
const MTU: Row = set(
    Mtu,
    Interface::Link,
    Blast::TrafficLoss,
    "the network device's channels are closed and opened again, and buffers are laid out anew",
    "1500",
);
const TRUST: Row =
    never(Trust, Harmless, "it is not set by itself: it follows the DSCP entries of the application table");
const TRUST_SWITCH: Row = set(
    TrustSwitch,
    Interface::Dcbnl,
    Blast::TrafficLoss,
    "the first DSCP entry switches what is trusted: all packets change their priority at once, and the network \
     device's channels may be opened anew",
    "pcp",
);
const ENTRY: Row = set(
    DscpEntry,
    Interface::Dcbnl,
    Blast::Hitless,
    "one register for each DSCP; packets under way may be overtaken once",
    "dscp / 8",
);
const PORT_ENTRY: Row = never(RocePort, Harmless, "the driver takes DSCP entries only");
const SHARES: Row = set(
    EtsShares,
    Interface::Dcbnl,
    Blast::Hitless,
    "the scheduler's weights change under traffic; no packet is dropped",
    "vendor's scheduling, no shares",
);
const MAP: Row = set(
    EtsMap,
    Interface::Dcbnl,
    Blast::Hitless,
    "packets of a priority that changes its class may be overtaken once",
    "priority n to class n, 0 and 1 swapped",
);
const RATE: Row =
    set(MaxRate, Interface::Dcbnl, Blast::Hitless, "the shaper changes under traffic", "no limit");
const PFC: Row = set(
    PfcMask,
    Interface::Dcbnl,
    Blast::LinkFlap,
    "the driver toggles the port's link whenever the mask of PFC changes",
    "none",
);
const DELAY: Row =
    set(PfcDelay, Interface::Dcbnl, Blast::Hitless, "the thresholds of the lossless buffer are moved", "7 m");
const BUFFER: Row = set(
    Buffer,
    Interface::Dcbnl,
    Blast::TrafficLoss,
    "buffers are laid out anew under traffic, and from then on by hand",
    "by the firmware",
);
const PREVENTION: Row = set(
    PfcPrevention,
    Interface::EthtoolTunable,
    Blast::Hitless,
    "a watchdog's time, no packet is touched",
    "automatic",
);
const CC_WHY: &str = "the rate limiter follows it at once; no packet is dropped";
const PARAM: Row = set(
    CcParam,
    Interface::File(FileRoot::Debugfs, "mlx5/{pci}/cc_params/{param}", None),
    Blast::Hitless,
    CC_WHY,
    "NVIDIA's DCQCN defaults",
);
const CNP_MODE: Row = set(
    CnpMode,
    Interface::File(FileRoot::Debugfs, "mlx5/{pci}/cc_params/{param}", None),
    Blast::Hitless,
    "CNPs that are sent afterwards have the priority that is set; writing that one makes the mode 0, so the mode is taken back after it",
    "",
);
const LLDP: Row = never(FirmwareLldp, Harmless, "the firmware's DCBX is governed by DCBX's mode");
const ROCE_DSCP: Row = never(RoceDscp, Harmless, "the device needs not be told");
const ROCE_PRIORITY: Row = never(RocePriority, Harmless, "the device needs not be told");

pub(super) static KERNEL: Vendor = Vendor {
    name: "mlx5",
    drivers: &["mlx5_core"],
    version: Version::Any,
    software: false,
    tool: Tool::Dcb,
    app: AppStyle::Replaces,
    trust: TrustStyle::FollowsEntries,
    dcbx: DCBX,
    delay: DelayMeaning::Metres,
    rates: RATES,
    data_classes_are_classes: false,
    starving_refused: false,
    one_cc_switch: false,
    roce_port_entry: false,
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
        never(ForcedTos, Harmless, "the kernel's driver forces no class; applications and RDMA-CM choose"),
        never(
            CcEnable,
            Matters,
            "the kernel's driver has no switch; the firmware's holds: 'mlxconfig -d {pci} query ROCE_CC_PRIO_MASK_P1' \
             has to have the lossless priority's bit (255 by default), and the counters np_cnp_sent and \
             rp_cnp_handled prove it",
        ),
        set(
            CnpDscp,
            Interface::File(FileRoot::Debugfs, "mlx5/{pci}/cc_params/np_cnp_dscp", None),
            Blast::Hitless,
            CC_WHY,
            "48",
        ),
        set(
            CnpPriority,
            Interface::File(FileRoot::Debugfs, "mlx5/{pci}/cc_params/np_cnp_prio", None),
            Blast::Hitless,
            "CNPs that are sent afterwards have it; writing it makes the priority a fixed one (np_cnp_prio_mode 0)",
            "6",
        ),
        CNP_MODE,
        ROCE_DSCP,
        ROCE_PRIORITY,
        PARAM,
    ],
};

pub(super) static PACKAGE: Vendor = Vendor {
    name: "mlx5-ofed",
    drivers: &["mlx5_core"],
    version: Version::Package(2),
    software: false,
    tool: Tool::MlnxQos,
    app: AppStyle::Replaces,
    trust: TrustStyle::FollowsEntries,
    dcbx: DCBX,
    delay: DelayMeaning::Metres,
    rates: RATES,
    data_classes_are_classes: false,
    starving_refused: false,
    one_cc_switch: false,
    roce_port_entry: false,
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
        set(
            ForcedTos,
            Interface::File(FileRoot::Sysfs, "class/infiniband/{rdma}/tc/{port}/traffic_class", None),
            Blast::Hitless,
            "queue pairs take it as they change their state; those that a device makes by itself do not",
            "not forced",
        ),
        set(
            CcEnable,
            Interface::File(FileRoot::Sysfs, "class/net/{netdev}/ecn/{end}/enable/{priority}", None),
            Blast::Hitless,
            CC_WHY,
            "on for all priorities",
        ),
        set(
            CnpDscp,
            Interface::File(FileRoot::Sysfs, "class/net/{netdev}/ecn/roce_np/cnp_dscp", None),
            Blast::Hitless,
            CC_WHY,
            "48",
        ),
        set(
            CnpPriority,
            Interface::File(FileRoot::Sysfs, "class/net/{netdev}/ecn/roce_np/cnp_802p_prio", None),
            Blast::Hitless,
            "CNPs that are sent afterwards have it",
            "6",
        ),
        CNP_MODE,
        ROCE_DSCP,
        ROCE_PRIORITY,
        PARAM,
    ],
};
