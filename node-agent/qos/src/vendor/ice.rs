//! Intel E800 (ice, irdma): the kernel's driver.
//!
//! Sources: Linux `drivers/net/ethernet/intel/ice/ice_dcb_nl.c`, `ice_dcb_lib.c`, `ice_ethtool.c`; Intel's flow
//! control guide for RDMA (document 635330).

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

const RESET: &str =
    "the driver closes the network device and opens it again, and RDMA is suspended meanwhile";
const CC: &str = "the kernel's driver has no switch; Intel's irdma package takes the module parameters dcqcn_enable and \
                  dcqcn_cc_cfg_valid when it is loaded";

pub(super) static KERNEL: Vendor = Vendor {
    name: "ice",
    drivers: &["ice"],
    version: Version::Any,
    software: false,
    tool: Tool::Dcb,
    app: AppStyle::DeleteThenAdd,
    trust: TrustStyle::FollowsEntriesAndResets,
    dcbx: DcbxStyle {
        keeps_versions: false,
        zero_returns: false,
        firmwares_for_good: None,
        follows_firmware_lldp: true,
    },
    delay: DelayMeaning::Nothing,
    rates: &[],
    data_classes_are_classes: true,
    starving_refused: false,
    one_cc_switch: false,
    roce_port_entry: false,
    quirks: &[
        "while the firmware's LLDP agent runs, every DCB set is refused",
        "where DSCP is trusted, the priority of an entry is a traffic class, priorities are classes one to one, and PFC's \
         mask is one of classes",
        "the first DSCP entry puts ETS back to 100 % for class 0; the last one that goes puts ETS and PFC back",
        "a second entry for a DSCP is refused: delete first, then add",
        "pause cannot be set while PFC is on",
        "at most four classes, one of them lossless, are supported by Intel",
    ],
    rows: &[
        set(
            Dcbx,
            Interface::Dcbnl,
            Blast::Hitless,
            "only who may set is changed; what holds stays",
            "the firmware's",
        ),
        set(FirmwareLldp, Interface::PrivateFlag("fw-lldp-agent"), Blast::TrafficLoss, RESET, "on"),
        set(Pause, Interface::EthtoolPause, Blast::LinkFlap, "the link is set up anew", "negotiated"),
        set(Mtu, Interface::Link, Blast::TrafficLoss, RESET, "1500"),
        never(
            Trust,
            Harmless,
            "it is not set by itself: it follows the DSCP entries of the application table",
        ),
        set(TrustSwitch, Interface::Dcbnl, Blast::TrafficLoss, RESET, "pcp"),
        set(DscpEntry, Interface::Dcbnl, Blast::TrafficLoss, RESET, "class dscp / 8"),
        never(RocePort, Harmless, "the driver takes DSCP entries only"),
        set(EtsShares, Interface::Dcbnl, Blast::TrafficLoss, RESET, "100 % for class 0"),
        set(EtsMap, Interface::Dcbnl, Blast::TrafficLoss, RESET, "all to class 0"),
        never(MaxRate, Harmless, "the driver has no such thing, so there is no limit"),
        set(PfcMask, Interface::Dcbnl, Blast::TrafficLoss, RESET, "none"),
        never(PfcDelay, Harmless, "the driver reads it from the device and does not set it"),
        never(Buffer, Harmless, "the firmware lays out its buffers by itself"),
        never(PfcPrevention, Matters, "the driver has no PFC storm prevention; the switch's has to do"),
        tos("0"),
        mode(),
        never(ForcedTos, Harmless, "the driver forces no class; applications and RDMA-CM choose"),
        never(CcEnable, Matters, CC),
        never(CnpDscp, Matters, CC),
        never(CnpPriority, Harmless, "it follows the DSCP of CNPs"),
        never(CnpMode, Harmless, "there is no such mode"),
        never(RoceDscp, Harmless, "the device needs not be told"),
        never(RocePriority, Harmless, "the device needs not be told"),
        never(CcParam, Matters, CC),
    ],
};
