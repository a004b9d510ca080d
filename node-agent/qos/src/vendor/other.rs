//! RDMA in software, and drivers that nobody has described yet.

use super::row::{
    AppStyle,
    Aspect::{
        Buffer, CcEnable, CcParam, CnpDscp, CnpMode, CnpPriority, Dcbx, DscpEntry, EtsMap, EtsShares,
        FirmwareLldp, ForcedTos, MaxRate, Mtu, Pause, PfcDelay, PfcMask, PfcPrevention, RoceDscp, RocePort,
        RocePriority, Trust, TrustSwitch,
    },
    DcbxStyle, DelayMeaning, Interface, Tool, TrustStyle, Vendor, Version,
    Weight::{Harmless, Matters},
    mode, never, set, tos,
};
use crate::edit::Blast;

const DCBX: DcbxStyle = DcbxStyle {
    keeps_versions: false,
    zero_returns: false,
    firmwares_for_good: None,
    follows_firmware_lldp: false,
};
const SOFT: &str = "RDMA in software has no data classes of its own";

/// Soft-RoCE (`drivers/infiniband/sw/rxe`) and its like.
pub(super) static RXE: Vendor = Vendor {
    name: "rxe",
    drivers: &[],
    version: Version::Any,
    software: true,
    tool: Tool::Dcb,
    app: AppStyle::AddThenDelete,
    trust: TrustStyle::None,
    dcbx: DCBX,
    delay: DelayMeaning::Nothing,
    rates: &[],
    data_classes_are_classes: false,
    starving_refused: false,
    one_cc_switch: false,
    roce_port_entry: false,
    quirks: &[
        "the DSCP of a connection is in its packets, but this host neither sends nor obeys PFC or CNPs",
    ],
    rows: &[
        never(Dcbx, Harmless, SOFT),
        never(FirmwareLldp, Harmless, SOFT),
        set(Pause, Interface::EthtoolPause, Blast::LinkFlap, "the link may be negotiated anew", "off"),
        set(Mtu, Interface::Link, Blast::TrafficLoss, "queue pairs that exist keep their path MTU", "1500"),
        never(Trust, Harmless, SOFT),
        never(TrustSwitch, Harmless, SOFT),
        never(DscpEntry, Harmless, SOFT),
        never(RocePort, Harmless, SOFT),
        never(EtsShares, Harmless, SOFT),
        never(EtsMap, Harmless, SOFT),
        never(MaxRate, Harmless, SOFT),
        never(PfcMask, Matters, "RDMA in software has no PFC: packets are dropped where queues are full"),
        never(PfcDelay, Harmless, SOFT),
        never(Buffer, Harmless, SOFT),
        never(PfcPrevention, Harmless, SOFT),
        tos("0"),
        mode(),
        never(ForcedTos, Harmless, SOFT),
        never(CcEnable, Matters, "RDMA in software has no congestion control: marks are not answered"),
        never(CnpDscp, Harmless, "RDMA in software sends no CNPs"),
        never(CnpPriority, Harmless, "RDMA in software sends no CNPs"),
        never(CnpMode, Harmless, "RDMA in software sends no CNPs"),
        never(RoceDscp, Harmless, SOFT),
        never(RocePriority, Harmless, SOFT),
        never(CcParam, Harmless, "RDMA in software has no congestion control"),
    ],
};

const STRANGE: &str = "nothing is known of this driver, so the worst is assumed";
const STRANGE_CC: &str =
    "nothing is known of this driver's congestion control; see its vendor's documentation";

/// Any other: the kernel's common interfaces, and the worst is assumed.
pub(super) static UNKNOWN: Vendor = Vendor {
    name: "unknown",
    drivers: &[],
    version: Version::Any,
    software: false,
    tool: Tool::Dcb,
    app: AppStyle::AddThenDelete,
    trust: TrustStyle::Own,
    dcbx: DCBX,
    delay: DelayMeaning::Nothing,
    rates: &[],
    data_classes_are_classes: false,
    starving_refused: false,
    one_cc_switch: false,
    roce_port_entry: false,
    quirks: &[
        "this driver has no table: only the kernel's common interfaces are used, and the worst is assumed",
    ],
    rows: &[
        set(Dcbx, Interface::Dcbnl, Blast::TrafficLoss, STRANGE, ""),
        never(FirmwareLldp, Harmless, "nothing is known of such an agent"),
        set(Pause, Interface::EthtoolPause, Blast::LinkFlap, STRANGE, ""),
        set(Mtu, Interface::Link, Blast::TrafficLoss, STRANGE, "1500"),
        set(Trust, Interface::Dcbnl, Blast::TrafficLoss, STRANGE, ""),
        never(TrustSwitch, Harmless, "trust is set by itself"),
        set(DscpEntry, Interface::Dcbnl, Blast::TrafficLoss, STRANGE, ""),
        never(RocePort, Harmless, "nothing is known of such a need"),
        set(EtsShares, Interface::Dcbnl, Blast::TrafficLoss, STRANGE, ""),
        set(EtsMap, Interface::Dcbnl, Blast::TrafficLoss, STRANGE, ""),
        set(MaxRate, Interface::Dcbnl, Blast::TrafficLoss, STRANGE, ""),
        set(PfcMask, Interface::Dcbnl, Blast::TrafficLoss, STRANGE, ""),
        never(PfcDelay, Matters, "what this driver takes the delay of PFC for is not known"),
        set(Buffer, Interface::Dcbnl, Blast::TrafficLoss, STRANGE, ""),
        set(PfcPrevention, Interface::EthtoolTunable, Blast::TrafficLoss, STRANGE, ""),
        tos("0"),
        mode(),
        never(ForcedTos, Harmless, "nothing is known of such a thing"),
        never(CcEnable, Matters, STRANGE_CC),
        never(CnpDscp, Matters, STRANGE_CC),
        never(CnpPriority, Matters, STRANGE_CC),
        never(CnpMode, Matters, STRANGE_CC),
        never(RoceDscp, Harmless, "nothing is known of such a need"),
        never(RocePriority, Harmless, "nothing is known of such a need"),
        never(CcParam, Matters, STRANGE_CC),
    ],
};
